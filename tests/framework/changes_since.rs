//! The changes since a transaction, computed by the server.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use zk_curator::retry::RetryNTimes;
use zk_curator::schema::{Allowance, Schema, SchemaSet};
use zk_curator::{CuratorFramework, ErrorKind, EventType, WatchedEvent};
use zk_curator_proto::OpCode;
use zk_curator_testing::{TestServer, Verdict, wait};
use zk_curator_tests::{
    Server, builder, connected, expire, in_memory, on_each_server, once, session_id,
    simulated_drops, simulated_on, simulated_with, start, until,
};

use EventType::{NodeChildrenChanged, NodeDataChanged, NodeDeleted};

on_each_server! {
    exactly_the_changes_are_returned
}

fn node(number: usize) -> String {
    format!("/p/n{number:04}")
}

fn nodes(count: usize) -> Vec<String> {
    (0..count).map(node).collect()
}

/// Creates the parent and its children, and returns the last transaction.
async fn populate(zk: &CuratorFramework, count: usize) -> i64 {
    zk.create("/p").creating_parents().await.unwrap();
    for nodes in nodes(count).chunks(500) {
        let creates = nodes.iter().fold(zk.transaction(), |creates, path| creates.create(path, ""));
        creates.commit().await.unwrap();
    }
    zk.exists("/p").await.unwrap().expect("it was created").pzxid
}

fn sorted(changes: Vec<WatchedEvent>) -> Vec<(String, EventType)> {
    let mut changes: Vec<_> =
        changes.into_iter().map(|event| (event.path, event.event_type)).collect();
    changes.sort_by(|(one, _), (two, _)| one.cmp(two));
    changes
}

fn counter() -> (Arc<AtomicU64>, Arc<AtomicU64>) {
    let counter = Arc::new(AtomicU64::new(0));
    (Arc::clone(&counter), counter)
}

/// The session of this framework is all there is, and there is no watch.
async fn assert_nothing_is_left(server: &Server, zk: &CuratorFramework) {
    match server {
        Server::Embedded(server) => {
            let probe = server.probe();
            assert!(probe.watches().is_empty(), "{probe}");
            let sessions: Vec<_> = probe.sessions().iter().map(|session| session.id).collect();
            assert_eq!(sessions, [session_id(zk).get()]);
        }
        // It takes the watches of a session away after the response to the end of the session.
        Server::Apache(server) => {
            wait::until(async || {
                let report = server.four_letter_word("mntr").await.unwrap();
                report.lines().any(|line| line == "zk_watch_count\t0")
            })
            .await;
        }
        _ => unreachable!("there is no other server"),
    }
}

async fn exactly_the_changes_are_returned(server: Server) {
    let zk = server.connected().await;
    let zk = zk.using_namespace("app").unwrap();
    let known = populate(&zk, 1_000).await;
    let ask = || {
        let inner = (0..1_000).step_by(10).map(node).chain(["/p".to_owned()]);
        zk.changes_since(known).data(nodes(1_000)).children(inner)
    };
    assert_eq!(ask().await.unwrap(), []);
    assert_nothing_is_left(&server, &zk).await;

    let mut expected = Vec::new();
    for number in [3, 30, 77, 500, 998, 999] {
        zk.set_data(node(number), "new").await.unwrap();
        expected.push((node(number), NodeDataChanged));
    }
    for number in [100, 101] {
        zk.delete(node(number)).await.unwrap();
        expected.push((node(number), NodeDeleted));
    }
    zk.delete(node(200)).await.unwrap();
    zk.create(node(200)).await.unwrap();
    // A new node has changed after everything: its list of children, too.
    expected.extend([(node(200), NodeDataChanged), (node(200), NodeChildrenChanged)]);
    zk.create(format!("{}/child", node(40))).await.unwrap();
    expected.push((node(40), NodeChildrenChanged));
    expected.push(("/p".to_owned(), NodeChildrenChanged));
    expected.sort_by(|(one, _), (two, _)| one.cmp(two));
    assert_eq!(sorted(ask().await.unwrap()), expected);
    assert_nothing_is_left(&server, &zk).await;

    // As of now, nothing has.
    let known = zk.exists(node(40)).await.unwrap().expect("it was created").pzxid;
    let left = nodes(1_000).into_iter().filter(|path| ![node(100), node(101)].contains(path));
    let changes = zk.changes_since(known).data(left).children(["/p", "/"]).await.unwrap();
    assert_eq!(changes, []);
    zk.close().await.unwrap();
}

#[test]
fn paths_are_within_namespace_and_chroot() {
    simulated_on(TestServer::in_memory, async |server| {
        let outside = connected(&server).await;
        outside.create("/chroot/ns/p").creating_parents().await.unwrap();
        let zk = start(builder(&server).connect_string("memory:2181/chroot").namespace("ns")).await;
        let known = zk.create("/a").await.unwrap().stat.czxid;
        zk.set_data("/", "new").await.unwrap();
        zk.set_data("/a", "new").await.unwrap();
        zk.create("/p/q").await.unwrap();
        let changes =
            zk.changes_since(known).data(["/", "/a", "/p", "/none"]).children(["/p", "/a"]).await;
        let expected = [
            ("/", NodeDataChanged),
            ("/a", NodeDataChanged),
            ("/none", NodeDeleted),
            ("/p", NodeChildrenChanged),
        ];
        assert_eq!(
            sorted(changes.unwrap()),
            expected.map(|(path, event)| (path.to_owned(), event))
        );
    });
}

#[test]
fn each_change_is_returned_once_by_any_number_of_sessions() {
    simulated_with(async |server, zk| {
        let known = populate(&zk, 1_000).await;
        zk.delete(node(7)).await.unwrap();
        zk.set_data(node(8), "new").await.unwrap();
        let before = server.probe();
        let paths = || std::iter::repeat_n(nodes(1_000), 51).flatten();
        let changes = zk.changes_since(known).data(paths()).children(paths()).await.unwrap();
        assert_eq!(sorted(changes), [(node(7), NodeDeleted), (node(8), NodeDataChanged)]);
        let after = server.probe();
        let of = |opcode| after.requests(opcode) - before.requests(opcode);
        assert_eq!(of(OpCode::CloseSession), 3, "102,000 watches");
        // 13 bytes each.
        assert!((14..=17).contains(&of(OpCode::SetWatches)), "{}", of(OpCode::SetWatches));
        assert_nothing_is_left(&Server::Embedded(server), &zk).await;
    });
}

#[test]
fn a_lost_session_is_asked_again_or_fails_whole() {
    simulated_with(async |server, zk| {
        let known = populate(&zk, 20_000).await;
        zk.set_data(node(0), "new").await.unwrap();
        zk.set_data(node(19_999), "new").await.unwrap();
        let expected = [(node(0), NodeDataChanged), (node(19_999), NodeDataChanged)];
        // The third frame of several.
        for verdict in [Verdict::Disconnect, Verdict::LoseReply, Verdict::LoseRequest] {
            let (frames, count) = counter();
            let lost = server.rule(move |request| match request.is(OpCode::SetWatches) {
                true if count.fetch_add(1, Relaxed) == 2 => verdict,
                _ => Verdict::Pass,
            });
            let changes = zk.changes_since(known).data(nodes(20_000)).await.unwrap();
            assert_eq!((sorted(changes), lost.hits()), (expected.to_vec(), 1), "{verdict:?}");
            assert!(frames.load(Relaxed) > 4);
            drop(lost);
            let once = once(&server, OpCode::SetWatches, verdict);
            let never = RetryNTimes::new(0, Duration::ZERO);
            let error = zk.changes_since(known).data(nodes(20_000)).retry(never).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.may_have_applied(), once.hits()),
                (ErrorKind::ConnectionLoss, false, 1)
            );
        }
        until(&server, |probe| probe.sessions().len() == 1 && probe.watches().is_empty()).await;
    });
}

#[test]
fn options_and_paths_are_checked() {
    simulated_on(TestServer::in_memory, async |server| {
        let secret = Schema::exact("secret", "/secret").watched(Allowance::Must);
        let zk = builder(&server).schema_set(SchemaSet::new([secret]).unwrap()).build().unwrap();
        let early = zk.changes_since(1).data(["/a"]).await.unwrap_err();
        assert_eq!((early.kind(), early.operation()), (ErrorKind::NotStarted, "changes_since"));
        zk.start().await.unwrap();
        let before = server.probe();
        assert_eq!(zk.changes_since(1).await.unwrap(), []);
        let invalid = zk.changes_since(1).data(["/a"]).children(["b"]).await.unwrap_err();
        assert_eq!((invalid.kind(), invalid.path()), (ErrorKind::InvalidPath, "b"));
        let forbidden = zk.changes_since(1).data(["/a", "/secret"]).await.unwrap_err();
        assert_eq!((forbidden.kind(), forbidden.path()), (ErrorKind::SchemaViolation, "/secret"));
        assert_eq!(server.probe().total_requests(), before.total_requests());
        let slow = once(&server, OpCode::SetWatches, Verdict::Delay(Duration::from_secs(5)));
        let late =
            zk.changes_since(1).data(["/a"]).deadline(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!((late.kind(), slow.hits()), (ErrorKind::OperationTimeout, 1));
        until(&server, |probe| probe.sessions().len() == 1 && probe.watches().is_empty()).await;
        // The current session does not matter, except for the transactions that it has seen.
        expire(&server, &zk).await;
        let changes = zk.changes_since(1).data(["/a"]).await.unwrap();
        assert_eq!(sorted(changes), [("/a".to_owned(), NodeDeleted)]);
    });
}

#[test]
fn a_dropped_question_leaves_nothing() {
    simulated_drops(
        3,
        async || {
            let (server, zk) = in_memory().await;
            let known = populate(&zk, 10).await;
            zk.set_data(node(1), "new").await.unwrap();
            (server, zk, known)
        },
        async |(_, zk, known)| {
            zk.changes_since(*known).data(nodes(10)).children(["/p"]).await.unwrap()
        },
        async |(server, zk, _), changes| {
            assert!(changes.is_none_or(|changes| sorted(changes) == [(node(1), NodeDataChanged)]));
            zk.close().await.unwrap();
            until(&server, |probe| probe.watches().is_empty() && probe.sessions().is_empty()).await;
        },
    );
}
