//! Operations that are done once for an id: the record of each is a node, which the same
//! transaction creates.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tracing::debug;
use zk_curator::internal::{Locked, Setbacks, millis};
use zk_curator::op::{CreateOp, DeleteOp};
use zk_curator::{CuratorFramework, Error as ZkError, ErrorKind};

use super::batch::CounterChange;
use crate::path::{bucket_of, child};
use crate::random;

/// The parent of the buckets of records, below the node of the counter.
const DIRECTORY: &str = "_o";
/// The number of buckets: a listing for cleaning is this much shorter.
const BUCKETS: u32 = 256;
/// The longest id, in bytes: many of them are to fit into one request.
const LONGEST: usize = 1024;
/// A process cleans the bucket that it has just written after this number of records.
pub(super) const RECORDS_PER_SWEEP: u32 = 64;
/// The maximum number of records that are read in one cleaning. In the long run at most a quarter
/// of all records are older than they should be.
const LOOKED_AT: usize = 256;
/// The most deletions in one transaction.
const DELETED_AT_ONCE: usize = 64;

/// The record of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OnceRecord {
    directory: String,
    bucket: String,
    pub(super) path: String,
}

impl OnceRecord {
    /// The record of an id, which must be a name of a node.
    pub(super) fn new(zk: &CuratorFramework, counter: &str, id: &str) -> Result<Self, ZkError> {
        let directory = child(counter, DIRECTORY);
        let bucket = child(&directory, &format!("{:02x}", bucket_of(id, BUCKETS)));
        let path = child(&bucket, id);
        if id.is_empty() || id.len() > LONGEST || id.contains('/') {
            let why = "the id is not a name of a node, or longer than 1,024 bytes";
            return Err(ZkError::invalid_argument("add once", path, why));
        }
        zk.transaction().create(path.as_str(), "").check_size()?;
        Ok(Self { directory, bucket, path })
    }

    pub(super) fn create(&self, change: CounterChange) -> CreateOp {
        CreateOp::new(self.path.as_str()).data(encode(change))
    }

    /// Its parents, without the node of the counter.
    pub(super) fn parents(&self) -> [&str; 2] {
        [&self.directory, &self.bucket]
    }
}

fn encode(change: CounterChange) -> Bytes {
    format!("{} {}", change.pre, change.post).into()
}

/// The change of a record.
pub(super) fn decode(data: &[u8]) -> Option<CounterChange> {
    let (pre, post) = std::str::from_utf8(data).ok()?.split_once(' ')?;
    Some(CounterChange { pre: pre.parse().ok()?, post: post.parse().ok()? })
}

/// Deletes records of a bucket that are older than the one at `newest`, by the clock of the
/// servers. `uncleaned` are the failures of all sweeps of the counter.
pub(super) async fn sweep(
    zk: CuratorFramework,
    newest: OnceRecord,
    keep: Duration,
    uncleaned: Arc<Locked<Setbacks>>,
) {
    let swept = try_sweep(&zk, &newest, keep).await;
    uncleaned.lock().cleaned(&zk, &swept);
    if let Err(error) = swept {
        debug!(bucket = newest.bucket, %error, "records of a counter were not cleaned");
    }
}

async fn try_sweep(
    zk: &CuratorFramework,
    newest: &OnceRecord,
    keep: Duration,
) -> Result<(), ZkError> {
    let Some(now) = zk.exists(newest.path.as_str()).await?.map(|stat| stat.ctime) else {
        return Ok(());
    };
    let keep = millis(keep);
    let mut names = match zk.children(newest.bucket.as_str()).await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(()),
        names => names?,
    };
    // From a random place, because there may be more records than are read.
    if names.len() > LOOKED_AT {
        let first = random::index(random::fraction(zk), names.len());
        names.rotate_left(first);
        names.truncate(LOOKED_AT);
    }
    let paths: Vec<_> = names.iter().map(|name| child(&newest.bucket, name)).collect();
    let reads = paths.iter().fold(zk.multi_read(), |reads, path| reads.get_data(path.as_str()));
    let mut old = Vec::new();
    for (path, read) in paths.iter().zip(reads.await?) {
        match read.map(|value| value.into_data()) {
            Ok(Some((_, stat))) if now.saturating_sub(stat.ctime) > keep => {
                old.push((path, stat.version));
            }
            _ => {}
        }
    }
    for some in old.chunks(DELETED_AT_ONCE) {
        let deletes = some.iter().fold(zk.transaction(), |deletes, (path, version)| {
            deletes.with(DeleteOp::new(path.as_str()).version(*version))
        });
        match deletes.commit().await {
            // Another process cleans the same bucket.
            Err(error) if matches!(error.kind(), ErrorKind::TransactionFailed { .. }) => {
                return Ok(());
            }
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_is_written() {
        for change in [CounterChange { pre: -3, post: i64::MAX }, CounterChange { pre: 0, post: 0 }]
        {
            assert_eq!(decode(&encode(change)), Some(change));
        }
        assert_eq!(decode(b"1"), None);
        assert_eq!(decode(b"1 x"), None);
    }
}
