//! Nodes below an item that are none of the queue's: the item cannot be removed.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{
    DistributedQueue, Error, FifoQueue, LockingQueue, PutMode, SimpleDistributedQueue,
};
use zk_curator_testing::TestServer;

use crate::queue::{LOCKS, QUEUE};
use zk_curator_tests::{in_memory, items, simulated_each, simulated_with};

/// Returns the data of a delivered item.
type Next = Result<String, Error>;

fn text(data: impl AsRef<[u8]>) -> String {
    String::from_utf8(data.as_ref().to_vec()).unwrap()
}

/// The first item has a child: this is reported once, the second item is delivered, and nothing
/// else happens.
async fn passed_over(
    server: &TestServer,
    zk: &CuratorFramework,
    parent: &str,
    mut next: impl AsyncFnMut() -> Next,
) {
    let number = |name: &String| name[name.len() - 10..].to_owned();
    let first = items(&server.probe(), parent).into_iter().min_by_key(number).unwrap();
    let foreign = format!("{parent}/{first}/odd");
    zk.create(&foreign).await.unwrap();
    let before = server.probe().total_requests();
    let reported = next().await;
    assert!(matches!(&reported, Err(Error::Foreign { path }) if *path == foreign), "{reported:?}");
    assert_eq!(next().await.unwrap(), "good");
    assert!(timeout(Duration::from_secs(60), next()).await.is_err());
    let requests = server.probe().total_requests() - before;
    assert!(requests <= 100, "{requests} requests");
    assert!(server.probe().exists(&foreign));
}

#[test]
fn auto_ack_consumer_passes_over_items_with_foreign_children() {
    simulated_each([1, 8], async |window, server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put("bad").await.unwrap();
        queue.put("good").await.unwrap();
        let mut auto_ack = queue.auto_ack_consumer().ack_batch(window);
        let next = async || auto_ack.next().await.map(|item| text(&item.items[0]));
        passed_over(&server, &zk, QUEUE, next).await;
    });
    simulated_each([PutMode::Transaction, PutMode::TwoPhase], async |enqueue, server, zk| {
        let queue = FifoQueue::new(&zk, QUEUE).put_mode(enqueue);
        queue.put("bad").await.unwrap();
        queue.put("good").await.unwrap();
        let next = async || queue.take().await.map(text);
        passed_over(&server, &zk, "/queue/items", next).await;
    });
    simulated_with(async |server, zk| {
        let queue = SimpleDistributedQueue::new(&zk, QUEUE);
        queue.offer("bad").await.unwrap();
        queue.offer("good").await.unwrap();
        passed_over(&server, &zk, QUEUE, async || queue.take().await.map(text)).await;
    });
}

#[test]
fn a_consumer_passes_over_an_item_with_a_foreign_child() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put("bad").await.unwrap();
        queue.put("good").await.unwrap();
        let mut consumer = queue.consumer(LOCKS);
        let next = async || {
            let delivery = consumer.next().await?;
            let item = text(&delivery.items()[0]);
            delivery.ack().await.map(|()| item)
        };
        passed_over(&server, &zk, QUEUE, next).await;

        let (server, zk) = in_memory().await;
        let queue = LockingQueue::new(&zk, QUEUE);
        queue.put("bad").await.unwrap();
        queue.put("good").await.unwrap();
        let mut consumer = queue.consumer();
        let next = async || {
            let item = consumer.next().await?;
            let data = text(item.data());
            item.ack().await.map(|()| data)
        };
        passed_over(&server, &zk, "/queue/items", next).await;

        let (server, zk) = in_memory().await;
        let jobs = Jobs::new(&zk, QUEUE);
        jobs.submit("bad").await.unwrap();
        jobs.submit("good").await.unwrap();
        let mut worker = jobs.worker("worker");
        let next = async || {
            let job = worker.next().await?;
            let data = text(job.data());
            job.complete().await.map(|()| data)
        };
        passed_over(&server, &zk, "/queue/pending", next).await;
    });
}

#[test]
fn an_ack_names_the_foreign_child_that_prevents_it() {
    simulated_with(async |_server, zk| {
        let queue = LockingQueue::new(&zk, QUEUE);
        queue.put("bad").await.unwrap();
        queue.put("good").await.unwrap();
        let mut consumer = queue.consumer();
        let item = consumer.next().await.unwrap();
        let foreign = format!("{}/odd", item.path());
        zk.create(&foreign).await.unwrap();
        let result = item.ack().await;
        assert!(matches!(&result, Err(Error::Foreign { path }) if *path == foreign), "{result:?}");
        let next = match consumer.next().await {
            Err(Error::Foreign { path }) if path == foreign => consumer.next().await,
            next => next,
        };
        assert_eq!(next.unwrap().data(), "good");

        let queue = DistributedQueue::new(&zk, "/curator");
        queue.put("bad").await.unwrap();
        queue.put("good").await.unwrap();
        let mut consumer = queue.consumer(LOCKS);
        let delivery = consumer.next().await.unwrap();
        let foreign = format!("{}/odd", delivery.path());
        zk.create(&foreign).await.unwrap();
        let result = delivery.ack().await;
        assert!(matches!(&result, Err(Error::Foreign { path }) if *path == foreign), "{result:?}");
        let next = match consumer.next().await {
            Err(Error::Foreign { path }) if path == foreign => consumer.next().await,
            next => next,
        };
        assert_eq!(next.unwrap().items(), ["good"]);
    });
}
