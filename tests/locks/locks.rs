//! Locks made of locks: [`InterProcessMultiLock`], [`ReentrantMutex`], [`HandoverMutex`]; and the
//! settings of [`InterProcessMutex`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::{
    Error, HandoverGuard, HandoverMutex, InterProcessLock, InterProcessMultiLock,
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreMutex, ReentrantMutex,
};
use zk_curator_testing::{Probe, Verdict};
use zk_curator_tests::{
    closes_clean, connected, expire, once, rule_if, session_id, simulated_on, simulated_with,
    two_in_memory, until,
};

const LOCK: &str = "/locks/orders";

/// A task that waits for the lock in this process.
async fn waiter(lock: &HandoverMutex) -> JoinHandle<HandoverGuard> {
    let task = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    while lock.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    task
}

#[test]
fn locks_of_any_kind_are_held_together_and_released_together() {
    simulated_with(async |server, zk| {
        let locks: [Arc<dyn InterProcessLock>; 3] = [
            Arc::new(InterProcessMutex::new(&zk, "/locks/c")),
            Arc::new(InterProcessSemaphoreMutex::new(&zk, "/locks/b")),
            Arc::new(InterProcessReadWriteLock::new(&zk, "/locks/a").write_lock()),
        ];
        let all = InterProcessMultiLock::new(locks.clone());
        let guard = all.acquire().await.unwrap();
        let order: Vec<_> = guard.guards().map(|guard| guard.path()[..8].to_owned()).collect();
        assert_eq!(order, ["/locks/a", "/locks/b", "/locks/c"]);
        for lock in &locks {
            assert!(lock.try_acquire().await.unwrap().is_none(), "{}", lock.path());
        }
        assert!(all.try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        let held = all.with(|held| async move { held.len() }).await.unwrap();
        assert_eq!(held, 3);
        drop(all.try_acquire().await.unwrap().unwrap());
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_multi_lock_of_none_or_of_the_same_twice_is_refused() {
    simulated_with(async |_server, zk| {
        let error =
            InterProcessMultiLock::of_mutexes(&zk, ["/b", "/a", "/b"]).acquire().await.unwrap_err();
        assert!(matches!(&error, Error::Duplicate { path } if path == "/b"), "{error}");
        assert!(matches!(InterProcessMultiLock::new([]).try_acquire().await, Err(Error::NoLocks)));
    });
}

#[test]
fn a_multi_lock_orders_by_the_paths_on_the_server() {
    simulated_with(async |server, zk| {
        let [a, b] = ["a", "b"].map(|namespace| zk.using_namespace(namespace).unwrap());
        let lock = |zk: &CuratorFramework, path: &str| {
            Arc::new(InterProcessMutex::new(zk, path)) as Arc<dyn InterProcessLock>
        };
        // Different nodes, though the paths within the namespaces are the same.
        let both = InterProcessMultiLock::new([lock(&a, "/x"), lock(&b, "/x")]);
        both.acquire().await.unwrap().release().await.unwrap();
        // One node, though they are not.
        let error = InterProcessMultiLock::new([lock(&a, "/x"), lock(&zk, "/a/x")])
            .acquire()
            .await
            .unwrap_err();
        assert!(matches!(&error, Error::Duplicate { path } if path == "/a/x"), "{error}");
        // The same two locks, which sort differently within their namespaces.
        let other = connected(&server).await;
        let mut tasks = tokio::task::JoinSet::new();
        for turn in 0..20 {
            let locks = match turn % 2 {
                0 => [lock(&a, "/z"), lock(&b, "/x")],
                _ => [lock(&other, "/a/z"), lock(&other, "/b/x")],
            };
            let both = InterProcessMultiLock::new(locks);
            tasks.spawn(async move { both.acquire().await.unwrap().release().await.unwrap() });
        }
        tasks.join_all().await;
    });
}

/// Defect g: Curator continues to acquire after an error, and applies the whole timeout to every
/// lock.
#[test]
fn no_lock_is_held_or_acquired_after_an_error_or_a_timeout() {
    simulated_with(async |server, zk| {
        let all = InterProcessMultiLock::of_mutexes(&zk, ["/locks/a", "/locks/b", "/locks/c"]);
        drop(all.acquire().await.unwrap());
        until(&server, |probe| probe.children("/locks/c").is_empty()).await;
        let refused = rule_if(
            &server,
            |request| request.is_create_under("/locks/b"),
            Verdict::Refuse(zk_curator::ErrorCode::NoAuth),
        );
        let before = server.probe().stat("/locks/c").unwrap().cversion;
        let Err(Error::Framework(error)) = all.acquire().await else { panic!("acquired") };
        assert_eq!(error.kind(), ErrorKind::NoAuth);
        drop(refused);
        until(&server, |probe| probe.children("/locks/a").is_empty()).await;
        assert_eq!(server.probe().stat("/locks/c").unwrap().cversion, before);

        let other = InterProcessMutex::new(&zk, "/locks/b").acquire().await.unwrap();
        let began = tokio::time::Instant::now();
        assert!(timeout(Duration::from_secs(3), all.acquire()).await.is_err());
        assert_eq!(began.elapsed().as_secs(), 3);
        until(&server, |probe| probe.children("/locks/a").is_empty()).await;
        other.release().await.unwrap();
    });
}

#[test]
fn opposite_orders_of_locks_do_not_deadlock() {
    simulated_with(async |_server, zk| {
        let mut tasks = tokio::task::JoinSet::new();
        for paths in
            [["/locks/a", "/locks/b"], ["/locks/b", "/locks/a"]].into_iter().cycle().take(20)
        {
            let both = InterProcessMultiLock::of_mutexes(&zk, paths);
            tasks.spawn(async move { both.acquire().await.unwrap().release().await.unwrap() });
        }
        tasks.join_all().await;
    });
}

#[test]
fn a_transaction_is_fenced_by_all_locks() {
    simulated_with(async |_server, zk| {
        let both = InterProcessMultiLock::of_mutexes(&zk, ["/locks/a", "/locks/b"]);
        let guard = both.acquire().await.unwrap();
        guard.fenced().create("/in-time", "").commit().await.unwrap();
        let second = guard.guards().nth(1).unwrap().path().to_owned();
        zk.delete(&second).await.unwrap();
        let error = guard.fenced().create("/late", "").commit().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::OwnershipLost, second.as_str()));
        guard.lost().await;
        assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
        assert!(both.try_acquire().await.unwrap().is_some(), "the other is released");
    });
}

#[test]
fn a_session_that_ends_between_two_locks_leaves_none_held() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let holder = InterProcessMutex::new(&other, "/locks/b").acquire().await.unwrap();
        let both = InterProcessMultiLock::of_mutexes(&zk, ["/locks/a", "/locks/b"]);
        let task = tokio::spawn(async move { both.acquire().await.unwrap() });
        until(&server, |probe| probe.children("/locks/b").len() == 2).await;
        expire(&server, &zk).await;
        until(&server, |probe| probe.children("/locks/b").len() == 2).await;
        holder.release().await.unwrap();
        let guard = task.await.unwrap();
        let probe = server.probe();
        assert!(guard.guards().all(|guard| probe.exists(guard.path())), "{probe}");
    });
}

#[test]
fn an_owner_reenters_with_one_request_and_others_wait() {
    simulated_with(async |server, zk| {
        let lock = ReentrantMutex::new(&zk, LOCK);
        let outer = lock.acquire("a").await.unwrap();
        let before = server.probe().total_requests();
        let inner = lock.clone().acquire("a").await.unwrap();
        let tried = lock.try_acquire("a").await.unwrap().unwrap();
        // Whether the node still exists.
        assert_eq!(server.probe().total_requests(), before + 1);
        assert_eq!((outer.path(), *tried.owner()), (inner.path(), "a"));
        assert!(lock.try_acquire("b").await.unwrap().is_none());
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire("b").await.unwrap() }
        });
        until(&server, |probe| probe.children(LOCK).len() == 2).await;
        drop(outer);
        tried.release().await.unwrap();
        assert!(!waiting.is_finished());
        inner.release().await.unwrap();
        let other = waiting.await.unwrap();
        assert!(lock.try_acquire("a").await.unwrap().is_none());
        drop(other);
    });
}

#[test]
fn several_tasks_of_one_owner_share_one_node() {
    simulated_with(async |server, zk| {
        let holder = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let lock = ReentrantMutex::new(&zk, LOCK);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let lock = lock.clone();
            tasks.spawn(async move { lock.acquire(7).await.unwrap() });
        }
        until(&server, |probe| probe.watches().len() == 2).await;
        assert!(lock.try_acquire(7).await.unwrap().is_none(), "it may have to wait");
        holder.release().await.unwrap();
        let guards = tasks.join_all().await;
        assert!(guards.iter().all(|guard| guard.path() == guards[0].path()));
        assert_eq!(server.probe().requests(OpCode::Create2), 2 + 1, "{}", server.probe());
    });
}

#[test]
fn an_owner_that_has_lost_the_lock_acquires_it_again() {
    simulated_with(async |server, zk| {
        let lock = ReentrantMutex::new(&zk, LOCK);
        let old = lock.acquire(1).await.unwrap();
        expire(&server, &zk).await;
        old.lost().await;
        let new = lock.acquire(1).await.unwrap();
        assert!(new.fencing_token() > old.fencing_token());
        assert!(matches!(old.release().await, Ok(()) | Err(Error::Lost { .. })));
        new.fenced().create("/mine", "").commit().await.unwrap();
        new.release().await.unwrap();
    });
}

#[test]
fn the_lock_is_passed_on_within_the_process_for_so_many_turns() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(3, Duration::MAX);
        let first = lock.acquire().await.unwrap();
        let nodes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let inside = Arc::new(AtomicUsize::new(1));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..9 {
            let (lock, nodes, inside) = (lock.clone(), Arc::clone(&nodes), Arc::clone(&inside));
            tasks.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                nodes.lock().unwrap().push(guard.path().to_owned());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            });
        }
        while lock.waiting() < 9 {
            tokio::task::yield_now().await;
        }
        let before = server.probe();
        // Another process waits too: it gets its turn after three.
        let other = connected(&server).await;
        let other =
            tokio::spawn(
                async move { InterProcessMutex::new(&other, LOCK).acquire().await.unwrap() },
            );
        until(&server, |probe| probe.children(LOCK).len() == 2).await;
        nodes.lock().unwrap().push(first.path().to_owned());
        inside.store(0, Ordering::SeqCst);
        first.release().await.unwrap();
        let other = other.await.unwrap();
        assert_eq!(nodes.lock().unwrap().len(), 4);
        other.release().await.unwrap();
        tasks.join_all().await;
        let nodes = nodes.lock().unwrap();
        assert!(
            nodes.chunks(4).all(|turns| turns.iter().all(|node| *node == turns[0])),
            "{nodes:?}"
        );
        // Three nodes for ten turns, and one of the other process.
        assert_eq!(server.probe().requests(OpCode::Create2) - before.requests(OpCode::Create2), 3);
    });
}

#[test]
fn a_holder_that_passed_the_lock_on_cannot_write() {
    simulated_with(async |_server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(1, Duration::MAX);
        let first = lock.acquire().await.unwrap();
        let next = waiter(&lock).await;
        let old = first.ownership().clone();
        drop(first);
        let next = next.await.unwrap();
        assert_eq!(old.path(), next.path());
        old.lost().await;
        let error = old.fenced().create("/late", "").commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OwnershipLost);
        next.fenced().create("/mine", "").commit().await.unwrap();
    });
}

#[test]
fn a_lock_passed_to_one_that_gives_up_goes_on_to_the_next() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(5, Duration::MAX);
        let first = lock.acquire().await.unwrap();
        let mut impatient = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut impatient).is_pending());
        let mut patient = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut patient).is_pending());
        // It is handed to the first waiter, which no longer polls.
        drop(first);
        drop(impatient);
        patient.await.unwrap().release().await.unwrap();
        until(&server, |probe| probe.children(LOCK).is_empty()).await;
        assert!(lock.try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn a_lock_that_is_lost_is_not_passed_on() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(5, Duration::MAX);
        let first = lock.acquire().await.unwrap();
        let next = waiter(&lock).await;
        expire(&server, &zk).await;
        first.lost().await;
        assert!(matches!(first.release().await, Err(Error::Lost { .. })));
        let next = next.await.unwrap();
        assert!(server.probe().exists(next.path()));
    });
}

/// An operator has deleted the node of a process that seemed stuck, and another client holds the
/// lock now.
#[test]
fn a_deleted_lock_is_neither_passed_on_nor_reentered() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let passing = InterProcessMutex::new(&zk, LOCK).local_batch(5, Duration::MAX);
        let again = ReentrantMutex::new(&zk, "/locks/again");
        for by_transaction in [false, true] {
            let first = passing.acquire().await.unwrap();
            let outer = again.acquire("me").await.unwrap();
            for path in [first.path(), outer.path()] {
                zk.delete(path).await.unwrap();
            }
            let foreign = InterProcessMutex::new(&other, LOCK).acquire().await.unwrap();
            if by_transaction {
                for fenced in [first.fenced(), outer.fenced()] {
                    let error = fenced.create("/x", "").commit().await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::OwnershipLost);
                }
            } else {
                first.lost().await;
                outer.lost().await;
            }
            let mut next = Box::pin(passing.acquire());
            assert!(futures_util::poll!(&mut next).is_pending());
            drop(first);
            assert!(timeout(Duration::from_secs(5), &mut next).await.is_err(), "two hold the lock");
            let inner = again.acquire("me").await.unwrap();
            assert_ne!(inner.path(), outer.path());
            drop((inner, outer));
            foreign.release().await.unwrap();
            next.await.unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn a_reentrant_lock_runs_a_body_and_lists_its_holder() {
    simulated_with(async |server, zk| {
        let lock = ReentrantMutex::new(&zk, LOCK).label("me");
        let outer = lock.acquire("job").await.unwrap();
        let body = |held: zk_curator::Ownership| async move { held.path().to_owned() };
        assert_eq!(lock.with("job", body).await.unwrap(), outer.path());
        assert!(server.probe().exists(outer.path()));
        let holders = lock.participants().await.unwrap();
        assert_eq!((holders.len(), &holders[0].label[..]), (1, &b"me"[..]));
        outer.release().await.unwrap();
        lock.with("job", |_| async {}).await.unwrap();
        until(&server, |probe| probe.children(LOCK).is_empty()).await;
    });
}

/// By any name whatsoever a lock is granted, or refused with an error: it does not go round and
/// round.
#[test]
fn an_odd_lock_name_is_granted_and_a_nested_one_refused() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK);
        for name in ["", "0", "lock-1", "-", "00000"] {
            let lock = lock.clone().lock_name(name);
            let guard = timeout(Duration::from_secs(5), lock.acquire()).await.unwrap().unwrap();
            assert!(lock.try_acquire().await.unwrap().is_none(), "{name:?}");
            guard.release().await.unwrap();
        }
        for name in ["a/b", "/", "a/"] {
            let refused = timeout(Duration::from_secs(5), lock.clone().lock_name(name).acquire())
                .await
                .unwrap();
            assert_eq!(
                refused.unwrap_err().to_string(),
                format!("{name:?} is not a valid name for the nodes of the lock {LOCK}")
            );
        }
        until(&server, |probe| probe.children(LOCK).is_empty()).await;
    });
}

/// kazoo's `Lock` names its nodes `<hex>__lock__<number>`, and counts ours with
/// `extra_lock_patterns=["-lock-"]`.
#[test]
fn nodes_of_other_names_count_when_they_are_said_to() {
    simulated_with(async |_server, zk| {
        zk.create(LOCK).creating_parents().await.unwrap();
        let foreign = zk
            .create(format!("{LOCK}/00ff00ff00ff00ff00ff00ff00ff00ff__lock__"))
            .mode(CreateMode::EphemeralSequential)
            .await
            .unwrap();
        let lock = InterProcessMutex::new(&zk, LOCK);
        drop(lock.try_acquire().await.unwrap().unwrap());
        let lock = lock.extra_lock_patterns(["__lock__"]);
        assert!(lock.try_acquire().await.unwrap().is_none());
        zk.delete(foreign.path).await.unwrap();
        let guard = lock.clone().lock_name("turn-").acquire().await.unwrap();
        assert!(guard.path().contains("-turn-00000"), "{}", guard.path());
        guard.release().await.unwrap();
    });
}

/// A kazoo `Lock` creates its parent once: a container that the servers removed would break it
/// permanently.
#[test]
fn a_lock_that_is_shared_with_kazoo_has_a_parent_that_stays() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, "/locks/shared").with_kazoo().lock_name("__lock__");
        lock.acquire().await.unwrap().release().await.unwrap();
        let kazoos = zk
            .create("/locks/shared/00ff00ff00ff00ff00ff00ff00ff00ff__lock__")
            .mode(CreateMode::EphemeralSequential)
            .await
            .unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        zk.delete(kazoos.path).await.unwrap();
        let plain = InterProcessMutex::new(&zk, "/locks/shared").acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        plain.release().await.unwrap();
        assert!(server.reap_containers().is_empty());
        assert!(lock.try_acquire().await.unwrap().is_some());
    });
}

/// kazoo #732: an acquire that does not wait left its node behind when the connection broke, and
/// the lock was stuck. kazoo #429: the same of semaphores.
#[test]
fn kazoo_732_a_try_that_is_interrupted_leaves_no_node() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        type Make = fn(&CuratorFramework) -> Arc<dyn InterProcessLock>;
        let locks: [Make; 3] = [
            |zk| Arc::new(InterProcessMutex::new(zk, LOCK)),
            |zk| Arc::new(InterProcessReadWriteLock::new(zk, "/locks/shared").write_lock()),
            |zk| Arc::new(InterProcessSemaphoreMutex::new(zk, "/locks/one")),
        ];
        for make in locks {
            let holder = make(&other).acquire().await.unwrap();
            for opcode in [OpCode::Create2, OpCode::GetChildren2, OpCode::Delete] {
                for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
                    let lost = once(&server, opcode, verdict);
                    assert!(make(&zk).try_acquire().await.unwrap().is_none());
                    let owned = |probe: &Probe| {
                        probe.session(session_id(&zk).get()).unwrap().ephemerals.len()
                    };
                    until(&server, |probe| lost.hits() == 1 && owned(probe) == 0).await;
                }
            }
            holder.release().await.unwrap();
            assert!(make(&zk).try_acquire().await.unwrap().is_some());
        }
    });
}
