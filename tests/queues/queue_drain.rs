//! The graceful stop of consumers and workers: `run_until`.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::sleep;
use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{DistributedQueue, Error, ErrorMode, LockingQueue, QueueSharder};
use zk_curator_testing::{Direction, Probe, TestServer};
use zk_curator_tests::{builder, cancel, cut_off, in_memory, simulated, two_in_memory, until_state};

const QUEUE: &str = "/queue";
const LOCKS: &str = "/queue-locks";
const HOUR: Duration = Duration::from_secs(3600);
const WORK: Duration = Duration::from_secs(5);

/// What claims its items, and gives them back.
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

    /// What fails is held back for half an hour at least.
    async fn run_until<F, Fut>(
        self,
        zk: &CuratorFramework,
        limit: usize,
        stop: impl Future<Output = ()>,
        drain: Duration,
        body: F,
    ) -> Result<(), Error>
    where
        F: Fn(Bytes) -> Fut,
        Fut: Future<Output = Result<(), &'static str>>,
    {
        match self {
            Self::Curator => {
                let consumer = DistributedQueue::new(zk, QUEUE).consumer(LOCKS).redeliver_after(HOUR, HOUR);
                consumer.prefetch(2).run_until(limit, ErrorMode::Return, stop, drain, body).await
            }
            Self::Locking => {
                let consumer = LockingQueue::new(zk, QUEUE).consumer().redeliver_after(HOUR, HOUR);
                consumer.prefetch(2).run_until(limit, stop, drain, |message| body(message.data)).await
            }
            Self::Jobs => {
                let worker = Jobs::new(zk, QUEUE).worker("w").redeliver_after(HOUR, HOUR);
                let body = |task: zk_curator_recipes::queue::jobs::Task| {
                    let work = body(task.data);
                    async { work.await.map(|()| None) }
                };
                worker.prefetch(2).run_until(limit, stop, drain, body).await
            }
        }
    }

    /// What another process gets next.
    async fn next(self, zk: &CuratorFramework) -> Bytes {
        match self {
            Self::Curator => {
                let item = DistributedQueue::new(zk, QUEUE).consumer(LOCKS).next().await.unwrap();
                item.items()[0].clone()
            }
            Self::Locking => LockingQueue::new(zk, QUEUE).consumer().next().await.unwrap().data().clone(),
            Self::Jobs => Jobs::new(zk, QUEUE).worker("other").next().await.unwrap().data().clone(),
        }
    }

    /// How many items are claimed.
    fn claimed(self, probe: &Probe) -> usize {
        let claims = |path: &&String| match self {
            Self::Curator => path.starts_with("/queue-locks/"),
            Self::Locking => path.ends_with("/claim"),
            Self::Jobs => path.starts_with("/queue/leases/"),
        };
        probe.paths().iter().filter(claims).count()
    }
}

/// What tells a run to stop, and the future that hears of it.
struct Stop(Mutex<Option<oneshot::Sender<()>>>);

impl Stop {
    fn new() -> (Self, impl Future<Output = ()>) {
        let (tell, told) = oneshot::channel();
        (Self(Mutex::new(Some(tell))), async { drop(told.await) })
    }

    fn tell(&self) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn what_runs_is_worked_off_and_nothing_more_is_taken() {
    for kind in Kind::ALL {
        simulated(async move {
            let (server, zk, other) = two_in_memory().await;
            kind.put(&other, &["one", "two", "three"]).await;
            let (stop, stopped) = Stop::new();
            let done = Mutex::new(Vec::new());
            let body = async |item: Bytes| {
                stop.tell();
                sleep(WORK).await;
                done.lock().unwrap().push(item);
                Ok(())
            };
            kind.run_until(&zk, 1, stopped, HOUR, body).await.unwrap();
            assert_eq!(*done.lock().unwrap(), ["one"], "{kind:?}");
            assert_eq!(kind.claimed(&server.probe()), 0, "{kind:?}: {}", server.probe());
            assert_eq!(kind.next(&other).await, "two", "{kind:?}");
        });
    }
}

#[test]
fn what_is_not_done_in_time_is_dropped_and_is_back_when_it_returns() {
    for kind in Kind::ALL {
        simulated(async move {
            let (server, zk, other) = two_in_memory().await;
            kind.put(&other, &["one", "two", "three", "four"]).await;
            let (stop, stopped) = Stop::new();
            let begun = Mutex::new(0);
            let body = async |_| {
                *begun.lock().unwrap() += 1;
                if *begun.lock().unwrap() == 2 {
                    stop.tell();
                }
                pending().await
            };
            kind.run_until(&zk, 2, stopped, WORK, body).await.unwrap();
            assert_eq!(*begun.lock().unwrap(), 2, "{kind:?}");
            assert_eq!(kind.claimed(&server.probe()), 0, "{kind:?}: {}", server.probe());
            assert_eq!(kind.next(&other).await, "one", "{kind:?}");
        });
    }
}

#[test]
fn what_is_held_back_goes_back_at_once() {
    for kind in Kind::ALL {
        simulated(async move {
            let (server, zk, other) = two_in_memory().await;
            kind.put(&other, &["one", "two"]).await;
            let (stop, stopped) = Stop::new();
            let body = async |item: Bytes| {
                if item == "one" {
                    return Err("not today");
                }
                stop.tell();
                // As long as the other one is held back if nobody stops.
                sleep(WORK).await;
                Ok(())
            };
            kind.run_until(&zk, 1, stopped, 2 * WORK, body).await.unwrap();
            assert_eq!(kind.claimed(&server.probe()), 0, "{kind:?}: {}", server.probe());
            assert_eq!(kind.next(&other).await, "one", "{kind:?}");
        });
    }
}

/// The claims of a session that cannot be told of it are gone when the session is.
#[test]
fn a_stop_without_a_server_ends_with_the_session() {
    for kind in Kind::ALL {
        simulated(async move {
            let (server, other) = in_memory().await;
            let link = server.connector();
            let zk = builder(&server).connector(Arc::new(link.clone())).build().unwrap();
            zk.start().await.unwrap();
            kind.put(&other, &["one"]).await;
            let (stop, stopped) = Stop::new();
            let body = async |_| {
                link.cut(0, Direction::Both);
                until_state(&zk, ConnectionState::Suspended).await;
                stop.tell();
                pending().await
            };
            kind.run_until(&zk, 1, stopped, Duration::ZERO, body).await.unwrap();
            assert_eq!(kind.next(&other).await, "one", "{kind:?}");
        });
    }
}

/// A session that lives, and none of whose requests is answered.
#[test]
fn a_stop_does_not_wait_for_ever() {
    simulated(async {
        let (server, zk, other) = two_in_memory().await;
        let kind = Kind::Curator;
        kind.put(&other, &["one"]).await;
        let (stop, stopped) = Stop::new();
        let cut = Mutex::new(None);
        let body = async |_| {
            *cut.lock().unwrap() = Some(cut_off(&server, &zk));
            stop.tell();
            pending().await
        };
        kind.run_until(&zk, 1, stopped, Duration::ZERO, body).await.unwrap();
        assert_eq!(kind.claimed(&server.probe()), 1);
        drop(cut);
        assert_eq!(kind.next(&other).await, "one");
    });
}

#[test]
fn a_run_that_is_dropped_while_it_drains_gives_its_items_back() {
    for kind in Kind::ALL {
        simulated(async move {
            let setup = async || {
                let (server, zk, other) = two_in_memory().await;
                kind.put(&other, &["one", "two"]).await;
                (server, zk, other)
            };
            let run = async |(_, zk, _): &(TestServer, CuratorFramework, CuratorFramework)| {
                let (stop, stopped) = Stop::new();
                let body = async |_| {
                    stop.tell();
                    sleep(WORK).await;
                    Err("not today")
                };
                kind.run_until(zk, 1, stopped, 2 * WORK, body).await.unwrap();
            };
            let steps = cancel::at_every_step(setup, run, async |(_server, _zk, other), _| {
                assert_eq!(kind.next(&other).await, "one", "{kind:?}");
            });
            assert!(steps.await > 5);
        });
    }
}

/// Items that are removed before they are handed out would be lost.
#[test]
fn what_is_removed_already_is_handed_out_before_the_end() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let queue = DistributedQueue::new(&zk, QUEUE);
        for number in 0..20_u8 {
            queue.put([number]).await.unwrap();
        }
        let (stop, stopped) = Stop::new();
        let done = Mutex::new(Vec::new());
        let body = async |item: Bytes| {
            stop.tell();
            sleep(WORK).await;
            done.lock().unwrap().push(item[0]);
        };
        queue.auto_ack_consumer().ack_batch(8).run_until(1, stopped, HOUR, body).await.unwrap();
        let done = done.into_inner().unwrap();
        let left = server.probe().children(QUEUE).len();
        assert!(done.len() > 1, "none was removed ahead");
        assert!(left > 0, "more was taken after the stop");
        assert_eq!(done, (0..20 - u8::try_from(left).unwrap()).collect::<Vec<_>>());
    });
}

#[test]
fn a_sharder_begins_no_queue_after_the_stop_and_drains_the_others() {
    simulated(async {
        let (_server, zk) = in_memory().await;
        let sharder = QueueSharder::builder(&zk, "/shards", "/shards-leader", |zk, path| {
            DistributedQueue::new(zk, path)
        });
        let sharder = sharder.start().await.unwrap();
        let (stop, stopped) = Stop::new();
        let drained = Mutex::new(0);
        let body = async |_: DistributedQueue| {
            stop.tell();
            sleep(WORK).await;
            *drained.lock().unwrap() += 1;
            Ok::<_, Error>(())
        };
        sharder.run_until(stopped, HOUR, body).await.unwrap();
        assert_eq!(*drained.lock().unwrap(), 1);
        let never = async |_: DistributedQueue| pending::<Result<(), Error>>().await;
        sharder.run_until(sleep(WORK), WORK, never).await.unwrap();
        sharder.close().await.unwrap();
    });
}
