use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use super::watch_state::WatchState;
use crate::queue::wire::name::Bucket;

/// The number of buckets that are listed together if the buckets before them have no free item.
const AT_ONCE: usize = 8;
/// With more buckets than this, empty open buckets are deleted like closed ones, because there are
/// too many priorities.
const MANY: usize = 64;

/// The buckets of a queue as one consumer has listed them, in their order.
#[derive(Debug, Default)]
pub(crate) struct BucketList {
    list: Vec<ListedBucket>,
}

#[derive(Debug)]
struct ListedBucket {
    bucket: Bucket,
    name: String,
    watch: WatchState,
    state: BucketState,
}

/// The state of a bucket when it was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BucketState {
    /// The bucket has not been listed yet.
    Unknown,
    /// It had children.
    Filled,
    Empty {
        version: i32,
    },
    /// Empty, and its deletion was refused.
    Stuck,
    Gone,
}

/// The outcome of the deletion of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketDeletion {
    Done,
    /// The outcome is unknown, or the bucket is no longer empty.
    Unknown,
    Refused,
}

/// The children of a bucket with their names in the queue, and its version; `None` if it was
/// deleted.
pub(in crate::queue) type BucketChildren = Option<(Vec<String>, i32)>;

impl BucketList {
    /// Removes the buckets from a listing of their parent, and returns them.
    pub(in crate::queue) fn update(&mut self, children: &mut Vec<String>) {
        let known = mem::take(&mut self.list);
        let mut known: BTreeMap<Bucket, ListedBucket> =
            known.into_iter().map(|listed| (listed.bucket, listed)).collect();
        children.retain(|name| {
            let Some(bucket) = Bucket::parse(name) else { return true };
            let known = known.remove(&bucket).filter(|listed| listed.state != BucketState::Gone);
            self.list.push(known.unwrap_or_else(|| ListedBucket {
                bucket,
                name: name.clone(),
                watch: WatchState::Unwatched,
                state: BucketState::Unknown,
            }));
            false
        });
        self.list.sort_unstable_by_key(|listed| listed.bucket);
    }

    pub(in crate::queue) fn len(&self) -> usize {
        self.list.len()
    }

    fn find(&mut self, name: &str) -> Option<&mut ListedBucket> {
        self.list.iter_mut().find(|listed| listed.name == name)
    }

    pub(in crate::queue) fn fired(&mut self, name: &str) {
        if let Some(listed) = self.find(name) {
            listed.watch.fire();
        }
    }

    pub(in crate::queue) fn is_armed(&self, name: &str) -> bool {
        self.list.iter().any(|listed| listed.name == name && listed.watch == WatchState::Armed)
    }

    pub(in crate::queue) fn has_fired(&self) -> bool {
        self.list.iter().any(|listed| listed.watch == WatchState::Fired)
    }

    pub(in crate::queue) fn forget_fired(&mut self) {
        self.list.iter_mut().for_each(|listed| listed.watch.forget_fired());
    }

    /// Returns `true` if every bucket is watched, and none has changed.
    pub(in crate::queue) fn is_watched(&self) -> bool {
        self.list.iter().all(|listed| listed.watch == WatchState::Armed)
    }

    /// Returns `true` if a bucket for items that come before this rank may have new items.
    pub(in crate::queue) fn has_news_before(&self, rank: i64) -> bool {
        let is_before = |listed: &&ListedBucket| i64::from(listed.bucket.rank) < rank;
        self.list.iter().filter(is_before).any(|listed| listed.watch != WatchState::Armed)
    }

    /// Returns the number of buckets that are checked together from this one on, and the names of
    /// those that must be listed.
    pub(in crate::queue) fn to_list(&self, from: usize, has_free: bool) -> (usize, Vec<String>) {
        let count = if from > 0 && !has_free { AT_ONCE } else { 1 };
        let is_known_to_be_empty = |listed: &&ListedBucket| {
            matches!(listed.state, BucketState::Empty { .. } | BucketState::Stuck)
                && listed.watch == WatchState::Armed
        };
        let some = self.list.iter().skip(from).take(count);
        (
            count,
            some.filter(|listed| !is_known_to_be_empty(listed))
                .map(|listed| listed.name.clone())
                .collect(),
        )
    }

    /// Processes a listing of a bucket.
    pub(in crate::queue) fn listed(
        &mut self,
        name: &str,
        children: &BucketChildren,
        is_watched: bool,
    ) {
        let Some(listed) = self.find(name) else { return };
        let Some((names, version)) = children else {
            listed.state = BucketState::Gone;
            return;
        };
        if is_watched {
            listed.watch = WatchState::Armed;
        }
        listed.state = match listed.state {
            _ if !names.is_empty() => BucketState::Filled,
            BucketState::Stuck => BucketState::Stuck,
            _ => BucketState::Empty { version: *version },
        };
    }

    /// Returns the names of the buckets from this one on.
    pub(in crate::queue) fn left(&self, from: usize) -> BTreeSet<String> {
        self.list.iter().skip(from).map(|listed| listed.name.clone()).collect()
    }

    /// Returns the names of the buckets from this one on, and whether another bucket of the same
    /// priority comes after each.
    pub(in crate::queue) fn from(&self, from: usize) -> impl Iterator<Item = (&str, bool)> {
        let buckets = self.list.iter().enumerate().skip(from);
        buckets.map(|(place, listed)| {
            let next = self.list.get(place + 1);
            (listed.name.as_str(), next.is_some_and(|next| next.bucket.rank == listed.bucket.rank))
        })
    }

    /// Returns the buckets, with their versions, that are empty and closed. If a bucket is no
    /// longer empty, the server refuses to delete it.
    pub(in crate::queue) fn begin_deletes(&mut self) -> Vec<(String, i32)> {
        self.list.retain(|listed| listed.state != BucketState::Gone);
        let are_many = self.list.len() > MANY;
        let delete = |listed: &ListedBucket| match listed.state {
            BucketState::Empty { version } if version > 0 || are_many => {
                Some((listed.name.clone(), version))
            }
            _ => None,
        };
        self.list.iter().filter_map(delete).collect()
    }

    pub(in crate::queue) fn deleted(&mut self, name: &str, deletion: BucketDeletion) {
        match deletion {
            BucketDeletion::Done => self.list.retain(|listed| listed.name != name),
            BucketDeletion::Unknown => {
                self.find(name).into_iter().for_each(|listed| listed.state = BucketState::Unknown);
            }
            BucketDeletion::Refused => {
                self.find(name).into_iter().for_each(|listed| listed.state = BucketState::Stuck);
            }
        }
    }
}
