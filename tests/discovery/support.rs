//! The shared harness of the tests of service discovery.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator::internal::Signal;
use zk_curator_discovery::json::read;
use zk_curator_discovery::{Registration, RegistrationState, ServiceDiscovery, ServiceInstance};
use zk_curator_proto::OpCode;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{cancel, connected, expire, simulated_each_on, simulated_on};

pub(crate) const SERVICES: &str = "/services";
pub(crate) const ORDERS: &str = "/services/orders";

/// A server in memory that keeps a list of its changes, and a framework that is connected to it.
pub(crate) async fn in_memory() -> (TestServer, CuratorFramework) {
    let server = TestServer::builder().tcp(false).keep_writes(true).start().await.unwrap();
    let zk = connected(&server).await;
    (server, zk)
}

/// As above, with two frameworks.
pub(crate) async fn two_in_memory() -> (TestServer, CuratorFramework, CuratorFramework) {
    let (server, zk) = in_memory().await;
    let other = connected(&server).await;
    (server, zk, other)
}

pub(crate) fn simulated_with<T>(test: impl AsyncFnOnce(TestServer, CuratorFramework) -> T) -> T {
    simulated_on(in_memory, async |(server, zk)| test(server, zk).await)
}

pub(crate) fn simulated_each<C>(
    cases: impl IntoIterator<Item = C>,
    mut test: impl AsyncFnMut(C, TestServer, CuratorFramework),
) {
    simulated_each_on(cases, in_memory, async |case, (server, zk)| test(case, server, zk).await);
}

pub(crate) fn discovery(zk: &CuratorFramework) -> ServiceDiscovery<u32> {
    ServiceDiscovery::new(zk, SERVICES)
}

/// An instance of `orders`.
pub(crate) fn instance(id: &str) -> ServiceInstance<u32> {
    let builder = ServiceInstance::builder("orders").id(id).address("10.0.0.1").port(8040);
    builder.registration_time_utc(5).payload(1).build().unwrap()
}

pub(crate) async fn registered(zk: &CuratorFramework, id: &str) -> Registration<u32> {
    discovery(zk).register(instance(id)).await.unwrap()
}

/// The record of an instance on the server.
pub(crate) fn record(server: &TestServer, id: &str) -> ServiceInstance<u32> {
    let path = format!("{ORDERS}/{id}");
    let data = server.probe().data(&path).unwrap_or_else(|| panic!("no {path}"));
    read(&data, "", "").unwrap()
}

/// Waits for a state.
pub(crate) async fn state(
    registration: &Registration<u32>,
    wanted: impl Fn(&RegistrationState) -> bool,
) -> RegistrationState {
    let mut events = registration.events();
    let found = timeout(Duration::from_secs(3600), async {
        while let Some(state) = events.next().await {
            if wanted(&state) {
                return state;
            }
        }
        panic!("it has ended")
    });
    found.await.unwrap_or_else(|_| panic!("{:?}", registration.state()))
}

/// Expires the session, and waits until the instance is registered in the next one.
pub(crate) async fn registered_again(
    server: &TestServer,
    zk: &CuratorFramework,
    registration: &Registration<u32>,
) {
    let mut events = registration.events();
    let Some(RegistrationState::Registered { session: old }) = events.next().await else {
        panic!("not registered");
    };
    expire(server, zk).await;
    state(
        registration,
        |state| matches!(state, RegistrationState::Registered { session } if *session != old),
    )
    .await;
}

/// Polls a future until it is ready or the server has received this number of requests; then drops
/// it. Use it for futures that wait for a task, whose requests count. If `is_under_way`, the last
/// request is not applied yet.
pub(crate) async fn run_then_drop<F: Future>(
    server: &TestServer,
    future: F,
    requests: usize,
    is_under_way: bool,
) -> Option<F::Output> {
    let received = Arc::new(Signal::new(0));
    let counted = Arc::clone(&received);
    let _rule = server.rule(move |request| {
        if request.is(OpCode::Ping) {
            return Verdict::Pass;
        }
        let is_last = counted.modify(|received| {
            *received += 1;
            *received == requests
        });
        if is_last && is_under_way { Verdict::Delay(Duration::from_secs(1)) } else { Verdict::Pass }
    });
    tokio::select! {
        biased;
        output = future => Some(output),
        () = received.until(|received| *received >= requests) => None,
    }
}

/// Runs a case once for every request at which [`run_then_drop`] can drop the future, until it
/// completes. Returns the number of requests.
pub(crate) async fn each_request(mut case: impl AsyncFnMut(usize, bool) -> bool) -> usize {
    for is_under_way in [false, true] {
        let steps = cancel::each_step(async |requests| case(requests, is_under_way).await).await;
        if is_under_way {
            return steps;
        }
    }
    unreachable!("one of the two is under way")
}
