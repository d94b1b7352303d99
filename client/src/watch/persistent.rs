use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use super::PersistentEvent;
use crate::session::{Command, RequestQueue};

/// A watch of `addWatch`: reports again and again, until it is dropped. Also a [`Stream`].
///
/// Events wait in memory until they are read. On one path, servers before 3.9 keep only the watch that was added
/// last, of whatever kind, one-shot watches included (ZOOKEEPER-4466).
///
/// # Cancel safety
/// Dropping it forgets the watch; with the last handle on a path the server forgets it too.
#[must_use = "dropping it removes the watch"]
pub struct PersistentWatch {
    path: Arc<str>,
    receiver: mpsc::UnboundedReceiver<PersistentEvent>,
    forget: Arc<RequestQueue>,
}

impl PersistentWatch {
    pub(crate) const fn new(
        path: Arc<str>,
        receiver: mpsc::UnboundedReceiver<PersistentEvent>,
        forget: Arc<RequestQueue>,
    ) -> Self {
        Self { path, receiver, forget }
    }

    /// The watched node, as the server knows it (with the chroot).
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The next event; `None` after [`PersistentEvent::Ended`].
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Option<PersistentEvent> {
        self.receiver.recv().await
    }
}

impl Stream for PersistentWatch {
    type Item = PersistentEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<PersistentEvent>> {
        self.receiver.poll_recv(cx)
    }
}

impl Drop for PersistentWatch {
    fn drop(&mut self) {
        self.receiver.close();
        // A failure means that the client has ended, and its book with it.
        drop(self.forget.send(Command::ForgetWatch { path: Arc::clone(&self.path) }));
    }
}

impl fmt::Debug for PersistentWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentWatch").field("path", &self.path).finish_non_exhaustive()
    }
}
