//! Ids in blocks: waiting callers, in an outage and without a runtime.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator_proto::OpCode;
use zk_curator_recipes::counter::{DistributedAtomicLong, Error, IdBlocks};
use zk_curator_testing::TestServer;
use zk_curator_tests::{builder, join_all, poll_then_drop, real_time, simulated_with};

const PATH: &str = "/ids/orders";

#[test]
fn all_waiters_get_an_outage_immediately() {
    simulated_with(async |server, zk| {
        let ids = IdBlocks::new(&DistributedAtomicLong::new(&zk, PATH), 10);
        server.stop().await;
        let began = Instant::now();
        let waits = (0..50).map(async |_| (ids.next().await, began.elapsed()));
        let told = join_all(waits).await;
        let first = told[0].1;
        for (error, at) in told {
            assert!(matches!(error, Err(Error::Framework(_))), "{error:?}");
            assert_eq!(at, first);
        }
        assert!(first < Duration::from_secs(60), "{first:?}");
        server.restart().await.unwrap();
        zk.wait_connected().await.unwrap();
        assert!(ids.next().await.is_ok());
    });
}

#[test]
fn a_thread_without_a_runtime_may_ask_for_an_id() {
    real_time(async {
        let server = TestServer::in_memory().await;
        let zk = builder(&server).build().unwrap();
        let ids = IdBlocks::new(&DistributedAtomicLong::new(&zk, PATH), 10);
        let elsewhere = |ids: &IdBlocks| {
            let ids = ids.clone();
            std::thread::spawn(move || ids.try_next()).join().expect("it does not panic")
        };
        assert_eq!(elsewhere(&ids), None);
        zk.start().await.unwrap();
        assert_eq!(elsewhere(&ids), None);
        // Its reservation is under way, on the runtime of the framework.
        let next = ids.next();
        assert_eq!(
            timeout(Duration::from_secs(30), next).await.expect("it does not hang").unwrap(),
            1
        );
        assert_eq!(server.probe().requests(OpCode::SetData), 0);
        assert_eq!(elsewhere(&ids), Some(2));
    });
}

#[test]
fn several_ids_are_taken_together() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        let ids = IdBlocks::new(&counter, 10);
        assert!(ids.take(0).await.unwrap().is_empty());
        assert_eq!(server.probe().requests(OpCode::Multi), 0, "nothing was sent");
        // More than a block, in one reservation.
        assert_eq!(ids.take(25).await.unwrap(), (1..=25).collect::<Vec<_>>());
        let taken = join_all((0..20).map(|_| ids.take(7))).await;
        let mut all: Vec<i64> = taken.into_iter().flat_map(Result::unwrap).collect();
        all.sort_unstable();
        assert_eq!(all, (26..=165).collect::<Vec<_>>());
        // A caller that gives up takes none.
        let mut taken = 165;
        for step in 0..20 {
            if let Some(ids) = poll_then_drop(ids.take(40), step).await {
                assert_eq!(ids.unwrap(), (taken + 1..=taken + 40).collect::<Vec<_>>());
                taken += 40;
            }
        }
        assert_eq!(ids.next().await.unwrap(), taken + 1);
        let writes = server.probe().requests(OpCode::Multi);
        assert!(writes < 50, "{writes}");
    });
}
