//! The buckets of a queue as one consumer has listed them.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::task::{Context, Waker};

use futures_util::future::join_all;
use tokio::task::unconstrained;
use tracing::debug;
use zk_curator::watch::Watch;
use zk_curator::{Error, ErrorKind};

use super::layout::QueueLayout;
use super::name::{Bucket, is_taker};

/// The number of buckets that are listed together while all before them have nothing to take.
const AT_ONCE: usize = 8;
/// With more buckets than that, open ones that are empty are deleted like closed ones: there are too many priorities.
const MANY: usize = 64;

/// The buckets, in their order.
#[derive(Default)]
pub(super) struct Shelves {
    list: Vec<Shelf>,
    /// Whether something is beside the buckets that may be an item.
    pub(super) has_others: bool,
}

struct Shelf {
    bucket: Bucket,
    name: String,
    watch: Option<Watch>,
    state: State,
}

/// The state of a bucket when it was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not listed yet.
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

/// Names of items, with those of their buckets.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) names: Vec<String>,
    /// The buckets that were not listed, because there was enough in those before them.
    pub(super) left: BTreeSet<String>,
}

impl Shelves {
    /// Takes the buckets out of a listing of their parent.
    pub(super) fn update(&mut self, children: &mut Vec<String>) {
        let known = std::mem::take(&mut self.list);
        let mut known: BTreeMap<Bucket, Shelf> =
            known.into_iter().map(|shelf| (shelf.bucket, shelf)).collect();
        children.retain(|name| {
            let Some(bucket) = Bucket::parse(name) else { return true };
            let new = || Shelf { bucket, name: name.clone(), watch: None, state: State::Unknown };
            self.list
                .push(known.remove(&bucket).filter(|shelf| shelf.state != State::Gone).unwrap_or_else(new));
            false
        });
        self.list.sort_unstable_by_key(|shelf| shelf.bucket);
        self.has_others = children.iter().any(|name| !is_taker(name));
    }

    /// The watches on buckets.
    pub(super) fn watches(&mut self) -> impl Iterator<Item = &mut Option<Watch>> {
        self.list.iter_mut().map(|shelf| &mut shelf.watch)
    }

    /// Whether every bucket is watched.
    pub(super) fn is_watched(&self) -> bool {
        self.list.iter().all(|shelf| shelf.watch.is_some())
    }

    /// Whether something may be new in a bucket for items that come before those of this rank.
    pub(super) fn has_news_before(&self, rank: i64) -> bool {
        self.list.iter().any(|shelf| i64::from(shelf.bucket.rank) < rank && shelf.watch.is_none())
    }

    /// Lists buckets in their order, until there are `enough` items that can be taken, or no more buckets. Those that are
    /// closed and empty are deleted.
    pub(super) async fn list(
        &mut self,
        layout: &QueueLayout,
        watched: bool,
        enough: usize,
        is_free: impl Fn(&str) -> bool,
    ) -> Result<Listed, Error> {
        let (mut listed, mut free, mut next) = (Listed::default(), 0, 0);
        while next < self.list.len() && free < enough {
            let count = if next > 0 && free == 0 { AT_ONCE } else { 1 };
            let some = self.list.iter_mut().skip(next).take(count);
            let reads = some.filter(|shelf| !shelf.is_known_to_be_empty());
            for names in join_all(reads.map(|shelf| shelf.read(layout, watched))).await {
                let names = names?;
                free += names.iter().filter(|name| is_free(name)).count();
                listed.names.extend(names);
            }
            next += count;
        }
        listed.left = self.list.iter().skip(next).map(|shelf| shelf.name.clone()).collect();
        self.tidy(layout).await;
        Ok(listed)
    }

    /// Deletes what is empty and stays so. A bucket that is not empty any more is not deleted by the server.
    async fn tidy(&mut self, layout: &QueueLayout) {
        let are_many = self.list.len() > MANY;
        let deletes = self.list.iter_mut().filter_map(|shelf| match shelf.state {
            State::Empty { version } if version > 0 || are_many => Some(shelf.delete(layout, version)),
            _ => None,
        });
        join_all(deletes.collect::<Vec<_>>()).await;
        self.list.retain(|shelf| shelf.state != State::Gone);
    }
}

impl Shelf {
    fn is_known_to_be_empty(&self) -> bool {
        matches!(self.state, State::Empty { .. } | State::Stuck) && self.watch.is_some()
    }

    async fn read(&mut self, layout: &QueueLayout, watched: bool) -> Result<Vec<String>, Error> {
        let children = layout.zk.children(layout.item(&self.name));
        let listed = if watched {
            children.watched().await.map(|watched| (watched.value, Some(watched.watch)))
        } else {
            children.with_stat().await.map(|value| (value, None))
        };
        let ((names, stat), watch) = match listed {
            Err(error) if error.kind() == ErrorKind::NoNode => {
                self.state = State::Gone;
                return Ok(Vec::new());
            }
            listed => listed?,
        };
        self.watch = watch.or_else(|| self.watch.take());
        self.state = match self.state {
            _ if !names.is_empty() => State::Filled,
            State::Stuck => State::Stuck,
            _ => State::Empty { version: stat.version },
        };
        Ok(names.into_iter().map(|name| format!("{}/{name}", self.name)).collect())
    }

    async fn delete(&mut self, layout: &QueueLayout, version: i32) {
        let path = layout.item(&self.name);
        self.state = match layout.zk.delete(&path).version(version).await {
            Ok(()) => State::Gone,
            Err(error) => match error.kind() {
                ErrorKind::NoNode => State::Gone,
                ErrorKind::NotEmpty | ErrorKind::BadVersion => State::Unknown,
                _ if error.is_transient() || error.kind() == ErrorKind::Closed => {
                    debug!(path, %error, "an empty bucket is not deleted yet");
                    State::Unknown
                }
                _ => {
                    layout.zk.report_background_error(error);
                    State::Stuck
                }
            },
        };
    }
}

/// Forgets a watch that has fired.
pub(super) fn forget_fired(watch: &mut Option<Watch>) {
    let mut cx = Context::from_waker(Waker::noop());
    // Whatever else this task has done since it last yielded.
    let is_ready = |watch: &mut Watch| Pin::new(&mut unconstrained(watch)).poll(&mut cx).is_ready();
    if watch.as_mut().is_some_and(is_ready) {
        *watch = None;
    }
}
