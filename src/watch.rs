//! Watches, as the framework hands them out.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use zk_curator_client::{OneshotWatch, WatchEnded, WatchedEvent};

use crate::namespace::Namespace;

/// A value that was read, and a watch for its next change.
#[derive(Debug)]
#[non_exhaustive]
pub struct Watched<T> {
    /// What was read.
    pub value: T,
    /// Fires once, when it changes.
    pub watch: Watch,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T, watch: OneshotWatch, namespace: &Namespace) -> Self {
        Self { value, watch: Watch { inner: watch, namespace: namespace.clone() } }
    }
}

/// A one-shot watch: resolves at the next change, also one that happened during a reconnect. Paths are within
/// the namespace.
///
/// Resolves to [`WatchEnded`] when the session ends first; then the value has to be read anew.
///
/// # Cancel safety
/// Dropping it forgets the watch.
#[must_use = "a watch does nothing unless it is awaited"]
pub struct Watch {
    inner: OneshotWatch,
    namespace: Namespace,
}

impl Future for Watch {
    type Output = Result<WatchedEvent, WatchEnded>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let event = std::task::ready!(Pin::new(&mut self.inner).poll(cx))?;
        let path = self.namespace.strip(&event.path).to_owned();
        Poll::Ready(Ok(WatchedEvent::new(event.event_type, path)))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.inner.path()).finish()
    }
}
