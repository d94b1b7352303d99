//! [`queue`](zk_curator_recipes::queue): every client puts items and takes those of all. Consumers acknowledge, put back, let
//! go and die with items in their hands. When there are no more faults every client takes what is left.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::queue::{
    Consumer, Delivery as Delivered, DistributedPriorityQueue, DistributedQueue, Enqueue, Error, FifoQueue,
    SimpleDistributedQueue, Taker,
};

use super::Recipe;
use crate::sim::checkers::{Checker, Delivery};
use crate::sim::history::{Event, Name, Outcome};
use crate::sim::{Client, Failure};

const QUEUE: &str = "/queue";
/// Those of a `FifoQueue`.
const ITEMS: &str = "/queue/items";
const LOCKS: &str = "/queue-locks";
const IDS: &str = "/queue-ids";
const DEAD: &str = "/queue-dead";
const DEAD_LOCKS: &str = "/queue-dead-locks";
/// After that it is put aside.
const MOST_DELIVERIES: u32 = 2;
/// The largest window of deletes.
const MOST_AT_HAND: usize = 20;
/// Consumers under claims leave the queue, and processes that die leave ids, which are collected much later.
const LEAVES: &[&str] = &["/queue", "/queue-locks", "/queue-ids", "/queue-ids/put-*"];
/// The same; and containers which somebody who was killed then has created, for those that never had a child stay.
const LEAVES_OF_FIFO: &[&str] = &["/queue", "/queue/items", "/queue/ids", "/queue/ids/put-*"];

pub(super) const DEAD_LETTERS: Recipe = Recipe::new(
    "dead_letters",
    "DistributedQueue under claims: what was handed out too often is put aside",
    |client| Box::pin(consume(client, Kind::Counted)),
)
.checked_by(exactly_once)
.leaves(&["/queue", "/queue-locks", DEAD, DEAD_LOCKS]);

pub(super) const EXACTLY_ONCE: Recipe =
    Recipe::new("exactly_once", "DistributedQueue with ids: what is put once is worked off once", |client| {
        Box::pin(consume(client, Kind::WithIds))
    })
    .checked_by(exactly_once)
    .leaves(LEAVES);

pub(super) const FIFO: Recipe =
    Recipe::new("fifo_queue", "FifoQueue: once into it, once at most out of it, in order", |client| {
        Box::pin(take(client, Taken::Fifo(Enqueue::Transaction)))
    })
    .checked_by(at_most_once)
    .leaves(LEAVES_OF_FIFO);

pub(super) const FIFO_TWO_PHASE: Recipe =
    Recipe::new("fifo_two_phase", "FifoQueue, put in two phases", |client| {
        Box::pin(take(client, Taken::Fifo(Enqueue::TwoPhase)))
    })
    .checked_by(at_most_once)
    .leaves(LEAVES_OF_FIFO);

pub(super) const PRIORITY: Recipe =
    Recipe::new("priority_queue", "DistributedPriorityQueue under claims", |client| {
        Box::pin(consume(client, Kind::Priority))
    })
    .checked_by(exactly_once)
    .leaves(LEAVES);

pub(super) const PLAIN: Recipe =
    Recipe::new("queue", "DistributedQueue under claims", |client| Box::pin(consume(client, Kind::Plain)))
        .checked_by(exactly_once)
        .leaves(LEAVES);

pub(super) const TAKER: Recipe =
    Recipe::new("queue_taker", "DistributedQueue without claims: once at most out of it", |client| {
        Box::pin(take(client, Taken::Plain))
    })
    .checked_by(|| vec![Arc::new(Delivery::at_most_once(MOST_AT_HAND))])
    .leaves(&[QUEUE]);

pub(super) const SIMPLE: Recipe =
    Recipe::new("simple_queue", "SimpleDistributedQueue: once at most out of it, in order", |client| {
        Box::pin(take(client, Taken::Simple))
    })
    .checked_by(at_most_once)
    .leaves(&[QUEUE]);

/// The queue of Curator, with claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    WithIds,
    Priority,
    /// With dead letters.
    Counted,
}

/// The queue without claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Plain,
    Simple,
    Fifo(Enqueue),
}

/// A claim is made sure of with every removal, so that no item is worked off twice.
fn exactly_once() -> Vec<Arc<dyn Checker>> {
    vec![Arc::new(Delivery::exactly_once())]
}

/// Items are removed one by one, each when the one before was handed out.
fn at_most_once() -> Vec<Arc<dyn Checker>> {
    vec![Arc::new(Delivery::at_most_once(1).in_order())]
}

pub(super) fn queue() -> Name {
    Name::from(QUEUE)
}

/// Puts an item, whose name is its data, and writes down what has become of it.
pub(super) async fn put<F>(client: &Client, put: impl FnOnce(String) -> F) -> Outcome
where
    F: Future<Output = Result<(), Error>>,
{
    let item = format!("i{}", client.unique());
    let name = Name::from(item.as_str());
    client.record(Event::Putting { queue: queue(), item: Name::clone(&name) });
    let outcome = match client.maybe_cancel(put(item)).await {
        Some(Ok(())) => Outcome::Sure,
        Some(Err(Error::Framework(error))) if !error.may_have_applied() => Outcome::Failed,
        _ => Outcome::Unknown,
    };
    client.record(Event::Put { queue: queue(), item: name, outcome });
    outcome
}

pub(super) fn name_of(item: &Bytes) -> Name {
    Name::from(&*String::from_utf8_lossy(item))
}

async fn consume(client: Client, kind: Kind) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let (mut rng, mut consumer) = (client.rng(), consumer(&zk, kind)?);
    let plain = DistributedQueue::new(&zk, QUEUE)?;
    let producer = if kind == Kind::WithIds { plain.clone().ids(IDS)? } else { plain.clone() };
    let priorities = DistributedPriorityQueue::new(&zk, QUEUE)?;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            let priority = rng.i32(-2..3);
            if kind == Kind::Priority {
                put(&client, |item| priorities.put(item, priority)).await;
            } else {
                put(&client, |item| producer.put(item)).await;
            }
        } else {
            let next = timeout(client.session_timeout(), consumer.next());
            if let Some(Ok(Ok(delivery))) = client.maybe_cancel(next).await {
                settle(&client, delivery).await;
            }
        }
    }
    client.faults_are_over().await;
    loop {
        match timeout(client.session_timeout(), consumer.next()).await {
            Ok(Ok(delivery)) => settle(&client, delivery).await,
            Ok(Err(_)) => {}
            Err(_) if plain.count().await.is_ok_and(|count| count == 0) => break,
            Err(_) => {}
        }
    }
    if kind == Kind::Counted {
        let mut dead = DistributedQueue::new(&zk, DEAD)?.consumer(DEAD_LOCKS)?;
        while let Ok(delivery) = timeout(client.session_timeout(), dead.next()).await {
            let delivery = delivery?;
            let [data] = delivery.items() else { continue };
            client.record(Event::Dead { queue: queue(), item: name_of(data) });
            delivery.ack().await?;
        }
    }
    Ok(())
}

fn consumer(zk: &CuratorFramework, kind: Kind) -> Result<Consumer, Error> {
    match kind {
        Kind::Priority => DistributedPriorityQueue::new(zk, QUEUE)?.consumer(LOCKS),
        Kind::Counted => {
            DistributedQueue::new(zk, QUEUE)?.consumer(LOCKS)?.dead_letters(DEAD, MOST_DELIVERIES)
        }
        Kind::Plain | Kind::WithIds => DistributedQueue::new(zk, QUEUE)?.consumer(LOCKS),
    }
}

async fn settle(client: &Client, delivery: Delivered) {
    let mut rng = client.rng();
    let [data] = delivery.items() else { return };
    let item = name_of(data);
    client.record(Event::Taken { queue: queue(), item: Name::clone(&item), attempt: 1 });
    sleep(client.moment(Duration::from_millis(50))).await;
    match rng.u8(..8) {
        0 => {
            client.record(Event::Returned { queue: queue(), item });
            drop(delivery);
        }
        1 => {
            client.record(Event::Returned { queue: queue(), item });
            drop(client.maybe_cancel(delivery.requeue()).await);
        }
        _ => {
            client.record(Event::Finishing { queue: queue(), item: Name::clone(&item) });
            let outcome = match client.maybe_cancel(delivery.ack()).await {
                Some(Ok(())) => Outcome::Sure,
                Some(Err(Error::Lost)) => Outcome::Failed,
                Some(Err(Error::Framework(error))) if !error.may_have_applied() => Outcome::Failed,
                _ => Outcome::Unknown,
            };
            client.record(Event::Done { queue: queue(), item, outcome });
        }
    }
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
        let parent = if matches!(self, Self::Fifo(_)) { ITEMS } else { QUEUE };
        let children = match zk.children(parent).await {
            Err(error) if error.kind() == ErrorKind::NoNode => return true,
            children => children,
        };
        // What else is there are the nodes of takers.
        children.is_ok_and(|names| names.iter().all(|name| name.contains("-taker-")))
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
    Plain(Box<Taker>),
    Simple(SimpleDistributedQueue),
    Fifo(FifoQueue),
}

impl Takes {
    async fn take(&mut self) -> Result<Bytes, Error> {
        match self {
            Self::Plain(taker) => taker.next().await.map(|item| item.items.concat().into()),
            Self::Simple(queue) => queue.take().await,
            Self::Fifo(queue) => queue.take().await,
        }
    }

    async fn poll(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            Self::Plain(taker) => Ok(taker.try_next().await?.map(|item| item.items.concat().into())),
            Self::Simple(queue) => queue.poll().await,
            Self::Fifo(queue) => queue.poll().await,
        }
    }
}

async fn take(client: Client, taken: Taken) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let items = match taken {
        Taken::Plain => Queue::Plain(DistributedQueue::new(&zk, QUEUE)?),
        Taken::Simple => Queue::Simple(SimpleDistributedQueue::new(&zk, QUEUE)?),
        Taken::Fifo(enqueue) => Queue::Fifo(FifoQueue::new(&zk, QUEUE)?.enqueue(enqueue)),
    };
    let mut takes = match &items {
        Queue::Plain(queue) => {
            Takes::Plain(Box::new(queue.taker().delete_window([1, 2, 5, MOST_AT_HAND][rng.usize(..4)])))
        }
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
