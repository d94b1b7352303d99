//! Shared values and counts, and ids in blocks.

use zk_curator_proto::OpCode;
use zk_curator_recipes::counter::{DistributedAtomicLong, IdBlocks};
use zk_curator_recipes::lock::InterProcessSemaphore;
use zk_curator_recipes::shared::{Error, SharedCount, SharedValue, ValueEvent, ValueWatch};
use zk_curator_testing::Verdict;
use zk_curator_tests::{
    join_all, once_on_write_multi, session_id, simulated_each_on, simulated_on, simulated_with,
    try_join_all, two_in_memory, until,
};

const PATH: &str = "/shared/value";

async fn next(watch: &mut ValueWatch<String>) -> String {
    match watch.next().await.expect("it keeps running") {
        ValueEvent::Value(value) => value.value,
        ValueEvent::Absent => "absent".into(),
        ValueEvent::Stale => "stale".into(),
        ValueEvent::Fresh => "fresh".into(),
        other => format!("{other:?}"),
    }
}

#[test]
fn own_writes_are_read_at_once_and_others_are_reported() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let ours = SharedValue::open(&zk, PATH, &"seed".to_owned()).await.unwrap();
        let theirs = SharedValue::open(&other, PATH, &"another seed".to_owned()).await.unwrap();
        let mut told = theirs.follow();
        assert_eq!(next(&mut told).await, "seed");
        ours.set(&"one".into()).await.unwrap();
        assert_eq!(ours.get().unwrap().unwrap().value, "one");
        assert_eq!(next(&mut told).await, "one");
        let seen = theirs.get().unwrap().unwrap();
        assert!(ours.try_set(&seen, &"two".into()).await.unwrap());
        assert!(!theirs.try_set(&seen, &"three".into()).await.unwrap());
        assert_eq!(next(&mut told).await, "two");
    });
}

#[test]
fn shared_value_survives_delete_and_recreate() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let value = SharedValue::open(&zk, PATH, &"seed".to_owned()).await.unwrap();
        let mut told = value.follow();
        assert_eq!(next(&mut told).await, "seed");
        other.delete(PATH).await.unwrap();
        assert_eq!(next(&mut told).await, "absent");
        assert!(value.get().unwrap().is_none());
        other.create(PATH).data("again").await.unwrap();
        assert_eq!(next(&mut told).await, "again");
        other.delete(PATH).await.unwrap();
        value.set(&"ours".into()).await.unwrap();
        assert_eq!(value.get().unwrap().unwrap().value, "ours");
    });
}

#[test]
fn no_event_without_a_change_at_reconnect() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let value = SharedValue::open(&zk, PATH, &"seed".to_owned()).await.unwrap();
        let mut told = value.follow();
        assert_eq!(next(&mut told).await, "seed");
        for _ in 0..3 {
            server.disconnect(session_id(&zk).get());
            assert_eq!(
                (next(&mut told).await, next(&mut told).await),
                ("stale".into(), "fresh".into())
            );
        }
        other.set_data(PATH, "new").await.unwrap();
        assert_eq!(next(&mut told).await, "new");
    });
}

#[test]
fn after_a_lost_response_exactly_one_of_two_has_won() {
    let cases = [Verdict::LoseReply, Verdict::LoseRequest];
    simulated_each_on(cases, two_in_memory, async |verdict, (server, zk, other)| {
        let values = try_join_all([&zk, &other].map(|zk| SharedValue::open(zk, PATH, &0_i64)))
            .await
            .unwrap();
        for round in 1..20 {
            let seen = [values[0].get().unwrap().unwrap(), values[1].get().unwrap().unwrap()];
            assert_eq!(seen[0], seen[1]);
            let _lost = once_on_write_multi(&server, verdict);
            let new = [10 * round, 10 * round + 1];
            let set = |index: usize| values[index].try_set(&seen[index], &new[index]);
            let won: Vec<_> =
                join_all([set(0), set(1)]).await.into_iter().map(Result::unwrap).collect();
            assert_eq!(won.iter().filter(|won| **won).count(), 1, "{verdict:?} {won:?}");
            for value in &values {
                value.cache().synced().await.unwrap();
                assert_eq!(value.get().unwrap().unwrap().value, 10 * round + i64::from(won[1]));
            }
        }
    });
}

#[test]
fn a_count_has_curators_bytes_and_limits_a_semaphore() {
    simulated_with(async |server, zk| {
        let limit = SharedCount::open(&zk, "/limits/jobs", 1).await.unwrap();
        assert_eq!(server.probe().data("/limits/jobs").unwrap()[..], [0, 0, 0, 1]);
        let semaphore = InterProcessSemaphore::with_shared_count(&zk, "/jobs", "/limits/jobs");
        let first = semaphore.acquire().await.unwrap();
        let (second, ()) = tokio::join!(semaphore.acquire(), async {
            limit.set(2).await.unwrap();
        });
        drop((first, second.unwrap()));
        let seen = limit.get().unwrap().unwrap();
        assert!(limit.try_set(&seen, 3).await.unwrap() && !limit.try_set(&seen, 4).await.unwrap());
        let mut counts = limit.follow();
        let Some(ValueEvent::Value(now)) = counts.next().await else { panic!("there is a number") };
        assert_eq!((seen.value, now.value), (2, 3));
        zk.set_data("/limits/jobs", "x").await.unwrap();
        limit.cache().synced().await.unwrap();
        assert!(matches!(limit.get(), Err(Error::Undecodable { length: 1, .. })));
    });
}

#[test]
fn ids_are_never_assigned_twice() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let blocks =
            [&zk, &other].map(|zk| IdBlocks::new(&DistributedAtomicLong::new(zk, "/ids"), 10));
        let mut seen = Vec::new();
        for round in 0..60_u32 {
            let _lost = (round % 7 == 0).then(|| once_on_write_multi(&server, Verdict::LoseReply));
            seen.extend(
                try_join_all(blocks.iter().flat_map(|ids| [ids.next(), ids.next(), ids.next()]))
                    .await
                    .unwrap(),
            );
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!((seen.len(), count), (360, 360));
        // Blocks are reserved in advance: while numbers are left, no caller waits.
        blocks[0].next().await.unwrap();
        let before = server.probe().requests(OpCode::Multi);
        assert!((0..4).all(|_| blocks[0].try_next().is_some()));
        assert!(server.probe().requests(OpCode::Multi) - before <= 1);
        zk.close().await.unwrap();
        until(&server, |probe| probe.ephemerals(session_id(&other).get()).len() <= 1).await;
    });
}
