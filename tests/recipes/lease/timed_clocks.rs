//! Leases while the clocks of servers are set or differ.

use std::sync::Arc;
use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator_recipes::lease::TimedLease;
use zk_curator_testing::TestCluster;
use zk_curator_testing::wait::{idle, past, spend};
use zk_curator_tests::{
    builder_for, cluster_of_three, simulated, simulated_on, start, two_in_memory,
};

const PATH: &str = "/leases/hourly";
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: i64 = 3_600_000;

async fn client(cluster: &TestCluster) -> CuratorFramework {
    let builder = builder_for(&cluster.connect_string());
    start(builder.connector(Arc::new(cluster.connector()))).await
}

/// Changes to a leader whose clock is ahead by this many milliseconds; returns for how long the
/// holder has believed in its lease after another one has taken it.
async fn overlap(ahead: i64, margin: Duration) -> Duration {
    let cluster = cluster_of_three().await;
    let (zk, other) = (client(&cluster).await, client(&cluster).await);
    let guard = TimedLease::new(&zk, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
    let next = cluster.change_leader().unwrap();
    cluster.member(next).shift_wall_clock(ahead);
    let contender = TimedLease::new(&other, PATH, "b").margin(margin);
    loop {
        match contender.try_take(MINUTE).await {
            Ok(Some(_)) => return guard.expires_in(),
            Ok(None) => {}
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        spend(SECOND / 10).await;
    }
}

#[test]
fn margin_covers_a_leader_whose_clock_is_ahead() {
    simulated(async {
        assert_eq!(overlap(5_000, 6 * SECOND).await, Duration::ZERO);
        // The test can tell.
        assert!(overlap(5_000, Duration::ZERO).await > 3 * SECOND);
    });
}

#[test]
fn leader_whose_clock_is_behind_takes_over_later() {
    simulated(async {
        assert_eq!(overlap(-5_000, Duration::ZERO).await, Duration::ZERO);
    });
}

#[test]
fn clock_set_forward_is_beyond_the_guarantee() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut guard = TimedLease::new(&zk, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
        server.shift_wall_clock(HOUR);
        // By the leader's clock it is over.
        let second = TimedLease::new(&other, PATH, "b").try_take(MINUTE).await.unwrap().unwrap();
        assert!(second.fencing_token() > guard.fencing_token());
        // The fence holds even then, and the first holder learns of it.
        let late = guard.fence(zk.transaction().create("/late", "")).commit().await;
        late.unwrap_err();
        guard.renew(MINUTE).await.unwrap_err();
    });
}

#[test]
fn clock_set_back_lengthens_the_lease_for_others() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut guard = TimedLease::new(&zk, PATH, "a").try_take(MINUTE).await.unwrap().unwrap();
        server.shift_wall_clock(-HOUR);
        guard.expired().await;
        idle(MINUTE).await;
        assert!(TimedLease::new(&other, PATH, "b").try_take(MINUTE).await.unwrap().is_none());
        // The holder can go on, by the new clock.
        guard.renew(MINUTE).await.unwrap();
        assert!(guard.expires_in() <= MINUTE + SECOND);
        past(MINUTE + 3 * SECOND).await;
        assert!(TimedLease::new(&other, PATH, "b").try_take(MINUTE).await.unwrap().is_some());
    });
}
