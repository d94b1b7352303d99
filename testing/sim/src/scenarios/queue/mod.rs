//! [`queue`](zk_curator_recipes::queue): every client puts items and takes those of all. When there are no more faults every
//! client takes what is left.

mod claiming;
mod taking;

use std::sync::Arc;

use bytes::Bytes;
use zk_curator_recipes::queue::{Error, PutMode};

use self::claiming::{Kind, consume};
use self::taking::{MOST_AT_HAND, Taken, take};
use super::Scenario;
use crate::Client;
use crate::checkers::{Checker, Delivery};
use crate::history::{Event, Name, Outcome};

const QUEUE: &str = "/queue";
const LOCKS: &str = "/queue-locks";
const IDS: &str = "/queue-ids";
const DEAD: &str = "/queue-dead";
const DEAD_LOCKS: &str = "/queue-dead-locks";
/// The claims, which an operator may delete.
const CLAIMS: &[&str] = &["/queue-locks/*"];
/// An acknowledgement cannot tell its own claim from another at the same path: the window that is documented at
/// [`Consumer`](zk_curator_recipes::queue::Consumer#guarantees).
const SETTLED: &[(&str, &str)] = &[("/queue-locks/*", QUEUE)];
/// Consumers under claims leave the queue, and processes that die leave ids, which are collected much later.
const LEAVES: &[&str] = &["/queue", "/queue-locks", "/queue-ids", "/queue-ids/put-*"];
/// The same; and containers which somebody who was killed then has created, for those that never had a child stay.
const LEAVES_OF_FIFO: &[&str] =
    &["/queue", "/queue/items", "/queue/items/b-*", "/queue/ids", "/queue/ids/put-*"];

pub(super) const BOUNDED: Scenario =
    Scenario::new("bounded_queue", "DistributedQueue with at most so many items", |client| {
        Box::pin(consume(client, Kind::Bounded))
    })
    .checked_by(exactly_once)
    .leaves(LEAVES)
    .operator(CLAIMS)
    .settled(SETTLED);

pub(super) const DEAD_LETTERS: Scenario = Scenario::new(
    "dead_letters",
    "DistributedQueue under claims: what was handed out too often is put aside",
    |client| Box::pin(consume(client, Kind::Counted)),
)
.checked_by(exactly_once)
.leaves(&["/queue", "/queue-locks", DEAD, DEAD_LOCKS])
.operator(CLAIMS)
.settled(SETTLED);

pub(super) const DELAY: Scenario =
    Scenario::new("delay_queue", "DistributedDelayQueue under claims: nothing before its time", |client| {
        Box::pin(consume(client, Kind::Delay))
    })
    .checked_by(exactly_once)
    .leaves(LEAVES)
    .operator(CLAIMS)
    .settled(SETTLED);

pub(super) const EXACTLY_ONCE: Scenario = Scenario::new(
    "exactly_once",
    "DistributedQueue with ids, consumers ahead: what is put once is worked off once",
    |client| Box::pin(consume(client, Kind::WithIds)),
)
.checked_by(|| vec![Arc::new(Delivery::exactly_once().in_order().equals())])
.leaves(LEAVES)
.operator(CLAIMS)
.settled(SETTLED);

pub(super) const FIFO: Scenario =
    Scenario::new("fifo_queue", "FifoQueue: once into it, once at most out of it, in order", |client| {
        Box::pin(take(client, Taken::Fifo(PutMode::Transaction)))
    })
    .checked_by(at_most_once)
    .leaves(LEAVES_OF_FIFO);

pub(super) const FIFO_TWO_PHASE: Scenario =
    Scenario::new("fifo_two_phase", "FifoQueue, put in two phases", |client| {
        Box::pin(take(client, Taken::Fifo(PutMode::TwoPhase)))
    })
    .checked_by(at_most_once)
    .leaves(LEAVES_OF_FIFO);

pub(super) const IDENTIFIED: Scenario =
    Scenario::new("id_queue", "DistributedIdQueue under claims: items are removed by their id", |client| {
        Box::pin(consume(client, Kind::Identified))
    })
    .checked_by(exactly_once)
    .leaves(LEAVES)
    .operator(CLAIMS)
    .settled(SETTLED);

pub(super) const PRIORITY: Scenario =
    Scenario::new("priority_queue", "DistributedPriorityQueue under claims", |client| {
        Box::pin(consume(client, Kind::Priority))
    })
    .checked_by(exactly_once)
    .leaves(LEAVES)
    .operator(CLAIMS)
    .settled(SETTLED);

pub(super) const PLAIN: Scenario =
    Scenario::new("queue", "DistributedQueue under claims", |client| Box::pin(consume(client, Kind::Plain)))
        .checked_by(exactly_once)
        .leaves(LEAVES)
        .operator(CLAIMS)
        .settled(SETTLED)
        .crowd();

pub(super) const TAKER: Scenario =
    Scenario::new("queue_taker", "DistributedQueue without claims: once at most out of it", |client| {
        Box::pin(take(client, Taken::Plain))
    })
    .checked_by(|| vec![Arc::new(Delivery::at_most_once(MOST_AT_HAND).in_order())])
    .leaves(&[QUEUE]);

pub(super) const SIMPLE: Scenario =
    Scenario::new("simple_queue", "SimpleDistributedQueue: once at most out of it, in order", |client| {
        Box::pin(take(client, Taken::Simple))
    })
    .checked_by(at_most_once)
    .leaves(&[QUEUE]);

/// A claim is made sure of with every removal, so that no item is worked off twice.
fn exactly_once() -> Vec<Arc<dyn Checker>> {
    vec![Arc::new(Delivery::exactly_once().in_order())]
}

/// Items are removed one by one, each when the one before was handed out.
fn at_most_once() -> Vec<Arc<dyn Checker>> {
    vec![Arc::new(Delivery::at_most_once(1).in_order())]
}

/// A size of buckets, mostly so small that a few items fill several. Clients may draw different ones.
pub(super) fn bucket_size(rng: &mut fastrand::Rng) -> u32 {
    [1, 2, 4, 4096][rng.usize(..4)]
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
    put_all(client, &[Name::from(item.as_str())], 0, async { put(item).await.map(|()| true) }).await
}

/// The name of a new item with this id, which is unique.
pub(super) fn item_of(client: &Client, id: &str) -> String {
    if client.has_few_ids() { format!("{id}#{}", client.unique()) } else { id.to_owned() }
}

/// Removes items by their id, and writes down how many. An error may have removed some of `most` items.
pub(super) async fn withdraw<N>(
    client: &Client,
    id: &str,
    most: u32,
    remove: impl Future<Output = Result<N, Error>>,
) where
    N: TryInto<u32>,
{
    client.record(Event::Withdrawing { queue: queue(), id: id.into() });
    let (count, outcome) = match client.maybe_cancel(remove).await {
        Some(Ok(count)) => (count.try_into().unwrap_or(u32::MAX), Outcome::Sure),
        Some(Err(Error::Framework(error))) if !error.may_have_applied() && !client.has_few_ids() => {
            (0, Outcome::Failed)
        }
        // Of several some may be removed.
        Some(Err(_)) | None => (most, Outcome::Unknown),
    };
    client.record(Event::Withdrawn { queue: queue(), id: id.into(), count, outcome });
}

/// The same with several items of one rank, which are put together, or not if the answer says so.
pub(super) async fn put_all(
    client: &Client,
    items: &[Name],
    rank: i64,
    put: impl Future<Output = Result<bool, Error>>,
) -> Outcome {
    for item in items {
        client.record(Event::Putting { queue: queue(), item: Name::clone(item), rank });
    }
    let outcome = match client.maybe_cancel(put).await {
        Some(Ok(true)) => Outcome::Sure,
        Some(Ok(false)) => Outcome::Failed,
        Some(Err(Error::Framework(error))) if !error.may_have_applied() => Outcome::Failed,
        Some(Err(Error::Exists { .. })) => {
            for item in items {
                client.record(Event::Refused { queue: queue(), item: Name::clone(item) });
            }
            Outcome::Failed
        }
        _ => Outcome::Unknown,
    };
    for item in items {
        client.record(Event::Put { queue: queue(), item: Name::clone(item), outcome });
    }
    outcome
}

pub(super) fn name_of(item: &Bytes) -> Name {
    Name::from(&*String::from_utf8_lossy(item))
}

/// What is known of the removal of an item by the answer to it, if there was one.
pub(super) fn settled(answer: Option<Result<(), Error>>) -> Outcome {
    match answer {
        Some(Ok(())) => Outcome::Sure,
        Some(Err(Error::Lost)) => Outcome::Failed,
        Some(Err(Error::Framework(error))) if !error.may_have_applied() => Outcome::Failed,
        _ => Outcome::Unknown,
    }
}
