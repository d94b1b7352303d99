//! The nodes that the end of an attempt creates, each in a bucket that may not be there.
//!
//! The results of jobs are kept in buckets by their ids, so that no listing grows with their number. See
//! `docs/decisions/queue-buckets.md`.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use zk_curator::op::Transaction;
use zk_curator::{Error, ErrorCode, ErrorKind};

use super::places::{End, Places};
use super::record::Failed;
use crate::path::bucket_of;
use crate::queue::buckets;
use crate::queue::core::name::{ItemMeta, Kind, LAYOUT};

/// The number of buckets: a million ids of 36 bytes are listings of 40 KB.
const BUCKETS: u32 = 1024;
/// The beginning of the names of buckets, which is that of no id.
const BUCKET: &str = "b|";

/// The name of what is kept of a job, with that of its bucket.
pub(super) fn name(id: &str) -> String {
    format!("{BUCKET}{:03x}/{id}", bucket_of(id, BUCKETS))
}

/// The paths at which something may be kept of a job: in a bucket, and where an earlier version has put it.
pub(super) fn paths(places: &Places, end: End, id: &str) -> [String; 2] {
    [name(id), id.to_owned()].map(|name| places.of(end.directory(), &name))
}

/// Whether a child of the directory of an end is a bucket.
pub(super) fn is_bucket(name: &str) -> bool {
    name.starts_with(BUCKET)
}

/// The id in the name of what is kept of a job.
pub(super) fn id_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A node that is created when an attempt ends.
#[derive(Debug)]
pub(super) struct Node {
    path: String,
    data: Bytes,
    /// Of a job that comes to its end.
    end: Option<(End, String)>,
    bucket: Bucket,
    /// Of a job that is delayed.
    is_later: bool,
}

/// The bucket of a node, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bucket {
    There,
    /// It was empty, and deleted; or there was none yet.
    Gone,
    /// There are to be none.
    None,
}

impl Node {
    /// The place of a job that comes back, by its name.
    pub(super) fn pending(places: &Places, name: &str) -> Self {
        let path = places.of("pending", name);
        Self { path, data: Bytes::new(), end: None, bucket: Bucket::There, is_later: false }
    }

    /// The node of a job that comes back later.
    pub(super) fn later(path: String, data: impl Into<Bytes>) -> Self {
        Self { path, data: data.into(), end: None, bucket: Bucket::There, is_later: true }
    }

    /// The kept result of a job.
    pub(super) fn kept(places: &Places, end: End, id: &str, data: impl Into<Bytes>) -> Self {
        let is_flat = places.flat.of(end).load(Ordering::Relaxed) && !places.pending.upgrades_layout();
        let bucket = if is_flat { Bucket::None } else { Bucket::There };
        let path = places.of(end.directory(), &name(id));
        Self { path, data: data.into(), end: Some((end, id.to_owned())), bucket, is_later: false }
    }

    /// Whether the job has failed for good.
    pub(super) fn is_failure(&self) -> bool {
        matches!(self.end, Some((End::Failed, _)))
    }

    /// The next state of the job of an attempt that has ended without success.
    pub(super) fn after_attempt(places: &Places, name: &str, why: &str, max_attempts: Option<u32>) -> Self {
        let meta = Kind::Job.meta(name).filter(|meta| max_attempts.is_some_and(|max| meta.times >= max));
        let Some(ItemMeta { id, times, priority }) = meta else { return Self::pending(places, name) };
        let failed = Failed { attempts: times, priority, why: why.to_owned() };
        Self::kept(places, End::Failed, id, failed.encode())
    }

    /// Adds the creation to a transaction.
    pub(super) fn create(&self, places: &Places, transaction: Transaction) -> Transaction {
        match (&self.end, self.bucket) {
            (None, _) if self.is_later => transaction.create(&self.path, self.data.clone()),
            (None, bucket) => buckets::put_back(transaction, &self.path, bucket == Bucket::Gone),
            (Some(_), Bucket::There) => transaction.create(&self.path, self.data.clone()),
            (Some(_), Bucket::Gone) => {
                transaction.create(self.parent(), "").create(&self.path, self.data.clone())
            }
            (Some((end, id)), Bucket::None) => {
                transaction.create(places.of(end.directory(), id), self.data.clone())
            }
        }
    }

    /// Corrects what is known of the bucket, if a transaction was refused because of it: whether it was.
    pub(super) async fn correct(&mut self, places: &Places, error: &Error) -> Result<bool, Error> {
        let ErrorKind::TransactionFailed { code, .. } = error.kind() else { return Ok(false) };
        if self.is_later {
            let is_missing = code == ErrorCode::NoNode && error.path() == self.path;
            if is_missing {
                places.prepare().await?;
            }
            return Ok(is_missing);
        }
        self.bucket = match (self.bucket, code) {
            (Bucket::There, ErrorCode::NoNode) if error.path() == self.path => match self.end {
                // It is in no bucket.
                None if self.parent() == places.pending.path.as_str() => return Ok(false),
                None => Bucket::Gone,
                Some((end, _)) => has_buckets(places, end).await?,
            },
            (Bucket::Gone, ErrorCode::NodeExists) if error.path() == self.parent() => Bucket::There,
            _ => return Ok(false),
        };
        Ok(true)
    }

    fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(parent, _)| parent)
    }
}

/// Looks whether a directory is to have buckets, and notes it if it is not.
async fn has_buckets(places: &Places, end: End) -> Result<Bucket, Error> {
    let path = places.below(end.directory());
    loop {
        let (data, stat) = match places.zk.get_data(&path).with_stat().await {
            // The transaction says so as well.
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Bucket::Gone),
            read => read?,
        };
        if data == LAYOUT {
            return Ok(Bucket::Gone);
        }
        if !places.pending.upgrades_layout() {
            places.flat.of(end).store(true, Ordering::Relaxed);
            return Ok(Bucket::None);
        }
        match places.zk.set_data(&path, LAYOUT).version(stat.version).idempotent().await {
            Err(error) if !matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => {
                return Err(error);
            }
            // Look again.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients of all versions look for a result where the others have put it.
    #[test]
    fn the_bucket_of_an_id_is_always_the_same() {
        assert_eq!(name("a"), "b|120/a");
        assert_eq!(name("5e0a7c8e-0000-4000-8000-000000000001").len(), 42);
    }

    #[test]
    fn a_million_ids_are_short_listings() {
        let mut counts = vec![0_usize; BUCKETS as usize];
        for id in 0..1_000_000 {
            counts[bucket_of(&format!("5e0a7c8e-0000-4000-8000-{id:012}"), BUCKETS) as usize] += 1;
        }
        // A name of 36 bytes and its length.
        assert!(counts.iter().all(|count| (800..1200).contains(count) && count * 40 < 1 << 16), "{counts:?}");
        assert!(is_bucket(&name("a")) && !is_bucket("b-100000000|0000000000"));
    }
}
