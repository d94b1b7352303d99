//! The adapter for `zookeeper-async` on the embedded server: the conformance suite of raw clients,
//! and what happens to the mutex when something breaks.

use std::pin::pin;
use std::sync::Arc;

use futures_util::poll;
use zk_curator::raw::zookeeper_async::ZookeeperAsyncFactory;
use zk_curator::{ConnectionState, CreateMode};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::{RuleRequest, TestServer, Verdict};
use zk_curator_tests::raw_suite::{self, Case, for_each_case};
use zk_curator_tests::{real_time, rule_if};

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
        let receipt = zk_curator::certain::Receipt::new(&zk, "/");
        let error = zk.transaction().create("/n", "").certain(&receipt).await.unwrap_err();
        assert_eq!(error.kind(), zk_curator::ErrorKind::Unsupported, "{error}");
        assert!(!error.may_have_applied());
        zk.close().await.unwrap();
    });
}

/// Only a missing node is an absence.
#[test]
fn refused_rearm_is_no_loss() {
    for code in [ErrorCode::Throttled, ErrorCode::NoAuth] {
        real_time(async {
            let server = TestServer::start().await;
            let zk = crate::harness::connected(&server).await;
            let node = zk.create("/n").mode(CreateMode::Ephemeral).owned().await.unwrap();
            let ownership = node.ownership();
            let mut lost = pin!(ownership.lost());
            assert!(poll!(lost.as_mut()).is_pending());
            zk.exists("/n").await.unwrap();
            let is_read = |request: &RuleRequest<'_>| {
                (request.is(OpCode::Exists) || request.is(OpCode::GetData))
                    && request.is_about("/n")
            };
            let refused = rule_if(&server, is_read, Verdict::Refuse(code)).times(1);
            let mut states = zk.states();
            server.disconnect_all();
            states.until(|status| status.state == ConnectionState::Suspended).await.unwrap();
            states.until(|status| status.state.is_connected()).await.unwrap();
            // A request is sent after the watches are armed.
            zk.sync("/").await.unwrap();
            assert_eq!(refused.hits(), 1);
            assert!(poll!(lost.as_mut()).is_pending(), "{code}");
            assert!(server.probe().exists("/n"));
            zk.delete("/n").await.unwrap();
            lost.await;
            zk.close().await.unwrap();
        });
    }
}
