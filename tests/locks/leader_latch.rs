//! [`LeaderLatch`] without faults: layout, order, reported states, cost.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::leader::{Candidate, CloseMode, Error, LatchState, LeaderLatch};
use zk_curator_testing::wait::idle;
use zk_curator_testing::{Probe, TestServer, Verdict};
use zk_curator_tests::{
    assert_clean_after_close, assert_matches, closes_clean, connected, recorded, rule_if,
    server as in_memory_server, session_id, simulated_on, simulated_with, until,
};

const ELECTION: &str = "/services/orders";

fn latch(zk: &CuratorFramework, id: &str) -> LeaderLatch {
    LeaderLatch::new(zk, ELECTION).id(id.to_owned())
}

/// A candidate that leads.
async fn leader(zk: &CuratorFramework, id: &str) -> Candidate {
    let candidate = latch(zk, id).join();
    candidate.await_leadership().await.unwrap();
    candidate
}

/// A candidate that waits at the end of the queue.
async fn waiter(server: &TestServer, zk: &CuratorFramework, id: &str) -> Candidate {
    let before = server.probe().children(ELECTION).len();
    let candidate = latch(zk, id).join();
    until(server, |probe| probe.children(ELECTION).len() == before + 1).await;
    candidate
}

#[test]
fn the_layout_is_curators() {
    simulated_with(async |server, zk| {
        let candidate = leader(&zk, "me").await;
        let leadership = candidate.leadership().unwrap();
        let probe = server.probe();
        assert!(probe.is_container("/services") && probe.is_container(ELECTION), "{probe}");
        let [name] = probe.children(ELECTION)[..] else { panic!("{probe}") };
        let (protection, sequence) = name.split_at(40);
        assert!(protection.starts_with("_c_") && protection.ends_with('-'), "{name}");
        assert_eq!(sequence, "latch-0000000000");
        assert_eq!(leadership.path(), format!("{ELECTION}/{name}"));
        assert_eq!(probe.data(leadership.path()).unwrap(), "me");
        assert_eq!(probe.stat(leadership.path()).unwrap().czxid, leadership.fencing_token().get());
        candidate.close().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn candidates_lead_in_the_order_of_arrival_and_tokens_grow() {
    simulated_with(async |server, zk| {
        let mut token = None;
        let mut candidates = vec![leader(&zk, "0").await];
        for id in ["1", "2", "3"] {
            candidates.push(waiter(&server, &zk, id).await);
        }
        while !candidates.is_empty() {
            let leader = candidates.remove(0);
            let leadership = leader.await_leadership().await.unwrap();
            assert!(token < Some(leadership.fencing_token()));
            token = Some(leadership.fencing_token());
            assert!(leader.has_leadership() && !candidates.iter().any(Candidate::has_leadership));
            leader.close().await.unwrap();
            assert!(leadership.is_over());
        }
    });
}

#[test]
fn participants_and_leader_have_their_ids() {
    simulated_with(async |server, zk| {
        let election = latch(&zk, "");
        assert_eq!(
            (election.participants().await.unwrap(), election.leader().await.unwrap()),
            (vec![], None)
        );
        let first = leader(&zk, "a").await;
        let second = waiter(&server, &zk, "b").await;
        let participants = election.participants().await.unwrap();
        let ids: Vec<_> = participants.iter().map(|member| &member.label[..]).collect();
        assert_eq!(ids, [b"a", b"b"]);
        assert_eq!(election.leader().await.unwrap().as_ref(), Some(&participants[0]));
        assert_eq!(participants[0].fencing_token, first.leadership().unwrap().fencing_token());
        drop(first);
        second.await_leadership().await.unwrap();
        assert_eq!(election.leader().await.unwrap().unwrap().label, "b");
    });
}

#[test]
fn children_with_other_names_are_ignored() {
    simulated_with(async |_server, zk| {
        for name in ["config", "_c_00000000-0000-0000-0000-000000000000-lock-0000000000", "latch-x"]
        {
            zk.create(format!("{ELECTION}/{name}")).creating_parents_as_containers().await.unwrap();
        }
        let candidate = leader(&zk, "me").await;
        assert_eq!(latch(&zk, "").participants().await.unwrap().len(), 1);
        candidate.close().await.unwrap();
    });
}

#[test]
fn a_wait_that_times_out_stays_in_the_election() {
    simulated_with(async |server, zk| {
        let first = leader(&zk, "a").await;
        let second = waiter(&server, &zk, "b").await;
        assert!(timeout(Duration::from_secs(60), second.await_leadership()).await.is_err());
        assert!(!second.has_leadership());
        first.close().await.unwrap();
        second.await_leadership().await.unwrap();
    });
}

#[test]
fn a_candidate_that_is_dropped_leaves() {
    simulated_with(async |server, zk| {
        let first = leader(&zk, "a").await;
        let second = waiter(&server, &zk, "b").await;
        drop(second);
        until(&server, |probe| probe.children(ELECTION).len() == 1).await;
        drop(first);
        until(&server, |probe| probe.children(ELECTION).is_empty()).await;
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn states_and_the_end_are_reported_by_the_close_mode() {
    simulated_with(async |server, zk| {
        let first = leader(&zk, "a").await;
        for (mode, is_told) in [(CloseMode::Silent, false), (CloseMode::NotifyLeader, true)] {
            let candidate = latch(&zk, "b").close_mode(mode).join();
            let mut states = candidate.states();
            assert!(matches!(states.next().await, Some(LatchState::Waiting)));
            until(&server, |probe| probe.children(ELECTION).len() == 2).await;
            candidate.close().await.unwrap();
            assert_eq!(server.probe().children(ELECTION).len(), 1);
            assert_eq!(matches!(states.next().await, Some(LatchState::Closed)), is_told);
            assert!(states.next().await.is_none());
        }
        let mut states = first.states();
        let Some(LatchState::Leader(leadership)) = states.next().await else { panic!("{first:?}") };
        drop(first);
        assert!(states.next().await.is_none());
        assert!(leadership.is_over());
    });
}

/// A client that learns of the end of a term learns of it before the next one begins.
#[test]
fn leadership_is_over_before_the_node_goes_away() {
    simulated_with(async |server, zk| {
        let candidate = latch(&zk, "a").close_mode(CloseMode::NotifyLeader).join();
        let leadership = candidate.await_leadership().await.unwrap();
        let mut states = candidate.states();
        assert!(matches!(states.next().await, Some(LatchState::Leader(_))));
        let _held =
            rule_if(&server, |request| request.is_delete(), Verdict::Delay(Duration::from_secs(2)));
        let closing = tokio::spawn(async move { candidate.close().await });
        assert!(matches!(states.next().await, Some(LatchState::Closed)));
        leadership.lost().await;
        assert_eq!(server.probe().children(ELECTION).len(), 1);
        let fenced = leadership.fenced().create("/report", "").commit().await;
        assert_eq!(fenced.unwrap_err().kind(), ErrorKind::OwnershipLost);
        closing.await.unwrap().unwrap();
        assert!(server.probe().children(ELECTION).is_empty());
    });
}

#[test]
fn what_a_leader_writes_is_fenced() {
    simulated_with(async |_server, zk| {
        let candidate = leader(&zk, "a").await;
        let leadership = candidate.leadership().unwrap();
        leadership.fenced().create("/report", "").commit().await.unwrap();
        zk.delete(leadership.path()).await.unwrap();
        let late = leadership.fenced().set_data("/report", "late").commit().await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::OwnershipLost);
    });
}

/// The next in line watches its own node while it waits.
#[test]
fn a_leaders_death_costs_the_next_one_nothing() {
    simulated_on(in_memory_server, async |server| {
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(connected(&server).await);
        }
        let mut candidates = vec![leader(&clients[0], "0").await];
        for (id, zk) in clients.iter().enumerate().skip(1) {
            candidates.push(waiter(&server, zk, &id.to_string()).await);
            let session = session_id(zk).get();
            let watched = |probe: &Probe| {
                probe.watches().iter().filter(|watch| watch.session == session).count()
            };
            until(&server, |probe| watched(probe) == id.min(2) + 1).await;
        }
        let (_rule, requests) = recorded(&server);
        for next in 1..clients.len() {
            requests.lock().unwrap().clear();
            zk_curator_tests::expire(&server, &clients[next - 1]).await;
            candidates[next].await_leadership().await.unwrap();
            // All its other responses have arrived.
            idle(Duration::from_secs(1)).await;
            let of = |client: usize| {
                let session = session_id(&clients[client]).get();
                requests.lock().unwrap().get(&session).cloned().unwrap_or_default()
            };
            assert_eq!(of(next), []);
            for further in next + 2..clients.len() {
                assert_eq!(of(further), [], "only the next two are woken");
            }
        }
    });
}

#[test]
fn an_election_that_is_closed_or_not_valid_says_so() {
    simulated_with(async |server, zk| {
        let invalid = LeaderLatch::new(&zk, "no/path").join();
        let error = invalid.await_leadership().await.unwrap_err();
        assert_matches!(&error, Error::Framework(error) if error.kind() == ErrorKind::InvalidPath);
        assert!(matches!(invalid.state(), LatchState::Failed(_)));
        invalid.close().await.unwrap();
        let open = LeaderLatch::new(&zk, "no/path").join();
        let candidate = leader(&zk, "a").await;
        let second = waiter(&server, &zk, "b").await;
        let mut states = second.states();
        zk.close().await.unwrap();
        assert!(matches!(second.await_leadership().await, Err(Error::Closed { .. })));
        assert!(matches!(
            open.await_leadership().await,
            Err(Error::Closed { .. } | Error::Framework(_))
        ));
        open.close().await.unwrap();
        while let Some(state) = states.next().await {
            assert!(!matches!(state, LatchState::Leader(_)));
        }
        assert!(!candidate.has_leadership());
        candidate.close().await.unwrap();
        assert_clean_after_close(&server);
    });
}
