//! [`InterProcessMultiLock`]: clients acquire some of four locks, in any order.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::{
    HandoverMutex, InterProcessLock, InterProcessMultiLock, InterProcessMutex, ReentrantMutex,
};

use super::Scenario;
use super::support::holding::{Attempt, Held, Pauses, acquire, ends, last_visit, write};
use crate::checkers::Exclusion;
use crate::history::HoldMode;
use crate::{Client, Failure};

const LOCKS: [&str; 4] =
    ["/accounts/a/lock", "/accounts/b/lock", "/accounts/c/lock", "/accounts/d/lock"];
const NODES: [&str; 4] = ["/data/a", "/data/b", "/data/c", "/data/d"];

/// Paths whose order depends on the trailing slash: `/accounts/a/` would sort differently from
/// `/accounts/a`.
const MIXED: [&str; 4] = ["/accounts/a", "/accounts/a-b", "/accounts/c", "/accounts/d"];

pub(super) const SCENARIO: Scenario = Scenario::new(
    "multi",
    "InterProcessMultiLock: two or three of four locks",
    &["acquisitions", "uses"],
    |sim| sim.workload(mutexes).checker(Exclusion::mutual()).nodes(NODES).sequences(LOCKS),
);

pub(super) const OF_ALL_KINDS: Scenario = Scenario::new(
    "multi_mixed",
    "InterProcessMultiLock: locks of several kinds and namespaces",
    &["acquisitions", "uses"],
    |sim| sim.workload(mixed).checker(Exclusion::handed_over()).nodes(NODES).sequences(MIXED),
);

async fn mutexes(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    transfer(client, LOCKS, |path| Arc::new(InterProcessMutex::new(&zk, path))).await
}

/// Runs two tasks of one process, which share as much as possible.
async fn mixed(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let passed = InterProcessMutex::new(&zk, MIXED[1]).local_batch(3, Duration::MAX);
    let again = ReentrantMutex::new(&zk, MIXED[2]);
    // The same node, by different paths.
    let first: Arc<dyn InterProcessLock> = match client.rng().u8(..3) {
        0 => Arc::new(InterProcessMutex::new(&zk.nested_namespace("accounts/a")?, "/")),
        1 => Arc::new(InterProcessMutex::new(&zk.nested_namespace("accounts")?, "/a")),
        _ => Arc::new(InterProcessMutex::new(&zk, MIXED[0])),
    };
    let tasks = [0, 1].map(|owner| {
        let (zk, passed, again, first) =
            (zk.clone(), passed.clone(), again.clone(), Arc::clone(&first));
        let lock = move |path: &'static str| lock_of(&zk, path, &passed, &again, owner, &first);
        client.spawn(transfer(client.clone(), MIXED, lock))
    });
    for task in tasks {
        if let Some(ended) = task.await {
            ended?;
        }
    }
    Ok(())
}

fn lock_of(
    zk: &CuratorFramework,
    path: &'static str,
    passed: &HandoverMutex,
    again: &ReentrantMutex<u32>,
    owner: u32,
    first: &Arc<dyn InterProcessLock>,
) -> Arc<dyn InterProcessLock> {
    match MIXED.iter().position(|lock| *lock == path) {
        Some(0) => Arc::clone(first),
        Some(1) => Arc::new(passed.clone()),
        Some(2) => Arc::new(again.for_owner(owner)),
        _ => Arc::new(InterProcessMutex::new(zk, path)),
    }
}

async fn transfer(
    client: Client,
    paths: [&'static str; 4],
    lock: impl Fn(&'static str) -> Arc<dyn InterProcessLock>,
) -> Result<(), Failure> {
    let mut rng = client.rng();
    let pauses = Pauses::of(&client);
    loop {
        let mut some = [0, 1, 2, 3];
        rng.shuffle(&mut some);
        let some = &some[..rng.usize(2..4)];
        let locks = InterProcessMultiLock::new(some.iter().map(|&number| lock(paths[number])));
        let mut some = some.to_vec();
        some.sort_unstable();
        let begin = |&number: &usize| Attempt::begin(&client, paths[number], HoldMode::Exclusive);
        let last = client.next_round().is_none();
        pauses.wait(&client).await;
        let attempts: Vec<Attempt<'_>> = some.iter().map(begin).collect();
        let guard = if last {
            last_visit(&client, locks.acquire()).await?
        } else {
            acquire(&client, locks.acquire(), locks.try_acquire()).await
        };
        if let Some(guard) = guard {
            let acquired = attempts.into_iter().zip(guard.guards());
            let held: Vec<Held<'_>> =
                acquired.map(|(attempt, guard)| attempt.acquired(guard.fencing_token())).collect();
            let nodes: Vec<(&Held<'_>, &str)> =
                held.iter().zip(some.iter().map(|&node| NODES[node])).collect();
            let work = async {
                for held in &held {
                    client.use_resource(held).await;
                }
                sleep(client.moment(client.session_timeout() / 10)).await;
                write(&client, &nodes, guard.fenced()).await;
            };
            tokio::select! {
                biased;
                () = guard.lost() => held.iter().for_each(Held::lost),
                () = work => {
                    held.iter().for_each(Held::releasing);
                    let released = ends(&client, guard.release()).await;
                    // Passing a lock on does not confirm the hold.
                    if released && paths == LOCKS {
                        held.iter().for_each(Held::released);
                    }
                }
            }
        }
        if last {
            return Ok(());
        }
    }
}
