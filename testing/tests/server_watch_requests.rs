//! Persistent watches, and requests about watches, as of ZooKeeper 3.9. Random tests compare with
//! 3.8.

use crate::common::{RawClient, set_data};
use zk_curator_proto::records::{
    AddWatchRequest, CreateMode, EventType, GetAllChildrenNumberRequest, GetChildrenRequest,
    GetDataRequest, GetEphemeralsRequest, ReadOp, ReadResult, ReconfigRequest, ReplyHeader,
    SaslToken, SetWatches2, WatcherEvent, WatcherType, WatchesRequest,
};
use zk_curator_proto::{Decoder, ErrorCode, Record, Request, Response, XID_NOTIFICATION};
use zk_curator_testing::{TestServer, WatchKind};

async fn add_watch(zk: &mut RawClient, path: &str, mode: i32) -> Result<Response, ErrorCode> {
    zk.call(Request::AddWatch(AddWatchRequest { path: path.into(), mode })).await
}

fn watches(path: &str, kind: WatcherType) -> WatchesRequest {
    WatchesRequest { path: path.into(), watcher_type: kind.code() }
}

/// Returns the events that have arrived so far.
async fn events(zk: &mut RawClient) -> Vec<(EventType, String)> {
    zk.ping().await;
    zk.events.drain(..).collect()
}

fn event(event: EventType, path: &str) -> (EventType, String) {
    (event, path.to_owned())
}

#[tokio::test(start_paused = true)]
async fn persistent_watches_stay() {
    use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let mut other = RawClient::new(&server).await;
    assert_eq!(add_watch(&mut zk, "/p", 0).await, Ok(Response::Code(0)));
    assert_eq!(add_watch(&mut zk, "/r", 1).await, Ok(Response::Code(0)));
    assert_eq!(add_watch(&mut zk, "/p", 2).await, Err(ErrorCode::MarshallingError));
    for _ in 0..2 {
        for root in ["/p", "/r"] {
            other.create(root, CreateMode::Persistent).await.unwrap();
            other.create(&format!("{root}/c"), CreateMode::Persistent).await.unwrap();
            other.set_data(&format!("{root}/c"), b"").await.unwrap();
            other.set_data(root, b"").await.unwrap();
            other.delete(&format!("{root}/c")).await.unwrap();
            other.delete(root).await.unwrap();
        }
        let expected = [
            event(NodeCreated, "/p"),
            event(NodeChildrenChanged, "/p"),
            event(NodeDataChanged, "/p"),
            event(NodeChildrenChanged, "/p"),
            event(NodeDeleted, "/p"),
            event(NodeCreated, "/r"),
            event(NodeCreated, "/r/c"),
            event(NodeDataChanged, "/r/c"),
            event(NodeDataChanged, "/r"),
            event(NodeDeleted, "/r/c"),
            event(NodeDeleted, "/r"),
        ];
        assert_eq!(events(&mut zk).await, expected);
    }
    assert_eq!(events(&mut other).await, []);
    server.disconnect(zk.id());
    assert_eq!(server.until(|probe| probe.watches().is_empty()).await.watches(), []);
}

#[tokio::test(start_paused = true)]
async fn kinds_live_side_by_side_and_are_removed_one_by_one() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    add_watch(&mut zk, "/a", 0).await.unwrap();
    add_watch(&mut zk, "/a", 1).await.unwrap();
    zk.get_data("/a", true).await.unwrap();
    zk.children("/a", true).await.unwrap();
    zk.call(set_data("/a", b"", -1)).await.unwrap();
    assert_eq!(
        events(&mut zk).await,
        [event(EventType::NodeDataChanged, "/a")],
        "once, not three times"
    );
    let kinds: Vec<_> = server.probe().watches().iter().map(|watch| watch.kind).collect();
    assert_eq!(kinds, [WatchKind::Child, WatchKind::Persistent, WatchKind::PersistentRecursive]);

    for (kind, there) in [
        (WatcherType::Data, false),
        (WatcherType::Children, true),
        (WatcherType::Persistent, true),
        (WatcherType::PersistentRecursive, true),
        (WatcherType::Any, false),
    ] {
        let expected = if there { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) };
        assert_eq!(zk.call(Request::CheckWatches(watches("/a", kind))).await, expected, "{kind:?}");
        assert_eq!(
            zk.call(Request::RemoveWatches(watches("/a", kind))).await,
            expected,
            "{kind:?}"
        );
    }
    assert_eq!(server.probe().watches(), []);
    let unknown = WatchesRequest { path: "/a".into(), watcher_type: 6 };
    assert_eq!(zk.call(Request::RemoveWatches(unknown)).await, Err(ErrorCode::MarshallingError));
}

#[tokio::test(start_paused = true)]
async fn events_carry_their_zxid_except_those_that_were_missed() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let mut other = RawClient::new(&server).await;
    add_watch(&mut zk, "/a", 0).await.unwrap();
    other.create("/a", CreateMode::Persistent).await.unwrap();
    let zxid_of = async |zk: &mut RawClient| {
        let mut input = Decoder::new(zk.frame().await.unwrap());
        let header = ReplyHeader::decode(&mut input, "header").unwrap();
        assert_eq!(header.xid, XID_NOTIFICATION);
        WatcherEvent::decode(&mut input, "event").unwrap();
        header.zxid
    };
    assert_eq!(zxid_of(&mut zk).await, server.probe().zxid());
    let missed = SetWatches2 { exist_watches: vec!["/a".into()], ..SetWatches2::default() };
    zk.send(Request::SetWatches2(missed)).await;
    assert_eq!(zxid_of(&mut zk).await, -1);
}

#[tokio::test(start_paused = true)]
async fn the_remaining_operations() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    zk.create("/a/1", CreateMode::Ephemeral).await.unwrap();
    zk.create("/a/2", CreateMode::Ephemeral).await.unwrap();
    zk.create("/ab", CreateMode::Ephemeral).await.unwrap();
    let number = |path: &str| {
        Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: path.into() })
    };
    assert_eq!(zk.call(number("/a")).await, Ok(Response::Number(2)));
    assert_eq!(zk.call(number("/")).await, Ok(Response::Number(7)));
    assert_eq!(zk.call(number("/none")).await, Err(ErrorCode::NoNode));
    for (prefix, expected) in [
        ("", vec!["/a/1", "/a/2", "/ab"]),
        ("/", vec!["/a/1", "/a/2", "/ab"]),
        ("/a/", vec!["/a/1", "/a/2"]),
        ("/b", vec![]),
    ] {
        let request = Request::GetEphemerals(GetEphemeralsRequest { prefix: prefix.into() });
        let paths = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(zk.call(request).await, Ok(Response::Children(paths)));
    }
    let reads = vec![
        ReadOp::GetData(GetDataRequest { path: "/ab".into(), watch: true }),
        ReadOp::GetData(GetDataRequest { path: "/none".into(), watch: false }),
        ReadOp::GetChildren(GetChildrenRequest { path: "/ab".into(), watch: true }),
    ];
    let Ok(Response::ReadResults(results)) = zk.call(Request::MultiRead(reads)).await else {
        panic!("no results");
    };
    let [ReadResult::Data(data), missing, children] = results.as_slice() else {
        panic!("{results:?}")
    };
    assert_eq!(data.data, Some("data".into()));
    assert_eq!(*missing, ReadResult::Error(Some(ErrorCode::NoNode)));
    assert_eq!(*children, ReadResult::Children(Vec::new()));
    assert_eq!(server.probe().watches(), [], "the flag has no effect");

    let zxid = server.probe().zxid();
    let reconfig = Request::Reconfig(ReconfigRequest { version: -1, ..ReconfigRequest::default() });
    assert_eq!(zk.call(reconfig).await, Err(ErrorCode::ReconfigDisabled));
    assert_eq!(server.probe().zxid(), zxid + 1);
    let enabled = TestServer::builder().tcp(false).reconfig_enabled(true).start().await.unwrap();
    let reconfig = Request::Reconfig(ReconfigRequest { version: -1, ..ReconfigRequest::default() });
    let answer = RawClient::new(&enabled).await.call(reconfig).await;
    assert_eq!(answer, Err(ErrorCode::Unimplemented));
    let token = SaslToken { token: Some("token".into()) };
    assert_eq!(zk.call(Request::Sasl(token)).await, Ok(Response::Sasl(SaslToken { token: None })));
    zk.send(Request::Sasl(SaslToken { token: None })).await;
    zk.closed().await;
}
