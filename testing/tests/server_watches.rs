//! Watch events: their times, their receivers, and their order among the responses.

use crate::common::{LONG, Message, RawClient, create_body, delete, set_data};
use zk_curator_proto::records::EventType::{
    NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted,
};
use zk_curator_proto::records::{CreateMode, MultiOp, SetDataRequest, SetWatches, SetWatches2};
use zk_curator_proto::{ErrorCode, Request, Response};
use zk_curator_testing::{TestServer, WatchKind};

async fn server_with(paths: &[&str]) -> (TestServer, RawClient) {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    for path in paths {
        zk.create(path, CreateMode::Persistent).await.expect("a new node");
    }
    (server, zk)
}

#[tokio::test(start_paused = true)]
async fn an_event_precedes_the_response_to_the_write_that_caused_it() {
    let (_server, mut zk) = server_with(&["/a"]).await;
    zk.get_data("/a", true).await.unwrap();
    zk.send(set_data("/a", b"x", -1)).await;
    assert_eq!(zk.message().await, Some(Message::Event(NodeDataChanged, "/a".into())));
    assert!(matches!(
        zk.message().await,
        Some(Message::Reply { result: Ok(Response::Stat(_)), .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn an_event_precedes_any_response_that_shows_the_change() {
    let (server, mut writer) = server_with(&["/a"]).await;
    let mut reader = RawClient::new(&server).await;
    reader.get_data("/a", true).await.unwrap();
    writer.set_data("/a", b"x").await.unwrap();
    assert_eq!(reader.get_data("/a", false).await, Ok(Some("x".into())));
    assert_eq!(reader.events, [(NodeDataChanged, "/a".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_fires_once() {
    let (server, mut zk) = server_with(&["/a"]).await;
    zk.get_data("/a", true).await.unwrap();
    zk.get_data("/a", true).await.unwrap();
    zk.set_data("/a", b"1").await.unwrap();
    zk.set_data("/a", b"2").await.unwrap();
    assert_eq!(zk.events.len(), 1);
    assert_eq!(server.probe().notifications(), 1);
    assert_eq!(server.probe().watches(), []);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_data_and_children_gets_one_deletion_event() {
    let (_server, mut zk) = server_with(&["/a", "/a/b"]).await;
    zk.children("/a", true).await.unwrap();
    zk.get_data("/a/b", true).await.unwrap();
    zk.exists("/a/b", true).await.unwrap();
    zk.children("/a/b", true).await.unwrap();
    zk.delete("/a/b").await.unwrap();
    assert_eq!(zk.events, [(NodeDeleted, "/a/b".into()), (NodeChildrenChanged, "/a".into())]);
}

#[tokio::test(start_paused = true)]
async fn only_exists_leaves_a_watch_on_a_missing_node() {
    let (server, mut zk) = server_with(&[]).await;
    assert_eq!(zk.get_data("/a", true).await, Err(ErrorCode::NoNode));
    assert_eq!(zk.children("/a", true).await, Err(ErrorCode::NoNode));
    assert_eq!(server.probe().watches(), []);
    assert_eq!(zk.exists("/a", true).await, Err(ErrorCode::NoNode));
    let probe = server.probe();
    let watch = &probe.watches()[0];
    assert_eq!((watch.session, watch.path.as_str(), watch.kind), (zk.id(), "/a", WatchKind::Data));
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    assert_eq!(zk.events, [(NodeCreated, "/a".into())]);
}

#[tokio::test(start_paused = true)]
async fn the_data_of_a_child_are_no_business_of_a_child_watch() {
    let (_server, mut zk) = server_with(&["/a", "/a/b"]).await;
    zk.children("/a", true).await.unwrap();
    zk.set_data("/a", b"x").await.unwrap();
    zk.set_data("/a/b", b"x").await.unwrap();
    zk.create("/a/b/c", CreateMode::Persistent).await.unwrap();
    assert_eq!(zk.events, []);
    zk.create("/a/c", CreateMode::Persistent).await.unwrap();
    assert_eq!(zk.events, [(NodeChildrenChanged, "/a".into())]);
}

#[tokio::test(start_paused = true)]
async fn events_of_a_multi_come_in_its_order_and_none_of_a_failed_one() {
    let (_server, mut zk) = server_with(&["/a", "/b"]).await;
    zk.get_data("/b", true).await.unwrap();
    zk.children("/", true).await.unwrap();
    zk.exists("/c", true).await.unwrap_err();
    let set = |path: &str, version| {
        MultiOp::SetData(SetDataRequest { path: path.into(), data: None, version })
    };
    let make = MultiOp::Create(create_body("/c", CreateMode::Persistent));
    zk.multi(vec![make.clone(), set("/b", -1), set("/a", 7)]).await;
    assert_eq!(zk.events, []);
    zk.multi(vec![make, set("/b", -1)]).await;
    assert_eq!(
        zk.events,
        [
            (NodeCreated, "/c".into()),
            (NodeChildrenChanged, "/".into()),
            (NodeDataChanged, "/b".into())
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_fires_watches_on_its_nodes() {
    let (server, mut zk) = server_with(&["/a"]).await;
    let mut owner = RawClient::new(&server).await;
    owner.create("/a/e", CreateMode::Ephemeral).await.unwrap();
    zk.get_data("/a/e", true).await.unwrap();
    zk.children("/a", true).await.unwrap();
    owner.call(Request::CloseSession).await.unwrap();
    assert_eq!(zk.event().await, (NodeDeleted, "/a/e".into()));
    assert_eq!(zk.event().await, (NodeChildrenChanged, "/a".into()));
}

#[tokio::test(start_paused = true)]
async fn watches_end_with_their_connection() {
    let (server, mut zk) = server_with(&["/a"]).await;
    zk.get_data("/a", true).await.unwrap();
    assert!(server.disconnect(zk.id()));
    assert_eq!(server.probe().watches(), []);
    let mut zk = zk.reattach(&server).await.unwrap();
    zk.set_data("/a", b"x").await.unwrap();
    assert_eq!(zk.events, []);
}

#[tokio::test(start_paused = true)]
async fn set_watches_tells_what_was_missed_and_arms_the_rest() {
    let (server, mut zk) =
        server_with(&["/same", "/changed", "/deleted", "/parent", "/quiet"]).await;
    let seen = zk.last_zxid;
    zk.set_data("/changed", b"x").await.unwrap();
    zk.call(delete("/deleted")).await.unwrap();
    zk.create("/created", CreateMode::Persistent).await.unwrap();
    zk.create("/parent/c", CreateMode::Persistent).await.unwrap();
    let paths = |paths: &[&str]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    let request = SetWatches {
        relative_zxid: seen,
        data_watches: paths(&["/same", "/changed", "/deleted"]),
        exist_watches: paths(&["/created", "/missing"]),
        child_watches: paths(&["/quiet", "/parent", "/deleted"]),
    };
    zk.call(Request::SetWatches(request)).await.unwrap();
    assert_eq!(
        zk.events,
        [
            (NodeDataChanged, "/changed".into()),
            (NodeDeleted, "/deleted".into()),
            (NodeCreated, "/created".into()),
            (NodeChildrenChanged, "/parent".into()),
            (NodeDeleted, "/deleted".into()),
        ]
    );
    let probe = server.probe();
    let armed: Vec<_> =
        probe.watches().iter().map(|watch| (watch.path.as_str(), watch.kind)).collect();
    assert_eq!(
        armed,
        [("/missing", WatchKind::Data), ("/quiet", WatchKind::Child), ("/same", WatchKind::Data)]
    );
}

#[tokio::test(start_paused = true)]
async fn persistent_watches_stay() {
    let (server, mut zk) = server_with(&["/p", "/r"]).await;
    let request = SetWatches2 {
        relative_zxid: zk.last_zxid,
        persistent_watches: vec!["/p".into()],
        persistent_recursive_watches: vec!["/r".into()],
        ..SetWatches2::default()
    };
    zk.call(Request::SetWatches2(request)).await.unwrap();
    for name in ["1", "2"] {
        zk.create(&format!("/p/{name}"), CreateMode::Persistent).await.unwrap();
        zk.create(&format!("/r/{name}"), CreateMode::Persistent).await.unwrap();
    }
    assert_eq!(
        zk.events,
        [
            (NodeChildrenChanged, "/p".into()),
            (NodeCreated, "/r/1".into()),
            (NodeChildrenChanged, "/p".into()),
            (NodeCreated, "/r/2".into()),
        ]
    );
    assert_eq!(server.probe().watches().len(), 2);
}

/// The herd effect: every contender watches its predecessor. Fifty sessions, a thousand contenders.
#[tokio::test]
async fn a_thousand_contenders_hand_a_lock_over_one_by_one() {
    const SESSIONS: usize = 50;
    const EACH: usize = 20;
    let server = TestServer::start().await;
    let mut first = RawClient::over_tcp(&server.connect_string()).await;
    first.create("/lock", CreateMode::Persistent).await.unwrap();
    let contend = async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..SESSIONS {
            let mut zk = RawClient::over_tcp(&server.connect_string()).await;
            tasks.spawn(async move {
                let mut mine = Vec::new();
                for _ in 0..EACH {
                    mine.push(
                        zk.create("/lock/n-", CreateMode::EphemeralSequential).await.unwrap(),
                    );
                }
                for node in mine {
                    loop {
                        let children = zk.children("/lock", false).await.unwrap();
                        let at =
                            children.iter().position(|name| node.ends_with(name.as_str())).unwrap();
                        let Some(before) = at.checked_sub(1) else { break };
                        let before = format!("/lock/{}", children[before]);
                        if zk.get_data(&before, true).await.is_ok() {
                            assert_eq!(zk.event().await, (NodeDeleted, before));
                        }
                    }
                    zk.delete(&node).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
    };
    tokio::time::timeout(LONG, contend).await.expect("every contender in time");
    let probe = server.probe();
    assert_eq!(probe.paths(), ["/lock"]);
    assert_eq!(probe.watches(), []);
    assert_eq!(probe.stat("/lock").unwrap().cversion, 2 * 1000);
}
