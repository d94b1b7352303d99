//! The parents of items in queues with a layout of our own: buckets, so that no listing grows with the queue.
//!
//! An open bucket has version 0, a closed one a higher version. Every item is created in one transaction with a check that its
//! bucket is open. A bucket is closed, and the next one created, in one transaction that also writes the parent of the
//! buckets at the version that was read: so a priority has one open bucket at most, which is its last, and items are in the
//! order of buckets and numbers. See `docs/decisions/queue-buckets.md`.

use std::collections::BTreeMap;
use std::future::IntoFuture;

use futures_util::future::join;
use tokio::sync::Mutex;
use zk_curator::op::{CreateOp, Transaction, TransactionOp, fan_out};
use zk_curator::path::SequenceSuffix;
use zk_curator::{CreateMode, ErrorCode, ErrorKind, OpResult};

use super::core::name::{Bucket, LAYOUT};
use super::error::Error;
use super::layout::QueueLayout;
use crate::path::child;

/// The data of a bucket that is closed.
const CLOSED: &str = "closed";
/// The version of a bucket that is open.
const OPEN: i32 = 0;
/// The number of buckets that are counted at a time.
const COUNTED_AT_ONCE: usize = 64;
/// The number of priorities whose open bucket is remembered.
const REMEMBERED: usize = 64;

/// A queue with buckets, and those of them that are open, as far as this process knows them.
#[derive(Debug)]
pub(super) struct Buckets {
    pub(super) layout: QueueLayout,
    /// By priority. Held while a bucket is looked for, so that puts keep their order.
    open: Mutex<BTreeMap<i32, Open>>,
}

/// A bucket that was open when it was looked at.
#[derive(Debug)]
struct Open {
    target: PutTarget,
    /// The number of the next item, as far as is known.
    next: u32,
    is_closed: bool,
}

/// The parent for new items, which is checked in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PutTarget {
    parent: String,
    version: i32,
    is_bucket: bool,
}

impl PutTarget {
    fn bucket(root: &str, name: &str) -> Self {
        Self { parent: child(root, name), version: OPEN, is_bucket: true }
    }

    /// One whose path is as long as that of every other bucket.
    pub(super) fn as_long(root: &str) -> Self {
        Self::bucket(root, &format!("{}{:010}", Bucket::base(0), 0))
    }

    /// The path of an item to be.
    pub(super) fn item(&self, base: &str) -> String {
        format!("{}/{base}", self.parent)
    }

    pub(super) fn check(&self, transaction: Transaction) -> Transaction {
        transaction.check(&self.parent, self.version)
    }

    /// Whether a transaction was refused because no items are to be created here any more.
    pub(super) fn is_stale(&self, error: &zk_curator::Error) -> bool {
        is_conflict(error) && error.path() == self.parent
    }
}

impl Buckets {
    pub(super) fn new(layout: QueueLayout) -> Self {
        Self { layout, open: Mutex::default() }
    }

    /// The parent for some new items of a priority. A bucket that has no room for them is closed, and the next one created.
    ///
    /// # Cancel safety
    /// A bucket may be there that is used by the next put.
    pub(super) async fn target(&self, rank: i32, items: u32) -> Result<PutTarget, Error> {
        let mut open = self.open.lock().await;
        let known = open.remove(&rank);
        let mut now = match known {
            Some(known) if !known.is_closed && known.has_room(items, self.layout.bucket_size()) => known,
            full => self.find(rank, full).await?,
        };
        now.next = now.next.saturating_add(items);
        let target = now.target.clone();
        if open.len() >= REMEMBERED {
            open.pop_first();
        }
        open.insert(rank, now);
        Ok(target)
    }

    /// Items were put: their numbers say how many the bucket has had.
    pub(super) async fn put<'a>(
        &self,
        rank: i32,
        target: &PutTarget,
        paths: impl IntoIterator<Item = &'a str>,
    ) {
        let items = paths.into_iter().filter_map(|path| path.strip_prefix(&target.parent)?.strip_prefix('/'));
        let last = items
            .filter_map(|name| SequenceSuffix::after(name, "-").or_else(|| SequenceSuffix::after(name, "|")));
        let Some(last) = last.map(|number| number.get().cast_unsigned()).max() else { return };
        let mut open = self.open.lock().await;
        if let Some(known) = open.get_mut(&rank).filter(|known| known.target == *target) {
            known.next = known.next.max(last.saturating_add(1));
        }
    }

    /// Nothing can be put there any more.
    pub(super) async fn gone(&self, rank: i32, target: &PutTarget) {
        let mut open = self.open.lock().await;
        if let Some(known) = open.get_mut(&rank).filter(|known| known.target == *target) {
            known.is_closed = true;
        }
    }

    /// The open bucket of a priority, but for one that is full: created, if there is none.
    async fn find(&self, rank: i32, mut full: Option<Open>) -> Result<Open, Error> {
        let layout = &self.layout;
        let (zk, root) = (&layout.zk, layout.path.as_str());
        let found = |target| Open { target, next: 0, is_closed: false };
        let mut is_repeated = full.as_ref().is_some_and(|full| full.is_closed);
        loop {
            if std::mem::replace(&mut is_repeated, true) {
                // The server may not know yet what we have heard.
                zk.sync(root).await?;
            }
            let read = zk.get_data(root).with_stat().into_future();
            let ((data, stat), (names, seen)) =
                match join(read, zk.children(root).with_stat().into_future()).await {
                    (Ok(read), Ok(listed)) => (read, listed),
                    (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::NoNode => {
                        if let Some(target) = create_all(layout, rank).await? {
                            return Ok(found(target));
                        }
                        continue;
                    }
                    (Err(error), _) | (_, Err(error)) => return Err(error.into()),
                };
            if (stat.czxid, stat.version) != (seen.czxid, seen.version) {
                continue;
            }
            let has_buckets = data == LAYOUT;
            if !has_buckets && !layout.upgrades_layout() {
                // The version tells of an upgrade.
                let parent = root.to_owned();
                return Ok(found(PutTarget { parent, version: stat.version, is_bucket: false }));
            }
            let buckets = names.iter().filter_map(|name| Some((Bucket::parse(name)?, name)));
            let last = buckets.filter(|(bucket, _)| bucket.rank == rank).max();
            let mut transaction = zk.transaction().set_data_if(root, LAYOUT, stat.version);
            if let Some((_, name)) = last {
                let target = PutTarget::bucket(&layout.path, name);
                match &full {
                    Some(full) if full.target == target && full.is_closed => {}
                    Some(full) if full.target == target => {
                        transaction = transaction.set_data_if(&target.parent, CLOSED, OPEN);
                    }
                    _ if has_buckets => return Ok(found(target)),
                    _ => {}
                }
            }
            match transaction.with(next_bucket(layout, rank)).await {
                Ok(results) => return Ok(found(created(layout, &results))),
                Err(error) if is_conflict(&error) => {
                    if let Some(full) = full.as_mut().filter(|full| full.target.parent == error.path()) {
                        // Another producer has closed it, or it is gone.
                        full.is_closed = true;
                    }
                }
                // A look at the buckets says whether it was applied.
                Err(error) if error.may_have_applied() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Open {
    fn has_room(&self, items: u32, size: u32) -> bool {
        // More than a bucket is meant for can only be put into an empty one.
        !self.target.is_bucket || self.next == 0 || self.next.saturating_add(items) <= size
    }
}

/// Creates the parent of the buckets, and the first of a priority; `None` if it is to be looked at again.
async fn create_all(layout: &QueueLayout, rank: i32) -> Result<Option<PutTarget>, Error> {
    let parent = layout.zk.transaction().create(layout.path.as_str(), LAYOUT);
    let error = match parent.with(next_bucket(layout, rank)).await {
        Ok(results) => return Ok(Some(created(layout, &results))),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::TransactionFailed { code: ErrorCode::NodeExists, .. } => {}
        ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. } => layout.create_parent().await?,
        _ if error.may_have_applied() => {}
        _ => return Err(error.into()),
    }
    Ok(None)
}

fn next_bucket(layout: &QueueLayout, rank: i32) -> TransactionOp {
    let path = child(&layout.path, &Bucket::base(rank));
    CreateOp::new(path).data("").mode(CreateMode::PersistentSequential).into()
}

/// The bucket that was created by a transaction, after its parent if that was.
fn created(layout: &QueueLayout, results: &[OpResult]) -> PutTarget {
    let path = results.iter().filter_map(OpResult::created_path).next_back();
    let name = path.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    PutTarget::bucket(&layout.path, name)
}

/// The names of the children of a queue and of its buckets, with those of the buckets; none if there is no such queue.
/// One bucket is listed after the other.
pub(super) async fn names(layout: &QueueLayout) -> zk_curator::Result<Vec<String>> {
    let children = list(layout, "").await?;
    let mut names = Vec::new();
    for child in sorted(children) {
        match Bucket::parse(&child) {
            Some(_) => {
                names.extend(list(layout, &child).await?.into_iter().map(|name| format!("{child}/{name}")));
            }
            None => names.push(child),
        }
    }
    Ok(names)
}

/// The number of items in a queue.
pub(super) async fn count(layout: &QueueLayout) -> Result<usize, Error> {
    let children = list(layout, "").await?;
    let (buckets, others): (Vec<_>, Vec<_>) =
        children.into_iter().partition(|name| Bucket::parse(name).is_some());
    let looks: Vec<_> = buckets.iter().map(|bucket| layout.zk.exists(layout.item(bucket))).collect();
    let mut count = others.iter().filter(|name| layout.kind.place(name).is_some()).count();
    for stat in fan_out(COUNTED_AT_ONCE, looks).await {
        count += stat?.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0));
    }
    Ok(count)
}

/// In the order of buckets; whatever else there is comes first.
fn sorted(mut children: Vec<String>) -> Vec<String> {
    children.sort_by_cached_key(|name| Bucket::parse(name));
    children
}

async fn list(layout: &QueueLayout, bucket: &str) -> zk_curator::Result<Vec<String>> {
    let path = if bucket.is_empty() { layout.path.as_str().to_owned() } else { layout.item(bucket) };
    match layout.zk.children(path).await {
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
        names => names,
    }
}

/// Puts a node back into a bucket that may have been deleted since. A bucket that is created for that is closed.
pub(super) fn put_back(transaction: Transaction, path: &str, is_bucket_gone: bool) -> Transaction {
    let bucket = path.rsplit_once('/').map_or("", |(bucket, _)| bucket);
    let transaction = match is_bucket_gone {
        // The write makes it another than the open one that producers may know.
        true => transaction.create(bucket, CLOSED).set_data(bucket, CLOSED),
        false => transaction,
    };
    transaction.create(path, "")
}

/// Whether a transaction was refused because a node was not there, or not in the version that was expected.
pub(super) fn is_conflict(error: &zk_curator::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TransactionFailed { code: ErrorCode::BadVersion | ErrorCode::NoNode, .. }
    )
}
