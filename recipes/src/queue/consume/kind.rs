use std::future::Future;

use futures_util::future::BoxFuture;
use zk_curator::Ownership;

use crate::queue::error::Error;
use crate::queue::feed::driver::{FeedDriver, Turn};
use crate::queue::wire::layout::QueueLayout;

/// A way to take the items of a queue: [`AutoAck`](super::auto_ack::AutoAck),
/// [`LockPath`](crate::queue::LockPath), [`Locking`](crate::queue::Locking) or
/// [`Claimed`](crate::queue::jobs::Claimed). It is sealed.
#[expect(private_bounds, reason = "sealed: only this crate implements it")]
pub trait QueueKind: Engine<Source: ItemSource<Self>> + Sized + 'static {
    /// An item as [`next`](crate::queue::Consumer::next) returns it.
    type Delivery: TakenItem<Self> + Send + 'static;
    /// An item as the body of [`run`](crate::queue::Consumer::run) gets it, without the duty to
    /// settle it.
    type Message: Send;
    /// The result of the body of [`run`](crate::queue::Consumer::run).
    type Done: Default + Send;
}

/// The private part of a [`QueueKind`].
pub(in crate::queue) trait Engine {
    /// Takes the items.
    type Source;
    /// The data that are kept with a claimed item; nothing if items are not claimed.
    type Item: Send + Sync;
}

/// The source of the items of a [`Consumer`](super::consumer::Consumer), which processes a list of
/// items. A ninth method means that it needs a driver of its own.
pub(in crate::queue) trait ItemSource<K: QueueKind>: Send + Sized {
    /// `true` if an item that was taken but not delivered is lost; `false` if it returns to the
    /// queue.
    const LOSES_UNDELIVERED: bool = false;
    /// `true` if the body of `run` is dropped even when another client deletes the claim, which
    /// costs a request for a watch; `false` if it is dropped only at the end of the session.
    const WATCHES_CLAIM: bool = false;
    /// The default number of items that are taken at a time.
    const PREFETCH: usize;

    fn layout(&self) -> &QueueLayout;

    fn feed(&mut self) -> &mut FeedDriver;

    /// Refuses settings that make no sense, and prepares the source to take this number of items at
    /// a time.
    fn prepare(&mut self, prefetch: usize) -> impl Future<Output = Result<(), Error>> + Send;

    /// Returns the next item of the list; `None` at its end.
    fn of_list(
        &mut self,
        turn: &mut Turn,
    ) -> impl Future<Output = Result<Option<K::Delivery>, Error>> + Send;

    /// Processes a listing, or an event, while it is our turn in line, if there is a line.
    fn listed(&mut self, _was_first: bool, _is_first: bool) {}

    /// Prepares a call that must not wait.
    fn begin_poll(&mut self) {}

    /// Decides whether a call that does not wait lists the queue at the end of the list.
    fn looks_again(&mut self, has_looked: bool) -> bool;

    /// Returns the next item that was taken from the queue, or claimed, by a call that was dropped;
    /// `None` if there is none.
    fn rest(&mut self) -> impl Future<Output = Option<K::Delivery>> + Send;
}

/// An item that was taken from a queue, or claimed.
pub(in crate::queue) trait TakenItem<K: QueueKind> {
    /// The name of the item in the log.
    fn label(&self) -> &str;

    /// The number of the delivery of the item, from 1, as far as deliveries are counted.
    fn attempt(&self) -> u32 {
        1
    }

    /// Returns the claim to the item, if items are claimed.
    fn claim(&self) -> Option<&Ownership>;

    /// Returns the values that the body of `run` gets, one after another.
    fn messages(&self) -> Vec<K::Message>;

    /// Returns the action that settles the item after the body of `run` has succeeded or failed.
    fn finish(self, done: Result<K::Done, String>) -> Finish;
}

/// Settles an item.
pub(in crate::queue) struct Finish {
    /// The consequence for the item, for the log, if the body has failed.
    pub(in crate::queue) fate: &'static str,
    /// `true` if the item is held back first, under its claim.
    pub(in crate::queue) is_held: bool,
    pub(in crate::queue) settle: BoxFuture<'static, Result<(), Error>>,
}

impl Finish {
    /// Settles an item after its body has succeeded.
    pub(in crate::queue) fn done(
        settle: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) -> Self {
        Self::now("", settle)
    }

    /// Releases the claim to an item after a pause, during which no other consumer gets it.
    pub(in crate::queue) fn give_back(delivery: impl Send + 'static) -> Self {
        Self::later("an item goes back to its place", async move {
            drop(delivery);
            Ok(())
        })
    }

    /// Settles the item immediately.
    pub(in crate::queue) fn now(
        fate: &'static str,
        settle: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) -> Self {
        Self { fate, is_held: false, settle: Box::pin(settle) }
    }

    /// Settles the item after a pause, during which no other consumer gets it.
    pub(in crate::queue) fn later(
        fate: &'static str,
        settle: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) -> Self {
        Self { fate, is_held: true, settle: Box::pin(settle) }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_source_has_eight_hooks() {
        let (_, of_source) = include_str!("kind.rs").split_once("trait ItemSource<").unwrap();
        let (of_source, _) = of_source.split_once("\n}\n").unwrap();
        assert_eq!(of_source.matches("    fn ").count(), 8, "{of_source}");
    }
}
