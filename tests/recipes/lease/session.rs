//! Leases with a session of their own.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_recipes::group::{Group, GroupMember};
use zk_curator_recipes::lease::SessionLease;
use zk_curator_recipes::lock::{self, InterProcessMutex};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{idle, past, settled, spend};
use zk_curator_tests::{
    SESSION_TIMEOUT, all_close_clean, closes_clean, gated, in_memory, simulated_drops,
    simulated_on, simulated_with, until,
};

const TTL: Duration = Duration::from_secs(6);
const NODE: &str = "/present";
const LOCK: &str = "/locks/orders";

async fn lease(zk: &CuratorFramework) -> SessionLease {
    SessionLease::builder(zk).ttl(TTL).open().await.unwrap()
}

#[test]
fn nodes_go_together_in_one_transaction() {
    simulated_with(async |server, zk| {
        let lease = lease(&zk).await;
        assert_eq!(lease.ttl(), TTL);
        assert!(lease.remaining() > TTL / 2 && lease.remaining() <= TTL);
        lease.create(NODE).await.unwrap();
        lease.create("/n-").mode(CreateMode::EphemeralSequential).await.unwrap();
        let lock = InterProcessMutex::new(lease.framework(), LOCK);
        let guard = lock.acquire().await.unwrap();
        zk.create("/main").mode(CreateMode::Ephemeral).await.unwrap();
        let owner = zk.exists(NODE).await.unwrap().unwrap().ephemeral_owner;
        assert_eq!(owner, lease.session_id().get());
        assert_ne!(owner, zk.session().unwrap().id.get());

        lease.revoke().await.unwrap();
        lease.revoke().await.unwrap();
        assert!(lease.is_over());
        assert_eq!(lease.remaining(), Duration::ZERO);
        lease.lost().await;
        assert!(guard.is_over());
        let paths = server.probe().paths();
        assert_eq!(paths, ["/locks", LOCK, "/main"]);
        let error = lease.create(NODE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        zk.get_data("/main").await.unwrap();
        drop((guard, lock, lease));
        zk.delete("/main").await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn expired_lease_ends_and_opens_no_session() {
    simulated_with(async |server, zk| {
        let lease = lease(&zk).await;
        lease.create(NODE).await.unwrap();
        let member = GroupMember::builder(lease.framework(), "/groups/workers", "one").start();
        member.joined().await.unwrap();
        assert!(server.expire(lease.session_id().get()).await);
        timeout(TTL, lease.lost()).await.unwrap();
        assert!(lease.is_over());
        idle(4 * TTL).await;
        assert_eq!(server.probe().sessions().len(), 1, "only that of the main framework");
        assert!(Group::new(&zk, "/groups/workers").members().await.unwrap().is_empty());
        let error = lease.create(NODE).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::SessionExpired), "{error:?}");
        assert_eq!(zk.state(), ConnectionState::Connected);
        drop((member, lease));
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn lease_without_a_connection_is_over_after_its_ttl() {
    simulated_with(async |server, zk| {
        let lease = lease(&zk).await;
        lease.create(NODE).await.unwrap();
        server.partition();
        let began = Instant::now();
        lease.lost().await;
        assert!(began.elapsed() <= TTL, "{:?}", began.elapsed());
        assert!(lease.is_over());
        // Neither the servers nor the main session, with its longer timeout, end earlier.
        assert_ne!(zk.state(), ConnectionState::Lost);
        until(&server, |probe| !probe.paths().iter().any(|path| path == NODE)).await;
        assert!(began.elapsed() >= TTL * 2 / 3);
        server.heal();
        zk.wait_connected().await.unwrap();
    });
}

/// A request that reached the server before the stop is read after it.
#[test]
fn lease_that_was_over_stays_over_though_its_session_lives() {
    simulated_on(TestServer::in_memory, async |server| {
        let (zk, gate) = gated(&server).await;
        let lease = lease(&zk).await;
        lease.create(NODE).await.unwrap();
        spend(TTL / 4).await;
        server.hold();
        let read = tokio::spawn(lease.framework().exists(NODE).into_future());
        tokio::task::yield_now().await;
        settled().await;
        gate.close();
        server.release();
        past(TTL * 9 / 10).await;
        assert!(lease.is_over());
        gate.open();
        drop(read.await.unwrap());
        assert!(lease.is_over());
        assert_eq!(lease.remaining(), Duration::ZERO);
        timeout(Duration::ZERO, lease.lost()).await.expect("it is over");
        // So its session ends, and its nodes with it.
        until(&server, |probe| probe.sessions().len() == 1 && !probe.exists(NODE)).await;
        assert_eq!(lease.create(NODE).await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn main_session_and_lease_end_independently() {
    simulated_with(async |server, zk| {
        let lease = lease(&zk).await;
        lease.create(NODE).await.unwrap();
        zk_curator_tests::expire(&server, &zk).await;
        idle(TTL).await;
        assert!(!lease.is_over());
        zk.close().await.unwrap();
        idle(TTL).await;
        assert!(!lease.is_over());
        assert!(server.probe().paths().iter().any(|path| path == NODE));
        lease.revoke().await.unwrap();
        zk_curator_tests::assert_clean_after_close(&server);
    });
}

#[test]
fn lock_of_a_lost_lease_is_lost() {
    simulated_with(async |server, zk| {
        let lease = lease(&zk).await;
        let held = InterProcessMutex::new(lease.framework(), LOCK);
        let worked = held.with(async |_| {
            server.expire(lease.session_id().get()).await;
            spend(60 * TTL).await;
        });
        assert!(matches!(worked.await, Err(lock::Error::Lost { .. })));
        assert!(InterProcessMutex::new(&zk, LOCK).try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn default_ttl_is_that_of_the_main_session() {
    simulated_with(async |server, zk| {
        let lease = SessionLease::builder(&zk).open().await.unwrap();
        assert_eq!(lease.ttl(), SESSION_TIMEOUT);
        drop(lease);
        until(&server, |probe| probe.sessions().len() == 1).await;
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn invalid_ttl_is_refused_and_an_outage_leaves_nothing() {
    simulated_with(async |server, zk| {
        let none = SessionLease::builder(&zk).ttl(Duration::ZERO).open().await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidArgument);
        server.stop().await;
        let failed = SessionLease::builder(&zk).ttl(TTL).open().await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::ConnectionLoss);
        server.restart().await.unwrap();
        zk.wait_connected().await.unwrap();
        idle(4 * TTL).await;
        assert_eq!(server.probe().sessions().len(), 1);
    });
}

#[test]
fn dropped_lease_leaves_nothing() {
    simulated_drops(
        3,
        in_memory,
        async |(_, zk)| {
            let lease = lease(zk).await;
            lease.create(NODE).await.unwrap();
            lease.revoke().await.unwrap();
        },
        async |(server, zk), _| {
            all_gone(&server).await;
            all_close_clean(&server, [&zk]).await;
        },
    );
}

async fn all_gone(server: &TestServer) {
    until(server, |probe| probe.sessions().len() == 1 && probe.paths().is_empty()).await;
}

#[test]
fn another_framework_has_settings_and_handle_of_the_first() {
    simulated_with(async |server, zk| {
        let handle = zk.using_namespace("app").unwrap();
        let other = handle.another(TTL).unwrap();
        other.start().await.unwrap();
        assert_eq!(other.namespace(), "app");
        assert_eq!(other.session().unwrap().timeout, TTL);
        assert_ne!(other.new_guid(), zk.new_guid());
        other.close_in_background();
        assert_eq!(other.create("/x").await.unwrap_err().kind(), ErrorKind::Closed);
        other.close().await.unwrap();
        assert_eq!(server.probe().sessions().len(), 1);
        assert!(zk.another(Duration::ZERO).is_err());
    });
}
