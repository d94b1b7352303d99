use std::fmt;
use std::time::Duration;

use futures_core::Stream;
use tokio::time::{Instant, sleep_until};
use zk_curator_client::{Children, Stat};

use super::follower::{Follower, OfChildren};
use super::stream::until_error;
use crate::error::Result;
use crate::framework::CuratorFramework;

/// Follows the children of a node: see [`CuratorFramework::watch_children`].
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless the next state is awaited"]
pub struct ChildrenWatch {
    pub(super) follower: Follower<OfChildren>,
    pub(super) tells_apart: bool,
    rest: Option<Duration>,
    /// The state that was told last; `None` in it for the absence of the parent.
    told: Option<Option<Listing>>,
    /// One that was seen since, and differs.
    pending: Option<Pending>,
}

/// The names of the children, in order, and the stat of the parent.
#[derive(Debug, Clone)]
pub(super) struct Listing {
    pub(super) names: Vec<String>,
    pub(super) stat: Stat,
}

struct Pending {
    state: Option<Listing>,
    /// When it was seen for the first time.
    since: Instant,
    /// The state of the connection before it was seen for the last time.
    epoch: u64,
}

impl CuratorFramework {
    /// Follows the children of a node, which need not exist: now, and after every change. See [`watch`](crate::watch) for
    /// when to use this, and what every followed read promises.
    ///
    /// **Nothing is sent until [`next`](ChildrenWatch::next) is awaited.** A path that is not valid is refused there.
    ///
    /// A `ChildrenWatch` of kazoo, which ends when the node is deleted.
    pub fn watch_children(&self, path: impl Into<String>) -> ChildrenWatch {
        ChildrenWatch {
            follower: Follower::new(self, "watch_children", path.into(), false),
            tells_apart: false,
            rest: None,
            told: None,
            pending: None,
        }
    }
}

impl ChildrenWatch {
    /// Tells the children also when they have the same names, but one of them may have been deleted and created again. Default:
    /// not.
    ///
    /// This costs no request: the stat of the parent counts the creations. It also counts those of children that have come and gone
    /// unseen, after which the same names are told again as well.
    pub const fn identity(mut self) -> Self {
        self.tells_apart = true;
        self
    }

    /// Tells a state only when nothing has changed for so long since it was seen: the first one, too. Each change costs a
    /// request all the same. A time without a connection counts if it shows later that nothing has changed. Default: at once.
    #[doc(alias = "PatientChildrenWatch")]
    pub const fn settled(mut self, rest: Duration) -> Self {
        self.rest = Some(rest);
        self
    }

    /// The path, within the namespace.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.follower.target.path
    }

    /// Waits for the next state, for ever and across sessions: at first the present one, then one that differs from the
    /// last one told. It is the names of the children, in order, and the stat of the parent; or `None` if that does not
    /// exist.
    ///
    /// # Errors
    /// Errors that do not pass by themselves: `NoAuth`, `InvalidPath`, `SchemaViolation`, `Closed`; `SessionExpired` of a handle that is
    /// [bound](CuratorFramework::bound_to_session) to a session that is over. The next call tries again.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Option<(Vec<String>, Stat)>> {
        Ok(self.next_listing().await?.map(|Listing { names, stat }| (names, stat)))
    }

    /// The states as a stream, which ends after the first error.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream drops the watch.
    pub fn into_stream(self) -> impl Stream<Item = Result<Option<(Vec<String>, Stat)>>> + Send + 'static {
        until_error(self, |watch| Box::pin(watch.next()))
    }

    pub(super) async fn next_listing(&mut self) -> Result<Option<Listing>> {
        loop {
            match self.due() {
                // It differs, and nothing has happened since.
                Some((since, epoch)) if self.follower.is_current() => {
                    let Some(rest) = self.rest else { return Ok(self.tell()) };
                    tokio::select! {
                        biased;
                        _ = self.follower.changed() => {}
                        () = sleep_until(since + rest) => {
                            // Without a connection there are no events: look.
                            let zk = self.follower.zk();
                            // Also while a circuit breaker holds back that there is one.
                            if zk.status().epoch == epoch && zk.core().is_connected() {
                                return Ok(self.tell());
                            }
                        }
                    }
                }
                _ => _ = self.follower.changed().await,
            }
            let epoch = self.follower.zk().status().epoch;
            let seen = self.follower.look().await?;
            self.take(seen, epoch);
        }
    }

    fn due(&self) -> Option<(Instant, u64)> {
        self.pending.as_ref().map(|pending| (pending.since, pending.epoch))
    }

    /// A state was read.
    fn take(&mut self, seen: Option<Children>, epoch: u64) {
        let state = seen.map(|Children { mut names, stat, .. }| {
            names.sort_unstable();
            Listing { names, stat }
        });
        let before = self.pending.take();
        if self.told.as_ref().is_some_and(|told| !self.differs(told.as_ref(), state.as_ref())) {
            return;
        }
        let place = |state: Option<&Listing>| state.map(|listing| (listing.stat.czxid, listing.stat.pzxid));
        let since = match before {
            Some(before) if place(before.state.as_ref()) == place(state.as_ref()) => before.since,
            _ => Instant::now(),
        };
        self.pending = Some(Pending { state, since, epoch });
    }

    fn tell(&mut self) -> Option<Listing> {
        let state = self.pending.take().and_then(|pending| pending.state);
        self.told = Some(state.clone());
        state
    }

    fn differs(&self, told: Option<&Listing>, now: Option<&Listing>) -> bool {
        match (told, now) {
            (None, None) => false,
            (Some(told), Some(now)) if told.names == now.names => {
                self.tells_apart && !now.names.is_empty() && may_have_returned(&told.stat, &now.stat, 0)
            }
            _ => true,
        }
    }
}

/// Whether of the children that are in two lists some may have been deleted and created again, when so many are only in the
/// second.
///
/// `cversion` counts the creations and deletions of children, in this order of magnitude: two for every child that was created
/// and is gone, one for every child that is there (`DataNode.copyStat`). So it tells how many were created.
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
