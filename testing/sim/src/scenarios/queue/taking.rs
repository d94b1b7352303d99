//! Consumers that remove items before they have them, and may die with the removed items.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::{
    AutoAckConsumer, DistributedQueue, Error, FifoQueue, OnUnconfirmed, PutMode,
    SimpleDistributedQueue,
};

use crate::history::{Name, Outcome, Queue};
use crate::scenarios::support::driving::{Drive, stopped_by};
use crate::scenarios::support::items::{QUEUE, bucket_size, name_of, put, queue};
use crate::{Client, Failure};

/// The largest window of deletes.
pub(super) const MOST_AT_HAND: usize = 20;
/// The items of a `FifoQueue`.
const ITEMS: &str = "/queue/items";

/// The kind of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Plain,
    Simple,
    Fifo(PutMode),
}

/// A queue that delivers an item by removing it.
enum Source {
    Plain(DistributedQueue),
    Simple(SimpleDistributedQueue),
    Fifo(FifoQueue),
}

impl Source {
    /// Returns `true` if the queue is certainly empty.
    async fn is_empty(&self, zk: &CuratorFramework) -> bool {
        let list = async |path: &str| match zk.children(path).await {
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
            children => children,
        };
        let is_fifo = matches!(self, Self::Fifo(_));
        let Ok(mut names) = list(if is_fifo { ITEMS } else { QUEUE }).await else { return false };
        // Nodes of consumers do not count as items.
        names.retain(|name| !name.contains("-taker-"));
        let (buckets, others): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| is_fifo && name.starts_with("b-"));
        for bucket in buckets {
            if list(&format!("{ITEMS}/{bucket}")).await.is_ok_and(|items| items.is_empty()) {
                continue;
            }
            return false;
        }
        others.is_empty()
    }

    async fn put(&self, item: String) -> Result<(), Error> {
        match self {
            Self::Plain(queue) => queue.put(item).await,
            Self::Simple(queue) => queue.offer(item).await,
            Self::Fifo(queue) => queue.put(item).await,
        }
    }
}

/// The receiving end of the queue.
enum Takes {
    Plain(Box<AutoAckConsumer>),
    Simple(SimpleDistributedQueue),
    Fifo(FifoQueue),
}

impl Takes {
    async fn take(&mut self) -> Result<Bytes, Error> {
        match self {
            Self::Plain(auto_ack) => auto_ack.next().await.map(|item| item.items.concat().into()),
            Self::Simple(queue) => queue.take().await,
            Self::Fifo(queue) => queue.take().await,
        }
    }

    async fn poll(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            Self::Plain(auto_ack) => {
                Ok(auto_ack.try_next().await?.map(|item| item.items.concat().into()))
            }
            Self::Simple(queue) => queue.poll().await,
            Self::Fifo(queue) => queue.poll().await,
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one scenario")]
pub(super) async fn take(client: Client, taken: Taken) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let items = match taken {
        Taken::Plain => Source::Plain(DistributedQueue::new(&zk, QUEUE)),
        Taken::Simple => Source::Simple(SimpleDistributedQueue::new(&zk, QUEUE)),
        Taken::Fifo(enqueue) => {
            // A consumer of items that were put in one transaction always knows the outcome.
            let unsure = if enqueue == PutMode::TwoPhase && rng.bool() {
                OnUnconfirmed::Skip
            } else {
                OnUnconfirmed::default()
            };
            let queue = FifoQueue::new(&zk, QUEUE).on_unconfirmed(unsure).put_mode(enqueue);
            Source::Fifo(queue.bucket_size(bucket_size(&mut rng)))
        }
    };
    let mut takes = match &items {
        Source::Plain(queue) => Takes::Plain(Box::new(
            queue.auto_ack_consumer().ack_batch([1, 2, 5, MOST_AT_HAND][rng.usize(..4)]),
        )),
        Source::Simple(queue) => Takes::Simple(queue.clone()),
        Source::Fifo(queue) => Takes::Fifo(queue.clone()),
    };
    let heard = |answer: Result<Option<Bytes>, Error>| match answer {
        Ok(Some(item)) => {
            let item = name_of(&item);
            client.record(Queue::Taken { queue: queue(), item: Name::clone(&item), attempt: 1 });
            client.record(Queue::Done { queue: queue(), item, outcome: Outcome::Sure });
        }
        Err(Error::Unknown { item, .. }) => {
            let item = name_of(&item.items.concat().into());
            client.record(Queue::Done { queue: queue(), item, outcome: Outcome::Unknown });
        }
        // No item was taken.
        Ok(None) | Err(_) => {}
    };
    // A run logs an item whose removal has an unknown outcome, but reports it to no caller. So runs
    // process items only after the last fault, when no items from earlier calls are at hand.
    let runs = matches!(items, Source::Plain(_)) && Drive::draw(&client, &mut rng) == Drive::Run;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        match rng.u8(..4) {
            _ if runs => drop(put(&client, |item| items.put(item)).await),
            0 | 1 => drop(put(&client, |item| items.put(item)).await),
            2 => {
                if let Some(answer) = client.maybe_cancel(takes.poll()).await {
                    heard(answer);
                }
            }
            _ => {
                let next = timeout(client.session_timeout(), takes.take());
                if let Some(Ok(answer)) = client.maybe_cancel(next).await {
                    heard(answer.map(Some));
                }
            }
        }
    }
    client.faults_are_over().await;
    if let Source::Plain(queue) = &items
        && runs
    {
        // A response shows that the connection began after the last fault.
        while zk.exists(QUEUE).await.is_err() {}
        let body = async |item: Bytes| {
            heard(Ok(Some(item)));
            sleep(client.moment(Duration::from_millis(50))).await;
            Ok::<_, Failure>(())
        };
        let is_empty = async {
            while !items.is_empty(&zk).await {
                sleep(client.session_timeout() / 4).await;
            }
        };
        let (consumer, limit) =
            (queue.auto_ack_consumer().ack_batch(rng.usize(1..6)), rng.usize(1..5));
        let run =
            |stop: Shutdown| Box::pin(consumer.run(limit, body).until(stop.drain(Duration::MAX)));
        stopped_by(is_empty, run).await?;
    }
    loop {
        let mut take = Box::pin(takes.take());
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut take => break Some(answer),
                // A consumer that waits although the queue has items would wait forever.
                () = sleep(client.session_timeout() * 3) => if items.is_empty(&zk).await { break None },
            }
        };
        drop(take);
        let Some(answer) = answer else { break };
        heard(answer.map(Some));
    }
    // The consumer may have taken an item at the moment of its timeout.
    while let Ok(Some(item)) = takes.poll().await {
        heard(Ok(Some(item)));
    }
    if let Source::Fifo(queue) = &items {
        queue.flush().await?;
    }
    Ok(())
}
