use std::fmt;
use std::time::Duration;

use futures_util::stream::{Stream, unfold};

use super::delivery::Delivery;
use super::kind::{ItemSource, QueueKind, TakenItem};
use super::redelivery::RedeliveryBackoff;
use crate::measure;
use crate::queue::error::Error;

/// Takes the items of a queue in their order. The kind `K` determines how:
///
/// * [`AutoAck`](super::auto_ack::AutoAck): removes each item before it delivers it: **at most
///   once**.
/// * [`LockPath`](crate::queue::LockPath), [`Locking`](crate::queue::Locking) and
///   [`Claimed`](crate::queue::jobs::Claimed), for jobs: claims each item and returns it as a
///   [`Delivery`](super::delivery::Delivery), which removes it when it is acknowledged: **at least
///   once**.
///
/// The queues create it: [`CuratorQueue::consumer`](crate::queue::CuratorQueue::consumer),
/// [`LockingQueue::consumer`](crate::queue::LockingQueue::consumer),
/// [`Jobs::worker`](crate::queue::jobs::Jobs::worker).
///
/// # Cancel safety
/// Dropping a future of the consumer loses nothing: the next call returns an item that was taken in
/// between. Dropping the consumer releases the items that it has claimed but not delivered. Items
/// that an `AutoAck` consumer has removed but not delivered are lost.
pub struct Consumer<K: QueueKind> {
    pub(in crate::queue) source: K::Source,
    pub(in crate::queue) backoff: RedeliveryBackoff,
    pub(in crate::queue) prefetch: usize,
}

impl<K: QueueKind> Consumer<K> {
    pub(in crate::queue) fn of(source: K::Source) -> Self {
        Self { source, backoff: RedeliveryBackoff::default(), prefetch: K::Source::PREFETCH }
    }

    /// Sets the number of items that are prefetched, or claimed at a time, from 1. They are held in
    /// memory. No other consumer can claim an item that is already claimed. Default: 16 for
    /// [`AutoAck`](super::auto_ack::AutoAck), 1 for all other kinds.
    #[must_use]
    pub const fn prefetch(mut self, items: usize) -> Self {
        self.prefetch = items;
        self
    }

    /// Returns the next item. Waits for one, without a time limit.
    ///
    /// # Errors
    /// No error ends the consumer: call it again.
    /// * [`Error::Corrupt`], once, for an item that cannot be read. It stays in place; a job fails.
    /// * [`Error::Foreign`], once, for a node that is not an item, or that is below an item and not
    ///   a claim. It stays in place.
    /// * [`Error::Unknown`] from [`AutoAck`](super::auto_ack::AutoAck), if the response to the
    ///   delete of an item was lost and the item no longer exists.
    /// * [`Error::Zero`] for a setting that is 0.
    /// * [`Error::Framework`] if an operation fails for longer than the retry policy allows;
    ///   nothing was taken.
    ///
    /// # Cancel safety
    /// Nothing is lost: an item that was taken in between is returned next.
    pub async fn next(&mut self) -> Result<K::Delivery, Error> {
        self.source.prepare(self.prefetch).await?;
        let mut turn = None;
        loop {
            // 1. The next item of the current list.
            if let Some(delivery) = self.source.of_list(&mut turn).await? {
                self.count(&delivery);
                return Ok(delivery);
            }
            // 2. At its end: enter the line, list the queue, and wait until there may be an item.
            let was_first = turn.is_some();
            self.source.feed().more(&mut turn).await?;
            // 3. Consumers ahead of us in line work on some of the items.
            self.source.listed(was_first, turn.is_some());
        }
    }

    /// Returns the next item, or `None` if there is none. Never waits for other clients.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub async fn try_next(&mut self) -> Result<Option<K::Delivery>, Error> {
        self.source.prepare(self.prefetch).await?;
        self.source.begin_poll();
        let mut has_looked = false;
        loop {
            if let Some(delivery) = self.source.of_list(&mut None).await? {
                self.count(&delivery);
                return Ok(Some(delivery));
            }
            if !self.source.looks_again(has_looked) || !self.source.feed().look().await? {
                return Ok(None);
            }
            has_looked = true;
        }
    }

    /// Returns the items as a stream, which never ends, not even after an error.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream is dropping the consumer.
    pub fn into_stream(self) -> impl Stream<Item = Result<K::Delivery, Error>> + Send
    where
        Self: Send,
    {
        unfold(self, |mut consumer| async move { Some((consumer.next().await, consumer)) })
    }

    /// Returns the next item that a dropped call has taken; `None` if there is none.
    pub(in crate::queue) async fn rest(&mut self) -> Option<K::Delivery> {
        let delivery = self.source.rest().await?;
        self.count(&delivery);
        Some(delivery)
    }

    fn count(&self, delivery: &K::Delivery) {
        let layout = self.source.layout();
        measure::delivered(&layout.zk, layout.kind.recipe(), delivery.attempt());
    }
}

impl<K: QueueKind<Delivery = Delivery<K>>> Consumer<K> {
    /// Sets the time for which [`run`](Self::run) holds back an item after `body` has failed:
    /// `first` after the first delivery, doubled for each further counted delivery, and at most
    /// `longest`. The actual pause is a random time between half and all of this. Zero: no pause.
    /// Default: 100 ms and 30 s.
    ///
    /// The item stays claimed during the pause, so no consumer gets it earlier, unless the session
    /// of this one ends. A job stays [executing](crate::queue::jobs::JobState::Executing) during
    /// the pause; [`JobTask::retry_after`](crate::queue::jobs::JobTask::retry_after) stores the
    /// time in ZooKeeper instead.
    #[must_use]
    pub const fn redeliver_after(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = RedeliveryBackoff { first, longest };
        self
    }
}

impl<K: QueueKind> fmt::Debug for Consumer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("layout", self.source.layout()).finish_non_exhaustive()
    }
}
