//! Asking holders to let go, and making them: [`RevocableReadWriteLock`], and the revocation of
//! every lock.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::{
    Error, InterProcessMutex, RevocableReadWriteLock, Revoked, attempt_revoke,
};
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{closes_clean, once, simulated_on, simulated_with, two_in_memory, until};

const LOCK: &str = "/locks/report";
const GRACE: Duration = Duration::from_secs(10);

#[test]
fn the_layout_is_that_of_the_recipe() {
    simulated_with(async |server, zk| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK).label("me");
        let reader = lock.read_lock().acquire().await.unwrap();
        assert!(reader.path().ends_with("-read-0000000000"), "{}", reader.path());
        reader.release().await.unwrap();
        let writer = lock.write_lock().acquire().await.unwrap();
        assert!(writer.path().ends_with("-write-0000000001"), "{}", writer.path());
        assert_eq!(server.probe().data(writer.path()).unwrap(), "me");
        drop(writer);
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_holder_that_hears_the_request_lets_go() {
    simulated_with(async |server, zk| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        let guard = lock.read_lock().acquire().await.unwrap();
        let path = guard.path().to_owned();
        let holder = tokio::spawn(async move {
            guard.revoked().await;
            guard.release().await
        });
        until(&server, |probe| probe.watches().iter().any(|watch| watch.path == path)).await;
        assert_eq!(lock.revoke(&path, GRACE).await.unwrap(), Revoked::Released);
        holder.await.unwrap().unwrap();
        assert_eq!(lock.revoke(&path, GRACE).await.unwrap(), Revoked::Released, "long gone");
    });
}

#[test]
fn a_request_that_was_made_before_anybody_listened_is_heard() {
    simulated_with(async |server, zk| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        let guard = lock.write_lock().acquire().await.unwrap();
        let path = guard.path().to_owned();
        let revoker = tokio::spawn(async move { lock.revoke(&path, GRACE).await });
        until(&server, |probe| probe.data(guard.path()).is_some_and(|data| data == "unlock")).await;
        guard.revoked().await;
        guard.release().await.unwrap();
        assert_eq!(revoker.await.unwrap().unwrap(), Revoked::Released);
    });
}

#[test]
fn a_deaf_holder_is_removed_after_the_grace_time_and_fenced() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        let deaf = lock.write_lock().acquire().await.unwrap();
        let next = RevocableReadWriteLock::new(&other, LOCK);
        let next = tokio::spawn(async move { next.write_lock().acquire().await.unwrap() });
        until(&server, |probe| probe.children(LOCK).len() == 2).await;

        let began = Instant::now();
        assert_eq!(lock.revoke(deaf.path(), GRACE).await.unwrap(), Revoked::Removed);
        assert_eq!(began.elapsed().as_secs(), GRACE.as_secs());
        deaf.lost().await;
        let next = next.await.unwrap();
        assert!(next.fencing_token() > deaf.fencing_token());
        let error = deaf.fenced().create("/late", "").commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OwnershipLost);
        assert!(matches!(deaf.acknowledge().await, Err(Error::Lost { .. })));
        assert!(matches!(deaf.release().await, Err(Error::Lost { .. })));
        next.fenced().create("/mine", "").commit().await.unwrap();
    });
}

#[test]
fn every_acknowledgement_renews_the_grace_time() {
    simulated_with(async |server, zk| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        let guard = lock.write_lock().acquire().await.unwrap();
        guard.acknowledge().await.unwrap();
        assert_eq!(server.probe().data(guard.path()).unwrap(), "", "no client has asked");
        let path = guard.path().to_owned();
        let began = Instant::now();
        let revoker = tokio::spawn(async move { lock.revoke(&path, GRACE).await });
        for round in 0..3_u32 {
            guard.revoked().await;
            idle(GRACE * 8 / 10).await;
            assert!(!revoker.is_finished());
            guard.acknowledge().await.unwrap();
            assert_eq!(server.probe().data(guard.path()).unwrap(), "unlocking");
            // Another one asks again: that is not for the first to be patient about.
            if round < 2 {
                zk.set_data(guard.path(), "unlock").await.unwrap();
            }
        }
        assert_eq!(revoker.await.unwrap().unwrap(), Revoked::Removed);
        assert_eq!(began.elapsed().as_secs(), 34, "three times eight seconds, and ten");
    });
}

/// The request is not repeated: the work takes even longer.
#[test]
fn a_holder_may_acknowledge_again_and_again() {
    simulated_with(async |_server, zk| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        let guard = lock.write_lock().acquire().await.unwrap();
        let path = guard.path().to_owned();
        let revoker = tokio::spawn(async move { lock.revoke(&path, GRACE).await });
        guard.revoked().await;
        for _ in 0..5 {
            spend(GRACE * 8 / 10).await;
            guard.acknowledge().await.unwrap();
        }
        spend(GRACE * 8 / 10).await;
        guard.release().await.unwrap();
        assert_eq!(revoker.await.unwrap().unwrap(), Revoked::Released);
    });
}

/// An acknowledgement to a revoker that gave up does not count for the next one.
#[test]
fn a_later_revoker_asks_again() {
    simulated_with(async |_server, zk| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        let guard = lock.write_lock().acquire().await.unwrap();
        let mut first = Box::pin(lock.revoke(guard.path(), GRACE));
        assert!(timeout(GRACE / 2, &mut first).await.is_err());
        guard.revoked().await;
        guard.acknowledge().await.unwrap();
        drop(first);
        idle(GRACE * 3).await;
        let (lock, path) = (lock.clone(), guard.path().to_owned());
        let second = tokio::spawn(async move { lock.revoke(&path, GRACE).await });
        timeout(GRACE / 2, guard.revoked()).await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(second.await.unwrap().unwrap(), Revoked::Released);
    });
}

/// A wrong path would lose its data, and then its node.
#[test]
fn what_is_no_node_of_the_lock_is_not_touched() {
    simulated_with(async |server, zk| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        for path in [LOCK, "/config", "/locks/report/notes", "/locks/report-read-0000000000"] {
            zk.create(path).creating_parents().data("precious").await.unwrap();
            let refused = lock.revoke(path, Duration::ZERO).await;
            assert!(matches!(refused, Err(Error::NotOfThisLock { .. })), "{refused:?}");
            assert_eq!(server.probe().data(path).unwrap(), "precious");
            zk.delete(path).deleting_children().await.unwrap();
        }
    });
}

/// A waiter whose node, of the path `waits`, is removed: it holds by another one.
fn removed_while_waiting(
    remove: impl AsyncFnOnce(
        &TestServer,
        &RevocableReadWriteLock,
        &CuratorFramework,
        &CuratorFramework,
        &str,
    ),
) {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        let holder = lock.write_lock().acquire().await.unwrap();
        let waiting = RevocableReadWriteLock::new(&other, LOCK).write_lock();
        let waiter = tokio::spawn(async move { waiting.acquire().await.unwrap() });
        until(&server, |probe| probe.watches().len() == 2).await;
        let waits = lock.write_lock().participants().await.unwrap().pop().unwrap().path;
        remove(&server, &lock, &zk, &other, &waits).await;
        holder.release().await.unwrap();
        let guard = waiter.await.unwrap();
        assert_ne!(guard.path(), waits);
        assert!(server.probe().exists(guard.path()));
    });
}

#[test]
fn a_removed_waiter_queues_again_and_never_holds_without_a_node() {
    removed_while_waiting(async |server, lock, _, _, waits| {
        assert_eq!(lock.revoke(waits, Duration::ZERO).await.unwrap(), Revoked::Removed);
        until(server, |probe| probe.children(LOCK).len() == 2).await;
    });
}

/// Both are gone when the waiter hears of it: its own node went first.
#[test]
fn a_waiter_removed_while_away_does_not_hold_at_its_turn() {
    removed_while_waiting(async |server, _, zk, other, waits| {
        server.disconnect(zk_curator_tests::session_id(other).get());
        zk.delete(waits).await.unwrap();
    });
}

#[test]
fn a_lost_response_neither_asks_twice_nor_fails_the_removal() {
    simulated_with(async |server, zk| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        for opcode in [OpCode::SetData, OpCode::Delete] {
            let deaf = lock.write_lock().acquire().await.unwrap();
            let lost = once(&server, opcode, Verdict::LoseReply);
            assert_eq!(lock.revoke(deaf.path(), GRACE).await.unwrap(), Revoked::Removed);
            assert_eq!(lost.hits(), 1);
            drop(deaf);
        }
    });
}

#[test]
fn a_revoker_that_gives_up_removes_nothing() {
    simulated_with(async |server, zk| {
        let lock = RevocableReadWriteLock::new(&zk, LOCK);
        let guard = lock.write_lock().acquire().await.unwrap();
        assert!(timeout(GRACE / 2, lock.revoke(guard.path(), GRACE)).await.is_err());
        idle(GRACE * 2).await;
        assert!(server.probe().exists(guard.path()));
        guard.release().await.unwrap();
    });
}

/// The message of Curator's `Revoker`.
#[test]
fn every_guard_understands_curators_request() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK);
        let guard = lock.acquire().await.unwrap();
        let holder = &lock.participants().await.unwrap()[0];
        assert!(attempt_revoke(&zk, holder.path.as_str()).await.unwrap());
        assert_eq!(server.probe().data(guard.path()).unwrap(), "__REVOKE__");
        guard.revoked().await;
        guard.release().await.unwrap();
        assert!(!attempt_revoke(&zk, holder.path.as_str()).await.unwrap());
    });
}

#[test]
fn data_that_are_no_request_are_no_request() {
    simulated_with(async |_server, zk| {
        let guard = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let mut revoked = Box::pin(guard.revoked());
        for data in ["unlocked", "unlock ", "__REVOKE__x", ""] {
            zk.set_data(guard.path(), data).await.unwrap();
            assert!(timeout(GRACE, &mut revoked).await.is_err(), "{data:?}");
        }
        zk.delete(guard.path()).await.unwrap();
        revoked.await;
    });
}
