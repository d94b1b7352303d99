//! A set divided among members: each part has one owner, and changes move few parts.

mod bodies;
mod cancel;
mod faults;
mod moves;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use zk_curator::CuratorFramework;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::partition::{Error, Partition, SetPartitioner};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{self, spend};
use zk_curator_tests::{connected, server};

const PATH: &str = "/shards/orders";
const SECOND: Duration = Duration::from_secs(1);
/// Longer than the group takes to settle, and than bodies take to end.
const SETTLED: Duration = Duration::from_secs(20);

/// The members at work, by their parts, and the fencing tokens.
#[derive(Debug, Default)]
struct Board {
    owners: BTreeMap<String, String>,
    tokens: BTreeMap<String, i64>,
    /// The number of bodies that have begun.
    begun: usize,
}

/// A member that works on a part: until it is dropped.
struct AtWork {
    board: Arc<Mutex<Board>>,
    part: String,
}

impl AtWork {
    fn begin(board: &Arc<Mutex<Board>>, member: &str, part: &Partition) -> Self {
        let (name, token) = (part.name().to_owned(), part.fencing_token().get());
        let mut seen = board.lock().unwrap();
        let other = seen.owners.insert(name.clone(), member.to_owned());
        assert_eq!(other, None, "{member} works on {name}, too");
        let before = seen.tokens.insert(name.clone(), token);
        assert!(before.is_none_or(|before| before <= token), "{name} has an old token");
        seen.begun += 1;
        Self { board: Arc::clone(board), part: name }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.board.lock().unwrap().owners.remove(&self.part);
    }
}

/// A member that runs.
struct Running {
    zk: CuratorFramework,
    stop: Shutdown,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    async fn stop(self) {
        self.stop.begin();
        self.task.await.unwrap().unwrap();
    }

    fn abort(&self) {
        self.task.abort();
    }
}

/// A server, members, and what they work on.
struct Stage {
    server: TestServer,
    board: Arc<Mutex<Board>>,
}

impl Stage {
    async fn new() -> Self {
        Self { server: server().await, board: Arc::default() }
    }

    /// Starts a member in a process of its own, whose bodies take this long to end.
    async fn join(&self, id: &str, parts: usize, takes: Duration) -> Running {
        let zk = connected(&self.server).await;
        self.run(&zk, partitioner(&zk, id, parts), id, takes)
    }

    fn run(
        &self,
        zk: &CuratorFramework,
        partitioner: SetPartitioner,
        id: &str,
        takes: Duration,
    ) -> Running {
        let (stop, board, id) = (Shutdown::new(), Arc::clone(&self.board), id.to_owned());
        let shutdown = stop.clone().drain(10 * SECOND);
        let task = tokio::spawn(async move {
            let body = |part: Partition| {
                let at_work = AtWork::begin(&board, &id, &part);
                async move {
                    part.revoked().await;
                    spend(takes).await;
                    drop(at_work);
                    Ok::<_, String>(())
                }
            };
            partitioner.run(body).until(shutdown).await
        });
        Running { zk: zk.clone(), stop, task }
    }

    fn owners(&self) -> BTreeMap<String, String> {
        self.board.lock().unwrap().owners.clone()
    }

    fn begun(&self) -> usize {
        self.board.lock().unwrap().begun
    }

    /// The parts of each member.
    fn loads(&self) -> BTreeMap<String, usize> {
        let mut loads = BTreeMap::new();
        self.owners().into_values().for_each(|owner| *loads.entry(owner).or_default() += 1);
        loads
    }

    /// Waits until these members own these many parts.
    async fn until(&self, members: &[&str], parts: usize) -> BTreeMap<String, String> {
        let wanted: BTreeSet<&str> = members.iter().copied().collect();
        let settled = wait::until_some(async || {
            let owners = self.owners();
            let working: BTreeSet<&str> = owners.values().map(String::as_str).collect();
            (owners.len() == parts && working == wanted).then_some(owners)
        });
        let settled = timeout(3 * SETTLED, settled).await;
        settled.unwrap_or_else(|_| panic!("{:?}\n{}", self.loads(), self.server.probe()))
    }
}

fn names(parts: usize) -> impl Iterator<Item = String> {
    (0..parts).map(|part| format!("s{part}"))
}

fn partitioner(zk: &CuratorFramework, id: &str, parts: usize) -> SetPartitioner {
    SetPartitioner::new(zk, PATH, names(parts)).id(id)
}

fn moved(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> usize {
    before.iter().filter(|(part, owner)| after.get(*part) != Some(*owner)).count()
}
