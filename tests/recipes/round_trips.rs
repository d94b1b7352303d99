//! The round trips of recipes: the servers are 1 ms away, in simulated time, so that 2 ms are one
//! round trip.

use std::collections::VecDeque;
use std::future::IntoFuture;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::BytesMut;
use futures_util::future::join;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split};
use tokio::sync::mpsc;
use tokio::time::Instant;
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_client::{Connector, Transport};
use zk_curator_recipes::barrier::DistributedDoubleBarrier;
use zk_curator_recipes::inspect::inspect;
use zk_curator_recipes::leader::LeaderLatch;
use zk_curator_recipes::lock::{
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
};
use zk_curator_recipes::queue::LockingQueue;
use zk_curator_recipes::two_phase::{Coordinator, Outcome, Site, Vote, sweep};
use zk_curator_testing::wait::{past, reached, spend};
use zk_curator_testing::{MemoryConnector, TestServer};
use zk_curator_tests::{
    builder, join_all, simulated, simulated_each_on, simulated_on, start, until,
};

const ONE_WAY: Duration = Duration::from_millis(1);
const LOCK: &str = "/locks/orders";
/// The number of clients in a contest, and of tasks in total.
const CLIENTS: usize = 5;
const TASKS: usize = 20;

/// A network in which everything takes its time.
#[derive(Debug)]
struct Distant(MemoryConnector);

#[async_trait]
impl Connector for Distant {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let (near, far) = duplex(1 << 20);
        let (far_read, far_write) = split(far);
        let (server_read, server_write) = split(self.0.connect(host, port).await?);
        tokio::spawn(carry(far_read, server_write));
        tokio::spawn(carry(server_read, far_write));
        Ok(Box::new(near))
    }
}

/// Carries bytes from one end to the other; each is on its way for the same time.
async fn carry(
    mut from: impl AsyncRead + Send + Unpin + 'static,
    mut to: impl AsyncWrite + Send + Unpin + 'static,
) {
    let (sender, mut under_way) = mpsc::unbounded_channel::<(Instant, BytesMut)>();
    tokio::spawn(async move {
        while let Some((arrives, bytes)) = under_way.recv().await {
            reached(arrives).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        drop(to.shutdown().await);
    });
    loop {
        let mut bytes = BytesMut::with_capacity(1 << 16);
        match from.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) if sender.send((Instant::now() + ONE_WAY, bytes)).is_err() => return,
            Ok(_) => {}
        }
    }
}

async fn distant(server: &TestServer) -> CuratorFramework {
    start(builder(server).connector(Arc::new(Distant(server.connector())))).await
}

/// The clients of a contest.
async fn clients(server: &TestServer) -> Vec<CuratorFramework> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(distant(server).await);
    }
    clients
}

/// Returns the number of round trips of a future.
async fn round_trips<T>(future: impl Future<Output = T>) -> (u128, T) {
    let began = Instant::now();
    let output = future.await;
    (began.elapsed().as_micros().div_ceil(2 * ONE_WAY.as_micros()), output)
}

#[test]
fn a_free_lock_takes_one_flight_and_its_release_one_or_none() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = distant(&server).await;
        let mutex = InterProcessMutex::new(&zk, LOCK);
        // The first time the parents are made.
        mutex.acquire().await.unwrap().release().await.unwrap();
        let (count, guard) = round_trips(mutex.acquire()).await;
        assert_eq!(count, 1);
        assert_eq!(round_trips(guard.unwrap().release()).await.0, 1);
        // Left to the drop, it costs no time: the next acquire comes right behind it.
        drop(mutex.acquire().await.unwrap());
        assert_eq!(round_trips(mutex.try_acquire()).await.0, 1);

        let lock = InterProcessReadWriteLock::new(&zk, "/locks/shared");
        drop(lock.read_lock().acquire().await.unwrap());
        let (count, _one) = round_trips(lock.read_lock().acquire()).await;
        assert_eq!(count, 1);
        let (count, two) = round_trips(lock.read_lock().acquire()).await;
        assert_eq!(count, 1, "among readers");
        drop(two.unwrap());
        past(ONE_WAY * 2).await;
    });
}

#[test]
fn a_free_lease_takes_two_flights() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = distant(&server).await;
        let semaphore = InterProcessSemaphore::new(&zk, LOCK, 2);
        semaphore.acquire().await.unwrap().release().await.unwrap();
        let (count, lease) = round_trips(semaphore.acquire()).await;
        assert_eq!(count, 2);
        assert_eq!(round_trips(lease.unwrap().release()).await.0, 1);
    });
}

/// From the release to the next holder there is one round trip, whichever client is next: Curator
/// takes two.
#[test]
fn a_hand_over_among_many_takes_one_flight() {
    simulated_on(TestServer::in_memory, async |server| {
        let clients = clients(&server).await;
        let gate = InterProcessMutex::new(&clients[0], LOCK).acquire().await.unwrap();
        let (sender, mut holders) = mpsc::unbounded_channel();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let (lock, sender) =
                (InterProcessMutex::new(&clients[task % CLIENTS], LOCK), sender.clone());
            tasks.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                let acquired = Instant::now();
                // Long enough for the others to list in advance.
                spend(ONE_WAY * 10).await;
                sender.send((acquired, Instant::now())).unwrap();
                drop(guard);
            });
        }
        until(&server, |probe| probe.children(LOCK).len() == TASKS + 1).await;
        past(ONE_WAY * 10).await;
        let mut released = Instant::now();
        drop(gate);
        for _ in 0..TASKS {
            let (acquired, next) = holders.recv().await.unwrap();
            assert_eq!(acquired - released, ONE_WAY * 2);
            released = next;
        }
        tasks.join_all().await;
    });
}

/// From the moment a leader leaves until the next one leads there is one round trip: Curator takes
/// two.
#[test]
fn a_fail_over_of_leaders_takes_one_flight() {
    simulated_on(TestServer::in_memory, async |server| {
        let clients = clients(&server).await;
        let latch = |task: usize| LeaderLatch::new(&clients[task % CLIENTS], LOCK);
        let mut candidates = VecDeque::new();
        for task in 0..TASKS {
            candidates.push_back(latch(task).join());
            until(&server, |probe| probe.children(LOCK).len() == task + 1).await;
        }
        candidates[0].await_leadership().await.unwrap();
        for _ in 1..TASKS {
            // Long enough for the next but one to look ahead.
            past(ONE_WAY * 10).await;
            drop(candidates.pop_front());
            assert_eq!(round_trips(candidates[0].await_leadership()).await.0, 1);
        }
    });
}

/// One flight to give the turn on, and one to create the lease and look: grants are serial, as
/// Curator's are, with two round trips instead of five.
#[test]
fn a_contended_lease_takes_two_flights() {
    simulated_on(TestServer::in_memory, async |server| {
        let clients = clients(&server).await;
        // There is always a lease to be had, so that only the order of grants is waited for.
        let semaphore = |task| InterProcessSemaphore::new(&clients[task % CLIENTS], LOCK, 1000);
        semaphore(0).acquire().await.unwrap().release().await.unwrap();
        let mut leases = tokio::task::JoinSet::new();
        let began = Instant::now();
        for task in 0..TASKS {
            let semaphore = semaphore(task);
            leases.spawn(async move { semaphore.acquire().await.unwrap() });
        }
        let leases = leases.join_all().await;
        let round_trips =
            began.elapsed().as_micros() as f64 / (2 * ONE_WAY).as_micros() as f64 / TASKS as f64;
        assert_eq!(round_trips, 2.0, "for a grant");
        drop(leases);
    });
}

/// A listing, and all participants together. If numbers do not show the order, the ages are read
/// first.
#[test]
fn participants_are_read_in_two_flights() {
    let cases = [(0, 2), (i32::MAX - 5, 3)];
    simulated_each_on(cases, TestServer::in_memory, async |(sequence, expected), server| {
        let zk = distant(&server).await;
        zk.create_containers("/lock").await.unwrap();
        server.set_sequence("/lock", sequence).unwrap();
        for _ in 0..20 {
            zk.create("/lock/lock-")
                .mode(CreateMode::EphemeralSequential)
                .protected()
                .await
                .unwrap();
        }
        let lock = InterProcessMutex::new(&zk, "/lock");
        let (count, participants) = round_trips(lock.participants()).await;
        let participants = participants.unwrap();
        assert_eq!((count, participants.len()), (expected, 20));
        assert!(participants.is_sorted_by_key(|participant| participant.fencing_token));
    });
}

/// Eight members whose round begins, and ends, when all arrive at the same time.
#[test]
fn a_round_of_a_double_barrier_takes_six_flights_at_most() {
    simulated(async {
        const MEMBERS: usize = 8;
        let server = TestServer::in_memory().await;
        let mut barriers = Vec::new();
        for _ in 0..MEMBERS {
            let zk = distant(&server).await;
            barriers.push(DistributedDoubleBarrier::new(&zk, "/barriers/sort", MEMBERS));
        }
        let round = async |barrier: &DistributedDoubleBarrier| {
            let round = barrier.enter().await.unwrap();
            round.leave().await.unwrap();
        };
        // The first time the parents are made.
        join_all(barriers.iter().map(round)).await;
        for _ in 0..20 {
            let (count, _) = round_trips(join_all(barriers.iter().map(round))).await;
            assert!(count <= 6, "{count} round_trips");
        }
    });
}

/// The begin, the joins, the votes, the decision, and the read of it: however many sites there are.
#[test]
fn a_two_phase_commit_takes_five_flights() {
    simulated_each_on([3, 10], TestServer::in_memory, async |sites, server| {
        let coordinates = distant(&server).await;
        let mut clients = Vec::new();
        for site in 0..sites {
            clients.push((distant(&server).await, format!("site-{site}")));
        }
        let commit = async |path: &str| {
            let names = clients.iter().map(|(_, name)| name);
            let mut coordinator =
                Coordinator::begin(&coordinates, path, names, "order").await.unwrap();
            let site = async |(zk, name): &(CuratorFramework, String)| {
                let mut site = Site::join(zk, path, name).await.unwrap();
                site.vote(Vote::Commit).await.unwrap();
                assert_eq!(site.outcome().await.unwrap(), Outcome::Committed);
            };
            let (outcome, _) =
                join(coordinator.outcome(), join_all(clients.iter().map(site))).await;
            assert_eq!(outcome.unwrap(), Outcome::Committed);
        };
        // The first time the parents are made.
        commit("/transactions/first").await;
        for path in ["/transactions/second", "/transactions/third"] {
            assert_eq!(round_trips(commit(path)).await.0, 5, "{sites} sites");
        }
    });
}

/// Six round trips for each of the 32 that are swept together, and one for the listing: a sweeper
/// keeps up with the coordinators.
#[test]
fn a_sweep_removes_32_transactions_in_the_flights_of_one() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = distant(&server).await;
        for count in [1, 32, 64] {
            for number in 0..count {
                let path = format!("/transactions/t{number}");
                Coordinator::begin(&zk, &path, ["only"], "").await.unwrap();
                let mut site = Site::join(&zk, &path, "only").await.unwrap();
                site.vote(Vote::Abort).await.unwrap();
                site.acknowledge().await.unwrap();
            }
            let (took, swept) = round_trips(sweep(&zk, "/transactions").into_future()).await;
            assert_eq!(swept.unwrap().len(), count);
            assert_eq!(took, 1 + 6 * count.div_ceil(32) as u128, "{count} transactions");
        }
    });
}

#[test]
fn an_inspection_takes_a_flight_for_each_level() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = distant(&server).await;
        let _held = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let _lease = InterProcessSemaphore::new(&zk, "/s", 1).acquire().await.unwrap();
        let queue = LockingQueue::new(&zk, "/queue");
        queue.put_all(["item"; 40]).await.unwrap();
        let _item = queue.consumer().next().await.unwrap();
        for (path, expected) in [(LOCK, 2), ("/s", 3), ("/queue", 6)] {
            let (count, finding) = round_trips(inspect(&zk, path)).await;
            assert_eq!((count, finding.unwrap().holders.len()), (expected, 1), "{path}");
        }
    });
}
