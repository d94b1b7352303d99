//! Futures of queues, dropped at every point: nothing is lost, nothing is doubled, nothing stays
//! behind.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{
    AutoAckConsumer, DistributedPriorityQueue, DistributedQueue, FifoQueue, LockPathConsumer,
    LockPathDelivery, LockingQueue, PutMode, SimpleDistributedQueue,
};
use zk_curator_testing::{TestServer, wait};
use zk_curator_tests::{
    assert_clean_after_close, closes_clean, is_kept, items, poll_then_drop, simulated_drops,
    simulated_each, simulated_steps, simulated_steps_on, two_in_memory,
};

const QUEUE: &str = "/queue";
const LOCKS: &str = "/queue-locks";
/// Long enough for everything that does not wait for other clients.
const A_MOMENT: Duration = Duration::from_secs(1);

async fn filled(zk: &CuratorFramework) -> DistributedQueue {
    let queue = DistributedQueue::new(zk, QUEUE);
    for item in ["one", "two", "three"] {
        queue.put(item).await.unwrap();
    }
    queue
}

async fn rest(auto_ack: &mut AutoAckConsumer) -> Vec<String> {
    let mut rest = Vec::new();
    while let Some(item) = auto_ack.try_next().await.unwrap() {
        rest.push(String::from_utf8(item.items.concat()).unwrap());
    }
    rest
}

/// Deletes the nodes that a test leaves on purpose, and checks that nothing else is left.
async fn nothing_stays(server: &TestServer, clients: impl IntoIterator<Item = CuratorFramework>) {
    for zk in clients {
        for path in [QUEUE, LOCKS, "/ids"] {
            zk.delete(path).deleting_children().quietly().await.unwrap();
        }
        zk.close().await.unwrap();
    }
    assert_clean_after_close(server);
}

#[test]
fn a_dropped_next_of_a_window_of_deletes_loses_nothing() {
    simulated_steps(4, async |step, server, zk| {
        let queue = filled(&zk).await;
        for more in ["four", "five", "six", "seven"] {
            queue.put(more).await.unwrap();
        }
        // Transactions of two.
        let mut auto_ack = queue.auto_ack_consumer().ack_batch(4);
        let mut items: Vec<String> = Vec::new();
        for _ in 0..3 {
            let done = poll_then_drop(auto_ack.next(), step).await;
            items.extend(done.map(|item| String::from_utf8(item.unwrap().items.concat()).unwrap()));
        }
        let all_done = items.len() == 3;
        items.extend(rest(&mut auto_ack).await);
        assert_eq!(items, ["one", "two", "three", "four", "five", "six", "seven"], "step {step}");
        drop(auto_ack);
        nothing_stays(&server, [zk]).await;
        all_done
    });
}

#[test]
fn dropped_auto_ack_consumer_loses_one_item_and_next_none() {
    simulated_steps(4, async |step, server, zk| {
        let queue = filled(&zk).await;
        let mut auto_ack = queue.auto_ack_consumer();
        let done = poll_then_drop(auto_ack.next(), step).await;
        let done = done.map(|item| item.unwrap().items.concat());
        let mut items: Vec<_> =
            done.iter().map(|item| String::from_utf8(item.clone()).unwrap()).collect();
        items.extend(rest(&mut auto_ack).await);
        assert_eq!(items, ["one", "two", "three"], "step {step}");
        drop(auto_ack);

        // The same, and the consumer is dropped as well.
        queue.put("four").await.unwrap();
        queue.put("five").await.unwrap();
        let mut auto_ack = queue.auto_ack_consumer();
        let taken = poll_then_drop(auto_ack.next(), step).await.is_some();
        drop(auto_ack);
        let rest = rest(&mut queue.auto_ack_consumer()).await;
        assert!(rest == ["five"] || !taken && rest == ["four", "five"], "step {step}: {rest:?}");
        nothing_stays(&server, [zk]).await;
        done.is_some() && taken
    });
}

/// Drops the future that `run` makes at every step until it completes.
fn at_every_step<F, T>(
    mut run: impl FnMut(CuratorFramework) -> F,
    mut check: impl AsyncFnMut(&TestServer, CuratorFramework),
) where
    F: Future<Output = T>,
{
    simulated_drops(
        2,
        async || {
            let (server, zk, other) = two_in_memory().await;
            filled(&other).await;
            (server, zk, other)
        },
        async |(_, zk, _)| run(zk.clone()).await,
        async |(server, zk, other), output| {
            drop(output);
            zk.close().await.unwrap();
            check(&server, other.clone()).await;
            nothing_stays(&server, [other]).await;
        },
    );
}

async fn consumer(zk: &CuratorFramework) -> LockPathConsumer {
    DistributedQueue::new(zk, QUEUE).consumer(LOCKS)
}

#[test]
fn claims_go_back_to_their_place() {
    at_every_step(
        |zk| async move { drop(consumer(&zk).await.prefetch(2).next().await.unwrap()) },
        async |server, zk| {
            assert!(server.probe().children(LOCKS).is_empty(), "{}", server.probe());
            assert_eq!(
                rest(&mut DistributedQueue::new(&zk, QUEUE).auto_ack_consumer()).await,
                ["one", "two", "three"]
            );
        },
    );
}

#[test]
fn an_item_is_acknowledged_or_goes_back() {
    for put_back in [false, true] {
        at_every_step(
            |zk| async move {
                let delivery = consumer(&zk).await.next().await.unwrap();
                if put_back { delivery.requeue().await } else { delivery.ack().await }.unwrap();
            },
            async |server, zk| {
                assert!(server.probe().children(LOCKS).is_empty(), "{}", server.probe());
                let rest = rest(&mut DistributedQueue::new(&zk, QUEUE).auto_ack_consumer()).await;
                let settled: &[&str] =
                    if put_back { &["two", "three", "one"] } else { &["two", "three"] };
                assert!(rest == settled || rest == ["one", "two", "three"], "{rest:?}");
            },
        );
    }
}

#[test]
fn a_dropped_next_still_delivers_the_best_item_first() {
    simulated_steps(3, async |step, server, zk| {
        let queue = DistributedPriorityQueue::new(&zk, QUEUE);
        for (item, priority) in [("first", 0), ("third", 2), ("last", 9)] {
            queue.put(item, priority).await.unwrap();
        }
        let mut consumer = queue.consumer(LOCKS).prefetch(2);
        consumer.next().await.unwrap().ack().await.unwrap();
        // Both other items are claimed, and these come before one or both of them.
        for (item, priority) in [("second", 1), ("fourth", 5)] {
            queue.put(item, priority).await.unwrap();
        }
        let done = poll_then_drop(consumer.next(), step).await;
        let is_done = done.is_some();
        let mut items = Vec::new();
        if let Some(delivery) = done {
            items.extend(settled(delivery.unwrap()).await);
        }
        while items.len() < 4 {
            items.extend(settled(consumer.next().await.unwrap()).await);
        }
        assert_eq!(items, ["second", "third", "fourth", "last"], "step {step}");
        drop(consumer);
        nothing_stays(&server, [zk]).await;
        is_done
    });
}

/// The items of a delivery, which is acknowledged.
async fn settled(delivery: LockPathDelivery) -> Vec<String> {
    let items =
        delivery.items().iter().map(|item| String::from_utf8(item.to_vec()).unwrap()).collect();
    delivery.ack().await.unwrap();
    items
}

#[test]
fn a_consumer_that_waits_leaves_nothing() {
    // The waiters are no longer woken.
    simulated_each(0..60, async |step, server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE).fair_waiting("/line");
        let (mut auto_ack, mut consumer) = (queue.auto_ack_consumer(), queue.consumer(LOCKS));
        let is_done = timeout(A_MOMENT, poll_then_drop(auto_ack.next(), step)).await;
        assert!(is_done.is_err() || is_done.is_ok_and(|taken| taken.is_none()));
        let is_done = timeout(A_MOMENT, poll_then_drop(consumer.next(), step)).await;
        assert!(is_done.is_err() || is_done.is_ok_and(|taken| taken.is_none()));
        // A consumer that stopped waiting does not block others.
        let mut other = queue.auto_ack_consumer();
        let put = async {
            zk_curator_tests::until(&server, |probe| !probe.children("/line").is_empty()).await;
            queue.put("zero").await.unwrap();
        };
        assert_eq!(tokio::join!(other.next(), put).0.unwrap().items, ["zero"]);
        queue.put("one").await.unwrap();
        assert_eq!(auto_ack.next().await.unwrap().items, ["one"]);
        drop((auto_ack, consumer));
        nothing_stays(&server, [zk]).await;
    });
}

#[test]
fn puts_happen_once_or_not_at_all() {
    for kind in 0..4 {
        at_every_step(
            |zk| async move {
                let queue = DistributedQueue::new(&zk, QUEUE);
                match kind {
                    0 => queue.put("four").await,
                    1 => queue.idempotent_puts("/ids").put("four").await,
                    2 => queue.max_items(10).put("four").await,
                    _ => queue.idempotent_puts("/ids").max_items(10).put("four").await,
                }
                .unwrap();
            },
            async |_, zk| {
                let rest = rest(&mut DistributedQueue::new(&zk, QUEUE).auto_ack_consumer()).await;
                let all = ["one", "two", "three", "four"];
                assert!(rest == all || rest == all[..3], "{rest:?}");
            },
        );
    }
}

#[test]
fn a_dropped_exactly_once_put_is_there_once_or_not_at_all() {
    for enqueue in [PutMode::Transaction, PutMode::TwoPhase] {
        simulated_steps(2, async |step, server, zk| {
            let queue = FifoQueue::new(&zk, "/fifo").put_mode(enqueue);
            let done = poll_then_drop(queue.put("one"), step).await.is_some();
            queue.put("two").await.unwrap();
            queue.flush().await.unwrap();
            let probe = server.probe();
            assert!(
                !probe.children("/fifo/ids").iter().any(|name| name.starts_with("put-")),
                "{probe}"
            );
            let mut items = Vec::new();
            // Nodes with an unknown outcome are deleted in the background.
            while items.last().is_none_or(|item| *item != "two") {
                items.push(queue.take().await.unwrap());
            }
            assert!(
                items == ["one", "two"] || !done && items == ["two"],
                "{enqueue:?} {step}: {items:?}"
            );
            drop(queue);
            // They stay, and nothing in them.
            zk.delete("/fifo/items").deleting_children().await.unwrap();
            if enqueue == PutMode::Transaction {
                zk.delete("/fifo/ids").deleting_children().await.unwrap();
            }
            closes_clean(&server, &zk).await;
            done
        });
    }
}

#[test]
fn what_a_dropped_poll_or_take_has_removed_comes_from_the_next() {
    for polls in [false, true] {
        simulated_steps(2, async |step, server, zk| {
            let (simple, fifo) =
                (SimpleDistributedQueue::new(&zk, "/simple"), FifoQueue::new(&zk, "/fifo"));
            for item in ["one", "two", "three"] {
                simple.offer(item).await.unwrap();
                fifo.put(item).await.unwrap();
            }
            let (mut some, mut more) = (Vec::new(), Vec::new());
            if polls {
                some.extend(
                    poll_then_drop(simple.poll(), step).await.map(|item| item.unwrap().unwrap()),
                );
                more.extend(
                    poll_then_drop(fifo.poll(), step).await.map(|item| item.unwrap().unwrap()),
                );
            } else {
                some.extend(poll_then_drop(simple.take(), step).await.map(Result::unwrap));
                more.extend(poll_then_drop(fifo.take(), step).await.map(Result::unwrap));
            }
            let done = !some.is_empty() && !more.is_empty();
            some.push(simple.take().await.unwrap());
            more.push(fifo.take().await.unwrap());
            while let Some(item) = simple.poll().await.unwrap() {
                some.push(item);
            }
            while let Some(item) = fifo.poll().await.unwrap() {
                more.push(item);
            }
            assert_eq!(
                (&some[..], &more[..]),
                (&["one", "two", "three"].map(Into::into)[..], &some[..]),
                "{step}"
            );
            fifo.flush().await.unwrap();
            drop((simple, fifo));
            wait::settled().await;
            // The parent of the ids stays, and is empty.
            for path in ["/fifo/ids", "/fifo/items"] {
                zk.delete(path).deleting_children().await.unwrap();
            }
            closes_clean(&server, &zk).await;
            done
        });
    }
}

/// The outcome for an item, or for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Settle,
    GiveBack,
    PutAside,
    Drop,
}

const VERBS: [Verb; 4] = [Verb::Settle, Verb::GiveBack, Verb::PutAside, Verb::Drop];

#[test]
fn a_dropped_locking_consumer_settles_or_returns_its_item() {
    for verb in VERBS {
        simulated_steps_on(4, two_in_memory, async |step, (server, zk, other)| {
            let queue = LockingQueue::new(&other, QUEUE);
            for item in ["one", "two", "three"] {
                queue.put(item).await.unwrap();
            }
            queue.flush().await.unwrap();
            let mut consumer = LockingQueue::new(&zk, QUEUE).consumer().prefetch(2);
            let work = async {
                let item = consumer.next().await.unwrap();
                match verb {
                    Verb::Settle => item.ack().await.unwrap(),
                    Verb::GiveBack => item.requeue().await.unwrap(),
                    Verb::PutAside => item.reject("bad").await.unwrap(),
                    Verb::Drop => drop(item),
                }
            };
            let done = poll_then_drop(work, step).await.is_some();
            drop(consumer);
            zk.close().await.unwrap();
            let claims =
                server.probe().paths().into_iter().filter(|path| path.ends_with("/claim")).count();
            assert_eq!(claims, 0, "{verb:?} {step}\n{}", server.probe());
            let (mut rest, mut consumer) = (Vec::new(), queue.consumer());
            while let Some(item) = consumer.try_next().await.unwrap() {
                rest.push(String::from_utf8(item.data().to_vec()).unwrap());
                item.ack().await.unwrap();
            }
            let dead = queue.dead_letters().consumer().try_next().await.unwrap().is_some();
            let settled = match verb {
                Verb::Settle => rest == ["two", "three"] && !dead,
                Verb::GiveBack => rest == ["two", "three", "one"] && !dead,
                Verb::PutAside => rest == ["two", "three"] && dead,
                Verb::Drop => rest == ["one", "two", "three"] && !dead,
            };
            let is_back = rest == ["one", "two", "three"] && !dead;
            assert!(settled || !done && is_back, "{verb:?} {step}: {rest:?} {dead}");
            drop(consumer);
            nothing_stays(&server, [other]).await;
            done
        });
    }
}

#[test]
fn a_dropped_worker_settles_its_job_or_leaves_it_to_another() {
    for verb in VERBS {
        simulated_steps_on(4, two_in_memory, async |step, (server, zk, other)| {
            let jobs = Jobs::new(&other, QUEUE);
            for id in ["a", "b", "c"] {
                jobs.submit("").id(id).await.unwrap();
            }
            jobs.flush().await.unwrap();
            let mut worker = Jobs::new(&zk, QUEUE).worker("w").prefetch(2);
            let work = async {
                let job = worker.next().await.unwrap();
                match verb {
                    Verb::Settle => job.complete_with("done").await.unwrap(),
                    Verb::GiveBack => job.fail("failed").await.unwrap(),
                    Verb::PutAside => job.reject("rejected").await.unwrap(),
                    Verb::Drop => drop(job),
                }
            };
            let done = poll_then_drop(work, step).await.is_some();
            drop(worker);
            zk.close().await.unwrap();
            assert!(server.probe().children("/queue/leases").is_empty(), "{}", server.probe());
            let (mut rest, mut worker) = (Vec::new(), jobs.worker("heir"));
            while let Ok(job) = timeout(Duration::from_secs(30), worker.next()).await {
                let job = job.unwrap();
                rest.push((job.id().to_owned(), job.attempt()));
                job.complete().await.unwrap();
            }
            rest.sort();
            let names: Vec<_> = rest.iter().map(|(id, _)| &id[..]).collect();
            let again = names == ["a", "b", "c"];
            let kept = |end| is_kept(&server.probe(), &format!("/queue/{end}"), "a");
            let settled = match verb {
                Verb::Settle => names == ["b", "c"] && kept("done"),
                Verb::PutAside => names == ["b", "c"] && kept("failed"),
                Verb::GiveBack | Verb::Drop => again && rest[0].1 == 2,
            };
            assert!(settled || !done && again, "{verb:?} {step}: {rest:?}");
            assert!(
                !server.probe().paths().iter().any(|path| path.starts_with("/queue/executing/"))
            );
            drop(worker);
            nothing_stays(&server, [other]).await;
            done
        });
    }
}

#[test]
fn dropped_operations_on_jobs_are_applied_once_or_not_at_all() {
    for verb in 0..4 {
        simulated_steps_on(1, two_in_memory, async |step, (server, zk, other)| {
            let jobs = Jobs::new(&other, QUEUE);
            jobs.submit("").id("failed").await.unwrap();
            jobs.worker("w").next().await.unwrap().reject("").await.unwrap();
            jobs.submit("").id("pending").await.unwrap();
            jobs.flush().await.unwrap();
            let dropped = Jobs::new(&zk, QUEUE);
            let work = async {
                match verb {
                    0 => dropped.submit("").id("new").await.map(drop),
                    1 => dropped.cancel("pending").await.map(|done| assert!(done)),
                    2 => dropped.retry("failed").await.map(|done| assert!(done)),
                    _ => dropped.forget("failed").await.map(|done| assert!(done)),
                }
                .unwrap();
            };
            let done = poll_then_drop(work, step).await.is_some();
            zk.close().await.unwrap();
            let probe = server.probe();
            let (all, pending) = (probe.children("/queue/all"), items(&probe, "/queue/pending"));
            let failed = items(&probe, "/queue/failed");
            assert_eq!(all.len(), pending.len() + failed.len(), "{verb} {step}: {probe}");
            let applied = [
                all.contains(&"new"),
                !all.contains(&"pending"),
                failed.is_empty() && all.contains(&"failed"),
                !all.contains(&"failed"),
            ];
            assert_eq!(
                applied.iter().filter(|applied| **applied).count(),
                usize::from(applied[verb])
            );
            assert!(applied[verb] || !done, "{verb} {step}: {probe}");
            nothing_stays(&server, [other]).await;
            done
        });
    }
}
