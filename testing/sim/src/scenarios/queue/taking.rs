//! Takers, who remove items before they have them, and die with some at hand.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::queue::{
    AutoAckConsumer, DistributedQueue, Error, FifoQueue, PutMode, SimpleDistributedQueue, UnconfirmedPolicy,
};

use super::{QUEUE, bucket_size, name_of, put, queue};
use crate::history::{Event, Name, Outcome};
use crate::{Client, Failure};

/// The largest window of deletes.
pub(super) const MOST_AT_HAND: usize = 20;
/// Those of a `FifoQueue`.
const ITEMS: &str = "/queue/items";

/// The queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Plain,
    Simple,
    Fifo(PutMode),
}

/// What is taken by removing it.
enum Queue {
    Plain(DistributedQueue),
    Simple(SimpleDistributedQueue),
    Fifo(FifoQueue),
}

impl Queue {
    /// Whether nothing is in it for sure.
    async fn is_empty(&self, zk: &CuratorFramework) -> bool {
        let list = async |path: &str| match zk.children(path).await {
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
            children => children,
        };
        let is_fifo = matches!(self, Self::Fifo(_));
        let Ok(mut names) = list(if is_fifo { ITEMS } else { QUEUE }).await else { return false };
        // The nodes of takers.
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

/// Takes from it.
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
            Self::Plain(auto_ack) => Ok(auto_ack.try_next().await?.map(|item| item.items.concat().into())),
            Self::Simple(queue) => queue.poll().await,
            Self::Fifo(queue) => queue.poll().await,
        }
    }
}

pub(super) async fn take(client: Client, taken: Taken) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let items = match taken {
        Taken::Plain => Queue::Plain(DistributedQueue::new(&zk, QUEUE)),
        Taken::Simple => Queue::Simple(SimpleDistributedQueue::new(&zk, QUEUE)),
        Taken::Fifo(enqueue) => {
            // Who takes what was put in one transaction is never unsure.
            let unsure = if enqueue == PutMode::TwoPhase && rng.bool() {
                UnconfirmedPolicy::Skip
            } else {
                UnconfirmedPolicy::default()
            };
            let queue = FifoQueue::new(&zk, QUEUE).unconfirmed_policy(unsure).put_mode(enqueue);
            Queue::Fifo(queue.bucket_size(bucket_size(&mut rng)))
        }
    };
    let mut takes = match &items {
        Queue::Plain(queue) => Takes::Plain(Box::new(
            queue.auto_ack_consumer().ack_batch([1, 2, 5, MOST_AT_HAND][rng.usize(..4)]),
        )),
        Queue::Simple(queue) => Takes::Simple(queue.clone()),
        Queue::Fifo(queue) => Takes::Fifo(queue.clone()),
    };
    let heard = |answer: Result<Option<Bytes>, Error>| match answer {
        Ok(Some(item)) => {
            let item = name_of(&item);
            client.record(Event::Taken { queue: queue(), item: Name::clone(&item), attempt: 1 });
            client.record(Event::Done { queue: queue(), item, outcome: Outcome::Sure });
        }
        Err(Error::Unknown { item, .. }) => {
            let item = name_of(&item.items.concat().into());
            client.record(Event::Done { queue: queue(), item, outcome: Outcome::Unknown });
        }
        // Nothing was taken.
        Ok(None) | Err(_) => {}
    };
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        match rng.u8(..4) {
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
    loop {
        let mut take = Box::pin(takes.take());
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut take => break Some(answer),
                // Whoever waits although there is something to be taken waits for ever.
                () = sleep(client.session_timeout() * 3) => if items.is_empty(&zk).await { break None },
            }
        };
        drop(take);
        let Some(answer) = answer else { break };
        heard(answer.map(Some));
    }
    // It may have taken one when its time was over.
    while let Ok(Some(item)) = takes.poll().await {
        heard(Ok(Some(item)));
    }
    if let Queue::Fifo(queue) = &items {
        queue.flush().await?;
    }
    Ok(())
}
