//! [`InterProcessSemaphore`] and [`InterProcessSemaphoreMutex`]: layout, limit, order, cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::lock::{Error, InterProcessSemaphore, InterProcessSemaphoreMutex, Permit};
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{Probe, TestServer, Verdict};
use zk_curator_tests::{
    all_close_clean, closes_clean, connected, expire, once, rule_if, simulated_on, simulated_with,
    two_in_memory, until,
};

const SEMAPHORE: &str = "/locks/printers";
const LOCKS: &str = "/locks/printers/locks";
const LEASES: &str = "/locks/printers/leases";
const COUNT: &str = "/count";

fn semaphore(zk: &CuratorFramework, limit: u32) -> InterProcessSemaphore {
    InterProcessSemaphore::new(zk, SEMAPHORE, limit)
}

/// A task that acquires leases, after it has created its own and waits for others to end.
async fn waiter(
    server: &TestServer,
    semaphore: &InterProcessSemaphore,
    count: u32,
) -> JoinHandle<Vec<Permit>> {
    let before = server.probe().children(LEASES).len();
    let semaphore = semaphore.clone();
    let task = tokio::spawn(async move { semaphore.acquire_many(count).await.unwrap() });
    until(server, |probe| {
        probe.children(LEASES).len() == before + count as usize
            && probe.watches().iter().any(|watch| watch.path == LEASES)
    })
    .await;
    task
}

/// Waits until there is this number of leases, and no client holds the lock of the semaphore.
async fn until_leases(server: &TestServer, count: usize) {
    let is_settled =
        |probe: &Probe| probe.children(LEASES).len() == count && probe.children(LOCKS).is_empty();
    until(server, is_settled).await;
}

/// Creates the permit of a restored tree, for example, which no session will remove. Returns its
/// path.
async fn restored(zk: &CuratorFramework, number: u32) -> String {
    let path = format!("{LEASES}/_c_00000000-0000-4000-8000-000000000000-lease-{number:010}");
    zk.create(path.as_str()).await.unwrap();
    path
}

#[test]
fn a_wait_for_a_persistent_permit_is_reported() {
    simulated_with(async |server, zk| {
        let held = semaphore(&zk, 2).acquire().await.unwrap();
        let restored = restored(&zk, 1).await;
        let mut errors = zk.background_errors();
        let waiting = waiter(&server, &semaphore(&zk, 2), 1).await;
        let told = timeout(Duration::from_secs(120), errors.next()).await.unwrap().unwrap();
        assert_eq!((told.kind(), told.path()), (ErrorKind::NodeExists, restored.as_str()));
        assert!(timeout(Duration::from_secs(3600), errors.next()).await.is_err());
        zk.delete(restored.as_str()).await.unwrap();
        drop((held, waiting.await.unwrap()));
        closes_clean(&server, &zk).await;
    });
}

/// The turn at the mutex, and then the permits.
#[test]
fn both_waits_of_an_acquire_count_for_a_report() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let held = semaphore(&zk, 2).acquire().await.unwrap();
        let restored = restored(&zk, 1).await;
        let first = waiter(&server, &semaphore(&zk, 2), 1).await;
        let mut errors = other.background_errors();
        let second = semaphore(&other, 2);
        let second = tokio::spawn(async move { second.acquire().await.unwrap() });
        until(&server, |probe| probe.children(LOCKS).len() == 2).await;
        idle(Duration::from_secs(50)).await;
        first.abort();
        let told = timeout(Duration::from_secs(20), errors.next()).await.unwrap().unwrap();
        assert_eq!((told.kind(), told.path()), (ErrorKind::NodeExists, restored.as_str()));
        zk.delete(restored.as_str()).await.unwrap();
        drop((held, second.await.unwrap()));
        all_close_clean(&server, [&zk, &other]).await;
    });
}

#[test]
fn a_change_of_the_permits_does_not_postpone_a_report() {
    simulated_with(async |server, zk| {
        let mut held = semaphore(&zk, 3).acquire_many(2).await.unwrap();
        let restored = restored(&zk, 2).await;
        let mut errors = zk.background_errors();
        let waiting = waiter(&server, &semaphore(&zk, 3), 2).await;
        idle(Duration::from_secs(50)).await;
        held.pop().unwrap().release().await.unwrap();
        let told = timeout(Duration::from_secs(20), errors.next()).await.unwrap().unwrap();
        assert_eq!((told.kind(), told.path()), (ErrorKind::NodeExists, restored.as_str()));
        zk.delete(restored.as_str()).await.unwrap();
        drop((held, waiting.await.unwrap()));
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn the_layout_is_curators() {
    simulated_with(async |server, zk| {
        let lease = semaphore(&zk, 2).label("me").acquire().await.unwrap();
        assert!(
            lease.path().starts_with(&format!("{LEASES}/_c_"))
                && lease.path().ends_with("-lease-0000000000")
        );
        let probe = server.probe();
        assert_eq!(probe.data(lease.path()).unwrap(), "me");
        for container in [SEMAPHORE, LOCKS, LEASES] {
            assert!(probe.is_container(container), "{container}\n{probe}");
        }
        let participants = semaphore(&zk, 2).participants().await.unwrap();
        assert_eq!(
            participants.iter().map(|lease| lease.path.as_str()).collect::<Vec<_>>(),
            [lease.path()]
        );
        lease.release().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn without_contention_it_is_six_requests_with_the_release() {
    simulated_with(async |server, zk| {
        // The first time the parents are made.
        semaphore(&zk, 2).acquire().await.unwrap().release().await.unwrap();
        until(&server, |probe| probe.children(LOCKS).is_empty()).await;
        let before = server.probe();
        semaphore(&zk, 2).acquire().await.unwrap().release().await.unwrap();
        let after = until(&server, |probe| probe.children(LOCKS).is_empty()).await;
        assert_eq!(after.total_requests() - before.total_requests(), 6, "{after}");
        assert_eq!(after.watches(), []);
    });
}

/// Curator: 9.1 requests for a grant.
#[test]
fn a_grant_among_many_costs_nine_requests_at_most() {
    const TASKS: usize = 200;
    simulated_with(async |server, zk| {
        let mut clients = vec![zk];
        for _ in 0..9 {
            clients.push(connected(&server).await);
        }
        semaphore(&clients[0], 3).acquire().await.unwrap().release().await.unwrap();
        let before = server.probe();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let semaphore = semaphore(&clients[task % clients.len()], 3);
            tasks.spawn(async move {
                let lease = semaphore.acquire().await.unwrap();
                spend(Duration::from_millis(task as u64 % 7)).await;
                lease.release().await.unwrap();
            });
        }
        tasks.join_all().await;
        let after = until(&server, |probe| probe.children(LOCKS).is_empty()).await;
        let requests = after.total_requests() - before.total_requests();
        let pings = after.requests(OpCode::Ping) - before.requests(OpCode::Ping);
        let each = (requests - pings) as f64 / TASKS as f64;
        assert!(each <= 9.0, "{each} requests for a grant\n{after}");
    });
}

#[test]
fn leases_are_granted_up_to_the_limit_and_then_one_for_one() {
    simulated_with(async |server, zk| {
        let semaphore = semaphore(&zk, 2);
        let one = semaphore.acquire().await.unwrap();
        let two = semaphore.try_acquire().await.unwrap().unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        until_leases(&server, 2).await;
        let waiting = waiter(&server, &semaphore, 1).await;
        // kazoo #213: a client that does not wait must not overtake a waiter.
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert!(!waiting.is_finished());
        one.release().await.unwrap();
        let three = waiting.await.unwrap().pop().unwrap();
        assert!(three.fencing_token() > two.fencing_token());
        assert!(semaphore.try_acquire().await.unwrap().is_none());
    });
}

#[test]
fn several_leases_come_together_and_are_not_overtaken() {
    simulated_with(async |server, zk| {
        let semaphore = semaphore(&zk, 4);
        let mut held = semaphore.acquire_many(3).await.unwrap();
        assert!(semaphore.try_acquire_many(2).await.unwrap().is_none());
        until_leases(&server, 3).await;
        let two = waiter(&server, &semaphore, 2).await;
        let after = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire().await.unwrap() }
        });
        until(&server, |probe| probe.children(LOCKS).len() == 2).await;
        assert!(!two.is_finished() && !after.is_finished());
        held.pop().unwrap().release().await.unwrap();
        assert_eq!(two.await.unwrap().len(), 2);
        drop(held);
        drop(after.await.unwrap());
        assert_eq!(semaphore.acquire_many(0).await.unwrap().len(), 0);
    });
}

/// Two clients that each want both leases: each with one, they would wait for each other forever.
#[test]
fn two_that_want_everything_do_not_wait_for_each_other() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..20 {
            let semaphore = semaphore(if task % 2 == 0 { &zk } else { &other }, 2);
            tasks.spawn(async move {
                let leases = semaphore.acquire_many(2).await.unwrap();
                tokio::task::yield_now().await;
                drop(leases);
            });
        }
        tasks.join_all().await;
    });
}

/// CURATOR-75: Curator's waiters were not woken.
#[test]
fn curator_75_the_limit_may_be_a_shared_count_that_changes() {
    simulated_with(async |server, zk| {
        zk.create(COUNT).data(1_i32.to_be_bytes().to_vec()).await.unwrap();
        let semaphore = InterProcessSemaphore::with_shared_count(&zk, SEMAPHORE, COUNT);
        let one = semaphore.acquire().await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        until_leases(&server, 1).await;
        let waiting = waiter(&server, &semaphore, 1).await;
        zk.set_data(COUNT, 2_i32.to_be_bytes().to_vec()).await.unwrap();
        let two = waiting.await.unwrap();
        // It shrinks: no client loses a lease, but two must end before the next one is granted.
        zk.set_data(COUNT, 1_i32.to_be_bytes().to_vec()).await.unwrap();
        let reads = Arc::new(AtomicU32::new(0));
        let _counted = server.rule({
            let reads = Arc::clone(&reads);
            move |request| {
                let is_read = request.is(OpCode::GetData) && request.is_about(COUNT);
                reads.fetch_add(u32::from(is_read), Ordering::Relaxed);
                Verdict::Pass
            }
        });
        let waiting = waiter(&server, &semaphore, 1).await;
        until(&server, |probe| probe.watches().iter().any(|watch| watch.path == COUNT)).await;
        let before = reads.load(Ordering::Relaxed);
        one.release().await.unwrap();
        until(&server, |probe| probe.watches().iter().any(|watch| watch.path == LEASES)).await;
        assert!(!waiting.is_finished());
        drop(two);
        drop(waiting.await.unwrap());
        assert_eq!(
            reads.load(Ordering::Relaxed),
            before,
            "leases come and go, and the limit has not changed"
        );
        zk.set_data(COUNT, (-1_i32).to_be_bytes().to_vec()).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
    });
}

#[test]
fn clients_with_unlike_limits_each_keep_to_their_own() {
    simulated_with(async |server, zk| {
        let (high, low) = (semaphore(&zk, 3), semaphore(&zk, 1));
        let held = high.acquire_many(2).await.unwrap();
        assert!(low.try_acquire().await.unwrap().is_none());
        let waiting = tokio::spawn(async move { low.acquire().await });
        let leases = format!("{SEMAPHORE}/leases");
        until(&server, |probe| probe.children(&leases).len() == 3 && !probe.watches().is_empty())
            .await;
        assert!(high.try_acquire().await.unwrap().is_none(), "one with a low limit waits in front");
        for lease in held {
            lease.release().await.unwrap();
        }
        let lease = waiting.await.unwrap().unwrap();
        assert_eq!(
            high.acquire_many(2).await.unwrap().len(),
            2,
            "the low limit is not that of others"
        );
        lease.release().await.unwrap();
    });
}

#[test]
fn limits_that_cannot_be_met_are_typed_errors_and_leave_nothing() {
    simulated_with(async |server, zk| {
        let error = semaphore(&zk, 2).acquire_many(3).await.unwrap_err();
        assert!(matches!(error, Error::OverLimit { asked: 3, limit: 2, .. }), "{error}");
        assert!(matches!(semaphore(&zk, 0).acquire().await, Err(Error::OverLimit { .. })));
        let shared = InterProcessSemaphore::with_shared_count(&zk, SEMAPHORE, COUNT);
        let Err(Error::Framework(error)) = shared.acquire().await else { panic!("acquired") };
        assert_eq!((error.kind(), error.path()), (ErrorKind::NoNode, COUNT));
        zk.create(COUNT).data("three").await.unwrap();
        let error = shared.acquire().await.unwrap_err();
        assert!(matches!(&error, Error::NotACount { path } if path == COUNT), "{error}");
        zk.delete(COUNT).await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

/// CURATOR-462, CURATOR-315, CURATOR-335: leases without a holder.
#[test]
fn curator_462_a_lease_whose_acquire_is_given_up_is_given_back() {
    simulated_with(async |server, zk| {
        let semaphore = semaphore(&zk, 1);
        let held = semaphore.acquire().await.unwrap();
        assert!(timeout(Duration::from_secs(1), semaphore.acquire()).await.is_err());
        until_leases(&server, 1).await;
        held.release().await.unwrap();
        for opcode in [OpCode::Create2, OpCode::GetChildren2] {
            for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
                let lost = once(&server, opcode, verdict);
                semaphore.acquire().await.unwrap().release().await.unwrap();
                assert_eq!(lost.hits(), 1);
                until(&server, |probe| {
                    probe.children(LEASES).is_empty() && probe.children(LOCKS).is_empty()
                })
                .await;
            }
        }
    });
}

/// CURATOR-595: the permits of a client whose session is lost go to other clients.
#[test]
fn curator_595_the_leases_of_a_lost_session_go_to_others() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let held = semaphore(&zk, 2).acquire_many(2).await.unwrap();
        let waiting = waiter(&server, &semaphore(&other, 2), 2).await;
        expire(&server, &zk).await;
        assert_eq!(waiting.await.unwrap().len(), 2);
        for lease in held {
            lease.lost().await;
            assert!(matches!(lease.release().await, Err(Error::Lost { .. })));
        }
    });
}

#[test]
fn a_waiter_whose_session_is_lost_queues_again() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let held = semaphore(&zk, 1).acquire().await.unwrap();
        let waiting = waiter(&server, &semaphore(&other, 1), 1).await;
        expire(&server, &other).await;
        until(&server, |probe| {
            probe.children(LEASES).iter().any(|name| name.ends_with("lease-0000000002"))
        })
        .await;
        held.release().await.unwrap();
        let lease = waiting.await.unwrap().pop().unwrap();
        assert!(server.probe().exists(lease.path()));
    });
}

/// It continues in the next session, where it has lost its turn: two concurrent waiters would wait
/// for each other.
#[test]
fn a_session_lost_before_the_lease_leaves_no_second_waiter() {
    simulated_with(async |server, zk| {
        let (one, two) = (connected(&server).await, connected(&server).await);
        let held = semaphore(&zk, 1).acquire().await.unwrap();
        let late = server
            .rule(|request| {
                let is_lease = request.is(OpCode::Create2)
                    && request.path().is_some_and(|path| path.contains("lease-"));
                if is_lease { Verdict::Delay(Duration::from_secs(3)) } else { Verdict::Pass }
            })
            .times(1);
        let unlucky = semaphore(&one, 1);
        let unlucky = tokio::spawn(async move { unlucky.acquire().await.unwrap() });
        until(&server, |_| late.hits() == 1).await;
        expire(&server, &one).await;
        until(&server, |probe| probe.children(LEASES).len() == 2).await;
        let next = semaphore(&two, 1);
        let next = tokio::spawn(async move { next.acquire().await.unwrap() });
        until(&server, |probe| {
            probe.children(LOCKS).len() == 2 || probe.children(LEASES).len() == 3
        })
        .await;
        held.release().await.unwrap();
        for waiting in [unlucky, next] {
            let lease = timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap();
            lease.release().await.unwrap();
        }
    });
}

#[test]
fn many_leases_are_created_a_few_at_a_time() {
    simulated_with(async |server, zk| {
        let semaphore = semaphore(&zk, 300);
        assert_eq!(semaphore.acquire_many(300).await.unwrap().len(), 300);
        until(&server, |probe| probe.children(LEASES).is_empty()).await;
        let refused = rule_if(
            &server,
            |request| request.is_create_under(LEASES),
            Verdict::Refuse(ErrorCode::NoAuth),
        )
        .times(1);
        let before = server.probe().requests(OpCode::Create2);
        let Err(Error::Framework(error)) = semaphore.acquire_many(300).await else {
            panic!("acquired")
        };
        assert_eq!((error.kind(), refused.hits()), (ErrorKind::NoAuth, 1));
        until(&server, |probe| {
            probe.children(LEASES).is_empty() && probe.children(LOCKS).is_empty()
        })
        .await;
        let sent = server.probe().requests(OpCode::Create2) - before;
        assert!(sent < 100, "{sent} creates although the first was refused");
    });
}

/// As in CURATOR-308: another client deletes the leases while their owner waits.
#[test]
fn leases_that_vanish_during_the_wait_are_created_again() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let held = semaphore(&zk, 1).acquire().await.unwrap();
        let waiting = waiter(&server, &semaphore(&other, 1), 1).await;
        let probe = server.probe();
        let name =
            *probe.children(LEASES).iter().find(|name| !held.path().ends_with(**name)).unwrap();
        zk.delete(format!("{LEASES}/{name}")).await.unwrap();
        until(&server, |probe| probe.children(LEASES).len() == 2).await;
        held.release().await.unwrap();
        let lease = waiting.await.unwrap().pop().unwrap();
        assert!(server.probe().exists(lease.path()));
    });
}

/// An operator deletes the turn of a waiter, so the next one waits too.
#[test]
fn leases_that_wait_without_a_turn_do_not_wait_for_each_other() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let held = semaphore(&zk, 2).acquire_many(2).await.unwrap();
        let first = waiter(&server, &semaphore(&zk, 2), 1).await;
        let turn = server.probe().children(LOCKS)[0].to_owned();
        server.remove(&format!("{LOCKS}/{turn}")).unwrap();
        let second = waiter(&server, &semaphore(&other, 2), 2).await;
        assert_eq!(server.probe().children(LEASES).len(), 5);
        drop(held);
        let first = timeout(Duration::from_secs(5), first)
            .await
            .expect("they wait for each other")
            .unwrap();
        idle(Duration::from_secs(5)).await;
        assert!(!second.is_finished(), "three leases of two");
        drop(first);
        let second = timeout(Duration::from_secs(5), second)
            .await
            .expect("they wait for each other")
            .unwrap();
        assert_eq!(server.probe().children(LEASES).len(), second.len());
    });
}

#[test]
fn children_that_are_no_leases_do_not_count() {
    simulated_with(async |_server, zk| {
        zk.create(format!("{LEASES}/notes")).creating_parents().await.unwrap();
        let one = semaphore(&zk, 1).acquire().await.unwrap();
        one.release().await.unwrap();
        // Whatever has the name of a lease is one.
        zk.create(format!("{LEASES}/lease-")).mode(CreateMode::PersistentSequential).await.unwrap();
        assert!(semaphore(&zk, 1).try_acquire().await.unwrap().is_none());
    });
}

#[test]
fn a_semaphore_mutex_excludes_and_lists_its_holder() {
    simulated_with(async |server, zk| {
        let lock = InterProcessSemaphoreMutex::new(&zk, SEMAPHORE).label("me");
        let guard = lock.acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert_eq!(&lock.participants().await.unwrap()[0].label[..], b"me");
        guard.release().await.unwrap();
        let path = lock.with(|held| async move { held.path().to_owned() }).await.unwrap();
        assert!(path.starts_with(LEASES));
        until(&server, |probe| {
            probe.children(LEASES).is_empty() && probe.children(LOCKS).is_empty()
        })
        .await;
    });
}
