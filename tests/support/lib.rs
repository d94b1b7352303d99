//! What the tests of the framework and of the recipes share.
#![expect(
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::unwrap_used,
    missing_docs,
    reason = "all of it is for tests"
)]

pub mod cancel;
mod contention;
pub mod raw_suite;
mod server;

pub use cancel::poll_then_drop;
pub use contention::Contention;
pub use server::Server;

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator::retry::{ExponentialBackoffRetry, RetryNTimes};
use zk_curator::{ConnectionState, ConnectionStatus, CuratorFramework, CuratorFrameworkBuilder, SessionId};
use zk_curator_proto::records::MultiOp;
use zk_curator_proto::{OpCode, Request};
use zk_curator_testing::{Probe, RuleGuard, RuleRequest, TestServer, Verdict};

/// Longer than any test needs, in real time.
const LONG: Duration = Duration::from_secs(60);
/// The same in simulated time, in which nothing takes long.
const LONG_SIMULATED: Duration = Duration::from_secs(24 * 3600);

/// What frameworks of these tests ask for.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// What frameworks of these tests have.
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a test in simulated time: one thread, the clock runs ahead whenever everybody waits. Servers must be
/// in memory.
pub fn simulated<F: Future>(test: F) -> F::Output {
    simulated_from(0, test)
}

/// The same with other random choices: the first framework has this seed, each further one the next.
pub fn simulated_from<F: Future>(seed: u64, test: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    NEXT_SEED.set(Some(seed));
    let output = runtime.block_on(async { timeout(LONG_SIMULATED, test).await }).expect("the test hangs");
    NEXT_SEED.set(None);
    output
}

/// Runs a test in real time, on two threads.
pub fn real_time<F: Future>(test: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { timeout(LONG, test).await }).expect("the test hangs")
}

/// Settings for a framework on these servers.
pub fn builder_for(connect_string: &str) -> CuratorFrameworkBuilder {
    CuratorFramework::builder()
        .connect_string(connect_string)
        .session_timeout(SESSION_TIMEOUT)
        .connection_timeout(CONNECTION_TIMEOUT)
        .retry(ExponentialBackoffRetry::new(Duration::from_millis(10), 5).seed(7))
}

/// Settings for a framework on this server, over TCP if it has an address and else through memory.
pub fn builder(server: &TestServer) -> CuratorFrameworkBuilder {
    let builder = builder_for(&server.connect_string());
    match server.addr() {
        Some(_) => builder,
        None => seeded(builder.connector(std::sync::Arc::new(server.connector()))),
    }
}

thread_local! {
    /// The seed of the next framework: in simulated time, every run of a test is the same.
    static NEXT_SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

fn seeded(builder: CuratorFrameworkBuilder) -> CuratorFrameworkBuilder {
    let Some(seed) = NEXT_SEED.get() else { return builder };
    NEXT_SEED.set(Some(seed + 1));
    builder.seed(seed)
}

/// A framework that is connected to this server.
pub async fn connected(server: &TestServer) -> CuratorFramework {
    let zk = builder(server).build().unwrap();
    zk.start().await.unwrap();
    zk
}

/// A server in memory.
pub async fn server() -> TestServer {
    TestServer::in_memory().await
}

/// A server in memory and a framework that is connected to it.
pub async fn in_memory() -> (TestServer, CuratorFramework) {
    let server = server().await;
    let zk = connected(&server).await;
    (server, zk)
}

/// The same with two frameworks.
pub async fn two_in_memory() -> (TestServer, CuratorFramework, CuratorFramework) {
    let (server, zk) = in_memory().await;
    let other = connected(&server).await;
    (server, zk, other)
}

/// The same of a framework that tries nothing again.
pub async fn impatient() -> (TestServer, CuratorFramework) {
    let server = TestServer::in_memory().await;
    let zk = builder(&server).retry(RetryNTimes::new(0, Duration::ZERO)).build().unwrap();
    zk.start().await.unwrap();
    (server, zk)
}

/// Waits for a state of the connection.
pub async fn until_state(zk: &CuratorFramework, state: ConnectionState) -> ConnectionStatus {
    let reached = timeout(LONG_SIMULATED / 2, zk.states().until(|status| status.state == state)).await;
    reached.ok().flatten().unwrap_or_else(|| panic!("never {state:?}: {zk:?}"))
}

/// What happens to the next request with an opcode.
pub fn once(server: &TestServer, opcode: OpCode, verdict: Verdict) -> RuleGuard {
    server.rule(move |request| if request.is(opcode) { verdict } else { Verdict::Pass }).times(1)
}

/// Applies a verdict to the next transaction that changes something.
pub fn once_on_write_multi(server: &TestServer, verdict: Verdict) -> RuleGuard {
    server.rule(move |request| if is_write_multi(request) { verdict } else { Verdict::Pass }).times(1)
}

/// Whether it is a transaction that changes something, and not the check that goes ahead of a linearizable read.
pub fn is_write_multi(request: &RuleRequest<'_>) -> bool {
    matches!(request.request(), Request::Multi(ops) if ops.iter().any(|op| !matches!(op, MultiOp::Check(_))))
}

/// Cuts a framework off until the guard is dropped.
pub fn cut_off(server: &TestServer, zk: &CuratorFramework) -> RuleGuard {
    let victim = session_id(zk).get();
    let is_victim = move |request: &RuleRequest<'_>| request.session_id() == victim;
    let cut =
        server.rule(move |request| if is_victim(request) { Verdict::Disconnect } else { Verdict::Pass });
    server.disconnect(victim);
    cut
}

/// Loses the answer to the next create or transaction of a framework, or the request, and cuts it off from then on, until the
/// guard is dropped. Others act meanwhile.
pub fn cut_at_next_multi(server: &TestServer, zk: &CuratorFramework, verdict: Verdict) -> RuleGuard {
    cut_at(server, zk, verdict, |request| is_write_multi(request) || request.is_create())
}

/// The same at the next write of any kind.
pub fn cut_at_next_write(server: &TestServer, zk: &CuratorFramework, verdict: Verdict) -> RuleGuard {
    let is_single = |request: &RuleRequest<'_>| matches!(request.opcode(), OpCode::Delete | OpCode::SetData);
    cut_at(server, zk, verdict, move |request| {
        is_write_multi(request) || request.is_create() || is_single(request)
    })
}

fn cut_at(
    server: &TestServer,
    zk: &CuratorFramework,
    verdict: Verdict,
    is_it: impl Fn(&RuleRequest<'_>) -> bool + Send + Sync + 'static,
) -> RuleGuard {
    let (victim, is_cut) = (session_id(zk).get(), std::sync::atomic::AtomicBool::new(false));
    server.rule(move |request| {
        if request.session_id() != victim {
            Verdict::Pass
        } else if is_cut.load(std::sync::atomic::Ordering::Relaxed) {
            Verdict::Disconnect
        } else if is_it(request) {
            is_cut.store(true, std::sync::atomic::Ordering::Relaxed);
            verdict
        } else {
            Verdict::Pass
        }
    })
}

/// The session of a connected framework.
pub fn session_id(zk: &CuratorFramework) -> SessionId {
    zk.session().expect("a session").id
}

/// Expires the session of a framework at the server.
pub async fn expire(server: &TestServer, zk: &CuratorFramework) {
    assert!(server.expire(session_id(zk).get()).await, "no such session\n{}", server.probe());
}

/// Nothing of any client is left: no session, no watch, no node. Containers do not count, for the server
/// removes them.
pub fn assert_clean_after_close(server: &TestServer) {
    assert_clean_but_for(server, |probe, path| probe.is_container(path));
}

/// The same, with nodes that may be there.
pub fn assert_clean_but_for(server: &TestServer, may_stay: impl Fn(&Probe, &str) -> bool) {
    let probe = server.probe();
    let nodes: Vec<_> = probe.paths().into_iter().filter(|path| !may_stay(&probe, path)).collect();
    assert!(nodes.is_empty(), "nodes are left: {nodes:?}\n{probe}");
    assert!(probe.sessions().is_empty(), "sessions are left\n{probe}");
    assert!(probe.watches().is_empty(), "watches are left\n{probe}");
}

/// Waits for the server; the failure shows what it knows.
pub async fn until(server: &TestServer, condition: impl FnMut(&Probe) -> bool) -> Probe {
    match timeout(LONG / 2, server.until(condition)).await {
        Ok(probe) => probe,
        Err(_) => panic!("this never became true of the server\n{}", server.probe()),
    }
}

/// Whether something is kept of a job, `done` or `failed`.
pub fn is_kept(probe: &Probe, end: &str, id: &str) -> bool {
    items(probe, end).iter().any(|name| name.rsplit('/').next() == Some(id))
}

/// The names below the parent of items, those of items in buckets after the names of their buckets.
pub fn items(probe: &Probe, parent: &str) -> Vec<String> {
    let in_bucket = |name: &&str| {
        let items = probe.children(&format!("{parent}/{name}")).into_iter();
        items.map(|item| format!("{name}/{item}")).collect::<Vec<_>>()
    };
    let (buckets, others): (Vec<&str>, Vec<&str>) =
        probe.children(parent).into_iter().partition(|name| name.starts_with("b-") || name.starts_with("b|"));
    others.into_iter().map(str::to_owned).chain(buckets.iter().flat_map(in_bucket)).collect()
}
