use std::future::ready;
use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::jobs::{JobDelivery, JobTask, Jobs};
use zk_curator_recipes::queue::{
    DistributedIdQueue, DistributedPriorityQueue, DistributedQueue, FifoQueue, LockPathDelivery,
    LockingDelivery, LockingQueue, QueueSharder, QueueSharderBuilder, SimpleDistributedQueue,
};

use super::failure::Failure;
use super::row::list;
use super::stage::Stage;

fn simple(stage: &Stage) -> SimpleDistributedQueue {
    SimpleDistributedQueue::new(&stage.zk, stage.at())
}

fn fifo(stage: &Stage) -> FifoQueue {
    FifoQueue::new(&stage.zk, stage.at())
}

fn plain(stage: &Stage) -> DistributedQueue {
    DistributedQueue::new(&stage.zk, stage.at())
}

fn locking(stage: &Stage) -> LockingQueue {
    LockingQueue::new(&stage.zk, stage.at())
}

fn jobs(stage: &Stage) -> Jobs {
    Jobs::new(&stage.zk, stage.at())
}

fn sharder(stage: &Stage) -> QueueSharderBuilder<DistributedQueue> {
    let allocate = |zk: &CuratorFramework, path: &str| DistributedQueue::new(zk, path);
    QueueSharder::builder(&stage.zk, stage.at(), stage.beside("leader"), allocate)
}

/// An item that was delivered under a lock.
async fn locked(stage: &Stage) -> Result<LockPathDelivery, Failure> {
    plain(stage).put("a").await?;
    Ok(plain(stage).consumer(stage.beside("locks")).next().await?)
}

/// An item of a locking queue that was delivered.
async fn claimed(stage: &Stage) -> Result<LockingDelivery, Failure> {
    locking(stage).put("a").await?;
    Ok(locking(stage).consumer().next().await?)
}

/// A job that is executed.
async fn executing(stage: &Stage) -> Result<JobDelivery, Failure> {
    jobs(stage).submit("a").id("a").await?;
    Ok(jobs(stage).worker("w").next().await?)
}

list! {
    "queue::SimpleDistributedQueue::offer": |s| {} => simple(&s).offer("a").await?;
    "queue::SimpleDistributedQueue::take": |s| { simple(&s.there()).offer("a").await?; } =>
        simple(&s).take().await?;
    "queue::SimpleDistributedQueue::poll": |s| { simple(&s.there()).offer("a").await?; } =>
        simple(&s).poll().await?;
    "queue::SimpleDistributedQueue::remove": |s| { simple(&s.there()).offer("a").await?; } =>
        simple(&s).remove().await?;
    "queue::SimpleDistributedQueue::peek": |s| { simple(&s.there()).offer("a").await?; } =>
        simple(&s).peek().await?;
    "queue::SimpleDistributedQueue::element": |s| { simple(&s.there()).offer("a").await?; } =>
        simple(&s).element().await?;
    "queue::FifoQueue::put": |s| {} => fifo(&s).put("a").await?;
    "queue::FifoQueue::take": |s| { fifo(&s.there()).put("a").await?; } => fifo(&s).take().await?;
    "queue::FifoQueue::poll": |s| { fifo(&s.there()).put("a").await?; } => fifo(&s).poll().await?;
    "queue::FifoQueue::flush": |s| { let queue = fifo(&s); queue.put("a").await?; } =>
        queue.flush().await?;
    "queue::CuratorQueue<Plain>::put": |s| {} => plain(&s).put("a").await?;
    "queue::CuratorQueue<Plain>::put, bounded": |s| {} => plain(&s).max_items(2).put("a").await?;
    "queue::CuratorQueue<Plain>::put, once": |s| {} => {
        let queue = plain(&s).idempotent_puts(s.beside("ids"));
        queue.put("a").await?;
        queue
    };
    "queue::CuratorQueue<Plain>::try_put": |s| {} => plain(&s).max_items(2).try_put("a").await?;
    "queue::CuratorQueue<Plain>::put_multi": |s| {} => plain(&s).put_multi(["a", "b"]).await?;
    "queue::CuratorQueue<Plain>::put_all": |s| {} => plain(&s).put_all(["a", "b"]).await?;
    "queue::CuratorQueue::put": |s| {} =>
        DistributedPriorityQueue::new(&s.zk, s.at()).put("a", 1).await?;
    "queue::CuratorQueue::try_put": |s| {} =>
        DistributedIdQueue::new(&s.zk, s.at()).try_put("a", "id").await?;
    "queue::CuratorQueue::put_multi": |s| {} =>
        DistributedPriorityQueue::new(&s.zk, s.at()).put_multi(["a", "b"], 1).await?;
    "queue::CuratorQueue<Id>::remove": |s| {
        let queue = DistributedIdQueue::new(&s.zk, s.at());
        queue.put("a", "id").await?;
    } => queue.remove("id").await?;
    "queue::CuratorQueue::count": |s| {
        plain(&s.there()).put("a").await?;
    } => plain(&s).count().await?;
    "queue::CuratorQueue::flush": |s| { let queue = plain(&s); queue.put("a").await?; } =>
        queue.flush().await?;
    "queue::Consumer::next": |s| { plain(&s.there()).put("a").await?; } =>
        plain(&s).auto_ack_consumer().next().await?;
    "queue::Consumer::next, with a lock": |s| { plain(&s.there()).put("a").await?; } =>
        plain(&s).consumer(s.beside("locks")).next().await?;
    "queue::Consumer::next, of a locking queue": |s| { locking(&s.there()).put("a").await?; } =>
        locking(&s).consumer().next().await?;
    "queue::Consumer::next, of jobs": |s| { jobs(&s.there()).submit("a").await?; } =>
        jobs(&s).worker("w").next().await?;
    "queue::Consumer::try_next": |s| { plain(&s.there()).put("a").await?; } =>
        plain(&s).auto_ack_consumer().try_next().await?;
    "queue::Consumer::try_next, with a lock": |s| { plain(&s.there()).put("a").await?; } =>
        plain(&s).consumer(s.beside("locks")).try_next().await?;
    "queue::Consumer::try_next, of a locking queue": |s| { locking(&s.there()).put("a").await?; } =>
        locking(&s).consumer().try_next().await?;
    "queue::Consumer<AutoAck>::peek": |s| { plain(&s.there()).put("a").await?; } => {
        let mut consumer = plain(&s).auto_ack_consumer();
        drop(consumer.peek().await?);
    };
    "queue::Consumer<AutoAck>::try_peek": |s| { plain(&s.there()).put("a").await?; } => {
        let mut consumer = plain(&s).auto_ack_consumer();
        drop(consumer.try_peek().await?);
    };
    "queue::Peeked::ack": |s| {
        plain(&s.there()).put("a").await?;
        let mut consumer = plain(&s).auto_ack_consumer();
    } => consumer.peek().await?.ack().await?;
    "queue::Consumer::run": |s| { plain(&s.there()).put("a").await?; } => {
        let stop = Shutdown::new();
        let body = |_| { stop.begin(); s.call_back(); ready(Ok::<_, Failure>(())) };
        plain(&s).auto_ack_consumer().run(1, body).until(stop.clone()).await?;
    };
    "queue::Consumer::run, with a lock": |s| { plain(&s.there()).put("a").await?; } => {
        let stop = Shutdown::new();
        let body = |_| { stop.begin(); s.call_back(); ready(Ok::<_, Failure>(())) };
        let consumer = plain(&s).consumer(s.beside("locks"));
        consumer.run(1, body).until(stop.clone().drain(Duration::MAX)).await?;
    };
    "queue::Consumer::run, of a locking queue": |s| { locking(&s.there()).put("a").await?; } => {
        let stop = Shutdown::new();
        let body = |_| { stop.begin(); s.call_back(); ready(Ok::<_, Failure>(())) };
        locking(&s).consumer().run(1, body).until(stop.clone().drain(Duration::MAX)).await?;
    };
    "queue::Consumer::run, of jobs": |s| { jobs(&s.there()).submit("a").await?; } => {
        let stop = Shutdown::new();
        let body = |_: JobTask| { stop.begin(); s.call_back(); ready(Ok::<_, Failure>(None)) };
        jobs(&s).worker("w").run(1, body).until(stop.clone().drain(Duration::MAX)).await?;
    };
    "queue::Delivery::lost": |s| {
        let held = locked(&s).await?;
        let locks = s.beside("locks");
        let lock = s.zk.children(&locks).await?.remove(0);
    } => s.and_delete(held.lost(), &format!("{locks}/{lock}")).await?;
    "queue::Delivery<LockPath>::ack": |s| { let item = locked(&s).await?; } => item.ack().await?;
    "queue::Delivery<LockPath>::requeue": |s| {
        let item = locked(&s).await?;
    } => item.requeue().await?;
    "queue::Delivery<Locking>::ack": |s| { let item = claimed(&s).await?; } => item.ack().await?;
    "queue::Delivery<Locking>::requeue": |s| {
        let item = claimed(&s).await?;
    } => item.requeue().await?;
    "queue::Delivery<Locking>::reject": |s| { let item = claimed(&s).await?; } =>
        item.reject("why").await?;
    "queue::LockingQueue::put": |s| {} => locking(&s).put("a").await?;
    "queue::LockingQueue::put_with_priority": |s| {} =>
        locking(&s).put_with_priority("a", 1).await?;
    "queue::LockingQueue::put_all": |s| {} => locking(&s).put_all(["a", "b"]).await?;
    "queue::LockingQueue::flush": |s| { let queue = locking(&s); queue.put("a").await?; } =>
        queue.flush().await?;
    "queue::LockingQueue::count": |s| {
        locking(&s.there()).put("a").await?;
    } => locking(&s).count().await?;
    "queue::Submission::into_future": |s| {} => jobs(&s).submit("a").id("a").await?;
    "queue::Submission::into_future, without an id": |s| {} =>
        jobs(&s).submit("a").priority(1).await?;
    "queue::Jobs::flush": |s| {
        let jobs = jobs(&s);
        jobs.submit("a").await?;
    } => jobs.flush().await?;
    "queue::Jobs::cancel": |s| {
        jobs(&s.there()).submit("a").id("a").await?;
    } => jobs(&s).cancel("a").await?;
    "queue::Jobs::retry": |s| { executing(&s.there()).await?.reject("why").await?; } =>
        jobs(&s).retry("a").await?;
    "queue::Jobs::forget": |s| { executing(&s.there()).await?.reject("why").await?; } =>
        jobs(&s).forget("a").await?;
    "queue::Jobs::result": |s| { executing(&s.there()).await?.complete_with("b").await?; } =>
        jobs(&s).result("a").await?;
    "queue::Jobs::get": |s| {
        jobs(&s.there()).submit("a").id("a").await?;
    } => jobs(&s).get("a").await?;
    "queue::Jobs::counts": |s| {
        jobs(&s.there()).submit("a").id("a").await?;
    } => jobs(&s).counts().await?;
    "queue::JobList::into_future": |s| { jobs(&s.there()).submit("a").id("a").await?; } =>
        jobs(&s).list().await?;
    "queue::JobList::all": |s| {
        jobs(&s.there()).submit("a").id("a").await?;
    } => jobs(&s).list().all().await?;
    "queue::Delivery<Claimed>::complete": |s| { let job = executing(&s).await?; } =>
        job.complete().await?;
    "queue::Delivery<Claimed>::complete_with": |s| { let job = executing(&s).await?; } =>
        job.complete_with("b").await?;
    "queue::Delivery<Claimed>::fail": |s| {
        let job = executing(&s).await?;
    } => job.fail("why").await?;
    "queue::Delivery<Claimed>::retry_after": |s| { let job = executing(&s).await?; } =>
        job.retry_after("why", Duration::from_secs(60)).await?;
    "queue::Delivery<Claimed>::reject": |s| { let job = executing(&s).await?; } =>
        job.reject("why").await?;
    "queue::QueueSharderBuilder::open": |s| {} => sharder(&s).open().await?;
    "queue::QueueSharder::close": |s| { let sharder = sharder(&s).open().await?; } =>
        sharder.close().await?;
    "queue::QueueSharder::run": |s| { let sharder = sharder(&s).open().await?; } => {
        let stop = Shutdown::new();
        let body = |_| { stop.begin(); s.call_back(); ready(Ok::<_, Failure>(())) };
        sharder.run(body).until(stop.clone()).await?;
        sharder.close().await?;
    };
}
