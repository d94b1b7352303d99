//! Members of an ensemble apply writes at their own pace. A session notices no more of that than
//! ZooKeeper allows.

#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::time::Duration;

use crate::common::{RawClient, create, delete, new_session, set_data};
use bytes::Bytes;
use tokio::time::{Instant, timeout};
use zk_curator_proto::records::{
    ConnectRequest, CreateMode, EventType, ExistsRequest, GetDataRequest, SyncRequest,
};
use zk_curator_proto::{ErrorCode, OpCode, Request, Response};
use zk_curator_testing::wait::spend;
use zk_curator_testing::{MemberRole, TestCluster, Verdict};

const A_MOMENT: Duration = Duration::from_secs(1);

fn sync() -> Request {
    Request::Sync(SyncRequest { path: "/".into() })
}

fn get(path: &str) -> Request {
    Request::GetData(GetDataRequest { path: path.into(), watch: false })
}

/// Asserts that no frame arrives for a while.
async fn assert_silent(zk: &mut RawClient) {
    assert!(timeout(A_MOMENT, zk.frame()).await.is_err(), "something arrived");
}

/// Starts three members, of which the last one leads, with a client of each, and the node `/a`.
async fn three() -> (TestCluster, [RawClient; 3]) {
    let cluster = TestCluster::in_memory(3).await;
    assert_eq!(cluster.leader(), Some(2));
    let mut clients = [
        RawClient::new(cluster.member(0)).await,
        RawClient::new(cluster.member(1)).await,
        RawClient::new(cluster.member(2)).await,
    ];
    clients[2].create("/a", CreateMode::Persistent).await.unwrap();
    (cluster, clients)
}

#[tokio::test(start_paused = true)]
async fn what_is_written_at_one_member_is_read_at_all() {
    let (cluster, mut clients) = three().await;
    for writer in 0..3 {
        let path = format!("/a/{writer}");
        clients[writer].create(&path, CreateMode::Ephemeral).await.unwrap();
        for reader in &mut clients {
            assert!(reader.exists(&path, false).await.is_ok(), "{path}");
        }
    }
    let probe = cluster.probe();
    for member in 0..3 {
        let probe = probe.member(member);
        assert_eq!(probe.paths(), ["/a", "/a/0", "/a/1", "/a/2"]);
        assert_eq!(
            probe.stat("/a/1"),
            cluster.probe().latest().stat("/a/1"),
            "the same in every tree"
        );
        assert_eq!(probe.zxid(), cluster.probe().zxid());
        assert_eq!(probe.sessions().len(), 3, "sessions are known everywhere");
    }
    assert_eq!(probe.zxid() >> 32, 1, "the epoch of the first leader");
    let homes: Vec<_> = clients.iter().map(|zk| zk.id() >> 56).collect();
    assert_eq!(homes, [1, 2, 3], "the server that opened the session");
}

#[tokio::test(start_paused = true)]
async fn a_lagging_follower_reads_stale_until_a_sync() {
    let (cluster, [mut lagging, mut other, _]) = three().await;
    let lag = cluster.lag(0);
    other.set_data("/a", b"new").await.unwrap();
    assert_eq!(lagging.get_data("/a", false).await, Ok(Some(Bytes::from_static(b"data"))));
    assert_eq!(cluster.probe().members()[0].behind, 1);
    assert_eq!(
        lagging.last_zxid,
        cluster.probe().member(0).zxid(),
        "the header has the last applied zxid"
    );
    assert_eq!(lagging.last_zxid, cluster.probe().zxid() - 1);

    assert_eq!(lagging.call(sync()).await, Ok(Response::Path("/".into())));
    assert_eq!(lagging.get_data("/a", false).await, Ok(Some(Bytes::from_static(b"new"))));
    assert_eq!(lagging.last_zxid, cluster.probe().zxid());
    other.set_data("/a", b"newer").await.unwrap();
    assert_eq!(
        lagging.get_data("/a", false).await,
        Ok(Some(Bytes::from_static(b"new"))),
        "the member still lags"
    );
    drop(lag);
    assert_eq!(lagging.get_data("/a", false).await, Ok(Some(Bytes::from_static(b"newer"))));
}

#[tokio::test(start_paused = true)]
async fn a_write_through_a_lagging_follower_gets_a_late_response() {
    let (cluster, [mut lagging, mut other, _]) = three().await;
    let lag = cluster.lag(0);
    lagging.send(set_data("/a", b"mine", 0)).await;
    lagging.send(get("/a")).await;
    lagging.send(set_data("/a", b"mine too", 1)).await;
    lagging.send(set_data("/a", b"refused", 7)).await;
    lagging.send(Request::Ping).await;
    assert_silent(&mut lagging).await;
    // Both writes are in the log, and other sessions see them.
    assert_eq!(other.get_data("/a", false).await, Ok(Some(Bytes::from_static(b"mine too"))));
    drop(lag);
    let Some(Ok(Response::Stat(stat))) = lagging.reply().await else { panic!("no stat") };
    assert_eq!(stat.version, 1);
    let Some(Ok(Response::Data(read))) = lagging.reply().await else { panic!("no data") };
    assert_eq!(
        (read.data.as_deref(), read.stat.version),
        (Some(&b"mine"[..]), 1),
        "its own write, in order"
    );
    assert!(lagging.reply().await.unwrap().is_ok());
    assert_eq!(lagging.reply().await, Some(Err(ErrorCode::BadVersion)));
    assert_eq!(lagging.reply().await, Some(Ok(Response::Empty)));
    assert_eq!(cluster.probe().members()[0].behind, 0);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_requests_behind_a_write_complete_in_order() {
    let (cluster, [mut lagging, ..]) = three().await;
    let lag = cluster.lag(0);
    lagging.send(set_data("/a", b"first", -1)).await;
    let first = lagging.send(get("/a")).await;
    for _ in 1..5000 {
        lagging.send(get("/a")).await;
    }
    assert_silent(&mut lagging).await;
    let waiting = cluster.probe().member(0).requests(OpCode::GetData);
    assert!(waiting < 5000, "{waiting} requests are kept for a client that does not wait");
    drop(lag);
    assert!(lagging.reply().await.unwrap().is_ok());
    for expected in 0..5000 {
        let Some(crate::common::Message::Reply { xid, result, .. }) = lagging.message().await
        else {
            panic!("end")
        };
        assert_eq!((xid, result.is_ok()), (first + expected, true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_follower_applies_everything_so_much_later() {
    let (cluster, [mut lagging, mut other, _]) = three().await;
    let delay = Duration::from_millis(700);
    let lag = cluster.lag_by(0, delay);
    let start = Instant::now();
    other.set_data("/a", b"new").await.unwrap();
    cluster.until(|probe| probe.members()[0].behind == 0).await;
    assert_eq!(start.elapsed(), delay);
    let start = Instant::now();
    lagging.set_data("/a", b"newer").await.unwrap();
    assert_eq!(start.elapsed(), delay);
    drop(lag);
    let start = Instant::now();
    lagging.set_data("/a", b"newest").await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn watches_fire_when_their_own_member_has_applied_the_change() {
    let (cluster, [mut lagging, mut other, _]) = three().await;
    for zk in [&mut lagging, &mut other] {
        zk.get_data("/a", true).await.unwrap();
    }
    let lag = cluster.lag(0);
    let mut writer = RawClient::new(cluster.member(2)).await;
    writer.set_data("/a", b"new").await.unwrap();
    assert_eq!(other.event().await, (EventType::NodeDataChanged, "/a".into()));
    assert_silent(&mut lagging).await;
    assert_eq!(cluster.probe().member(0).watches().len(), 1);
    drop(lag);
    assert_eq!(lagging.event().await, (EventType::NodeDataChanged, "/a".into()));
}

#[tokio::test(start_paused = true)]
async fn a_session_at_a_lagging_follower_begins_when_it_catches_up() {
    let (cluster, _clients) = three().await;
    let lag = cluster.lag(0);
    let begins = RawClient::new(cluster.member(0));
    tokio::pin!(begins);
    assert!(timeout(A_MOMENT, &mut begins).await.is_err());
    assert_eq!(cluster.probe().latest().sessions().len(), 4, "the other sessions exist");
    drop(lag);
    assert_eq!(begins.await.last_zxid, 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_does_not_go_back_in_time() {
    let (cluster, [_, _, mut zk]) = three().await;
    let lag = cluster.lag(0);
    zk.set_data("/a", b"new").await.unwrap();
    assert!(
        zk.reattach(cluster.member(0)).await.is_none(),
        "the member knows less than the session"
    );
    let mut moved = zk.reattach(cluster.member(1)).await.unwrap();
    assert_eq!(moved.get_data("/a", false).await, Ok(Some(Bytes::from_static(b"new"))));
    drop(lag);
    let mut moved = moved.reattach(cluster.member(0)).await.unwrap();
    assert_eq!(moved.get_data("/a", false).await, Ok(Some(Bytes::from_static(b"new"))));
    assert_eq!(cluster.attached_to(zk.id()), Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_write_over_an_abandoned_connection_ends_it() {
    let (cluster, [mut before, at_leader, _]) = three().await;
    before.create("/e", CreateMode::Ephemeral).await.unwrap();
    let mut moved = before.reattach(cluster.member(1)).await.unwrap();
    assert_eq!(moved.id(), before.id());
    // A follower does not know of the move, and responds to reads.
    assert!(before.get_data("/a", false).await.is_ok());
    let zxid = cluster.probe().zxid();
    before.send(set_data("/a", b"late", -1)).await;
    before.closed().await;
    assert_eq!(cluster.probe().zxid(), zxid + 1, "a refused write takes a number");
    assert_eq!(moved.get_data("/a", false).await, Ok(Some(Bytes::from_static(b"data"))));
    moved.set_data("/a", b"mine").await.unwrap();

    // The leader knows of the move.
    let mut led = at_leader.reattach(cluster.member(2)).await.unwrap();
    let mut away = led.reattach(cluster.member(0)).await.unwrap();
    led.send(get("/a")).await;
    led.closed().await;
    assert!(away.delete("/a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_hears_of_it_when_its_member_does() {
    let (cluster, [mut lagging, mut other, _]) = three().await;
    lagging.create("/e", CreateMode::Ephemeral).await.unwrap();
    let lag = cluster.lag(0);
    assert!(cluster.expire(lagging.id()) && !cluster.expire(lagging.id()));
    assert_eq!(other.exists("/e", false).await, Err(ErrorCode::NoNode));
    assert!(lagging.exists("/e", false).await.is_ok(), "a stale read");
    lagging.send(delete("/e")).await;
    assert_silent(&mut lagging).await;
    drop(lag);
    // The member ends the connection when it applies the end of the session, before the response to
    // the write.
    lagging.closed().await;
    assert!(lagging.reattach(cluster.member(1)).await.is_some_and(|zk| zk.id() == 0));
}

#[tokio::test(start_paused = true)]
async fn pings_at_any_member_keep_a_session_that_expires_everywhere() {
    let cluster = TestCluster::in_memory(3).await;
    let mut zk = RawClient::with_timeout(cluster.member(0), 1000).await;
    zk.create("/e", CreateMode::Ephemeral).await.unwrap();
    for member in [1, 2, 0] {
        spend(Duration::from_millis(900)).await;
        zk = zk.reattach(cluster.member(member)).await.unwrap();
    }
    spend(Duration::from_millis(900)).await;
    zk.ping().await;
    let start = Instant::now();
    let probe = cluster.until(|probe| probe.latest().sessions().is_empty()).await;
    assert!(
        start.elapsed() >= Duration::from_millis(1000)
            && start.elapsed() <= Duration::from_millis(1020)
    );
    for member in 0..3 {
        assert!(!probe.member(member).exists("/e"));
    }
    zk.closed().await;
}

#[tokio::test(start_paused = true)]
async fn rules_are_of_one_member_or_of_all_and_count_together() {
    let (cluster, [mut first, mut second, mut third]) = three().await;
    let refuse = |code| {
        move |request: &zk_curator_testing::RuleRequest<'_>| {
            if request.is_create() { Verdict::Refuse(code) } else { Verdict::Pass }
        }
    };
    let everywhere = cluster.rule(refuse(ErrorCode::ConnectionLoss)).times(2);
    let there = cluster.member(2).rule(refuse(ErrorCode::NoAuth));
    assert_eq!(first.create("/b", CreateMode::Persistent).await, Err(ErrorCode::ConnectionLoss));
    assert_eq!(second.create("/b", CreateMode::Persistent).await, Err(ErrorCode::ConnectionLoss));
    assert_eq!(third.create("/b", CreateMode::Persistent).await, Err(ErrorCode::NoAuth));
    assert!(first.create("/b", CreateMode::Persistent).await.is_ok(), "two times in all");
    assert_eq!((everywhere.hits(), there.hits()), (2, 1));
    drop(there);
    assert!(third.create("/c", CreateMode::Persistent).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_at_a_follower_is_a_write_that_happened() {
    let (cluster, [mut zk, mut other, _]) = three().await;
    let _lost = cluster
        .rule(|request| if request.is_create() { Verdict::LoseReply } else { Verdict::Pass });
    let _lag = cluster.lag(0);
    zk.send(create("/b", CreateMode::Persistent)).await;
    zk.closed().await;
    assert!(other.exists("/b", false).await.is_ok());
    assert!(!cluster.probe().member(0).exists("/b"), "not yet");
}

#[tokio::test(start_paused = true)]
async fn sequence_numbers_and_reaping_are_the_same_everywhere() {
    let (cluster, [mut zk, ..]) = three().await;
    assert_eq!(cluster.set_sequence("/none", 7), Err(ErrorCode::NoNode));
    cluster.set_sequence("/a", 41).unwrap();
    assert_eq!(cluster.set_version("/none", 7), Err(ErrorCode::NoNode));
    cluster.set_version("/a", i32::MAX).unwrap();
    assert_eq!(zk.exists("/a", false).await.unwrap().version, i32::MAX);
    assert_eq!(
        zk.create("/a/s-", CreateMode::PersistentSequential).await,
        Ok("/a/s-0000000041".into())
    );
    let container = crate::common::create_body("/c", CreateMode::Container);
    zk.call(Request::CreateContainer(container)).await.unwrap();
    zk.create("/c/d", CreateMode::Persistent).await.unwrap();
    zk.delete("/c/d").await.unwrap();
    let _lag = cluster.lag(1);
    assert_eq!(cluster.reap_containers(), ["/c"]);
    let probe = cluster.probe();
    let there: Vec<_> = (0..3).map(|member| probe.member(member).exists("/c")).collect();
    assert_eq!(there, [false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn time_moves_for_sessions_and_containers_of_all_members() {
    let (cluster, [mut zk, ..]) = three().await;
    let mut brief = RawClient::with_timeout(cluster.member(1), 1000).await;
    let container = crate::common::create_body("/c", CreateMode::Container);
    zk.call(Request::CreateContainer(container)).await.unwrap();
    brief.create("/c/e", CreateMode::Ephemeral).await.unwrap();
    cluster.advance(Duration::from_millis(900));
    assert!(cluster.probe().latest().exists("/c/e"));
    cluster.advance(Duration::from_millis(900));
    assert!(!cluster.probe().latest().exists("/c"), "the node of the session, and then its parent");
    brief.closed().await;
    zk.create("/b", CreateMode::Persistent).await.unwrap();
    let stat = cluster.probe().latest().stat("/b").unwrap();
    let earlier = cluster.probe().latest().stat("/a").unwrap();
    assert!(stat.ctime - earlier.ctime >= 1800, "the wall clock moved too");
}

#[tokio::test(start_paused = true)]
async fn one_member_alone_is_a_standalone_server() {
    let cluster = TestCluster::in_memory(1).await;
    let mut zk = RawClient::new(cluster.member(0)).await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    let probe = cluster.probe();
    assert_eq!((probe.leader(), probe.members()[0].role), (None, MemberRole::Standalone));
    assert_eq!((probe.zxid(), cluster.change_leader()), (2, None));
    let refused = TestCluster::builder(0).start().await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
}

#[tokio::test(start_paused = true)]
async fn only_existing_members_accept_connections() {
    let cluster = TestCluster::in_memory(3).await;
    let request = ConnectRequest { timeout: 1000, ..new_session() };
    for (host, found) in
        [("zk1", true), ("zk3", true), ("zk4", false), ("zk0", false), ("elsewhere", false)]
    {
        let connected =
            zk_curator_client::Connector::connect(&cluster.connector(), host, 2181).await;
        assert_eq!(connected.is_ok(), found, "{host}");
        if let Ok(stream) = connected {
            let zk = RawClient::open(stream, request.clone()).await.unwrap();
            assert_eq!((zk.id() >> 56).to_string(), host[2..]);
        }
    }
    let mut zk = RawClient::new(cluster.member(0)).await;
    assert!(
        zk.call(Request::Exists(ExistsRequest { path: "/".into(), watch: false })).await.is_ok()
    );
}
