//! A read-only server: the sessions that it accepts, its responses, and the state afterwards.

use std::time::Duration;

use crate::common::{RawClient, create, delete, new_session, set_data};
use zk_curator_proto::records::{ConnectRequest, CreateMode, GetAclRequest, SyncRequest};
use zk_curator_proto::{ErrorCode, Request, Response};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{idle, spend};

const TIMEOUT: i32 = 1000;

fn content_with_read_only() -> ConnectRequest {
    ConnectRequest { timeout: TIMEOUT, read_only: true, ..new_session() }
}

#[tokio::test(start_paused = true)]
async fn it_refuses_clients_that_are_not_content_with_it() {
    let server = TestServer::builder().tcp(false).read_only(true).start().await.unwrap();
    let refused =
        RawClient::handshake(&server, ConnectRequest { timeout: TIMEOUT, ..new_session() }).await;
    assert!(refused.is_none());
    let zk = RawClient::handshake(&server, content_with_read_only()).await.unwrap();
    assert!(zk.session.read_only);
    server.set_read_only(false);
    let zk = RawClient::handshake(&server, content_with_read_only()).await.unwrap();
    assert!(!zk.session.read_only);
}

#[tokio::test(start_paused = true)]
async fn it_serves_reads_and_refuses_writes_without_a_transaction() {
    let server = TestServer::in_memory().await;
    let mut before = RawClient::new(&server).await;
    before.create("/a", CreateMode::Persistent).await.unwrap();
    let zxid = server.probe().zxid();
    server.set_read_only(true);
    before.closed().await;

    let mut zk = RawClient::handshake(&server, content_with_read_only()).await.unwrap();
    assert_eq!(zk.exists("/a", true).await.unwrap().czxid, zxid);
    assert_eq!(zk.children("/", false).await, Ok(vec!["a".to_owned(), "zookeeper".to_owned()]));
    assert!(zk.call(Request::GetAcl(GetAclRequest { path: "/a".into() })).await.is_ok());
    zk.ping().await;
    for write in [
        create("/b", CreateMode::Persistent),
        set_data("/a", b"", -1),
        set_data("/none", b"", 7),
        delete("/a"),
        Request::Multi(Vec::new()),
        Request::Sync(SyncRequest { path: "/a".into() }),
    ] {
        assert_eq!(zk.call(write.clone()).await, Err(ErrorCode::NotReadOnly), "{write:?}");
    }
    assert_eq!(zk.call(Request::CloseSession).await, Ok(Response::Empty));
    zk.closed().await;
    assert_eq!(server.probe().zxid(), zxid);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_does_not_start_by_leaving_it() {
    let server = TestServer::start().await;
    let mut zk = RawClient::over_tcp(&server.connect_string()).await;
    server.stop().await;
    zk.closed().await;
    for read_only in [true, false] {
        server.set_read_only(read_only);
        assert!(!server.is_running(), "{read_only}");
    }
    // No session expires while the server is stopped, and each has its full timeout afterwards.
    server.advance(Duration::from_secs(3600));
    server.restart().await.unwrap();
    let moved = zk.reattach(&server).await.unwrap();
    assert_eq!(moved.id(), zk.id());
}

#[tokio::test(start_paused = true)]
async fn sessions_from_before_wait_until_it_is_over() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::with_timeout(&server, TIMEOUT).await;
    zk.create("/e", CreateMode::Ephemeral).await.unwrap();
    server.set_read_only(true);
    zk.closed().await;
    let again = ConnectRequest { read_only: true, ..zk.reattach_request() };
    assert!(RawClient::handshake(&server, again).await.is_none());

    idle(Duration::from_secs(60)).await;
    assert_eq!(server.probe().ephemerals(zk.id()), ["/e"]);
    server.set_read_only(false);
    spend(Duration::from_millis(900)).await;
    let mut zk = zk.reattach(&server).await.unwrap();
    assert_eq!(zk.delete("/e").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn sessions_that_it_opens_expire_and_end_with_it() {
    let server = TestServer::builder().tcp(false).read_only(true).start().await.unwrap();
    let mut first = RawClient::handshake(&server, content_with_read_only()).await.unwrap();
    server.disconnect(first.id());
    first.closed().await;
    let again = ConnectRequest { read_only: true, ..first.reattach_request() };
    let same = RawClient::handshake(&server, again).await.unwrap();
    assert_eq!(same.id(), first.id());
    server.until(|probe| probe.sessions().is_empty()).await;

    let mut second = RawClient::handshake(&server, content_with_read_only()).await.unwrap();
    server.set_read_only(false);
    second.closed().await;
    let expired = second.reattach(&server).await.unwrap();
    assert_eq!((expired.session.timeout, expired.id()), (0, 0));
    assert_eq!(server.probe().zxid(), 0);
}
