//! Queues: items are their numbers, as text.

use std::time::Instant;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zk_curator_recipes::queue::{
    AutoAck, Consumer, DistributedPriorityQueue, DistributedQueue, FifoQueue, LockingQueue,
    SimpleDistributedQueue,
};

use super::stage::{Outcome, Result, Samples, Stage, at_most};

/// The number of items that are put in one round trip while a queue is filled.
const BATCH: usize = 500;
/// Priorities of items in turn.
const PRIORITIES: usize = 10;

fn item(number: usize, length: usize) -> Bytes {
    format!("{number:<length$}").into()
}

fn number_of(item: &[u8]) -> Result<usize> {
    Ok(std::str::from_utf8(item)?.trim_end().parse()?)
}

fn priority(number: usize) -> i32 {
    i32::try_from(number % PRIORITIES).unwrap_or(0)
}

/// Which items came, in which order.
struct Taken {
    seen: Vec<bool>,
    count: usize,
    distinct: usize,
    last: Option<(i32, usize)>,
    in_order: bool,
    latencies: Samples,
    before: Instant,
}

impl Taken {
    fn of(operations: usize) -> Self {
        Self {
            seen: vec![false; operations],
            count: 0,
            distinct: 0,
            last: None,
            in_order: true,
            latencies: Samples::new(),
            before: Instant::now(),
        }
    }

    /// An item has come; with priorities, those go first.
    fn take(&mut self, item: &[u8], priorities: bool) -> Result<()> {
        let now = Instant::now();
        self.latencies.push(now - self.before);
        self.before = now;
        let number = number_of(item)?;
        let place = (if priorities { priority(number) } else { 0 }, number);
        self.in_order &= self.last < Some(place);
        self.last = Some(place);
        self.count += 1;
        if let Some(seen) = self.seen.get_mut(number) {
            self.distinct += usize::from(!std::mem::replace(seen, true));
        }
        Ok(())
    }

    fn outcome(self) -> Outcome {
        let order = if self.in_order { "ok" } else { "wrong" };
        let check = format!("items={} distinct={} order={order}", self.count, self.distinct);
        Outcome { operations: self.count, latencies: self.latencies, check }
    }
}

/// Puts this many items, in the order of their numbers.
async fn fill(queue: &DistributedQueue, items: usize, length: usize) -> Result<()> {
    for first in (0..items).step_by(BATCH) {
        queue.put_all((first..items.min(first + BATCH)).map(|number| item(number, length))).await?;
    }
    Ok(())
}

pub(crate) async fn simple_put(stage: &mut Stage) -> Result<()> {
    let (queue, length) =
        (SimpleDistributedQueue::new(&stage.client().await?, stage.below("queue")), stage.payload);
    let run = async |operations| {
        let latencies =
            at_most(1, operations, async |number| Ok(queue.offer(item(number, length)).await?))
                .await?;
        Ok(Outcome { operations, check: format!("items={}", latencies.len()), latencies })
    };
    stage.run_plain(run).await
}

pub(crate) async fn simple_take(stage: &mut Stage) -> Result<()> {
    let (queue, length) =
        (SimpleDistributedQueue::new(&stage.client().await?, stage.below("queue")), stage.payload);
    let prepare = async |operations| {
        for first in (0..operations).step_by(BATCH) {
            let numbers = first..operations.min(first + BATCH);
            try_join_all(numbers.map(|number| queue.offer(item(number, length)))).await?;
        }
        Ok(())
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
    mut auto_ack: Consumer<AutoAck>,
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
