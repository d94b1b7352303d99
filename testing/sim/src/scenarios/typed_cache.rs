//! [`TypedCache`]: processes modify and replace a number through caches of their own. The number is
//! judged as one object, so no modification is lost. A put is visible when it returns.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{CuratorFramework, Error, ErrorKind};
use zk_curator_recipes::cache::{CuratorCache, TypedCache};

use super::Scenario;
use super::support::calling::{Caller, started};
use crate::checkers::Linearizable;
use crate::history::{Answer, Operation};
use crate::{Client, Failure};

const PARENT: &str = "/typed";
const NUMBER: &str = "/typed/number";
/// The distance between set values, so that sums cannot reach another one.
const APART: i64 = 1_000_000;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "typed_cache",
    "TypedCache: no modification is lost, and a put is visible when it returns",
    &["responses"],
    |sim| sim.workload(work).checker(Linearizable::from(0)).leaves([PARENT, NUMBER]),
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    if started(&client, || create(&zk)).await.is_none() {
        return Ok(());
    }
    let mut rng = client.rng();
    let cache = CuratorCache::children(&zk, PARENT).start();
    let user = User {
        client: client.clone(),
        caller: Caller::new(&client, &zk, NUMBER).proven(false),
        cache: cache.typed(),
    };
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            user.ask().await;
        } else {
            tokio::join!(biased; user.ask(), user.ask());
        }
    }
    client.faults_are_over().await;
    while !matches!(user.call(Operation::Get).await, Answer::Value(_)) {
        sleep(client.moment(Duration::from_millis(100))).await;
    }
    drop(user);
    cache.close().await;
    Ok(())
}

/// Creates the number, unless another process has.
async fn create(zk: &CuratorFramework) -> Result<(), Error> {
    match zk.typed::<i64>().create(NUMBER, &0).await {
        Err(error) if error.kind() != ErrorKind::NodeExists => Err(error),
        _ => Ok(()),
    }
}

/// A process, and its cache.
struct User {
    client: Client,
    caller: Caller,
    cache: TypedCache<i64>,
}

impl User {
    /// Calls a random operation.
    async fn ask(&self) {
        let operation = match self.client.rng().u8(..8) {
            0 => Operation::Get,
            1 => {
                let number = i64::try_from(self.client.unique()).unwrap_or(i64::MAX);
                Operation::Set(number.saturating_mul(APART))
            }
            2 => Operation::Add(1_000),
            _ => Operation::Add(1),
        };
        self.call(operation).await;
    }

    async fn call(&self, operation: Operation) -> Answer {
        self.caller.call(operation, self.perform(operation), Error::may_have_applied).await
    }

    async fn perform(&self, operation: Operation) -> Result<Answer, Error> {
        Ok(match operation {
            Operation::Get => {
                self.cache.cache().synced().await?;
                self.shown().map_or(Answer::Failed, |(_, value)| Answer::Value(value))
            }
            Operation::Set(value) => {
                let stat = self.cache.put(NUMBER, &value).await?;
                let shown = self.shown();
                assert!(
                    shown.is_some_and(|(mzxid, _)| mzxid >= stat.mzxid),
                    "a put of {:#x} returned, and the cache shows {shown:?}",
                    stat.mzxid
                );
                Answer::Done
            }
            Operation::Add(delta) => {
                let node = self.cache.modify(NUMBER, move |value| value + delta).await?;
                Answer::Value(node.value)
            }
            Operation::CompareAndSet { .. } => Answer::Failed,
        })
    }

    /// Returns the transaction and the value that the cache shows.
    fn shown(&self) -> Option<(i64, i64)> {
        let node = self.cache.get(NUMBER).present()?;
        Some((node.node.stat.mzxid, *node.value.ok()?))
    }
}
