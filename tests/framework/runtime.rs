//! Where the tasks of a framework run, and where its random choices come from.

use std::future::ready;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use zk_curator::retry::{ExponentialBackoffRetry, RetryPolicy, SessionFailedRetryPolicy};
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_client::{BackgroundTask, Spawn};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::settled;
use zk_curator_tests::{builder, builder_for, simulated, simulated_on, simulated_with, start};

fn runtime(name: &str) -> Runtime {
    Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build().unwrap()
}

#[test]
fn a_blocked_runtime_does_not_lose_a_session_that_has_its_own() {
    let (servers, sessions) = (runtime("server"), runtime("sessions"));
    let server = servers.block_on(TestServer::in_memory());
    let builder = || builder(&server).session_timeout(Duration::from_secs(2));
    let service = Builder::new_current_thread().enable_all().build().unwrap();
    service.block_on(async {
        let blocked = builder().build().unwrap();
        let apart = builder().spawner(Arc::new(sessions.handle().clone())).build().unwrap();
        let mut ids = Vec::new();
        for zk in [&blocked, &apart] {
            zk.start().await.unwrap();
            ids.push(zk.session().unwrap().id.get());
        }
        // Nothing runs here until the server has lost patience with the one whose tasks are here.
        servers.block_on_elsewhere(server.until(|probe| probe.session(ids[0]).is_none()));
        assert!(server.probe().session(ids[1]).is_some(), "{}", server.probe());
        assert_eq!(apart.state(), ConnectionState::Connected);
        apart.create("/a").mode(CreateMode::Ephemeral).await.unwrap();
        assert_eq!(apart.session().unwrap().id.get(), ids[1]);
        apart.close().await.unwrap();
        // Its session and its connection are over. The error depends on how much of this is known
        // by now.
        drop(blocked.close().await);
    });
}

/// Blocks this thread, within a runtime or not, until the future is ready on a runtime.
trait BlockOnElsewhere {
    fn block_on_elsewhere<T: Send>(&self, future: impl Future<Output = T> + Send) -> T;
}

impl BlockOnElsewhere for Runtime {
    fn block_on_elsewhere<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        std::thread::scope(|scope| scope.spawn(|| self.block_on(future)).join().unwrap())
    }
}

#[test]
fn tasks_of_recipes_run_where_those_of_the_framework_do() {
    let sessions = runtime("sessions");
    let zk = builder_for("zk:2181").spawner(Arc::new(sessions.handle().clone())).build().unwrap();
    let (told, name) = mpsc::channel();
    zk.spawn(async move { told.send(std::thread::current().name().map(str::to_owned)).unwrap() });
    assert_eq!(name.recv().unwrap().as_deref(), Some("sessions"));
}

/// A runtime that was shut down.
#[derive(Debug)]
struct Gone;

impl Spawn for Gone {
    fn spawn(&self, task: BackgroundTask) {
        drop(task);
    }
}

#[test]
fn calls_fail_if_tasks_never_run() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = builder(&server).spawner(Arc::new(Gone)).build().unwrap();
        let mut states = zk.states();
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(states.next().await.unwrap().state, ConnectionState::Closed);
        assert_eq!(zk.get_data("/a").await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(zk.close().await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_background_task_that_ends_early_is_reported() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server)).await;
        let mut errors = zk.background_errors();
        zk.spawn(async {});
        zk.spawn(async { panic!("as the test wants it") });
        let told = errors.next().await.unwrap().to_string();
        assert!(told.contains("a background task panicked"), "{told}");
        // Of a runtime that ends before the framework is closed.
        let other = builder(&server).spawner(Arc::new(Gone)).build().unwrap();
        let mut errors = other.background_errors();
        other.spawn(std::future::pending());
        let told = errors.next().await.unwrap().to_string();
        assert!(told.contains("the runtime of a background task ended"), "{told}");
        // Tasks that end with the framework are not reported.
        let mut errors = zk.background_errors();
        let mut states = zk.states();
        zk.spawn(async move { drop(states.until(|_| false).await) });
        zk.close().await.unwrap();
        assert!(errors.next().await.is_none());
    });
}

#[test]
fn followers_of_a_never_started_framework_learn_of_its_end() {
    simulated(async {
        let zk = builder_for("zk:2181").build().unwrap();
        let mut states = zk.states();
        assert_eq!(states.next().await.unwrap().state, ConnectionState::Connecting);
        drop(zk);
        assert_eq!(states.next().await.unwrap().state, ConnectionState::Closed);
        assert!(states.next().await.is_none());
    });
}

fn seeded(seed: u64) -> CuratorFramework {
    builder_for("zk:2181").seed(seed).build().unwrap()
}

fn guids(zk: &CuratorFramework) -> Vec<String> {
    (0..3).map(|_| zk.new_guid()).collect()
}

#[test]
fn guids_are_random_unless_there_is_a_seed() {
    let unseeded = || guids(&builder_for("zk:2181").build().unwrap());
    let all = [guids(&seeded(1)), guids(&seeded(2)), unseeded(), unseeded()].concat();
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "{all:?}");
    for guid in &all {
        let parsed = uuid::Uuid::try_parse(guid).unwrap();
        assert_eq!(parsed.get_version(), Some(uuid::Version::Random), "{guid}");
        assert_eq!(parsed.as_hyphenated().to_string(), *guid);
    }
    assert_eq!(guids(&seeded(1)), guids(&seeded(1)));
}

/// Returns the requested data, and notes the request.
#[derive(Debug, Clone)]
struct Noting<P>(P, Arc<Mutex<Vec<Duration>>>);

impl<P: RetryPolicy> RetryPolicy for Noting<P> {
    fn next_delay(
        &self,
        retries: u32,
        elapsed: Duration,
        error: &zk_curator::Error,
    ) -> Option<Duration> {
        let delay = self.0.next_delay(retries, elapsed, error);
        self.1.lock().unwrap().extend(delay);
        delay
    }

    fn begin_seeded(&self, seed: u64) -> Option<Box<dyn RetryPolicy>> {
        let begun = self.0.begin_seeded(seed)?;
        Some(Box::new(Noting(begun, Arc::clone(&self.1))))
    }
}

/// The pauses of a read to which no server responds, in frameworks with these seeds.
fn pauses<P: RetryPolicy + Clone>(policy: &P, seeds: [Option<u64>; 2]) -> [Vec<Duration>; 2] {
    seeds.map(|seed| {
        let noted = Arc::default();
        let policy = Noting(policy.clone(), Arc::clone(&noted));
        simulated(async move {
            let server = TestServer::in_memory().await;
            let builder =
                builder_for(&server.connect_string()).connector(Arc::new(server.connector()));
            let builder = builder.retry(policy);
            let zk = match seed {
                Some(seed) => builder.seed(seed),
                None => builder,
            };
            let zk = start(zk).await;
            let refused =
                zk_curator_testing::Verdict::Refuse(zk_curator::ErrorCode::OperationTimeout);
            let _rule = server.rule(move |request| {
                if request.is(zk_curator_proto::OpCode::GetData) {
                    refused
                } else {
                    zk_curator_testing::Verdict::Pass
                }
            });
            zk.get_data("/a").await.unwrap_err();
        });
        noted.lock().unwrap().clone()
    })
}

#[test]
fn retry_pauses_follow_the_seed_unless_a_policy_has_its_own() {
    let policy = ExponentialBackoffRetry::new(Duration::from_micros(1), 20);
    let [one, other] = pauses(&policy, [Some(1), Some(1)]);
    assert_eq!(one, other);
    assert_eq!(one.len(), 20);
    let [one, other] = pauses(&SessionFailedRetryPolicy::new(policy), [Some(1), Some(2)]);
    assert_ne!(one, other);
    let [one, other] = pauses(&policy, [None, None]);
    assert_ne!(one, other);
    let [one, other] = pauses(&policy.seed(3), [Some(1), Some(2)]);
    assert_eq!(one, other);
}

#[test]
fn a_task_ends_with_its_handle_unless_it_is_detached() {
    simulated_with(async |_, zk| {
        for detached in [false, true] {
            let (done, is_done) = oneshot::channel();
            let task = zk.spawn_task(async {
                settled().await;
                done.send(()).unwrap();
            });
            if detached {
                drop(task.detached());
            } else {
                drop(task);
            }
            assert_eq!(is_done.await.is_ok(), detached);
        }
        assert_eq!(zk.spawn_task(ready(7)).detached().await.unwrap(), 7);
    });
}
