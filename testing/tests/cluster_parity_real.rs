//! The behaviour of an ensemble as a session sees it, on Apache ZooKeeper and on a cluster of
//! embedded servers.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use crate::common::{RawClient, delete, set_data};
use zk_curator_client::{Connector, TcpConnector};
use zk_curator_proto::Request;
use zk_curator_proto::records::{ConnectRequest, CreateMode, ExistsRequest, SyncRequest};
use zk_curator_real::{self as real, RealEnsemble};
use zk_curator_testing::{TestCluster, wait};

const TIMEOUT: i32 = 20_000;

async fn sync(zk: &mut RawClient) {
    zk.call(Request::Sync(SyncRequest { path: "/".into() })).await.unwrap();
}

async fn open(address: &str, request: ConnectRequest) -> Option<RawClient> {
    let (host, port) = address.rsplit_once(':').unwrap();
    let stream = TcpConnector::default().connect(host, port.parse().unwrap()).await.unwrap();
    RawClient::open(stream, request).await
}

/// Moves the session of a client to another server, which has applied all that the session has
/// seen.
async fn move_to(zk: &RawClient, address: &str) -> RawClient {
    let mut there = RawClient::over_tcp_for(address, TIMEOUT).await;
    sync(&mut there).await;
    open(address, zk.reattach_request()).await.unwrap()
}

/// Returns the result of a request over a connection.
async fn outcome(zk: &mut RawClient, request: Request) -> String {
    zk.send(request).await;
    match zk.reply().await {
        None => "closed".to_owned(),
        Some(Ok(_)) => "ok".to_owned(),
        Some(Err(code)) => format!("{code:?}"),
    }
}

/// Records sessions that move between a leader and two followers.
async fn moves(leader: &str, followers: [&str; 2]) -> Vec<String> {
    let mut told = Vec::new();
    let get = || Request::Exists(ExistsRequest { path: "/a".into(), watch: false });
    let mut other = RawClient::over_tcp_for(leader, TIMEOUT).await;
    other.create("/a", CreateMode::Persistent).await.unwrap();

    let mut before = RawClient::over_tcp_for(followers[0], TIMEOUT).await;
    before.create("/e", CreateMode::Ephemeral).await.unwrap();
    let mut moved = move_to(&before, followers[1]).await;
    told.push(format!("the same session: {}", moved.id() == before.id()));
    told.push(format!("a read at the follower it has left: {}", outcome(&mut before, get()).await));
    sync(&mut other).await;
    let zxid = other.last_zxid;
    told.push(format!(
        "a write there: {}",
        outcome(&mut before, set_data("/a", b"late", -1)).await
    ));
    sync(&mut other).await;
    told.push(format!("it took {} numbers", other.last_zxid - zxid));
    told.push(format!(
        "a write at the other one: {}",
        outcome(&mut moved, set_data("/a", b"new", -1)).await
    ));

    let mut led = move_to(&moved, leader).await;
    let mut away = move_to(&led, followers[0]).await;
    told.push(format!("a read at the leader it has left: {}", outcome(&mut led, get()).await));
    let mut again = move_to(&away, followers[0]).await;
    away.closed().await;
    told.push(format!("moved within a server: {}", outcome(&mut again, get()).await));

    let ahead =
        ConnectRequest { last_zxid_seen: again.last_zxid + 1000, ..again.reattach_request() };
    told.push(format!(
        "with more seen than there is: {}",
        open(followers[1], ahead).await.is_some()
    ));
    let mut left = again;
    let mut last = move_to(&left, followers[1]).await;
    // A session can be ended through any member.
    told.push(format!(
        "the end over the old connection: {}",
        outcome(&mut left, Request::CloseSession).await
    ));
    last.closed().await;
    sync(&mut other).await;
    told.push(format!("its node afterwards: {:?}", other.exists("/e", false).await.map(drop)));
    told.push(format!("a delete: {}", outcome(&mut other, delete("/a")).await));
    told
}

/// Records what happens to the clients of a follower when its leader ends.
async fn orphan(mut zk: RawClient, survivor: &str) -> Vec<String> {
    zk.closed().await;
    let mut told = Vec::new();
    let (host, port) = survivor.rsplit_once(':').unwrap();
    // Retries until there is a leader.
    let mut back = wait::until_some(async || {
        let stream = TcpConnector::default().connect(host, port.parse().unwrap()).await.ok()?;
        RawClient::open(stream, zk.reattach_request()).await
    })
    .await;
    told.push(format!("the same session: {}", back.id() == zk.id()));
    back.create("/next", CreateMode::Persistent).await.unwrap();
    let stat = back.exists("/next", false).await.unwrap();
    told.push(format!("epochs later: {}", (stat.czxid >> 32) - (zk.last_zxid >> 32)));
    told
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn sessions_move_as_at_an_ensemble() {
    let name = "sessions_move_as_at_an_ensemble";
    let Some(mut ensemble): Option<RealEnsemble> = real::or_skip_ensemble(name, 3).await else {
        return;
    };
    let leader = ensemble.leader().await.unwrap();
    let of = |servers: &RealEnsemble, offset: usize| {
        servers.server((leader + offset) % 3).connect_string()
    };
    let addresses = [of(&ensemble, 0), of(&ensemble, 1), of(&ensemble, 2)];
    let expected = moves(&addresses[0], [&addresses[1], &addresses[2]]).await;

    let cluster = TestCluster::start(3).await;
    let leads = cluster.leader().unwrap();
    let embedded = [0, 1, 2].map(|offset| cluster.member((leads + offset) % 3).connect_string());
    let found = moves(&embedded[0], [&embedded[1], &embedded[2]]).await;
    assert_eq!(expected, found);

    let zk = RawClient::over_tcp_for(&addresses[1], TIMEOUT).await;
    ensemble.kill(leader).await.unwrap();
    let expected = orphan(zk, &addresses[1]).await;
    let zk = RawClient::over_tcp_for(&embedded[1], TIMEOUT).await;
    cluster.kill(leads).await;
    assert_eq!(expected, orphan(zk, &embedded[1]).await);
}
