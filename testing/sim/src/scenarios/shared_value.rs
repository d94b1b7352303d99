//! [`SharedValue`]: written whatever it is, or if it is the one that was seen; read behind everything that is committed; and
//! followed to the newest.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator_recipes::shared::{Error, SharedValue, ValueEvent, ValueWatch};

use super::Scenario;
use super::calling::{Caller, started};
use crate::checkers::{Doubts, Followed, Linearizable};
use crate::history::{Answer, Event, Name, Operation};
use crate::{Client, Failure};

const VALUE: &str = "/shared/value";
/// The time in which a follower is told the newest value when there are no more faults.
const LAG: Duration = Duration::from_secs(8);

pub(super) const SCENARIO: Scenario = Scenario::new(
    "shared_value",
    "SharedValue: one of two who have seen the same value replaces it",
    |client| Box::pin(work(client)),
)
.checked_by(|| vec![Arc::new(Linearizable::from(0)), Arc::new(Doubts), Arc::new(Followed::from(0))])
.operator(&["/shared/value/_r_*"])
.leaves(&["/shared", VALUE]);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let start = || SharedValue::<i64>::start(&zk, VALUE, &0);
    let Some(value) = started(&client, start).await else { return Ok(()) };
    let caller = Caller::new(&client, &zk, VALUE);
    let mut follower = Follower::of(&client, &value);
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        // No two values are equal.
        let new = i64::try_from(client.unique()).unwrap_or(i64::MAX);
        match rng.u8(..6) {
            0 => {
                read(&caller, &value).await;
            }
            1 => {
                let set = value.set(&new);
                let set = async { set.await.map(|()| Answer::Done) };
                caller.call(Operation::Set(new), set, Error::may_have_applied).await;
            }
            2 | 3 => {
                let most = client.moment(Duration::from_millis(500));
                client.maybe_cancel(timeout(most, follower.next())).await;
            }
            _ => {
                let Ok(Some(seen)) = value.get() else { continue };
                let operation = Operation::CompareAndSet { expected: seen.value, new };
                let set = value.try_set(&seen, &new);
                let set = async { set.await.map(|done| if done { Answer::Done } else { Answer::Differs }) };
                caller.call(operation, set, Error::may_have_applied).await;
            }
        }
    }
    client.faults_are_over().await;
    while !matches!(read(&caller, &value).await, Answer::Value(_)) {
        sleep(client.moment(Duration::from_millis(100))).await;
    }
    let newest = value.get()?.ok_or("there is no value")?.revision;
    while follower.told < newest {
        let told = timeout(LAG, follower.next()).await;
        told.map_err(|_| format!("a follower was told {:#x}, and not {newest:#x}", follower.told))?;
    }
    Ok(())
}

async fn read(caller: &Caller, value: &SharedValue<i64>) -> Answer {
    let read = async {
        value.cache().synced().await?;
        Ok(value.get()?.map_or(Answer::Failed, |value| Answer::Value(value.value)))
    };
    caller.call(Operation::Get, read, Error::may_have_applied).await
}

/// One who is told each new value.
struct Follower {
    client: Client,
    watch: ValueWatch<i64>,
    number: u64,
    /// The transaction of the last value that it was told.
    told: i64,
}

impl Follower {
    fn of(client: &Client, value: &SharedValue<i64>) -> Self {
        Self { client: client.clone(), watch: value.follow(), number: client.unique(), told: 0 }
    }

    /// Waits for one event.
    async fn next(&mut self) {
        if let Some(ValueEvent::Value(value)) = self.watch.next().await {
            self.told = value.revision;
            let (object, follower) = (Name::from(VALUE), self.number);
            let (value, revision) = (value.value, value.revision);
            self.client.record(Event::Followed { object, follower, value, revision });
        }
    }
}
