//! [`DistributedAtomicLong`]: several tasks of each process add, set, compare and read. Judged as one number.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::counter::{DistributedAtomicLong, Error, PromotedToLock};

use super::Scenario;
use crate::checkers::Linearizable;
use crate::history::{Answer, Event, Name, Operation};
use crate::{Client, Failure};

const COUNTER: &str = "/counters/orders";

pub(super) const SCENARIO: Scenario =
    Scenario::new("counter", "DistributedAtomicLong: applied once or not at all", |client| {
        Box::pin(work(client))
    })
    .checked_by(|| vec![Arc::new(Linearizable::from(0))])
    .leaves(&["/counters", COUNTER, "/counters/lock"]);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let mut counter = DistributedAtomicLong::builder(&zk, COUNTER);
    if rng.u8(..4) == 0 {
        counter = counter.without_receipts();
    }
    if rng.bool() {
        let lock = PromotedToLock::new("/counters/lock", Duration::from_secs(1));
        counter = counter.optimistic_tries(2).promoted_to_lock(lock);
    }
    let counter = counter.build();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        let first = call(&client, &counter, operation(&mut rng));
        if rng.bool() {
            first.await;
        } else {
            let (second, third) = (operation(&mut rng), operation(&mut rng));
            tokio::join!(biased; first, call(&client, &counter, second), call(&client, &counter, third));
        }
    }
    client.faults_are_over().await;
    call(&client, &counter, Operation::Get).await;
    Ok(())
}

fn operation(rng: &mut fastrand::Rng) -> Operation {
    match rng.u8(..8) {
        0 => Operation::Get,
        1 => Operation::Set(rng.i64(0..3)),
        2 => Operation::CompareAndSet { expected: rng.i64(0..6), new: rng.i64(0..6) },
        3 => Operation::Add(-1),
        _ => Operation::Add(1),
    }
}

/// Calls, and records the answer.
async fn call(client: &Client, counter: &DistributedAtomicLong, operation: Operation) {
    let (id, object) = (client.unique(), Name::from(COUNTER));
    client.record(Event::Call { id, object, operation });
    let answer = client.maybe_cancel(perform(counter, operation)).await;
    let answer = match answer {
        Some(Ok(answer)) => answer,
        Some(Err(error)) if !error.may_have_applied() => Answer::Failed,
        _ => Answer::Unknown,
    };
    client.record(Event::Return { id, answer });
}

async fn perform(counter: &DistributedAtomicLong, operation: Operation) -> Result<Answer, Error> {
    Ok(match operation {
        Operation::Get => Answer::Value(counter.get().await?),
        Operation::Set(value) => counter.set(value).await.map(|_| Answer::Done)?,
        Operation::Add(delta) => Answer::Value(counter.add(delta).await?.post),
        Operation::CompareAndSet { expected, new } => match counter.compare_and_set(expected, new).await? {
            Ok(_) => Answer::Done,
            Err(_) => Answer::Differs,
        },
    })
}
