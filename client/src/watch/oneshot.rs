use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use zk_curator_proto::records::EventType;

use super::event::{FiredWatch, WatchOutcome};
use super::{WatchEnded, WatchedEvent};
use crate::session::{RequestQueue, SessionCommand};

/// A one-shot watch. It resolves when the read state of the node changes, across reconnects.
///
/// # Cancel safety
/// Dropping it removes the watch. With the last handle on a path it is removed from the server too.
#[must_use = "a watch does nothing unless it is awaited"]
pub struct OneshotWatch {
    path: Arc<str>,
    /// The length of the chroot in bytes; events do not show this prefix of the path.
    chroot: u32,
    receiver: oneshot::Receiver<WatchOutcome>,
    /// The queue that receives the removal; `None` once the watch has fired.
    forget: Option<Arc<RequestQueue>>,
}

impl OneshotWatch {
    /// Returns a watch on `path` and the notifier that fires it, for raw clients other than
    /// [`crate::ZooKeeper`].
    pub fn channel(path: impl Into<Arc<str>>) -> (WatchNotifier, Self) {
        let (sender, receiver) = oneshot::channel();
        (WatchNotifier(sender), Self { path: path.into(), chroot: 0, receiver, forget: None })
    }

    pub(crate) const fn new(
        path: Arc<str>,
        chroot: u32,
        receiver: oneshot::Receiver<WatchOutcome>,
        forget: Arc<RequestQueue>,
    ) -> Self {
        Self { path, chroot, receiver, forget: Some(forget) }
    }

    /// Returns the path of the watched node on the server, with the chroot.
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
        // The sender is dropped without an event only if the client's task is gone, with its
        // runtime.
        let outcome = result.map_or(Err(WatchEnded::Closed), |outcome| *outcome);
        Poll::Ready(outcome.map(|FiredWatch { event_type, zxid }| {
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
        // A failure means that the client has ended, and its registry with it.
        drop(queue.send(SessionCommand::ForgetWatch { path: Arc::clone(&self.path) }));
    }
}

/// The notifier that fires a watch.
#[derive(Debug)]
pub struct WatchNotifier(oneshot::Sender<WatchOutcome>);

impl WatchNotifier {
    /// Fires the watch for its own path. The transaction is unknown.
    pub fn notify(self, result: Result<EventType, WatchEnded>) {
        self.send(result.map(|event_type| FiredWatch { event_type, zxid: None }));
    }

    /// Fires the watch for its own path, with the transaction that caused it.
    pub fn notify_of(self, event_type: EventType, zxid: Option<i64>) {
        self.send(Ok(FiredWatch { event_type, zxid }));
    }

    fn send(self, result: Result<FiredWatch, WatchEnded>) {
        // A failure means that there is no waiter any more.
        let _told = self.0.send(Box::new(result));
    }

    /// Returns `true` if the watch was dropped.
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
    fn event_paths_are_without_the_chroot() {
        for (server, chroot, client) in
            [("/app/a", 4, "/a"), ("/app", 4, "/"), ("/app/app", 4, "/app"), ("/a", 0, "/a")]
        {
            let (sender, receiver) = oneshot::channel();
            let queue = Arc::new(RequestQueue::new("", 0, 0, 0));
            let mut watch = OneshotWatch::new(server.into(), chroot, receiver, queue);
            let fired = FiredWatch { event_type: EventType::NodeDeleted, zxid: Some(7) };
            sender.send(Box::new(Ok(fired))).unwrap();
            let event = Pin::new(&mut watch).poll(&mut Context::from_waker(Waker::noop()));
            let expected =
                WatchedEvent::new(EventType::NodeDeleted, client.to_owned()).with_zxid(Some(7));
            assert_eq!(event, Poll::Ready(Ok(expected)));
        }
    }
}
