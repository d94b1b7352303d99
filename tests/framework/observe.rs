//! The reports of a framework about itself: its owned nodes, and the documented spans and events.

use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_client::internal::Locked;
use zk_curator_client::{Connector, Transport, ZooKeeper};
use zk_curator_proto::OpCode;
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lock::{
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore, ReentrantMutex,
};
use zk_curator_recipes::queue::LockingQueue;
use zk_curator_testing::wait::{idle, past, settled};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, expire, in_memory, once, session_id, simulated, simulated_on,
    simulated_with, start, two_in_memory, until, until_state,
};

#[test]
fn an_inspection_shows_holders_and_waiters() {
    let _alone = ALONE.lock();
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let inspection = zk.using_namespace("ns").unwrap().inspect();
        assert_eq!(
            (inspection.owned, inspection.watches, inspection.owed),
            (vec![], vec![], vec![])
        );

        let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
        let watch = zk.using_namespace("ns").unwrap().exists("/a").watched().await.unwrap();
        let lock = InterProcessMutex::new(&other, "/lock");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until(&server, |probe| probe.watches().len() == 3).await;

        let inspection = zk.inspect();
        assert_eq!(inspection.status, zk.status());
        let owned = &inspection.owned[..];
        assert_eq!(owned.len(), 1);
        assert_eq!(
            (owned[0].path.as_str(), owned[0].token, owned[0].session_epoch),
            (guard.path(), guard.fencing_token(), 1)
        );
        assert_eq!(inspection.watches[0].path, "/ns/a");
        let text = inspection.to_string();
        let session = zk.session().unwrap().id.to_string();
        for part in ["Connected", session.as_str(), guard.path(), "/ns/a  one-shot", "owes nothing"]
        {
            assert!(text.contains(part), "{part} is missing\n{text}");
        }
        let waiter = other.inspect();
        // It watches the holder, and its own node.
        assert_eq!((waiter.owned.len(), waiter.watches.len()), (1, 2), "{waiter}");
        let watches = |path: &str| waiter.watches.iter().any(|watch| watch.path == path);
        assert!(watches(guard.path()) && watches(&waiter.owned[0].path), "{waiter}");

        // Owed, as long as there is no server to do it at.
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        let path = guard.path().to_owned();
        drop((guard, watch));
        let inspection = zk.inspect();
        assert_eq!((inspection.owned.len(), inspection.watches.len()), (0, 0), "{inspection}");
        assert_eq!(
            inspection.owed.iter().map(|chore| chore.path.as_str()).collect::<Vec<_>>(),
            [path]
        );
        server.restart().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
        zk.close().await.unwrap();
        let inspection = zk.inspect();
        assert!(inspection.owed.is_empty() && inspection.status.session.is_none(), "{inspection}");
    });
}

/// The interests of one thread's subscriber are cached for all threads, so these tests do not run
/// in parallel.
static ALONE: Locked<()> = Locked::new(());

/// A subscriber to nothing. With one subscriber, tracing asks only the thread that first reaches an
/// event if it is enabled, and keeps the result for all threads; with two, it asks both.
static NOBODY: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

/// Records the events of this thread until the guards are dropped.
fn listen() -> (Told, (DefaultGuard, MutexGuard<'static, ()>)) {
    let alone = ALONE.lock();
    LazyLock::force(&NOBODY);
    let told = Told::default();
    let subscribed = tracing::subscriber::set_default(told.clone());
    (told, (subscribed, alone))
}

/// Records events, as `span{fields}: level message fields`.
#[derive(Clone, Default)]
struct Told(Arc<Locked<Inner>>);

#[derive(Default)]
struct Inner {
    spans: Vec<String>,
    entered: Vec<usize>,
    lines: Vec<String>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.0.insert_str(0, &format!("{value:?}")),
            name => self.0.push_str(&format!(" {name}={value:?}")),
        }
    }
}

impl Subscriber for Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_of = |of: &str| metadata.target().starts_with(of);
        let is_of_client = is_of("zk_curator_client::") && *metadata.level() == Level::WARN;
        is_of_client || is_of("zk_curator::") || is_of("zk_curator_recipes::")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(String::new());
        span.record(&mut fields);
        let mut inner = self.0.lock();
        inner.spans.push(format!("{}{{{}}}", span.metadata().name(), fields.0.trim()));
        Id::from_u64(inner.spans.len() as u64)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let mut inner = self.0.lock();
        let span = inner
            .entered
            .last()
            .map(|span| format!("{}: ", inner.spans[*span]))
            .unwrap_or_default();
        inner.lines.push(format!("{span}{} {}", event.metadata().level(), fields.0));
    }

    fn enter(&self, span: &Id) {
        self.0.lock().entered.push(span.into_u64() as usize - 1);
    }

    fn exit(&self, _span: &Id) {
        self.0.lock().entered.pop();
    }
}

impl Told {
    fn count(&self, begins: &str) -> usize {
        self.0.lock().lines.iter().filter(|line| line.starts_with(begins)).count()
    }

    fn assert(&self, begins: &str, has: &str) {
        let lines = &self.0.lock().lines;
        let found = lines.iter().any(|line| line.starts_with(begins) && line.contains(has));
        assert!(found, "{begins:?} … {has:?} is missing in\n{}", lines.join("\n"));
    }
}

#[test]
fn spans_and_events_are_the_documented_ones() {
    let (told, _guards) = listen();
    simulated_with(async |server, zk| {
        told.assert("INFO connection state", "state=Connected");
        told.assert("INFO connection state", " server=\"");
        drop(once(&server, OpCode::GetData, Verdict::Pass));
        let lost = once(&server, OpCode::GetData, Verdict::LoseReply);
        assert!(zk.get_data("/none").await.is_err());
        assert_eq!(lost.hits(), 1);
        let span = r#"zookeeper{operation="get_data" path="/none"}: DEBUG "#;
        told.assert(&format!("{span}retrying"), r#"error=get_data "/none": connection loss"#);
        told.assert(&format!("{span}retrying"), "delay=");
        told.assert(&format!("{span}operation failed"), r#"error=get_data "/none": no node"#);
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        told.assert("INFO session over", "state=Expired");
        told.assert("INFO connection state", "state=Reconnected");

        zk.create("/secret").data("do not tell").mode(CreateMode::Ephemeral).await.unwrap();
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        told.assert("INFO connection state", "state=Suspended");
        assert!(
            tokio::time::timeout(Duration::from_secs(3600), zk.close()).await.unwrap().is_err()
        );
        told.assert("WARN the session could not be closed; it will expire", "error=");
        let lines = &told.0.lock().lines;
        assert!(!lines.iter().any(|line| line.contains("do not tell")), "{lines:?}");
    });
}

/// A wrong address is reported immediately, and once.
#[test]
fn the_first_refused_connection_is_logged() {
    const WARNING: &str = "WARN connection attempt failed";
    let (told, _guards) = listen();
    simulated_on(zk_curator_tests::server, async |server| {
        server.stop().await;
        let zk = builder(&server).build().unwrap();
        zk.start_in_background().unwrap();
        settled().await;
        assert_eq!(told.count(WARNING), 1);
        idle(Duration::from_secs(600)).await;
        assert_eq!(told.count(WARNING), 1);
        // The next outage counts separately, and so does the next session, which begins in it.
        server.restart().await.unwrap();
        zk.wait_connected().await.unwrap();
        server.stop().await;
        past(Duration::from_secs(600)).await;
        assert_eq!(told.count(WARNING), 3);
    });
}

/// It has an unused turn, for which all other clients wait.
#[test]
#[cfg(debug_assertions)]
fn an_acquire_that_is_left_alone_is_warned_of() {
    const WARNING: &str = "WARN a future was woken and left alone";
    let (told, _guards) = listen();
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let lock = InterProcessMutex::new(&other, "/lock");
        // Before it is in the queue, and while it waits there; polled until then.
        for waits in [false, true] {
            let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
            let mut acquire = Box::pin(lock.acquire());
            if waits {
                assert!(tokio::time::timeout(Duration::from_secs(60), &mut acquire).await.is_err());
            } else {
                assert!(futures_util::poll!(&mut acquire).is_pending());
            }
            guard.release().await.unwrap();
            past(Duration::from_secs(11)).await;
            assert_eq!(told.count(WARNING), 1 + usize::from(waits));
            drop(acquire.await.unwrap());
        }
        // The ones that are dropped, or polled, are none of its business.
        let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(60), lock.acquire()).await.is_err());
        let waiting = tokio::spawn(async move { lock.acquire().await });
        idle(Duration::from_secs(60)).await;
        guard.release().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
        idle(Duration::from_secs(60)).await;
        assert_eq!(told.count(WARNING), 2);
    });
}

#[test]
fn every_term_of_a_leader_has_a_line_for_its_end() {
    let (told, _guards) = listen();
    simulated_with(async |server, zk| {
        let terms = |ended| {
            assert_eq!(
                (told.count("INFO leads "), told.count("INFO leads no longer")),
                (2 * ended, ended)
            );
        };
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        candidate.await_leadership().await.unwrap();
        candidate.close().await.unwrap();
        terms(1);
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        candidate.await_leadership().await.unwrap();
        drop(candidate);
        until(&server, |probe| probe.children("/latch").is_empty()).await;
        terms(2);
        let election = Election::new(&zk, "/election");
        election.campaign("me").await.unwrap().resign().await.unwrap();
        terms(3);
        drop(election.campaign("me").await.unwrap());
        terms(4);
        LeaderSelector::new(&zk, "/selector").run_once(async |_| ()).await.unwrap();
        terms(5);
    });
}

#[test]
fn log_events_name_framework_and_session_and_lost_is_a_warning() {
    let (told, _guards) = listen();
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).name("billing")).await;
        assert_eq!(zk.name(), Some("billing"));
        assert!(zk.inspect().to_string().starts_with("billing: Connected"), "{}", zk.inspect());
        let first = format!(r#" framework="billing" session={}"#, session_id(&zk));
        assert!(zk.get_data("/none").await.is_err());
        told.assert(
            r#"zookeeper{operation="get_data" path="/none"}: DEBUG operation failed"#,
            &first,
        );
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        told.assert(r#"background{framework="billing"}: INFO session over"#, &first);
        told.assert(r#"background{framework="billing"}: WARN connection state"#, "state=Lost");
        told.assert(r#"background{framework="billing"}: WARN connection state"#, &first);
        let second = format!(r#" framework="billing" session={}"#, session_id(&zk));
        told.assert(r#"background{framework="billing"}: INFO connection state"#, &second);
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        candidate.await_leadership().await.unwrap();
        told.assert(r#"background{framework="billing"}: INFO leads"#, &second);
        candidate.close().await.unwrap();
        zk.close().await.unwrap();
        told.assert(r#"background{framework="billing"}: INFO connection state"#, "state=Closed");
        let lines = &told.0.lock().lines;
        let nameless: Vec<_> =
            lines.iter().filter(|line| !line.contains(r#"framework="billing""#)).collect();
        assert!(nameless.is_empty(), "{nameless:#?}");
    });
}

#[test]
fn an_item_that_cannot_be_worked_off_is_warned_of() {
    let (told, _guards) = listen();
    simulated_with(async |_server, zk| {
        let queue = LockingQueue::new(&zk, "/queue").max_deliveries(2);
        queue.put("poison").await.unwrap();
        let run = queue.consumer().run(1, async |_| Err::<(), _>("spoiled"));
        assert!(
            tokio::time::timeout(Duration::from_secs(3600), run).await.is_err(),
            "it keeps running"
        );
        told.assert("WARN an item goes back to its place", "error=spoiled");
        told.assert("WARN an item became a dead letter", "attempt=2");
        let warnings =
            [told.count("WARN an item goes back"), told.count("WARN an item became a dead letter")];
        assert_eq!(warnings, [1, 1]);
    });
}

/// A connector with a bug.
#[derive(Debug)]
struct Buggy;

#[async_trait]
impl Connector for Buggy {
    async fn connect(&self, _: &str, _: u16) -> io::Result<Box<dyn Transport>> {
        panic!("as the test wants it");
    }
}

#[test]
fn a_session_whose_task_ends_early_is_a_warning() {
    let (told, _guards) = listen();
    simulated(async {
        let zk = ZooKeeper::builder("zk:2181").connector(Arc::new(Buggy)).connect().unwrap();
        assert!(zk.exists("/").await.is_err());
        told.assert("WARN the task of a session ended early", "panicked");
    });
}

/// Until it times out, other clients wait for the end of its ephemeral nodes.
#[test]
fn a_lost_session_that_no_server_hears_of_is_a_warning() {
    const WARNING: &str = "WARN closed before the servers learned of a lost session";
    let (told, _guards) = listen();
    simulated_with(async |server, zk| {
        server.stop().await;
        until_state(&zk, ConnectionState::Lost).await;
        assert_eq!(told.count(WARNING), 0);
        assert_eq!(zk.close().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        assert_eq!(told.count(WARNING), 1);
    });
}

/// Curator's mutex is re-entrant: a port that relies on it waits for itself.
#[test]
fn a_wait_for_a_node_of_the_same_session_is_warned_of_once() {
    const WARNING: &str = "WARN an acquire waits for a node of its own session";
    const LONG: Duration = Duration::from_secs(60);
    let (told, _guards) = listen();
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let waits = async |zk: &CuratorFramework, path: &str| {
            let lock = InterProcessMutex::new(zk, path);
            assert!(tokio::time::timeout(LONG, lock.acquire()).await.is_err());
        };
        // Contention of two processes, and recipes for tasks of one.
        let theirs = InterProcessMutex::new(&other, "/theirs").acquire().await.unwrap();
        waits(&zk, "/theirs").await;
        let passed = InterProcessMutex::new(&zk, "/passed").local_batch(1, Duration::MAX);
        let _passed = passed.acquire().await.unwrap();
        assert!(tokio::time::timeout(LONG, passed.acquire()).await.is_err());
        let again = ReentrantMutex::new(&zk, "/again");
        let _again = again.acquire(1).await.unwrap();
        assert!(tokio::time::timeout(LONG, again.acquire(2)).await.is_err());
        let leases = InterProcessSemaphore::new(&zk, "/leases", 1);
        let _lease = leases.acquire().await.unwrap();
        let (one, two) = (leases.acquire(), leases.acquire());
        assert!(
            tokio::time::timeout(LONG, Box::pin(async { tokio::join!(one, two) })).await.is_err()
        );
        let latch = LeaderLatch::new(&zk, "/latch");
        let candidates = (latch.join(), latch.join());
        idle(LONG).await;
        drop(candidates);
        assert_eq!(told.count(WARNING), 0);

        // A try does not wait, and a node of the session that is behind does not count.
        let mine = InterProcessMutex::new(&zk, "/mine").acquire().await.unwrap();
        assert!(InterProcessMutex::new(&zk, "/mine").try_acquire().await.unwrap().is_none());
        assert_eq!(told.count(WARNING), 0);
        // The holder is of this session; those between are not.
        let mut between = Vec::new();
        for _ in 0..3 {
            let lock = InterProcessMutex::new(&connected(&server).await, "/mine");
            between.push(tokio::spawn(async move { lock.acquire().await }));
        }
        until(&server, |probe| probe.children("/mine").len() == 4).await;
        assert_eq!(told.count(WARNING), 0);
        waits(&zk, "/mine").await;
        told.assert(WARNING, "/mine");
        told.assert(WARNING, "ReentrantMutex");
        // Once for each framework.
        waits(&zk, "/mine").await;
        assert_eq!(told.count(WARNING), 1);
        drop(mine);
        between.iter().for_each(tokio::task::JoinHandle::abort);
        drop(theirs);
        let lock = InterProcessReadWriteLock::new(&other, "/shared");
        let _reader = lock.read_lock().acquire().await.unwrap();
        assert!(tokio::time::timeout(LONG, lock.write_lock().acquire()).await.is_err());
        assert_eq!(told.count(WARNING), 2);
    });
}

#[test]
fn kazoos_nodes_at_a_lock_that_ignores_them_are_warned_of_once() {
    const WARNING: &str = "WARN kazoo's locks have nodes here";
    let (told, _guards) = listen();
    simulated_with(async |server, zk| {
        let kazoos = async |path: &str, name: &str| {
            let node = zk.create(format!("{path}/00ff00ff00ff00ff00ff00ff00ff00ff{name}"));
            node.mode(CreateMode::EphemeralSequential).creating_parents().await.unwrap()
        };
        kazoos("/shared", "__lock__").await;
        kazoos("/read", "__rlock__").await;
        let with_kazoo = InterProcessMutex::new(&zk, "/shared").with_kazoo();
        assert!(with_kazoo.try_acquire().await.unwrap().is_none());
        drop(InterProcessMutex::new(&zk, "/plain").acquire().await.unwrap());
        assert_eq!(told.count(WARNING), 0);
        for _ in 0..2 {
            drop(InterProcessMutex::new(&zk, "/shared").acquire().await.unwrap());
            assert_eq!(told.count(WARNING), 1);
        }
        told.assert(WARNING, "/shared");
        told.assert(WARNING, "with_kazoo");
        let other = connected(&server).await;
        drop(InterProcessReadWriteLock::new(&other, "/read").write_lock().acquire().await.unwrap());
        assert_eq!(told.count(WARNING), 2);
    });
}

#[test]
fn an_observer_of_another_kind_of_election_is_warned_of() {
    const WARNING: &str = "WARN the candidates here are of another kind of election";
    let (told, _guards) = listen();
    simulated_with(async |_server, zk| {
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        candidate.await_leadership().await.unwrap();
        let mut observer = Election::new(&zk, "/latch").observe();
        assert_eq!(observer.next().await.unwrap(), None);
        told.assert(WARNING, "LeaderLatch::observe");
        let elected = Election::new(&zk, "/election").campaign("").await.unwrap();
        assert_eq!(LeaderLatch::new(&zk, "/election").observe().next().await.unwrap(), None);
        told.assert(WARNING, "Election::observe");
        assert!(LeaderLatch::new(&zk, "/latch").observe().next().await.unwrap().is_some());
        assert_eq!(told.count(WARNING), 2);
        elected.resign().await.unwrap();
    });
}

/// `#[tokio::main]` with a `main` that ends before its framework is closed: by `?`, or because a
/// task still has a handle.
#[test]
fn a_main_that_ends_without_close_is_warned_of() {
    const LEFT: &str = "WARN the runtime ended before the session was closed";
    const DROPPED: &str = "WARN the last handle of a framework was dropped without close()";
    let (told, _guards) = listen();
    for (closes, keeps) in [(true, false), (false, false), (false, true)] {
        let before = (told.count(DROPPED), told.count(LEFT));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.unwrap();
        let kept = runtime.block_on(async {
            let (_server, zk) = in_memory().await;
            if closes {
                zk.close().await.unwrap();
            }
            keeps.then_some(zk)
        });
        drop(runtime);
        let (dropped, left) = (told.count(DROPPED) - before.0, told.count(LEFT) - before.1);
        assert_eq!((dropped, left), (usize::from(!closes && !keeps), usize::from(!closes)));
        drop(kept);
    }
    told.assert(LEFT, "Call close() and await it before the runtime ends, even if `?` leaves main");
    told.assert(DROPPED, "Await close(), also before `?` returns from main");
}
