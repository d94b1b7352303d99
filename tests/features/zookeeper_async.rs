//! The adapter for `zookeeper-async` on the embedded server: the conformance suite of raw clients,
//! and what happens to the mutex when something breaks.

use std::sync::Arc;

use zk_curator::raw::zookeeper_async::ZookeeperAsyncFactory;
use zk_curator_testing::TestServer;
use zk_curator_tests::raw_suite::{self, Case, for_each_case};
use zk_curator_tests::real_time;

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test] fn $name() {
            real_time(async {
                let server = TestServer::start().await;
                let factory = Arc::new(ZookeeperAsyncFactory::default());
                let case = Case::new(server.addr().expect("on TCP"), factory, true, stringify!($name)).await;
                raw_suite::$name(case).await;
            });
        })*
    };
}
for_each_case!(tests);

/// There are no transactions: nothing is sent, and nothing may have been applied.
#[test]
fn a_certain_transaction_is_unsupported() {
    real_time(async {
        let server = TestServer::start().await;
        let zk = crate::harness::connected(&server).await;
        let receipt = zk_curator::certain::Receipt::at(&zk, "/");
        let error = zk.transaction().create("/n", "").certain(&receipt).await.unwrap_err();
        assert_eq!(error.kind(), zk_curator::ErrorKind::Unsupported, "{error}");
        assert!(!error.may_have_applied());
        zk.close().await.unwrap();
    });
}
