//! Migrations while responses, sessions and locks are lost: each is applied once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join;
use tokio::time::timeout;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::{InterProcessMutex, InterProcessSemaphoreMutex};
use zk_curator_recipes::migration::{Error, Operations};
use zk_curator_testing::{RuleGuard, RuleRequest, TestServer, Verdict};
use zk_curator_tests::{
    assert_matches, cut_at_next_multi, expire, once, pairs, rule_if, session_id, simulated_each,
    simulated_each_on, simulated_on, simulated_with, two_in_memory, until,
};

use crate::migration::{counted, effects, manager, names, set};

const LOST: [Verdict; 2] = [Verdict::LoseReply, Verdict::LoseRequest];

/// Applies a verdict to transactions of migrations, once.
fn on_migration(server: &TestServer, zk: &CuratorFramework, verdict: Verdict) -> RuleGuard {
    let session = session_id(zk).get();
    let is_it = move |request: &RuleRequest<'_>| {
        let mut paths = request.paths();
        request.session_id() == session
            && request.is(OpCode::Multi)
            && paths.any(|path| path.starts_with("/app"))
    };
    rule_if(server, is_it, verdict).times(1)
}

fn assert_applied(server: &TestServer, count: usize) {
    let probe = server.probe();
    assert_eq!(effects(&probe), names(count), "{probe}");
    assert_eq!(probe.children("/migrations/meta/orders").len(), count, "{probe}");
}

#[test]
fn a_lost_response_applies_nothing_twice() {
    simulated_each(pairs(LOST, [false, true]), async |(verdict, one_each), server, zk| {
        let lost = on_migration(&server, &zk, verdict);
        let manager = if one_each { manager(&zk).per_migration() } else { manager(&zk) };
        let outcome = manager.migrate(&set(3)).await.unwrap();
        assert_eq!((outcome.applied, outcome.already), (names(3), 0));
        assert_eq!(lost.hits(), 1);
        assert_applied(&server, 3);
        assert_eq!(manager.migrate(&set(3)).await.unwrap().already, 3);
    });
}

/// Under the next lock the metadata show the outcome of the transaction.
#[test]
fn a_lost_response_and_a_lost_session_apply_nothing_twice() {
    simulated_each(pairs(LOST, [false, true]), async |(verdict, one_each), server, zk| {
        let manager = if one_each { manager(&zk).per_migration() } else { manager(&zk) };
        let cut = on_migration(&server, &zk, verdict);
        let run = tokio::spawn(async move { manager.migrate(&set(3)).await });
        cut.fired().await;
        expire(&server, &zk).await;
        let outcome = run.await.unwrap().unwrap();
        // The record shows that it was this call.
        assert_eq!((outcome.applied, outcome.already), (names(3), 0));
        assert_applied(&server, 3);
    });
}

/// E2: the transaction is bound to the lock.
#[test]
fn a_migrator_whose_session_ended_is_refused() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let slow = on_migration(&server, &zk, Verdict::Delay(Duration::from_secs(4)));
        let ours = manager(&zk);
        let run = tokio::spawn(async move { ours.migrate(&set(3)).await.unwrap() });
        slow.fired().await;
        expire(&server, &zk).await;
        let theirs = manager(&other).migrate(&set(3)).await.unwrap();
        let ours = run.await.unwrap();
        assert_eq!((ours.applied.len(), theirs.applied.len()), (0, 3));
        assert_applied(&server, 3);
    });
}

/// An operator deletes the node of the lock, and the session lives.
#[test]
fn a_migrator_whose_lock_was_deleted_is_refused() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let slow = on_migration(&server, &zk, Verdict::Delay(Duration::from_secs(2)));
        let ours = manager(&zk);
        let run = tokio::spawn(async move { ours.migrate(&set(3)).await.unwrap() });
        slow.fired().await;
        let leases = "/migrations/locks/orders/leases";
        let lease = server.probe().children(leases)[0].to_owned();
        server.remove(&format!("{leases}/{lease}")).unwrap();
        let theirs = manager(&other).migrate(&set(2)).await.unwrap();
        let ours = run.await.unwrap();
        assert_eq!((ours.applied, theirs.applied), (vec!["m2".to_owned()], names(2)));
        assert_applied(&server, 3);
    });
}

/// Even without the lock, the records exclude a second application.
#[test]
fn different_fences_do_not_apply_a_migration_twice() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let one = InterProcessMutex::new(&zk, "/locks/one").acquire().await.unwrap();
        let two = InterProcessMutex::new(&other, "/locks/two").acquire().await.unwrap();
        let ours = manager(&zk).fenced_by(one.ownership());
        let theirs = manager(&other).fenced_by(two.ownership());
        let three = set(3);
        let (ours, theirs) = join(ours.migrate(&three), theirs.migrate(&three)).await;
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert_eq!(ours.applied.len() + theirs.applied.len(), 3, "{ours:?} {theirs:?}");
        assert_applied(&server, 3);
    });
}

#[test]
fn a_lost_fence_leaves_no_doubt() {
    simulated_each_on(LOST, two_in_memory, async |verdict, (server, zk, other)| {
        let guard = InterProcessMutex::new(&zk, "/locks/deploy").acquire().await.unwrap();
        let ours = manager(&zk).fenced_by(guard.ownership());
        let cut = on_migration(&server, &zk, verdict);
        let run = tokio::spawn(async move { ours.migrate(&set(3)).await });
        cut.fired().await;
        expire(&server, &zk).await;
        match (verdict, run.await.unwrap()) {
            (Verdict::LoseReply, Ok(outcome)) => assert_eq!(outcome.applied, names(3)),
            (Verdict::LoseRequest, Err(Error::Framework(error))) => {
                assert_eq!(error.kind(), ErrorKind::OwnershipLost);
                assert!(!error.may_have_applied());
                assert!(!server.probe().exists("/app"));
            }
            (_, other) => panic!("{other:?}"),
        }
        drop(guard);
        manager(&other).migrate(&set(3)).await.unwrap();
        assert_applied(&server, 3);
    });
}

#[test]
fn a_deadline_does_not_hide_what_may_be_applied() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        manager(&other).migrate(&set(1)).await.unwrap();
        let limited = zk.with_deadline(Duration::from_secs(2));
        let session = session_id(&zk).get();
        // Nothing but the transaction and what comes before it reaches the server.
        let hit = std::sync::atomic::AtomicBool::new(false);
        let cut = server.rule(move |request| {
            let is_it =
                request.is(OpCode::Multi) && request.paths().any(|path| path.starts_with("/app"));
            if request.session_id() != session {
                Verdict::Pass
            } else if hit.load(Ordering::Relaxed) {
                Verdict::Disconnect
            } else if is_it {
                hit.store(true, Ordering::Relaxed);
                Verdict::LoseReply
            } else {
                Verdict::Pass
            }
        });
        let error = manager(&limited).migrate(&set(3)).await.unwrap_err();
        assert!(error.may_have_applied(), "{error:?}");
        drop(cut);
        assert_eq!(manager(&other).migrate(&set(3)).await.unwrap().already, 3);
        assert_applied(&server, 3);
    });
}

/// The first response is lost with the session, and the lock cannot be acquired again.
#[test]
fn what_fails_afterwards_does_not_say_that_nothing_was_applied() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let cut = on_migration(&server, &zk, Verdict::LoseRequest);
        let ours = manager(&zk).lock_timeout(Duration::from_secs(3));
        let run = tokio::spawn(async move { ours.migrate(&set(3)).await });
        cut.fired().await;
        // The next holder of the lock takes longer than the time to wait.
        let path = "/migrations/locks/orders";
        let lock = InterProcessSemaphoreMutex::new(&other, path);
        let (held, _) = join(lock.acquire(), expire(&server, &zk)).await;
        let held = held.unwrap();
        let error = run.await.unwrap().unwrap_err();
        assert!(error.may_have_applied(), "{error:?}");
        held.release().await.unwrap();
        manager(&zk).migrate(&set(3)).await.unwrap();
        assert_applied(&server, 3);
    });
}

#[test]
fn removed_parents_are_created_again() {
    simulated_with(async |server, zk| {
        let manager = manager(&zk);
        manager.migrate(&set(1)).await.unwrap();
        server.remove("/migrations/meta/orders-info").unwrap();
        manager.migrate(&set(2)).await.unwrap();
        assert_applied(&server, 2);
        // All of them, right before the transaction.
        let slow = on_migration(&server, &zk, Verdict::Delay(Duration::from_secs(1)));
        let run = tokio::spawn(async move { manager.migrate(&set(3)).await });
        slow.fired().await;
        server.remove("/migrations/meta").unwrap();
        let error = run.await.unwrap().unwrap_err();
        // The effects of the migrations are there, and their metadata are not.
        assert!(matches!(error, Error::Refused { index: 0, .. }), "{error:?}");
    });
}

#[test]
fn an_unreachable_server_is_waited_for_as_the_policy_says() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let waiting = manager(&other);
        let run = tokio::spawn(async move { waiting.wait_applied(&set(3)).await });
        until(&server, |probe| !probe.watches().is_empty()).await;
        server.partition();
        let error = manager(&zk).migrate(&set(3)).await.unwrap_err();
        assert!(error.is_retryable() && !error.may_have_applied(), "{error:?}");
        server.heal();
        // The lock may still be held by the earlier session.
        while manager(&zk).migrate(&set(3)).await.is_err() {}
        // The wait has outlasted the outage.
        timeout(Duration::from_secs(600), run).await.unwrap().unwrap().unwrap();
        assert_applied(&server, 3);
    });
}

#[test]
fn refused_reads_end_nothing_that_waits() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        manager(&zk).migrate(&set(1)).await.unwrap();
        let refused = once(&server, OpCode::MultiRead, Verdict::Disconnect);
        manager(&other).wait_applied(&set(1)).await.unwrap();
        assert_eq!(refused.hits(), 1);
        let cut = cut_at_next_multi(&server, &zk, Verdict::LoseRequest);
        let error = manager(&zk).migrate(&set(2)).await.unwrap_err();
        drop(cut);
        assert_matches!(&error, Error::Framework(_));
        let more = counted(2).build().unwrap();
        while manager(&zk).migrate(&more).await.is_err() {}
        assert_applied(&server, 2);
    });
}

/// Why the second of three migrations is not applied.
#[derive(Debug, Clone, Copy)]
enum Late {
    Ahead,
    Locked,
}

#[test]
fn an_error_after_a_transaction_says_what_was_applied() {
    simulated_each_on(
        [Late::Ahead, Late::Locked],
        two_in_memory,
        async |late, (server, zk, other)| {
            let (session, seen) = (session_id(&zk).get(), AtomicUsize::new(0));
            let is_second = move |request: &RuleRequest<'_>| {
                request.session_id() == session
                    && request.is(OpCode::Multi)
                    && request.paths().any(|path| path.starts_with("/app"))
                    && seen.fetch_add(1, Ordering::Relaxed) > 0
            };
            let slow = rule_if(&server, is_second, Verdict::Delay(Duration::from_secs(2)));
            let ours = manager(&zk).per_migration().lock_timeout(Duration::from_secs(5));
            let run = tokio::spawn(async move { ours.migrate(&set(3)).await.unwrap_err() });
            let leases = "/migrations/locks/orders/leases";
            slow.fired().await;
            let lease = server.probe().children(leases)[0].to_owned();
            server.remove(&format!("{leases}/{lease}")).unwrap();
            let lock = InterProcessSemaphoreMutex::new(&other, "/migrations/locks/orders");
            let _held = match late {
                Late::Ahead => manager(&other).migrate(&set(5)).await.map(|_| None).unwrap(),
                Late::Locked => Some(lock.acquire().await.unwrap()),
            };
            let error = run.await.unwrap();
            match (late, error.reason()) {
                (Late::Ahead, Error::Ahead { found: 5, known: 3, .. })
                | (Late::Locked, Error::LockTimeout { .. }) => {}
                (_, reason) => panic!("{late:?}: {reason:?}"),
            }
            assert_eq!(error.applied(), names(1), "{late:?}");
            assert!(error.may_have_applied());
            assert_matches!(&error, Error::Incomplete { .. });
        },
    );
}

#[test]
fn a_failed_computation_says_what_was_applied_before_it() {
    simulated_with(async |server, zk| {
        let fails = counted(2).computed("bad", "1", |_| async { Err::<Operations, _>("no") });
        let error = manager(&zk).migrate(&fails.build().unwrap()).await.unwrap_err();
        assert_matches!(error.reason(), Error::Computation { migration, .. } if migration == "bad");
        assert_eq!(error.applied(), names(2));
        assert!(!error.is_retryable());
        assert_applied(&server, 2);
    });
}
