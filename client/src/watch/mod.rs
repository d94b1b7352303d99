//! Watches: the handles a caller waits on, and the client's book of what is armed.

mod operations;
mod persistent;
mod registry;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::EventType;

use crate::session::{Command, RequestQueue};
pub use persistent::{PersistentEvent, PersistentWatch};
pub(crate) use registry::{Registry, Sink, WatchKind};

/// Something happened to a watched node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchedEvent {
    /// What happened.
    pub event_type: EventType,
    /// The node.
    pub path: String,
    zxid: Option<i64>,
}

impl WatchedEvent {
    /// An event of an unknown transaction. For implementations of a raw client other than [`crate::ZooKeeper`].
    #[must_use]
    pub const fn new(event_type: EventType, path: String) -> Self {
        Self { event_type, path, zxid: None }
    }

    /// The same event, of this transaction.
    #[must_use]
    pub const fn with_zxid(mut self, zxid: Option<i64>) -> Self {
        self.zxid = zxid;
        self
    }

    /// The transaction that caused the event. Servers tell it since ZooKeeper 3.9; `None` with older servers, and for
    /// a change that happened while the client was disconnected.
    #[must_use]
    pub const fn zxid(&self) -> Option<i64> {
        self.zxid
    }
}

/// The session ended before the watch fired: whatever it was to tell must be read anew.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnded {
    /// The session expired or its authentication failed.
    #[error("the session ended before the watch fired")]
    SessionLost,
    /// The client was closed.
    #[error("the client was closed before the watch fired")]
    Closed,
    /// The watch was removed by [`crate::ZooKeeper::remove_watches`].
    #[error("the watch was removed")]
    Removed,
    /// The server refused to arm the watch again after a reconnect: a lasting one, as a server before ZooKeeper 3.6 does, or a
    /// one-shot watch on four connections in a row.
    #[error("the server refused to arm the watch again: {0}")]
    Refused(ErrorCode),
}

/// An event of a known node, and the transaction if the server tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fired {
    pub(crate) event_type: EventType,
    pub(crate) zxid: Option<i64>,
}

/// What a watch comes to. In a box, because most watches are idle and pay for the place.
pub(crate) type Outcome = Box<Result<Fired, WatchEnded>>;

pub(crate) type WatchSender = oneshot::Sender<Outcome>;

/// A one-shot watch: resolves when the node changes in the way the read asked for, across reconnects.
///
/// # Cancel safety
/// Dropping it forgets the watch; with the last handle on a path the server forgets it too.
#[must_use = "a watch does nothing unless it is awaited"]
pub struct OneshotWatch {
    path: Arc<str>,
    /// How many bytes of the path are the chroot, which events do not show.
    chroot: u32,
    receiver: oneshot::Receiver<Outcome>,
    /// Where to say that nobody waits any more; `None` once it has fired.
    forget: Option<Arc<RequestQueue>>,
}

impl OneshotWatch {
    /// A watch on `path` and the end that fires it, for raw clients other than [`crate::ZooKeeper`].
    pub fn channel(path: impl Into<Arc<str>>) -> (WatchNotifier, Self) {
        let (sender, receiver) = oneshot::channel();
        (WatchNotifier(sender), Self { path: path.into(), chroot: 0, receiver, forget: None })
    }

    pub(crate) const fn new(
        path: Arc<str>,
        chroot: u32,
        receiver: oneshot::Receiver<Outcome>,
        forget: Arc<RequestQueue>,
    ) -> Self {
        Self { path, chroot, receiver, forget: Some(forget) }
    }

    /// The watched node, as the server knows it (with the chroot).
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Debug for OneshotWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotWatch").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Future for OneshotWatch {
    type Output = Result<WatchedEvent, WatchEnded>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = std::task::ready!(Pin::new(&mut self.receiver).poll(cx));
        self.forget = None;
        // The sender is dropped without a word only when the client's task is gone, with its runtime.
        let outcome = result.map_or(Err(WatchEnded::Closed), |outcome| *outcome);
        Poll::Ready(outcome.map(|Fired { event_type, zxid }| {
            let chroot = usize::try_from(self.chroot).unwrap_or_default();
            let visible = match self.path.get(chroot..) {
                Some("") => "/",
                visible => visible.unwrap_or(&self.path),
            };
            WatchedEvent { event_type, path: visible.to_owned(), zxid }
        }))
    }
}

impl Drop for OneshotWatch {
    fn drop(&mut self) {
        let Some(queue) = self.forget.take() else {
            return;
        };
        self.receiver.close();
        // A failure means that the client has ended, and its book with it.
        drop(queue.send(Command::ForgetWatch { path: Arc::clone(&self.path) }));
    }
}

/// The end of a watch that fires it.
#[derive(Debug)]
pub struct WatchNotifier(WatchSender);

impl WatchNotifier {
    /// Fires the watch, for its own path, because of an unknown transaction.
    pub fn notify(self, result: Result<EventType, WatchEnded>) {
        self.send(result.map(|event_type| Fired { event_type, zxid: None }));
    }

    /// Fires the watch, for its own path, because of this transaction.
    pub fn notify_of(self, event_type: EventType, zxid: Option<i64>) {
        self.send(Ok(Fired { event_type, zxid }));
    }

    fn send(self, result: Result<Fired, WatchEnded>) {
        // A failure means that nobody waits any more.
        let _told = self.0.send(Box::new(result));
    }

    /// Whether the watch was dropped.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn events_are_told_without_the_chroot() {
        for (server, chroot, client) in
            [("/app/a", 4, "/a"), ("/app", 4, "/"), ("/app/app", 4, "/app"), ("/a", 0, "/a")]
        {
            let (sender, receiver) = oneshot::channel();
            let queue = Arc::new(RequestQueue::new("", 0, 0, 0));
            let mut watch = OneshotWatch::new(server.into(), chroot, receiver, queue);
            let fired = Fired { event_type: EventType::NodeDeleted, zxid: Some(7) };
            sender.send(Box::new(Ok(fired))).unwrap();
            let event = Pin::new(&mut watch).poll(&mut Context::from_waker(Waker::noop()));
            let expected = WatchedEvent::new(EventType::NodeDeleted, client.to_owned()).with_zxid(Some(7));
            assert_eq!(event, Poll::Ready(Ok(expected)));
        }
    }
}
