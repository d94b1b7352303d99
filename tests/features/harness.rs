//! The harness of the recipes' tests for the adapter of `zookeeper-async`: it works in real time, over TCP, and makes no
//! containers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use zk_curator::raw::zookeeper_async::ZookeeperAsyncFactory;
use zk_curator::{CuratorFramework, CuratorFrameworkBuilder};
use zk_curator_testing::TestServer;
use zk_curator_tests::{assert_clean_but_for, builder_for, real_time};

pub(crate) use zk_curator_tests::{expire, session_id, until};

pub(crate) const ADAPTED: bool = true;
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
pub(crate) const CONNECTION_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn simulated<F: Future>(test: F) -> F::Output {
    real_time(test)
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
    let zk = builder(server).build().unwrap();
    zk.start().await.unwrap();
    zk
}

pub(crate) async fn in_memory() -> (TestServer, CuratorFramework) {
    let server = server().await;
    let zk = connected(&server).await;
    (server, zk)
}

/// Parents stand where other clients make containers.
pub(crate) fn assert_clean_after_close(server: &TestServer) {
    assert_clean_but_for(server, |probe, path| {
        let stat = probe.stat(path).unwrap();
        probe.is_container(path) || (stat.ephemeral_owner == 0 && stat.cversion > 0)
    });
}
