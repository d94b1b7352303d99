use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use super::PersistentEvent;
use crate::session::{RequestQueue, SessionCommand};

/// A watch of `addWatch`. It reports every event until it is dropped. Also a [`Stream`].
///
/// Events wait in memory until they are read. If the same client has a recursive watch on the same
/// path, a change of the children may be reported twice.
///
/// # Cancel safety
/// Dropping it removes the watch. With the last handle on a path it is removed from the server too.
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

    /// Returns the path of the watched node on the server, with the chroot.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the next event; `None` after [`PersistentEvent::Ended`].
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
        // A failure means that the client has ended, and its registry with it.
        drop(self.forget.send(SessionCommand::ForgetWatch { path: Arc::clone(&self.path) }));
    }
}

impl fmt::Debug for PersistentWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentWatch").field("path", &self.path).finish_non_exhaustive()
    }
}
