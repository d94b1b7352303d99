//! Queues: items are their numbers, as text.

use futures_util::future::try_join_all;
use zk_curator_recipes::queue::{
    AutoAckConsumer, DistributedPriorityQueue, DistributedQueue, FifoQueue, LockingQueue,
    SimpleDistributedQueue,
};

use super::stage::{Outcome, Result, Stage, at_most};
use crate::shared;
use crate::shared::counts::{Taken, item, priority};

/// The number of items that are put in one round trip while a queue is filled.
const BATCH: usize = 500;

/// Puts this many items, in the order of their numbers.
async fn fill(queue: &DistributedQueue, items: usize, length: usize) -> Result<()> {
    for first in (0..items).step_by(BATCH) {
        queue.put_all((first..items.min(first + BATCH)).map(|number| item(number, length))).await?;
    }
    Ok(())
}

pub(crate) async fn simple_put(stage: &mut Stage) -> Result<()> {
    let queue = SimpleDistributedQueue::new(&stage.client().await?, stage.below("queue"));
    shared::queues::put(stage, async |item| Ok(queue.offer(item).await?)).await
}

pub(crate) async fn simple_take(stage: &mut Stage) -> Result<()> {
    let queue = SimpleDistributedQueue::new(&stage.client().await?, stage.below("queue"));
    let put = async |item| Ok(queue.offer(item).await?);
    shared::queues::take(stage, put, async || Ok(queue.take().await?)).await
}

/// With a lock path or without: that is a matter of the consumers.
pub(crate) async fn put(stage: &mut Stage) -> Result<()> {
    let (queue, length) =
        (DistributedQueue::new(&stage.client().await?, stage.below("queue")), stage.payload);
    let size = stage.size;
    let run = async |operations| {
        let latencies =
            at_most(size, operations, async |number| Ok(queue.put(item(number, length)).await?))
                .await?;
        Ok(Outcome { operations, check: format!("items={}", latencies.len()), latencies })
    };
    stage.run_plain(run).await
}

pub(crate) async fn take(stage: &mut Stage, window: usize) -> Result<()> {
    let (queue, length) =
        (DistributedQueue::new(&stage.client().await?, stage.below("queue")), stage.payload);
    let run = async |operations| {
        take_all(queue.auto_ack_consumer().ack_batch(window), operations, false).await
    };
    stage.run(async |operations| fill(&queue, operations, length).await, run).await
}

/// The first of many items.
pub(crate) async fn take_of_many(stage: &mut Stage) -> Result<()> {
    let (queue, length, size) = (
        DistributedQueue::new(&stage.client().await?, stage.below("queue")),
        stage.payload,
        stage.size,
    );
    fill(&queue, size, length).await?;
    let run = async |operations| {
        take_all(queue.auto_ack_consumer().ack_batch(64), operations, false).await
    };
    stage.measure(None, run).await?;
    stage.clear().await
}

async fn take_all(
    mut auto_ack: AutoAckConsumer,
    operations: usize,
    priorities: bool,
) -> Result<Outcome> {
    let mut taken = Taken::of(operations);
    for _ in 0..operations {
        for item in auto_ack.next().await?.items {
            taken.take(&item, priorities)?;
        }
    }
    Ok(taken.outcome())
}

pub(crate) async fn priority_put(stage: &mut Stage) -> Result<()> {
    let queue = DistributedPriorityQueue::new(&stage.client().await?, stage.below("queue"));
    let (size, length) = (stage.size, stage.payload);
    let run = async |operations| {
        let one = async |number| Ok(queue.put(item(number, length), priority(number)).await?);
        let latencies = at_most(size, operations, one).await?;
        Ok(Outcome { operations, check: format!("items={}", latencies.len()), latencies })
    };
    stage.run_plain(run).await
}

pub(crate) async fn priority_take(stage: &mut Stage) -> Result<()> {
    let queue = DistributedPriorityQueue::new(&stage.client().await?, stage.below("queue"));
    let length = stage.payload;
    let prepare = async |operations| {
        for first in (0..operations).step_by(BATCH) {
            let numbers = first..operations.min(first + BATCH);
            try_join_all(numbers.map(|number| queue.put(item(number, length), priority(number))))
                .await?;
        }
        Ok(())
    };
    stage
        .run(prepare, async |operations| {
            take_all(queue.auto_ack_consumer(), operations, true).await
        })
        .await
}

pub(crate) async fn locking_take(stage: &mut Stage) -> Result<()> {
    let (queue, length) =
        (DistributedQueue::new(&stage.client().await?, stage.below("queue")), stage.payload);
    let locks = stage.below("locks");
    let run = async |operations| {
        let (mut consumer, mut taken) = (queue.consumer(&locks), Taken::of(operations));
        for _ in 0..operations {
            let delivery = consumer.next().await?;
            for item in delivery.items() {
                taken.take(item, false)?;
            }
            delivery.ack().await?;
        }
        Ok(taken.outcome())
    };
    stage.run(async |operations| fill(&queue, operations, length).await, run).await
}

/// The queue that has its claims below its items.
pub(crate) async fn own_locking_take(stage: &mut Stage) -> Result<()> {
    let (queue, length) =
        (LockingQueue::new(&stage.client().await?, stage.below("queue")), stage.payload);
    let prepare = async |operations: usize| {
        for first in (0..operations).step_by(BATCH) {
            let numbers = first..operations.min(first + BATCH);
            queue.put_all(numbers.map(|number| item(number, length))).await?;
        }
        Ok(queue.flush().await?)
    };
    let run = async |operations| {
        let (mut consumer, mut taken) = (queue.consumer(), Taken::of(operations));
        for _ in 0..operations {
            let item = consumer.next().await?;
            taken.take(item.data(), false)?;
            item.ack().await?;
        }
        Ok(taken.outcome())
    };
    stage.run(prepare, run).await
}

pub(crate) async fn fifo_take(stage: &mut Stage) -> Result<()> {
    let (queue, length) =
        (FifoQueue::new(&stage.client().await?, stage.below("queue")), stage.payload);
    let prepare = async |operations: usize| {
        for first in (0..operations).step_by(BATCH) {
            let numbers = first..operations.min(first + BATCH);
            try_join_all(numbers.map(|number| queue.put(item(number, length)))).await?;
        }
        Ok(queue.flush().await?)
    };
    let run = async |operations| {
        let mut taken = Taken::of(operations);
        for _ in 0..operations {
            taken.take(&queue.take().await?, false)?;
        }
        Ok(taken.outcome())
    };
    stage.run(prepare, run).await
}
