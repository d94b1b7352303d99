//! Leases by the leader's clock: lost messages, ended sessions, and futures that are dropped.

use std::time::Duration;

use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::lease::{Error, MultiLease, TimedLease, TimedLeaseGuard};
use zk_curator_testing::wait::{self, past};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    assert_clean_but_for, connected, cut_at_next_multi, expire, in_memory, is_write_multi, once,
    pairs, rule_if, simulated, simulated_drops, simulated_each_on, simulated_on, simulated_with,
    two_in_memory, until_state,
};

const PATH: &str = "/leases/hourly";
const HOLDER: &str = "/leases/hourly/lease_holder";
const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// Takes the lease, and again after each error that passes.
async fn take(lease: &TimedLease) -> Option<TimedLeaseGuard> {
    wait::until_some(async || match lease.try_take(MINUTE).await {
        Ok(taken) => Some(taken),
        Err(error) if error.is_retryable() => None,
        Err(error) => panic!("{error:?}"),
    })
    .await
}

/// Every request about the lease is lost once, on the way there or back.
#[test]
fn lease_is_taken_once_whatever_is_lost() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for nth in 0.. {
                let (server, zk, other) = two_in_memory().await;
                let lost = rule_if(
                    &server,
                    |request| request.paths().any(|path| path.starts_with("/leases")),
                    verdict,
                );
                let lost = lost.after(nth).times(1);
                let mut guard = take(&TimedLease::new(&zk, PATH, "a")).await.unwrap();
                assert!(take(&TimedLease::new(&other, PATH, "b")).await.is_none());
                guard.renew(2 * MINUTE).await.unwrap();
                guard.renew(2 * MINUTE).await.unwrap();
                guard.release().await.unwrap();
                assert!(take(&TimedLease::new(&other, PATH, "b")).await.is_some());
                if lost.hits() == 0 {
                    assert!(nth > 10, "only {nth} requests");
                    break;
                }
            }
        }
    });
}

#[test]
fn lost_session_leaves_an_unknown_take_to_the_same_id() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lease = TimedLease::new(&zk.with_deadline(SECOND), PATH, "a");
        lease.try_take(MINUTE).await.unwrap().unwrap().release().await.unwrap();
        let cut = cut_at_next_multi(&server, &zk, Verdict::LoseReply);
        assert!(lease.try_take(MINUTE).await.unwrap_err().may_have_applied());
        expire(&server, &zk).await;
        drop(cut);
        assert!(take(&TimedLease::new(&other, PATH, "b")).await.is_none());
        assert!(take(&lease).await.is_some());
    });
}

#[test]
fn guard_outlives_the_session() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut guard = TimedLease::new(&zk, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        assert!(!guard.is_expired());
        assert!(TimedLease::new(&other, PATH, "b").try_take(MINUTE).await.unwrap().is_none());
        guard.renew(MINUTE).await.unwrap();
        guard.release().await.unwrap();
    });
}

/// The guard has an earlier end than others see, and knows its own renewal later.
#[test]
fn renewal_of_unknown_outcome_is_found_by_the_next_one() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let hasty = zk.with_deadline(SECOND);
        let mut guard = TimedLease::new(&hasty, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
        let before = guard.end();
        let cut = cut_at_next_multi(&server, &zk, Verdict::LoseReply);
        let failed = guard.renew(10 * MINUTE).await.unwrap_err();
        assert!(failed.may_have_applied(), "{failed:?}");
        assert_eq!(guard.end(), before);
        drop(cut);
        zk.wait_connected().await.unwrap();
        guard.renew(2 * MINUTE).await.unwrap();
        assert!(guard.expires_in() <= 2 * MINUTE + SECOND);
        past(3 * MINUTE).await;
        assert!(guard.is_expired());
        assert!(TimedLease::new(&other, PATH, "b").try_take(MINUTE).await.unwrap().is_some());
        assert!(matches!(guard.renew(MINUTE).await, Err(Error::Lost { .. })));
    });
}

/// A renewal that was refused wrote nothing, so a later change is not its own.
#[test]
fn refused_renewal_does_not_take_over_a_later_guard() {
    simulated_on(two_in_memory, async |(server, zk, _other)| {
        let lease = TimedLease::new(&zk, PATH, "a");
        let mut guard = lease.try_take(MINUTE).await.unwrap().unwrap();
        let refused = once(&server, OpCode::Multi, Verdict::Refuse(ErrorCode::NoAuth));
        guard.renew(2 * MINUTE).await.unwrap_err();
        assert_eq!(refused.hits(), 1);
        let mut later = lease.try_take(2 * MINUTE).await.unwrap().unwrap();
        assert!(matches!(guard.renew(MINUTE).await, Err(Error::Lost { .. })));
        later.renew(MINUTE).await.unwrap();
    });
}

/// The end tells a later guard of the same id from a renewal of unknown outcome.
#[test]
fn lost_renewal_does_not_take_over_a_later_guard() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let hasty = zk.with_deadline(SECOND);
        let mut guard = TimedLease::new(&hasty, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
        let cut = cut_at_next_multi(&server, &zk, Verdict::LoseRequest);
        assert!(guard.renew(10 * MINUTE).await.unwrap_err().may_have_applied());
        let mut later = TimedLease::new(&other, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
        drop(cut);
        zk.wait_connected().await.unwrap();
        assert!(matches!(guard.renew(MINUTE).await, Err(Error::Lost { .. })));
        later.renew(MINUTE).await.unwrap();
    });
}

#[test]
fn deleted_lease_is_lost_and_can_be_taken() {
    simulated_with(async |server, zk| {
        for path in [HOLDER, "/leases"] {
            let lease = TimedLease::new(&zk, PATH, "a");
            let mut guard = lease.try_take(MINUTE).await.unwrap().unwrap();
            server.remove(path).unwrap();
            assert!(matches!(guard.renew(MINUTE).await, Err(Error::Lost { .. })), "{path}");
            assert!(lease.try_take(MINUTE).await.unwrap().is_some(), "{path}");
            server.remove("/leases").unwrap();
        }
    });
}

/// Nodes that are deleted and created again begin with the same versions.
#[test]
fn lease_that_was_deleted_and_taken_again_is_lost() {
    simulated_each_on(
        [(PATH, 0), (PATH, 1), (HOLDER, 0), (HOLDER, 1)],
        two_in_memory,
        async |(path, unknown), (server, zk, other)| {
            let hasty = zk.with_deadline(SECOND);
            let mut guard =
                TimedLease::new(&hasty, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
            let versions = || {
                let probe = server.probe();
                [PATH, HOLDER].map(|path| probe.stat(path).unwrap().version)
            };
            let before = versions();
            for _ in 0..unknown {
                let cut = cut_at_next_multi(&server, &zk, Verdict::LoseReply);
                assert!(guard.renew(MINUTE).await.unwrap_err().may_have_applied());
                drop(cut);
                zk.wait_connected().await.unwrap();
            }
            server.remove(path).unwrap();
            let theirs = TimedLease::new(&other, PATH, if unknown == 0 { "b" } else { "a" });
            let second = theirs.try_take(MINUTE).await.unwrap().unwrap();
            assert_eq!(versions() == before, path == PATH);
            let late = guard.fence(zk.transaction().create("/late", "")).commit().await;
            assert!(late.is_err(), "{late:?}");
            assert!(matches!(guard.renew(MINUTE).await, Err(Error::Lost { .. })));
            assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
            second.fence(other.transaction().create("/in-time", "")).commit().await.unwrap();
            second.release().await.unwrap();
        },
    );
}

#[test]
fn slot_that_was_deleted_and_taken_again_is_lost() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let of = |zk, id| MultiLease::new(zk, PATH, 2, id);
        let mut guard = of(&zk, "a").try_take(MINUTE).await.unwrap().unwrap();
        server.remove(guard.path()).unwrap();
        let second = of(&other, "b").try_take(MINUTE).await.unwrap().unwrap();
        assert_eq!(second.path(), guard.path());
        let late = guard.fence(zk.transaction().create("/late", "")).commit().await;
        assert!(late.is_err(), "{late:?}");
        assert!(matches!(guard.renew(MINUTE).await, Err(Error::Lost { .. })));
        second.release().await.unwrap();
    });
}

/// A take whose response comes after its end is made again.
#[test]
fn late_response_does_not_make_an_expired_guard() {
    simulated_with(async |server, zk| {
        let lease = TimedLease::new(&zk, PATH, "a");
        drop(lease.try_take(SECOND).await.unwrap());
        let late = rule_if(&server, is_write_multi, Verdict::Delay(4 * SECOND)).times(1);
        let guard = lease.try_take(SECOND).await.unwrap().unwrap();
        assert_eq!(late.hits(), 1);
        assert!(!guard.is_expired());
    });
}

#[test]
fn request_of_a_read_only_holder_changes_nothing() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        drop(TimedLease::new(&zk, PATH, "a").try_take(MINUTE).await.unwrap());
        let writes = rule_if(&server, is_write_multi, Verdict::Pass);
        for _ in 0..3 {
            assert!(TimedLease::new(&other, PATH, "b").try_take(MINUTE).await.unwrap().is_none());
        }
        assert_eq!(writes.hits(), 0);
    });
}

/// Asserts that nothing but the lease is left.
async fn leaves_only_the_lease(server: &TestServer, zk: &CuratorFramework) {
    zk.close().await.unwrap();
    let stays = |path: &str| {
        ["/leases", PATH, HOLDER].contains(&path) || path.starts_with("/leases/hourly/_i_")
    };
    assert_clean_but_for(server, |_, path| stays(path));
}

#[test]
fn dropped_take_leaves_the_lease_to_its_id() {
    simulated_drops(
        6,
        in_memory,
        async |(_, zk)| TimedLease::new(zk, PATH, "a").try_take(MINUTE).await.unwrap().is_some(),
        async |(server, zk), taken| {
            assert_ne!(taken, Some(false));
            let guard = TimedLease::new(&zk, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
            guard.release().await.unwrap();
            leaves_only_the_lease(&server, &zk).await;
        },
    );
}

#[test]
fn dropped_renewal_and_release_can_be_repeated() {
    for release in [false, true] {
        simulated_drops(
            2,
            async || {
                let (server, zk) = in_memory().await;
                let guard = TimedLease::new(&zk, PATH, "a").try_take(MINUTE).await.unwrap();
                (server, zk, std::cell::RefCell::new(guard))
            },
            async |(_, _, guard)| {
                let mut held = guard.take().unwrap();
                if release {
                    held.release().await.unwrap();
                } else {
                    held.renew(2 * MINUTE).await.unwrap();
                }
            },
            async |(server, zk, _), _| {
                let lease = TimedLease::new(&zk, PATH, "a");
                let mut guard = lease.try_take(MINUTE).await.unwrap().unwrap();
                guard.renew(MINUTE).await.unwrap();
                guard.release().await.unwrap();
                drop(lease);
                leaves_only_the_lease(&server, &zk).await;
            },
        );
    }
}

#[test]
fn guard_is_usable_after_a_dropped_renewal() {
    simulated(async {
        for (step, verdict) in pairs(0..12, [Verdict::Pass, Verdict::LoseReply]) {
            let (server, zk) = in_memory().await;
            let mut guard =
                TimedLease::new(&zk, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
            let lost = rule_if(&server, is_write_multi, verdict).times(1);
            drop(zk_curator_tests::poll_then_drop(guard.renew(MINUTE), step).await);
            drop(lost);
            guard.renew(MINUTE).await.unwrap();
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn throttled_take_is_retried() {
    simulated_with(async |server, zk| {
        let lease = TimedLease::new(&zk, PATH, "a");
        let refused = once(&server, OpCode::Multi, Verdict::Refuse(ErrorCode::Throttled));
        assert!(take(&lease).await.is_some());
        assert_eq!(refused.hits(), 1);
        assert!(take(&TimedLease::new(&connected(&server).await, PATH, "b")).await.is_none());
    });
}

/// Others see the earlier end from the moment of the request, whatever becomes of the response.
#[test]
fn renewal_that_shortens_counts_before_its_response() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let hasty = zk.with_deadline(SECOND);
        let lease = TimedLease::new(&hasty, PATH, "a");
        let mut guard = lease.try_take(10 * MINUTE).await.unwrap().unwrap();
        let cut = cut_at_next_multi(&server, &zk, Verdict::LoseReply);
        let failed = guard.renew(MINUTE).await.unwrap_err();
        assert!(failed.may_have_applied(), "{failed:?}");
        drop(cut);
        past(2 * MINUTE).await;
        assert!(TimedLease::new(&other, PATH, "b").try_take(MINUTE).await.unwrap().is_some());
        assert!(guard.is_expired());
    });
}

/// Others see the end of a take from the moment of the request, whatever becomes of the response.
#[test]
fn take_that_shortens_counts_before_its_response() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lease = TimedLease::new(&zk.with_deadline(SECOND), PATH, "a");
        let guard = lease.try_take(10 * MINUTE).await.unwrap().unwrap();
        let refused = once(&server, OpCode::Multi, Verdict::Refuse(ErrorCode::NoAuth));
        assert!(!lease.try_take(MINUTE).await.unwrap_err().may_have_applied());
        assert_eq!(refused.hits(), 1);
        assert!(guard.expires_in() > 9 * MINUTE);
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let cut = cut_at_next_multi(&server, &zk, verdict);
            assert!(lease.clone().try_take(MINUTE).await.unwrap_err().may_have_applied());
            assert!(guard.expires_in() <= MINUTE + SECOND);
            drop(cut);
            zk.wait_connected().await.unwrap();
        }
        past(2 * MINUTE).await;
        assert!(TimedLease::new(&other, PATH, "b").try_take(MINUTE).await.unwrap().is_some());
        assert!(guard.is_expired());
    });
}

/// A take that was never applied shortens the lease only until it is renewed.
#[test]
fn renewal_settles_earlier_takes() {
    simulated_on(two_in_memory, async |(server, zk, _other)| {
        let lease = TimedLease::new(&zk.with_deadline(SECOND), PATH, "a");
        let mut guard = lease.try_take(10 * MINUTE).await.unwrap().unwrap();
        let cut = cut_at_next_multi(&server, &zk, Verdict::LoseRequest);
        assert!(lease.try_take(MINUTE).await.unwrap_err().may_have_applied());
        drop(cut);
        zk.wait_connected().await.unwrap();
        guard.renew(10 * MINUTE).await.unwrap();
        assert!(guard.expires_in() > 9 * MINUTE);
    });
}

#[test]
fn dropped_take_shortens_the_earlier_guard() {
    simulated(async {
        let mut taken = 0;
        for (step, verdict) in pairs(0..12, [Verdict::Pass, Verdict::LoseReply]) {
            let (server, zk, other) = two_in_memory().await;
            let lease = TimedLease::new(&zk, PATH, "a");
            let guard = lease.try_take(10 * MINUTE).await.unwrap().unwrap();
            let lost = rule_if(&server, is_write_multi, verdict).times(1);
            drop(zk_curator_tests::poll_then_drop(lease.try_take(MINUTE), step).await);
            drop(lost);
            past(2 * MINUTE).await;
            let second = take(&TimedLease::new(&other, PATH, "b")).await;
            assert!(second.is_none() || guard.is_expired(), "{step} {verdict:?}");
            taken += usize::from(second.is_some());
        }
        assert!(taken > 0);
    });
}

/// Ends are whole seconds, so two of them may be equal.
#[test]
fn lost_renewal_does_not_take_over_a_later_guard_of_equal_end() {
    simulated_each_on([false, true], two_in_memory, async |releases, (server, zk, _other)| {
        let lease = TimedLease::new(&zk.with_deadline(SECOND), PATH, "a");
        let mut guard = lease.try_take(MINUTE).await.unwrap().unwrap();
        let cut = cut_at_next_multi(&server, &zk, Verdict::LoseRequest);
        assert!(guard.renew(Duration::MAX).await.unwrap_err().may_have_applied());
        drop(cut);
        zk.wait_connected().await.unwrap();
        let mut later = lease.try_take(Duration::MAX).await.unwrap().unwrap();
        let lost = if releases { guard.release().await } else { guard.renew(MINUTE).await };
        assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
        later.renew(MINUTE).await.unwrap();
    });
}

/// The take of another slot has to end the one of an earlier guard.
#[test]
fn guard_of_a_surrendered_slot_is_over_before_the_response() {
    simulated_each_on([true, false], two_in_memory, async |is_lost, (server, zk, other)| {
        let first = MultiLease::new(&other, PATH, 2, "b").try_take(MINUTE).await.unwrap().unwrap();
        let lease = MultiLease::new(&zk.with_deadline(SECOND), PATH, 2, "a");
        let guard = lease.try_take(MINUTE).await.unwrap().unwrap();
        first.release().await.unwrap();
        let of_kazoo = TimedLease::new(&other, format!("{PATH}/0"), "a");
        drop(of_kazoo.try_take(MINUTE).await.unwrap().unwrap());
        let error = if is_lost {
            let _cut = cut_at_next_multi(&server, &zk, Verdict::LoseReply);
            lease.try_take(MINUTE).await.unwrap_err()
        } else {
            let _refused = once(&server, OpCode::Multi, Verdict::Refuse(ErrorCode::NoAuth));
            lease.try_take(MINUTE).await.unwrap_err()
        };
        assert_eq!((error.may_have_applied(), guard.is_expired()), (is_lost, is_lost), "{error:?}");
    });
}
