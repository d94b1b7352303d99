//! [`InterProcessMultiLock`]: the order of its locks, and locks that wait in this process.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::{
    Error, InterProcessLock, InterProcessMultiLock, InterProcessMutex, ReadLock, ReentrantMutex,
    WriteLock, attempt_revoke,
};
use zk_curator_testing::TestServer;
use zk_curator_tests::{
    builder, closes_clean, connected, expire, simulated_on, simulated_with, start, two_in_memory,
    until,
};

type Locks = Vec<Arc<dyn InterProcessLock>>;

fn mutex(zk: &CuratorFramework, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessMutex::new(zk, path))
}

/// A framework below a chroot.
async fn below(server: &TestServer, chroot: &str) -> CuratorFramework {
    start(builder(server).connect_string(format!("memory:2181{chroot}"))).await
}

/// Two processes that acquire the same two locks at the same time, each in its own words.
async fn both_acquire(one: Locks, other: Locks) {
    let acquire = async |locks: Locks| {
        let guard = InterProcessMultiLock::new(locks).acquire().await.unwrap();
        let paths: Vec<_> = guard.guards().map(|guard| guard.path().to_owned()).collect();
        guard.release().await.unwrap();
        paths
    };
    let both = async { tokio::join!(acquire(one), acquire(other)) };
    let (one, other) =
        timeout(Duration::from_secs(3600), both).await.expect("they wait for each other");
    assert_eq!((one.len(), other.len()), (2, 2));
}

async fn assert_duplicate(locks: Locks, path: &str) {
    let acquired =
        timeout(Duration::from_secs(3600), InterProcessMultiLock::new(locks).acquire()).await;
    let error = acquired.expect("it waits for itself").unwrap_err();
    assert!(matches!(&error, Error::Duplicate { path: twice } if twice == path), "{error}");
}

/// The root of the namespace `a` is the node `/a`, which sorts before `/a-b`; `/a/` sorts behind
/// it.
#[test]
fn root_of_a_namespace_sorts_by_its_node() {
    simulated_on(two_in_memory, async |(_server, plain, zk)| {
        let inside = zk.using_namespace("a").unwrap();
        both_acquire(
            vec![mutex(&inside, "/"), mutex(&zk, "/a-b")],
            vec![mutex(&plain, "/a"), mutex(&plain, "/a-b")],
        )
        .await;
    });
}

#[test]
fn root_of_a_namespace_given_twice_is_refused() {
    simulated_with(async |_server, zk| {
        let inside = zk.using_namespace("a").unwrap();
        assert_duplicate(vec![mutex(&inside, "/"), mutex(&zk, "/a")], "/a").await;
    });
}

#[test]
fn locks_below_a_chroot_sort_by_their_absolute_paths() {
    simulated_with(async |server, plain| {
        plain.create("/app").await.unwrap();
        let (chroot, zk) = (below(&server, "/app").await, connected(&server).await);
        both_acquire(
            vec![mutex(&chroot, "/z"), mutex(&zk, "/b")],
            vec![mutex(&plain, "/app/z"), mutex(&plain, "/b")],
        )
        .await;
    });
}

#[test]
fn lock_below_a_chroot_given_twice_is_refused() {
    simulated_with(async |server, zk| {
        zk.create("/app").await.unwrap();
        let chroot = below(&server, "/app").await;
        let inside = chroot.using_namespace("a").unwrap();
        assert_duplicate(vec![mutex(&inside, "/x"), mutex(&zk, "/app/a/x")], "/app/a/x").await;
        assert_duplicate(vec![mutex(&chroot, "/"), mutex(&zk, "/app")], "/app").await;
    });
}

#[test]
fn handover_and_reentrant_mutexes_go_into_a_multi_lock() {
    simulated_with(async |server, zk| {
        let passed = InterProcessMutex::new(&zk, "/locks/passed").local_batch(2, Duration::MAX);
        let again = ReentrantMutex::new(&zk, "/locks/again");
        let both = |owner: &'static str| {
            let locks: Locks = vec![Arc::new(passed.clone()), Arc::new(again.for_owner(owner))];
            InterProcessMultiLock::new(locks)
        };
        let held = both("me").acquire().await.unwrap();
        let paths: Vec<_> = held.guards().map(|guard| guard.path().to_owned()).collect();
        assert!(
            paths[0].starts_with("/locks/again/") && paths[1].starts_with("/locks/passed/"),
            "{paths:?}"
        );
        held.fenced().create("/written", "").commit().await.unwrap();
        // Of the owner: re-entrant, but in the other lock the next one has to wait.
        let inner = again.try_acquire("me").await.unwrap().unwrap();
        assert_eq!(inner.path(), paths[0]);
        assert!(both("me").try_acquire().await.unwrap().is_none());
        assert!(both("you").try_acquire().await.unwrap().is_none());
        let next = tokio::spawn({
            let both = both("me");
            async move { both.acquire().await.unwrap() }
        });
        until(&server, |_| passed.waiting() == 1).await;
        held.release().await.unwrap();
        let next = next.await.unwrap();
        let passed_on: Vec<_> = next.guards().map(|guard| guard.path().to_owned()).collect();
        assert_eq!(passed_on, paths, "both are passed on");
        // As every guard.
        let revoked = next.guards().nth(1).unwrap();
        assert!(attempt_revoke(&zk, revoked.path()).await.unwrap());
        revoked.revoked().await;
        revoked.acknowledge().await.unwrap();
        assert_eq!(server.probe().data(revoked.path()).unwrap(), "unlocking");
        inner.release().await.unwrap();
        next.release().await.unwrap();
        until(&server, |probe| probe.children("/locks/again").is_empty()).await;
        assert!(both("you").try_acquire().await.unwrap().is_some());
        zk.delete("/written").await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_pass_and_an_owner_are_the_same_node_as_a_mutex() {
    simulated_with(async |_server, zk| {
        let passed = InterProcessMutex::new(&zk, "/x").local_batch(2, Duration::MAX);
        let again = ReentrantMutex::new(&zk, "/x");
        assert_duplicate(vec![Arc::new(passed), mutex(&zk, "/x")], "/x").await;
        assert_duplicate(vec![Arc::new(again.for_owner(1)), Arc::new(again.for_owner(2))], "/x")
            .await;
    });
}

/// An operator deletes the node of the first lock while the second is waited for.
#[test]
fn a_lock_that_is_deleted_during_the_wait_is_acquired_again() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let second = InterProcessMutex::new(&other, "/locks/b").acquire().await.unwrap();
        let both = InterProcessMultiLock::of_mutexes(&zk, ["/locks/a", "/locks/b"]);
        let mut waits = Box::pin(both.acquire());
        assert!(timeout(Duration::from_secs(60), &mut waits).await.is_err());
        let probe = server.probe();
        let [node] = &probe.children("/locks/a")[..] else { panic!("{probe}") };
        server.remove(&format!("/locks/a/{node}")).unwrap();
        let first = InterProcessMutex::new(&other, "/locks/a").acquire().await.unwrap();
        second.release().await.unwrap();
        assert!(timeout(Duration::from_secs(60), &mut waits).await.is_err(), "{}", server.probe());
        first.release().await.unwrap();
        let guard = waits.await.unwrap();
        let probe = server.probe();
        assert!(guard.guards().all(|guard| probe.exists(guard.path())), "{probe}");
        // Nothing stays of the first attempt.
        assert_eq!(probe.children("/locks/b").len(), 1, "{probe}");
    });
}

/// A multi lock does not pass a lock on whose session has ended, either.
#[test]
fn a_session_that_ends_during_a_hand_over_leaves_no_half() {
    simulated_with(async |server, zk| {
        let passed = InterProcessMutex::new(&zk, "/locks/b").local_batch(2, Duration::MAX);
        let locks: Locks = vec![mutex(&zk, "/locks/a"), Arc::new(passed.clone())];
        let both = InterProcessMultiLock::new(locks);
        let first = passed.acquire().await.unwrap();
        let mut next = Box::pin(both.acquire());
        assert!(timeout(Duration::from_secs(1), &mut next).await.is_err());
        assert_eq!(passed.waiting(), 1);
        drop(first);
        expire(&server, &zk).await;
        zk_curator_tests::until_state(&zk, zk_curator::ConnectionState::Lost).await;
        let guard = next.await.unwrap();
        let probe = server.probe();
        assert!(!guard.is_over());
        assert!(guard.guards().all(|guard| probe.exists(guard.path())), "{probe}");
    });
}

#[test]
fn every_guard_says_that_it_is_over() {
    simulated_with(async |server, zk| {
        let mutex = InterProcessMutex::new(&zk, "/locks/mutex").acquire().await.unwrap();
        let passed = InterProcessMutex::new(&zk, "/locks/passed").local_batch(2, Duration::MAX);
        let passed = passed.acquire().await.unwrap();
        let again = ReentrantMutex::new(&zk, "/locks/again").acquire(1).await.unwrap();
        let both = InterProcessMultiLock::of_mutexes(&zk, ["/locks/a", "/locks/b"])
            .acquire()
            .await
            .unwrap();
        let over = || [mutex.is_over(), passed.is_over(), again.is_over(), both.is_over()];
        assert_eq!(over(), [false; 4]);
        let requests = server.probe().total_requests();
        expire(&server, &zk).await;
        zk_curator_tests::until_state(&zk, zk_curator::ConnectionState::Lost).await;
        assert_eq!(over(), [true; 4]);
        assert_eq!(server.probe().total_requests(), requests);
    });
}

/// The names of the locks in compiler errors and logs.
#[test]
fn locks_have_the_names_that_users_write() {
    let names = [
        std::any::type_name::<InterProcessMutex>(),
        std::any::type_name::<ReadLock>(),
        std::any::type_name::<WriteLock>(),
    ];
    let last = names.map(|name| name.rsplit("::").next().unwrap());
    assert_eq!(last, ["InterProcessMutex", "ReadLock", "WriteLock"]);
}
