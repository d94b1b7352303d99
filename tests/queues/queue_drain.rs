//! The graceful stop of consumers and workers: `run(…).until(shutdown)`.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{DistributedQueue, Error, ErrorMode, LockingQueue, QueueSharder};
use zk_curator_testing::wait::spend;
use zk_curator_testing::{Direction, Probe, TestServer};
use zk_curator_tests::{
    builder, cut_off, simulated_drops, simulated_each, simulated_each_on, simulated_on,
    simulated_with, start, stopped_by, two_in_memory, until_state,
};

const QUEUE: &str = "/queue";
const LOCKS: &str = "/queue-locks";
const HOUR: Duration = Duration::from_secs(3600);
const WORK: Duration = Duration::from_secs(5);

/// Consumers that claim their items, and return them.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Curator,
    Locking,
    Jobs,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Curator, Self::Locking, Self::Jobs];

    async fn put(self, zk: &CuratorFramework, items: &[&'static str]) {
        for item in items {
            match self {
                Self::Curator => DistributedQueue::new(zk, QUEUE).put(*item).await.unwrap(),
                Self::Locking => LockingQueue::new(zk, QUEUE).put(*item).await.unwrap(),
                Self::Jobs => drop(Jobs::new(zk, QUEUE).submit(*item).await.unwrap()),
            }
        }
    }

    /// A failed job is held back for at least half an hour.
    async fn consume<F, Fut>(
        self,
        zk: &CuratorFramework,
        limit: usize,
        shutdown: Shutdown,
        body: F,
    ) -> Result<(), Error>
    where
        F: Fn(Bytes) -> Fut,
        Fut: Future<Output = Result<(), &'static str>>,
    {
        match self {
            Self::Curator => {
                let consumer =
                    DistributedQueue::new(zk, QUEUE).consumer(LOCKS).redeliver_after(HOUR, HOUR);
                consumer
                    .prefetch(2)
                    .on_error(ErrorMode::Return)
                    .run(limit, body)
                    .until(shutdown)
                    .await
            }
            Self::Locking => {
                let consumer = LockingQueue::new(zk, QUEUE).consumer().redeliver_after(HOUR, HOUR);
                consumer.prefetch(2).run(limit, |message| body(message.data)).until(shutdown).await
            }
            Self::Jobs => {
                let worker = Jobs::new(zk, QUEUE).worker("w").redeliver_after(HOUR, HOUR);
                let body = |task: zk_curator_recipes::queue::jobs::JobTask| {
                    let work = body(task.data);
                    async { work.await.map(|()| None) }
                };
                worker.prefetch(2).run(limit, body).until(shutdown).await
            }
        }
    }

    /// The item that another process gets next.
    async fn next(self, zk: &CuratorFramework) -> Bytes {
        match self {
            Self::Curator => {
                let item = DistributedQueue::new(zk, QUEUE).consumer(LOCKS).next().await.unwrap();
                item.items()[0].clone()
            }
            Self::Locking => {
                LockingQueue::new(zk, QUEUE).consumer().next().await.unwrap().data().clone()
            }
            Self::Jobs => Jobs::new(zk, QUEUE).worker("other").next().await.unwrap().data().clone(),
        }
    }

    /// Returns the number of claimed items.
    fn claimed(self, probe: &Probe) -> usize {
        let claims = |path: &&String| match self {
            Self::Curator => path.starts_with("/queue-locks/"),
            Self::Locking => path.ends_with("/claim"),
            Self::Jobs => path.starts_with("/queue/leases/"),
        };
        probe.paths().iter().filter(claims).count()
    }
}

#[test]
fn what_runs_is_worked_off_and_nothing_more_is_taken() {
    simulated_each_on(Kind::ALL, two_in_memory, async |kind, (server, zk, other)| {
        kind.put(&other, &["one", "two", "three"]).await;
        let stop = Shutdown::new();
        let done = Mutex::new(Vec::new());
        let body = async |item: Bytes| {
            stop.begin();
            spend(WORK).await;
            done.lock().unwrap().push(item);
            Ok(())
        };
        kind.consume(&zk, 1, stop.clone().drain(HOUR), body).await.unwrap();
        assert_eq!(*done.lock().unwrap(), ["one"], "{kind:?}");
        assert_eq!(kind.claimed(&server.probe()), 0, "{kind:?}: {}", server.probe());
        assert_eq!(kind.next(&other).await, "two", "{kind:?}");
    });
}

#[test]
fn unfinished_work_is_dropped_and_back_when_drain_returns() {
    simulated_each_on(Kind::ALL, two_in_memory, async |kind, (server, zk, other)| {
        kind.put(&other, &["one", "two", "three", "four"]).await;
        let stop = Shutdown::new();
        let begun = Mutex::new(0);
        let body = async |_| {
            *begun.lock().unwrap() += 1;
            if *begun.lock().unwrap() == 2 {
                stop.begin();
            }
            pending().await
        };
        kind.consume(&zk, 2, stop.clone().drain(WORK), body).await.unwrap();
        assert_eq!(*begun.lock().unwrap(), 2, "{kind:?}");
        assert_eq!(kind.claimed(&server.probe()), 0, "{kind:?}: {}", server.probe());
        assert_eq!(kind.next(&other).await, "one", "{kind:?}");
    });
}

#[test]
fn what_is_held_back_goes_back_at_once() {
    simulated_each_on(Kind::ALL, two_in_memory, async |kind, (server, zk, other)| {
        kind.put(&other, &["one", "two"]).await;
        let stop = Shutdown::new();
        let body = async |item: Bytes| {
            if item == "one" {
                return Err("not today");
            }
            stop.begin();
            // For as long as the other one would be held back without a stop.
            spend(WORK).await;
            Ok(())
        };
        kind.consume(&zk, 1, stop.clone().drain(2 * WORK), body).await.unwrap();
        assert_eq!(kind.claimed(&server.probe()), 0, "{kind:?}: {}", server.probe());
        assert_eq!(kind.next(&other).await, "one", "{kind:?}");
    });
}

/// The claims of a session that cannot be reached end with the session.
#[test]
fn a_stop_without_a_server_ends_with_the_session() {
    simulated_each(Kind::ALL, async |kind, server, other| {
        let link = server.connector();
        let zk = start(builder(&server).connector(Arc::new(link.clone()))).await;
        kind.put(&other, &["one"]).await;
        let stop = Shutdown::new();
        let body = async |_| {
            link.cut(0, Direction::Both);
            until_state(&zk, ConnectionState::Suspended).await;
            stop.begin();
            pending().await
        };
        kind.consume(&zk, 1, stop.clone().drain(Duration::ZERO), body).await.unwrap();
        assert_eq!(kind.next(&other).await, "one", "{kind:?}");
    });
}

/// A session that lives, and whose requests have no responses.
#[test]
fn a_stop_does_not_wait_for_ever() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let kind = Kind::Curator;
        kind.put(&other, &["one"]).await;
        let stop = Shutdown::new();
        let cut = Mutex::new(None);
        let body = async |_| {
            *cut.lock().unwrap() = Some(cut_off(&server, &zk));
            stop.begin();
            pending().await
        };
        kind.consume(&zk, 1, stop.clone().drain(Duration::ZERO), body).await.unwrap();
        assert_eq!(kind.claimed(&server.probe()), 1);
        drop(cut);
        assert_eq!(kind.next(&other).await, "one");
    });
}

#[test]
fn a_run_that_is_dropped_while_it_drains_gives_its_items_back() {
    for kind in Kind::ALL {
        let setup = async || {
            let (server, zk, other) = two_in_memory().await;
            kind.put(&other, &["one", "two"]).await;
            (server, zk, other)
        };
        let run = async |(_, zk, _): &(TestServer, CuratorFramework, CuratorFramework)| {
            let stop = Shutdown::new();
            let body = async |_| {
                stop.begin();
                spend(WORK).await;
                Err("not today")
            };
            kind.consume(zk, 1, stop.clone().drain(2 * WORK), body).await.unwrap();
        };
        simulated_drops(5, setup, run, async |(_server, _zk, other), _| {
            assert_eq!(kind.next(&other).await, "one", "{kind:?}");
        });
    }
}

/// Items that are removed before their delivery would be lost.
#[test]
fn removed_items_are_delivered_before_the_end() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        for number in 0..20_u8 {
            queue.put([number]).await.unwrap();
        }
        let stop = Shutdown::new();
        let done = Mutex::new(Vec::new());
        let body = async |item: Bytes| {
            stop.begin();
            spend(WORK).await;
            done.lock().unwrap().push(item[0]);
            Ok::<_, Error>(())
        };
        queue
            .auto_ack_consumer()
            .ack_batch(8)
            .run(1, body)
            .until(stop.clone().drain(HOUR))
            .await
            .unwrap();
        let done = done.into_inner().unwrap();
        let left = server.probe().children(QUEUE).len();
        assert!(done.len() > 1, "none was removed ahead");
        assert!(left > 0, "more was taken after the stop");
        assert_eq!(done, (0..20 - u8::try_from(left).unwrap()).collect::<Vec<_>>());
    });
}

/// Items that were put as one are removed as one.
#[test]
fn a_failed_removed_item_does_not_lose_those_beside_it() {
    simulated_with(async |_server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put_multi(["bad", "good"]).await.unwrap();
        let stop = Shutdown::new();
        let seen = Mutex::new(Vec::new());
        let body = async |item: Bytes| {
            seen.lock().unwrap().push(item.clone());
            stop.begin();
            if item == "bad" { Err("as the test wants it") } else { Ok(()) }
        };
        let consumer = queue.auto_ack_consumer();
        consumer.run(1, body).until(stop.clone().drain(HOUR)).await.unwrap();
        assert_eq!(seen.into_inner().unwrap(), ["bad", "good"]);
    });
}

#[test]
fn a_stopped_sharder_begins_no_queue_and_drains_the_others() {
    simulated_with(async |_server, zk| {
        let sharder = QueueSharder::builder(&zk, "/shards", "/shards-leader", |zk, path| {
            DistributedQueue::new(zk, path)
        });
        let sharder = sharder.open().await.unwrap();
        let stop = Shutdown::new();
        let drained = Mutex::new(0);
        let body = async |_: DistributedQueue| {
            stop.begin();
            spend(WORK).await;
            *drained.lock().unwrap() += 1;
            Ok::<_, Error>(())
        };
        sharder.run(body).until(stop.clone().drain(HOUR)).await.unwrap();
        assert_eq!(*drained.lock().unwrap(), 1);
        let never = async |_: DistributedQueue| pending::<Result<(), Error>>().await;
        let run = async |stop: Shutdown| sharder.run(never).until(stop.drain(WORK)).await.unwrap();
        stopped_by(spend(WORK), run).await;
        sharder.close().await.unwrap();
    });
}
