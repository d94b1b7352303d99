use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use zk_curator_client::{OneshotWatch, PersistentEvent, WatchEnded, WatchedEvent};

use crate::core::{Ticket, WatchKind};
use crate::framework::CuratorFramework;
use crate::namespace::Namespace;

/// A value that was read, and a watch for its next change.
#[derive(Debug)]
#[non_exhaustive]
pub struct Watched<T> {
    /// The value that was read.
    pub value: T,
    /// Fires once, when it changes.
    pub watch: Watch,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T, watch: OneshotWatch, zk: &CuratorFramework) -> Self {
        Self::within(value, watch, zk, zk.ns().clone())
    }

    /// A value and its watch, for a path of another namespace.
    pub(crate) fn within(value: T, watch: OneshotWatch, zk: &CuratorFramework, namespace: Namespace) -> Self {
        let ticket = zk.core().held.watch(watch.path(), WatchKind::Oneshot);
        Self { value, watch: Watch { inner: watch, namespace, _ticket: ticket } }
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
    _ticket: Ticket,
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

/// A watch that stays: reports again and again what happens to a node, or with
/// [`recursive`](crate::op::AddWatchBuilder::recursive) below it, until it is dropped. Also a [`Stream`]. Paths are
/// within the namespace.
///
/// It belongs to one session: [`PersistentEvent::Rearmed`] follows a reconnect and says whether anything was missed, and
/// [`PersistentEvent::Ended`] follows the end of the session. Events wait in memory until they are read. On one path, servers
/// before 3.9 keep only the watch that was added last, of whatever kind, one-shot watches included (ZOOKEEPER-4466).
///
/// # Cancel safety
/// Dropping it forgets the watch; with the last handle on a path the server forgets it too.
#[must_use = "dropping it removes the watch"]
pub struct PersistentWatch {
    inner: zk_curator_client::PersistentWatch,
    namespace: Namespace,
    _ticket: Ticket,
}

impl PersistentWatch {
    pub(crate) fn new(inner: zk_curator_client::PersistentWatch, zk: &CuratorFramework) -> Self {
        let ticket = zk.core().held.watch(inner.path(), WatchKind::Persistent);
        Self { inner, namespace: zk.ns().clone(), _ticket: ticket }
    }

    /// The next event; `None` after [`PersistentEvent::Ended`].
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Option<PersistentEvent> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for PersistentWatch {
    type Item = PersistentEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<PersistentEvent>> {
        let event = std::task::ready!(Pin::new(&mut self.inner).poll_next(cx));
        Poll::Ready(event.map(|event| match event {
            PersistentEvent::Changed(event) => PersistentEvent::Changed(visible(event, &self.namespace)),
            other => other,
        }))
    }
}

impl fmt::Debug for PersistentWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PersistentWatch").field(&self.inner.path()).finish()
    }
}

/// The event as a handle of this namespace sees it.
pub(crate) fn visible(event: WatchedEvent, namespace: &Namespace) -> WatchedEvent {
    let zxid = event.zxid();
    WatchedEvent::new(event.event_type, namespace.strip(&event.path).to_owned()).with_zxid(zxid)
}
