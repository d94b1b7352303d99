//! Sessions: negotiation, expiry, re-attaching, and the effects on connections.

use std::time::Duration;

use crate::common::{LONG, RawClient, new_session, refuses};
use tokio::time::Instant;
use zk_curator_proto::records::{ConnectRequest, ConnectResponse, CreateMode};
use zk_curator_proto::{Decoder, Encoder, OpCode, Record, Request};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::idle;

#[tokio::test(start_paused = true)]
async fn the_timeout_is_negotiated_within_bounds() {
    let server = TestServer::builder()
        .tcp(false)
        .min_session_timeout(Duration::from_millis(100))
        .max_session_timeout(Duration::from_secs(1))
        .start()
        .await
        .unwrap();
    for (asked, granted) in [(-5, 100), (0, 100), (500, 500), (5000, 1000)] {
        assert_eq!(RawClient::with_timeout(&server, asked).await.session.timeout, granted);
    }
    let default = TestServer::in_memory().await;
    assert_eq!(RawClient::with_timeout(&default, 1).await.session.timeout, 20);
    assert_eq!(RawClient::with_timeout(&default, i32::MAX).await.session.timeout, 40_000);
    let like_apache =
        TestServer::builder().tcp(false).tick_time(Duration::from_secs(2)).start().await.unwrap();
    assert_eq!(RawClient::with_timeout(&like_apache, 1).await.session.timeout, 4_000);
    assert_eq!(RawClient::with_timeout(&like_apache, i32::MAX).await.session.timeout, 40_000);
}

#[tokio::test(start_paused = true)]
async fn a_silent_session_expires_and_its_nodes_go_in_one_transaction() {
    let server = TestServer::in_memory().await;
    let mut watcher = RawClient::with_timeout(&server, 40_000).await;
    let mut zk = RawClient::with_timeout(&server, 1_000).await;
    zk.create("/a", CreateMode::Ephemeral).await.unwrap();
    zk.create("/b", CreateMode::Ephemeral).await.unwrap();
    watcher.exists("/a", true).await.unwrap();
    let zxid = server.probe().zxid();
    let start = Instant::now();
    zk.closed().await;
    let lived = start.elapsed();
    assert!(
        (Duration::from_millis(1_000)..=Duration::from_millis(1_010)).contains(&lived),
        "{lived:?}"
    );
    watcher.event().await;
    let probe = server.probe();
    assert_eq!(probe.session(zk.id()), None);
    assert_eq!(probe.paths(), [""; 0]);
    assert_eq!(probe.zxid(), zxid + 1);
}

#[tokio::test(start_paused = true)]
async fn pings_keep_a_session_alive() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::with_timeout(&server, 300).await;
    for _ in 0..20 {
        tokio::time::advance(Duration::from_millis(290)).await;
        zk.ping().await;
    }
    assert_eq!(server.probe().requests(OpCode::Ping), 20);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_taken_up_again_with_its_password() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    zk.create("/e", CreateMode::Ephemeral).await.unwrap();
    server.disconnect_all();
    zk.closed().await;
    assert!(!server.probe().session(zk.id()).unwrap().connected);
    let mut again = zk.reattach(&server).await.unwrap();
    assert_eq!(again.session, zk.session);
    again.ping().await;
    assert_eq!(server.probe().ephemerals(zk.id()), ["/e"]);
}

/// Apache ZooKeeper does the same: `c_programs` compares. A client that is closed right after a
/// frame that was too large leaves a `closeSession` in the log only if it has connected again to
/// ask for it.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_large_costs_no_transaction() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let zxid = server.probe().zxid();
    zk.write(&1_200_000_i32.to_be_bytes()).await;
    zk.closed().await;
    let mut again = zk.reattach(&server).await.unwrap();
    again.ping().await;
    assert_eq!((again.id(), server.probe().zxid()), (zk.id(), zxid));
    again.call(Request::CloseSession).await.unwrap();
    again.closed().await;
    assert_eq!((server.probe().session(zk.id()), server.probe().zxid()), (None, zxid + 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_moves_closes_its_old_connection() {
    let server = TestServer::in_memory().await;
    let mut old = RawClient::new(&server).await;
    let mut new = old.reattach(&server).await.unwrap();
    old.closed().await;
    new.ping().await;
    assert!(server.probe().session(new.id()).unwrap().connected);
}

#[tokio::test(start_paused = true)]
async fn expired_sessions_and_wrong_passwords_are_reported() {
    let server = TestServer::in_memory().await;
    let zk = RawClient::new(&server).await;
    let mut wrong = zk.reattach_request();
    wrong.password = new_session().password;
    let mut unknown = zk.reattach_request();
    unknown.session_id += 1;
    for request in [wrong, unknown] {
        let mut refused = RawClient::handshake(&server, request).await.unwrap();
        let nothing =
            ConnectResponse { password: new_session().password, ..ConnectResponse::default() };
        assert_eq!(refused.session, nothing);
        refused.closed().await;
    }
    assert!(server.expire(zk.id()).await);
    assert!(!server.expire(zk.id()).await);
    assert_eq!(zk.reattach(&server).await.unwrap().session.timeout, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_ahead_is_refused_without_a_response() {
    let server = TestServer::in_memory().await;
    let request = ConnectRequest { last_zxid_seen: 1, timeout: 1000, ..new_session() };
    assert!(RawClient::handshake(&server, request.clone()).await.is_none());
    RawClient::new(&server).await;
    assert!(RawClient::handshake(&server, request).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_client_from_before_read_only_mode_gets_no_flag() {
    let server = TestServer::in_memory().await;
    let connector = server.connector();
    let mut stream = zk_curator_client::Connector::connect(&connector, "", 0).await.unwrap();
    let mut out = Encoder::new();
    ConnectRequest { timeout: 1000, ..new_session() }.encode(&mut out);
    let body = out.finish();
    let mut frame = 44_i32.to_be_bytes().to_vec();
    frame.extend_from_slice(&body[..44]);
    tokio::io::AsyncWriteExt::write_all(&mut stream, &frame).await.unwrap();
    let mut answer = [0; 40];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer).await.unwrap();
    assert_eq!(answer[..4], 36_i32.to_be_bytes());
    let response =
        ConnectResponse::decode(&mut Decoder::new(answer[4..].to_vec().into()), "").unwrap();
    assert_eq!(response.timeout, 1000);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_server_keeps_nodes_and_renews_sessions() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::with_timeout(&server, 1_000).await;
    zk.create("/e", CreateMode::Ephemeral).await.unwrap();
    tokio::time::advance(Duration::from_millis(900)).await;
    server.stop().await;
    zk.closed().await;
    let refused = zk_curator_client::Connector::connect(&server.connector(), "", 0).await;
    assert_eq!(
        refused.err().map(|error| error.kind()),
        Some(std::io::ErrorKind::ConnectionRefused)
    );
    tokio::time::advance(Duration::from_secs(60)).await;
    server.restart().await.unwrap();
    tokio::time::advance(Duration::from_millis(900)).await;
    let mut zk = zk.reattach(&server).await.unwrap();
    assert_eq!(zk.session.timeout, 1_000);
    assert!(zk.exists("/e", false).await.is_ok());
    tokio::time::timeout(LONG, server.until(|probe| probe.sessions().is_empty())).await.unwrap();
    assert_eq!(server.probe().paths(), [""; 0]);
}

#[tokio::test]
async fn a_restarting_server_keeps_its_port_and_refuses_clients() {
    let server = TestServer::start().await;
    let zk = RawClient::over_tcp(&server.connect_string()).await;
    server.stop().await;
    let addr = server.addr().unwrap();
    refuses(addr).await;
    if cfg!(target_os = "linux") {
        let other = tokio::net::TcpSocket::new_v4().unwrap();
        assert_eq!(other.bind(addr).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    }
    server.restart().await.unwrap();
    let mut zk = zk.reattach(&server).await.unwrap();
    zk.ping().await;
    server.restart().await.unwrap();
    let mut zk = RawClient::over_tcp(&server.connect_string()).await;
    zk.ping().await;
}

#[tokio::test]
async fn the_last_handle_takes_the_server_with_it() {
    let server = TestServer::start().await;
    let (addr, connector) = (server.addr().unwrap(), server.connector());
    let mut zk = RawClient::new(&server).await;
    let clone = server.clone();
    drop(server);
    zk.ping().await;
    let rule = clone.rule(|_| zk_curator_testing::Verdict::Pass);
    drop(clone);
    zk.closed().await;
    assert!(zk_curator_client::Connector::connect(&connector, "", 0).await.is_err());
    let gone = async { while tokio::net::TcpStream::connect(addr).await.is_ok() {} };
    tokio::time::timeout(LONG, gone).await.unwrap();
    assert_eq!(rule.hits(), 0);
}

#[tokio::test(start_paused = true)]
async fn time_stands_still_for_sessions_while_the_server_is_held() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::with_timeout(&server, 1_000).await;
    tokio::time::advance(Duration::from_millis(600)).await;
    server.hold();
    zk.send(Request::Ping).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(tokio::time::timeout(Duration::from_secs(1), zk.message()).await.is_err());
    assert!(server.probe().session(zk.id()).is_some());
    server.release();
    assert!(zk.reply().await.is_some());
    let start = Instant::now();
    zk.closed().await;
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_released_server_serves_all_requests_in_order() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    server.hold();
    let connecting = tokio::spawn({
        let server = server.clone();
        async move { RawClient::new(&server).await.id() }
    });
    zk.send(crate::common::create("/a", CreateMode::Persistent)).await;
    zk.send(crate::common::set_data("/a", b"x", 0)).await;
    idle(Duration::from_secs(5)).await;
    assert_eq!(server.probe().paths(), [""; 0]);
    assert!(!connecting.is_finished());
    server.release();
    assert!(zk.reply().await.unwrap().is_ok());
    assert!(zk.reply().await.unwrap().is_ok());
    assert_ne!(connecting.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_partitioned_server_goes_on_and_expires_sessions() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::with_timeout(&server, 1_000).await;
    zk.create("/e", CreateMode::Ephemeral).await.unwrap();
    server.partition();
    zk.send(Request::Ping).await;
    let connecting = tokio::spawn({
        let server = server.clone();
        async move { RawClient::new(&server).await.id() }
    });
    tokio::time::timeout(LONG, server.until(|probe| probe.sessions().is_empty())).await.unwrap();
    assert_eq!(server.probe().paths(), [""; 0]);
    assert!(
        tokio::time::timeout(Duration::from_secs(1), zk.frame()).await.is_err(),
        "not even the end arrives"
    );
    assert_eq!(server.probe().connections(), 1);
    server.heal();
    zk.closed().await;
    connecting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn containers_are_reaped_by_request_and_from_time_to_time() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::with_timeout(&server, 40_000).await;
    for path in ["/c1", "/c2"] {
        zk.call(Request::CreateContainer(crate::common::create_body(path, CreateMode::Container)))
            .await
            .unwrap();
        let child = format!("{path}/x");
        zk.create(&child, CreateMode::Persistent).await.unwrap();
    }
    assert_eq!(server.reap_containers(), [""; 0]);
    zk.delete("/c1/x").await.unwrap();
    assert_eq!(server.reap_containers(), ["/c1"]);
    zk.exists("/c2", true).await.unwrap();
    zk.delete("/c2/x").await.unwrap();
    assert!(server.probe().is_container("/c2"));
    let reaped = server.until(|probe| !probe.exists("/c2"));
    tokio::time::timeout(Duration::from_secs(61), reaped).await.unwrap();
}
