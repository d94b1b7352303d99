//! Operations with an id are counted once, whichever client repeats them.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use zk_curator::{Acl, ConnectionState, CuratorFramework, ErrorKind, Permissions};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::counter::{CountDownLatch, DistributedAtomicLong, Error, OnMissing, Once};
use zk_curator_testing::wait::{settled, spend};
use zk_curator_testing::{Probe, TestServer, Verdict};
use zk_curator_tests::{
    cut_at_next_write, expire, join_all, once_on_write_multi, rule_if, session_id, simulated_each,
    simulated_on, simulated_with, try_join_all, two_in_memory, until_state,
};

const PATH: &str = "/counters/orders";

fn records(probe: &Probe) -> Vec<String> {
    let directory = format!("{PATH}/_o");
    let buckets = probe.children(&directory);
    let of = |bucket: &str| probe.children(&format!("{directory}/{bucket}"));
    buckets.into_iter().flat_map(of).map(str::to_owned).collect()
}

fn counted(server: &TestServer) -> i64 {
    let data = server.probe().data(PATH).unwrap();
    i64::from_be_bytes(data[..].try_into().unwrap())
}

#[test]
fn an_id_is_counted_once_whichever_client_repeats_it() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        let Once::Applied(change) = counter.add_once("order-1", 5).await.unwrap() else {
            panic!("not the first")
        };
        assert_eq!((change.pre, change.post), (0, 5));
        counter.increment().await.unwrap();
        for zk in [&zk, &other] {
            let again = DistributedAtomicLong::new(zk, PATH).add_once("order-1", 5).await.unwrap();
            assert_eq!(again, Once::Before(change));
        }
        expire(&server, &other).await;
        let theirs = DistributedAtomicLong::new(&other, PATH);
        assert_eq!(theirs.add_once("order-1", 99).await.unwrap().into_inner(), change);
        assert_eq!(theirs.add_once("order-2", 1).await.unwrap().into_inner().post, 7);
        assert_eq!(counter.get().await.unwrap(), 7);
    });
}

#[test]
fn a_lost_reply_counts_an_id_once() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        for n in 1..=20 {
            let _lost = once_on_write_multi(&server, verdict);
            assert_eq!(counter.add_once(&n.to_string(), 1).await.unwrap().into_inner().post, n);
        }
        assert_eq!(counted(&server), 20);
    });
}

#[test]
fn an_id_is_repeated_in_the_next_session_by_itself() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.add_once("second", 1).await.unwrap();
        // Its bucket stays, so that the next write counts it.
        let directory = format!("{PATH}/_o");
        let bucket = format!("{directory}/{}", server.probe().children(&directory)[0]);
        zk.delete(format!("{bucket}/second")).await.unwrap();
        let cut = cut_at_next_write(&server, &zk, verdict);
        let (added, ()) = tokio::join!(counter.add_once("second", 1), async {
            until_state(&zk, ConnectionState::Suspended).await;
            assert_eq!(counted(&server) == 2, verdict == Verdict::LoseReply);
            expire(&server, &zk).await;
            drop(cut);
        });
        let added = added.unwrap();
        assert_eq!(matches!(added, Once::Before(_)), verdict == Verdict::LoseReply, "{added:?}");
        assert_eq!((added.into_inner().post, counted(&server)), (2, 2));
    });
}

#[test]
fn many_ids_at_once_share_writes_and_are_counted_once() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let both = [&zk, &other].map(|zk| DistributedAtomicLong::new(zk, PATH));
        // Each id twice in each of two processes, among other operations.
        let adds = both.iter().flat_map(|counter| {
            (0..300)
                .map(move |n| async move { counter.add_once(&format!("id-{}", n % 150), 1).await })
        });
        let (added, increments) =
            tokio::join!(try_join_all(adds), try_join_all((0..50).map(|_| both[0].increment())),);
        let applied =
            added.unwrap().into_iter().filter(|once| matches!(once, Once::Applied(_))).count();
        assert_eq!((applied, increments.unwrap().len()), (150, 50));
        assert_eq!(both[0].get().await.unwrap(), 200);
        assert_eq!(records(&server.probe()).len(), 150);
    });
}

/// Old records are deleted after every 64 operations.
#[test]
fn a_refused_cleaning_is_reported_once() {
    simulated_with(async |server, zk| {
        let mut errors = zk.background_errors();
        let refused = rule_if(
            &server,
            |request| {
                let lists = request.is(OpCode::GetChildren2);
                lists && request.paths().any(|path| path.contains("/_o/"))
            },
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        let counter = DistributedAtomicLong::new(&zk, PATH);
        for number in 0..300 {
            counter.add_once(format!("id-{number}"), 1).await.unwrap();
        }
        settled().await;
        assert!(refused.hits() > 2, "{} hits", refused.hits());
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
    });
}

#[test]
fn a_counter_without_a_node_is_created_with_its_first_id() {
    simulated_with(async |server, zk| {
        let counter =
            DistributedAtomicLong::builder(&zk, PATH).initial(10).without_receipts().build();
        let ids = ["a", "b", "a"].map(|id| counter.add_once(id, 1));
        let posts: Vec<_> = try_join_all(ids)
            .await
            .unwrap()
            .into_iter()
            .map(|once| once.into_inner().post)
            .collect();
        assert_eq!(posts, [11, 12, 11]);
        // The deletion also removes the records of earlier increments.
        zk.delete(PATH).deleting_children().await.unwrap();
        let strict = DistributedAtomicLong::builder(&zk, PATH).on_missing(OnMissing::Fail).build();
        let error = strict.add_once("a", 1).await.unwrap_err();
        assert!(matches!(error, Error::Missing { .. }), "{error:?}");
        assert_eq!(counter.add_once("a", 1).await.unwrap().into_inner().post, 11);
        assert_eq!(records(&server.probe()), ["a"]);
    });
}

#[test]
fn an_invalid_id_is_refused_and_disturbs_no_other_call() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        let long = "x".repeat(1025);
        for id in ["", "a/b", ".", "..", "\0", &long] {
            let Error::Framework(error) = counter.add_once(id, 1).await.unwrap_err() else {
                panic!("{id:?}")
            };
            assert!(
                matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::InvalidPath),
                "{error:?}"
            );
        }
        assert_eq!(server.probe().children("/").len(), 1, "nothing was sent");
        // Names that only look special.
        for id in ["..a", "_o", "a b", "ä"] {
            counter.add_once(id, 1).await.unwrap();
        }
        assert_eq!(counter.get().await.unwrap(), 4);
    });
}

#[test]
fn forbidden_records_fail_no_other_call() {
    simulated_with(async |_server, zk| {
        let no_children = Acl::new(Permissions::READ | Permissions::WRITE, "world", "anyone");
        let data = Bytes::copy_from_slice(&0_i64.to_be_bytes());
        zk.create(PATH).creating_parents().data(data).acl(vec![no_children]).await.unwrap();
        let counter = DistributedAtomicLong::builder(&zk, PATH).without_receipts().build();
        let (once, plain) = tokio::join!(counter.add_once("id", 1), counter.increment());
        let Error::Framework(error) = once.unwrap_err() else { panic!("another error") };
        assert_eq!((error.kind(), plain.unwrap()), (ErrorKind::NoAuth, 1));
        assert_eq!(counter.get().await.unwrap(), 1);
    });
}

#[test]
fn an_overflow_leaves_no_record() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.set(i64::MAX).await.unwrap();
        let error = counter.add_once("id", 1).await.unwrap_err();
        assert!(matches!(error, Error::Overflow { .. }), "{error:?}");
        assert!(records(&server.probe()).is_empty());
        counter.set(0).await.unwrap();
        assert!(matches!(counter.add_once("id", 1).await.unwrap(), Once::Applied(_)));
    });
}

#[test]
fn old_records_are_deleted_and_young_ones_kept() {
    simulated_with(async |server, zk| {
        let keep = Duration::from_secs(60);
        let counter = DistributedAtomicLong::builder(&zk, PATH).keep_records(keep).build();
        for round in 0..20 {
            for n in 0..64 {
                counter.add_once(&format!("{round}-{n}"), 1).await.unwrap();
            }
            spend(keep / 2).await;
        }
        let names = records(&server.probe());
        assert!(names.len() < 20 * 64, "{}", names.len());
        // The last two rounds are younger than a minute.
        for round in [18, 19] {
            let of = |name: &&String| name.starts_with(&format!("{round}-"));
            assert_eq!(names.iter().filter(of).count(), 64);
        }
        assert_eq!(counted(&server), 20 * 64);
    });
}

fn latch(zk: &CuratorFramework) -> CountDownLatch {
    CountDownLatch::new(zk, PATH, 3)
}

#[test]
fn a_latch_opens_for_all_after_its_last_arrival() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let (here, there) = (latch(&zk), latch(&other));
        assert_eq!(here.count().await.unwrap(), 3);
        let waits = join_all([&here, &there, &here].map(CountDownLatch::wait));
        let (waited, ()) = tokio::join!(waits, async {
            assert_eq!(there.count_down().await.unwrap(), 2);
            assert_eq!(here.count_down_once("worker").await.unwrap(), 1);
            assert_eq!(there.count_down_once("worker").await.unwrap(), 1);
            // The waiters are cut off, and one of them loses its session.
            server.disconnect(session_id(&zk).get());
            expire(&server, &other).await;
            assert_eq!(there.count_down_once("another").await.unwrap(), 0);
        });
        assert!(waited.iter().all(Result::is_ok), "{waited:?}");
        // It stays open, and costs no write.
        let version = server.probe().stat(PATH).unwrap().version;
        assert_eq!(here.count_down().await.unwrap(), 0);
        assert_eq!(here.count_down_once("late").await.unwrap(), 0);
        assert_eq!(server.probe().stat(PATH).unwrap().version, version);
        latch(&zk).wait().await.unwrap();
    });
}

#[test]
fn lost_replies_open_no_latch_too_early() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let latch = latch(&zk);
        for missing in [2, 1, 0] {
            let _lost = once_on_write_multi(&server, verdict);
            assert_eq!(latch.count_down().await.unwrap(), missing, "{verdict:?}");
        }
        latch.wait().await.unwrap();
    });
}
