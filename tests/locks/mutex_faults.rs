//! [`InterProcessMutex`] when something breaks: lost responses, cut connections, lost sessions,
//! deletions by others.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::harness::{
    ADAPTED, SESSION_TIMEOUT, builder, closes_clean, connected, cut_off, expire, rule_if, server,
    session_id, simulated_on, simulated_with, start, two_in_memory, until,
};
use tokio::task::JoinHandle;
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::{Error, InterProcessMutex, MutexGuard};
use zk_curator_testing::{TestServer, Verdict};

const LOCK: &str = "/locks/orders";

fn lock(zk: &CuratorFramework) -> InterProcessMutex {
    InterProcessMutex::new(zk, LOCK)
}

/// A task that acquires the lock, once it waits in the queue for the one before it.
async fn waiter(
    server: &TestServer,
    zk: &CuratorFramework,
) -> JoinHandle<Result<MutexGuard, Error>> {
    let before = server.probe().children(LOCK).len();
    let lock = lock(zk);
    let task = tokio::spawn(async move { lock.acquire().await });
    until(server, |probe| {
        let watched: BTreeSet<_> = probe.watches().iter().map(|watch| &watch.path).collect();
        probe.children(LOCK).len() == before + 1 && watched.len() == before + 1
    })
    .await;
    task
}

async fn state(zk: &CuratorFramework, wanted: ConnectionState) {
    zk.states().until(|status| status.state == wanted).await.unwrap();
}

#[test]
fn a_lost_create_response_leaves_one_node_that_holds_the_lock() {
    simulated_with(async |server, zk| {
        drop(lock(&zk).acquire().await.unwrap());
        until(&server, |probe| probe.children(LOCK).is_empty()).await;
        let rule = rule_if(&server, |request| request.is_create(), Verdict::LoseReply);
        let rule = rule.times(1);
        let guard = lock(&zk).acquire().await.unwrap();
        assert_eq!(rule.hits(), 1);
        let probe = server.probe();
        assert_eq!(probe.children(LOCK).len(), 1, "{probe}");
        assert_eq!(probe.stat(guard.path()).unwrap().czxid, guard.fencing_token().get());
        guard.release().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_lost_create_is_sent_again() {
    simulated_with(async |server, zk| {
        let rule = rule_if(&server, |request| request.is_create_under(LOCK), Verdict::LoseRequest);
        let rule = rule.times(2);
        let guard = lock(&zk).acquire().await.unwrap();
        assert_eq!(rule.hits(), 2);
        assert_eq!(server.probe().children(LOCK).len(), 1);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_lost_listing_is_asked_for_again() {
    simulated_with(async |server, zk| {
        let rule = rule_if(
            &server,
            |request| request.is(OpCode::GetChildren2) || request.is(OpCode::GetChildren),
            Verdict::LoseReply,
        );
        let rule = rule.times(1);
        let guard = lock(&zk).acquire().await.unwrap();
        assert_eq!(rule.hits(), 1);
        assert_eq!(server.probe().children(LOCK).len(), 1);
        drop(guard);
    });
}

#[test]
fn a_lost_response_to_the_release_is_no_error() {
    simulated_with(async |server, zk| {
        let guard = lock(&zk).acquire().await.unwrap();
        let rule = rule_if(&server, |request| request.is_delete(), Verdict::LoseReply);
        let rule = rule.times(1);
        guard.release().await.unwrap();
        assert_eq!(rule.hits(), 1);
        assert!(server.probe().children(LOCK).is_empty());
    });
}

/// CURATOR-678: a release during an outage is given up, and the node stays.
#[test]
fn curator_678_a_release_during_an_outage_is_done_after_it() {
    simulated_with(async |server, zk| {
        let guard = lock(&zk).acquire().await.unwrap();
        server.stop().await;
        state(&zk, ConnectionState::Suspended).await;
        drop(guard);
        server.restart().await.unwrap();
        until(&server, |probe| probe.children(LOCK).is_empty()).await;
        assert!(zk.state().is_connected() || zk.wait_connected().await.is_ok());
    });
}

#[test]
fn a_waiter_with_a_cut_connection_keeps_its_place() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let holder = lock(&zk).acquire().await.unwrap();
        let waiting = waiter(&server, &other).await;
        let nodes = server.probe().children(LOCK).len();

        // Cut while the holder exists: the watch is re-armed.
        server.disconnect(session_id(&other).get());
        state(&other, ConnectionState::Suspended).await;
        state(&other, ConnectionState::Reconnected { same_session: true }).await;
        until(&server, |probe| probe.watches().len() == 2).await;
        assert_eq!(server.probe().children(LOCK).len(), nodes);
        holder.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();

        // Released while the waiter is away: the watch fires nevertheless.
        let holder = lock(&zk).acquire().await.unwrap();
        let waiting = waiter(&server, &other).await;
        let refused = cut_off(&server, &other);
        state(&other, ConnectionState::Suspended).await;
        holder.release().await.unwrap();
        drop(refused);
        waiting.await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_waiter_survives_a_restart_of_the_server() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let holder = lock(&zk).acquire().await.unwrap();
        let waiting = waiter(&server, &other).await;
        server.restart().await.unwrap();
        state(&zk, ConnectionState::Reconnected { same_session: true }).await;
        assert!(!waiting.is_finished());
        let token = holder.fencing_token();
        holder.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(guard.fencing_token() > token);
        guard.release().await.unwrap();
    });
}

#[test]
fn an_expired_holder_knows_it_is_fenced_and_the_next_holds() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/guarded").await.unwrap();
        let old = lock(&zk).acquire().await.unwrap();
        let waiting = waiter(&server, &other).await;
        let fenced = async |guard: &MutexGuard, data: &'static str| {
            let result = guard.fenced().set_data("/guarded", data).commit().await;
            if ADAPTED {
                // Without transactions nothing is fenced, and nothing pretends to be.
                assert_eq!(result.unwrap_err().kind(), ErrorKind::Unsupported);
                zk.set_data("/guarded", data).await.unwrap();
            } else {
                result.unwrap();
            }
        };
        fenced(&old, "old").await;

        expire(&server, &zk).await;
        old.lost().await;
        let new = waiting.await.unwrap().unwrap();
        assert!(new.fencing_token() > old.fencing_token());
        fenced(&new, "new").await;

        zk.wait_connected().await.unwrap();
        let error = old.fenced().set_data("/guarded", "late").commit().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::OwnershipLost, old.path()));
        assert_eq!(server.probe().data("/guarded").unwrap(), "new");
        assert!(matches!(old.release().await, Err(Error::Lost { .. })));
        assert_eq!(server.probe().children(LOCK).len(), 1, "the lock of the new holder");
        new.release().await.unwrap();
    });
}

/// The holder does not know yet: no event has reached it. The server refuses its write.
#[test]
fn the_server_fences_a_holder_unaware_of_its_loss() {
    if ADAPTED {
        return; // It has no transactions, so no fences.
    }
    simulated_with(async |server, zk| {
        zk.create("/guarded").await.unwrap();
        let guard = lock(&zk).acquire().await.unwrap();
        let other = connected(&server).await;
        other.delete(guard.path()).await.unwrap();
        let error = guard
            .fenced()
            .create("/late", "")
            .set_data("/guarded", "late")
            .commit()
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OwnershipLost);
        assert!(!server.probe().exists("/late"));
        assert_eq!(server.probe().data("/guarded").unwrap(), "");
        assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    });
}

#[test]
fn lost_resolves_on_delete_and_not_on_a_cut_connection() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let guard = lock(&zk).acquire().await.unwrap();
        let lost = tokio::spawn({
            let ownership = guard.ownership().clone();
            async move { ownership.lost().await }
        });
        until(&server, |probe| probe.watches().len() == 1).await;
        server.disconnect(session_id(&zk).get());
        state(&zk, ConnectionState::Reconnected { same_session: true }).await;
        until(&server, |probe| probe.watches().len() == 1).await;
        other.set_data(guard.path(), "__REVOKE__").await.unwrap();
        until(&server, |probe| probe.watches().len() == 1).await;
        assert!(!lost.is_finished());
        other.delete(guard.path()).await.unwrap();
        lost.await.unwrap();
    });
}

#[test]
fn our_clock_resolves_lost_before_another_client_can_hold() {
    if ADAPTED {
        return; // Two clocks can only be compared in simulated time.
    }
    simulated_with(async |server, zk| {
        let guard = lock(&zk).acquire().await.unwrap();
        let began = tokio::time::Instant::now();
        server.partition();
        guard.lost().await;
        assert!(began.elapsed() <= SESSION_TIMEOUT, "{:?}", began.elapsed());
        let probe = server.probe();
        assert!(probe.exists(guard.path()), "the server has given the lock away before\n{probe}");
        until(&server, |probe| probe.sessions().is_empty()).await;
    });
}

/// The holder of a restored tree, for example.
#[test]
fn a_wait_behind_a_persistent_node_is_reported() {
    simulated_with(async |server, zk| {
        let restored = format!("{LOCK}/_c_00000000-0000-4000-8000-000000000000-lock-0000000000");
        zk.create(restored.as_str()).creating_parents_as_containers().await.unwrap();
        let mut errors = zk.background_errors();
        let waiting = waiter(&server, &zk).await;
        let told = errors.next().await.unwrap();
        assert_eq!((told.kind(), told.path()), (ErrorKind::NodeExists, restored.as_str()));
        assert!(told.to_string().contains("no session will ever remove it"), "{told}");
        // The next one that waits does not report it again.
        let next = waiter(&server, &zk).await;
        zk.delete(restored.as_str()).await.unwrap();
        drop(waiting.await.unwrap().unwrap());
        drop(next.await.unwrap().unwrap());
        closes_clean(&server, &zk).await;
        assert!(errors.next().await.is_none());
    });
}

#[test]
fn with_cancels_its_body_when_the_lock_is_lost() {
    simulated_with(async |server, zk| {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let task = tokio::spawn({
            let lock = lock(&zk);
            async move {
                lock.with(|held| async move {
                    sender.send(held.path().to_owned()).unwrap();
                    std::future::pending::<()>().await;
                })
                .await
            }
        });
        let path = receiver.await.unwrap();
        assert!(server.probe().exists(&path));
        expire(&server, &zk).await;
        assert!(matches!(task.await.unwrap(), Err(Error::Lost { .. })));
        zk.wait_connected().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn an_expired_waiter_queues_again_in_the_next_session() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let holder = lock(&zk).acquire().await.unwrap();
        let waiting = waiter(&server, &other).await;
        let before = session_id(&other);
        expire(&server, &other).await;
        until(&server, |probe| probe.watches().len() == 2 && probe.session(before.get()).is_none())
            .await;
        assert_eq!(server.probe().children(LOCK).len(), 2);
        assert!(!waiting.is_finished());
        holder.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        let owner = server.probe().stat(guard.path()).unwrap().ephemeral_owner;
        assert_eq!(owner, session_id(&other).get());
        assert_ne!(owner, before.get());
        guard.release().await.unwrap();
    });
}

/// CURATOR-604: the node of the previous session is still there, first in the queue, when the next
/// session looks: it must not be taken for a grant.
#[test]
fn curator_604_the_node_of_an_earlier_session_is_no_grant() {
    simulated_on(server, async |server| {
        // Longer than the session: the acquire outlives it.
        let zk = start(builder(&server).connection_timeout(2 * SESSION_TIMEOUT)).await;
        drop(lock(&zk).acquire().await.unwrap());
        until(&server, |probe| probe.children(LOCK).is_empty()).await;
        let old = session_id(&zk).get();
        let lost = rule_if(&server, |request| request.is_create_under(LOCK), Verdict::LoseReply);
        let lost = lost.times(1);
        let acquiring = tokio::spawn({
            let lock = lock(&zk);
            async move { lock.acquire().await }
        });
        lost.fired().await;
        // A stopped server expires nothing; our own clock gives the session up.
        server.stop().await;
        state(&zk, ConnectionState::Lost).await;
        server.restart().await.unwrap();
        let guard = acquiring.await.unwrap().unwrap();
        let probe = server.probe();
        let owner = probe.stat(guard.path()).unwrap().ephemeral_owner;
        assert_eq!(owner, session_id(&zk).get());
        assert_ne!(owner, old, "the grant is of the earlier session\n{probe}");
        assert_eq!(
            probe.children(LOCK).len(),
            1,
            "the node of the earlier session is in the way\n{probe}"
        );
    });
}

/// CURATOR-308: the parent is a container and is removed between the listing of it and the create
/// in it.
#[test]
fn curator_308_a_reaped_parent_is_created_again() {
    if ADAPTED {
        return; // It makes no containers, so nobody reaps its parents.
    }
    simulated_with(async |server, zk| {
        lock(&zk).acquire().await.unwrap().release().await.unwrap();
        let delayed = rule_if(
            &server,
            |request| request.is_create_under(LOCK),
            Verdict::Delay(Duration::from_millis(100)),
        );
        let delayed = delayed.times(1);
        let acquiring = tokio::spawn({
            let lock = lock(&zk);
            async move { lock.acquire().await }
        });
        delayed.fired().await;
        assert_eq!(server.reap_containers(), [LOCK]);
        assert_eq!(server.reap_containers(), ["/locks"]);
        let guard = acquiring.await.unwrap().unwrap();
        assert!(server.probe().is_container(LOCK));
        guard.release().await.unwrap();
    });
}

/// An operator deletes the whole lock while two clients wait: both queue again, and one at a time
/// holds.
#[test]
fn a_lock_deleted_under_its_waiters_is_created_again() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let holder = lock(&zk).acquire().await.unwrap();
        let first = waiter(&server, &zk).await;
        let second = waiter(&server, &other).await;
        // The last one first, so that no waiter gets the lock in between.
        let mut nodes: Vec<_> =
            lock(&zk).participants().await.unwrap().into_iter().map(|node| node.path).collect();
        nodes.remove(0);
        for node in nodes.iter().rev() {
            other.delete(node).await.unwrap();
        }
        // Both waiters see that their own nodes are gone, and queue again.
        until(&server, |probe| probe.children(LOCK).len() == 3).await;
        drop(holder);
        let (guard, next) = futures_util::future::select(first, second).await.factor_first();
        let guard = guard.unwrap().unwrap();
        assert!(server.probe().exists(guard.path()));
        guard.release().await.unwrap();
        let guard = next.await.unwrap().unwrap();
        assert!(server.probe().exists(guard.path()));
        drop(guard);
    });
}

/// An operator deletes the node of a waiter, whose turn comes after that, and somebody else has the
/// lock.
#[test]
fn a_waiter_whose_node_was_deleted_enters_again() {
    a_waiter_is_deleted(false);
}

/// The waiter learns of both when it is connected again.
#[test]
fn a_waiter_that_is_away_while_its_node_is_deleted_enters_again() {
    a_waiter_is_deleted(true);
}

fn a_waiter_is_deleted(is_away: bool) {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let holder = lock(&zk).acquire().await.unwrap();
        let waiting = waiter(&server, &other).await;
        let own = lock(&zk).participants().await.unwrap()[1].path.clone();
        if is_away {
            server.stop().await;
            state(&other, ConnectionState::Suspended).await;
        }
        server.remove(&own).unwrap();
        server.remove(holder.path()).unwrap();
        let third = lock(&zk);
        let third = tokio::spawn(async move { third.acquire().await });
        if is_away {
            server.restart().await.unwrap();
        }
        let (guard, next) = futures_util::future::select(waiting, third).await.factor_first();
        let (guard, mut next) = (guard.unwrap().unwrap(), next.into_inner());
        assert!(server.probe().exists(guard.path()), "{}", server.probe());
        let both = tokio::time::timeout(Duration::from_secs(1), &mut next).await;
        assert!(both.is_err(), "two hold the lock: {}", server.probe());
        guard.release().await.unwrap();
        next.await.unwrap().unwrap().release().await.unwrap();
        drop(holder);
    });
}

#[test]
fn an_acquire_without_a_server_fails_at_the_timeout() {
    simulated_with(async |server, zk| {
        server.stop().await;
        state(&zk, ConnectionState::Suspended).await;
        let began = tokio::time::Instant::now();
        let Err(Error::Framework(error)) = lock(&zk).acquire().await else { panic!("acquired") };
        assert_eq!((error.kind(), error.operation()), (ErrorKind::ConnectionLoss, "create"));
        assert!(error.path().starts_with(LOCK) && !error.may_have_applied());
        assert!(
            began.elapsed() <= crate::harness::CONNECTION_TIMEOUT + Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
    });
}
