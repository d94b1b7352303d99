//! The counts of a proxy, and faults of one client.

use zk_curator_proto::records::{CreateMode, DeleteRequest, MultiOp};
use zk_curator_proto::{ErrorCode, OpCode, Request};
use zk_curator_testing::Verdict;

use super::{client, create_a, on_create, proxied};
use crate::common::{LONG, create_body};

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
