//! The counts of a proxy, and faults of one client.

use zk_curator_proto::records::{CreateMode, DeleteRequest, MultiOp};
use zk_curator_proto::{ErrorCode, OpCode, Request};
use zk_curator_testing::{FaultProxy, Flow, TestServer, Verdict};

use super::{client, create_a, on_create, proxied};
use crate::common::{LONG, RawClient, create_body};

#[tokio::test]
async fn requests_count_whatever_becomes_of_them() {
    let (_server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    let refused = proxy.rule(on_create(Verdict::Refuse(ErrorCode::NoAuth))).times(1);
    zk.call(create_a()).await.unwrap_err();
    zk.call(create_a()).await.unwrap();
    zk.multi(vec![
        MultiOp::Delete(DeleteRequest { path: "/a".into(), version: -1 }),
        MultiOp::Create(create_body("/b", CreateMode::Persistent)),
    ])
    .await;
    zk.ping().await;
    drop(refused);
    let lost = proxy.rule(on_create(Verdict::LoseRequest));
    zk.send(create_a()).await;
    zk.closed().await;
    drop(lost);
    let id = zk.id();
    let traffic = proxy.until(|traffic| !traffic.session(id).unwrap().connected).await;
    assert_eq!(traffic.opcodes(), [(OpCode::Create, 3), (OpCode::Ping, 1), (OpCode::Multi, 1)]);
    assert_eq!(traffic.requests(OpCode::Create), 3);
    assert_eq!(traffic.opcodes_of("/a"), [(OpCode::Create, 3), (OpCode::Delete, 1)]);
    assert_eq!((traffic.paths(), traffic.requests_of("/b")), (vec!["/a", "/b"], 1));
    assert_eq!(traffic.session(id).unwrap().requests, 5);
    assert_eq!(traffic.requests_of_other_paths() + traffic.unknown_requests(), 0);
}

#[tokio::test]
async fn one_client_is_cut_and_others_stay() {
    let (_server, proxy) = proxied().await;
    let mut zks = [client(&proxy).await, client(&proxy).await, client(&proxy).await];
    let traffic = proxy.traffic();
    assert_eq!(traffic.sessions().len(), 3);
    assert!(traffic.sessions().iter().all(|session| session.connected));
    let peer = traffic.session(zks[1].id()).unwrap().peer;
    assert!(proxy.disconnect(zks[0].id()));
    zks[0].closed().await;
    assert!(proxy.disconnect_peer(peer));
    zks[1].closed().await;
    zks[2].ping().await;
    let last = zks[2].id();
    let only_last = proxy.until(|traffic| {
        traffic.sessions().iter().all(|session| session.connected == (session.id == last))
    });
    tokio::time::timeout(LONG, only_last).await.unwrap();
    assert!(!proxy.disconnect(zks[0].id()) && !proxy.disconnect_peer(peer));
    assert!(!proxy.disconnect(4711));
    assert!(proxy.disconnect_peer((peer.ip(), 0).into()));
    zks[2].closed().await;
}

#[tokio::test]
async fn a_condition_on_requests_is_waited_for() {
    let (_server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    let mut until = Box::pin(proxy.until(|traffic| traffic.requests(OpCode::Ping) == 2));
    zk.ping().await;
    tokio::select! {
        biased;
        _ = &mut until => panic!("after one ping"),
        () = std::future::ready(()) => {}
    }
    zk.send(Request::Ping).await;
    assert_eq!(tokio::time::timeout(LONG, until).await.unwrap().requests(OpCode::Ping), 2);
}

#[tokio::test]
async fn the_session_is_that_of_the_last_connection() {
    let (_server, proxy) = proxied().await;
    assert_eq!(proxy.session(), None);
    let zk = client(&proxy).await;
    let session = proxy.session().unwrap();
    assert_eq!(session.id.get(), zk.id());
    assert_eq!(Some(session.password), zk.session.password);
    let other = client(&proxy).await;
    assert_eq!(proxy.session().unwrap().id.get(), other.id());
}

#[tokio::test]
async fn faults_of_one_server_leave_others_alone() {
    let (first, second) = (TestServer::start().await, TestServer::start().await);
    let builder = FaultProxy::builder().server(first.connect_string()).down();
    let proxy = builder.server(second.connect_string()).start().await.unwrap();
    let servers: Vec<_> = proxy.servers().collect();
    assert_eq!(servers[1].server(), second.connect_string());
    let both = format!("{},{}", servers[0].address(), servers[1].address());
    assert_eq!(proxy.connect_string(), both);
    let open = async |index: usize| RawClient::over_tcp(&servers[index].connect_string()).await;

    assert!(servers.iter().all(|server| server.is_down()));
    let mut early = tokio::net::TcpStream::connect(servers[0].address()).await.unwrap();
    assert_eq!(tokio::io::AsyncReadExt::read(&mut early, &mut [0]).await.unwrap_or(0), 0);
    proxy.up();

    let mut zks = [open(0).await, open(1).await];
    assert_eq!(proxy.traffic().session(zks[1].id()).map(|session| session.server), Some(1));
    let _refused = servers[0].rule(on_create(Verdict::Refuse(ErrorCode::NoAuth)));
    assert_eq!(zks[0].call(create_a()).await, Err(ErrorCode::NoAuth));
    assert!(zks[1].call(create_a()).await.is_ok());
    servers[0].requests(Flow::Stalled);
    zks[0].send(Request::Ping).await;
    zks[1].ping().await;
    assert_eq!(servers[0].cut(), 1);
    zks[0].closed().await;
    servers[0].requests(Flow::Open);
    let mut again = open(0).await;
    servers[1].down();
    zks[1].closed().await;
    again.ping().await;
    assert_eq!((servers[0].is_down(), servers[1].is_down()), (false, true));
}

/// A client that has lost one server goes to the next one immediately.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_of_all_servers_cuts_a_client_once() {
    const CUTS: u64 = 300;
    let server = TestServer::start().await;
    let proxy = FaultProxy::start(&[server.addr().unwrap(); 16]).await.unwrap();
    let addresses: Vec<_> = proxy.servers().map(|server| server.connect_string()).collect();
    let (connected, mut connections) = tokio::sync::mpsc::unbounded_channel();
    let client = tokio::spawn(async move {
        for address in addresses.iter().cycle() {
            let mut zk = RawClient::over_tcp(address).await;
            if connected.send(()).is_err() {
                return;
            }
            zk.closed().await;
        }
    });
    for cuts in 1..=CUTS {
        connections.recv().await.expect("the client continues");
        assert_eq!(proxy.counts().connections, cuts);
        proxy.cut();
    }
    client.abort();
}
