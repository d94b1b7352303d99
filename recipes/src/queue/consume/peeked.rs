use std::fmt;

use super::auto_ack::{AutoAck, AutoAckSource, First};
use super::consumer::Consumer;
use super::kind::ItemSource;
use crate::queue::error::Error;
use crate::queue::feed::driver::Turn;
use crate::queue::wire::item::Item;

/// The first item of a queue, which is still in it: see [`Consumer::peek`].
///
/// # Cancel safety
/// Dropping it leaves the item in the queue.
#[must_use = "dropping it leaves the item in the queue"]
pub struct Peeked<'a> {
    source: &'a mut AutoAckSource,
    first: Option<First>,
    /// Our place in line, if we have waited. The next consumer in line waits until it is dropped.
    turn: Turn,
}

impl Consumer<AutoAck> {
    /// Reads the next item, and leaves it in the queue until [`Peeked::ack`]. Waits for one,
    /// without a time limit.
    ///
    /// So the item is not lost if its consumer crashes, but nothing claims it either: consumers
    /// that do not wait in line, such as Java's, can take it at the same time, and then it is
    /// processed twice. `ack` tells.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zk_curator_testing::TestServer::start().await;
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
    /// # zk.start().await?;
    /// use zk_curator_recipes::queue::SimpleDistributedQueue;
    ///
    /// let queue = SimpleDistributedQueue::new(&zk, "/queue");
    /// queue.offer("one").await?;
    /// let mut consumer = queue.auto_ack_consumer();
    /// let first = consumer.peek().await?;
    /// assert_eq!(first.item().items, ["one"]);
    /// // Write it down; then:
    /// first.ack().await?;
    /// assert!(consumer.try_peek().await?.is_none());
    /// # zk.close().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn peek(&mut self) -> Result<Peeked<'_>, Error> {
        self.source.prepare(self.prefetch).await?;
        let mut turn = None;
        loop {
            if let Some(first) = self.source.first().await? {
                return Ok(Peeked { source: &mut self.source, first: Some(first), turn });
            }
            self.source.feed().more(&mut turn).await?;
        }
    }

    /// Reads the next item as [`peek`](Self::peek) does, or returns `None` if there is none. Never
    /// waits for other clients.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn try_peek(&mut self) -> Result<Option<Peeked<'_>>, Error> {
        self.source.prepare(self.prefetch).await?;
        let mut has_looked = false;
        loop {
            if let Some(first) = self.source.first().await? {
                return Ok(Some(Peeked {
                    source: &mut self.source,
                    first: Some(first),
                    turn: None,
                }));
            }
            if !self.source.looks_again(has_looked) || !self.source.feed().look().await? {
                return Ok(None);
            }
            has_looked = true;
        }
    }
}

impl Peeked<'_> {
    /// Returns the item.
    #[expect(clippy::missing_panics_doc, reason = "only `ack` takes it")]
    #[must_use]
    pub fn item(&self) -> &Item {
        self.first.as_ref().expect("it was not acknowledged").item()
    }

    /// Removes the item from the queue.
    ///
    /// # Errors
    /// * [`Error::Taken`] if another client has taken the item since it was read, or the session
    ///   has ended in between.
    /// * [`Error::Unknown`] if the response was lost and the item no longer exists.
    /// * [`Error::Foreign`] if a node below the item keeps it from being removed.
    /// * [`Error::Framework`] if an operation fails for longer than the retry policy allows; the
    ///   item may still be in the queue.
    ///
    /// # Cancel safety
    /// Once polled, the item may be removed.
    pub async fn ack(mut self) -> Result<(), Error> {
        match self.first.take() {
            Some(First::Read(read)) => self.source.remove_one(read, &mut self.turn).await,
            _ => Ok(()),
        }
    }
}

impl Drop for Peeked<'_> {
    fn drop(&mut self) {
        match self.first.take() {
            Some(First::Read(_)) => self.source.reset(),
            Some(First::Removed(item)) => self.source.give_back(item),
            None => {}
        }
    }
}

impl fmt::Debug for Peeked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peeked")
            .field("item", &self.first.as_ref().map(First::item))
            .finish_non_exhaustive()
    }
}
