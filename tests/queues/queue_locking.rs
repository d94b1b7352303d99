//! [`LockingQueue`]: deliveries, their order and their count, in spite of lost requests, lost
//! responses and lost sessions; the known bugs of kazoo's queue of that name.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use tokio::time::{Instant, timeout};
use zk_curator::CuratorFramework;
use zk_curator_proto::OpCode;
use zk_curator_recipes::queue::{Error, LockingConsumer, LockingDelivery, LockingQueue};
use zk_curator_testing::wait::{past, settled, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    closes_clean, connected, expire, impatient, items, once, pairs, session_id, simulated_each,
    simulated_each_on, simulated_on, simulated_with, two_in_memory, until,
};

const QUEUE: &str = "/queue";
const ITEMS: &str = "/queue/items";
const A_MOMENT: Duration = Duration::from_secs(1);

fn queue(zk: &CuratorFramework) -> LockingQueue {
    LockingQueue::new(zk, QUEUE)
}

async fn filled<const N: usize>(zk: &CuratorFramework, items: [&'static str; N]) -> LockingQueue {
    let queue = queue(zk);
    for item in items {
        queue.put(item).await.unwrap();
    }
    queue.flush().await.unwrap();
    queue
}

/// The item and the ordinal delivery it is.
fn seen(item: &LockingDelivery) -> (&str, u32) {
    (std::str::from_utf8(item.data()).unwrap(), item.attempt())
}

async fn drain(consumer: &mut LockingConsumer) -> Vec<(String, u32)> {
    let mut items = Vec::new();
    while let Some(item) = consumer.try_next().await.unwrap() {
        let (data, delivery) = seen(&item);
        items.push((data.to_owned(), delivery));
        item.ack().await.unwrap();
    }
    items
}

/// The paths of the claims.
fn claims(server: &TestServer) -> Vec<String> {
    server.probe().paths().into_iter().filter(|path| path.ends_with("/claim")).collect()
}

async fn nothing_stays(server: &TestServer, zk: &CuratorFramework) {
    zk.delete(QUEUE).deleting_children().quietly().await.unwrap();
    closes_clean(server, zk).await;
}

#[test]
fn an_item_that_comes_back_keeps_its_place_and_is_counted() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["one", "two", "three"]).await;
        let mut consumer = queue.consumer();
        let one = consumer.next().await.unwrap();
        let two = consumer.next().await.unwrap();
        assert_eq!((seen(&one), seen(&two)), (("one", 1), ("two", 1)));
        assert_ne!(one.id(), two.id());
        let (id, token) = (one.id().to_owned(), one.fencing_token());
        drop(one);
        // Ahead of the third, which was listed long ago.
        let one = consumer.next().await.unwrap();
        assert_eq!((seen(&one), one.id()), (("one", 2), &id[..]));
        assert!(one.fencing_token() > token);
        two.ack().await.unwrap();
        // At the end, with its count.
        one.requeue().await.unwrap();
        let three = consumer.next().await.unwrap();
        let one = consumer.next().await.unwrap();
        assert_eq!((seen(&three), seen(&one), one.id()), (("three", 1), ("one", 3), &id[..]));
        one.ack().await.unwrap();
        three.ack().await.unwrap();
        assert!(consumer.try_next().await.unwrap().is_none());
        assert_eq!(queue.count().await.unwrap(), 0);
        drop(consumer);
        nothing_stays(&server, &zk).await;
    });
}

#[test]
fn a_returned_item_comes_before_the_items_behind_it() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["one", "two", "three", "four"]).await;
        let other = connected(&server).await;
        let mut first = LockingQueue::new(&other, QUEUE).consumer();
        let mut second = queue.consumer();
        let one = first.next().await.unwrap();
        assert_eq!(seen(&second.next().await.unwrap()), ("two", 1));
        drop(one);
        until(&server, |probe| !probe.paths().iter().any(|path| path.ends_with("/claim"))).await;
        past(A_MOMENT).await;
        let rest = drain(&mut second).await;
        assert_eq!(
            rest,
            [("one", 2), ("two", 2), ("three", 1), ("four", 1)]
                .map(|(item, n)| (item.to_owned(), n))
        );
    });
}

#[test]
fn the_item_of_a_dead_consumer_comes_before_later_ones() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["one", "two"]).await;
        let doomed = connected(&server).await;
        let mut consumer = LockingQueue::new(&doomed, QUEUE).consumer();
        let one = consumer.next().await.unwrap();
        let mut others = queue.consumer();
        let two = others.next().await.unwrap();
        assert_eq!((seen(&one), seen(&two)), (("one", 1), ("two", 1)));
        expire(&server, &doomed).await;
        one.lost().await;
        assert_eq!(seen(&others.next().await.unwrap()), ("one", 2));
        assert!(matches!(one.ack().await, Err(Error::Lost { .. })));
        two.ack().await.unwrap();
        assert_eq!(drain(&mut others).await, [("one".to_owned(), 3)]);
    });
}

#[test]
fn what_fails_too_often_is_put_aside_with_its_count() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["poison", "good"]).await.max_deliveries(3);
        let mut consumer = queue.consumer();
        for delivery in 1..=3 {
            assert_eq!(seen(&consumer.next().await.unwrap()), ("poison", delivery));
        }
        let good = consumer.next().await.unwrap();
        assert_eq!(seen(&good), ("good", 1));
        let id = good.id().to_owned();
        good.reject("bad").await.unwrap();
        assert_eq!(queue.count().await.unwrap(), 0);
        let dead = queue.dead_letters();
        let mut consumer = dead.consumer();
        let poison = consumer.next().await.unwrap();
        let good = consumer.next().await.unwrap();
        // Their deliveries as dead letters are counted apart from those before.
        assert_eq!((seen(&poison), seen(&good), good.id()), (("poison", 1), ("good", 1), &id[..]));
        let rejected = |item: &LockingDelivery| {
            let rejection = item.rejection().unwrap();
            let at = rejection.at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
            let ctime = server.probe().stat(item.path()).unwrap().ctime;
            assert_eq!(at, u128::try_from(ctime).unwrap());
            (rejection.deliveries, rejection.why.clone())
        };
        assert_eq!(rejected(&poison), (3, "3 deliveries, none of them acknowledged".to_owned()));
        assert_eq!(rejected(&good), (1, "bad".to_owned()));
        // It is still one at the end of the queue.
        good.requeue().await.unwrap();
        let good = consumer.next().await.unwrap();
        assert_eq!((seen(&good), rejected(&good).0), (("good", 2), 1));
        poison.ack().await.unwrap();
        good.ack().await.unwrap();
        drop(consumer);
        nothing_stays(&server, &zk).await;
    });
}

#[test]
fn priorities_come_first_and_equals_in_their_order() {
    simulated_with(async |_server, zk| {
        let queue = queue(&zk).prioritized();
        for (item, priority) in [("c", 0), ("d", 0), ("b", -3), ("e", i32::MAX), ("a", i32::MIN)] {
            queue.put_with_priority(item, priority).await.unwrap();
        }
        let mut consumer = queue.consumer();
        let first = consumer.next().await.unwrap();
        assert_eq!((seen(&first), first.priority()), (("a", 1), i32::MIN));
        queue.put_with_priority("now", i32::MIN).await.unwrap();
        // At most one item comes before the items put in between; no claim is useless.
        let order: Vec<_> = drain(&mut consumer).await;
        let names: Vec<_> = order.iter().map(|(item, _)| &item[..]).collect();
        assert!(
            names == ["now", "b", "c", "d", "e"] || names == ["b", "now", "c", "d", "e"],
            "{names:?}"
        );
        assert!(order.iter().all(|(_, delivery)| *delivery == 1), "{order:?}");
    });
}

#[test]
fn concurrency_is_bounded_and_failed_items_are_redelivered() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["one", "two", "three", "four", "five"]).await.max_deliveries(2);
        let (log, running) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new((0, 0))));
        let work = {
            let (log, running) = (Arc::clone(&log), Arc::clone(&running));
            let consumer = queue.consumer();
            let body = move |item: zk_curator_recipes::queue::Message| {
                let (log, running) = (Arc::clone(&log), Arc::clone(&running));
                async move {
                    {
                        let mut running = running.lock().unwrap();
                        running.0 += 1;
                        running.1 = running.1.max(running.0);
                    }
                    spend(Duration::from_millis(10)).await;
                    running.lock().unwrap().0 -= 1;
                    log.lock().unwrap().push((item.data.clone(), item.attempt));
                    if item.data == "two" { Err("two fails") } else { Ok(()) }
                }
            };
            tokio::spawn(consumer.run(2, body))
        };
        until(&server, |probe| items(probe, ITEMS).is_empty()).await;
        work.abort();
        let mut log = std::mem::take(&mut *log.lock().unwrap());
        log.sort();
        let expected = [("five", 1), ("four", 1), ("one", 1), ("three", 1), ("two", 1), ("two", 2)];
        assert_eq!(log, expected.map(|(item, delivery)| (item.into(), delivery)));
        assert_eq!(running.lock().unwrap().1, 2);
        assert_eq!(drain(&mut queue.dead_letters().consumer()).await, [("two".to_owned(), 1)]);
    });
}

#[test]
fn the_items_are_a_stream() {
    simulated_with(async |_server, zk| {
        let queue = filled(&zk, ["one", "two"]).await;
        let mut items = Box::pin(queue.consumer().prefetch(2).into_stream());
        for item in ["one", "two"] {
            let next = items.next().await.unwrap().unwrap();
            assert_eq!(seen(&next), (item, 1));
            next.ack().await.unwrap();
        }
        assert!(timeout(A_MOMENT, items.next()).await.is_err());
    });
}

#[test]
fn a_node_that_is_no_item_is_reported_once_and_stays() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["one"]).await;
        let bucket = server.probe().children(ITEMS)[0].to_owned();
        zk.create(format!("{ITEMS}/{bucket}/item-0000000000")).await.unwrap();
        let mut consumer = queue.consumer();
        let foreign = consumer.next().await;
        assert!(
            matches!(&foreign, Err(Error::Foreign { path }) if path.ends_with("item-0000000000")),
            "{foreign:?}"
        );
        assert_eq!(drain(&mut consumer).await, [("one".to_owned(), 1)]);
        assert_eq!(queue.count().await.unwrap(), 1);
    });
}

/// An operator deletes the queue, and it is made again: the item of the same number is another one,
/// with another claim.
#[test]
fn a_delivery_of_a_deleted_queue_acknowledges_no_new_item() {
    simulated_with(async |server, zk| {
        filled(&zk, ["old"]).await;
        let old = queue(&zk).consumer().next().await.unwrap();
        let operator = connected(&server).await;
        operator.delete(QUEUE).deleting_children().await.unwrap();
        let queue = filled(&operator, ["new"]).await;
        let mut consumer = queue.consumer();
        let new = consumer.next().await.unwrap();
        assert!(matches!(old.ack().await, Err(Error::Lost { .. })));
        assert_eq!((seen(&new), queue.count().await.unwrap()), (("new", 1), 1));
        drop(new);
        assert_eq!(drain(&mut consumer).await, [("new".to_owned(), 2)]);
    });
}

/// Who lost its claim to an item is refused, whatever it wants with it.
#[test]
fn without_the_claim_nothing_becomes_of_an_item() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["one"]).await;
        for verb in 0..3 {
            let item = queue.consumer().next().await.unwrap();
            zk.delete(&claims(&server)[0]).await.unwrap();
            let settled = match verb {
                0 => item.ack().await,
                1 => item.requeue().await,
                _ => item.reject("bad").await,
            };
            assert!(matches!(settled, Err(Error::Lost { .. })), "{settled:?}");
            assert_eq!(queue.count().await.unwrap(), 1);
        }
        assert_eq!(drain(&mut queue.consumer()).await, [("one".to_owned(), 4)]);
        assert!(queue.dead_letters().consumer().try_next().await.unwrap().is_none());
    });
}

/// An item is claimed in advance, an operator deletes the claim, and another consumer has the item.
#[test]
fn an_item_claimed_long_ago_is_not_delivered_without_its_claim() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut ahead = filled(&zk, ["a", "b"]).await.consumer().prefetch(2);
        let first = ahead.next().await.unwrap();
        until(&server, |_| claims(&server).len() == 2).await;
        let of_second = claims(&server).pop().unwrap();
        assert_ne!(of_second, first.ownership().path());
        server.remove(&of_second).unwrap();
        let theirs = queue(&other).consumer().next().await.unwrap();
        assert_eq!(seen(&theirs), ("b", 2));
        past(2 * A_MOMENT).await;
        first.ack().await.unwrap();
        assert!(timeout(60 * A_MOMENT, ahead.next()).await.is_err());
        theirs.ack().await.unwrap();
        assert!(timeout(60 * A_MOMENT, ahead.next()).await.is_err());
        drop(ahead);
        other.close().await.unwrap();
        nothing_stays(&server, &zk).await;
    });
}

/// An operator deletes a claim, and another consumer claims the item. The first one has not heard
/// of it.
#[test]
fn a_claim_that_was_replaced_unnoticed_is_left_alone() {
    simulated_each(0..3, async |verb, server, zk| {
        let queue = filled(&zk, ["one"]).await;
        let first = queue.consumer().next().await.unwrap();
        zk.delete(&claims(&server)[0]).await.unwrap();
        let second = queue.consumer().next().await.unwrap();
        let theirs = server.probe().stat(&claims(&server)[0]);
        let settled = match verb {
            0 => first.ack().await,
            1 => first.requeue().await,
            _ => first.reject("bad").await,
        };
        assert!(matches!(settled, Err(Error::Lost { .. })), "{settled:?}");
        assert_eq!(server.probe().stat(&claims(&server)[0]), theirs);
        assert_eq!(seen(&second), ("one", 2));
        second.ack().await.unwrap();
        assert_eq!(queue.count().await.unwrap(), 0);
        assert!(queue.dead_letters().consumer().try_next().await.unwrap().is_none());
    });
}

/// The request is lost, and before the consumer looks, an operator deletes the claim: that it is
/// gone proves nothing.
#[test]
fn a_deleted_claim_does_not_prove_a_lost_acknowledgement() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let queue = filled(&zk, ["one"]).await;
        let item = queue.consumer().next().await.unwrap();
        let claim = claims(&server).remove(0);
        let lost = once(&server, OpCode::Multi, Verdict::LoseRequest);
        let (settled, ()) = tokio::join!(item.ack(), async {
            lost.fired().await;
            other.delete(&claim).await.unwrap();
        });
        assert!(matches!(settled, Err(Error::Lost { .. })), "{settled:?}");
        assert_eq!(queue.count().await.unwrap(), 1);
    });
}

/// Every request of a put, a claim and each way to settle, lost on the way there or on the way
/// back; the server goes away in between, too.
#[test]
fn whatever_is_lost_nothing_is_lost_and_nothing_is_doubled() {
    let cases = pairs([Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect], 0..12);
    simulated_each(cases, async |(verdict, nth), server, zk| {
        let queue = filled(&zk, ["zero"]).await;
        let mut consumer = queue.consumer();
        consumer.next().await.unwrap().reject("bad").await.unwrap();
        let lost = server.rule(move |request| match request.opcode() {
            OpCode::Create2
            | OpCode::Multi
            | OpCode::GetData
            | OpCode::GetChildren2
            | OpCode::Delete => verdict,
            _ => Verdict::Pass,
        });
        let lost = lost.after(nth).times(1);
        for item in ["one", "two", "three"] {
            queue.put(item).await.unwrap();
        }
        let one = consumer.next().await.unwrap();
        assert_eq!(seen(&one).0, "one", "{verdict:?} {nth}");
        one.ack().await.unwrap();
        consumer.next().await.unwrap().requeue().await.unwrap();
        consumer.next().await.unwrap().reject("bad").await.unwrap();
        server.restart().await.unwrap();
        let two = consumer.next().await.unwrap();
        assert_eq!((seen(&two).0, two.attempt() >= 2), ("two", true));
        two.ack().await.unwrap();
        assert_eq!(lost.hits(), 1, "{verdict:?} {nth}");
        assert_eq!(queue.count().await.unwrap(), 0);
        let dead = drain(&mut queue.dead_letters().consumer()).await;
        let dead: Vec<_> = dead.iter().map(|(item, _)| &item[..]).collect();
        assert_eq!(dead, ["zero", "three"], "{verdict:?} {nth}");
        queue.flush().await.unwrap();
        drop(consumer);
        nothing_stays(&server, &zk).await;
    });
}

#[test]
fn an_acknowledgement_that_loses_its_session_is_unknown() {
    simulated_each_on([true, false], impatient, async |applied, (server, zk)| {
        let queue = filled(&zk, ["one"]).await;
        let item = queue.consumer().next().await.unwrap();
        let verdict = if applied { Verdict::LoseReply } else { Verdict::LoseRequest };
        let _lost = once(&server, OpCode::Multi, verdict);
        let session = session_id(&zk);
        let (settled, _) = tokio::join!(item.ack(), async {
            until(&server, |probe| {
                !probe.session(session.get()).is_some_and(|session| session.connected)
            })
            .await;
            server.expire(session.get()).await
        });
        let unknown = matches!(&settled, Err(Error::Framework(error)) if error.may_have_applied());
        assert!(unknown, "{settled:?}");
        zk.wait_connected().await.unwrap();
        assert_eq!(queue.count().await.unwrap(), usize::from(!applied));
    });
}

/// kazoo #175: every `get` that timed out left its watches.
#[test]
fn kazoo_175_a_take_that_is_given_up_leaves_no_watch() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["one"]).await;
        let one = queue.consumer().next().await.unwrap();
        let other = connected(&server).await;
        let mut consumer = LockingQueue::new(&other, QUEUE).consumer();
        let mut watches = Vec::new();
        for _ in 0..10 {
            assert!(timeout(A_MOMENT, consumer.next()).await.is_err());
            settled().await;
            watches.push(server.probe().watches().len());
        }
        assert!(watches.iter().all(|count| *count <= 3), "{watches:?}");
        assert!(server.probe().children("/queue/line").is_empty());
        drop(consumer);
        one.ack().await.unwrap();
        other.close().await.unwrap();
        nothing_stays(&server, &zk).await;
    });
}

/// kazoo #366, #501, #523: claims stayed after their items were gone, or no longer belonged to the
/// caller; and a reader waited although there were items.
#[test]
fn kazoo_366_501_523_no_claim_outlives_its_item_or_blocks() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["one", "two", "three"]).await;
        let (slow, dead) = (connected(&server).await, connected(&server).await);
        let mut slow_consumer = LockingQueue::new(&slow, QUEUE).consumer();
        let mut dead_consumer = LockingQueue::new(&dead, QUEUE).consumer();
        let one = slow_consumer.next().await.unwrap();
        let _two = dead_consumer.next().await.unwrap();
        // It waits behind both, and gets what becomes free.
        let mut consumer = queue.consumer();
        consumer.next().await.unwrap().ack().await.unwrap();
        let (next, _) = tokio::join!(consumer.next(), async {
            until(&server, |probe| !probe.children("/queue/line").is_empty()).await;
            past(A_MOMENT).await;
            expire(&server, &dead).await;
        });
        let two = next.unwrap();
        assert_eq!(seen(&two), ("two", 2));
        // A late consumer creates no claim to an item that is gone.
        two.ack().await.unwrap();
        one.ack().await.unwrap();
        assert!(slow_consumer.try_next().await.unwrap().is_none());
        assert!(
            claims(&server).is_empty() && items(&server.probe(), ITEMS).is_empty(),
            "{}",
            server.probe()
        );
    });
}

#[test]
fn numbers_past_the_last_positive_one_stay_in_order() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, []).await;
        drop(queue.consumer().try_next().await.unwrap());
        queue.put("first").await.unwrap();
        let bucket = server.probe().children(ITEMS)[0].to_owned();
        server.set_sequence(&format!("{ITEMS}/{bucket}"), i32::MAX - 1).unwrap();
        // Buckets are numbered, too.
        server.set_sequence(ITEMS, i32::MAX - 1).unwrap();
        let all = ["first", "second", "third", "fourth", "fifth", "sixth"];
        for item in &all[1..] {
            queue.put(*item).await.unwrap();
        }
        let taken = drain(&mut queue.consumer()).await;
        assert_eq!(taken, all.map(|item| (item.to_owned(), 1)));
    });
}

/// The record of every delivery: its number and its time.
type Log = Arc<Mutex<Vec<(u32, Instant)>>>;

/// Fails with every item.
fn failing(
    log: Log,
) -> impl Fn(zk_curator_recipes::queue::Message) -> std::future::Ready<Result<(), &'static str>> {
    move |item| {
        log.lock().unwrap().push((item.attempt, Instant::now()));
        std::future::ready(Err("no luck"))
    }
}

#[test]
fn an_item_that_fails_is_held_back_longer_every_time() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["poison"]).await;
        let log = Log::default();
        let work = tokio::spawn(queue.consumer().run(1, failing(Arc::clone(&log))));
        server.until(|probe| !probe.children("/queue/dead/items").is_empty()).await;
        work.abort();
        let log = std::mem::take(&mut *log.lock().unwrap());
        assert_eq!(
            log.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(),
            (1..=20).collect::<Vec<_>>()
        );
        for (nth, pair) in log.windows(2).enumerate() {
            let most = Duration::from_millis(100 << nth.min(20)).min(Duration::from_secs(30));
            let waited = pair[1].1 - pair[0].1;
            // Requests take a moment.
            let bounds = most / 2..most + Duration::from_millis(50);
            assert!(bounds.contains(&waited), "{nth}: {waited:?} is not in {bounds:?}");
        }
        let dead = queue.dead_letters().consumer().next().await.unwrap();
        let rejection = dead.rejection().unwrap();
        assert_eq!((rejection.deliveries, &rejection.why[..]), (20, "no luck"));
    });
}

/// The delay is the claim, which is on the server.
#[test]
fn an_item_that_is_held_back_is_so_for_all_consumers() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, ["poison"]).await;
        let log = Log::default();
        let day = Duration::from_secs(24 * 3600);
        let consumer = queue.consumer().redeliver_after(day / 24, day);
        let work = tokio::spawn(consumer.run(1, failing(Arc::clone(&log))));
        until(&server, |probe| probe.paths().iter().any(|path| path.ends_with("/claim"))).await;
        let mut other = queue.consumer();
        assert!(timeout(Duration::from_secs(600), other.next()).await.is_err());
        assert_eq!(log.lock().unwrap().len(), 1);
        // Unless its consumer goes.
        work.abort();
        assert_eq!(
            seen(&timeout(A_MOMENT * 5, other.next()).await.unwrap().unwrap()),
            ("poison", 2)
        );
    });
}

#[test]
fn others_are_worked_off_while_some_are_held_back() {
    simulated_with(async |server, zk| {
        let queue = queue(&zk).unlimited_deliveries();
        for _ in 0..70 {
            queue.put("poison").await.unwrap();
        }
        queue.put("good").await.unwrap();
        let log = Log::default();
        let consumer = queue.consumer().redeliver_after(A_MOMENT * 100, A_MOMENT * 100);
        let work = tokio::spawn(consumer.run(1, failing(Arc::clone(&log))));
        past(A_MOMENT * 30).await;
        // At most 64, or one consumer would hold all claims.
        assert_eq!((claims(&server).len(), log.lock().unwrap().len()), (64, 64));
        past(A_MOMENT * 100).await;
        assert!(log.lock().unwrap().len() > 71, "{:?}", log.lock().unwrap().len());
        work.abort();
    });
}

/// The reason is left out rather than the item kept.
#[test]
fn an_item_as_large_as_can_be_is_rejected() {
    simulated_with(async |_server, zk| {
        let queue = queue(&zk);
        // Minus the additional size of a move compared with a put.
        let mut size = 1 << 20;
        while let Err(Error::Framework(error)) = queue.put(vec![b'x'; size]).await {
            assert_eq!(error.kind(), zk_curator::ErrorKind::TooLarge);
            size -= 1;
        }
        queue.consumer().next().await.unwrap().ack().await.unwrap();
        let size = size - 200;
        queue.put(vec![b'x'; size]).await.unwrap();
        let item = queue.consumer().next().await.unwrap();
        item.reject("why ".repeat(256)).await.unwrap();
        let dead = queue.dead_letters().consumer().next().await.unwrap();
        assert_eq!(dead.data().len(), size);
    });
}

#[test]
fn data_that_look_like_a_dead_letter_are_delivered_unchanged() {
    simulated_with(async |_server, zk| {
        let queue = filled(&zk, ["\0rejected 1 3 2\nnonsense"]).await;
        let item = queue.consumer().next().await.unwrap();
        assert_eq!((item.data(), item.rejection()), (&"\0rejected 1 3 2\nnonsense".into(), None));
        item.reject("bad").await.unwrap();
        let dead = queue.dead_letters().consumer().next().await.unwrap();
        assert_eq!(dead.data(), "\0rejected 1 3 2\nnonsense");
    });
}
