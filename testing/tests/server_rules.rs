//! Fault rules: the effect of each verdict on a request, its connection, and other sessions.

use std::time::Duration;

use crate::common::{LONG, Message, RawClient, create, create_body, set_data};
use tokio::time::Instant;
use zk_curator_proto::records::{CreateMode, EventType, MultiOp};
use zk_curator_proto::{ErrorCode, OpCode, Request};
use zk_curator_testing::wait::past;
use zk_curator_testing::{RuleRequest, TestServer, Verdict, WriteKind};

fn on_create(verdict: Verdict) -> impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static {
    move |request| if request.is_create() { verdict } else { Verdict::Pass }
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_is_not_applied_and_earlier_replies_arrive() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let rule = server.rule(on_create(Verdict::LoseRequest));
    zk.send(Request::Ping).await;
    zk.send(create("/a", CreateMode::Persistent)).await;
    zk.send(Request::Ping).await;
    assert!(zk.reply().await.is_some());
    zk.closed().await;
    rule.fired().await;
    let probe = server.probe();
    assert_eq!(probe.paths(), [""; 0]);
    assert_eq!((probe.requests(OpCode::Create), probe.requests(OpCode::Ping)), (0, 1));
    assert!(!probe.session(zk.id()).unwrap().connected);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_belongs_to_a_request_that_was_applied() {
    let server = TestServer::in_memory().await;
    let mut watcher = RawClient::new(&server).await;
    watcher.exists("/a", true).await.unwrap_err();
    let mut zk = RawClient::new(&server).await;
    zk.exists("/a", true).await.unwrap_err();
    let rule = server.rule(on_create(Verdict::LoseReply)).times(1);
    zk.send(Request::Ping).await;
    zk.send(create("/a", CreateMode::Ephemeral)).await;
    assert!(zk.reply().await.is_some());
    zk.closed().await;
    assert_eq!(watcher.event().await, (EventType::NodeCreated, "/a".into()));
    assert_eq!(rule.hits(), 1);
    assert_eq!(server.probe().ephemerals(zk.id()), ["/a"]);
    assert_eq!(server.probe().notifications(), 1);
    let mut zk = zk.reattach(&server).await.unwrap();
    assert_eq!(zk.create("/a", CreateMode::Ephemeral).await, Err(ErrorCode::NodeExists));
}

#[tokio::test]
async fn replies_before_a_lost_one_arrive_over_tcp_too() {
    let server = TestServer::start().await;
    for _ in 0..20 {
        let mut zk = RawClient::over_tcp(&server.connect_string()).await;
        let _rule = server.rule(on_create(Verdict::LoseRequest));
        for _ in 0..10 {
            zk.send(Request::Ping).await;
        }
        zk.send(create("/a", CreateMode::Persistent)).await;
        for _ in 0..10 {
            assert!(zk.reply().await.is_some());
        }
        zk.closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_client_loses_what_was_on_its_way() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let rule = server.rule(on_create(Verdict::Disconnect));
    zk.send(Request::Ping).await;
    zk.send(create("/a", CreateMode::Persistent)).await;
    zk.closed().await;
    assert_eq!(rule.hits(), 1);
    assert_eq!(server.probe().paths(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_gets_the_error() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let rule = server.rule(on_create(Verdict::Refuse(ErrorCode::OperationTimeout)));
    assert_eq!(zk.create("/a", CreateMode::Persistent).await, Err(ErrorCode::OperationTimeout));
    let ops = vec![MultiOp::Create(create_body("/a", CreateMode::Persistent))];
    assert_eq!(zk.call(Request::Multi(ops)).await, Err(ErrorCode::OperationTimeout));
    drop(rule);
    assert_eq!(zk.create("/a", CreateMode::Persistent).await, Ok("/a".into()));
    assert_eq!(server.probe().requests(OpCode::Create), 2);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_delays_only_the_requests_behind_it() {
    let server = TestServer::in_memory().await;
    let mut other = RawClient::new(&server).await;
    let mut zk = RawClient::new(&server).await;
    zk.exists("/b", true).await.unwrap_err();
    let delay = Duration::from_secs(3);
    let rule =
        server.rule(
            move |request| {
                if request.is_about("/a") { Verdict::Delay(delay) } else { Verdict::Pass }
            },
        );
    let start = Instant::now();
    zk.send(create("/a", CreateMode::Persistent)).await;
    zk.send(Request::Ping).await;
    rule.fired().await;
    other.create("/b", CreateMode::Persistent).await.unwrap();
    assert_eq!(zk.message().await, Some(Message::Event(EventType::NodeCreated, "/b".into())));
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(!server.probe().exists("/a"));
    assert!(zk.reply().await.unwrap().is_ok());
    assert!((delay..delay * 2).contains(&start.elapsed()));
    assert!(zk.reply().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_rule_ends_its_delays_in_order() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let rule = server.rule(on_create(Verdict::Delay(Duration::MAX)));
    let start = Instant::now();
    zk.send(create("/a", CreateMode::Persistent)).await;
    zk.send(create("/b", CreateMode::Persistent)).await;
    rule.fired().await;
    rule.end();
    assert!(zk.reply().await.unwrap().is_ok());
    assert!(zk.reply().await.unwrap().is_ok());
    rule.end();
    assert_eq!((rule.hits(), start.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_leaves_requests_in_flight() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let delay = Duration::from_secs(3);
    let rule = server.rule(on_create(Verdict::Delay(delay)));
    let start = Instant::now();
    zk.send(create("/a", CreateMode::Persistent)).await;
    rule.fired().await;
    drop(rule);
    assert!(zk.reply().await.unwrap().is_ok());
    assert!(start.elapsed() >= delay);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_of_a_session_that_moved_is_not_applied() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let rule = server.rule(on_create(Verdict::Delay(Duration::from_secs(3))));
    zk.send(create("/a", CreateMode::Persistent)).await;
    rule.fired().await;
    let mut moved = zk.reattach(&server).await.unwrap();
    past(Duration::from_secs(4)).await;
    moved.ping().await;
    assert!(!server.probe().exists("/a"));
}

#[tokio::test(start_paused = true)]
async fn the_first_rule_with_an_opinion_wins_until_it_is_used_up() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let indifferent = server.rule(|_| Verdict::Pass);
    let first = server.rule(on_create(Verdict::Refuse(ErrorCode::NoAuth))).times(2);
    let second = server.rule(on_create(Verdict::Refuse(ErrorCode::QuotaExceeded)));
    for code in [ErrorCode::NoAuth, ErrorCode::NoAuth, ErrorCode::QuotaExceeded] {
        assert_eq!(zk.create("/a", CreateMode::Persistent).await, Err(code));
    }
    tokio::time::timeout(LONG, first.fired()).await.unwrap();
    assert_eq!((indifferent.hits(), first.hits(), second.hits()), (0, 2, 1));
    second.forget();
    assert_eq!(zk.create("/a", CreateMode::Persistent).await, Err(ErrorCode::QuotaExceeded));
}

#[tokio::test(start_paused = true)]
async fn rules_see_the_session_and_the_request() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let mut other = RawClient::new(&server).await;
    zk.create("/p", CreateMode::Persistent).await.unwrap();
    let id = zk.id();
    let rule = server.rule(move |request| {
        if request.session_id() == id && request.is_create_under("/p") {
            Verdict::Refuse(ErrorCode::NoAuth)
        } else {
            Verdict::Pass
        }
    });
    assert!(other.create("/p/x", CreateMode::Persistent).await.is_ok());
    assert!(zk.create("/q", CreateMode::Persistent).await.is_ok());
    assert!(zk.call(set_data("/p/x", b"", -1)).await.is_ok());
    assert_eq!(zk.create("/p/y", CreateMode::Persistent).await, Err(ErrorCode::NoAuth));
    let ops = |paths: &[&str]| {
        paths
            .iter()
            .map(|path| MultiOp::Create(create_body(path, CreateMode::Persistent)))
            .collect()
    };
    assert_eq!(zk.call(Request::Multi(ops(&["/r", "/p/y"]))).await, Err(ErrorCode::NoAuth));
    assert!(zk.call(Request::Multi(ops(&["/r", "/q/y"]))).await.is_ok());
    assert_eq!(rule.hits(), 2);
    let seen = server.rule(|request| {
        assert!(request.is(OpCode::Ping) && request.path().is_none() && !request.is_delete());
        Verdict::Pass
    });
    zk.ping().await;
    drop(seen);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_panics_ends_one_connection() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let mut other = RawClient::new(&server).await;
    let rule = server.rule(|request| {
        assert!(!request.is_create(), "the panic this test is about");
        Verdict::Pass
    });
    zk.send(create("/a", CreateMode::Persistent)).await;
    zk.closed().await;
    other.ping().await;
    drop(rule);
    assert!(!server.probe().session(zk.id()).unwrap().connected);
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_waited_for_without_polling() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let waiting = tokio::spawn({
        let server = server.clone();
        async move { server.until(|probe| probe.children("/a").len() == 2).await }
    });
    zk.create("/a", CreateMode::Persistent).await.unwrap();
    zk.create("/a/1", CreateMode::Ephemeral).await.unwrap();
    assert!(!waiting.is_finished());
    zk.create("/a/2", CreateMode::Ephemeral).await.unwrap();
    let probe = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap();
    assert_eq!(probe.children("/a"), ["1", "2"]);
    assert_eq!(probe.data("/a"), Some("data".into()));
    let text = probe.to_string();
    assert!(text.contains(&format!("/a/1 = \"data\" ephemeral of {:#x}", zk.id())), "{text}");
    assert!(text.contains("3 Create"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_the_third_time_of_a_pattern() {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    let third = server
        .rule(|request| match request.matches("/*/lock-?") && request.is_create() {
            true => Verdict::Refuse(ErrorCode::NoAuth),
            false => Verdict::Pass,
        })
        .after(2)
        .times(1);
    zk.create("/l", CreateMode::Persistent).await.unwrap();
    for number in 1..=4 {
        let created = zk.create(&format!("/l/lock-{number}"), CreateMode::Persistent).await;
        assert_eq!(created.is_err(), number == 3, "{number}");
    }
    assert_eq!(third.hits(), 1);
}

/// The journal is the same in every run, although session ids differ.
#[tokio::test(start_paused = true)]
async fn the_journal_tells_what_was_injected() {
    let run = async || {
        let server = TestServer::in_memory().await;
        let mut first = RawClient::new(&server).await;
        let mut second = RawClient::new(&server).await;
        let rule = server.rule(|request| match request.path() {
            Some("/late") => Verdict::Delay(Duration::from_millis(50)),
            Some("/no") => Verdict::Refuse(ErrorCode::NoAuth),
            _ => Verdict::Pass,
        });
        first.create("/late", CreateMode::Persistent).await.unwrap();
        assert!(second.exists("/no", false).await.is_err());
        drop(rule);
        server.hold();
        server.release();
        server.partition();
        server.heal();
        server.set_sequence("/late", 7).unwrap();
        server.set_version("/late", 7).unwrap();
        server.disconnect(first.id());
        server.disconnect(first.id());
        server.expire(second.id()).await;
        server.expire(second.id()).await;
        server.set_read_only(true);
        server.set_read_only(true);
        server.set_read_only(false);
        server.disconnect_all();
        server.stop().await;
        server.restart().await.unwrap();
        server.journal().to_string()
    };
    let journal = run().await;
    let expected = "       0 ms Delay(50ms) of Create /late in session 1
      50 ms Refuse(NoAuth) of Exists /no in session 2
      50 ms held
      50 ms released
      50 ms partitioned
      50 ms healed
      50 ms next child of /late is 7
      50 ms version of /late is 7
      50 ms session 1 disconnected
      50 ms session 2 expired
      50 ms read-only
      50 ms no longer read-only
      50 ms all disconnected
      50 ms stopped
      50 ms restarted
";
    assert_eq!(journal, expected);
    assert_eq!(run().await, expected);
}

#[tokio::test(start_paused = true)]
async fn an_administrator_deletes_nodes_and_all_below_them() {
    let server = TestServer::builder().tcp(false).keep_writes(true).start().await.unwrap();
    let mut zk = RawClient::new(&server).await;
    for path in ["/a", "/a/b", "/a/b/c", "/other"] {
        zk.create(path, CreateMode::Persistent).await.unwrap();
    }
    zk.create("/a/e", CreateMode::Ephemeral).await.unwrap();
    let stat = |path: &str| server.probe().stat(path).unwrap();
    let (first, mut below) = (stat("/a"), vec![stat("/a/b"), stat("/a/b/c"), stat("/a/e")]);
    let mut removed = server.remove("/a").unwrap();
    assert_eq!(removed.remove(0), first);
    removed.sort_unstable_by_key(|stat| stat.czxid);
    below.sort_unstable_by_key(|stat| stat.czxid);
    assert_eq!(removed, below);
    assert!(!server.probe().exists("/a") && server.probe().exists("/other"));
    assert_eq!(server.remove("/a"), Err(ErrorCode::NoNode));
    assert_eq!(server.remove("/"), Err(ErrorCode::NoNode));

    zk.delete("/other").await.unwrap();
    let deleted: Vec<_> =
        server.writes().into_iter().filter(|write| write.kind == WriteKind::Deleted).collect();
    assert_eq!(deleted.len(), 5);
    assert!(deleted[..4].iter().all(|write| write.session == 0), "{deleted:?}");
    assert!(
        deleted.iter().all(|write| write.is_ephemeral == (write.path == "/a/e")),
        "{deleted:?}"
    );
    assert_eq!((deleted[4].path.as_str(), deleted[4].session), ("/other", zk.id()));
    let silent = TestServer::in_memory().await;
    RawClient::new(&silent).await.create("/a", CreateMode::Persistent).await.unwrap();
    assert_eq!(silent.writes(), []);
}
