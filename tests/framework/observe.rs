//! What a framework tells about itself: who holds what, and the documented spans and events.

use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};
use zk_curator::{ConnectionState, CreateMode, ErrorKind};
use zk_curator_client::{Connector, Transport, ZooKeeper};
use zk_curator_proto::OpCode;
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_recipes::queue::LockingQueue;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, expire, in_memory, once, session_id, simulated, until, until_state,
};

#[test]
fn an_inspection_shows_who_holds_and_who_waits() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
        let inspection = zk.using_namespace("ns").unwrap().inspect();
        assert_eq!((inspection.owned, inspection.watches, inspection.owed), (vec![], vec![], vec![]));

        let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
        let watch = zk.using_namespace("ns").unwrap().exists("/a").watched().await.unwrap();
        let lock = InterProcessMutex::new(&other, "/lock");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until(&server, |probe| probe.watches().len() == 2).await;

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
        for part in ["Connected", session.as_str(), guard.path(), "/ns/a  one-shot", "owes nothing"] {
            assert!(text.contains(part), "{part} is missing\n{text}");
        }
        let waiter = other.inspect();
        assert_eq!((waiter.owned.len(), waiter.watches.len()), (1, 1), "{waiter}");
        assert!(waiter.watches[0].path.ends_with(guard.path().rsplit('/').next().unwrap()));

        // Owed, as long as there is no server to do it at.
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        let path = guard.path().to_owned();
        drop((guard, watch));
        let inspection = zk.inspect();
        assert_eq!((inspection.owned.len(), inspection.watches.len()), (0, 0), "{inspection}");
        assert_eq!(inspection.owed.iter().map(|chore| chore.path.as_str()).collect::<Vec<_>>(), [path]);
        server.restart().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
        zk.close().await.unwrap();
        let inspection = zk.inspect();
        assert!(inspection.owed.is_empty() && inspection.status.session.is_none(), "{inspection}");
    });
}

/// What a subscriber of one thread wants to hear is remembered for all threads: these tests do not run side by side.
static ALONE: Mutex<()> = Mutex::new(());

/// A subscriber to nothing. While there is one subscriber, tracing asks only the thread that comes first to an event whether
/// anybody wants to hear it, and remembers the answer for all threads; with two, it asks both.
static NOBODY: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

/// Keeps what is told in this thread, until the guards are dropped.
fn listen() -> (Told, (DefaultGuard, MutexGuard<'static, ()>)) {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    LazyLock::force(&NOBODY);
    let told = Told::default();
    let subscribed = tracing::subscriber::set_default(told.clone());
    (told, (subscribed, alone))
}

/// Keeps what is told, as `span{fields}: level message fields`.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Inner>>);

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
        let mut inner = self.0.lock().unwrap();
        inner.spans.push(format!("{}{{{}}}", span.metadata().name(), fields.0.trim()));
        Id::from_u64(inner.spans.len() as u64)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let mut inner = self.0.lock().unwrap();
        let span = inner.entered.last().map(|span| format!("{}: ", inner.spans[*span])).unwrap_or_default();
        inner.lines.push(format!("{span}{} {}", event.metadata().level(), fields.0));
    }

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().entered.push(span.into_u64() as usize - 1);
    }

    fn exit(&self, _span: &Id) {
        self.0.lock().unwrap().entered.pop();
    }
}

impl Told {
    fn count(&self, begins: &str) -> usize {
        self.0.lock().unwrap().lines.iter().filter(|line| line.starts_with(begins)).count()
    }

    fn assert(&self, begins: &str, has: &str) {
        let lines = &self.0.lock().unwrap().lines;
        let found = lines.iter().any(|line| line.starts_with(begins) && line.contains(has));
        assert!(found, "{begins:?} … {has:?} is missing in\n{}", lines.join("\n"));
    }
}

#[test]
fn spans_and_events_are_the_documented_ones() {
    let (told, _guards) = listen();
    simulated(async {
        let (server, zk) = in_memory().await;
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
        assert!(tokio::time::timeout(Duration::from_secs(3600), zk.close()).await.unwrap().is_err());
        told.assert("WARN the session could not be closed; it will expire", "error=");
        let lines = &told.0.lock().unwrap().lines;
        assert!(!lines.iter().any(|line| line.contains("do not tell")), "{lines:?}");
    });
}

/// It holds a turn without noticing, and everybody else waits.
#[test]
#[cfg(debug_assertions)]
fn an_acquire_that_is_left_alone_is_warned_of() {
    const WARNING: &str = "WARN a future was woken and left alone";
    let (told, _guards) = listen();
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
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
            tokio::time::sleep(Duration::from_secs(11)).await;
            assert_eq!(told.count(WARNING), 1 + usize::from(waits));
            drop(acquire.await.unwrap());
        }
        // Those that are dropped, or polled, are none of its business.
        let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(60), lock.acquire()).await.is_err());
        let waiting = tokio::spawn(async move { lock.acquire().await });
        tokio::time::sleep(Duration::from_secs(60)).await;
        guard.release().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(told.count(WARNING), 2);
    });
}

#[test]
fn every_term_of_a_leader_has_a_line_for_its_end() {
    let (told, _guards) = listen();
    simulated(async {
        let (server, zk) = in_memory().await;
        let terms = |ended| {
            assert_eq!((told.count("INFO leads "), told.count("INFO leads no longer")), (2 * ended, ended));
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
        LeaderSelector::new(&zk, "/selector").run(async |_| ()).await.unwrap();
        terms(5);
    });
}

#[test]
fn events_name_the_framework_and_the_session_and_lost_is_a_warning() {
    let (told, _guards) = listen();
    simulated(async {
        let server = TestServer::in_memory().await;
        let zk = builder(&server).name("billing").build().unwrap();
        zk.start().await.unwrap();
        assert_eq!(zk.name(), Some("billing"));
        assert!(zk.inspect().to_string().starts_with("billing: Connected"), "{}", zk.inspect());
        let first = format!(r#" framework="billing" session={}"#, session_id(&zk));
        assert!(zk.get_data("/none").await.is_err());
        told.assert(r#"zookeeper{operation="get_data" path="/none"}: DEBUG operation failed"#, &first);
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
        let lines = &told.0.lock().unwrap().lines;
        let nameless: Vec<_> = lines.iter().filter(|line| !line.contains(r#"framework="billing""#)).collect();
        assert!(nameless.is_empty(), "{nameless:#?}");
    });
}

#[test]
fn an_item_that_cannot_be_worked_off_is_warned_of() {
    let (told, _guards) = listen();
    simulated(async {
        let (_server, zk) = in_memory().await;
        let queue = LockingQueue::new(&zk, "/queue").max_deliveries(2);
        queue.put("poison").await.unwrap();
        let run = queue.consumer().run(1, async |_| Err::<(), _>("spoiled"));
        assert!(tokio::time::timeout(Duration::from_secs(3600), run).await.is_err(), "it goes on");
        told.assert("WARN an item goes back to its place", "error=spoiled");
        told.assert("WARN an item is put aside", "attempt=2");
        let warnings = [told.count("WARN an item goes back"), told.count("WARN an item is put aside")];
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

/// Others wait for its ephemeral nodes to go until it times out.
#[test]
fn a_lost_session_that_no_server_hears_of_is_a_warning() {
    const WARNING: &str = "WARN closed before the servers were told of a lost session";
    let (told, _guards) = listen();
    simulated(async {
        let (server, zk) = in_memory().await;
        server.stop().await;
        until_state(&zk, ConnectionState::Lost).await;
        assert_eq!(told.count(WARNING), 0);
        assert_eq!(zk.close().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        assert_eq!(told.count(WARNING), 1);
    });
}
