//! [`InterProcessMutex`] under random faults in simulated time: a seed decides what is lost, cut, delayed and
//! expired, and which futures are dropped. Whatever happens, two never hold the lock, and fenced writes are in
//! the order of their tokens.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{assert_clean_after_close, builder, in_memory, simulated};
use tokio::time::{sleep, timeout};
use zk_curator::retry::ExponentialBackoffRetry;
use zk_curator::{CuratorFramework, ErrorKind, FencingToken, Ownership};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::{TestServer, Verdict};

const LOCK: &str = "/locks/orders";
const GUARDED: &str = "/guarded";
const SEEDS: u64 = 150;
const CLIENTS: usize = 4;
const TASKS: usize = 3;
const ROUNDS: usize = 6;

/// Who is in the critical section now, and the tokens of the writes that the server has accepted.
#[derive(Default)]
struct Ledger {
    inside: Vec<Ownership>,
    /// Nodes of sessions that were ended by force: their owners cannot know it as soon as the server does.
    forced: Vec<String>,
    writes: Vec<FencingToken>,
    granted: usize,
}

fn millis(rng: &mut fastrand::Rng, most: u64) -> Duration {
    Duration::from_millis(rng.u64(0..=most))
}

async fn contend(zk: CuratorFramework, ledger: Arc<Mutex<Ledger>>, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let lock = InterProcessMutex::new(&zk, LOCK);
    for _ in 0..ROUNDS {
        // Impatient at times: dropped in the middle of whatever it does.
        let patience = if rng.u8(0..4) == 0 { millis(&mut rng, 500) } else { Duration::from_secs(600) };
        let Ok(Ok(guard)) = timeout(patience, lock.acquire()).await else { continue };
        {
            let mut ledger = ledger.lock().unwrap();
            ledger.granted += 1;
            // Somebody inside whose session has expired knows it: time passes equally for all of them here.
            let unaware = |other: &&Ownership| {
                !other.is_session_lost() && !ledger.forced.iter().any(|path| path == other.path())
            };
            assert_eq!(ledger.inside.iter().filter(unaware).count(), 0, "seed {seed}: two hold the lock");
            ledger.inside.push(guard.ownership().clone());
        }
        sleep(millis(&mut rng, 200)).await;
        let token = guard.fencing_token();
        match guard.fenced().set_data(GUARDED, token.get().to_string()).commit().await {
            Ok(_) => ledger.lock().unwrap().writes.push(token),
            Err(error) => assert!(
                error.may_have_applied()
                    || error.is_retryable()
                    || error.kind() == ErrorKind::OwnershipLost
                    || error.is_session_lost(),
                "seed {seed}: {error}"
            ),
        }
        ledger.lock().unwrap().inside.retain(|other| other.path() != guard.path());
        match rng.u8(0..3) {
            0 => drop(guard),
            1 => drop(timeout(millis(&mut rng, 20), guard.release()).await),
            // Lost or not: the loop goes on.
            _ => drop(guard.release().await),
        }
    }
}

/// Loses, delays and cuts at random, for as long as it lives.
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

async fn run(seed: u64) -> usize {
    fastrand::seed(seed);
    let (server, observer) = in_memory().await;
    observer.create(GUARDED).await.unwrap();
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let zk = builder(&server)
            .session_timeout(Duration::from_secs(2))
            .connection_timeout(Duration::from_secs(20))
            .retry(ExponentialBackoffRetry::new(Duration::from_millis(20), 12).seed(seed + client as u64))
            .build()
            .unwrap();
        zk.start().await.unwrap();
        clients.push(zk);
    }
    let faults = unreliable(&server, seed);
    let mut tasks = tokio::task::JoinSet::new();
    for (number, zk) in clients.iter().cycle().take(CLIENTS * TASKS).enumerate() {
        tasks.spawn(contend(zk.clone(), Arc::clone(&ledger), seed * 1000 + number as u64));
    }
    let mut running = CLIENTS * TASKS;
    while running > 0 {
        tokio::select! {
            biased;
            Some(ended) = tasks.join_next() => {
                ended.unwrap();
                running -= 1;
            }
            () = sleep(Duration::from_millis(rng.u64(100..3000))) => {
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
                        sleep(millis(&mut rng, 4000)).await;
                        server.heal();
                    }
                    2 => {
                        server.stop().await;
                        sleep(millis(&mut rng, 4000)).await;
                        server.restart().await.unwrap();
                    }
                    3 => {
                        server.hold();
                        sleep(millis(&mut rng, 1500)).await;
                        server.release();
                    }
                    4 => drop(server.reap_containers()),
                    _ => server.disconnect_all(),
                }
            }
        }
    }
    drop(faults);

    let ledger = std::mem::take(&mut *ledger.lock().unwrap());
    assert!(ledger.writes.is_sorted(), "seed {seed}: writes out of order: {:?}", ledger.writes);
    // Nobody is left behind: the lock is free, and closing leaves nothing.
    observer.wait_connected().await.unwrap();
    let last = timeout(Duration::from_secs(60), InterProcessMutex::new(&observer, LOCK).acquire()).await;
    let last = last.unwrap_or_else(|_| panic!("seed {seed}: the lock is stuck\n{}", server.probe())).unwrap();
    assert!(ledger.writes.last().is_none_or(|token| *token < last.fencing_token()));
    last.release().await.unwrap();
    observer.delete(GUARDED).await.unwrap();
    for zk in clients.into_iter().chain([observer]) {
        zk.wait_connected().await.unwrap();
        zk.close().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    // A session that its client has given up while no server was there ends at the server a little later.
    common::until(&server, |probe| probe.sessions().is_empty()).await;
    assert_clean_after_close(&server);
    ledger.granted
}

#[test]
fn never_two_hold_the_lock_whatever_breaks() {
    let mut granted = 0;
    let seeds = std::env::var("ZK_CURATOR_SEEDS").map_or(SEEDS, |count| count.parse().unwrap());
    for seed in 0..seeds {
        granted += simulated(run(seed));
    }
    // It was a contest, and most of it went well.
    let wanted = usize::try_from(seeds).unwrap() * CLIENTS * TASKS * ROUNDS / 2;
    assert!(granted > wanted, "only {granted} grants");
}
