use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use futures_core::Stream;
use zk_curator_client::{Read, ReadResponse, Stat};

use super::children::{ChildListing, ChildrenWatch, may_have_returned};
use super::stream::until_error;
use crate::error::Result;
use crate::op::{found, read_many};
use crate::path::join;

/// A change of the children of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildEvent {
    /// A child with this name was created.
    Joined(String),
    /// The child with this name was deleted.
    Left(String),
}

/// Reports joins and leaves of children: see [`ChildrenWatch::diff`].
///
/// If it is made of a watch with [`identity`](ChildrenWatch::identity), it reports a child that was
/// deleted and created again as left and joined. To find that child, it reads the children that
/// stayed, but only when the stat of the parent shows that there is one. This needs the permission
/// to read them.
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless the next event is awaited"]
pub struct ChildrenDiff {
    watch: ChildrenWatch,
    /// The children that were returned last.
    names: BTreeSet<String>,
    /// The stat of the parent when these were last listed.
    base: Option<Stat>,
    /// The transactions that created the children that were read.
    czxids: BTreeMap<String, i64>,
    /// The next list, which was not compared yet.
    listed: Option<Option<ChildListing>>,
    /// The events of the last list that were not returned yet.
    pending: VecDeque<ChildEvent>,
}

impl ChildrenWatch {
    /// Returns the children that have joined and left, one by one.
    pub const fn diff(self) -> ChildrenDiff {
        ChildrenDiff {
            watch: self,
            names: BTreeSet::new(),
            base: None,
            czxids: BTreeMap::new(),
            listed: None,
            pending: VecDeque::new(),
        }
    }
}

impl ChildrenDiff {
    /// Returns the path of the parent within the namespace.
    #[must_use]
    pub fn path(&self) -> &str {
        self.watch.path()
    }

    /// Returns the children after the last event. Without a connection, these are the ones seen
    /// last.
    #[must_use]
    pub const fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Waits for the next event, without a time limit and across sessions. The first events report
    /// the present children as joined.
    ///
    /// # Errors
    /// As [`ChildrenWatch::next`].
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<ChildEvent> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                match &event {
                    ChildEvent::Joined(name) => _ = self.names.insert(name.clone()),
                    ChildEvent::Left(name) => _ = self.names.remove(name),
                }
                return Ok(event);
            }
            if self.listed.is_none() {
                self.listed = Some(self.watch.next_listing().await?);
            }
            match self.stayed().await {
                Ok(stayed) => self.compare(&stayed),
                Err(error) => self.watch.follower.zk().wait_for_recovery(error).await?,
            }
        }
    }

    /// Returns the events as a stream, which ends after the first error.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream drops the watch.
    pub fn into_stream(self) -> impl Stream<Item = Result<ChildEvent>> + Send + 'static {
        until_error(self, |diff| Box::pin(diff.next()))
    }

    /// Returns the transactions that created the children in both lists, if it is not certain that
    /// these are the same.
    async fn stayed(&self) -> Result<BTreeMap<String, i64>> {
        let (Some(Some(listing)), Some(base)) = (&self.listed, &self.base) else {
            return Ok(BTreeMap::new());
        };
        let stayed: Vec<_> =
            listing.names.iter().filter(|name| self.names.contains(*name)).collect();
        let joined = listing.names.len() - stayed.len();
        let is_needed = self.watch.tells_apart
            && base.czxid == listing.stat.czxid
            && may_have_returned(base, &listing.stat, joined);
        if stayed.is_empty() || !is_needed {
            return Ok(BTreeMap::new());
        }
        let target = &self.watch.follower.target;
        let parent = target.server_path()?;
        let reads: Vec<_> = stayed.iter().map(|name| Read::Data(join(&parent, name))).collect();
        let mut czxids = BTreeMap::new();
        for (name, answer) in stayed.into_iter().zip(read_many(target, &reads).await?) {
            // If a child is missing here, the next list shows that.
            if let Some(ReadResponse::Data(data)) = found(answer)? {
                czxids.insert(name.clone(), data.stat.czxid);
            }
        }
        Ok(czxids)
    }

    /// Compares the list with the last one returned.
    fn compare(&mut self, stayed: &BTreeMap<String, i64>) {
        let listing = self.listed.take().flatten();
        let now: BTreeSet<_> =
            listing.iter().flat_map(|listing| listing.names.iter().cloned()).collect();
        let (before, parent) = (self.base.take(), listing.map(|listing| listing.stat));
        let is_another_parent = match (&before, &parent) {
            (Some(before), Some(parent)) => before.czxid != parent.czxid,
            _ => false,
        };
        let has_returned = |name: &String| {
            let czxid = stayed.get(name).copied();
            let is_younger = || czxid > before.as_ref().map(|before| before.pzxid);
            let is_another = match (czxid, self.czxids.get(name)) {
                (Some(czxid), Some(known)) => czxid != *known,
                (Some(_), None) => is_younger(),
                (None, _) => false,
            };
            self.watch.tells_apart && now.contains(name) && (is_another_parent || is_another)
        };
        let gone: BTreeSet<_> = self
            .names
            .iter()
            .filter(|name| !now.contains(*name) || has_returned(name))
            .cloned()
            .collect();
        let come = now.into_iter().filter(|name| !self.names.contains(name) || gone.contains(name));
        self.pending.extend(come.map(ChildEvent::Joined).collect::<Vec<_>>());
        for name in gone.into_iter().rev() {
            self.czxids.remove(&name);
            self.pending.push_front(ChildEvent::Left(name));
        }
        if self.watch.tells_apart {
            self.czxids.extend(stayed.iter().map(|(name, czxid)| (name.clone(), *czxid)));
        }
        self.base = parent;
    }
}

impl fmt::Debug for ChildrenDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildrenDiff")
            .field("path", &self.path())
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
