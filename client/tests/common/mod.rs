//! Shared functions of the client's tests: runtimes with a limit, clients, and a network that the
//! test controls.
#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "every test binary uses another part of it, and all of it is for tests"
)]

pub(crate) mod suite;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use zk_curator_client::{
    Acl, Connector, CreateMode, Error, SessionState, SessionStates, TcpConnector, Transport,
    ZooKeeper, ZooKeeperBuilder,
};
use zk_curator_testing::TestServer;

/// The session timeout of most tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(6);

/// Longer than any test takes on its own clock.
const LIMIT: Duration = Duration::from_secs(600);
/// The same in real time, on a busy machine.
pub(crate) const REAL_LIMIT: Duration = Duration::from_secs(240);

/// Runs a test under a paused clock. Use it only with the in-memory network.
pub(crate) fn simulated<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    run(&runtime, LIMIT, test)
}

/// Runs a test under a paused clock with an in-memory server.
pub(crate) fn simulated_with<T>(test: impl AsyncFnOnce(TestServer) -> T) -> T {
    simulated(async {
        let server = TestServer::in_memory().await;
        Box::pin(test(server)).await
    })
}

/// Runs a test in real time on several threads.
pub(crate) fn real_time<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    run(&runtime, REAL_LIMIT, test)
}

/// Runs a test with a limit of time.
fn run<T>(runtime: &Runtime, limit: Duration, test: impl Future<Output = T>) -> T {
    let mut output = None;
    run_any(runtime, limit, Box::pin(async { output = Some(test.await) }));
    output.expect("invariant: the test has ended")
}

/// Takes any future, so that the loop of a runtime is not compiled for every test.
fn run_any(runtime: &Runtime, limit: Duration, test: Pin<Box<dyn Future<Output = ()> + '_>>) {
    runtime.block_on(async { timeout(limit, test).await }).expect("the test hangs");
}

/// Returns a reproducible client of `server` in memory.
pub(crate) fn builder(server: &TestServer) -> ZooKeeperBuilder {
    ZooKeeper::builder("memory:2181")
        .connector(Arc::new(server.connector()))
        .session_timeout(TIMEOUT)
        .seed(7)
}

/// Returns a client that is connected in memory.
pub(crate) async fn connected(server: &TestServer) -> ZooKeeper {
    start(builder(server)).await
}

pub(crate) async fn start(builder: ZooKeeperBuilder) -> ZooKeeper {
    let zk = builder.connect().unwrap();
    zk.connected().await.unwrap();
    zk
}

/// Returns a client that is connected through a separate network.
pub(crate) async fn on_network(server: &TestServer) -> (ZooKeeper, Network) {
    let network = Network::new(server.connector());
    (start(builder(server).connector(network.connector())).await, network)
}

/// Two addresses where nobody listens. A port that was free a moment ago would not do: a server of
/// another test may take it.
pub(crate) const NOWHERE: [&str; 2] = ["127.0.0.1:1", "127.0.0.1:2"];

pub(crate) fn id(zk: &ZooKeeper) -> i64 {
    zk.session().expect("a session").id.get()
}

pub(crate) fn open() -> Vec<Acl> {
    Acl::open_unsafe()
}

pub(crate) async fn create(zk: &ZooKeeper, path: &str) -> Result<String, Error> {
    zk.create(path, b"data", &open(), CreateMode::Persistent).await.map(|created| created.path)
}

/// Returns the next state for which `matches` holds.
pub(crate) async fn until(
    states: &mut SessionStates,
    matches: impl Fn(SessionState) -> bool,
) -> SessionState {
    loop {
        let state = states.next().await.expect("a state before the end");
        if matches(state) {
            return state;
        }
    }
}

pub(crate) fn is_connected(state: SessionState) -> bool {
    matches!(state, SessionState::Connected(_))
}

/// Returns all states up to the end.
pub(crate) async fn history(mut states: SessionStates) -> Vec<SessionState> {
    let mut history = Vec::new();
    while let Some(state) = states.next().await {
        history.push(state);
    }
    history
}

/// Cuts the connection of a client and waits until it notices.
pub(crate) async fn cut(server: &TestServer, zk: &ZooKeeper) {
    let mut states = zk.states();
    assert!(server.disconnect(id(zk)));
    until(&mut states, |state| state == SessionState::Disconnected).await;
}

/// Cuts the connection of a client and waits until it is connected again.
pub(crate) async fn reconnect(server: &TestServer, zk: &ZooKeeper) {
    let mut states = zk.states();
    assert!(server.disconnect(id(zk)));
    until(&mut states, |state| state == SessionState::Disconnected).await;
    until(&mut states, is_connected).await;
}

/// Asserts that a duration is `expected`, within the granularity of the timer.
pub(crate) fn assert_about(since: Instant, expected: Duration) {
    let elapsed = since.elapsed();
    let tolerance = Duration::from_millis(20);
    assert!(
        elapsed + tolerance >= expected && elapsed <= expected + tolerance,
        "{elapsed:?}, not {expected:?}"
    );
}

/// The network of one client. It counts attempts, and refuses them while it is down. It cuts no
/// connection by itself.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    inner: Arc<dyn Connector>,
    state: Arc<NetworkState>,
}

#[derive(Debug, Default)]
struct NetworkState {
    down: AtomicBool,
    attempts: AtomicU64,
    hosts: Mutex<Vec<String>>,
    changed: watch::Sender<()>,
}

impl Network {
    pub(crate) fn new(inner: impl Connector) -> Self {
        Self { inner: Arc::new(inner), state: Arc::default() }
    }

    pub(crate) fn tcp() -> Self {
        Self::new(TcpConnector::default())
    }

    pub(crate) fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.clone())
    }

    pub(crate) fn down(&self) {
        self.state.down.store(true, Ordering::SeqCst);
    }

    pub(crate) fn up(&self) {
        self.state.down.store(false, Ordering::SeqCst);
    }

    pub(crate) fn attempts(&self) -> u64 {
        self.state.attempts.load(Ordering::SeqCst)
    }

    pub(crate) fn hosts(&self) -> Vec<String> {
        self.state.hosts.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Connector for Network {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        self.state.attempts.fetch_add(1, Ordering::SeqCst);
        self.state.hosts.lock().unwrap().push(host.to_owned());
        if self.state.down.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.inner.connect(host, port).await
    }
}
