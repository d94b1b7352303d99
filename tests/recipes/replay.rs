//! One seed, one run: what frameworks with locks send to an ensemble under faults is the same in
//! another process.

use std::fmt::{Debug, Write as _};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout};
use zk_curator::retry::ExponentialBackoffRetry;
use zk_curator_recipes::lock::{
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
};
use zk_curator_testing::wait::spend;
use zk_curator_testing::{MemoryConnector, TestCluster, TestServer, Verdict};
use zk_curator_tests::{builder_for, simulated};

const CLIENTS: u64 = 4;
const ROUNDS: usize = 15;
/// The environment variable that makes this program print a run and nothing else.
const PRINT: &str = "SIM_REPLAY_SEED";

/// Everything that the clients have sent, when and to what effect, and the rest of it.
#[expect(clippy::too_many_lines, reason = "one story")]
fn run(seed: u64) -> String {
    simulated(async move {
        let settings =
            TestServer::builder().tcp(false).seed(seed).wall_clock(SystemTime::UNIX_EPOCH);
        let cluster = TestCluster::builder(3).settings(settings).start().await.unwrap();
        let (log, began) = (Arc::new(Mutex::new(String::new())), Instant::now());
        let faults = Mutex::new(fastrand::Rng::with_seed(seed));
        let rule = cluster.rule({
            let log = Arc::clone(&log);
            move |request| {
                let verdict = match faults.lock().unwrap().u32(..100) {
                    0..2 => Verdict::LoseReply,
                    2..4 => Verdict::LoseRequest,
                    4 => Verdict::Disconnect,
                    n @ 5..20 => Verdict::Delay(Duration::from_millis(n.into())),
                    _ => Verdict::Pass,
                };
                let (at, session, request) =
                    (began.elapsed(), request.session_id(), request.request());
                writeln!(log.lock().unwrap(), "{at:?} {session:#x} {request:?} {verdict:?}")
                    .unwrap();
                verdict
            }
        });
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|client_number| {
                let log = Arc::clone(&log);
                let log = move |what: &dyn Debug| {
                    let at = began.elapsed();
                    writeln!(log.lock().unwrap(), "{at:?} client {client_number}: {what:?}")
                        .unwrap();
                };
                let seed = fastrand::Rng::with_seed(seed).u64(..).wrapping_add(client_number);
                tokio::spawn(client(
                    cluster.connect_string(),
                    Arc::new(cluster.connector()),
                    seed,
                    log,
                ))
            })
            .collect();
        let mut rng = fastrand::Rng::with_seed(!seed);
        for _ in 0..4 {
            spend(millis(&mut rng, 2000)).await;
            match rng.u32(..3) {
                0 => drop(cluster.change_leader()),
                1 => {
                    cluster.member(rng.usize(..3)).disconnect_all();
                }
                _ => {
                    let probe = cluster.member(0).probe();
                    let sessions: Vec<_> =
                        probe.sessions().iter().map(|session| session.id).collect();
                    cluster.expire(rng.choice(sessions).unwrap_or_default());
                }
            }
        }
        for client in clients {
            client.await.unwrap();
        }
        drop(rule);
        let log = log.lock().unwrap();
        format!("{log}{}{}", cluster.journal(), cluster.member(0).probe())
    })
}

/// Acquires locks of three kinds, some without success, and drops or releases them.
async fn client(
    servers: String,
    connector: Arc<MemoryConnector>,
    seed: u64,
    log: impl Fn(&dyn Debug) + Send + 'static,
) {
    let retry = ExponentialBackoffRetry::new(Duration::from_millis(10), 8);
    let zk = builder_for(&servers).connector(connector).seed(seed).retry(retry).build().unwrap();
    // A failed start continues in the background.
    drop(zk.start().await);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mutex = InterProcessMutex::new(&zk, "/mutex");
    let shared = InterProcessReadWriteLock::new(&zk, "/shared");
    let semaphore = InterProcessSemaphore::new(&zk, "/semaphore", 2);
    for _ in 0..ROUNDS {
        let (patience, work) = (millis(&mut rng, 10_000), millis(&mut rng, 300));
        let releases = rng.bool();
        macro_rules! hold {
            ($acquire:expr) => {{
                match timeout(patience, $acquire).await {
                    Ok(Ok(guard)) => {
                        log(&guard.fencing_token());
                        spend(work).await;
                        if releases {
                            log(&guard.release().await);
                        }
                    }
                    Ok(Err(error)) => log(&error),
                    Err(elapsed) => log(&elapsed),
                }
            }};
        }
        match rng.u32(..4) {
            0 => hold!(mutex.acquire()),
            1 => hold!(shared.read_lock().acquire()),
            2 => hold!(shared.write_lock().acquire()),
            _ => hold!(semaphore.acquire()),
        }
    }
    log(&zk.close().await);
}

fn millis(rng: &mut fastrand::Rng, most: u64) -> Duration {
    Duration::from_millis(rng.u64(0..=most))
}

/// The run of a seed in a process of its own, where hash tables, addresses and generators begin
/// differently.
fn run_elsewhere(seed: u64) -> String {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", "replay::every_seed_has_faults_and_grants", "--nocapture"])
        .env(PRINT, seed.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_seed_has_faults_and_grants() {
    let asked = std::env::var(PRINT).ok().map(|seed| seed.parse().unwrap());
    for seed in asked.map_or(0..4, |seed| seed..seed + 1) {
        let log = run(seed);
        for wanted in ["LoseReply", "LoseRequest", "Delay", "FencingToken", "Ok(())"] {
            assert!(log.contains(wanted), "seed {seed} has no {wanted}\n{log}");
        }
        if asked.is_some() {
            println!("{log}");
        }
    }
}

#[test]
fn a_seed_is_the_same_run_in_every_process() {
    for seed in [1, 2] {
        let (one, other) = (run_elsewhere(seed), run_elsewhere(seed));
        let differs = one
            .lines()
            .zip(other.lines())
            .find(|(one, other)| one != other && !is_of_the_harness(one));
        assert_eq!(differs, None, "the first line that differs, with seed {seed}");
        assert_eq!(one.lines().count(), other.lines().count());
        assert!(one.lines().count() > 300, "a short run\n{one}");
    }
}

/// Prints the duration of the test.
fn is_of_the_harness(line: &str) -> bool {
    line.starts_with("test result:")
}

#[test]
fn another_seed_is_another_run() {
    assert_ne!(run(1), run(2));
}
