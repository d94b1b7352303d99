//! [`Election`]: the leader and its value, and their cost for observers.

use bytes::Bytes;
use futures_util::{StreamExt, pin_mut};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::leader::{Elected, Election, Error, Observer, Proclaimed};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    closes_clean, connected, expire, recorded, server as in_memory_server, session_id, simulated,
    simulated_on, simulated_with, start, two_in_memory, until,
};

const ELECTION: &str = "/services/orders";

fn election(zk: &CuratorFramework) -> Election {
    Election::new(zk, ELECTION)
}

async fn value(observer: &mut Observer) -> Option<Bytes> {
    observer.next().await.unwrap().map(|proclaimed| proclaimed.value)
}

/// A campaign in a task of its own, once it is in the queue.
async fn campaign(
    server: &TestServer,
    zk: &CuratorFramework,
    value: &'static str,
) -> tokio::task::JoinHandle<Result<Elected, Error>> {
    let before = server.probe().children(ELECTION).len();
    let election = election(zk);
    let task = tokio::spawn(async move { election.campaign(value).await });
    until(server, |probe| probe.children(ELECTION).len() == before + 1).await;
    task
}

#[test]
fn the_next_leader_takes_over_with_its_own_published_value() {
    simulated_with(async |server, zk| {
        let election = election(&zk);
        assert_eq!(election.leader().await.unwrap(), None);
        let mut first = election.campaign("one").await.unwrap();
        let second = campaign(&server, &zk, "two").await;
        let leader = election.leader().await.unwrap().unwrap();
        assert_eq!((&leader.value[..], leader.fencing_token), (&b"one"[..], first.fencing_token()));
        assert_eq!(leader.leader, first.leadership().path());
        assert!(leader.leader.contains("-election-"), "{leader:?}");
        first.proclaim("uno").await.unwrap();
        assert_eq!(election.leader().await.unwrap().unwrap().value, "uno");
        let leadership = first.leadership().clone();
        first.resign().await.unwrap();
        assert!(leadership.is_over());
        let second = second.await.unwrap().unwrap();
        assert!(second.fencing_token() > leadership.fencing_token());
        assert_eq!(election.leader().await.unwrap().unwrap().value, "two");
        second.fenced().create("/report", "").commit().await.unwrap();
        zk.delete("/report").await.unwrap();
        drop(second);
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn an_observer_sees_leaders_values_and_their_absence() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut observer = election(&other).observe();
        assert_eq!(value(&mut observer).await, None);
        let mut first = election(&zk).campaign("one").await.unwrap();
        assert_eq!(value(&mut observer).await.unwrap(), "one");
        let second = campaign(&server, &zk, "two").await;
        first.proclaim("uno").await.unwrap();
        assert_eq!(value(&mut observer).await.unwrap(), "uno");
        // The same value, but proclaimed again.
        first.proclaim("uno").await.unwrap();
        assert_eq!(value(&mut observer).await.unwrap(), "uno");
        first.resign().await.unwrap();
        assert_eq!(value(&mut observer).await.unwrap(), "two");
        second.await.unwrap().unwrap().resign().await.unwrap();
        assert_eq!(value(&mut observer).await, None);
        // The container goes too.
        until(&server, |probe| !probe.exists(ELECTION) || server.reap_containers().is_empty())
            .await;
        let _third = election(&zk).campaign("three").await.unwrap();
        assert_eq!(value(&mut observer).await.unwrap(), "three");
    });
}

#[test]
fn an_observer_is_a_stream_that_ends_with_its_first_error() {
    simulated_with(async |_server, zk| {
        let stream = election(&zk).observe().into_stream();
        pin_mut!(stream);
        assert_eq!(stream.next().await.unwrap().unwrap(), None);
        let mut leader = election(&zk).campaign("one").await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().unwrap().value, "one");
        leader.proclaim("two").await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().unwrap().value, "two");
        zk.close().await.unwrap();
        assert!(matches!(stream.next().await, Some(Err(Error::Closed { .. }))));
        assert!(stream.next().await.is_none());
    });
}

#[test]
fn an_observer_goes_on_in_the_next_session_and_never_goes_back() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut observer = election(&other).observe();
        let mut leader = election(&zk).campaign("one").await.unwrap();
        assert_eq!(value(&mut observer).await.unwrap(), "one");
        expire(&server, &other).await;
        leader.proclaim("two").await.unwrap();
        assert_eq!(value(&mut observer).await.unwrap(), "two");
        server.stop().await;
        server.restart().await.unwrap();
        zk.wait_connected().await.unwrap();
        election(&zk).leader().await.unwrap().unwrap();
    });
}

/// A candidate that comes or goes wakes no observer; a proclaimed value costs each of them one
/// request, and another leader two.
#[test]
fn observers_are_no_herd() {
    simulated(async {
        const OBSERVERS: usize = 10;
        let server = in_memory_server().await;
        let zk = connected(&server).await;
        let mut leader = election(&zk).campaign("one").await.unwrap();
        let mut observers = Vec::new();
        for _ in 0..OBSERVERS {
            let client = connected(&server).await;
            let mut observer = election(&client).observe();
            assert_eq!(value(&mut observer).await.unwrap(), "one");
            observers.push((client, observer));
        }
        let (_recording, requests) = recorded(&server);
        let asked = || std::mem::take(&mut *requests.lock().unwrap());

        let second = campaign(&server, &zk, "two").await;
        let third = campaign(&server, &zk, "three").await;
        third.abort();
        until(&server, |probe| probe.children(ELECTION).len() == 2).await;
        let of_candidates = asked();
        assert_eq!(of_candidates.keys().collect::<Vec<_>>(), [&session_id(&zk).get()]);

        leader.proclaim("uno").await.unwrap();
        for (_, observer) in &mut observers {
            assert_eq!(value(observer).await.unwrap(), "uno");
        }
        let after_a_value = asked();
        leader.resign().await.unwrap();
        for (_, observer) in &mut observers {
            assert_eq!(value(observer).await.unwrap(), "two");
        }
        let after_a_leader = asked();
        for (client, _) in &observers {
            let session = session_id(client).get();
            assert_eq!(after_a_value[&session].len(), 1, "{after_a_value:?}");
            assert_eq!(after_a_leader[&session].len(), 2, "{after_a_leader:?}");
        }
        second.await.unwrap().unwrap().resign().await.unwrap();
    });
}

#[test]
fn a_former_leader_cannot_proclaim() {
    simulated_with(async |server, zk| {
        let mut leader = election(&zk).campaign("one").await.unwrap();
        zk.delete(leader.leadership().path()).await.unwrap();
        assert!(matches!(leader.proclaim("late").await, Err(Error::Lost { .. })));
        leader.lost().await;
        leader.resign().await.unwrap();

        let mut leader = election(&zk).campaign("one").await.unwrap();
        expire(&server, &zk).await;
        leader.lost().await;
        assert!(matches!(leader.proclaim("late").await, Err(Error::Lost { .. })));
    });
}

#[test]
fn a_lost_response_to_a_proclamation_is_resolved() {
    simulated_on(in_memory_server, async |server| {
        let policy = zk_curator::ConnectionStateErrorPolicy::Session;
        let zk =
            start(zk_curator_tests::builder(&server).connection_state_error_policy(policy)).await;
        let mut leader = election(&zk).campaign("one").await.unwrap();
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let lost = zk_curator_tests::once(&server, OpCode::SetData, verdict);
            leader.proclaim(format!("{verdict:?}")).await.unwrap();
            assert_eq!(lost.hits(), 1);
            let Proclaimed { value, .. } = election(&zk).leader().await.unwrap().unwrap();
            assert_eq!(value, format!("{verdict:?}"));
        }
    });
}

#[test]
fn a_path_that_is_not_valid_is_refused() {
    simulated_with(async |_server, zk| {
        let election = Election::new(&zk, "no/path");
        let is_invalid = |error: &Error| matches!(error, Error::Framework(error) if error.kind() == ErrorKind::InvalidPath);
        assert!(is_invalid(&election.campaign("").await.unwrap_err()));
        assert!(is_invalid(&election.observe().next().await.unwrap_err()));
        assert!(is_invalid(&election.leader().await.unwrap_err()));
    });
}
