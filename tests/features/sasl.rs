//! SASL through the framework, to the embedded server, which has none.

use std::time::Duration;

use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_testing::TestServer;

#[tokio::test]
async fn the_framework_refuses_a_server_that_proves_nothing() {
    let server = TestServer::start().await;
    let builder = CuratorFramework::builder()
        .connect_string(server.connect_string())
        .sasl_digest_md5("alice", "s3cret")
        .authorization("digest", "alice:s3cret");
    assert!(!format!("{builder:?}").contains("s3cret"));
    let zk = builder.build().unwrap();
    let started =
        tokio::time::timeout(Duration::from_secs(10), zk.start()).await.expect("a response");
    let error = started.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AuthFailed);
    let why = format!("{}: the challenge is for another algorithm", server.connect_string());
    assert_eq!(error.cause().unwrap().to_string(), why);
}
