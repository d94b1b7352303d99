//! Counters: exact whatever is lost, and few requests.

use std::time::Duration;

use bytes::Bytes;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::counter::{
    DistributedAtomicInteger, DistributedAtomicLong, Encoding, Error, IdBlocks, OnMissing,
    PromotedToLock,
};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::wait::spend;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    assert_matches, connected, cut_at_next_write, expire, in_memory, is_write_multi, join_all,
    once_on_write_multi, poll_then_drop, rule_if, session_id, simulated, simulated_each,
    simulated_on, simulated_with, try_join_all, two_in_memory, until,
};

const PATH: &str = "/counters/orders";

async fn data(zk: &CuratorFramework) -> Vec<u8> {
    zk.get_data(PATH).await.unwrap().to_vec()
}

fn receipts(server: &TestServer) -> usize {
    server.probe().children(PATH).len()
}

#[test]
fn a_hundred_increments_with_lost_responses_count_a_hundred() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        for n in 1..=100 {
            let lost = once_on_write_multi(&server, verdict);
            assert_eq!(counter.increment().await.unwrap(), n, "{verdict:?}");
            assert_eq!(lost.hits(), 1);
        }
        assert_eq!(counter.get().await.unwrap(), 100);
        assert_eq!(data(&zk).await, 100_i64.to_be_bytes());
        drop(counter);
        until(&server, |probe| probe.children(PATH).is_empty()).await;
    });
}

#[test]
fn an_increment_of_a_lone_writer_is_one_request() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.increment().await.unwrap();
        let before = server.probe().total_requests();
        for _ in 0..50 {
            counter.increment().await.unwrap();
        }
        assert_eq!(server.probe().total_requests() - before, 50);
    });
}

#[test]
fn sixty_four_tasks_need_few_requests() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.initialize(0).await.unwrap();
        let before = server.probe().total_requests();
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.extend(try_join_all((0..64).map(|_| counter.increment())).await.unwrap());
        }
        let requests = server.probe().total_requests() - before;
        assert!(requests <= 20, "{requests}");
        seen.sort_unstable();
        assert_eq!(seen, (1..=640).collect::<Vec<_>>());
    });
}

#[test]
fn writers_of_several_processes_lose_nothing() {
    simulated_with(async |server, zk| {
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(connected(&server).await);
        }
        let each = clients.iter().map(|zk| async move {
            let counter = DistributedAtomicLong::new(zk, PATH);
            let mut seen = Vec::new();
            for _ in 0..25 {
                seen.push(counter.increment().await.unwrap());
            }
            seen
        });
        let mut seen = join_all(each).await.concat();
        seen.sort_unstable();
        assert_eq!(seen, (1..=200).collect::<Vec<_>>());
        assert_eq!(DistributedAtomicLong::new(&zk, PATH).get().await.unwrap(), 200);
    });
}

#[test]
fn operations_return_the_value_that_they_found() {
    simulated_with(async |_server, zk| {
        let counter = DistributedAtomicLong::builder(&zk, PATH).initial(7).build();
        assert_eq!(counter.get().await.unwrap(), 7);
        // A counter without a node is compared by its initial value.
        let change = counter.compare_and_set(7, 8).await.unwrap().unwrap();
        assert_eq!((change.pre, change.post), (7, 8));
        assert_eq!(counter.compare_and_set(7, 9).await.unwrap(), Err(8));
        assert!(!counter.initialize(1).await.unwrap());
        assert_eq!(counter.set(-3).await.unwrap(), Some(8));
        assert_eq!(counter.subtract(-5).await.unwrap().post, 2);
        assert_eq!(counter.decrement().await.unwrap(), 1);
        // Refused because of a later write of another client, not because of the local copy.
        let other = DistributedAtomicLong::new(&zk, PATH);
        other.set(40).await.unwrap();
        assert_eq!(counter.compare_and_set(1, 2).await.unwrap(), Err(40));
        assert_eq!(counter.get_relaxed().await.unwrap(), 40);
        // No data are the initial value, as in Curator.
        zk.set_data(PATH, "").await.unwrap();
        assert_eq!(counter.increment().await.unwrap(), 8);
    });
}

#[test]
fn overflow_writes_nothing() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicInteger::new(&zk, PATH);
        counter.set(i32::MAX).await.unwrap();
        let before = server.probe().stat(PATH).unwrap().version;
        let error = counter.add(2).await.unwrap_err();
        assert_matches!(error, Error::Overflow { value: 2_147_483_647, delta: 2, .. });
        assert_eq!(server.probe().stat(PATH).unwrap().version, before);
        let wraps = DistributedAtomicInteger::builder(&zk, PATH).wrapping().build();
        assert_eq!(wraps.increment().await.unwrap(), i32::MIN);
        assert_eq!(data(&zk).await, i32::MIN.to_be_bytes());
    });
}

/// PR 478 of Curator, ZOOKEEPER-4743: versions continue below zero, and -1 would be an
/// unconditional write.
#[test]
fn versions_after_the_last_one_are_versions_too() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.set(7).await.unwrap();
        server.set_version(PATH, i32::MAX).unwrap();
        // It differs from the version that is known.
        for value in 8..11 {
            assert_eq!(counter.increment().await.unwrap(), value);
        }
        assert_eq!(zk.exists(PATH).await.unwrap().unwrap().version, i32::MIN + 2);
        server.set_version(PATH, -2).unwrap();
        assert_eq!(counter.increment().await.unwrap(), 11);
        let Err(Error::Framework(refused)) = counter.increment().await else {
            panic!("written at any version")
        };
        assert_eq!((refused.kind(), refused.path()), (ErrorKind::InvalidArgument, PATH));
        assert_eq!(counter.get().await.unwrap(), 11);
        zk.set_data(PATH, 11_i64.to_be_bytes().to_vec()).await.unwrap();
        assert_eq!(counter.increment().await.unwrap(), 12);
    });
}

#[test]
fn corrupt_data_are_named_and_kept() {
    simulated_with(async |_server, zk| {
        zk.create(PATH).creating_parents().data("seven").await.unwrap();
        let counter = DistributedAtomicLong::new(&zk, PATH);
        for error in [counter.get().await.unwrap_err(), counter.increment().await.unwrap_err()] {
            assert!(matches!(error, Error::Undecodable { length: 5, .. }), "{error:?}");
        }
        assert_eq!(data(&zk).await, b"seven");
        let text = DistributedAtomicLong::builder(&zk, PATH).encoding(Encoding::Text).build();
        zk.set_data(PATH, "41").await.unwrap();
        assert_eq!(text.increment().await.unwrap(), 42);
        assert_eq!(data(&zk).await, b"42");
    });
}

#[test]
fn a_deleted_counter_begins_again_or_fails_as_asked() {
    simulated_with(async |_server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.add(5).await.unwrap();
        let strict = DistributedAtomicLong::builder(&zk, PATH).on_missing(OnMissing::Fail).build();
        assert_eq!(strict.increment().await.unwrap(), 6);
        zk.delete(PATH).deleting_children().await.unwrap();
        let error = strict.increment().await.unwrap_err();
        assert!(matches!(error, Error::Missing { .. }), "{error:?}");
        assert!(strict.initialize(100).await.unwrap());
        assert_eq!(strict.increment().await.unwrap(), 101);
        zk.delete(PATH).deleting_children().await.unwrap();
        assert_eq!(counter.increment().await.unwrap(), 1);
    });
}

/// Its version equals the version of the known node.
#[test]
fn a_counter_that_was_replaced_is_another_one() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let replace = async |value: i64| {
            other.delete(PATH).deleting_children().await.unwrap();
            other.create(PATH).data(value.to_be_bytes().to_vec()).await.unwrap();
            server.set_version(PATH, 1).unwrap();
        };
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.set(100).await.unwrap();
        assert_eq!(counter.increment().await.unwrap(), 101);
        replace(7).await;
        assert_eq!(counter.increment().await.unwrap(), 8);
        // Between its read and its write.
        let value = DistributedAtomicLong::new(&zk, PATH);
        let late =
            once_on_write_multi(&server, Verdict::Delay(Duration::from_millis(100))).after(1);
        let add = tokio::spawn(async move { value.add(1).await });
        until(&server, |_| late.hits() == 1).await;
        replace(20).await;
        assert_eq!(add.await.unwrap().unwrap().post, 21);
    });
}

#[test]
fn the_outcome_is_unknown_only_when_the_session_has_ended() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.increment().await.unwrap();
        let cut = cut_at_next_write(&server, &zk, Verdict::LoseReply);
        let (added, ()) = tokio::join!(counter.increment(), async {
            until(&server, |probe| {
                probe.data(PATH).is_some_and(|data| data[..] == 2_i64.to_be_bytes())
            })
            .await;
            expire(&server, &zk).await;
            drop(cut);
        });
        let error = added.unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }) && error.may_have_applied(), "{error:?}");
        // It was applied, once, and the next one counts on.
        assert_eq!(counter.increment().await.unwrap(), 3);
    });
}

#[test]
fn without_receipts_a_write_is_applied_once_or_unknown() {
    simulated_each([Verdict::LoseRequest, Verdict::LoseReply], async |verdict, server, zk| {
        let counter = DistributedAtomicLong::builder(&zk, PATH).without_receipts().build();
        counter.increment().await.unwrap();
        let _lost = once_on_write_multi(&server, verdict);
        match (verdict, counter.increment().await) {
            (Verdict::LoseRequest, Ok(2)) | (Verdict::LoseReply, Err(Error::Unknown { .. })) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(counter.get().await.unwrap(), 2);
        assert_eq!(receipts(&server), 0);
    });
}

#[test]
fn a_contended_counter_gives_up_or_takes_its_lock() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create(PATH)
            .creating_parents()
            .data(Bytes::copy_from_slice(&1_i64.to_be_bytes()))
            .await
            .unwrap();
        // Another client is always faster.
        let victim = session_id(&zk).get();
        let slow = rule_if(
            &server,
            move |request| is_write_multi(request) && request.session_id() == victim,
            Verdict::Delay(Duration::from_millis(50)),
        );
        let faster = tokio::spawn({
            let other = other.clone();
            async move {
                loop {
                    other
                        .set_data(PATH, Bytes::copy_from_slice(&1_i64.to_be_bytes()))
                        .await
                        .unwrap();
                    spend(Duration::from_millis(10)).await;
                }
            }
        });
        let counter = DistributedAtomicLong::builder(&zk, PATH).retries(2).build();
        let error = counter.increment().await.unwrap_err();
        assert!(matches!(error, Error::Contended { tries: 3, .. }), "{error:?}");
        let promoted = DistributedAtomicLong::builder(&zk, PATH)
            .retries(1)
            .then_lock(PromotedToLock::new("/counters/lock", Duration::from_secs(5)))
            .build();
        let held = InterProcessMutex::new(&other, "/counters/lock").acquire().await.unwrap();
        let error = promoted.increment().await.unwrap_err();
        assert!(matches!(error, Error::LockTimeout { .. }), "{error:?}");
        held.release().await.unwrap();
        let (incremented, ()) = tokio::join!(promoted.increment(), async {
            // It has the lock, and continues.
            until(&server, |probe| !probe.children("/counters/lock").is_empty()).await;
            faster.abort();
            drop(slow);
        });
        assert_eq!(incremented.unwrap(), 2);
    });
}

#[test]
fn followers_see_the_present_value_and_every_latest_one() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        let mut values = counter.follow();
        assert_eq!(values.next().await.unwrap(), 0);
        let theirs = DistributedAtomicLong::new(&other, PATH);
        theirs.add(5).await.unwrap();
        assert_eq!(values.next().await.unwrap(), 5);
        theirs.add(1).await.unwrap();
        theirs.add(1).await.unwrap();
        assert_eq!(values.next().await.unwrap(), 7);
        zk.delete(PATH).deleting_children().await.unwrap();
        assert_eq!(values.next().await.unwrap(), 0);
        server.disconnect(session_id(&zk).get());
        theirs.set(9).await.unwrap();
        assert_eq!(values.next().await.unwrap(), 9);
    });
}

#[test]
fn a_dropped_add_is_applied_once_or_not_at_all() {
    simulated(async {
        for polls in 0..40 {
            let (server, zk) = in_memory().await;
            let counter = DistributedAtomicLong::new(&zk, PATH);
            counter.increment().await.unwrap();
            let ended = poll_then_drop(counter.increment(), polls).await;
            assert_eq!(counter.add(0).await.unwrap().post, counter.get().await.unwrap());
            let value = counter.get().await.unwrap();
            assert!((1..=2).contains(&value), "{value}");
            drop(counter);
            until(&server, |probe| probe.children(PATH).is_empty()).await;
            if ended.is_some() {
                assert_eq!(value, 2);
                return;
            }
        }
        panic!("it never ends");
    });
}

#[test]
fn mistakes_are_refused() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, "no-slash");
        let Error::Framework(error) = counter.increment().await.unwrap_err() else {
            panic!("another error")
        };
        assert_eq!(error.kind(), ErrorKind::InvalidPath);
        let narrow = DistributedAtomicLong::builder(&zk, PATH).encoding(Encoding::I32Be).build();
        assert!(narrow.set(1 << 40).await.is_err());
        assert_eq!(server.probe().requests(OpCode::SetData), 0);
        let counter = DistributedAtomicLong::new(&zk, PATH);
        zk.close().await.unwrap();
        let Error::Framework(error) = counter.increment().await.unwrap_err() else {
            panic!("another error")
        };
        assert_eq!(error.kind(), ErrorKind::Closed);
    });
}

#[test]
fn blocks_of_every_size_are_reserved() {
    simulated_with(async |_server, zk| {
        for size in 0..5 {
            let counter = DistributedAtomicLong::new(&zk, format!("/ids/{size}"));
            let ids = IdBlocks::new(&counter, size);
            for id in 1..10 {
                assert_eq!(ids.next().await.unwrap(), id, "blocks of {size}");
            }
        }
    });
}
