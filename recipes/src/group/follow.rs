use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use tracing::debug;
use zk_curator::op::fan_out;
use zk_curator::path::ZPath;
use zk_curator::watch::{Watch, Watched};
use zk_curator::{CuratorFramework, Error, ErrorKind, Stat};

use super::naming::Naming;
use crate::path::child;

/// The number of members that are read at a time.
const READS_AT_ONCE: usize = 64;

/// An event of a group.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupEvent {
    /// A member has joined, or was there when we began to look.
    Joined {
        /// The id.
        id: String,
        /// Its data.
        data: Bytes,
    },
    /// A member says something else of itself.
    Changed {
        /// The id.
        id: String,
        /// Its data.
        data: Bytes,
    },
    /// A member whose data cannot be read is there. It has [joined](Self::Joined) when they can be
    /// read, which is tried with every other change of the group.
    Unreadable {
        /// The id.
        id: String,
        /// The reason, such as `NoAuth`.
        error: ErrorKind,
    },
    /// A member has left, or its session is over.
    Left {
        /// The id.
        id: String,
    },
}

/// Follows a [`Group`](super::Group). It costs no task: nothing is read unless [`next`](Self::next)
/// is awaited.
///
/// # Cancel safety
/// Dropping it removes its watches.
#[must_use = "nothing is read unless it is asked for the next event"]
pub struct GroupWatch {
    zk: CuratorFramework,
    path: String,
    naming: Naming,
    /// Fires when the list of ids is no longer true.
    list: Option<Watch>,
    ids: BTreeSet<String>,
    /// The members that were read.
    seen: BTreeMap<String, FollowedMember>,
    /// The events that were not returned yet.
    pending: VecDeque<GroupEvent>,
    /// The members that were reported.
    members: BTreeMap<String, Bytes>,
    /// The members that were reported as unreadable.
    unreadable: BTreeMap<String, ErrorKind>,
}

enum FollowedMember {
    Readable {
        czxid: i64,
        mzxid: i64,
        /// Fires when it is no longer true.
        watch: Option<Watch>,
    },
    Unreadable(ErrorKind),
}

impl GroupWatch {
    pub(super) fn new(zk: CuratorFramework, path: String, naming: Naming) -> Self {
        Self {
            zk,
            path,
            naming,
            list: None,
            ids: BTreeSet::new(),
            seen: BTreeMap::new(),
            pending: VecDeque::new(),
            members: BTreeMap::new(),
            unreadable: BTreeMap::new(),
        }
    }

    /// The members after the last event, and their data. Without a connection this is the last
    /// known state.
    #[must_use]
    pub const fn members(&self) -> &BTreeMap<String, Bytes> {
        &self.members
    }

    /// The members after the last event whose data cannot be read, and the reasons, such as
    /// `NoAuth`.
    #[must_use]
    pub const fn unreadable(&self) -> &BTreeMap<String, ErrorKind> {
        &self.unreadable
    }

    /// Waits for the next event, forever and across sessions.
    ///
    /// # Errors
    /// Permanent errors, such as `NoAuth`; `InvalidPath`; `Closed`.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Result<GroupEvent, Error> {
        let path = ZPath::for_operation("follow", self.path.as_str())?;
        loop {
            if let Some(event) = self.pending.pop_front() {
                match &event {
                    GroupEvent::Joined { id, data } | GroupEvent::Changed { id, data } => {
                        self.unreadable.remove(id);
                        self.members.insert(id.clone(), data.clone());
                    }
                    GroupEvent::Unreadable { id, error } => {
                        self.members.remove(id);
                        self.unreadable.insert(id.clone(), *error);
                    }
                    GroupEvent::Left { id } => {
                        self.members.remove(id);
                        self.unreadable.remove(id);
                    }
                }
                return Ok(event);
            }
            match self.look(&path).await {
                Ok(()) if self.pending.is_empty() => poll_fn(|cx| self.poll_changed(cx)).await,
                Ok(()) => {}
                Err(error) => self.zk.wait_for_recovery(error).await?,
            }
        }
    }

    /// Waits for the next event, and takes it with all that are known by then.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub(crate) async fn changed(&mut self) -> Result<(), Error> {
        self.next().await?;
        while !self.pending.is_empty() {
            self.next().await?;
        }
        Ok(())
    }

    /// The events as a stream, which does not end. An error is not the end either: after one that
    /// cannot pass, such as `Closed`, the next is the same.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream is dropping the watch.
    pub fn into_stream(self) -> impl Stream<Item = Result<GroupEvent, Error>> + Send {
        unfold(self, |mut watch| async move { Some((watch.next().await, watch)) })
    }

    /// Reads the members that are not known.
    async fn look(&mut self, path: &ZPath) -> Result<(), Error> {
        while self.list.is_none() {
            self.list(path).await?;
        }
        let is_known = |id: &&String| {
            matches!(self.seen.get(*id), Some(FollowedMember::Readable { watch: Some(_), .. }))
        };
        let unknown: Vec<_> = self.ids.iter().filter(|id| !is_known(id)).cloned().collect();
        let reads: Vec<_> =
            unknown.iter().map(|id| self.zk.get_data(child(path, id)).watched()).collect();
        for (id, read) in unknown.iter().zip(fan_out(READS_AT_ONCE, reads).await) {
            match read {
                Ok(read) => self.found(id, read),
                // It has left since then; the next list will show this.
                Err(error) if error.kind() == ErrorKind::NoNode => self.left(id),
                // It concerns this node only.
                Err(error) if error.is_of_one_node() => self.hidden(id, error.kind()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn list(&mut self, path: &ZPath) -> Result<(), Error> {
        match self.zk.children(path.as_str()).watched().await {
            Ok(Watched { value: (ids, _), watch, .. }) => {
                self.ids = ids.into_iter().filter(|id| self.naming.is_member(id)).collect();
                self.list = Some(watch);
            }
            Err(error) if error.kind() == ErrorKind::NoNode => {
                let group = self.zk.exists(path.as_str()).watched().await?;
                if group.value.is_some() {
                    return Ok(());
                }
                self.ids.clear();
                self.list = Some(group.watch);
            }
            Err(error) => return Err(error),
        }
        let gone: Vec<_> = self.seen.keys().filter(|id| !self.ids.contains(*id)).cloned().collect();
        for id in gone {
            self.left(&id);
        }
        Ok(())
    }

    fn found(&mut self, id: &str, read: Watched<(Bytes, Stat)>) {
        let Watched { value: (data, stat), watch, .. } = read;
        let member =
            FollowedMember::Readable { czxid: stat.czxid, mzxid: stat.mzxid, watch: Some(watch) };
        let id = id.to_owned();
        match self.seen.insert(id.clone(), member) {
            Some(FollowedMember::Readable { czxid, mzxid, .. }) if czxid == stat.czxid => {
                if mzxid != stat.mzxid {
                    self.pending.push_back(GroupEvent::Changed { id, data });
                }
            }
            before => {
                if matches!(before, Some(FollowedMember::Readable { .. })) {
                    self.pending.push_back(GroupEvent::Left { id: id.clone() });
                }
                self.pending.push_back(GroupEvent::Joined { id, data });
            }
        }
    }

    /// A member is there, and cannot be read.
    fn hidden(&mut self, id: &str, error: ErrorKind) {
        let before = self.seen.insert(id.to_owned(), FollowedMember::Unreadable(error));
        if !matches!(before, Some(FollowedMember::Unreadable(before)) if before == error) {
            debug!(path = self.path, id, ?error, "a member cannot be read");
            self.pending.push_back(GroupEvent::Unreadable { id: id.to_owned(), error });
        }
    }

    fn left(&mut self, id: &str) {
        self.ids.remove(id);
        if self.seen.remove(id).is_some() {
            self.pending.push_back(GroupEvent::Left { id: id.to_owned() });
        }
    }

    /// Ready when something has to be read.
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut fired = |watch: &mut Option<Watch>| {
            let fired = watch.as_mut().is_some_and(|watch| Pin::new(watch).poll(cx).is_ready());
            if fired {
                *watch = None;
            }
            fired
        };
        let mut changed = fired(&mut self.list);
        for member in self.seen.values_mut() {
            if let FollowedMember::Readable { watch, .. } = member {
                changed |= fired(watch);
            }
        }
        if changed { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl fmt::Debug for GroupWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupWatch")
            .field("path", &self.path)
            .field("ids", &self.ids)
            .finish_non_exhaustive()
    }
}
