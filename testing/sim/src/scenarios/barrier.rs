//! [`DistributedBarrier`]: some clients set and remove it, and others wait at it. The barrier is
//! judged as a number that is 1 while it is set: a waiter that has passed must have found it 0 at
//! some moment since it arrived.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::barrier::{DistributedBarrier, Error};

use super::Scenario;
use crate::checkers::Linearizable;
use crate::history::{Answer, Name, Operation, Shared};
use crate::{Client, Failure};

const BARRIER: &str = "/barriers/release";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "barrier",
    "DistributedBarrier: no waiter passes while it is set",
    &["responses"],
    |sim| {
        sim.workload(work)
            .checker(Linearizable::from(0).deleted_with(BARRIER, BARRIER))
            .leaves([BARRIER])
            .operator([BARRIER])
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let barrier = DistributedBarrier::new(&zk, BARRIER).label(client.who().to_string());
    if client.number().is_multiple_of(2) {
        keep(&client, &barrier).await;
    } else {
        pass(&client, &barrier).await;
    }
    Ok(())
}

/// Sets and removes the barrier. At the end it is removed.
async fn keep(client: &Client, barrier: &DistributedBarrier) {
    while client.next_round().is_some() {
        call(client, Operation::Set(1), barrier.set()).await;
        sleep(client.moment(Duration::from_millis(200))).await;
        call(client, Operation::Set(0), barrier.remove()).await;
        sleep(client.moment(Duration::from_millis(50))).await;
    }
    client.faults_are_over().await;
    while !call(client, Operation::Set(0), barrier.remove()).await {
        sleep(client.moment(Duration::from_millis(100))).await;
    }
}

/// Waits at the barrier repeatedly.
async fn pass(client: &Client, barrier: &DistributedBarrier) {
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        call(client, Operation::Get, barrier.wait()).await;
    }
}

/// Calls, and returns `true` if the call succeeded.
async fn call(
    client: &Client,
    operation: Operation,
    answer: impl Future<Output = Result<(), Error>>,
) -> bool {
    let (id, object) = (client.unique(), Name::from(BARRIER));
    client.record(Shared::Call { id, object, operation });
    let answer = match (client.maybe_cancel(answer).await, operation) {
        (Some(Ok(())), Operation::Get) => Answer::Value(0),
        (Some(Ok(())), _) => Answer::Done,
        (Some(Err(Error::Framework(error))), _) if !error.may_have_applied() => Answer::Failed,
        _ => Answer::Unknown,
    };
    client.record(Shared::Return { id, answer });
    matches!(answer, Answer::Value(_) | Answer::Done)
}
