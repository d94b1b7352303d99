//! Rules have the same effects in front of a server as on the server.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use zk_curator_client::{Connector, TcpConnector};
use zk_curator_proto::records::{
    AddWatchRequest, CreateMode, DeleteRequest, EventType, ExistsRequest, GetAclRequest,
    GetChildrenRequest, GetDataRequest, MultiOp, SetWatches, SyncRequest,
};
use zk_curator_proto::{ErrorCode, OpCode, Record, Request, frame};
use zk_curator_real as real;
use zk_curator_testing::{FaultProxy, Flow, RuleGuard, RuleRequest, TestServer, Verdict};

use super::{address, client, create_a, on_create, proxied, put};
use crate::common::{
    LONG, Message, RawClient, auth, create, create_body, delete, new_session, set_data,
};

const VERDICTS: [Verdict; 6] = [
    Verdict::Pass,
    Verdict::Delay(Duration::from_millis(1)),
    Verdict::Refuse(ErrorCode::OperationTimeout),
    Verdict::LoseRequest,
    Verdict::LoseReply,
    Verdict::Disconnect,
];

fn get(path: &str) -> Request {
    Request::GetData(GetDataRequest { path: path.into(), watch: false })
}

/// One request of each kind.
fn requests() -> Vec<Request> {
    let children = || GetChildrenRequest { path: "/p".into(), watch: true };
    vec![
        create_a(),
        Request::Create2(create_body("/a", CreateMode::Ephemeral)),
        Request::Multi(vec![
            MultiOp::Create(create_body("/a", CreateMode::Persistent)),
            MultiOp::Delete(DeleteRequest { path: "/p".into(), version: -1 }),
        ]),
        Request::Multi(vec![MultiOp::Delete(DeleteRequest { path: "/a".into(), version: -1 })]),
        delete("/p"),
        delete("/missing"),
        set_data("/p", b"new", -1),
        get("/p"),
        Request::Exists(ExistsRequest { path: "/p".into(), watch: true }),
        Request::GetChildren(children()),
        Request::GetChildren2(children()),
        Request::AddWatch(AddWatchRequest { path: "/p".into(), mode: 1 }),
        Request::Sync(SyncRequest { path: "/p".into() }),
        Request::SetWatches(SetWatches {
            relative_zxid: 0,
            data_watches: vec!["/p".into()],
            ..SetWatches::default()
        }),
        auth("digest", b"user:password"),
        Request::WhoAmI,
        Request::Ping,
        Request::CloseSession,
    ]
}

/// The view of a client: each message without zxids and times, and the end of the connection.
#[derive(Debug, PartialEq)]
struct Transcript {
    messages: Vec<String>,
    hits: u64,
    /// The nodes, as another client finds them.
    paths: Vec<String>,
}

/// Sends the request between others, of which a rule for its opcode sees only itself.
#[expect(clippy::too_many_lines, reason = "one story")]
async fn transcript(
    address: &str,
    rule: &dyn Fn(OpCode, Verdict) -> RuleGuard,
    request: Request,
    verdict: Verdict,
    after: &str,
) -> Transcript {
    let mut zk = RawClient::over_tcp(address).await;
    zk.create("/p", CreateMode::Persistent).await.unwrap();
    for path in ["/p", "/a"] {
        let watching = Request::Exists(ExistsRequest { path: path.into(), watch: true });
        assert!(zk.call(watching).await.is_ok() == (path == "/p"));
    }
    let opcode = request.opcode();
    let before = || Request::GetAcl(GetAclRequest { path: "/p".into() });
    let guard = rule(opcode, verdict);
    // The response before a `Disconnect` may be lost, and Apache ZooKeeper's response to an `auth`
    // may overtake it.
    let waits = verdict == Verdict::Disconnect || opcode == OpCode::Auth;
    if waits {
        zk.call(before()).await.unwrap();
    } else {
        zk.send(before()).await;
    }
    zk.send(request).await;
    // Apache ZooKeeper may respond to a request behind the end of the session.
    let follows = opcode != OpCode::CloseSession;
    if follows {
        zk.send(before()).await;
    }
    let mut messages = Vec::new();
    let ends = matches!(verdict, Verdict::LoseRequest | Verdict::LoseReply | Verdict::Disconnect)
        || (opcode == OpCode::CloseSession && !matches!(verdict, Verdict::Refuse(_)));
    let mut replies = 0;
    while ends || replies < 1 + usize::from(!waits) + usize::from(follows) {
        let seen = zk.last_zxid;
        match zk.message().await {
            Some(Message::Event(event, path)) => messages.push(format!("{event:?} {path}")),
            Some(Message::Reply { xid, zxid, result }) => {
                // Only `auth` has none.
                assert!(zxid >= seen || zxid == 0, "{opcode:?} {verdict:?}: {zxid} after {seen}");
                replies += 1;
                let result = result.map(|response| without_numbers(&format!("{response:?}")));
                messages.push(format!("{xid} {result:?}"));
            }
            None => {
                messages.push("end".into());
                break;
            }
        }
    }
    if verdict != Verdict::Pass {
        tokio::time::timeout(LONG, guard.fired()).await.expect("a hit");
    }
    let hits = guard.hits();
    drop(guard);
    let mut other = RawClient::over_tcp(after).await;
    other.call(Request::Sync(SyncRequest { path: "/".into() })).await.unwrap();
    let mut paths = Vec::new();
    for path in ["/a", "/p"] {
        if let Ok(stat) = other.exists(path, false).await {
            paths.push(format!("{path} version {}", stat.version));
            other.delete(path).await.unwrap();
        }
    }
    other.call(Request::CloseSession).await.unwrap();
    if messages.last().is_none_or(|last| last != "end") {
        zk.call(Request::CloseSession).await.unwrap();
    }
    Transcript { messages, hits, paths }
}

/// Replaces numbers of more than one digit, which are zxids, times and session ids.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        let is_number = digits.len() > 1;
        out.push_str(if is_number { "#" } else { digits });
        out.push_str(&part[digits.len()..]);
    }
    out
}

fn of(
    opcode: OpCode,
    verdict: Verdict,
) -> impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static {
    move |request| if request.is(opcode) { verdict } else { Verdict::Pass }
}

/// Zxids of a new server have one digit, so the first ones are used up.
async fn used(server: &str) {
    let mut zk = RawClient::over_tcp(server).await;
    for _ in 0..6 {
        zk.create("/used", CreateMode::Persistent).await.unwrap();
        zk.delete("/used").await.unwrap();
    }
}

/// Compares each verdict about each request, by a proxy in front of a server and by the embedded
/// server itself.
async fn compare(direct: &TestServer, proxy: &FaultProxy, behind: &str) {
    let (direct_address, proxy_address) = (direct.connect_string(), proxy.connect_string());
    used(&direct_address).await;
    used(behind).await;
    let on_server = |opcode, verdict| direct.rule(of(opcode, verdict)).times(1);
    let on_proxy = |opcode, verdict| proxy.rule(of(opcode, verdict)).times(1);
    for request in requests() {
        for verdict in VERDICTS {
            let sent = request.clone();
            let expected =
                transcript(&direct_address, &on_server, sent, verdict, &direct_address).await;
            let sent = request.clone();
            let found = transcript(&proxy_address, &on_proxy, sent, verdict, behind).await;
            assert_eq!(expected, found, "{verdict:?} about {request:?}");
            assert_eq!(found.hits, u64::from(verdict != Verdict::Pass));
        }
    }
}

#[tokio::test]
async fn each_verdict_about_each_request_is_that_of_the_server() {
    let (server, proxy) = proxied().await;
    compare(&TestServer::start().await, &proxy, &server.connect_string()).await;
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn verdicts_before_apache_zookeeper_are_those_of_the_server() {
    let test = "verdicts_before_apache_zookeeper_are_those_of_the_server";
    let Some(zookeeper) = real::or_skip(test).await else { return };
    let version = zookeeper.version().await.unwrap();
    let direct = TestServer::builder().version(version).start().await.unwrap();
    let proxy = FaultProxy::start(&[zookeeper.addr()]).await.unwrap();
    compare(&direct, &proxy, &zookeeper.connect_string()).await;
}

#[tokio::test]
async fn pipelined_requests_are_served_in_their_order() {
    let (server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    let odd = |path: &str| path.bytes().last().is_some_and(|digit| digit % 2 == 1);
    let refused = proxy.rule(move |request| match request.path() {
        Some(path) if odd(path) => Verdict::Refuse(ErrorCode::NoAuth),
        _ => Verdict::Pass,
    });
    let mut xids = Vec::new();
    for number in 0..200 {
        xids.push(zk.send(create(&format!("/{number}"), CreateMode::Ephemeral)).await);
        if number % 10 == 0 {
            xids.push(zk.send(Request::Ping).await);
        }
    }
    for (index, expected) in xids.into_iter().enumerate() {
        let Some(Message::Reply { xid, result, .. }) = zk.message().await else {
            panic!("no reply {index}");
        };
        assert_eq!(xid, expected);
        assert_eq!(result.is_err(), expected > 0 && result == Err(ErrorCode::NoAuth));
    }
    assert_eq!((refused.hits(), server.probe().paths().len()), (100, 100));
}

#[tokio::test]
async fn replies_before_a_lost_request_arrive() {
    let (_server, proxy) = proxied().await;
    for verdict in [Verdict::LoseRequest, Verdict::LoseReply] {
        for _ in 0..20 {
            let mut zk = client(&proxy).await;
            let _rule = proxy.rule(on_create(verdict)).times(1);
            for _ in 0..10 {
                zk.send(Request::Ping).await;
            }
            zk.send(create_a()).await;
            // It has no response, whatever follows.
            zk.send(Request::Ping).await;
            for _ in 0..10 {
                assert!(zk.reply().await.is_some());
            }
            zk.closed().await;
        }
    }
}

#[tokio::test]
async fn events_reach_a_client_whose_request_is_delayed() {
    let (server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    zk.exists("/b", true).await.unwrap_err();
    let rule = proxy.rule(on_create(Verdict::Delay(Duration::MAX)));
    zk.send(create_a()).await;
    tokio::time::timeout(LONG, rule.fired()).await.unwrap();
    let mut other = RawClient::new(&server).await;
    other.create("/b", CreateMode::Persistent).await.unwrap();
    assert_eq!(zk.event().await, (EventType::NodeCreated, "/b".into()));
    assert!(!server.probe().exists("/a"));
    proxy.cut();
    zk.closed().await;
}

#[tokio::test]
async fn the_end_of_a_rule_ends_its_delays() {
    let (_server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    let rule = proxy.rule(on_create(Verdict::Delay(Duration::MAX)));
    zk.send(create_a()).await;
    tokio::time::timeout(LONG, rule.fired()).await.unwrap();
    rule.end();
    assert!(zk.reply().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_delayed_request_of_a_client_that_left_is_applied() {
    let (server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    let rule = proxy.rule(on_create(Verdict::Delay(Duration::from_millis(20))));
    zk.send(create_a()).await;
    tokio::time::timeout(LONG, rule.fired()).await.unwrap();
    drop(zk);
    tokio::time::timeout(LONG, server.until(|probe| probe.exists("/a"))).await.unwrap();
}

#[tokio::test]
async fn the_last_request_of_a_client_that_left_is_applied() {
    let (server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    let recursive = AddWatchRequest { path: "/".into(), mode: 1 };
    zk.call(Request::AddWatch(recursive)).await.unwrap();
    proxy.requests(Flow::Stalled);
    zk.send(create_a()).await;
    tokio::time::timeout(LONG, proxy.received(3)).await.unwrap();
    drop(zk);
    // The proxy cannot deliver these events.
    let mut other = RawClient::over_tcp(&server.connect_string()).await;
    for number in 0..100 {
        other.create(&format!("/{number}"), CreateMode::Persistent).await.unwrap();
    }
    proxy.requests(Flow::Open);
    tokio::time::timeout(LONG, server.until(|probe| probe.exists("/a"))).await.unwrap();
}

#[tokio::test]
async fn a_reply_that_never_comes_is_lost_with_the_connection() {
    let (server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    let rule = proxy.rule(on_create(Verdict::LoseReply));
    server.hold();
    zk.send(create_a()).await;
    proxy.until(|traffic| traffic.requests_of("/a") == 1).await;
    assert_eq!(rule.hits(), 0);
    server.disconnect_all();
    zk.closed().await;
    tokio::time::timeout(LONG, rule.fired()).await.unwrap();
}

#[tokio::test]
async fn a_stalled_network_holds_refusals_too() {
    let (_server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    proxy.replies(Flow::Stalled);
    let rule = proxy.rule(on_create(Verdict::Refuse(ErrorCode::NoAuth)));
    zk.send(create_a()).await;
    tokio::time::timeout(LONG, rule.fired()).await.unwrap();
    proxy.replies(Flow::Lost);
    proxy.cut();
    zk.closed().await;
    proxy.replies(Flow::Open);
    let mut zk = client(&proxy).await;
    proxy.requests(Flow::Stalled);
    zk.send(create_a()).await;
    proxy.received(4).await;
    assert_eq!(rule.hits(), 1, "rules do not see requests that wait");
    proxy.requests(Flow::Open);
    assert_eq!(zk.reply().await, Some(Err(ErrorCode::NoAuth)));
}

#[tokio::test]
async fn rules_see_requests_behind_the_handshake() {
    let (_server, proxy) = proxied().await;
    let (host, port) = ("127.0.0.1", address(&proxy).port());
    let rule = proxy.rule(|request| {
        assert_ne!(request.session_id(), 0);
        on_create(Verdict::Refuse(ErrorCode::NoAuth))(request)
    });
    let mut stream = TcpConnector::default().connect(host, port).await.unwrap();
    let mut bytes = BytesMut::new();
    frame::put(&mut bytes, |out| new_session().encode(out));
    put(&mut bytes, 1, &create_a());
    // One byte at a time.
    for byte in &bytes {
        stream.write_all(std::slice::from_ref(byte)).await.unwrap();
    }
    tokio::time::timeout(LONG, rule.fired()).await.unwrap();
}

#[tokio::test]
async fn a_session_keeps_its_id_on_another_connection() {
    let (_server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    zk.create("/a", CreateMode::Ephemeral).await.unwrap();
    let id = zk.id();
    let rule = proxy.rule(move |request| match request.session_id() == id {
        true => Verdict::Refuse(ErrorCode::NoAuth),
        false => Verdict::Pass,
    });
    proxy.cut();
    zk.closed().await;
    let (host, port) = ("127.0.0.1", address(&proxy).port());
    let stream = TcpConnector::default().connect(host, port).await.unwrap();
    let mut zk = RawClient::open(stream, zk.reattach_request()).await.unwrap();
    assert_eq!(zk.create("/b", CreateMode::Ephemeral).await, Err(ErrorCode::NoAuth));
    client(&proxy).await.create("/b", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(rule.hits(), 1);
}

#[tokio::test]
async fn a_rule_that_panics_ends_one_connection() {
    let (_server, proxy) = proxied().await;
    let mut zk = client(&proxy).await;
    let mut other = client(&proxy).await;
    let rule = proxy.rule(|request| {
        assert!(!request.is_create(), "the panic this test is about");
        Verdict::Pass
    });
    zk.send(create_a()).await;
    zk.closed().await;
    other.ping().await;
    drop(rule);
    proxy.until(|traffic| !traffic.session(zk.id()).unwrap().connected).await;
}

#[tokio::test]
async fn events_of_a_lost_reply_are_lost_on_its_connection_only() {
    let (server, proxy) = proxied().await;
    let mut watcher = client(&proxy).await;
    watcher.exists("/a", true).await.unwrap_err();
    let mut zk = client(&proxy).await;
    zk.exists("/a", true).await.unwrap_err();
    let _rule = proxy.rule(on_create(Verdict::LoseReply)).times(1);
    zk.send(create_a()).await;
    assert_eq!(zk.frame().await, None, "no event, no reply");
    assert_eq!(watcher.message().await, Some(Message::Event(EventType::NodeCreated, "/a".into())));
    assert_eq!(server.probe().notifications(), 2);
}
