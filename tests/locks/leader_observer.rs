//! [`LeaderObserver`]: who leads among the candidates of a latch or a selector, seen without taking
//! part.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, pin_mut};
use tokio::time::timeout;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind, FencingToken};
use zk_curator_proto::OpCode;
use zk_curator_recipes::leader::{Candidate, Error, LeaderLatch, LeaderObserver, LeaderSelector};
use zk_curator_testing::{SequenceOverflow, TestCluster, TestServer};
use zk_curator_tests::cancel::poll_then_drop;
use zk_curator_tests::{
    all_close_clean, builder_for, connected, expire, in_memory, recorded, session_id, simulated,
    simulated_each, simulated_on, simulated_steps_on, simulated_with, start, two_in_memory, until,
};

const ELECTION: &str = "/spark/leader_election";

fn latch(zk: &CuratorFramework) -> LeaderLatch {
    LeaderLatch::new(zk, ELECTION)
}

async fn leading(zk: &CuratorFramework, id: &'static str) -> Candidate {
    let candidate = latch(zk).id(id).join();
    candidate.await_leadership().await.unwrap();
    candidate
}

async fn waiting(server: &TestServer, zk: &CuratorFramework, id: &'static str) -> Candidate {
    let before = server.probe().children(ELECTION).len();
    let candidate = latch(zk).id(id).join();
    until(server, |probe| probe.children(ELECTION).len() == before + 1).await;
    candidate
}

/// Returns the id of the next reported leader.
async fn next(observer: &mut LeaderObserver) -> Option<String> {
    let next = timeout(Duration::from_secs(3600), observer.next()).await;
    let leader = next.unwrap_or_else(|_| panic!("nothing happens: {observer:?}")).unwrap();
    leader.map(|leader| leader.label_str().into_owned())
}

/// A node as Curator 2.13 creates it: its `LeaderLatch` below Spark's standalone master, for
/// example.
async fn curators(
    zk: &CuratorFramework,
    tag: &str,
    uuid: &str,
    id: &'static str,
) -> (String, FencingToken) {
    let node = zk
        .create(format!("{ELECTION}/_c_{uuid}-{tag}"))
        .mode(CreateMode::EphemeralSequential)
        .creating_parents()
        .data(id);
    let created = node.await.unwrap();
    (created.path, FencingToken::new(created.stat.czxid))
}

#[test]
fn candidates_of_curator_2_13_are_recognised() {
    simulated(async {
        type Observe = fn(&CuratorFramework) -> LeaderObserver;
        let kinds: [(&str, Observe); 2] = [
            ("latch-", |zk| latch(zk).observe()),
            ("lock-", |zk| LeaderSelector::new(zk, ELECTION).observe()),
        ];
        for (tag, observe) in kinds {
            let (server, zk) = in_memory().await;
            let masters = connected(&server).await;
            // By their names, the second would be first.
            let (first, token) =
                curators(&masters, tag, "f3a1c9f0-1111-4222-8333-444455556666", "a:7077").await;
            assert_eq!(
                first,
                format!("{ELECTION}/_c_f3a1c9f0-1111-4222-8333-444455556666-{tag}0000000000")
            );
            let (second, _) =
                curators(&masters, tag, "0a1b2c3d-1111-4222-8333-444455556666", "b:7077").await;
            for foreign in [
                "master_status",
                "latch-x",
                "_c_00000000-0000-0000-0000-000000000000-other-0000000000",
            ] {
                masters.create(format!("{ELECTION}/{foreign}")).await.unwrap();
            }
            let mut observer = observe(&zk);
            assert_eq!(observer.path(), ELECTION);
            let leader = observer.next().await.unwrap().unwrap();
            assert_eq!((leader.path, &leader.label[..]), (first.clone(), &b"a:7077"[..]));
            assert_eq!(leader.fencing_token, token);
            masters.delete(first).await.unwrap();
            assert_eq!(next(&mut observer).await.unwrap(), "b:7077");
            masters.delete(second).await.unwrap();
            assert_eq!(next(&mut observer).await, None);
        }
    });
}

#[test]
fn an_observer_creates_nothing() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut observer = latch(&other).observe();
        assert_eq!(server.probe().session(session_id(&other).get()).unwrap().ephemerals.len(), 0);
        assert_eq!(next(&mut observer).await, None);
        assert!(!server.probe().exists("/spark"), "{}", server.probe());
        let candidate = leading(&zk, "a").await;
        assert_eq!(next(&mut observer).await.unwrap(), "a");
        assert_eq!(latch(&zk).participants().await.unwrap().len(), 1);
        candidate.close().await.unwrap();
        assert_eq!(next(&mut observer).await, None);
        drop(observer);
        all_close_clean(&server, [&zk, &other]).await;
    });
}

#[test]
fn every_leader_of_a_latch_and_a_selector_is_observed() {
    simulated_with(async |server, zk| {
        let mut observer = latch(&connected(&server).await).observe();
        let first = leading(&zk, "a").await;
        assert_eq!(next(&mut observer).await.unwrap(), "a");
        let second = waiting(&server, &zk, "b").await;
        assert!(
            timeout(Duration::from_secs(60), observer.next()).await.is_err(),
            "a leads as before"
        );
        first.close().await.unwrap();
        assert_eq!(next(&mut observer).await.unwrap(), "b");
        drop(second);
        assert_eq!(next(&mut observer).await, None);

        let selector = LeaderSelector::new(&zk, "/selector").id("c");
        let mut observer = LeaderSelector::new(&connected(&server).await, "/selector").observe();
        assert_eq!(next(&mut observer).await, None);
        let run = selector.run_once(|_| pending::<()>());
        tokio::select! {
            _ = run => panic!("the body never ends"),
            leader = next(&mut observer) => assert_eq!(leader.unwrap(), "c"),
        }
        assert_eq!(next(&mut observer).await, None);
    });
}

/// Candidates that join or leave wake no observer; a new leader costs each observer two requests.
#[test]
fn observers_of_a_latch_are_no_herd() {
    simulated(async {
        const OBSERVERS: usize = 5;
        let (server, zk) = in_memory().await;
        let first = leading(&zk, "a").await;
        let (_recording, requests) = recorded(&server);
        let asked = |by: &CuratorFramework| {
            requests.lock().unwrap().remove(&session_id(by).get()).unwrap_or_default()
        };
        let mut observers = Vec::new();
        for _ in 0..OBSERVERS {
            let client = connected(&server).await;
            let mut observer = latch(&client).observe();
            assert!(asked(&client).is_empty());
            assert_eq!(next(&mut observer).await.unwrap(), "a");
            assert_eq!(asked(&client), [OpCode::Multi, OpCode::GetChildren2, OpCode::GetData]);
            observers.push((client, observer));
        }
        let second = waiting(&server, &zk, "b").await;
        let third = waiting(&server, &zk, "c").await;
        third.close().await.unwrap();
        first.close().await.unwrap();
        for (client, observer) in &mut observers {
            assert_eq!(next(observer).await.unwrap(), "b");
            assert_eq!(asked(client), [OpCode::GetChildren2, OpCode::GetData]);
        }
        second.close().await.unwrap();
    });
}

#[test]
fn an_observer_goes_on_in_the_next_session() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut observer = latch(&other).observe();
        let first = leading(&zk, "a").await;
        assert_eq!(next(&mut observer).await.unwrap(), "a");
        // The same leader is not reported again.
        expire(&server, &other).await;
        assert!(timeout(Duration::from_secs(60), observer.next()).await.is_err());
        let second = waiting(&server, &zk, "b").await;
        expire(&server, &other).await;
        first.close().await.unwrap();
        assert_eq!(next(&mut observer).await.unwrap(), "b");
        // Through an outage, too.
        server.stop().await;
        server.restart().await.unwrap();
        second.close().await.unwrap();
        assert_eq!(next(&mut observer).await, None);
    });
}

/// The observer is connected to a server that has not heard yet that the first leader has left.
#[test]
fn a_leader_that_has_left_before_is_never_observed() {
    simulated(async {
        const LATE: Duration = Duration::from_secs(1);
        for next_leads in [true, false] {
            let cluster = TestCluster::builder(3).tcp(false).start().await.unwrap();
            cluster.make_leader(2);
            let connected_to = async |member: usize| {
                let connector = Arc::new(cluster.connector());
                let zk =
                    builder_for(&format!("zk{}:2181", member + 1)).connector(connector).seed(7);
                start(zk).await
            };
            let (behind, zk) = (connected_to(0).await, connected_to(2).await);
            let first = leading(&zk, "a").await;
            let second = if next_leads { Some(latch(&zk).id("b").join()) } else { None };
            let members = 1 + usize::from(next_leads);
            cluster.until(|probe| probe.member(0).children(ELECTION).len() == members).await;
            let lag = cluster.lag_by(0, LATE);
            first.close().await.unwrap();
            assert_eq!(
                latch(&behind).leader().await.unwrap().unwrap().label,
                "a",
                "it does not lag"
            );
            let mut observer = latch(&behind).observe();
            assert_eq!(next(&mut observer).await.as_deref(), second.as_ref().map(|_| "b"));
            drop((lag, second));
        }
    });
}

/// As the candidates themselves do, where the server has run out of numbers.
#[test]
fn the_order_is_that_of_the_creates_when_numbers_repeat() {
    let cases = [SequenceOverflow::WrapsAround, SequenceOverflow::Sticks];
    simulated_each(cases, async |overflow, server, zk| {
        zk.create(ELECTION).creating_parents().await.unwrap();
        server.set_sequence_overflow(overflow);
        server.set_sequence(ELECTION, i32::MAX - 1).unwrap();
        let first = leading(&zk, "a").await;
        let mut observer = latch(&zk).observe();
        let second = waiting(&server, &zk, "b").await;
        let third = waiting(&server, &zk, "c").await;
        assert_eq!(next(&mut observer).await.unwrap(), "a");
        first.close().await.unwrap();
        second.await_leadership().await.unwrap();
        assert_eq!(next(&mut observer).await.unwrap(), "b");
        second.close().await.unwrap();
        third.await_leadership().await.unwrap();
        assert_eq!(next(&mut observer).await.unwrap(), "c");
    });
}

/// Two nodes with one number, as an import can make them: the older one is first.
#[test]
fn the_older_of_two_with_one_number_is_first() {
    simulated_with(async |_server, zk| {
        let [older, younger] = ["f", "0"].map(|of| format!("{ELECTION}/{of}-latch-0000000007"));
        zk.create(&older).creating_parents().data("older").await.unwrap();
        zk.create(&younger).data("younger").await.unwrap();
        assert_eq!(next(&mut latch(&zk).observe()).await.unwrap(), "older");
        let participants = latch(&zk).participants().await.unwrap();
        let labels: Vec<_> =
            participants.iter().map(|participant| participant.label_str()).collect();
        assert_eq!(labels, ["older", "younger"]);
    });
}

#[test]
fn the_stream_ends_with_its_first_error() {
    simulated_with(async |_server, zk| {
        let stream = latch(&zk).observe().into_stream();
        pin_mut!(stream);
        assert_eq!(stream.next().await.unwrap().unwrap(), None);
        let _candidate = leading(&zk, "a").await;
        assert_eq!(stream.next().await.unwrap().unwrap().unwrap().label, "a");
        zk.close().await.unwrap();
        assert!(matches!(stream.next().await, Some(Err(Error::Closed { .. }))));
        assert!(stream.next().await.is_none());
    });
}

#[test]
fn an_invalid_path_is_refused_by_next() {
    simulated_with(async |_server, zk| {
        let error = LeaderLatch::new(&zk, "no/path").observe().next().await.unwrap_err();
        assert!(matches!(error, Error::Framework(error) if error.kind() == ErrorKind::InvalidPath));
    });
}

#[test]
fn a_cancelled_observer_misses_nothing_and_leaves_nothing() {
    simulated_steps_on(3, two_in_memory, async |step, (server, zk, other)| {
        let mut observer = latch(&other).observe();
        let first = poll_then_drop(observer.next(), step).await;
        let candidate = leading(&zk, "a").await;
        let mut seen = poll_then_drop(observer.next(), step).await.transpose().unwrap().flatten();
        while seen.is_none() {
            seen = observer.next().await.unwrap();
        }
        assert_eq!(seen.unwrap().label, "a");
        candidate.close().await.unwrap();
        assert_eq!(next(&mut observer).await, None);
        drop(observer);
        all_close_clean(&server, [zk, other]).await;
        first.is_some()
    });
}
