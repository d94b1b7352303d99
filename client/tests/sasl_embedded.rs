//! SASL against the embedded server, which does not support it.

use crate::common::REAL_LIMIT;
use zk_curator_client::{Error, SessionState, ZooKeeper};
use zk_curator_testing::TestServer;

#[tokio::test]
async fn a_server_that_proves_nothing_ends_the_client() {
    let server = TestServer::start().await;
    let builder = ZooKeeper::builder(server.connect_string()).sasl_digest_md5("alice", "s3cret");
    assert!(!format!("{builder:?}").contains("s3cret"));
    let zk = builder.connect().unwrap();
    let answer = tokio::time::timeout(REAL_LIMIT, zk.exists("/")).await.expect("a response");
    assert_eq!(answer, Err(Error::AuthFailed { sent: false }));
    assert_eq!(zk.state(), SessionState::AuthFailed);
}
