//! The harness of the recipes' tests for the adapter of `zookeeper-async`: it works in real time,
//! over TCP, and makes no containers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use zk_curator::raw::zookeeper_async::ZookeeperAsyncFactory;
use zk_curator::{CuratorFramework, CuratorFrameworkBuilder};
use zk_curator_testing::TestServer;
use zk_curator_tests::{assert_clean_but_for, builder_for, real_time};

pub(crate) use zk_curator_tests::{cut_off, expire, rule_if, session_id, start, until};

pub(crate) const ADAPTED: bool = true;
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
pub(crate) const CONNECTION_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn simulated<F: Future>(test: F) -> F::Output {
    real_time(test)
}

pub(crate) fn simulated_with<T>(test: impl AsyncFnOnce(TestServer, CuratorFramework) -> T) -> T {
    simulated_on(in_memory, async |(server, zk)| test(server, zk).await)
}

pub(crate) fn simulated_on<S, T>(
    setup: impl AsyncFnOnce() -> S,
    test: impl AsyncFnOnce(S) -> T,
) -> T {
    simulated(async {
        let stage = Box::pin(setup()).await;
        Box::pin(test(stage)).await
    })
}

pub(crate) async fn closes_clean(server: &TestServer, zk: &CuratorFramework) {
    zk.close().await.unwrap();
    assert_clean_after_close(server);
}

pub(crate) async fn server() -> TestServer {
    TestServer::start().await
}

pub(crate) fn builder(server: &TestServer) -> CuratorFrameworkBuilder {
    builder_for(&server.connect_string())
        .session_timeout(SESSION_TIMEOUT)
        .connection_timeout(CONNECTION_TIMEOUT)
        .raw_client(Arc::new(ZookeeperAsyncFactory::default()))
}

pub(crate) async fn connected(server: &TestServer) -> CuratorFramework {
    start(builder(server)).await
}

pub(crate) async fn in_memory() -> (TestServer, CuratorFramework) {
    let server = server().await;
    let zk = connected(&server).await;
    (server, zk)
}

pub(crate) async fn two_in_memory() -> (TestServer, CuratorFramework, CuratorFramework) {
    let (server, zk) = in_memory().await;
    let other = connected(&server).await;
    (server, zk, other)
}

/// Parents stand where other clients make containers.
pub(crate) fn assert_clean_after_close(server: &TestServer) {
    assert_clean_but_for(server, |probe, path| {
        let stat = probe.stat(path).unwrap();
        probe.is_container(path) || (stat.ephemeral_owner == 0 && stat.cversion > 0)
    });
}
