//! The parents of items in queues with a layout of our own: buckets, so that no listing grows with
//! the queue.
//!
//! An open bucket has version 0, a closed one a higher version. Every item is created in one
//! transaction with a check that its bucket is open. A bucket is closed, and the next one created,
//! in one transaction that also writes the parent of the buckets at the version that was read: so a
//! priority has one open bucket at most, which is its last, and items are in the order of buckets
//! and numbers. See `docs/decisions/queue-buckets.md`.

use std::collections::BTreeMap;

use tokio::sync::Mutex;
use zk_curator::op::{CreateOp, Transaction, TransactionOp, fan_out};
use zk_curator::path::SequenceSuffix;
use zk_curator::{CreateMode, ErrorCode, ErrorKind, OpResult};

use crate::path::child;
use crate::queue::error::Error;
use crate::queue::wire::layout::QueueLayout;
use crate::queue::wire::name::{Bucket, LAYOUT};

/// The data of a bucket that is closed.
const CLOSED: &str = "closed";
/// The version of a bucket that is open.
const OPEN: i32 = 0;
/// The number of buckets that are counted at a time.
const COUNTED_AT_ONCE: usize = 64;
/// The number of priorities whose open bucket is remembered.
const REMEMBERED: usize = 64;

/// A queue with buckets, and the open ones, as far as this process knows them.
#[derive(Debug)]
pub(in crate::queue) struct Buckets {
    pub(in crate::queue) layout: QueueLayout,
    /// By priority. Held during the search for a bucket, so that puts keep their order.
    open: Mutex<BTreeMap<i32, OpenBucket>>,
}

/// A bucket that was open when it was read.
#[derive(Debug)]
struct OpenBucket {
    target: PutTarget,
    /// The number of the next item, as far as is known.
    next: u32,
    is_closed: bool,
}

/// The parent for new items, which is checked in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue) struct PutTarget {
    parent: String,
}

impl PutTarget {
    fn bucket(root: &str, name: &str) -> Self {
        Self { parent: child(root, name) }
    }

    /// A bucket whose path is as long as the paths of all other buckets.
    pub(in crate::queue) fn as_long(root: &str) -> Self {
        Self::bucket(root, &format!("{}{:010}", Bucket::base(0), 0))
    }

    /// The path of an item to be.
    pub(in crate::queue) fn item(&self, base: &str) -> String {
        format!("{}/{base}", self.parent)
    }

    pub(in crate::queue) fn check(&self, transaction: Transaction) -> Transaction {
        transaction.check(&self.parent, OPEN)
    }

    /// Returns `true` if a transaction was refused because no more items may be created here.
    pub(in crate::queue) fn is_stale(&self, error: &zk_curator::Error) -> bool {
        is_conflict(error) && error.path() == self.parent
    }
}

impl Buckets {
    pub(in crate::queue) fn new(layout: QueueLayout) -> Self {
        Self { layout, open: Mutex::default() }
    }

    /// The parent for some new items of a priority. A bucket that has no room for them is closed,
    /// and the next one created.
    ///
    /// # Cancel safety
    /// A bucket may be there that is used by the next put.
    pub(in crate::queue) async fn target(&self, rank: i32, items: u32) -> Result<PutTarget, Error> {
        let mut open = self.open.lock().await;
        let known = open.remove(&rank);
        let mut now = match known {
            Some(known) if !known.is_closed && known.has_room(items, self.layout.bucket_size()) => {
                known
            }
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

    /// Notes that items were put. Their numbers show how many the bucket has had.
    pub(in crate::queue) async fn put<'a>(
        &self,
        rank: i32,
        target: &PutTarget,
        paths: impl IntoIterator<Item = &'a str>,
    ) {
        let items = paths
            .into_iter()
            .filter_map(|path| path.strip_prefix(&target.parent)?.strip_prefix('/'));
        let last = items.filter_map(|name| {
            SequenceSuffix::after(name, "-").or_else(|| SequenceSuffix::after(name, "|"))
        });
        let Some(last) = last.map(|number| number.get().cast_unsigned()).max() else { return };
        let mut open = self.open.lock().await;
        if let Some(known) = open.get_mut(&rank).filter(|known| known.target == *target) {
            known.next = known.next.max(last.saturating_add(1));
        }
    }

    /// Notes that the bucket is closed.
    pub(in crate::queue) async fn gone(&self, rank: i32, target: &PutTarget) {
        let mut open = self.open.lock().await;
        if let Some(known) = open.get_mut(&rank).filter(|known| known.target == *target) {
            known.is_closed = true;
        }
    }

    /// Returns the open bucket of a priority, except `full`, and creates one if there is none.
    async fn find(&self, rank: i32, mut full: Option<OpenBucket>) -> Result<OpenBucket, Error> {
        let layout = &self.layout;
        let (zk, root) = (&layout.zk, layout.path.as_str());
        let found = |target| OpenBucket { target, next: 0, is_closed: false };
        let mut is_repeated = full.as_ref().is_some_and(|full| full.is_closed);
        loop {
            if std::mem::replace(&mut is_repeated, true) {
                // The server may not have applied yet what we know.
                zk.sync(root).await?;
            }
            let (names, stat) = match zk.children(root).with_stat().await {
                Ok(listed) => listed,
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    if let Some(target) = create_all(layout, rank).await? {
                        return Ok(found(target));
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
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
                    _ => return Ok(found(target)),
                }
            }
            match transaction.with(next_bucket(layout, rank)).await {
                Ok(results) => return Ok(found(created(layout, &results))),
                Err(error) if is_conflict(&error) => {
                    if let Some(full) =
                        full.as_mut().filter(|full| full.target.parent == error.path())
                    {
                        // Another producer has closed it, or it is gone.
                        full.is_closed = true;
                    }
                }
                // Reading the buckets shows whether it was applied.
                Err(error) if error.may_have_applied() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl OpenBucket {
    fn has_room(&self, items: u32, size: u32) -> bool {
        // More than a bucket is meant for can only be put into an empty one.
        self.next == 0 || self.next.saturating_add(items) <= size
    }
}

/// Creates the parent of the buckets, and the first bucket of a priority. Returns `None` if the
/// buckets must be read again.
async fn create_all(layout: &QueueLayout, rank: i32) -> Result<Option<PutTarget>, Error> {
    let parent = layout.zk.transaction().create(layout.path.as_str(), LAYOUT);
    let error = match parent.with(next_bucket(layout, rank)).await {
        Ok(results) => return Ok(Some(created(layout, &results))),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::TransactionFailed { code: ErrorCode::NodeExists, .. } => {}
        ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. } => {
            layout.create_parent().await?;
        }
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

/// The number of items in a queue.
pub(in crate::queue) async fn count(layout: &QueueLayout) -> Result<usize, Error> {
    let children = list(layout, "").await?;
    let (buckets, others): (Vec<_>, Vec<_>) =
        children.into_iter().partition(|name| Bucket::parse(name).is_some());
    let looks: Vec<_> =
        buckets.iter().map(|bucket| layout.zk.exists(layout.item(bucket))).collect();
    let mut count = others.iter().filter(|name| layout.kind.place(name).is_some()).count();
    for stat in fan_out(COUNTED_AT_ONCE, looks).await {
        count += stat?.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0));
    }
    Ok(count)
}

async fn list(layout: &QueueLayout, bucket: &str) -> zk_curator::Result<Vec<String>> {
    let path =
        if bucket.is_empty() { layout.path.as_str().to_owned() } else { layout.item(bucket) };
    match layout.zk.children(path).await {
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
        names => names,
    }
}

/// Puts a node back into a bucket that may have been deleted in between. A bucket that is created
/// for that is closed.
pub(in crate::queue) fn put_back(
    transaction: Transaction,
    path: &str,
    is_bucket_gone: bool,
) -> Transaction {
    let bucket = path.rsplit_once('/').map_or("", |(bucket, _)| bucket);
    let transaction = match is_bucket_gone {
        // The write makes it another than the open one that producers may know.
        true => transaction.create(bucket, CLOSED).set_data(bucket, CLOSED),
        false => transaction,
    };
    transaction.create(path, "")
}

/// Returns `true` if a transaction was refused because a node was not there, in the version that
/// was expected.
pub(in crate::queue) fn is_conflict(error: &zk_curator::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TransactionFailed { code: ErrorCode::BadVersion | ErrorCode::NoNode, .. }
    )
}
