//! [`SharedValue`]: written whatever it is, or if it is the one that was seen; and read behind everything that is committed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::shared::{Error, SharedValue};

use super::Scenario;
use crate::checkers::Linearizable;
use crate::history::{Answer, Event, Name, Operation};
use crate::{Client, Failure};

const VALUE: &str = "/shared/value";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "shared_value",
    "SharedValue: one of two who have seen the same value replaces it",
    |client| Box::pin(work(client)),
)
.checked_by(|| vec![Arc::new(Linearizable::from(0))])
.leaves(&["/shared", VALUE]);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let value: SharedValue<i64> = loop {
        match client.maybe_cancel(SharedValue::start(&zk, VALUE, &0)).await {
            Some(Ok(value)) => break value,
            _ if client.next_round().is_none() => return Ok(()),
            _ => sleep(client.moment(Duration::from_millis(100))).await,
        }
    };
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        // No two values are equal.
        let new = i64::try_from(client.unique()).unwrap_or(i64::MAX);
        match rng.u8(..4) {
            0 => read(&client, &value).await,
            1 => {
                let set = value.set(&new);
                call(&client, Operation::Set(new), async { set.await.map(|()| Answer::Done) }).await;
            }
            _ => {
                let Ok(Some(seen)) = value.get() else { continue };
                let expected = seen.value;
                let set = value.try_set(&seen, &new);
                let set = async { set.await.map(|done| if done { Answer::Done } else { Answer::Differs }) };
                call(&client, Operation::CompareAndSet { expected, new }, set).await;
            }
        }
    }
    client.faults_are_over().await;
    read(&client, &value).await;
    Ok(())
}

async fn read(client: &Client, value: &SharedValue<i64>) {
    let read = async {
        value.cache().synced().await?;
        Ok(value.get()?.map_or(Answer::Failed, |value| Answer::Value(value.value)))
    };
    call(client, Operation::Get, read).await;
}

/// Calls, and records the answer.
async fn call(client: &Client, operation: Operation, answer: impl Future<Output = Result<Answer, Error>>) {
    let (id, object) = (client.unique(), Name::from(VALUE));
    client.record(Event::Call { id, object, operation });
    let answer = match client.maybe_cancel(answer).await {
        Some(Ok(answer)) => answer,
        Some(Err(error)) if !error.may_have_applied() => Answer::Failed,
        _ => Answer::Unknown,
    };
    client.record(Event::Return { id, answer });
}
