//! Followed children: names, identity, settled states, and which children have joined and left.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, timeout};
use zk_curator::retry::RetryForever;
use zk_curator::watch::{ChildEvent, ChildrenDiff, ChildrenWatch};
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::wait::{past, settled, spend};
use zk_curator_testing::{Probe, Verdict};
use zk_curator_tests::{
    SESSION_TIMEOUT, builder, cut_off, expire, once, pairs, session_id, simulated_drops,
    simulated_each_on, simulated_on, simulated_with, start, two_in_memory, until, until_state,
};

async fn next(watch: &mut ChildrenWatch) -> Option<Vec<String>> {
    let next = timeout(Duration::from_secs(3600), watch.next()).await;
    let state = next.unwrap_or_else(|_| panic!("nothing happens: {watch:?}")).unwrap();
    state.map(|(names, _)| names)
}

async fn event(diff: &mut ChildrenDiff) -> ChildEvent {
    let next = timeout(Duration::from_secs(3600), diff.next()).await;
    next.unwrap_or_else(|_| panic!("nothing happens: {diff:?}")).unwrap()
}

fn names<const N: usize>(names: [&str; N]) -> Option<Vec<String>> {
    Some(names.map(str::to_owned).to_vec())
}

fn joined(name: &str) -> ChildEvent {
    ChildEvent::Joined(name.to_owned())
}

fn left(name: &str) -> ChildEvent {
    ChildEvent::Left(name.to_owned())
}

async fn nothing_is_told(watch: &mut ChildrenWatch) {
    let told = timeout(SESSION_TIMEOUT, watch.next()).await;
    assert!(told.is_err(), "{told:?}");
}

async fn create(zk: &CuratorFramework, paths: &[&str]) {
    for path in paths {
        zk.create(*path).await.unwrap();
    }
}

async fn delete(zk: &CuratorFramework, paths: &[&str]) {
    for path in paths {
        zk.delete(*path).await.unwrap();
    }
}

fn requests(probe: &Probe) -> u64 {
    probe.total_requests() - probe.requests(OpCode::Ping)
}

#[test]
fn the_present_children_and_every_difference_are_returned() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let mut watch = zk.watch_children("/p");
        assert_eq!(next(&mut watch).await, None);
        create(&other, &["/p"]).await;
        assert_eq!(next(&mut watch).await, names([]));
        create(&other, &["/p/b", "/p/a"]).await;
        assert_eq!(next(&mut watch).await, names(["a", "b"]));
        // No difference: data, grandchildren, a child that comes and goes, and a child that goes
        // and comes.
        other.set_data("/p/a", "x").await.unwrap();
        create(&other, &["/p/a/x", "/p/c"]).await;
        delete(&other, &["/p/c", "/p/b"]).await;
        create(&other, &["/p/b"]).await;
        nothing_is_told(&mut watch).await;
        delete(&other, &["/p/b"]).await;
        let (state, stat) = watch.next().await.unwrap().unwrap();
        assert_eq!((state, stat.num_children), (vec!["a".to_owned()], 1));
        other.delete("/p").deleting_children().await.unwrap();
        assert_eq!(next(&mut watch).await, None);
        let mut states = Box::pin(watch.into_stream());
        assert!(timeout(SESSION_TIMEOUT, states.next()).await.is_err());
        create(&other, &["/p", "/p/d"]).await;
        assert_eq!(states.next().await.unwrap().unwrap().unwrap().0, ["d"]);
    });
}

#[test]
fn a_change_of_children_costs_one_request() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&other, &["/p"]).await;
        let mut watch = zk.watch_children("/p").identity();
        let mut before = requests(&server.probe());
        let mut cost = async |watch: &mut ChildrenWatch, own: u64| {
            next(watch).await;
            let now = requests(&server.probe());
            now - std::mem::replace(&mut before, now) - own
        };
        assert_eq!(cost(&mut watch, 0).await, 1);
        create(&other, &["/p/a", "/p/b"]).await;
        assert_eq!(cost(&mut watch, 2).await, 1);
        delete(&other, &["/p/b"]).await;
        create(&other, &["/p/b"]).await;
        assert_eq!(cost(&mut watch, 2).await, 1, "a child that has returned");
        delete(&other, &["/p/a", "/p/b"]).await;
        assert_eq!(cost(&mut watch, 2).await, 1);
        delete(&other, &["/p"]).await;
        assert_eq!(cost(&mut watch, 1).await, 1, "the parent");
        create(&other, &["/p"]).await;
        assert_eq!(cost(&mut watch, 1).await, 1);
        drop(watch);
        until(&server, |probe| probe.watches().is_empty()).await;
    });
}

#[test]
fn a_recreated_child_is_reported_with_identity() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&other, &["/p", "/p/a", "/p/b"]).await;
        let mut watch = zk.watch_children("/p").identity();
        assert_eq!(next(&mut watch).await, names(["a", "b"]));
        delete(&other, &["/p/b"]).await;
        create(&other, &["/p/b"]).await;
        assert_eq!(next(&mut watch).await, names(["a", "b"]));
        // A child that comes and goes is no reason.
        create(&other, &["/p/c", "/p/d"]).await;
        assert_eq!(next(&mut watch).await, names(["a", "b", "c", "d"]));
        delete(&other, &["/p/c", "/p/d"]).await;
        assert_eq!(next(&mut watch).await, names(["a", "b"]));
        nothing_is_told(&mut watch).await;
        // While our session ends.
        expire(&server, &zk).await;
        delete(&other, &["/p/a"]).await;
        create(&other, &["/p/a"]).await;
        assert_eq!(next(&mut watch).await, names(["a", "b"]));
        // The whole tree is another one.
        other.delete("/p").deleting_children().await.unwrap();
        create(&other, &["/p", "/p/a", "/p/b"]).await;
        assert_eq!(next(&mut watch).await, names(["a", "b"]));
        nothing_is_told(&mut watch).await;
    });
}

#[test]
fn joins_and_leaves_are_reported_one_by_one() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut diff = zk.watch_children("/p").identity().diff();
        let first = tokio::join!(event(&mut diff), async {
            settled().await;
            create(&other, &["/p", "/p/a", "/p/b"]).await;
        });
        assert_eq!(first.0, joined("a"));
        assert_eq!(event(&mut diff).await, joined("b"));
        assert_eq!(diff.names().iter().collect::<Vec<_>>(), ["a", "b"]);
        create(&other, &["/p/c"]).await;
        delete(&other, &["/p/a"]).await;
        assert_eq!([event(&mut diff).await, event(&mut diff).await], [left("a"), joined("c")]);
        // Twice, and among other changes: the creating transaction distinguishes the nodes.
        for _ in 0..2 {
            delete(&other, &["/p/b"]).await;
            create(&other, &["/p/b"]).await;
            assert_eq!([event(&mut diff).await, event(&mut diff).await], [left("b"), joined("b")]);
        }
        let before = server.probe().requests(OpCode::MultiRead);
        delete(&other, &["/p/c"]).await;
        create(&other, &["/p/c", "/p/d"]).await;
        let told = [event(&mut diff).await, event(&mut diff).await, event(&mut diff).await];
        assert_eq!(told, [left("c"), joined("c"), joined("d")]);
        assert_eq!(server.probe().requests(OpCode::MultiRead) - before, 1);
        other.delete("/p").deleting_children().await.unwrap();
        create(&other, &["/p", "/p/d"]).await;
        let told = [(); 4].map(|()| ());
        let mut events = Vec::new();
        for () in told {
            events.push(event(&mut diff).await);
        }
        assert_eq!(events, [left("b"), left("c"), left("d"), joined("d")]);
        delete(&other, &["/p/d", "/p"]).await;
        assert_eq!(event(&mut diff).await, left("d"));
        assert!(diff.names().is_empty());
    });
}

#[test]
fn without_identity_one_that_came_back_has_stayed() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&other, &["/p", "/p/a"]).await;
        let mut diff = zk.watch_children("/p").diff();
        assert_eq!(event(&mut diff).await, joined("a"));
        delete(&other, &["/p/a"]).await;
        create(&other, &["/p/a", "/p/b"]).await;
        assert_eq!(event(&mut diff).await, joined("b"));
        assert_eq!(server.probe().requests(OpCode::MultiRead), 0);
        let mut events = Box::pin(diff.into_stream());
        delete(&other, &["/p/b"]).await;
        assert_eq!(events.next().await.unwrap().unwrap(), left("b"));
    });
}

/// The children change again between the listing and the check of the returned ones.
#[test]
fn a_child_deleted_during_its_read_is_reported_once() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&other, &["/p", "/p/a", "/p/b"]).await;
        let mut diff = zk.watch_children("/p").identity().diff();
        assert_eq!([event(&mut diff).await, event(&mut diff).await], [joined("a"), joined("b")]);
        for verdict in [Verdict::Delay(Duration::from_secs(1)), Verdict::LoseReply] {
            let late = once(&server, OpCode::MultiRead, verdict);
            delete(&other, &["/p/a", "/p/b"]).await;
            create(&other, &["/p/a", "/p/b"]).await;
            let meanwhile = async {
                late.fired().await;
                delete(&other, &["/p/a", "/p/b"]).await;
                create(&other, &["/p/b"]).await;
            };
            let (first, ()) = tokio::join!(event(&mut diff), meanwhile);
            let mut events = vec![first];
            while let Ok(event) = timeout(SESSION_TIMEOUT, diff.next()).await {
                events.push(event.unwrap());
            }
            // A is gone, and b another one, which has joined once.
            assert_eq!(
                events.iter().filter(|event| **event == joined("b")).count(),
                1,
                "{events:?}"
            );
            assert_eq!(diff.names().iter().collect::<Vec<_>>(), ["b"], "{events:?}");
            create(&other, &["/p/a"]).await;
            assert_eq!(event(&mut diff).await, joined("a"));
        }
    });
}

/// The connection is back, and the circuit breaker does not say so yet.
#[test]
fn a_settled_state_is_returned_while_a_circuit_is_open() {
    const REST: Duration = Duration::from_secs(1);
    simulated_with(async |server, other| {
        let zk = start(builder(&server).circuit_breaker(RetryForever::new(REST * 100))).await;
        create(&other, &["/p"]).await;
        let mut watch = zk.watch_children("/p").settled(REST);
        assert_eq!(next(&mut watch).await, names([]));
        server.disconnect(session_id(&zk).get());
        until_state(&zk, ConnectionState::Suspended).await;
        zk.sync("/").await.unwrap();
        create(&other, &["/p/a"]).await;
        let listed = server.probe().requests(OpCode::GetChildren2);
        assert_eq!(next(&mut watch).await, names(["a"]));
        assert_eq!(zk.state(), ConnectionState::Suspended);
        assert!(server.probe().requests(OpCode::GetChildren2) - listed <= 2);
    });
}

#[test]
fn a_settled_state_is_emitted_after_a_quiet_period() {
    const REST: Duration = Duration::from_secs(5);
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&other, &["/p", "/p/a"]).await;
        let mut watch = zk.watch_children("/p").settled(REST);
        let begun = Instant::now();
        assert_eq!(next(&mut watch).await, names(["a"]));
        assert_eq!(begun.elapsed(), REST);
        // Each change restarts the quiet period, even if it leaves the names unchanged.
        let changes = async {
            create(&other, &["/p/b"]).await;
            for _ in 0..3 {
                spend(REST - Duration::from_secs(1)).await;
                create(&other, &["/p/x"]).await;
                delete(&other, &["/p/x"]).await;
            }
            Instant::now()
        };
        let told = async { (next(&mut watch).await, Instant::now()) };
        let ((state, told), last) = tokio::join!(told, changes);
        assert_eq!(state, names(["a", "b"]));
        assert_eq!(told - last, REST);
        // An unchanged state is not emitted again.
        create(&other, &["/p/c"]).await;
        assert!(timeout(REST / 2, watch.next()).await.is_err());
        delete(&other, &["/p/c"]).await;
        assert!(timeout(REST * 3, watch.next()).await.is_err());
        // The time continues after the future was dropped.
        create(&other, &["/p/c"]).await;
        assert!(timeout(REST / 2, watch.next()).await.is_err());
        past(REST).await;
        assert_eq!(
            timeout(Duration::from_millis(1), watch.next())
                .await
                .unwrap()
                .unwrap()
                .unwrap()
                .0
                .len(),
            3
        );
        // Nothing is returned while the state of the servers is unknown.
        create(&other, &["/p/d"]).await;
        assert!(timeout(REST / 2, watch.next()).await.is_err());
        let away = cut_off(&server, &zk);
        assert!(timeout(REST, watch.next()).await.is_err());
        delete(&other, &["/p/d"]).await;
        create(&other, &["/p/e"]).await;
        drop(away);
        assert_eq!(next(&mut watch).await, names(["a", "b", "c", "e"]));
    });
}

#[test]
fn lost_messages_lose_no_child() {
    let cases = pairs(
        [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect],
        [OpCode::GetChildren2, OpCode::Exists, OpCode::MultiRead],
    );
    simulated_each_on(cases, two_in_memory, async |(verdict, opcode), (server, zk, other)| {
        let mut diff = zk.watch_children("/p").identity().diff();
        let lost = once(&server, opcode, verdict);
        assert!(timeout(Duration::from_secs(1), diff.next()).await.is_err());
        create(&other, &["/p", "/p/a"]).await;
        assert_eq!(event(&mut diff).await, joined("a"), "{opcode:?} {verdict:?}");
        delete(&other, &["/p/a"]).await;
        create(&other, &["/p/a"]).await;
        assert_eq!([event(&mut diff).await, event(&mut diff).await], [left("a"), joined("a")]);
        assert_eq!(lost.hits(), 1, "{opcode:?} {verdict:?}");
        expire(&server, &zk).await;
        delete(&other, &["/p/a"]).await;
        assert_eq!(event(&mut diff).await, left("a"));
    });
}

#[test]
fn what_cannot_pass_is_returned() {
    simulated_with(async |server, zk| {
        create(&zk, &["/p", "/p/a"]).await;
        assert_eq!(zk.watch_children("p").next().await.unwrap_err().kind(), ErrorKind::InvalidPath);
        let mut watch = zk.watch_children("/p");
        let refused = once(&server, OpCode::GetChildren2, Verdict::Refuse(ErrorCode::NoAuth));
        assert_eq!(watch.next().await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert_eq!(refused.hits(), 1);
        assert_eq!(next(&mut watch).await, names(["a"]));
        let (end, closed) = tokio::join!(watch.next(), zk.close());
        closed.unwrap();
        assert_eq!(end.unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_dropped_future_loses_no_event() {
    simulated_drops(
        3,
        async || {
            let (server, zk, other) = two_in_memory().await;
            create(&other, &["/p", "/p/a", "/p/b"]).await;
            let mut diff = zk.watch_children("/p").identity().diff();
            assert_eq!(
                [event(&mut diff).await, event(&mut diff).await],
                [joined("a"), joined("b")]
            );
            delete(&other, &["/p/b"]).await;
            create(&other, &["/p/b"]).await;
            (server, tokio::sync::Mutex::new(diff))
        },
        async |(_, diff)| event(&mut *diff.lock().await).await,
        async |(server, diff), told| {
            let mut diff = diff.into_inner();
            let mut events: Vec<_> = told.into_iter().collect();
            while events.len() < 2 {
                events.push(event(&mut diff).await);
            }
            assert_eq!(events, [left("b"), joined("b")]);
            drop(diff);
            until(&server, |probe| probe.watches().is_empty()).await;
        },
    );
}
