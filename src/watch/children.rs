use std::fmt;
use std::time::Duration;

use futures_core::Stream;
use tokio::time::Instant;
use zk_curator_client::internal::{bounded, sleep_until};
use zk_curator_client::{Children, Stat};

use super::follower::{OfChildren, WatchFollower};
use super::stream::until_error;
use crate::error::Result;
use crate::framework::CuratorFramework;

/// Follows the children of a node: see [`CuratorFramework::watch_children`].
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless the next state is awaited"]
pub struct ChildrenWatch {
    pub(super) follower: WatchFollower<OfChildren>,
    pub(super) tells_apart: bool,
    rest: Option<Duration>,
    /// The state that was returned last; `None` in it for a missing parent.
    told: Option<Option<ChildListing>>,
    /// A later, different state.
    pending: Option<PendingListing>,
}

/// The names of the children, in order, and the stat of the parent.
#[derive(Debug, Clone)]
pub(super) struct ChildListing {
    pub(super) names: Vec<String>,
    pub(super) stat: Stat,
}

struct PendingListing {
    state: Option<ChildListing>,
    /// The time at which the state was first seen.
    since: Instant,
    /// The epoch of the connection before the state was last seen.
    epoch: u64,
}

impl CuratorFramework {
    /// Follows the children of a node, which need not exist: returns them now, and after every
    /// change. [`watch`](crate::watch) says when to use this, and what every followed read
    /// promises.
    ///
    /// **Nothing is sent until [`next`](ChildrenWatch::next) is awaited.** An invalid path is an
    /// error of that call.
    ///
    /// Corresponds to kazoo's `ChildrenWatch`, which ends when the node is deleted.
    pub fn watch_children(&self, path: impl Into<String>) -> ChildrenWatch {
        ChildrenWatch {
            follower: WatchFollower::new(self, "watch_children", path.into(), false),
            tells_apart: false,
            rest: None,
            told: None,
            pending: None,
        }
    }
}

impl ChildrenWatch {
    /// Returns equal names again if one of the children may have been deleted and created again.
    /// Default: off.
    ///
    /// This costs no request, because the stat of the parent counts the creations. It also counts
    /// children that were created and deleted unseen; the same names are then returned again too.
    pub const fn identity(mut self) -> Self {
        self.tells_apart = true;
        self
    }

    /// Returns a state only after it has stayed unchanged for this time, including the first state.
    /// Each change still costs a request. A time without a connection counts if it turns out later
    /// that nothing has changed. Default: zero, returns immediately.
    #[doc(alias = "PatientChildrenWatch")]
    pub const fn settled(mut self, rest: Duration) -> Self {
        self.rest = Some(rest);
        self
    }

    /// Returns the path within the namespace.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.follower.target.path
    }

    /// Waits for the next state, without a time limit and across sessions. The first call returns
    /// the present state, later calls a state that differs from the last one. A state is the sorted
    /// names of the children and the stat of the parent, or `None` if the parent does not exist.
    ///
    /// # Errors
    /// Errors that do not pass by themselves: `NoAuth`, `InvalidPath`, `SchemaViolation`, `Closed`,
    /// and `SessionExpired` for a handle that is [bound](CuratorFramework::bound_to_session) to a
    /// session that is over. The next call tries again.
    ///
    /// # Cancel safety
    /// Dropping the future loses no state.
    pub async fn next(&mut self) -> Result<Option<(Vec<String>, Stat)>> {
        Ok(self.next_listing().await?.map(|ChildListing { names, stat }| (names, stat)))
    }

    /// Returns the states as a stream, which ends after the first error.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream drops the watch.
    pub fn into_stream(
        self,
    ) -> impl Stream<Item = Result<Option<(Vec<String>, Stat)>>> + Send + 'static {
        until_error(self, |watch| Box::pin(watch.next()))
    }

    pub(super) async fn next_listing(&mut self) -> Result<Option<ChildListing>> {
        loop {
            match self.due() {
                // The state differs, and has not changed since.
                Some((since, epoch)) if self.follower.is_current() => {
                    let Some(rest) = self.rest else { return Ok(self.tell()) };
                    tokio::select! {
                        biased;
                        _ = self.follower.changed() => {}
                        () = sleep_until(since + bounded(rest)) => {
                            // Events are missed without a connection, so the state is read again.
                            let zk = self.follower.zk();
                            // The real state counts, not that of a circuit breaker.
                            if zk.status().epoch == epoch && zk.core().is_connected() {
                                return Ok(self.tell());
                            }
                        }
                    }
                }
                _ => _ = self.follower.changed().await,
            }
            let epoch = self.follower.zk().status().epoch;
            let seen = self.follower.next_value().await?;
            self.take(seen, epoch);
        }
    }

    fn due(&self) -> Option<(Instant, u64)> {
        self.pending.as_ref().map(|pending| (pending.since, pending.epoch))
    }

    /// Takes a state that was read.
    fn take(&mut self, seen: Option<Children>, epoch: u64) {
        let state = seen.map(|Children { mut names, stat, .. }| {
            names.sort_unstable();
            ChildListing { names, stat }
        });
        let before = self.pending.take();
        if self.told.as_ref().is_some_and(|told| !self.differs(told.as_ref(), state.as_ref())) {
            return;
        }
        let place = |state: Option<&ChildListing>| {
            state.map(|listing| (listing.stat.czxid, listing.stat.pzxid))
        };
        let since = match before {
            Some(before) if place(before.state.as_ref()) == place(state.as_ref()) => before.since,
            _ => Instant::now(),
        };
        self.pending = Some(PendingListing { state, since, epoch });
    }

    fn tell(&mut self) -> Option<ChildListing> {
        let state = self.pending.take().and_then(|pending| pending.state);
        self.told = Some(state.clone());
        state
    }

    fn differs(&self, told: Option<&ChildListing>, now: Option<&ChildListing>) -> bool {
        match (told, now) {
            (None, None) => false,
            (Some(told), Some(now)) if told.names == now.names => {
                self.tells_apart
                    && !now.names.is_empty()
                    && may_have_returned(&told.stat, &now.stat, 0)
            }
            _ => true,
        }
    }
}

/// Returns `true` if some of the children in both lists may have been deleted and created again.
/// `joined` is the number of children that are only in the second list.
///
/// `cversion` counts twice every child that was created and is gone, and once every child that
/// exists (`DataNode.copyStat`). So it tells how many children were created.
pub(super) fn may_have_returned(before: &Stat, now: &Stat, joined: usize) -> bool {
    if before.czxid != now.czxid {
        return true;
    }
    let changes = now.cversion.wrapping_sub(before.cversion);
    let more = now.num_children.wrapping_sub(before.num_children);
    let created = changes.wrapping_add(more).cast_unsigned() / 2;
    usize::try_from(created).map_or(true, |created| created > joined)
}

impl fmt::Debug for ChildrenWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildrenWatch")
            .field("path", &self.path())
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}
