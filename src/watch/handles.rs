use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use zk_curator_client::{OneshotWatch, PersistentEvent, WatchEnded, WatchedEvent};

use crate::core::{HeldWatchKind, ResourceRegistration};
use crate::framework::CuratorFramework;
use crate::namespace::Namespace;

/// A value that was read, and a watch for its next change.
#[derive(Debug)]
#[non_exhaustive]
pub struct Watched<T> {
    /// The value that was read.
    pub value: T,
    /// The watch, which fires once, when the value changes.
    pub watch: Watch,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T, watch: OneshotWatch, zk: &CuratorFramework) -> Self {
        Self::within(value, watch, zk, zk.ns().clone())
    }

    /// Creates a value and its watch for a path of another namespace.
    pub(crate) fn within(
        value: T,
        watch: OneshotWatch,
        zk: &CuratorFramework,
        namespace: Namespace,
    ) -> Self {
        let registration = zk.core().resources.watch(watch.path(), HeldWatchKind::Oneshot);
        Self { value, watch: Watch { inner: watch, namespace, _registration: registration } }
    }
}

/// A one-shot watch: resolves at the next change, including one that happened during a reconnect.
/// Paths are within the namespace.
///
/// Resolves to [`WatchEnded`] if the session ends first. The value then has to be read again.
///
/// # Cancel safety
/// Dropping it removes the watch.
#[must_use = "a watch does nothing unless it is awaited"]
pub struct Watch {
    inner: OneshotWatch,
    namespace: Namespace,
    _registration: ResourceRegistration,
}

impl Future for Watch {
    type Output = Result<WatchedEvent, WatchEnded>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let event = std::task::ready!(Pin::new(&mut self.inner).poll(cx))?;
        Poll::Ready(Ok(visible(event, &self.namespace)))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.inner.path()).finish()
    }
}

/// A persistent watch: reports every change of a node, or with
/// [`recursive`](crate::op::AddWatchBuilder::recursive) of everything below it, until it is
/// dropped. Also a [`Stream`]. Paths are within the namespace.
///
/// It belongs to one session. [`PersistentEvent::Rearmed`] follows a reconnect and says if events
/// were missed. [`PersistentEvent::Ended`] follows the end of the session. Events wait in memory
/// until they are read.
///
/// # Cancel safety
/// Dropping it removes the watch. With the last handle on a path, the server removes it too.
#[must_use = "dropping it removes the watch"]
pub struct PersistentWatch {
    inner: zk_curator_client::PersistentWatch,
    namespace: Namespace,
    _registration: ResourceRegistration,
}

impl PersistentWatch {
    pub(crate) fn new(inner: zk_curator_client::PersistentWatch, zk: &CuratorFramework) -> Self {
        let registration = zk.core().resources.watch(inner.path(), HeldWatchKind::Persistent);
        Self { inner, namespace: zk.ns().clone(), _registration: registration }
    }

    /// Returns the next event; `None` after [`PersistentEvent::Ended`].
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<PersistentEvent> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for PersistentWatch {
    type Item = PersistentEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<PersistentEvent>> {
        let event = std::task::ready!(Pin::new(&mut self.inner).poll_next(cx));
        Poll::Ready(event.map(|event| match event {
            PersistentEvent::Changed(event) => {
                PersistentEvent::Changed(visible(event, &self.namespace))
            }
            other => other,
        }))
    }
}

impl fmt::Debug for PersistentWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PersistentWatch").field(&self.inner.path()).finish()
    }
}

/// Converts the event to the view of a handle with this namespace.
pub(crate) fn visible(event: WatchedEvent, namespace: &Namespace) -> WatchedEvent {
    let zxid = event.zxid();
    WatchedEvent::new(event.event_type, namespace.strip(&event.path).to_owned()).with_zxid(zxid)
}
