//! Leaders when something breaks: cut connections, lost sessions, lost responses, deletions by
//! others; and the bugs that Curator's and kazoo's elections have had, by their names.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{
    Acl, ConnectionState, ConnectionStateErrorPolicy, CuratorFramework, ErrorKind, Permissions,
};
use zk_curator_proto::OpCode::{Create2, Delete, Exists, GetChildren2, GetData};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::leader::{
    Candidate, Election, Error, LatchState, LatchStates, LeaderLatch, LeaderSelector,
};
use zk_curator_testing::wait::idle;
use zk_curator_testing::{Direction, Probe, TestServer, Verdict};
use zk_curator_tests::{
    SESSION_TIMEOUT, always, assert_matches, builder, closes_clean, cluster_of_three, connected,
    expire, once, pairs, rule_if, server as in_memory_server, session_id, simulated_each,
    simulated_each_on, simulated_on, simulated_with, start, two_in_memory, until, until_state,
};

const ELECTION: &str = "/services/orders";
const SESSION: ConnectionStateErrorPolicy = ConnectionStateErrorPolicy::Session;
const STANDARD: ConnectionStateErrorPolicy = ConnectionStateErrorPolicy::Standard;

async fn with_policy(server: &TestServer, policy: ConnectionStateErrorPolicy) -> CuratorFramework {
    start(builder(server).connection_state_error_policy(policy)).await
}

fn join(zk: &CuratorFramework) -> Candidate {
    LeaderLatch::new(zk, ELECTION).join()
}

async fn leader(zk: &CuratorFramework) -> Candidate {
    let candidate = join(zk);
    candidate.await_leadership().await.unwrap();
    candidate
}

/// A candidate at the end of the queue.
async fn waiter(server: &TestServer, zk: &CuratorFramework) -> Candidate {
    let before = server.probe().children(ELECTION).len();
    let candidate = join(zk);
    until(server, |probe| probe.children(ELECTION).len() == before + 1).await;
    candidate
}

/// Runs a test in simulated time with two clients, the first of which leads while the other waits.
fn simulated_two_candidates(
    test: impl AsyncFnOnce(TestServer, [CuratorFramework; 2], [Candidate; 2]),
) {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let first = leader(&zk).await;
        let second = waiter(&server, &other).await;
        test(server, [zk, other], [first, second]).await;
    });
}

/// The node of a client in the election.
fn node(probe: &Probe, zk: &CuratorFramework) -> Option<String> {
    probe.ephemerals(session_id(zk).get()).iter().find(|path| path.starts_with(ELECTION)).cloned()
}

/// Waits until its own node is watched.
async fn watches_itself(server: &TestServer, candidate: &Candidate) {
    let own = candidate.leadership().unwrap().path().to_owned();
    until(server, |probe| probe.watches().iter().any(|watch| watch.path == own)).await;
}

fn is_leader(state: &LatchState) -> bool {
    matches!(state, LatchState::Leader(_))
}

/// Follows it until it does not lead.
async fn until_lost(states: &mut LatchStates) {
    while is_leader(&states.next().await.unwrap()) {}
}

#[test]
fn the_standard_policy_suspends_leadership_and_keeps_the_node() {
    simulated_on(in_memory_server, async |server| {
        let zk = with_policy(&server, STANDARD).await;
        let candidate = leader(&zk).await;
        let first = candidate.leadership().unwrap();
        watches_itself(&server, &candidate).await;
        let mut states = candidate.states();
        assert!(is_leader(&states.next().await.unwrap()));

        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        assert!(!candidate.has_leadership() && first.is_over());
        first.lost().await;
        until_lost(&mut states).await;
        // The guarantees of the first term end immediately and permanently.
        server.heal();
        let second = candidate.await_leadership().await.unwrap();
        assert!(candidate.has_leadership() && first.is_over());
        assert_eq!((first.path(), first.fencing_token()), (second.path(), second.fencing_token()));
        let void = first.fenced().create("/report", "").commit().await;
        assert_eq!(void.unwrap_err().kind(), ErrorKind::OwnershipLost);
        second.fenced().create("/report", "").commit().await.unwrap();
        assert_eq!(server.probe().children(ELECTION).len(), 1);
    });
}

#[test]
fn the_session_policy_keeps_leadership_until_the_session_ends() {
    simulated_on(in_memory_server, async |server| {
        let zk = with_policy(&server, SESSION).await;
        let candidate = leader(&zk).await;
        let leadership = candidate.leadership().unwrap();
        watches_itself(&server, &candidate).await;
        let mut states = candidate.states();
        assert!(is_leader(&states.next().await.unwrap()));

        server.disconnect(session_id(&zk).get());
        until_state(&zk, ConnectionState::Suspended).await;
        assert!(candidate.has_leadership());
        until_state(&zk, ConnectionState::Reconnected { same_session: true }).await;
        assert!(candidate.has_leadership() && !leadership.is_over());

        server.partition();
        until_state(&zk, ConnectionState::Lost).await;
        assert!(!candidate.has_leadership());
        leadership.lost().await;
        until_lost(&mut states).await;
        server.heal();
        let next = candidate.await_leadership().await.unwrap();
        assert!(next.fencing_token() > leadership.fencing_token());
    });
}

/// A selector and the leader of an election see it as the latch does.
#[test]
fn the_policy_is_asked_by_all_leaders() {
    simulated_each_on([STANDARD, SESSION], in_memory_server, async |policy, server| {
        let zk = with_policy(&server, policy).await;
        let elected = Election::new(&zk, "/election").campaign("").await.unwrap();
        let selector = LeaderSelector::new(&zk, "/selector");
        let running = tokio::spawn({
            let selector = selector.clone();
            async move { selector.run_once(|_| pending::<()>()).await }
        });
        until(&server, |_| selector.has_leadership()).await;
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        assert_eq!(elected.leadership().is_over(), policy == STANDARD);
        assert_eq!(selector.has_leadership(), policy == SESSION);
        let (ended, lost) = tokio::join!(running, elected.lost());
        assert!(matches!(ended.unwrap(), Err(Error::Lost { .. })), "{lost:?}");
        let state = zk.state();
        assert_eq!(state == ConnectionState::Suspended, policy == STANDARD, "{state:?}");
        server.heal();
        until(&server, |probe| probe.children("/selector").is_empty()).await;
    });
}

/// The connection is lost and restored between two polls.
#[test]
fn an_unseen_suspension_ends_the_term() {
    simulated_with(async |server, zk| {
        let elected = Election::new(&zk, ELECTION).campaign("").await.unwrap();
        server.disconnect(session_id(&zk).get());
        until_state(&zk, ConnectionState::Reconnected { same_session: true }).await;
        assert!(elected.leadership().is_over());
        timeout(Duration::from_millis(1), elected.lost()).await.unwrap();
        elected.resign().await.unwrap();
        assert!(server.probe().children(ELECTION).is_empty());
    });
}

#[test]
fn a_leader_whose_node_is_deleted_stops_and_queues_again() {
    simulated_two_candidates(async |server, [_zk, other], [first, second]| {
        let leadership = first.leadership().unwrap();
        watches_itself(&server, &first).await;
        other.delete(leadership.path()).await.unwrap();
        leadership.lost().await;
        let next = second.await_leadership().await.unwrap();
        assert!(!first.has_leadership() && next.fencing_token() > leadership.fencing_token());
        until(&server, |probe| probe.children(ELECTION).len() == 2).await;
        drop(second);
        first.await_leadership().await.unwrap();
    });
}

#[test]
fn a_waiter_whose_node_is_deleted_by_hand_never_leads_with_it() {
    simulated_on(in_memory_server, async |server| {
        let clients =
            [connected(&server).await, connected(&server).await, connected(&server).await];
        let first = leader(&clients[0]).await;
        let second = waiter(&server, &clients[1]).await;
        let third = waiter(&server, &clients[2]).await;
        let hand = connected(&server).await;
        hand.delete(node(&server.probe(), &clients[1]).unwrap()).await.unwrap();
        // The third now waits for the first, too.
        let watched = node(&server.probe(), &clients[0]).unwrap();
        let watchers =
            |probe: &Probe| probe.watches().iter().filter(|watch| watch.path == watched).count();
        until(&server, |probe| watchers(probe) == 3).await;
        let mut states = second.states();
        drop(first);
        third.await_leadership().await.unwrap();
        until(&server, |probe| node(probe, &clients[1]).is_some()).await;
        assert!(!is_leader(&states.next().await.unwrap()));
        drop(third);
        second.await_leadership().await.unwrap();
    });
}

#[test]
fn a_waiter_keeps_its_place_when_an_outage_outlasts_its_retries() {
    simulated_two_candidates(async |server, [_zk, other], [first, second]| {
        let place = node(&server.probe(), &other).unwrap();
        for _ in 0..3 {
            server.disconnect_all();
            until_state(&other, ConnectionState::Suspended).await;
            until_state(&other, ConnectionState::Reconnected { same_session: true }).await;
        }
        drop(first);
        assert_eq!(second.await_leadership().await.unwrap().path(), place);
    });
}

#[test]
fn a_candidate_outlives_every_session() {
    simulated_with(async |server, zk| {
        let candidate = leader(&zk).await;
        let mut token = candidate.leadership().unwrap().fencing_token();
        for _ in 0..5 {
            let before = zk.status().session_epoch;
            expire(&server, &zk).await;
            zk.states()
                .until(|status| status.session_epoch > before && status.state.is_connected())
                .await;
            let next = candidate.await_leadership().await.unwrap();
            assert!(next.fencing_token() > token);
            token = next.fencing_token();
        }
        assert_eq!(server.probe().children(ELECTION).len(), 1);
        candidate.close().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn lost_responses_leave_one_node_which_leads() {
    let cases = pairs([Create2, GetChildren2, Exists], [Verdict::LoseReply, Verdict::LoseRequest]);
    simulated_each(cases, async |(opcode, verdict), server, zk| {
        zk.create_containers(ELECTION).await.unwrap();
        let lost = once(&server, opcode, verdict);
        let candidate = leader(&zk).await;
        assert_eq!(lost.hits(), 1, "{opcode:?}");
        let probe = server.probe();
        assert_eq!(probe.children(ELECTION).len(), 1, "{opcode:?} {verdict:?}\n{probe}");
        candidate.close().await.unwrap();
        assert!(server.probe().children(ELECTION).is_empty());
    });
}

/// Two leaders after an outage longer than the session: the node of the old session was still
/// there.
#[test]
fn curator_696_no_leader_has_the_node_of_an_earlier_session() {
    simulated_on(cluster_of_three, async |cluster| {
        let zk = start(
            zk_curator_tests::builder_for(&cluster.connect_string())
                .connector(Arc::new(cluster.connector())),
        )
        .await;
        let candidate = leader(&zk).await;
        let old = candidate.leadership().unwrap();
        // Our clock ends the session; the servers, away themselves, give it its whole timeout
        // again.
        cluster.hold();
        until_state(&zk, ConnectionState::Lost).await;
        assert!(old.is_over() && !candidate.has_leadership());
        cluster.release();
        let new = candidate.await_leadership().await.unwrap();
        assert!(new.fencing_token() > old.fencing_token());
        let owner =
            |path: &str| cluster.member(0).probe().stat(path).map(|stat| stat.ephemeral_owner);
        cluster.until(|_| owner(new.path()).is_some()).await;
        assert_eq!(owner(new.path()), Some(session_id(&zk).get()));
        assert_eq!(owner(old.path()), None);
    });
}

/// Two leaders after an election of the servers: all candidates deleted and created their nodes on
/// RECONNECTED.
#[test]
fn curator_653_reconnected_candidates_keep_their_nodes() {
    simulated_on(in_memory_server, async |server| {
        let clients =
            [connected(&server).await, connected(&server).await, connected(&server).await];
        let mut candidates = vec![leader(&clients[0]).await];
        for zk in &clients[1..] {
            candidates.push(waiter(&server, zk).await);
        }
        let before: Vec<_> =
            server.probe().children(ELECTION).into_iter().map(str::to_owned).collect();
        for _ in 0..3 {
            server.stop().await;
            for zk in &clients {
                until_state(zk, ConnectionState::Suspended).await;
            }
            server.restart().await.unwrap();
            candidates[0].await_leadership().await.unwrap();
            assert_eq!(server.probe().children(ELECTION), before);
            assert!(!candidates[1].has_leadership() && !candidates[2].has_leadership());
        }
    });
}

/// "Can't find our node" again and again, because a reset ran into the callback of another thread.
#[test]
fn curator_644_a_reset_as_the_predecessor_leaves_makes_one_node() {
    simulated_two_candidates(async |server, [zk, other], [first, second]| {
        // Both together: its own session and the one before it.
        let (mine, theirs) = (session_id(&other).get(), session_id(&zk).get());
        tokio::join!(server.expire(mine), server.expire(theirs));
        until(&server, |probe| probe.children(ELECTION).len() == 2 && probe.sessions().len() == 2)
            .await;
        let leaders = async || {
            tokio::select! { _ = first.await_leadership() => 1, _ = second.await_leadership() => 2 }
        };
        let winner = leaders().await;
        assert_eq!(usize::from(first.has_leadership()) + usize::from(second.has_leadership()), 1);
        drop(if winner == 1 { first } else { second });
        until(&server, |probe| probe.children(ELECTION).len() == 1).await;
    });
}

/// Two latches created and deleted nodes forever, each by a path that it no longer owned.
#[test]
fn curator_645_two_candidates_that_lose_their_nodes_settle() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let (_first, _second) = (leader(&zk).await, waiter(&server, &other).await);
        let hand = connected(&server).await;
        for path in [node(&server.probe(), &other).unwrap(), node(&server.probe(), &zk).unwrap()] {
            hand.delete(path).await.unwrap();
        }
        until(&server, |probe| node(probe, &zk).is_some()).await;
        until(&server, |probe| node(probe, &other).is_some()).await;
        // Each on its own node, and one on the other's.
        until(&server, |probe| probe.watches().len() == 3).await;
        let creates = server.probe().requests(Create2);
        // Nothing else is asked for, however long we wait.
        idle(SESSION_TIMEOUT * 20).await;
        let probe = server.probe();
        assert_eq!(
            (probe.requests(Create2), probe.children(ELECTION).len()),
            (creates, 2),
            "{probe}"
        );
    });
}

/// Events after a reconnect are not in the order of the changes: the event of the leader's node may
/// come before that of our own.
#[test]
fn a_reconnected_waiter_checks_its_own_node_before_it_leads() {
    simulated_two_candidates(async |server, [_zk, other], [first, second]| {
        until(&server, |probe| probe.watches().len() == 3).await;
        let own = node(&server.probe(), &other).unwrap();
        server.disconnect(session_id(&other).get());
        until_state(&other, ConnectionState::Suspended).await;
        until_state(&other, ConnectionState::Reconnected { same_session: true }).await;
        let before = server.probe().requests(Exists);
        first.close().await.unwrap();
        assert_eq!(second.await_leadership().await.unwrap().path(), own);
        assert_eq!(server.probe().requests(Exists), before + 1);
    });
}

/// A late delete of the leader's node, made for an earlier RECONNECTED, let another one lead too.
#[test]
fn curator_620_two_quick_reconnects_keep_the_leaders_node() {
    simulated_two_candidates(async |server, [zk, _other], [first, second]| {
        let own = node(&server.probe(), &zk).unwrap();
        let deletes = server.probe().requests(Delete);
        for _ in 0..2 {
            server.disconnect(session_id(&zk).get());
            until_state(&zk, ConnectionState::Suspended).await;
            until_state(&zk, ConnectionState::Reconnected { same_session: true }).await;
        }
        assert_eq!(first.await_leadership().await.unwrap().path(), own);
        idle(SESSION_TIMEOUT * 2).await;
        assert!(first.has_leadership() && !second.has_leadership());
        assert_eq!(server.probe().requests(Delete), deletes);
    });
}

/// The latch was dead after its parent had vanished.
#[test]
fn curator_724_the_election_survives_the_loss_of_its_parent() {
    simulated_two_candidates(async |server, [zk, _other], [first, second]| {
        let hand = connected(&server).await;
        watches_itself(&server, &first).await;
        let mut parent_and_all = hand.transaction();
        for name in server.probe().children(ELECTION) {
            parent_and_all = parent_and_all.delete(format!("{ELECTION}/{name}"));
        }
        parent_and_all.delete(ELECTION).commit().await.unwrap();
        until(&server, |probe| probe.children(ELECTION).len() == 2).await;
        tokio::select! { _ = first.await_leadership() => {}, _ = second.await_leadership() => {} }
        drop((first, second));
        until(&server, |probe| probe.children(ELECTION).is_empty()).await;
        server.reap_containers();
        assert!(!server.probe().exists(ELECTION));
        leader(&zk).await.close().await.unwrap();
    });
}

/// The response to a create of the session before was taken for the node of this one.
#[test]
fn curator_498_a_late_create_is_not_the_leaders_node() {
    simulated_with(async |server, zk| {
        zk.create_containers(ELECTION).await.unwrap();
        let lost = once(&server, Create2, Verdict::LoseReply);
        let candidate = join(&zk);
        lost.fired().await;
        // Its node and its session still exist for a while, but the client is disconnected for
        // longer.
        assert_eq!(server.probe().children(ELECTION).len(), 1);
        server.partition();
        until_state(&zk, ConnectionState::Lost).await;
        server.heal();
        let leadership = candidate.await_leadership().await.unwrap();
        until(&server, |probe| probe.children(ELECTION).len() == 1).await;
        let owner = server.probe().stat(leadership.path()).unwrap().ephemeral_owner;
        assert_eq!(owner, session_id(&zk).get());
        assert!(candidate.has_leadership());
    });
}

/// The path of the latch was read twice, and was another one the second time.
#[test]
fn curator_537_the_token_is_that_of_the_term() {
    simulated_with(async |server, zk| {
        let candidate = leader(&zk).await;
        let first = candidate.leadership().unwrap();
        expire(&server, &zk).await;
        first.lost().await;
        let second = candidate.await_leadership().await.unwrap();
        let czxid = |path: &str| server.probe().stat(path).map(|stat| stat.czxid);
        assert_eq!(czxid(second.path()), Some(second.fencing_token().get()));
        // The first term is unchanged.
        assert_ne!(first.path(), second.path());
        assert!(first.fencing_token() < second.fencing_token() && first.is_over());
    });
}

/// Two calls of `interruptLeadership` ended the requeueing permanently.
#[test]
fn curator_518_671_interruptions_do_not_end_the_requeueing() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let selector = LeaderSelector::new(&zk, ELECTION);
        let turns = Arc::new(AtomicUsize::new(0));
        let running = tokio::spawn({
            let (selector, turns) = (selector.clone(), Arc::clone(&turns));
            async move {
                let body = |_| {
                    turns.fetch_add(1, Ordering::SeqCst);
                    pending()
                };
                selector.run(body).await
            }
        });
        for turn in 1..=5 {
            until(&server, |_| selector.has_leadership() && turns.load(Ordering::SeqCst) == turn)
                .await;
            assert!(selector.interrupt_leadership());
            selector.interrupt_leadership();
            selector.interrupt_leadership();
        }
        until(&server, |_| selector.has_leadership()).await;
        // While another one leads, there is nothing to interrupt, and the place is kept.
        let held = LeaderSelector::new(&other, ELECTION);
        let holding = tokio::spawn({
            let held = held.clone();
            async move { held.run_once(|_| pending::<()>()).await }
        });
        until(&server, |probe| probe.children(ELECTION).len() == 2).await;
        selector.interrupt_leadership();
        until(&server, |probe| held.has_leadership() && node(probe, &zk).is_some()).await;
        let place = node(&server.probe(), &zk);
        assert!(!selector.interrupt_leadership());
        held.interrupt_leadership();
        assert!(matches!(holding.await.unwrap(), Err(Error::Interrupted { .. })));
        until(&server, |_| selector.has_leadership()).await;
        assert_eq!(node(&server.probe(), &zk), place);
        let closing = selector.close();
        selector.interrupt_leadership();
        closing.await;
        running.await.unwrap().unwrap();
    });
}

/// A leader could not be cancelled before its method was entered, was not elected again after that,
/// and its failure was hidden.
#[test]
fn curator_54_73_62_15_a_cancelled_run_says_how_it_ended() {
    simulated_with(async |server, zk| {
        let selector = LeaderSelector::new(&zk, ELECTION);
        // Interrupted in the same instant in which it is elected.
        let interrupted = selector.run_once(|_| {
            selector.interrupt_leadership();
            pending::<()>()
        });
        assert!(matches!(interrupted.await, Err(Error::Interrupted { .. })));
        let failed: Result<(), &str> =
            selector.run_once(|_| async { Err("the work failed") }).await.unwrap();
        assert_eq!(failed, Err("the work failed"));
        let turns = std::cell::Cell::new(0);
        let repeatedly = selector.run(|_| {
            turns.set(turns.get() + 1);
            async {}
        });
        tokio::select! {
            biased;
            ended = repeatedly => panic!("{ended:?}"),
            _ = until(&server, |_| turns.get() > 3) => {}
        }
        until(&server, |probe| probe.children(ELECTION).is_empty()).await;
    });
}

/// `getLeader` failed with NoNode when the leader left, or there had never been a candidate.
#[test]
fn curator_358_436_the_leader_is_found_while_leaders_change() {
    simulated_with(async |server, zk| {
        let latch = LeaderLatch::new(&zk, ELECTION);
        assert_eq!(latch.leader().await.unwrap(), None);
        let other = connected(&server).await;
        let first = leader(&zk).await;
        let second = LeaderLatch::new(&other, ELECTION).id("second").join();
        until(&server, |probe| probe.children(ELECTION).len() == 2).await;
        let asking = connected(&server).await;
        // The list is read, and its response under way, when the leader goes.
        let listed = always(&server, GetData, Verdict::Delay(Duration::from_secs(1)));
        let election = LeaderLatch::new(&asking, ELECTION);
        let (told, ()) = tokio::join!(election.leader(), async {
            listed.fired().await;
            drop(first);
        });
        assert_eq!(told.unwrap().unwrap().label, "second");
        drop(second);
    });
}

/// The node of a latch that was closed while its create was under way stayed forever.
#[test]
fn curator_18_a_candidate_closed_while_joining_leaves_no_node() {
    simulated_with(async |server, zk| {
        zk.create_containers(ELECTION).await.unwrap();
        let late = rule_if(
            &server,
            |request| request.is_create_under(ELECTION),
            Verdict::Delay(Duration::from_secs(1)),
        );
        let candidate = join(&zk);
        late.fired().await;
        candidate.close().await.unwrap();
        until(&server, |probe| probe.requests(Create2) == 1 && probe.requests(Delete) == 1).await;
        assert!(server.probe().children(ELECTION).is_empty());
        closes_clean(&server, &zk).await;
    });
}

/// A latch that was started before the first connection never took part.
#[test]
fn curator_110_a_candidate_may_join_before_the_server_starts() {
    simulated_on(in_memory_server, async |server| {
        server.stop().await;
        let zk = builder(&server).build().unwrap();
        let candidate = join(&zk);
        let selector = LeaderSelector::new(&zk, "/selector");
        let running = tokio::spawn(async move { selector.run_once(|_| async {}).await });
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        assert!(!candidate.has_leadership());
        server.restart().await.unwrap();
        candidate.await_leadership().await.unwrap();
        running.await.unwrap().unwrap();
    });
}

/// After an outage, a new latch reported that it led, and immediately that it did not.
#[test]
fn curator_87_a_candidate_that_joins_after_an_outage_leads_once() {
    simulated_with(async |server, zk| {
        leader(&zk).await.close().await.unwrap();
        server.disconnect(session_id(&zk).get());
        until_state(&zk, ConnectionState::Suspended).await;
        let candidate = join(&zk);
        let mut states = candidate.states();
        assert!(matches!(states.next().await.unwrap(), LatchState::Waiting));
        let Some(LatchState::Leader(leadership)) = states.next().await else {
            panic!("{candidate:?}")
        };
        assert!(timeout(SESSION_TIMEOUT * 3, states.next()).await.is_err());
        assert!(candidate.has_leadership() && !leadership.is_over());
    });
}

/// Two leaders around an outage of about a session: the old one did not hear of it in time.
#[test]
fn curator_444_220_no_leader_outlives_its_session() {
    let directions = [Direction::Both, Direction::ToServer, Direction::ToClient];
    let cases = pairs([STANDARD, SESSION], directions);
    simulated_each_on(cases, in_memory_server, async |(policy, direction), server| {
        let host = server.connector();
        let builder = builder(&server).connector(Arc::new(host.clone()));
        let zk = start(builder.connection_state_error_policy(policy)).await;
        let other = connected(&server).await;
        let first = leader(&zk).await;
        let second = waiter(&server, &other).await;
        let old = session_id(&zk).get();
        host.cut(0, direction);
        second.await_leadership().await.unwrap();
        assert!(!first.has_leadership(), "{policy:?} {direction:?}");
        assert!(server.probe().session(old).is_none());
        host.mend(0);
        drop(second);
        first.await_leadership().await.unwrap();
    });
}

/// NoAuth while joining was lost in the background.
#[test]
fn curator_365_a_missing_permission_is_reported_until_granted() {
    simulated_with(async |server, zk| {
        let read_only = vec![Acl::new(Permissions::READ, "world", "anyone")];
        let all = vec![Acl::new(Permissions::ALL, "world", "anyone")];
        zk.create("/services").await.unwrap();
        zk.set_acl(
            "/services",
            [read_only, vec![Acl::new(Permissions::ADMIN, "world", "anyone")]].concat(),
        )
        .await
        .unwrap();
        let mut errors = zk.background_errors();
        let candidate = join(&zk);
        let refused = candidate.await_leadership().await;
        assert_matches!(refused, Err(Error::Framework(error)) if error.kind() == ErrorKind::NoAuth);
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::NoAuth);
        let mut states = candidate.states();
        assert!(matches!(states.next().await, Some(LatchState::Failed(_))));
        let refused = LeaderSelector::new(&zk, ELECTION).run_once(|_| async {}).await;
        assert_matches!(refused, Err(Error::Framework(error)) if error.kind() == ErrorKind::NoAuth);

        zk.set_acl("/services", all).await.unwrap();
        while !is_leader(&states.next().await.unwrap()) {}
        assert!(candidate.has_leadership());
        drop(server);
    });
}

/// Run within the callback of a watch, kazoo's election never came to its turn: there was one
/// thread for both.
#[test]
fn kazoo_208_an_election_within_a_watch_and_within_a_body() {
    simulated_with(async |_server, zk| {
        let watched = zk.exists("/start").watched().await.unwrap();
        zk.create("/start").await.unwrap();
        watched.watch.await.unwrap();
        let (outer, inner) =
            (LeaderSelector::new(&zk, ELECTION), LeaderSelector::new(&zk, "/inner"));
        let nested = outer.run_once(|_| {
            inner.run_once(|_| async { Election::new(&zk, "/third").campaign("x").await })
        });
        nested.await.unwrap().unwrap().unwrap().resign().await.unwrap();
    });
}

/// The error would come from the cleanup, not from the requested operation.
#[test]
fn a_candidate_that_leaves_without_a_server_has_left() {
    simulated_with(async |server, zk| {
        let (latch, selector) =
            (LeaderLatch::new(&zk, "/latch"), LeaderSelector::new(&zk, "/selector"));
        let leading = latch.join();
        leading.await_leadership().await.unwrap();
        let waiting = latch.join();
        until(&server, |probe| probe.children("/latch").len() == 2).await;
        let elected = Election::new(&zk, "/election").campaign("a").await.unwrap();
        let stop = Shutdown::new();
        let run = tokio::spawn({
            let (selector, shutdown) = (selector.clone(), stop.clone());
            async move { selector.run(|_| pending()).until(shutdown).await }
        });
        until(&server, |probe| probe.children("/selector").len() == 1).await;
        let other = connected(&server).await;
        server.partition();
        waiting.close().await.unwrap();
        leading.close().await.unwrap();
        elected.resign().await.unwrap();
        stop.begin();
        run.await.unwrap().unwrap();
        server.heal();
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        assert!(zk.wait_until_released().await);
        for path in ["/latch", "/selector", "/election"] {
            assert_eq!(
                other.children(path).linearizable().await.unwrap_or_default(),
                Vec::<String>::new()
            );
        }
    });
}
