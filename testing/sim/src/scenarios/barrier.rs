//! [`DistributedBarrier`]: some set it and remove it, others wait at it. It is judged as a number that is 1 while it is set:
//! whoever has waited has found it 0 at some moment since it came.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::barrier::{DistributedBarrier, Error};

use super::Scenario;
use crate::checkers::Linearizable;
use crate::history::{Answer, Event, Name, Operation};
use crate::{Client, Failure};

const BARRIER: &str = "/barriers/release";

pub(super) const SCENARIO: Scenario =
    Scenario::new("barrier", "DistributedBarrier: nobody passes while it is set", |client| {
        Box::pin(work(client))
    })
    .checked_by(|| vec![Arc::new(Linearizable::from(0).deleted_with(BARRIER, BARRIER))])
    .leaves(&[BARRIER])
    .operator(&[BARRIER]);

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

/// Sets it and removes it. In the end it is removed.
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

/// Waits at it, again and again.
async fn pass(client: &Client, barrier: &DistributedBarrier) {
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        call(client, Operation::Get, barrier.wait()).await;
    }
}

/// Calls, and says whether it is done.
async fn call(
    client: &Client,
    operation: Operation,
    answer: impl Future<Output = Result<(), Error>>,
) -> bool {
    let (id, object) = (client.unique(), Name::from(BARRIER));
    client.record(Event::Call { id, object, operation });
    let answer = match (client.maybe_cancel(answer).await, operation) {
        (Some(Ok(())), Operation::Get) => Answer::Value(0),
        (Some(Ok(())), _) => Answer::Done,
        (Some(Err(Error::Framework(error))), _) if !error.may_have_applied() => Answer::Failed,
        _ => Answer::Unknown,
    };
    client.record(Event::Return { id, answer });
    matches!(answer, Answer::Value(_) | Answer::Done)
}
