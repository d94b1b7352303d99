//! The items of the queue scenarios.

use bytes::Bytes;
use zk_curator_recipes::queue::Error;

use crate::Client;
use crate::history::{Name, Outcome, Queue};

pub(in crate::scenarios) const QUEUE: &str = "/queue";
pub(in crate::scenarios) const LOCKS: &str = "/queue-locks";
pub(in crate::scenarios) const IDS: &str = "/queue-ids";
pub(in crate::scenarios) const DEAD: &str = "/queue-dead";
pub(in crate::scenarios) const DEAD_LOCKS: &str = "/queue-dead-locks";
/// Draws a size of buckets, mostly so small that a few items fill several. Clients may draw
/// different sizes.
pub(in crate::scenarios) fn bucket_size(rng: &mut fastrand::Rng) -> u32 {
    [1, 2, 4, 4096][rng.usize(..4)]
}

pub(in crate::scenarios) fn queue() -> Name {
    Name::from(QUEUE)
}

/// Puts an item whose name is its data, and records the outcome.
pub(in crate::scenarios) async fn put<F>(client: &Client, put: impl FnOnce(String) -> F) -> Outcome
where
    F: Future<Output = Result<(), Error>>,
{
    let item = format!("i{}", client.unique());
    put_all(client, &[Name::from(item.as_str())], 0, async { put(item).await.map(|()| true) }).await
}

/// Returns a unique name for a new item with this id.
pub(in crate::scenarios) fn item_of(client: &Client, id: &str) -> String {
    if client.has_few_ids() { format!("{id}#{}", client.unique()) } else { id.to_owned() }
}

/// Removes items by their id, and records their number. A call that fails may have removed some of
/// `most` items.
pub(in crate::scenarios) async fn withdraw<N>(
    client: &Client,
    id: &str,
    most: u32,
    remove: impl Future<Output = Result<N, Error>>,
) where
    N: TryInto<u32>,
{
    client.record(Queue::Withdrawing { queue: queue(), id: id.into() });
    let (count, outcome) = match client.maybe_cancel(remove).await {
        Some(Ok(count)) => (count.try_into().unwrap_or(u32::MAX), Outcome::Sure),
        Some(Err(Error::Framework(error)))
            if !error.may_have_applied() && !client.has_few_ids() =>
        {
            (0, Outcome::Failed)
        }
        // Some of several items may be removed.
        Some(Err(_)) | None => (most, Outcome::Unknown),
    };
    client.record(Queue::Withdrawn { queue: queue(), id: id.into(), count, outcome });
}

/// Puts several items of one rank together. The response may say that none was put.
pub(in crate::scenarios) async fn put_all(
    client: &Client,
    items: &[Name],
    rank: i64,
    put: impl Future<Output = Result<bool, Error>>,
) -> Outcome {
    for item in items {
        client.record(Queue::Putting { queue: queue(), item: Name::clone(item), rank });
    }
    let outcome = match client.maybe_cancel(put).await {
        Some(Ok(true)) => Outcome::Sure,
        Some(Ok(false)) => Outcome::Failed,
        Some(Err(Error::Framework(error))) if !error.may_have_applied() => Outcome::Failed,
        Some(Err(Error::Exists { .. })) => {
            for item in items {
                client.record(Queue::Refused { queue: queue(), item: Name::clone(item) });
            }
            Outcome::Failed
        }
        _ => Outcome::Unknown,
    };
    for item in items {
        client.record(Queue::Put { queue: queue(), item: Name::clone(item), outcome });
    }
    outcome
}

pub(in crate::scenarios) fn name_of(item: &Bytes) -> Name {
    Name::from(&*String::from_utf8_lossy(item))
}

/// Returns what the response, if there is one, tells about the removal of an item.
pub(in crate::scenarios) fn settled(answer: Option<Result<(), Error>>) -> Outcome {
    match answer {
        Some(Ok(())) => Outcome::Sure,
        Some(Err(Error::Lost { .. })) => Outcome::Failed,
        Some(Err(Error::Framework(error))) if !error.may_have_applied() => Outcome::Failed,
        _ => Outcome::Unknown,
    }
}
