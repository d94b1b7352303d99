//! [`config`](zk_curator_recipes::config): clients replace two values at a time, with and without
//! conditions, roll back, and follow. The two values are the same in every update, so a client that
//! sees different values has seen half of an update. After the last fault, every follower must end
//! with the newest update.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator_recipes::config::{ConfigStore, ConfigWatch, Error, Revision, Snapshot, Update};

use super::Scenario;
use crate::checkers::Linearizable;
use crate::history::{Answer, Name, Operation, Shared};
use crate::{Client, Failure};

/// The store whose updates are never rolled back, so that each value is unique.
const FORWARD: &str = "/config/forward";
/// The store whose updates are rolled back.
const BACK: &str = "/config/back";
const KEYS: [&str; 2] = ["left", "right.half"];
/// The number of kept updates, small enough that a slow reader has to begin again now and then.
const KEPT: u32 = 4;
/// The number of actions in a round.
const ACTS: usize = 4;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "config",
    "configuration: updates are seen whole, in one order, and the newest last",
    &["responses"],
    |sim| {
        sim.workload(work)
            .checker(Linearizable::from(0))
            .leaves(["/config", "/config/**"])
            .operator(["/config/*/history/*"])
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let store = |path| ConfigStore::new(&zk, path).kept(KEPT);
    let (forward, back) = (store(FORWARD), store(BACK));
    let mut followers = [Follower::of(&forward), Follower::of(&back)];
    let mut past = Past::default();
    let mut rng = client.rng();
    while client.next_round().is_some() {
        for _ in 0..ACTS {
            sleep(client.moment(Duration::from_millis(50))).await;
            match rng.u8(..8) {
                0 | 1 => drop(read(&client, &forward).await?),
                2 | 3 => {
                    if let Some(seen) = read(&client, &forward).await? {
                        replace(&client, &forward, seen).await;
                    }
                }
                4 => set(&client, &forward).await,
                5 => go_back(&client, &back, &mut past).await?,
                _ => {
                    let follower = &mut followers[rng.usize(..2)];
                    let most = client.moment(Duration::from_millis(500));
                    if let Some(Ok(told)) =
                        client.maybe_cancel(timeout(most, follower.next())).await
                    {
                        told?;
                    }
                }
            }
        }
    }
    client.faults_are_over().await;
    for (store, mut follower) in [forward, back].iter().zip(followers) {
        follower.ends_with_the_newest(store).await?;
    }
    Ok(())
}

/// Returns the value of both keys, which must be the same.
fn whole(snapshot: &Snapshot) -> Result<Option<i64>, Failure> {
    let [left, right] = KEYS.map(|key| snapshot.get::<i64>(key));
    let (left, right) = (left?, right?);
    if left == right {
        Ok(left)
    } else {
        Err(format!(
            "half of an update was seen: {left:?} and {right:?} at {}",
            snapshot.revision()
        )
        .into())
    }
}

/// Returns the possible effect of a failed operation.
fn answer(error: &Error) -> Answer {
    if error.may_have_applied() { Answer::Unknown } else { Answer::Failed }
}

/// A call of the pair of values.
struct Call<'a> {
    client: &'a Client,
    id: u64,
}

impl<'a> Call<'a> {
    fn new(client: &'a Client, operation: Operation) -> Self {
        let id = client.unique();
        client.record(Shared::Call { id, object: Name::from("pair"), operation });
        Self { client, id }
    }

    fn answered(self, answer: Answer) {
        self.client.record(Shared::Return { id: self.id, answer });
    }
}

async fn read(client: &Client, store: &ConfigStore) -> Result<Option<Snapshot>, Failure> {
    let call = Call::new(client, Operation::Get);
    let Some(Ok(snapshot)) = client.maybe_cancel(store.snapshot()).await else {
        call.answered(Answer::Failed);
        return Ok(None);
    };
    let value = whole(&snapshot)?.unwrap_or(0);
    call.answered(Answer::Value(value));
    Ok(Some(snapshot))
}

/// Replaces the seen values if they are still current.
async fn replace(client: &Client, store: &ConfigStore, seen: Snapshot) {
    let Ok(expected) = whole(&seen) else { return };
    let (expected, new) = (expected.unwrap_or(0), number(client));
    let call = Call::new(client, Operation::CompareAndSet { expected, new });
    let revision = seen.entry(KEYS[0]).map(|entry| entry.revision);
    let update = both(store, new);
    call.answered(
        match client.maybe_cancel(update.if_revision(KEYS[1], revision).commit()).await {
            Some(Ok(_)) => Answer::Done,
            Some(Err(Error::Conflict { .. })) => Answer::Differs,
            Some(Err(error)) => answer(&error),
            None => Answer::Unknown,
        },
    );
}

async fn set(client: &Client, store: &ConfigStore) {
    let new = number(client);
    let call = Call::new(client, Operation::Set(new));
    call.answered(match client.maybe_cancel(both(store, new).commit()).await {
        Some(Ok(_)) => Answer::Done,
        Some(Err(error)) => answer(&error),
        None => Answer::Unknown,
    });
}

fn both(store: &ConfigStore, new: i64) -> Update {
    KEYS.iter().fold(store.update(), |update, key| update.set(*key, new))
}

fn number(client: &Client) -> i64 {
    i64::try_from(client.unique()).unwrap_or(i64::MAX)
}

/// The values that were seen at each revision.
#[derive(Default)]
struct Past(BTreeMap<Revision, Option<i64>>);

/// Makes an update, or rolls back to a kept one.
async fn go_back(client: &Client, store: &ConfigStore, past: &mut Past) -> Result<(), Failure> {
    if let Some(Ok(now)) = client.maybe_cancel(store.snapshot()).await {
        let value = whole(&now)?;
        if let Some(before) = past.0.insert(now.revision(), value)
            && before != value
        {
            return Err(format!("{before:?} and {value:?} at {}", now.revision()).into());
        }
    }
    let mut rng = client.rng();
    let nth = rng.usize(..past.0.len().max(1));
    match past.0.iter().nth(nth) {
        Some((to, value)) if rng.bool() => {
            let (to, value) = (*to, *value);
            if let Some(Ok(made)) = client.maybe_cancel(store.roll_back(to)).await {
                past.0.insert(made, value);
            }
        }
        _ => {
            let new = number(client);
            if let Some(Ok(made)) = client.maybe_cancel(both(store, new).commit()).await {
                past.0.insert(made, Some(new));
            }
        }
    }
    Ok(())
}

/// A follower of a store.
struct Follower {
    watch: ConfigWatch,
    told: Option<Snapshot>,
}

impl Follower {
    fn of(store: &ConfigStore) -> Self {
        Self { watch: store.follow(), told: None }
    }

    async fn next(&mut self) -> Result<(), Failure> {
        let now = match self.watch.next().await {
            Ok(now) => now,
            // The call may be repeated.
            Err(Error::Busy { .. }) => return Ok(()),
            Err(Error::Framework(error)) if error.is_retryable() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        whole(&now)?;
        let last = self.told.as_ref().map(Snapshot::revision);
        if last.is_some_and(|last| last >= now.revision()) {
            return Err(format!("{last:?} was notified before {}", now.revision()).into());
        }
        self.told = Some(now);
        Ok(())
    }

    async fn ends_with_the_newest(&mut self, store: &ConfigStore) -> Result<(), Failure> {
        let newest = store.snapshot().await?;
        let set = |snapshot: &Snapshot| snapshot.entry(KEYS[0]).map(|entry| entry.revision);
        while self.told.as_ref().is_none_or(|told| set(told) < set(&newest)) {
            self.next().await?;
        }
        match &self.told {
            Some(told) if set(told) == set(&newest) && told.entries() != newest.entries() => {
                Err(format!("{told:?} is not {newest:?}").into())
            }
            _ => Ok(()),
        }
    }
}
