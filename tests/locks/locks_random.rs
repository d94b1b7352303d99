//! All locks under random faults in simulated time: a seed decides which messages are lost or
//! delayed, which connections are cut, which sessions expire, and which futures are dropped.
//! Whatever happens, no two hold the lock that must not, and fenced writes are in the order of
//! their tokens.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;
use zk_curator::retry::ExponentialBackoffRetry;
use zk_curator::{CuratorFramework, ErrorKind, FencingToken, Ownership};
use zk_curator_recipes::lock::{
    Error, HandoverMutex, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, InterProcessSemaphoreMutex, ReadGuard, RevocableReadWriteLock,
    WriteGuard,
};
use zk_curator_testing::wait::spend;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{assert_clean_after_close, builder, in_memory, simulated, size, start};

const LOCK: &str = "/locks/orders";
const GUARDED: &str = "/guarded";
const CLIENTS: usize = 4;
const TASKS: usize = 3;
const ROUNDS: usize = 6;
const LEASES: u32 = 2;

/// The recipe that tasks contend for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recipe {
    Mutex,
    ReadWrite,
    Revocable,
    Semaphore,
    SemaphoreMutex,
    Multi,
    Handover,
}

/// The holders in the critical section, and the tokens of the writes that the server has accepted.
#[derive(Default)]
struct Ledger {
    inside: Vec<Entry>,
    /// Nodes that were taken away by force: their owners cannot know it as soon as the server does.
    forced: Vec<String>,
    writes: Vec<FencingToken>,
    granted: usize,
    turned: usize,
}

#[derive(Clone)]
struct Entry {
    role: Role,
    held: Ownership,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Writer,
    Reader,
    Lease,
}

/// A guard of any kind, as far as this test needs it.
#[async_trait::async_trait]
trait Held: Send {
    fn held(&self) -> &Ownership;
    async fn release(self: Box<Self>) -> Result<(), Error>;
}

macro_rules! held {
    ($($guard:path),* $(,)?) => {$(
        #[async_trait::async_trait]
        impl Held for $guard {
            fn held(&self) -> &Ownership {
                self.ownership()
            }
            async fn release(self: Box<Self>) -> Result<(), Error> {
                (*self).release().await
            }
        }
    )*};
}

held!(
    zk_curator_recipes::lock::MutexGuard,
    zk_curator_recipes::lock::Permit,
    zk_curator_recipes::lock::HandoverGuard,
    ReadGuard,
    WriteGuard,
);

#[async_trait::async_trait]
impl Held for zk_curator_recipes::lock::MultiGuard {
    fn held(&self) -> &Ownership {
        self.guards().next().expect("a guard").ownership()
    }
    async fn release(self: Box<Self>) -> Result<(), Error> {
        (*self).release().await
    }
}

impl Ledger {
    /// A client enters; no other client that still believes it holds the lock may be inside.
    fn enters(&mut self, seed: u64, entry: Entry) {
        // A holder whose session has expired knows it, because all clients have the same clock
        // here.
        let unaware = |other: &&Entry| {
            other.held.path() != entry.held.path()
                && !other.held.is_session_lost()
                && !self.forced.iter().any(|path| path == other.held.path())
        };
        let inside: Vec<_> = self.inside.iter().filter(unaware).map(|other| other.role).collect();
        let excluded = match entry.role {
            Role::Writer => !inside.is_empty(),
            Role::Reader => inside.contains(&Role::Writer),
            Role::Lease => inside.len() >= LEASES as usize,
        };
        // A client enters by what it has read. It may have been read before its node was taken
        // away, or the lock was passed on within a process, where no task knows yet that it is
        // lost.
        let is_lost = self.forced.iter().any(|path| path == entry.held.path());
        assert!(
            !excluded || is_lost,
            "seed {seed}: {:?} {:?} together with {inside:?}, of {:?}",
            entry.role,
            entry.held,
            self.inside.iter().map(|other| &other.held).collect::<Vec<_>>()
        );
        self.inside.push(entry);
    }

    fn leaves(&mut self, path: &str) {
        self.inside.retain(|other| other.held.path() != path);
    }
}

fn millis(rng: &mut fastrand::Rng, most: u64) -> Duration {
    Duration::from_millis(rng.u64(0..=most))
}

/// The state that the tasks of a client share.
#[derive(Clone)]
struct Contest {
    recipe: Recipe,
    zk: CuratorFramework,
    handover: HandoverMutex,
    ledger: Arc<Mutex<Ledger>>,
}

impl Contest {
    async fn acquire(&self, rng: &mut fastrand::Rng) -> Result<(Role, Box<dyn Held>), Error> {
        let zk = &self.zk;
        let reads = rng.bool();
        Ok(match self.recipe {
            Recipe::Mutex => {
                (Role::Writer, Box::new(InterProcessMutex::new(zk, LOCK).acquire().await?))
            }
            Recipe::ReadWrite if reads => (
                Role::Reader,
                Box::new(InterProcessReadWriteLock::new(zk, LOCK).read_lock().acquire().await?),
            ),
            Recipe::ReadWrite => (
                Role::Writer,
                Box::new(InterProcessReadWriteLock::new(zk, LOCK).write_lock().acquire().await?),
            ),
            Recipe::Revocable if reads => (
                Role::Reader,
                Box::new(RevocableReadWriteLock::new(zk, LOCK).read_lock().acquire().await?),
            ),
            Recipe::Revocable => (
                Role::Writer,
                Box::new(RevocableReadWriteLock::new(zk, LOCK).write_lock().acquire().await?),
            ),
            Recipe::Semaphore => (
                Role::Lease,
                Box::new(InterProcessSemaphore::new(zk, LOCK, LEASES).acquire().await?),
            ),
            Recipe::SemaphoreMutex => {
                (Role::Writer, Box::new(InterProcessSemaphoreMutex::new(zk, LOCK).acquire().await?))
            }
            // Any two of three overlap with any other two.
            Recipe::Multi => {
                let mut paths = vec!["/locks/a", "/locks/b", "/locks/c"];
                paths.swap_remove(rng.usize(..3));
                (
                    Role::Writer,
                    Box::new(InterProcessMultiLock::of_mutexes(zk, paths).acquire().await?),
                )
            }
            Recipe::Handover => (Role::Writer, Box::new(self.handover.acquire().await?)),
        })
    }

    async fn contend(self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..ROUNDS {
            // Impatient at times: dropped in the middle of whatever it does.
            let patience =
                if rng.u8(0..4) == 0 { millis(&mut rng, 500) } else { Duration::from_secs(600) };
            let Ok(Ok((role, guard))) = timeout(patience, self.acquire(&mut rng)).await else {
                continue;
            };
            {
                let mut ledger = self.ledger.lock().unwrap();
                ledger.granted += 1;
                ledger.enters(seed, Entry { role, held: guard.held().clone() });
            }
            spend(millis(&mut rng, 200)).await;
            if role == Role::Writer {
                self.write(seed, guard.held()).await;
            }
            self.ledger.lock().unwrap().leaves(guard.held().path());
            match rng.u8(0..3) {
                0 => drop(guard),
                1 => drop(timeout(millis(&mut rng, 20), guard.release()).await),
                // The loop continues in any case.
                _ => drop(guard.release().await),
            }
        }
    }

    async fn write(&self, seed: u64, held: &Ownership) {
        let token = held.fencing_token();
        match held.fenced().set_data(GUARDED, token.get().to_string()).commit().await {
            Ok(_) => self.ledger.lock().unwrap().writes.push(token),
            Err(error) => assert!(
                error.may_have_applied()
                    || error.is_retryable()
                    || error.kind() == ErrorKind::OwnershipLost
                    || error.is_session_lost(),
                "seed {seed}: {error}"
            ),
        }
    }

    /// Reads and turns into a writer, or writes and turns into a reader.
    async fn turn(self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let lock = InterProcessReadWriteLock::new(&self.zk, LOCK);
        for _ in 0..ROUNDS {
            let mut guard = if rng.bool() {
                let Ok(reader) = lock.read_lock().acquire().await else { continue };
                self.enters(seed, Role::Reader, reader.ownership());
                spend(millis(&mut rng, 100)).await;
                let path = reader.path().to_owned();
                let upgraded = reader.try_upgrade().await;
                self.ledger.lock().unwrap().leaves(&path);
                let Ok(writer) = upgraded else { continue };
                self.enters(seed, Role::Writer, writer.ownership());
                writer
            } else {
                let Ok(writer) = lock.write_lock().acquire().await else { continue };
                self.enters(seed, Role::Writer, writer.ownership());
                writer
            };
            loop {
                spend(millis(&mut rng, 100)).await;
                self.write(seed, guard.ownership()).await;
                // From here on other readers may enter.
                self.ledger.lock().unwrap().leaves(guard.path());
                let Ok(reader) = guard.downgrade().await else { break };
                self.enters(seed, Role::Reader, reader.ownership());
                self.ledger.lock().unwrap().turned += 1;
                spend(millis(&mut rng, 100)).await;
                let path = reader.path().to_owned();
                let upgraded = reader.try_upgrade().await;
                self.ledger.lock().unwrap().leaves(&path);
                let Ok(writer) = upgraded else { break };
                self.enters(seed, Role::Writer, writer.ownership());
                guard = writer;
            }
        }
    }

    fn enters(&self, seed: u64, role: Role, held: &Ownership) {
        self.ledger.lock().unwrap().enters(seed, Entry { role, held: held.clone() });
    }

    /// Deletes the node of a holder or waiter.
    async fn revoke(self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let lock = RevocableReadWriteLock::new(&self.zk, LOCK);
        for _ in 0..ROUNDS {
            spend(millis(&mut rng, 300)).await;
            let Ok(writers) = lock.write_lock().participants().await else { continue };
            let Some(victim) = rng.choice(writers) else { continue };
            self.ledger.lock().unwrap().forced.push(victim.path.clone());
            drop(lock.revoke(&victim.path, millis(&mut rng, 100)).await);
        }
    }
}

/// Loses, delays and cuts at random, as long as this exists.
fn unreliable(server: &TestServer, seed: u64) -> zk_curator_testing::RuleGuard {
    let rng = Mutex::new(fastrand::Rng::with_seed(seed));
    server.rule(move |_| {
        let mut rng = rng.lock().unwrap();
        match rng.u8(0..100) {
            0..3 => Verdict::LoseReply,
            3..6 => Verdict::LoseRequest,
            6..8 => Verdict::Disconnect,
            8..14 => Verdict::Delay(millis(&mut rng, 300)),
            _ => Verdict::Pass,
        }
    })
}

/// Ends a session, cuts the network, stops the server, or breaks the connections.
async fn disturb(server: &TestServer, ledger: &Mutex<Ledger>, rng: &mut fastrand::Rng) {
    let probe = server.probe();
    match rng.u8(0..6) {
        // The observer's session is the first, and spared.
        0 if probe.sessions().len() > 1 => {
            let victim = &probe.sessions()[rng.usize(1..probe.sessions().len())];
            ledger.lock().unwrap().forced.extend(victim.ephemerals.iter().cloned());
            server.expire(victim.id).await;
        }
        1 => {
            server.partition();
            spend(millis(rng, 4000)).await;
            server.heal();
        }
        2 => {
            server.stop().await;
            spend(millis(rng, 4000)).await;
            server.restart().await.unwrap();
        }
        3 => {
            server.hold();
            spend(millis(rng, 1500)).await;
            server.release();
        }
        4 => drop(server.reap_containers()),
        _ => {
            server.disconnect_all();
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one story")]
async fn run(recipe: Recipe, seed: u64) -> Ledger {
    fastrand::seed(seed);
    let (server, observer) = in_memory().await;
    observer.create(GUARDED).await.unwrap();
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let zk = start(
            builder(&server)
                .seed(seed * 1000 + client as u64)
                .session_timeout(Duration::from_secs(2))
                .connection_timeout(Duration::from_secs(20))
                .retry(
                    ExponentialBackoffRetry::new(Duration::from_millis(20), 12)
                        .seed(seed + client as u64),
                ),
        )
        .await;
        clients.push(zk);
    }
    let faults = unreliable(&server, seed);
    let mut tasks = tokio::task::JoinSet::new();
    let contests: Vec<_> = clients
        .iter()
        .map(|zk| Contest {
            recipe,
            zk: zk.clone(),
            handover: InterProcessMutex::new(zk, LOCK).local_batch(2, Duration::MAX),
            ledger: Arc::clone(&ledger),
        })
        .collect();
    for (number, contest) in contests.iter().cycle().take(CLIENTS * TASKS).enumerate() {
        let (contest, seed) = (contest.clone(), seed * 1000 + number as u64);
        match (recipe, number) {
            (Recipe::ReadWrite, 0..=3) => tasks.spawn(contest.turn(seed)),
            (Recipe::Revocable, 0..=1) => tasks.spawn(contest.revoke(seed)),
            _ => tasks.spawn(contest.contend(seed)),
        };
    }
    let mut running = CLIENTS * TASKS;
    while running > 0 {
        tokio::select! {
            biased;
            Some(ended) = tasks.join_next() => {
                ended.unwrap();
                running -= 1;
            }
            () = spend(Duration::from_millis(rng.u64(100..3000))) => {
                disturb(&server, &ledger, &mut rng).await;
            }
        }
    }
    drop(faults);

    let ledger = std::mem::take(&mut *ledger.lock().unwrap());
    // Tokens of different locks are not ordered.
    let ordered = recipe == Recipe::Multi || ledger.writes.is_sorted();
    assert!(ordered, "seed {seed}: writes out of order: {:?}", ledger.writes);
    // No holder is left: the lock is free, and closing leaves nothing.
    observer.wait_connected().await.unwrap();
    let last = Contest {
        recipe,
        zk: observer.clone(),
        handover: InterProcessMutex::new(&observer, LOCK).local_batch(0, Duration::MAX),
        ledger: Arc::default(),
    };
    let last = timeout(Duration::from_secs(60), last.acquire(&mut rng)).await;
    let (_, last) = last
        .unwrap_or_else(|_| panic!("seed {seed}: the lock is stuck\n{}", server.probe()))
        .unwrap();
    assert!(
        recipe == Recipe::Multi
            || ledger.writes.last().is_none_or(|token| *token < last.held().fencing_token())
    );
    last.release().await.unwrap();
    observer.delete(GUARDED).await.unwrap();
    for zk in clients.into_iter().chain([observer]) {
        zk.wait_connected().await.unwrap();
        zk.close().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    // A session that its client has given up while no server was there ends at the server a little
    // later.
    zk_curator_tests::until(&server, |probe| probe.sessions().is_empty()).await;
    assert_clean_after_close(&server);
    ledger
}

/// This many of each lock are run every time.
const SEEDS: Range<u64> = 0..6;

fn never_together(recipe: Recipe, seeds: Range<u64>) -> Ledger {
    let mut all = Ledger::default();
    for seed in seeds.clone() {
        let ledger = simulated(run(recipe, seed));
        all.granted += ledger.granted;
        all.turned += ledger.turned;
    }
    // It was a contest, and much of it went well.
    let wanted = seeds.count() * CLIENTS * TASKS * ROUNDS / 3;
    assert!(all.granted > wanted, "only {} grants, not {wanted}", all.granted);
    all
}

#[test]
fn two_never_hold_a_mutex() {
    never_together(Recipe::Mutex, SEEDS);
}

#[test]
fn a_writer_never_holds_a_lock_together_with_others() {
    let ledger = never_together(Recipe::ReadWrite, SEEDS);
    assert!(ledger.turned > 0);
}

#[test]
fn a_revoked_holder_never_writes_after_the_next_one() {
    never_together(Recipe::Revocable, SEEDS);
}

#[test]
fn there_are_never_more_leases_than_the_limit() {
    never_together(Recipe::Semaphore, SEEDS);
}

#[test]
fn two_never_hold_a_semaphore_mutex() {
    never_together(Recipe::SemaphoreMutex, SEEDS);
}

#[test]
fn two_never_hold_locks_that_overlap() {
    never_together(Recipe::Multi, SEEDS);
}

#[test]
fn a_lock_passed_on_in_a_process_is_never_held_twice() {
    never_together(Recipe::Handover, SEEDS);
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn every_lock_keeps_its_promise_for_many_more_seeds() {
    let last = size(16, 200) as u64;
    for recipe in [
        Recipe::Mutex,
        Recipe::ReadWrite,
        Recipe::Revocable,
        Recipe::Semaphore,
        Recipe::SemaphoreMutex,
        Recipe::Multi,
        Recipe::Handover,
    ] {
        never_together(recipe, SEEDS.end..last);
    }
}
