//! The harness of the tests of the framework and of the recipes.
#![expect(
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::unwrap_used,
    missing_docs,
    reason = "all of it is for tests"
)]

pub mod cancel;
pub mod catalogue;
mod contention;
mod files;
mod gate;
pub mod raw_suite;
mod server;

pub use cancel::poll_then_drop;
pub use contention::Contention;
pub use files::files_below;
pub use gate::{Gate, gated};
pub use server::Server;

use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use zk_curator::retry::{ExponentialBackoffRetry, RetryNTimes};
use zk_curator::{
    ConnectionState, ConnectionStatus, CuratorFramework, CuratorFrameworkBuilder, SessionId,
};
use zk_curator_proto::records::MultiOp;
use zk_curator_proto::{OpCode, Request};
use zk_curator_recipes::Shutdown;
use zk_curator_testing::{Probe, RuleGuard, RuleRequest, TestCluster, TestServer, Verdict};

/// Longer than any test needs, in real time on a busy machine.
const LONG: Duration = Duration::from_secs(300);
/// The same limit in simulated time.
const LONG_SIMULATED: Duration = Duration::from_secs(24 * 3600);

/// The session timeout of frameworks in real time, unless a session has to end. Servers of the
/// tests grant it.
const LONG_SESSION: Duration = Duration::from_secs(40);
/// The session timeout of the frameworks of these tests, in simulated time.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The connection timeout of the frameworks of these tests.
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the size of a slow test: `gate` when a change is judged, and `night` with
/// `ZK_CURATOR_NIGHT=1`.
pub fn size(gate: usize, night: usize) -> usize {
    match std::env::var_os("ZK_CURATOR_NIGHT") {
        Some(value) if value == "1" => night,
        _ => gate,
    }
}

/// Asserts that a value matches a pattern, and shows the value otherwise.
#[macro_export]
macro_rules! assert_matches {
    ($value:expr, $pattern:pat $(if $guard:expr)?) => {
        match $value {
            $pattern $(if $guard)? => {}
            other => panic!("{other:?}"),
        }
    };
}

/// Runs a test in simulated time: on one thread, with a clock that jumps ahead when all tasks wait.
/// Servers must be in memory.
pub fn simulated<F: Future>(test: F) -> F::Output {
    simulated_from(0, test)
}

/// Runs a test in simulated time with a server in memory and a framework that is connected to it.
pub fn simulated_with<T>(test: impl AsyncFnOnce(TestServer, CuratorFramework) -> T) -> T {
    simulated_on(in_memory, async |(server, zk)| test(server, zk).await)
}

/// Runs a test in simulated time on what `setup` returns.
pub fn simulated_on<S, T>(setup: impl AsyncFnOnce() -> S, test: impl AsyncFnOnce(S) -> T) -> T {
    simulated(async {
        let stage = Box::pin(setup()).await;
        Box::pin(test(stage)).await
    })
}

/// Runs a test in simulated time with a server and a framework for every step at which
/// [`poll_then_drop`] can cancel a future, until `test` returns that nothing was cancelled.
///
/// # Panics
/// If that takes at most `more_than` steps: the future is then no longer cancelled everywhere.
pub fn simulated_steps(
    more_than: usize,
    mut test: impl AsyncFnMut(usize, TestServer, CuratorFramework) -> bool,
) {
    simulated_steps_on(more_than, in_memory, async |step, (server, zk)| {
        test(step, server, zk).await
    });
}

/// Like [`simulated_steps`], each step on a new result of `setup`.
pub fn simulated_steps_on<S>(
    more_than: usize,
    mut setup: impl AsyncFnMut() -> S,
    mut test: impl AsyncFnMut(usize, S) -> bool,
) {
    let steps = simulated(cancel::each_step(async |step| {
        let stage = Box::pin(setup()).await;
        Box::pin(test(step, stage)).await
    }));
    assert!(steps > more_than, "only {steps} steps");
}

/// Cancels a future at every step in simulated time, see [`cancel::at_every_step`].
///
/// # Panics
/// If that takes at most `more_than` steps: the future is then no longer cancelled everywhere.
pub fn simulated_drops<S, T>(
    more_than: usize,
    setup: impl AsyncFnMut() -> S,
    run: impl AsyncFnMut(&S) -> T,
    check: impl AsyncFnMut(S, Option<T>),
) {
    let steps = simulated(cancel::at_every_step(setup, run, check));
    assert!(steps > more_than, "only {steps} steps");
}

/// Runs a test for each case, in one simulation, with a new server and a framework that is
/// connected to it.
pub fn simulated_each<C>(
    cases: impl IntoIterator<Item = C>,
    mut test: impl AsyncFnMut(C, TestServer, CuratorFramework),
) {
    simulated_each_on(cases, in_memory, async |case, (server, zk)| test(case, server, zk).await);
}

/// Runs a test for each case, in one simulation, each on a new result of `setup`.
pub fn simulated_each_on<C, S>(
    cases: impl IntoIterator<Item = C>,
    mut setup: impl AsyncFnMut() -> S,
    mut test: impl AsyncFnMut(C, S),
) {
    simulated(async {
        for case in cases {
            let stage = Box::pin(setup()).await;
            Box::pin(test(case, stage)).await;
        }
    });
}

/// Every case of the one list with every case of the other.
pub fn pairs<A: Copy, B>(
    first: impl IntoIterator<Item = A>,
    second: impl IntoIterator<Item = B> + Clone,
) -> impl Iterator<Item = (A, B)> {
    first.into_iter().flat_map(move |a| second.clone().into_iter().map(move |b| (a, b)))
}

/// Like [`simulated`], with other random choices: the first framework has this seed, each further
/// one the next.
pub fn simulated_from<F: Future>(seed: u64, test: F) -> F::Output {
    let mut output = None;
    simulate(seed, Box::pin(async { output = Some(test.await) }));
    output.expect("invariant: the test has ended")
}

/// Runs a test in real time, on two threads.
pub fn real_time<F: Future>(test: F) -> F::Output {
    let mut output = None;
    wait(Box::pin(async { output = Some(test.await) }));
    output.expect("invariant: the test has ended")
}

/// The body of a test: any future, because the loop of a runtime for every test is a quarter of the
/// machine code of the tests.
type Test<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

fn simulate(seed: u64, test: Test<'_>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    NEXT_SEED.set(Some(seed));
    run(&runtime, LONG_SIMULATED, test);
    NEXT_SEED.set(None);
}

fn wait(test: Test<'_>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    run(&runtime, LONG, test);
}

/// Runs a test with a limit of time.
fn run(runtime: &Runtime, limit: Duration, test: Test<'_>) {
    runtime.block_on(async { timeout(limit, test).await }).expect("the test hangs");
}

/// Waits for all of these futures, like [`futures_util::future::join_all`], of which the tests have
/// one copy for each type of results rather than one for each type of futures.
pub async fn join_all<F: Future>(all: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    futures_util::future::join_all(all.into_iter().map(FutureExt::boxed_local)).await
}

/// Waits for all of these futures until one fails, like [`futures_util::future::try_join_all`].
///
/// # Errors
/// The first error.
pub async fn try_join_all<T, E, F: Future<Output = Result<T, E>>>(
    all: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, E> {
    futures_util::future::try_join_all(all.into_iter().map(FutureExt::boxed_local)).await
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
/// Over TCP, its session does not end on a busy machine.
pub fn builder(server: &TestServer) -> CuratorFrameworkBuilder {
    let builder = builder_for(&server.connect_string());
    match server.addr() {
        Some(_) => builder.session_timeout(LONG_SESSION).connection_timeout(LONG_SESSION),
        None => seeded(builder.connector(Arc::new(server.connector()))),
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

/// A framework with these settings, which has started.
pub async fn start(builder: CuratorFrameworkBuilder) -> CuratorFramework {
    let zk = builder.build().unwrap();
    zk.start().await.unwrap();
    zk
}

/// A framework that is connected to this server.
pub async fn connected(server: &TestServer) -> CuratorFramework {
    start(builder(server)).await
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

/// Three servers in memory.
pub async fn cluster_of_three() -> TestCluster {
    TestCluster::in_memory(3).await
}

/// The same with a framework that never retries.
pub async fn impatient() -> (TestServer, CuratorFramework) {
    let server = server().await;
    let zk = start(builder(&server).retry(RetryNTimes::new(0, Duration::ZERO))).await;
    (server, zk)
}

/// Runs a future with a shutdown that begins when `stop` resolves.
pub async fn stopped_by<T>(
    stop: impl Future<Output = ()>,
    run: impl AsyncFnOnce(Shutdown) -> T,
) -> T {
    let shutdown = Shutdown::new();
    let stopped = async {
        stop.await;
        shutdown.begin();
        std::future::pending().await
    };
    tokio::select! {
        biased;
        never = stopped => never,
        output = run(shutdown.clone()) => output,
    }
}

/// Waits for a state of the connection.
pub async fn until_state(zk: &CuratorFramework, state: ConnectionState) -> ConnectionStatus {
    let reached =
        timeout(LONG_SIMULATED / 2, zk.states().until(|status| status.state == state)).await;
    reached.ok().flatten().unwrap_or_else(|| panic!("never {state:?}: {zk:?}"))
}

/// Applies a verdict to the requests that fulfil a condition.
pub fn rule_if(
    server: &TestServer,
    condition: impl Fn(&RuleRequest<'_>) -> bool + Send + Sync + 'static,
    verdict: Verdict,
) -> RuleGuard {
    server.rule(move |request| if condition(request) { verdict } else { Verdict::Pass })
}

/// Applies a verdict to the requests with an opcode.
pub fn always(server: &TestServer, opcode: OpCode, verdict: Verdict) -> RuleGuard {
    rule_if(server, move |request| request.is(opcode), verdict)
}

/// Applies a verdict to the next request with an opcode.
pub fn once(server: &TestServer, opcode: OpCode, verdict: Verdict) -> RuleGuard {
    always(server, opcode, verdict).times(1)
}

/// Applies a verdict to the next transaction that changes something.
pub fn once_on_write_multi(server: &TestServer, verdict: Verdict) -> RuleGuard {
    rule_if(server, is_write_multi, verdict).times(1)
}

/// Returns `true` for a transaction that changes something, and `false` for the check before a
/// linearizable read.
pub fn is_write_multi(request: &RuleRequest<'_>) -> bool {
    matches!(request.request(), Request::Multi(ops) if ops.iter().any(|op| !matches!(op, MultiOp::Check(_))))
}

/// The requests of each session.
pub type Requests = Arc<Mutex<BTreeMap<i64, Vec<OpCode>>>>;

/// Records the requests of each session, except for pings, until the guard is dropped.
pub fn recorded(server: &TestServer) -> (RuleGuard, Requests) {
    let requests = Requests::default();
    let log = Arc::clone(&requests);
    let rule = server.rule(move |request| {
        if !request.is(OpCode::Ping) {
            let mut log = log.lock().unwrap();
            log.entry(request.session_id()).or_default().push(request.opcode());
        }
        Verdict::Pass
    });
    (rule, requests)
}

/// Applies a verdict to the requests of a framework with an opcode.
pub fn always_of(
    server: &TestServer,
    zk: &CuratorFramework,
    opcode: OpCode,
    verdict: Verdict,
) -> RuleGuard {
    let session = session_id(zk).get();
    rule_if(server, move |request| request.session_id() == session && request.is(opcode), verdict)
}

/// Applies a verdict to all requests of a framework.
pub fn whenever_of(server: &TestServer, zk: &CuratorFramework, verdict: Verdict) -> RuleGuard {
    let session = session_id(zk).get();
    rule_if(server, move |request| request.session_id() == session, verdict)
}

/// Cuts a framework off until the guard is dropped.
pub fn cut_off(server: &TestServer, zk: &CuratorFramework) -> RuleGuard {
    let cut = whenever_of(server, zk, Verdict::Disconnect);
    server.disconnect(session_id(zk).get());
    cut
}

/// Loses the response to the next create or transaction of a framework, or the request, and cuts
/// the framework off until the guard is dropped. Other clients stay connected.
pub fn cut_at_next_multi(
    server: &TestServer,
    zk: &CuratorFramework,
    verdict: Verdict,
) -> RuleGuard {
    cut_at(server, zk, verdict, |request| is_write_multi(request) || request.is_create())
}

/// The same at the next write of any kind.
pub fn cut_at_next_write(
    server: &TestServer,
    zk: &CuratorFramework,
    verdict: Verdict,
) -> RuleGuard {
    let is_single =
        |request: &RuleRequest<'_>| matches!(request.opcode(), OpCode::Delete | OpCode::SetData);
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

/// Closes the last framework that is open, and checks that nothing of any client is left.
pub async fn closes_clean(server: &TestServer, zk: &CuratorFramework) {
    zk.close().await.unwrap();
    assert_clean_after_close(server);
}

/// Closes all frameworks, and checks that nothing of any client is left.
pub async fn all_close_clean(
    server: &TestServer,
    frameworks: impl IntoIterator<Item: Borrow<CuratorFramework>>,
) {
    for zk in frameworks {
        zk.borrow().close().await.unwrap();
    }
    assert_clean_after_close(server);
}

/// Checks that no session, watch or node is left. Containers do not count, because the server
/// removes them.
pub fn assert_clean_after_close(server: &TestServer) {
    assert_clean_but_for(server, |probe, path| probe.is_container(path));
}

/// The same, except for nodes that may stay.
pub fn assert_clean_but_for(server: &TestServer, may_stay: impl Fn(&Probe, &str) -> bool) {
    let probe = server.probe();
    let nodes: Vec<_> = probe.paths().into_iter().filter(|path| !may_stay(&probe, path)).collect();
    assert!(nodes.is_empty(), "nodes are left: {nodes:?}\n{probe}");
    assert!(probe.sessions().is_empty(), "sessions are left\n{probe}");
    assert!(probe.watches().is_empty(), "watches are left\n{probe}");
}

/// Waits for a condition of the server. The failure shows the server's state.
pub async fn until(server: &TestServer, condition: impl FnMut(&Probe) -> bool) -> Probe {
    match timeout(LONG / 2, server.until(condition)).await {
        Ok(probe) => probe,
        Err(_) => panic!("this never became true of the server\n{}", server.probe()),
    }
}

/// Returns `true` if the result of a job is kept below `end`, `done` or `failed`.
pub fn is_kept(probe: &Probe, end: &str, id: &str) -> bool {
    items(probe, end).iter().any(|name| name.rsplit('/').next() == Some(id))
}

/// The names below the parent of items, those of items in buckets after the names of their buckets.
pub fn items(probe: &Probe, parent: &str) -> Vec<String> {
    let in_bucket = |name: &&str| {
        let items = probe.children(&format!("{parent}/{name}")).into_iter();
        items.map(|item| format!("{name}/{item}")).collect::<Vec<_>>()
    };
    let (buckets, others): (Vec<&str>, Vec<&str>) = probe
        .children(parent)
        .into_iter()
        .partition(|name| name.starts_with("b-") || name.starts_with("b|"));
    others.into_iter().map(str::to_owned).chain(buckets.iter().flat_map(in_bucket)).collect()
}
