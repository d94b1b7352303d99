//! SASL through the framework, to the embedded server, which has none.

use std::sync::Arc;
use std::time::Duration;

use zk_curator::raw::NativeFactory;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_testing::TestServer;

#[tokio::test]
async fn the_framework_refuses_a_server_that_proves_nothing() {
    let server = TestServer::start().await;
    let factory = NativeFactory::default().sasl_digest_md5("alice", "s3cret");
    assert!(!format!("{factory:?}").contains("s3cret"));
    let zk = CuratorFramework::builder()
        .connect_string(server.connect_string())
        .raw_client(Arc::new(factory))
        .build()
        .unwrap();
    let started = tokio::time::timeout(Duration::from_secs(10), zk.start()).await.expect("an answer");
    assert_eq!(started.unwrap_err().kind(), ErrorKind::AuthFailed);
}
