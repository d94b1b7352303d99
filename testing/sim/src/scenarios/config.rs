//! [`config`](zk_curator_recipes::config): clients replace two values at a time, with and without conditions, go back, and
//! follow. The two are the same in every update, so whoever sees different ones has seen half of one. When there are no more
//! faults everybody who follows has to end with the newest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator_recipes::config::{ConfigStore, ConfigWatch, Error, Revision, Snapshot, Update};

use super::Scenario;
use crate::checkers::Linearizable;
use crate::history::{Answer, Event, Name, Operation};
use crate::{Client, Failure};

/// Where values are never put back, so that each is the only one of its kind.
const FORWARD: &str = "/config/forward";
/// Where they are.
const BACK: &str = "/config/back";
const KEYS: [&str; 2] = ["left", "right.half"];
/// As many as make a slow reader begin anew now and then.
const KEPT: u32 = 4;
/// So many things are done in a round.
const ACTS: usize = 4;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "config",
    "configuration: updates are seen whole, in one order, and the newest last",
    |client| Box::pin(work(client)),
)
.checked_by(|| vec![Arc::new(Linearizable::from(0))])
.leaves(&["/config", "/config/**"])
.operator(&["/config/*/history/*"]);

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
                    if let Some(Ok(told)) = client.maybe_cancel(timeout(most, follower.next())).await {
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

/// Both values, which have to be the same.
fn whole(snapshot: &Snapshot) -> Result<Option<i64>, Failure> {
    let [left, right] = KEYS.map(|key| snapshot.get::<i64>(key));
    let (left, right) = (left?, right?);
    if left == right {
        Ok(left)
    } else {
        Err(format!("half of an update was seen: {left:?} and {right:?} at {}", snapshot.revision()).into())
    }
}

/// What an operation that has failed may have done.
fn answer(error: &Error) -> Answer {
    if error.may_have_applied() { Answer::Unknown } else { Answer::Failed }
}

/// Calls the pair of values.
struct Call<'a> {
    client: &'a Client,
    id: u64,
}

impl<'a> Call<'a> {
    fn new(client: &'a Client, operation: Operation) -> Self {
        let id = client.unique();
        client.record(Event::Call { id, object: Name::from("pair"), operation });
        Self { client, id }
    }

    fn answered(self, answer: Answer) {
        self.client.record(Event::Return { id: self.id, answer });
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

/// Replaces what was seen, if that is still there.
async fn replace(client: &Client, store: &ConfigStore, seen: Snapshot) {
    let Ok(expected) = whole(&seen) else { return };
    let (expected, new) = (expected.unwrap_or(0), number(client));
    let call = Call::new(client, Operation::CompareAndSet { expected, new });
    let revision = seen.entry(KEYS[0]).map(|entry| entry.revision);
    let update = both(store, new);
    call.answered(match client.maybe_cancel(update.if_revision(KEYS[1], revision).commit()).await {
        Some(Ok(_)) => Answer::Done,
        Some(Err(Error::Conflict { .. })) => Answer::Differs,
        Some(Err(error)) => answer(&error),
        None => Answer::Unknown,
    });
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

/// What was seen at revisions.
#[derive(Default)]
struct Past(BTreeMap<Revision, Option<i64>>);

/// Makes an update, or goes back to before one of those that are kept.
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

/// One who follows a store.
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
            // It may be asked again.
            Err(Error::Busy { .. }) => return Ok(()),
            Err(Error::Framework(error)) if error.is_retryable() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        whole(&now)?;
        let last = self.told.as_ref().map(Snapshot::revision);
        if last.is_some_and(|last| last >= now.revision()) {
            return Err(format!("{last:?} was told before {}", now.revision()).into());
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
