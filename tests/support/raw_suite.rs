//! What every [`RawClient`] must do: one list of cases for the native client and for the adapters,
//! on the embedded server and on Apache ZooKeeper. Networks fail in a relay, never in the client.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;
use zk_curator::raw::{RawClient, RawClientFactory, RawStates, SessionSettings};
use zk_curator::{Acl, CreateMode, ErrorCode, EventType, Stat, Version, WatchEnded};
use zk_curator_client::{Created, Error, Op, SessionState};
use zk_curator_testing::{FaultProxy, Flow};

/// Longer than any case needs, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(240);
/// The session timeout of cases in which no session ends.
const LONG: Duration = Duration::from_secs(30);
/// The one of cases in which one does. Servers of the tests grant it.
const SHORT: Duration = Duration::from_secs(2);

/// Servers, the client under test, and a chroot of the case's own.
#[derive(Debug, Clone)]
pub struct Case {
    pub server: SocketAddr,
    pub factory: Arc<dyn RawClientFactory>,
    /// Requests that the client does not support, by design: transactions, containers.
    pub limited: bool,
    chroot: String,
}

impl Case {
    pub async fn new(
        server: SocketAddr,
        factory: Arc<dyn RawClientFactory>,
        limited: bool,
        name: &str,
    ) -> Self {
        Self::below("", server, factory, limited, name).await
    }

    /// The chroot of the case is in another chroot, `parent`, for servers that others use, too.
    pub async fn below(
        parent: &str,
        server: SocketAddr,
        factory: Arc<dyn RawClientFactory>,
        limited: bool,
        name: &str,
    ) -> Self {
        let case = Self { server, factory, limited, chroot: parent.to_owned() };
        let zk = case.client().await;
        zk.create(&op(&format!("/{name}"), "", CreateMode::Persistent)).await.unwrap();
        zk.close().await.unwrap();
        Self { chroot: format!("{parent}/{name}"), ..case }
    }

    fn settings(&self, connect_string: &str, session: Duration) -> SessionSettings {
        let mut settings = SessionSettings::default();
        settings.connect_string = format!("{connect_string}{}", self.chroot);
        settings.session_timeout = session;
        settings.connection_timeout = Duration::from_secs(10);
        settings.close_timeout = Duration::from_secs(5);
        settings
    }

    async fn open(&self, connect_string: &str, session: Duration) -> Arc<dyn RawClient> {
        self.factory.open(&self.settings(connect_string, session)).await.unwrap()
    }

    async fn client(&self) -> Arc<dyn RawClient> {
        self.open(&self.server.to_string(), LONG).await
    }

    async fn relayed(&self, session: Duration) -> (Arc<dyn RawClient>, FaultProxy) {
        let relay = FaultProxy::start(&[self.server]).await.unwrap();
        let zk = self.open(&relay.connect_string(), session).await;
        until(&mut zk.states(), is_connected).await;
        (zk, relay)
    }
}

fn op(path: &str, data: &str, mode: CreateMode) -> Op {
    Op::Create {
        path: path.to_owned(),
        data: Some(data.to_owned().into()),
        acl: Acl::open_unsafe(),
        mode,
        ttl: None,
    }
}

async fn create(zk: &Arc<dyn RawClient>, path: &str) -> Created {
    zk.create(&op(path, "", CreateMode::Persistent)).await.unwrap()
}

fn is_connected(state: SessionState) -> bool {
    matches!(state, SessionState::Connected(_))
}

/// Waits for a state, and returns those before it.
async fn until(states: &mut RawStates, wanted: impl Fn(SessionState) -> bool) -> Vec<SessionState> {
    let mut seen = Vec::new();
    loop {
        let state = poll_fn(|cx| states.as_mut().poll_next(cx)).await;
        let state = state.unwrap_or_else(|| panic!("the states ended: {seen:?}"));
        if wanted(state) {
            return seen;
        }
        seen.push(state);
    }
}

/// Cuts the connection of a client, does something, and waits until it is back.
async fn away(zk: &Arc<dyn RawClient>, relay: &FaultProxy, meanwhile: impl Future<Output = ()>) {
    let mut states = zk.states();
    relay.down();
    until(&mut states, |state| state == SessionState::Disconnected).await;
    meanwhile.await;
    relay.up();
    until(&mut states, is_connected).await;
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorCode {
    match result {
        Err(Error::Refused(code)) => code,
        other => panic!("not refused: {other:?}"),
    }
}

pub async fn nodes_are_created_read_written_listed_and_deleted(case: Case) {
    let zk = case.client().await;
    let created = zk.create(&op("/a", "1", CreateMode::Persistent)).await.unwrap();
    assert_eq!((created.path.as_str(), created.stat.version), ("/a", 0));
    assert_eq!(
        refused(zk.create(&op("/a", "", CreateMode::Persistent)).await),
        ErrorCode::NodeExists
    );
    assert_eq!(
        refused(zk.create(&op("/x/y", "", CreateMode::Persistent)).await),
        ErrorCode::NoNode
    );
    let data = zk.get_data("/a").await.unwrap();
    assert_eq!((data.data.as_ref(), data.stat), (&b"1"[..], created.stat));
    assert_eq!(zk.exists("/a").await.unwrap(), Some(created.stat));
    assert_eq!(zk.exists("/none").await.unwrap(), None);
    assert_eq!(refused(zk.get_data("/none").await), ErrorCode::NoNode);
    assert_eq!(refused(zk.get_children("/none").await), ErrorCode::NoNode);
    assert_eq!(zk.set_data("/a", b"22", 0.into()).await.unwrap().version, 1);
    assert_eq!(refused(zk.set_data("/a", b"3", 0.into()).await), ErrorCode::BadVersion);
    assert_eq!(zk.set_data("/a", b"333", Version::Any).await.unwrap().data_length, 3);

    let ephemeral = zk.create(&op("/a/e-", "", CreateMode::EphemeralSequential)).await.unwrap();
    assert_eq!(ephemeral.path, "/a/e-0000000000");
    assert_eq!(ephemeral.stat.ephemeral_owner, zk.session().unwrap().id.get());
    let unnamed = zk.create(&op("/a/", "", CreateMode::PersistentSequential)).await;
    if case.limited {
        assert!(matches!(unnamed, Err(Error::Unsupported(_))), "{unnamed:?}");
        create(&zk, "/a/0000000001").await;
    } else {
        assert_eq!(unnamed.unwrap().path, "/a/0000000001");
    }
    let below = zk.create(&op("/a/e-0000000000/x", "", CreateMode::Persistent)).await;
    assert_eq!(refused(below), ErrorCode::NoChildrenForEphemerals);
    let mut children = zk.get_children("/a").await.unwrap();
    children.names.sort();
    assert_eq!(
        (children.names.join(" ").as_str(), children.stat.num_children),
        ("0000000001 e-0000000000", 2)
    );
    assert_eq!(zk.get_children("/").await.unwrap().names, ["a"]);
    assert_eq!(refused(zk.delete("/a", Version::Any).await), ErrorCode::NotEmpty);
    assert_eq!(refused(zk.delete("/a/0000000001", 7.into()).await), ErrorCode::BadVersion);
    zk.delete("/a/0000000001", 0.into()).await.unwrap();
    zk.sync("/a").await.unwrap();
    assert!(matches!(zk.get_data("a").await, Err(Error::InvalidPath(_))));
    assert!(matches!(
        zk.create(&op("/a//b", "", CreateMode::Persistent)).await,
        Err(Error::InvalidPath(_))
    ));
}

/// Java's client sends a delete of the root without the chroot, and every server refuses it.
pub async fn the_root_is_the_node_of_the_chroot_and_never_deleted(case: Case) {
    let zk = case.client().await;
    for version in [None, Some(0), Some(7)] {
        assert_eq!(refused(zk.delete("/", version.into()).await), ErrorCode::BadArguments);
    }
    let (_, watch) = zk.get_data_watched("/").await.unwrap();
    assert_eq!(zk.set_data("/", b"x", 0.into()).await.unwrap().version, 1);
    assert_eq!(watch.await.unwrap().path, "/");
    assert_eq!(zk.get_data("/").await.unwrap().data, "x");
    zk.sync("/").await.unwrap();

    let outside = Case { chroot: String::new(), ..case.clone() }.client().await;
    outside.delete(&case.chroot, Version::Any).await.unwrap();
    assert_eq!(zk.exists("/").await.unwrap(), None);
    assert_eq!(create(&zk, "/").await.path, "/");
    assert!(outside.exists(&case.chroot).await.unwrap().is_some());
}

pub async fn calls_are_queued_when_made_and_return_in_order(case: Case) {
    let zk = case.client().await;
    // The create is not polled before the other requests are made.
    let created = zk.create(&op("/a", "1", CreateMode::Persistent));
    let read = zk.get_data("/a");
    let (written, again) = (zk.set_data("/a", b"2", Version::Any), zk.get_data("/a"));
    let deleted = zk.delete("/a", Version::Any);
    let gone = zk.exists("/a");
    assert_eq!(again.await.unwrap().data, "2");
    assert_eq!(gone.await.unwrap(), None);
    assert_eq!((read.await.unwrap().data.as_ref(), written.await.unwrap().version), (&b"1"[..], 1));
    created.await.unwrap();
    deleted.await.unwrap();

    // Dropped, a call is made nevertheless.
    drop(zk.create(&op("/dropped", "", CreateMode::Persistent)));
    assert!(zk.exists("/dropped").await.unwrap().is_some());
}

pub async fn one_shot_watches_fire_once_for_what_they_watch(case: Case) {
    use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
    let (zk, other) = (case.client().await, case.client().await);
    create(&zk, "/a").await;
    let (_, data) = zk.get_data_watched("/a").await.unwrap();
    let (_, same) = zk.exists_watched("/a").await.unwrap();
    let (_, mut children) = zk.get_children_watched("/a").await.unwrap();
    let (absent, created) = zk.exists_watched("/b").await.unwrap();
    assert!(absent.is_none());
    other.set_data("/a", b"x", Version::Any).await.unwrap();
    create(&other, "/b").await;
    for (watch, event, path) in
        [(data, NodeDataChanged, "/a"), (same, NodeDataChanged, "/a"), (created, NodeCreated, "/b")]
    {
        let told = watch.await.unwrap();
        assert_eq!((told.event_type, told.path.as_str()), (event, path));
    }
    assert!(timeout(Duration::ZERO, &mut children).await.is_err(), "of the data");
    create(&other, "/a/x").await;
    assert_eq!(children.await.unwrap().event_type, NodeChildrenChanged);
    let (listed, children) = zk.get_children_watched("/b").await.unwrap();
    assert!(listed.names.is_empty());
    let (_, data) = zk.get_data_watched("/b").await.unwrap();
    other.delete("/b", Version::Any).await.unwrap();
    assert_eq!(children.await.unwrap().event_type, NodeDeleted);
    assert_eq!(data.await.unwrap().event_type, NodeDeleted);
    assert_eq!(
        zk.get_data_watched("/b").await.map(drop).unwrap_err(),
        Error::Refused(ErrorCode::NoNode)
    );
}

pub async fn no_response_shows_a_change_before_its_watch_fires(case: Case) {
    let (zk, other) = (case.client().await, case.client().await);
    create(&zk, "/a").await;
    for _ in 0..50 {
        let (before, mut watch) = zk.get_data_watched("/a").await.unwrap();
        let written = other.set_data("/a", b"", Version::Any);
        loop {
            let read = zk.get_data("/a").await.unwrap();
            if read.stat.version != before.stat.version {
                break;
            }
        }
        assert!(timeout(Duration::ZERO, &mut watch).await.is_ok(), "the response came first");
        written.await.unwrap();
    }
}

pub async fn watches_survive_cuts_and_fire_for_changes_during_them(case: Case) {
    let ((zk, relay), other) = (case.relayed(LONG).await, case.client().await);
    for path in ["/changed", "/deleted", "/parent", "/later", "/later-parent", "/quiet", "/anew"] {
        create(&zk, path).await;
    }
    let session = zk.session().unwrap().id;
    let (_, changed) = zk.get_data_watched("/changed").await.unwrap();
    let (_, deleted) = zk.exists_watched("/deleted").await.unwrap();
    let (_, deleted_parent) = zk.get_children_watched("/deleted").await.unwrap();
    let (_, parent) = zk.get_children_watched("/parent").await.unwrap();
    let (_, created) = zk.exists_watched("/created").await.unwrap();
    let (_, anew) = zk.get_data_watched("/anew").await.unwrap();
    let (_, later) = zk.get_data_watched("/later").await.unwrap();
    let (_, later_parent) = zk.get_children_watched("/later-parent").await.unwrap();
    let (_, later_created) = zk.exists_watched("/later-created").await.unwrap();
    let (_, mut quiet) = zk.get_data_watched("/quiet").await.unwrap();
    away(&zk, &relay, async {
        other.set_data("/changed", b"2", Version::Any).await.unwrap();
        other.delete("/deleted", Version::Any).await.unwrap();
        create(&other, "/parent/x").await;
        create(&other, "/created").await;
        other.delete("/anew", Version::Any).await.unwrap();
        create(&other, "/anew").await;
    })
    .await;
    for (watch, expected) in [
        (changed, EventType::NodeDataChanged),
        (deleted, EventType::NodeDeleted),
        (deleted_parent, EventType::NodeDeleted),
        (parent, EventType::NodeChildrenChanged),
        (created, EventType::NodeCreated),
        (anew, EventType::NodeDataChanged),
    ] {
        assert_eq!(watch.await.unwrap().event_type, expected);
    }
    // Twice more without a change: the rest is armed every time.
    away(&zk, &relay, async {}).await;
    away(&zk, &relay, async {}).await;
    zk.sync("/").await.unwrap();
    other.set_data("/later", b"2", Version::Any).await.unwrap();
    create(&other, "/later-parent/x").await;
    create(&other, "/later-created").await;
    assert_eq!(later.await.unwrap().event_type, EventType::NodeDataChanged);
    assert_eq!(later_parent.await.unwrap().event_type, EventType::NodeChildrenChanged);
    assert_eq!(later_created.await.unwrap().event_type, EventType::NodeCreated);
    assert!(timeout(Duration::ZERO, &mut quiet).await.is_err());
    assert_eq!(zk.session().unwrap().id, session);
}

pub async fn identities_survive_cuts(case: Case) {
    let (zk, relay) = case.relayed(LONG).await;
    zk.add_auth("digest", b"user:secret").await.unwrap();
    let mine = Op::Create {
        path: "/mine".to_owned(),
        data: Some("mine".into()),
        acl: Acl::creator_all(),
        mode: CreateMode::Persistent,
        ttl: None,
    };
    zk.create(&mine).await.unwrap();
    assert_eq!(refused(case.client().await.get_data("/mine").await), ErrorCode::NoAuth);
    for _ in 0..3 {
        // Queued while there is no connection: the identity is proven before.
        let mut read = None;
        away(&zk, &relay, async { read = Some(zk.get_data("/mine")) }).await;
        assert_eq!(read.unwrap().await.unwrap().data, "mine");
    }
}

pub async fn a_lost_reply_may_have_applied_a_waiting_request_has_not(case: Case) {
    let ((zk, relay), other) = (case.relayed(LONG).await, case.client().await);
    relay.replies(Flow::Lost);
    let lost = zk.create(&op("/a", "", CreateMode::Persistent));
    let lost = tokio::spawn(lost);
    while other.exists("/a").await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let mut states = zk.states();
    relay.down();
    until(&mut states, |state| state == SessionState::Disconnected).await;
    let error = lost.await.unwrap().unwrap_err();
    assert_eq!(error, Error::ConnectionLoss { sent: true });

    relay.replies(Flow::Open);
    let waits = tokio::spawn(zk.create(&op("/b", "", CreateMode::Persistent)));
    assert!(other.exists("/b").await.unwrap().is_none());
    relay.up();
    waits.await.unwrap().unwrap();
}

pub async fn without_a_connection_requests_fail_after_few_attempts(case: Case) {
    // Accepts and closes immediately, as a load balancer without servers does.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let attempts = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let accepting = tokio::spawn(async move {
        loop {
            drop(listener.accept().await.unwrap());
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let mut settings = case.settings(&address, LONG);
    settings.connection_timeout = Duration::from_secs(2);
    settings.close_timeout = Duration::ZERO;
    let zk = case.factory.open(&settings).await.unwrap();
    assert_eq!(timeout(LIMIT, zk.get_data("/a")).await.unwrap(), Err(Error::NotConnected));
    let attempts = attempts.load(std::sync::atomic::Ordering::Relaxed);
    assert!((1..100).contains(&attempts), "{attempts} attempts");
    assert!(zk.session().is_none());
    accepting.abort();

    // No server listens there. The port of the listener may be that of another test by now.
    settings.connect_string = "127.0.0.1:1".to_owned();
    settings.connection_timeout = Duration::from_millis(300);
    let zk = case.factory.open(&settings).await.unwrap();
    assert_eq!(timeout(LIMIT, zk.get_data("/a")).await.unwrap(), Err(Error::NotConnected));
    // There is no session to close.
    assert_eq!(timeout(LIMIT, zk.close()).await.unwrap(), Ok(()));
}

pub async fn a_silent_network_is_noticed_before_the_session_is_over(case: Case) {
    let (zk, relay) = case.relayed(SHORT).await;
    let granted = zk.session().unwrap().timeout;
    let mut states = zk.states();
    relay.requests(Flow::Lost);
    relay.replies(Flow::Lost);
    let request = tokio::spawn(zk.get_data("/"));
    let before = until(&mut states, |state| state == SessionState::Disconnected).await;
    assert!(before.iter().all(|state| is_connected(*state)), "{before:?}");
    assert_eq!(request.await.unwrap().unwrap_err(), Error::ConnectionLoss { sent: true });
    // A ping from time to time, only for the server.
    relay.requests(Flow::Open);
    relay.replies(Flow::Open);
    relay.cut();
    until(&mut states, |state| is_connected(state) || state.end().is_some()).await;
    assert!(zk.session().unwrap().timeout == granted);
}

pub async fn an_idle_session_is_kept_alive(case: Case) {
    let (zk, _relay) = case.relayed(SHORT).await;
    let node = zk.create(&op("/e", "", CreateMode::Ephemeral)).await.unwrap();
    let mut states = zk.states();
    let changed = timeout(2 * SHORT, until(&mut states, |state| !is_connected(state))).await;
    assert!(changed.is_err(), "{changed:?}");
    assert_eq!(zk.exists("/e").await.unwrap(), Some(node.stat));
}

pub async fn a_session_ends_by_our_clock_once_and_for_all(case: Case) {
    let ((zk, relay), other) = (case.relayed(SHORT).await, case.client().await);
    zk.create(&op("/e", "", CreateMode::Ephemeral)).await.unwrap();
    let (_, watch) = zk.get_data_watched("/e").await.unwrap();
    let mut states = zk.states();
    relay.down();
    until(&mut states, |state| state == SessionState::Disconnected).await;
    let waits = tokio::spawn(zk.get_data("/e"));
    let seen = until(&mut states, |state| matches!(state, SessionState::Expired(_))).await;
    assert_eq!(seen, []);
    assert_eq!(waits.await.unwrap().unwrap_err(), Error::SessionExpired { sent: false });
    assert_eq!(watch.await, Err(WatchEnded::SessionLost));
    relay.up();
    while other.exists("/e").await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(zk.get_data("/").await.unwrap_err(), Error::SessionExpired { sent: false });
    assert!(poll_fn(|cx| states.as_mut().poll_next(cx)).await.is_none(), "nothing follows the end");
}

pub async fn a_closed_session_is_gone_at_the_server(case: Case) {
    let (zk, other) = (case.client().await, case.client().await);
    zk.create(&op("/e", "", CreateMode::Ephemeral)).await.unwrap();
    let (_, watch) = zk.get_data_watched("/e").await.unwrap();
    let mut states = zk.states();
    // Queued before the end.
    let last = zk.create(&op("/last", "", CreateMode::Persistent));
    zk.close().await.unwrap();
    last.await.unwrap();
    let (gone, created): (Option<Stat>, _) =
        (other.exists("/e").await.unwrap(), other.exists("/last").await);
    assert_eq!((gone, created.unwrap().is_some()), (None, true));
    assert!(matches!(watch.await, Err(WatchEnded::Closed) | Ok(_)));
    until(&mut states, |state| state == SessionState::Closed).await;
    assert_eq!(zk.get_data("/").await.unwrap_err(), Error::Closed { sent: false });
    zk.close().await.unwrap();
}

pub async fn transactions_and_containers_work_or_are_not_supported(case: Case) {
    let zk = case.client().await;
    let container = zk.create(&op("/c", "", CreateMode::Container)).await;
    let results = zk.multi(&[op("/t", "", CreateMode::Persistent)]).await;
    if case.limited {
        assert!(matches!(container, Err(Error::Unsupported(_))), "{container:?}");
        assert!(matches!(results, Err(Error::Unsupported(_))), "{results:?}");
        assert!(zk.get_children("/").await.unwrap().names.is_empty(), "nothing was sent");
    } else {
        assert_eq!(container.unwrap().path, "/c");
        assert_eq!(results.unwrap().len(), 1);
    }
}

pub async fn responses_to_many_requests_are_in_order(case: Case) {
    let zk = case.client().await;
    create(&zk, "/a").await;
    let writes: Vec<_> = (1..=500).map(|_| zk.set_data("/a", b"", Version::Any)).collect();
    for (version, write) in (1..).zip(writes) {
        assert_eq!(write.await.unwrap().version, version);
    }
}

/// Calls a macro with the names of all cases.
#[macro_export]
macro_rules! for_each_case {
    ($call:ident) => {
        $call! {
            nodes_are_created_read_written_listed_and_deleted
            the_root_is_the_node_of_the_chroot_and_never_deleted
            calls_are_queued_when_made_and_return_in_order
            one_shot_watches_fire_once_for_what_they_watch
            no_response_shows_a_change_before_its_watch_fires
            watches_survive_cuts_and_fire_for_changes_during_them
            identities_survive_cuts
            a_lost_reply_may_have_applied_a_waiting_request_has_not
            without_a_connection_requests_fail_after_few_attempts
            a_silent_network_is_noticed_before_the_session_is_over
            an_idle_session_is_kept_alive
            a_session_ends_by_our_clock_once_and_for_all
            a_closed_session_is_gone_at_the_server
            transactions_and_containers_work_or_are_not_supported
            responses_to_many_requests_are_in_order
        }
    };
}
pub use crate::for_each_case;
