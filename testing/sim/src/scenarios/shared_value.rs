//! [`SharedValue`]: clients write it unconditionally, or only if it has the seen value. They read
//! it after everything that is committed, and follow it to the newest value.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::CuratorFramework;
use zk_curator_recipes::shared::{Error, SharedValue, ValueEvent, ValueWatch};

use super::Scenario;
use super::support::calling::{Caller, started};
use super::support::patience::patiently;
use crate::checkers::{Doubts, Followed, Linearizable};
use crate::history::{Answer, Name, Operation, Shared};
use crate::{Client, Failure};

const VALUE: &str = "/shared/value";
/// The time in which a follower is notified of the newest value after the last fault.
const LAG: Duration = Duration::from_secs(8);
/// The approximate time of a write.
const IN_THE_MIDDLE: Duration = Duration::from_millis(20);

pub(super) const SCENARIO: Scenario = Scenario::new(
    "shared_value",
    "SharedValue: of two clients that saw the same value, one replaces it",
    &["responses", "values followed"],
    |sim| {
        sim.workload(work)
            .checker(Linearizable::from(0))
            .checker(Doubts)
            .checker(Followed::from(0))
            .operator(["/shared/value/_r_*"])
            .leaves(["/shared", VALUE])
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let start = || SharedValue::<i64>::open(&zk, VALUE, &0);
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
            2 if rng.bool() => leave(&client, &zk, new, rng.bool()).await?,
            2 | 3 => {
                let most = client.moment(Duration::from_millis(500));
                client.maybe_cancel(timeout(most, follower.next())).await;
            }
            _ => {
                let Ok(Some(seen)) = value.get() else { continue };
                let operation = Operation::CompareAndSet { expected: seen.value, new };
                let set = value.try_set(&seen, &new);
                let set = async {
                    set.await.map(|done| if done { Answer::Done } else { Answer::Differs })
                };
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
        if patiently(LAG, follower.next()).await.is_none() {
            let broken =
                format!("a follower was notified of {:#x}, and not {newest:#x}", follower.told);
            return Err(broken.into());
        }
    }
    Ok(())
}

/// Writes through a handle of its own. Its cache, or its whole framework, is closed during the
/// write.
async fn leave(
    client: &Client,
    zk: &CuratorFramework,
    new: i64,
    is_closed: bool,
) -> Result<(), Failure> {
    let zk = if is_closed { client.connect().await? } else { zk.clone() };
    let Some(Ok(value)) = client.maybe_cancel(SharedValue::<i64>::open(&zk, VALUE, &0)).await
    else {
        return Ok(());
    };
    let caller = Caller::new(client, &zk, VALUE);
    let cache = value.cache().clone();
    let set = async { value.set(&new).await.map(|()| Answer::Done) };
    let end = async {
        sleep(client.moment(IN_THE_MIDDLE)).await;
        if is_closed {
            // Nodes that the close could not delete end with the session.
            drop(zk.close().await);
        } else {
            cache.close().await;
        }
    };
    tokio::join!(biased; caller.call(Operation::Set(new), set, Error::may_have_applied), end);
    Ok(())
}

async fn read(caller: &Caller, value: &SharedValue<i64>) -> Answer {
    let read = async {
        value.cache().synced().await?;
        Ok(value.get()?.map_or(Answer::Failed, |value| Answer::Value(value.value)))
    };
    caller.call(Operation::Get, read, Error::may_have_applied).await
}

/// A follower of the value.
struct Follower {
    client: Client,
    watch: ValueWatch<i64>,
    number: u64,
    /// The transaction of the last value that the follower was notified of.
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
            self.client.record(Shared::Followed { object, follower, value, revision });
        }
    }
}
