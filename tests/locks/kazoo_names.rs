//! Semaphores and elections in the layout of kazoo: names, limits, faults and cancellation. The
//! tests next to kazoo itself are in `interop`.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lock::{Error, InterProcessMutex, InterProcessSemaphore};
use zk_curator_testing::Verdict;
use zk_curator_testing::wait::{idle, settled, spend};
use zk_curator_tests::{
    all_close_clean, assert_clean_but_for, connected, expire, in_memory, rule_if, simulated,
    simulated_drops, simulated_on, simulated_with, two_in_memory, until, until_state,
};

const PATH: &str = "/semaphore";
const LOCK: &str = "/semaphore-__lock__";
const ELECTION: &str = "/election";

fn semaphore(zk: &CuratorFramework) -> InterProcessSemaphore {
    InterProcessSemaphore::with_kazoo(zk, PATH, 2)
}

/// The parents of kazoo are persistent.
fn is_parent(path: &str) -> bool {
    [PATH, LOCK, ELECTION].contains(&path)
}

#[test]
fn semaphore_has_the_layout_of_kazoo() {
    simulated_with(async |server, zk| {
        let one = semaphore(&zk).label("one").acquire().await.unwrap();
        assert_eq!(zk.get_data(PATH).await.unwrap(), "2");
        assert_eq!(zk.get_data(one.path()).await.unwrap(), "one");
        let name = one.path().rsplit('/').next().unwrap();
        assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        until(&server, |probe| probe.paths().len() == 3).await;
        assert_eq!(zk.exists(LOCK).await.unwrap().unwrap().ephemeral_owner, 0);
        let holders = semaphore(&zk).participants().await.unwrap();
        assert_eq!(holders.len(), 1);
        assert_eq!((holders[0].path.as_str(), &holders[0].label[..]), (one.path(), &b"one"[..]));
        one.release().await.unwrap();
        assert!(semaphore(&zk).participants().await.unwrap().is_empty());
    });
}

#[test]
fn semaphore_counts_all_children() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let semaphore = semaphore(&zk);
        let one = semaphore.try_acquire().await.unwrap().unwrap();
        other.create("/semaphore/of-kazoo").mode(CreateMode::Ephemeral).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        let waits = timeout(Duration::from_secs(60), semaphore.acquire());
        assert!(waits.await.is_err());
        let freed = async {
            settled().await;
            other.delete("/semaphore/of-kazoo").await.unwrap();
        };
        let (two, ()) = tokio::join!(semaphore.acquire(), freed);
        assert!(two.unwrap().fencing_token() > one.fencing_token());
        assert!(matches!(semaphore.acquire_many(3).await, Err(Error::OverLimit { .. })));
    });
}

#[test]
fn another_limit_is_refused_and_other_data_are_ignored() {
    simulated_with(async |_server, zk| {
        zk.create(PATH).data("3").await.unwrap();
        let error = semaphore(&zk).acquire().await.unwrap_err();
        assert!(matches!(error, Error::OtherLimit { stored: 3, limit: 2, .. }), "{error:?}");
        zk.set_data(PATH, "a description").await.unwrap();
        semaphore(&zk).acquire().await.unwrap().release().await.unwrap();
        assert_eq!(zk.get_data(PATH).await.unwrap(), "a description");
    });
}

/// An operator deletes the lock while its holder waits for a lease.
#[test]
fn a_deleted_lock_does_not_let_two_clients_count() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let of_one = |zk| InterProcessSemaphore::with_kazoo(zk, PATH, 1);
        let held = of_one(&other).acquire().await.unwrap();
        let mut waiters = JoinSet::new();
        let first = of_one(&zk);
        waiters.spawn(async move { first.acquire().await });
        until(&server, |probe| probe.children(LOCK).len() == 1).await;
        settled().await;
        let probe = server.probe();
        let [lock] = &probe.children(LOCK)[..] else { panic!("{probe}") };
        server.remove(&format!("{LOCK}/{lock}")).unwrap();
        let second = of_one(&other);
        waiters.spawn(async move { second.acquire().await });
        until(&server, |probe| probe.children(LOCK).len() == 1).await;
        settled().await;
        // Both see that the lease is free.
        held.release().await.unwrap();
        let lease = waiters.join_next().await.unwrap().unwrap().unwrap();
        let both = timeout(Duration::from_secs(60), waiters.join_next()).await;
        assert!(both.is_err(), "{}", server.probe());
        lease.release().await.unwrap();
        drop(waiters.join_next().await.unwrap().unwrap().unwrap());
    });
}

#[test]
fn contenders_never_exceed_the_limit() {
    simulated_with(async |server, zk| {
        let mut clients = vec![zk];
        for _ in 0..5 {
            clients.push(connected(&server).await);
        }
        let work = clients.iter().map(async |zk| {
            let semaphore = semaphore(zk);
            for _ in 0..5 {
                let lease = semaphore.acquire().await.unwrap();
                assert!(zk.children(PATH).await.unwrap().len() <= 2);
                spend(Duration::from_millis(10)).await;
                lease.release().await.unwrap();
            }
        });
        futures_util::future::join_all(work).await;
        all_close_clean_but_parents(&server, &clients).await;
    });
}

async fn all_close_clean_but_parents(
    server: &zk_curator_testing::TestServer,
    clients: &[CuratorFramework],
) {
    for zk in clients {
        zk.close().await.unwrap();
    }
    assert_clean_but_for(server, |_, path| is_parent(path));
}

#[test]
fn lost_messages_leave_one_lease() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for nth in 0.. {
                let (server, zk) = in_memory().await;
                let lost = rule_if(
                    &server,
                    |request| request.paths().any(|path| path.starts_with(PATH)),
                    verdict,
                );
                let lost = lost.after(nth).times(1);
                let lease = semaphore(&zk).acquire().await.unwrap();
                assert_eq!(zk.children(PATH).await.unwrap().len(), 1, "{verdict:?} {nth}");
                lease.release().await.unwrap();
                all_close_clean_but_parents(&server, &[zk]).await;
                if lost.hits() == 0 {
                    assert!(nth > 4, "only {nth} requests");
                    break;
                }
            }
        }
    });
}

#[test]
fn waiter_gets_its_lease_in_the_next_session() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let one = semaphore(&other).acquire().await.unwrap();
        let two = semaphore(&other).acquire().await.unwrap();
        let events = async {
            settled().await;
            expire(&server, &zk).await;
            until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
            settled().await;
            one.release().await.unwrap();
        };
        let of_zk = semaphore(&zk);
        let (lease, ()) = tokio::join!(of_zk.acquire(), events);
        let lease = lease.unwrap();
        assert!(!lease.is_over());
        drop((lease, two));
    });
}

#[test]
fn dropped_acquire_leaves_nothing() {
    for is_free in [true, false] {
        simulated_drops(
            if is_free { 6 } else { 3 },
            two_in_memory,
            async |(_, zk, other)| {
                let held = if is_free {
                    None
                } else {
                    Some(semaphore(other).acquire_many(2).await.unwrap())
                };
                let of_zk = semaphore(zk);
                let freed = async {
                    settled().await;
                    drop(held);
                };
                let (lease, ()) = tokio::join!(of_zk.acquire(), freed);
                lease.unwrap().release().await.unwrap();
            },
            async |(server, zk, other), _| {
                all_close_clean_but_parents(&server, &[zk, other]).await;
            },
        );
    }
}

#[test]
fn elections_share_the_lock_of_kazoo() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lock = InterProcessMutex::new(&other, ELECTION).with_kazoo();
        let guard = lock.acquire().await.unwrap();
        let latch = LeaderLatch::new(&zk, ELECTION).id("latch").with_kazoo();
        let mut observer = latch.observe();
        assert_eq!(observer.next().await.unwrap().unwrap().path, guard.path());
        let candidate = latch.join();
        until(&server, |probe| probe.children(ELECTION).len() == 2).await;
        assert!(!candidate.has_leadership());
        guard.release().await.unwrap();
        candidate.await_leadership().await.unwrap();
        assert_eq!(observer.next().await.unwrap().unwrap().label, "latch");

        let election = Election::new(&other, ELECTION).with_kazoo();
        let mut values = election.observe();
        assert_eq!(values.next().await.unwrap().unwrap().value, "latch");
        let (elected, closed) = tokio::join!(election.campaign("value"), candidate.close());
        closed.unwrap();
        let elected = elected.unwrap();
        assert_eq!(values.next().await.unwrap().unwrap().value, "value");
        let selector = LeaderSelector::new(&zk, ELECTION).id("selector").with_kazoo();
        let (led, resigned) = tokio::join!(selector.run_once(async |_| 1), elected.resign());
        resigned.unwrap();
        assert_eq!(led.unwrap(), 1);
        assert_eq!(zk.exists(ELECTION).await.unwrap().unwrap().ephemeral_owner, 0);
        drop((observer, values));
        zk.delete(ELECTION).await.unwrap();
        all_close_clean(&server, [&zk, &other]).await;
    });
}

/// So that a fleet can be changed one process after another.
#[test]
fn kazoo_mode_waits_for_candidates_without_it() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let before = LeaderLatch::new(&other, ELECTION).id("before").join();
        before.await_leadership().await.unwrap();
        let candidate = LeaderLatch::new(&zk, ELECTION).id("after").with_kazoo().join();
        until(&server, |probe| probe.children(ELECTION).len() == 2).await;
        idle(Duration::from_secs(1)).await;
        assert!(!candidate.has_leadership());
        before.close().await.unwrap();
        candidate.await_leadership().await.unwrap();
        candidate.close().await.unwrap();
        all_close_clean(&server, [&zk, &other]).await;
    });
}

/// No other client makes a node of its name, so none has to be read before.
#[test]
fn dropped_lease_is_deleted_in_one_request() {
    simulated_with(async |server, zk| {
        let lease = semaphore(&zk).acquire().await.unwrap();
        let path = lease.path().to_owned();
        until(&server, |probe| probe.paths().len() == 3).await;
        let of_lease = rule_if(
            &server,
            move |request| request.paths().any(|of| of == path),
            Verdict::Delay(Duration::from_millis(1)),
        );
        drop(lease);
        until(&server, |probe| probe.children(PATH).is_empty()).await;
        assert_eq!(of_lease.hits(), 1);
    });
}
