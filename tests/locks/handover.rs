//! [`HandoverMutex`]: handovers and their order.

use std::time::Duration;

use tokio::task::JoinSet;
use zk_curator::{ConnectionState, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::lock::{HandoverGuard, InterProcessMutex};
use zk_curator_testing::wait::{idle, past, settled};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{connected, expire, once, simulated_each, simulated_with, until_state};

const LOCK: &str = "/locks/orders";

/// The lock is passed on while its session is alive, and the next task is polled after the session
/// has ended.
#[test]
fn pass_of_a_session_that_has_ended_is_not_granted() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(5, Duration::MAX);
        let first = lock.acquire().await.unwrap();
        let node = first.path().to_owned();
        let mut next = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(first);
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Lost).await;
        let next = next.await.unwrap();
        assert!(!next.ownership().is_over());
        assert_ne!(next.path(), node);
        assert!(server.probe().exists(next.path()));
        next.fenced().create("/mine", "").commit().await.unwrap();
    });
}

/// The turns are counted from zero for the node that replaces the lost one.
#[test]
fn turns_begin_again_with_the_next_node() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(1, Duration::MAX);
        let first = lock.acquire().await.unwrap();
        let mut second = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Lost).await;
        let second = second.await.unwrap();
        let mut third = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut third).is_pending());
        let node = second.path().to_owned();
        drop(second);
        let third = tokio::time::timeout(Duration::from_secs(1), third).await.unwrap().unwrap();
        assert_eq!(third.path(), node, "one turn may be passed on");
    });
}

/// A waiter of the process, polled once.
macro_rules! waiting {
    ($lock:expr) => {{
        let mut waiter = Box::pin($lock.acquire());
        assert!(futures_util::poll!(&mut waiter).is_pending());
        waiter
    }};
}

#[test]
fn a_batch_ends_by_its_time_and_begins_with_the_holder() {
    simulated_with(async |server, zk| {
        let within = Duration::from_secs(2);
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(u32::MAX, within);
        let first = lock.acquire().await.unwrap();
        let (second, third) = (waiting!(lock), waiting!(lock));
        idle(within - Duration::from_millis(1)).await;
        let node = first.path().to_owned();
        first.release().await.unwrap();
        let second = second.await.unwrap();
        assert_eq!((second.path(), second.local_token().turn), (&*node, 1));
        past(Duration::from_millis(1)).await;
        second.release().await.unwrap();
        let third = third.await.unwrap();
        assert_ne!(third.path(), node);
        assert_eq!(third.local_token().turn, 0);
        assert_eq!(server.probe().children(LOCK).len(), 1);
        // The time of the next batch begins now.
        let fourth = waiting!(lock);
        third.release().await.unwrap();
        assert_eq!(fourth.await.unwrap().local_token().turn, 1);
    });
}

#[test]
fn local_tokens_grow_within_a_process_and_between_two() {
    simulated_with(async |server, zk| {
        let other = connected(&server).await;
        let [one, two] =
            [&zk, &other].map(|zk| InterProcessMutex::new(zk, LOCK).local_batch(1, Duration::MAX));
        let mut tokens = Vec::new();
        let first = one.acquire().await.unwrap();
        tokens.push(first.local_token());
        let (second, foreign) = (waiting!(one), two.acquire());
        first.release().await.unwrap();
        let second = second.await.unwrap();
        tokens.push(second.local_token());
        assert_eq!(tokens[0].fencing_token, tokens[1].fencing_token);
        second.release().await.unwrap();
        let foreign = foreign.await.unwrap();
        tokens.push(foreign.local_token());
        foreign.release().await.unwrap();
        tokens.push(one.acquire().await.unwrap().local_token());
        assert!(tokens.is_sorted_by(|one, two| one < two), "{tokens:?}");
    });
}

/// The transaction waits for a connection while the lock is passed on, and is sent before those of
/// the next holder.
#[test]
fn a_write_begun_before_the_handover_is_applied_before_it() {
    simulated_with(async |server, zk| {
        zk.create("/value").data("0").await.unwrap();
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(1, Duration::MAX);
        let first = lock.acquire().await.unwrap();
        let next = waiting!(lock);
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        let write = |guard: &HandoverGuard, value: &'static str| {
            tokio::spawn(guard.fenced().set_data("/value", value).commit())
        };
        let early = write(&first, "first");
        // It is queued in the client.
        settled().await;
        let late = first.ownership().fenced().set_data("/value", "late");
        first.release().await.unwrap();
        assert_eq!(late.commit().await.unwrap_err().kind(), ErrorKind::OwnershipLost);
        server.restart().await.unwrap();
        let next = next.await.unwrap();
        write(&next, "second").await.unwrap().unwrap();
        drop(early.await.unwrap());
        assert_eq!(&zk.get_data("/value").await.unwrap()[..], b"second");
        next.release().await.unwrap();
    });
}

/// Tasks on several threads write while they pass the lock on. No write of a holder is applied
/// after one of its successor.
#[test]
fn writes_of_many_threads_follow_the_order_of_the_holders() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = TestServer::start().await;
        let zk = connected(&server).await;
        zk.create("/holder").await.unwrap();
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(u32::MAX, Duration::MAX);
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let (zk, lock) = (zk.clone(), lock.clone());
            tasks.spawn(async move {
                for _ in 0..100 {
                    let guard = lock.acquire().await.unwrap();
                    let holder = format!("{:?}", guard.local_token());
                    let ownership = guard.ownership().clone();
                    let write = || ownership.fenced().set_data("/holder", holder.clone()).commit();
                    write().await.unwrap();
                    assert_eq!(zk.get_data("/holder").await.unwrap(), holder.as_bytes());
                    // Begins at the same time as the handover, on another thread.
                    let racing = tokio::spawn(write());
                    guard.release().await.unwrap();
                    let refused = racing.await.unwrap().err().map(|error| error.kind());
                    assert!(
                        matches!(refused, None | Some(ErrorKind::OwnershipLost)),
                        "{refused:?}"
                    );
                }
            });
        }
        tasks.join_all().await;
        zk.close().await.unwrap();
    });
}

/// A transaction of the holder before finds the node gone while the lock is passed on.
#[test]
fn a_lock_that_is_known_to_be_gone_is_not_passed_on() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(5, Duration::MAX);
        let first = lock.acquire().await.unwrap();
        let node = first.path().to_owned();
        let next = waiting!(lock);
        server.remove(&node).unwrap();
        let late = once(&server, OpCode::Multi, Verdict::Delay(Duration::from_secs(1)));
        let write = tokio::spawn(first.fenced().create("/late", "").commit());
        settled().await;
        first.release().await.unwrap();
        assert_eq!(write.await.unwrap().unwrap_err().kind(), ErrorKind::OwnershipLost);
        assert_eq!(late.hits(), 1);
        let next = next.await.unwrap();
        assert_ne!(next.path(), node);
        next.fenced().create("/mine", "").commit().await.unwrap();
    });
}

/// An operator deletes the node before the first handover, after it, or while the connection is
/// lost; another process acquires the lock.
#[test]
fn a_lock_whose_node_was_deleted_is_not_passed_on() {
    simulated_each([0, 1, 2], async |handovers, server, zk| {
        let other = connected(&server).await;
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(u32::MAX, Duration::MAX);
        let mut held = lock.acquire().await.unwrap();
        let node = held.path().to_owned();
        for _ in 0..handovers {
            let next = waiting!(lock);
            held.release().await.unwrap();
            held = next.await.unwrap();
        }
        if handovers == 2 {
            server.stop().await;
            until_state(&zk, ConnectionState::Suspended).await;
        }
        server.remove(&node).unwrap();
        if handovers == 2 {
            server.restart().await.unwrap();
        }
        let foreign = InterProcessMutex::new(&other, LOCK).acquire().await.unwrap();
        let former = held.ownership().clone();
        let (next, last) = (waiting!(lock), waiting!(lock));
        drop(held);
        assert!(tokio::time::timeout(Duration::from_secs(60), next).await.is_err());
        assert!(former.is_over());
        foreign.release().await.unwrap();
        let last = last.await.unwrap();
        assert_eq!(last.local_token().turn, 0);
        assert_ne!(last.path(), node);
    });
}

/// Nothing is known of the node without a response: neither the holder's lock nor a new one is
/// granted, and the lock stays with the process.
#[test]
fn without_a_response_a_lock_is_not_passed_on() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(u32::MAX, Duration::MAX);
        let first = lock.acquire().await.unwrap();
        let node = first.path().to_owned();
        let (second, third) = (waiting!(lock), waiting!(lock));
        let refused = once(&server, OpCode::Exists, Verdict::Refuse(ErrorCode::NoAuth));
        first.release().await.unwrap();
        let refused_for = second.await.unwrap_err();
        assert!(refused_for.to_string().contains(&node), "{refused_for}");
        assert_eq!(refused.hits(), 1);
        assert_eq!(third.await.unwrap().path(), node);
    });
}

#[test]
fn the_handovers_of_a_batch_take_one_request() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(u32::MAX, Duration::MAX);
        let mut held = lock.acquire().await.unwrap();
        let requests = server.probe().total_requests();
        for turn in 1..=100 {
            let next = waiting!(lock);
            held.release().await.unwrap();
            held = next.await.unwrap();
            assert_eq!(held.local_token().turn, turn);
            assert_eq!(server.probe().total_requests(), requests + 1);
        }
        // The data have changed: somebody asks for the lock, or an operator edits the node.
        zk.set_data(held.path(), "mine").await.unwrap();
        let requests = server.probe().total_requests();
        for _ in 0..2 {
            let next = waiting!(lock);
            held.release().await.unwrap();
            held = next.await.unwrap();
            assert_eq!(server.probe().total_requests(), requests + 1);
        }
    });
}
