//! Names of items that begin again, because the node above them was removed and created again. No
//! consumer takes one item for another.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::{DistributedQueue, Error, FifoQueue, SimpleDistributedQueue};
use zk_curator_tests::{
    connected, expire, simulated_each, simulated_on, simulated_with, two_in_memory, until,
};

const QUEUE: &str = "/queue";
const LOCKS: &str = "/queue-locks";

/// The queues whose parents are containers.
enum Contained {
    Simple(SimpleDistributedQueue),
    Fifo(FifoQueue),
}

impl Contained {
    fn of(zk: &CuratorFramework, fifo: bool) -> Self {
        if fifo {
            Self::Fifo(FifoQueue::new(zk, QUEUE))
        } else {
            Self::Simple(SimpleDistributedQueue::new(zk, QUEUE))
        }
    }

    async fn put(&self, items: impl IntoIterator<Item = &str>) {
        for item in items {
            let item = Bytes::copy_from_slice(item.as_bytes());
            match self {
                Self::Simple(queue) => queue.offer(item).await.unwrap(),
                Self::Fifo(queue) => queue.put(item).await.unwrap(),
            }
        }
        if let Self::Fifo(queue) = self {
            queue.flush().await.unwrap();
        }
    }

    async fn poll(&self) -> Option<Bytes> {
        match self {
            Self::Simple(queue) => queue.poll().await.unwrap(),
            Self::Fifo(queue) => queue.poll().await.unwrap(),
        }
    }

    async fn rest(&self) -> Vec<Bytes> {
        let mut rest = Vec::new();
        while let Some(item) = self.poll().await {
            rest.push(item);
        }
        rest
    }
}

/// A has prefetched an item that B then takes. The servers must not delete the queue, because A
/// still knows its names.
#[test]
fn seed_195_a_container_stays_for_a_consumer_that_read_ahead() {
    simulated_each([false, true], async |fifo, server, zk| {
        let other = connected(&server).await;
        let (a, b) = (Contained::of(&zk, fifo), Contained::of(&other, fifo));
        a.put(["0", "1", "2"]).await;
        assert_eq!(a.poll().await.unwrap(), "0");
        assert_eq!(a.poll().await.unwrap(), "1");
        assert_eq!(b.rest().await, ["2"]);
        let items = if fifo { "/queue/items" } else { QUEUE };
        server.reap_containers();
        assert!(server.probe().exists(items), "{}", server.probe());
        b.put(["3", "4", "5"]).await;
        assert_eq!(a.rest().await, ["3", "4", "5"]);
        // Without the clients that take it is.
        drop((a, b));
        until(&server, |probe| zk_curator_tests::items(probe, items).is_empty()).await;
        server.reap_containers();
        // The buckets of a FifoQueue stay.
        assert_eq!(server.probe().exists(items), fifo, "{}", server.probe());
    });
}

/// The session of A is over, and with it the nodes that kept the container.
#[test]
fn items_read_in_an_ended_session_are_not_delivered() {
    simulated_each([false, true], async |fifo, server, zk| {
        let other = connected(&server).await;
        let (a, b) = (Contained::of(&zk, fifo), Contained::of(&other, fifo));
        a.put(["0", "1", "2"]).await;
        assert_eq!(a.poll().await.unwrap(), "0");
        assert_eq!(a.poll().await.unwrap(), "1");
        assert_eq!(b.rest().await, ["2"]);
        drop(b);
        expire(&server, &zk).await;
        let items = if fifo { "/queue/items" } else { QUEUE };
        until(&server, |probe| zk_curator_tests::items(probe, items).is_empty()).await;
        server.reap_containers();
        assert_eq!(server.probe().exists(items), fifo);
        Contained::of(&other, fifo).put(["3", "4", "5"]).await;
        assert_eq!(a.rest().await, ["3", "4", "5"]);
    });
}

/// An operator deletes the whole queue while clients use it, and a producer creates it again: the
/// numbers begin with zero.
#[test]
fn a_recreated_queue_delivers_no_old_item_as_a_new_one() {
    simulated_each([false, true], async |fifo, server, zk| {
        let other = connected(&server).await;
        let (a, b) = (Contained::of(&zk, fifo), Contained::of(&other, fifo));
        a.put(["0", "1", "2", "3"]).await;
        assert_eq!(a.poll().await.unwrap(), "0");
        // Now two are read at a time: "2" is in the hands of A, and not removed.
        assert_eq!(a.poll().await.unwrap(), "1");
        other.delete(QUEUE).deleting_children().await.unwrap();
        b.put(["4", "5", "6", "7"]).await;
        let names = server.probe();
        let items = zk_curator_tests::items(&names, if fifo { "/queue/items" } else { QUEUE });
        assert_eq!(
            items.iter().filter(|name| name.ends_with("-0000000002")).count(),
            1,
            "{items:?}"
        );
        assert_eq!(a.rest().await, ["4", "5", "6", "7"]);
    });
}

/// Curator's queues are not containers: the servers never remove them, and the numbers continue.
#[test]
fn the_queues_of_curators_family_are_not_reaped() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, "/a/queue");
        let mut auto_ack = queue.auto_ack_consumer();
        for number in 0..3 {
            queue.put("x").await.unwrap();
            assert_eq!(auto_ack.next().await.unwrap().path, format!("/a/queue/queue-{number:010}"));
            assert_eq!(server.reap_containers(), [""; 0]);
        }
    });
}

/// Who removes a queue of Curator's together with the claims lets none of the clients that hold one
/// remove a new item.
#[test]
fn a_delivery_without_claim_removes_no_item_of_a_new_queue() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put("old").await.unwrap();
        let delivery = queue.consumer(LOCKS).next().await.unwrap();
        for path in [LOCKS, QUEUE] {
            other.delete(path).deleting_children().await.unwrap();
        }
        DistributedQueue::new(&other, QUEUE).put("new").await.unwrap();
        assert_eq!(server.probe().children(QUEUE), ["queue-0000000000"]);
        assert!(matches!(delivery.ack().await, Err(Error::Lost { .. })));
        let again = queue.consumer(LOCKS).next().await.unwrap();
        assert_eq!(again.items(), ["new"]);
    });
}

/// Reports about the old queue say nothing about the new one.
#[test]
fn a_corrupt_item_of_a_deleted_queue_hides_none_of_the_new_one() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put("0").await.unwrap();
        zk.set_data("/queue/queue-0000000000", "corrupt").await.unwrap();
        let mut auto_ack = queue.auto_ack_consumer();
        assert!(matches!(auto_ack.try_next().await, Err(Error::Corrupt { .. })));
        assert_eq!(auto_ack.try_next().await.unwrap(), None);
        other.delete(QUEUE).deleting_children().await.unwrap();
        DistributedQueue::new(&other, QUEUE).put("new").await.unwrap();
        assert_eq!(auto_ack.try_next().await.unwrap().unwrap().items, ["new"]);
    });
}

/// A container that never had a child is never removed by the servers.
#[test]
fn a_waiter_at_a_missing_queue_creates_none_and_is_woken() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let simple = SimpleDistributedQueue::new(&zk, QUEUE);
        let curator = DistributedQueue::new(&zk, "/curator");
        let (mut auto_ack, mut consumer) = (curator.auto_ack_consumer(), curator.consumer(LOCKS));
        assert!(timeout(Duration::from_secs(1), simple.take()).await.is_err());
        assert!(timeout(Duration::from_secs(1), auto_ack.next()).await.is_err());
        assert!(timeout(Duration::from_secs(1), consumer.next()).await.is_err());
        assert!(
            !server.probe().exists(QUEUE) && !server.probe().exists("/curator"),
            "{}",
            server.probe()
        );
        let put = async {
            until(&server, |probe| !probe.watches().is_empty()).await;
            SimpleDistributedQueue::new(&other, QUEUE).offer("one").await.unwrap();
        };
        assert_eq!(tokio::join!(simple.take(), put).0.unwrap(), "one");
    });
}
