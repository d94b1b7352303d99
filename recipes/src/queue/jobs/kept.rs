//! The nodes that the end of an attempt creates, each in a bucket that may not exist.
//!
//! The results of jobs are kept in buckets by their ids, so that no listing grows with their
//! number. See `docs/decisions/queue-buckets.md`.

use bytes::Bytes;
use zk_curator::op::Transaction;
use zk_curator::{Error, ErrorCode, ErrorKind};

use super::places::{JobEnd, Places};
use super::record::FailedJobRecord;
use crate::path::bucket_of;
use crate::queue::produce::buckets;
use crate::queue::wire::name::{ItemMeta, NamingRules};

/// The number of buckets: a million ids of 36 bytes are listings of 40 KB.
const BUCKETS: u32 = 1024;
/// The prefix of the names of buckets, with which no id begins.
const BUCKET: &str = "b|";

/// Returns the name of the kept result of a job, with the name of its bucket.
pub(super) fn name(id: &str) -> String {
    format!("{BUCKET}{:03x}/{id}", bucket_of(id, BUCKETS))
}

/// Returns the path of the kept result of a job that has ended in this way.
pub(super) fn path(places: &Places, end: JobEnd, id: &str) -> String {
    places.of(end.directory(), &name(id))
}

/// Returns `true` if a child of the directory of an end is a bucket.
pub(super) fn is_bucket(name: &str) -> bool {
    name.starts_with(BUCKET)
}

/// Returns the id in the name of a kept result.
pub(super) fn id_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A node that is created when an attempt ends.
#[derive(Debug)]
pub(super) struct KeptNode {
    path: String,
    data: Bytes,
    place: KeptPlace,
}

/// The place where a node is created. Its bucket may not exist yet, or may have been deleted
/// because it was empty.
#[derive(Debug)]
enum KeptPlace {
    /// A job that becomes pending again.
    Pending { is_bucket_gone: bool },
    /// A job that becomes pending later; not in a bucket.
    Later,
    /// The kept result of a job that has ended.
    Kept { end: JobEnd, is_bucket_gone: bool },
}

impl KeptNode {
    /// Returns the place of a job that becomes pending again, by its name.
    pub(super) fn pending(places: &Places, name: &str) -> Self {
        let path = places.of("pending", name);
        Self { path, data: Bytes::new(), place: KeptPlace::Pending { is_bucket_gone: false } }
    }

    /// Returns the node of a job that becomes pending later.
    pub(super) fn later(path: String, data: impl Into<Bytes>) -> Self {
        Self { path, data: data.into(), place: KeptPlace::Later }
    }

    /// The kept result of a job.
    pub(super) fn kept(places: &Places, end: JobEnd, id: &str, data: impl Into<Bytes>) -> Self {
        Self {
            path: path(places, end, id),
            data: data.into(),
            place: KeptPlace::Kept { end, is_bucket_gone: false },
        }
    }

    /// Returns `true` if the job has failed permanently.
    pub(super) fn is_failure(&self) -> bool {
        matches!(self.place, KeptPlace::Kept { end: JobEnd::Failed, .. })
    }

    /// Returns the next state of a job after an unsuccessful attempt.
    pub(super) fn after_attempt(
        places: &Places,
        name: &str,
        why: &str,
        max_attempts: Option<u32>,
    ) -> Self {
        let meta = NamingRules::Job
            .meta(name)
            .filter(|meta| max_attempts.is_some_and(|max| meta.times >= max));
        let Some(ItemMeta { id, times, priority }) = meta else {
            return Self::pending(places, name);
        };
        let failed = FailedJobRecord { attempts: times, priority, why: why.to_owned() };
        Self::kept(places, JobEnd::Failed, id, failed.encode())
    }

    /// Adds the creation to a transaction.
    pub(super) fn create(&self, transaction: Transaction) -> Transaction {
        let transaction = match self.place {
            KeptPlace::Pending { is_bucket_gone } => {
                return buckets::put_back(transaction, &self.path, is_bucket_gone);
            }
            KeptPlace::Kept { is_bucket_gone: true, .. } => transaction.create(self.parent(), ""),
            KeptPlace::Kept { .. } | KeptPlace::Later => transaction,
        };
        transaction.create(&self.path, self.data.clone())
    }

    /// Corrects the state of the bucket, if a transaction was refused because of it. Returns `true`
    /// if it was.
    pub(super) async fn correct(&mut self, places: &Places, error: &Error) -> Result<bool, Error> {
        let ErrorKind::TransactionFailed { code, .. } = error.kind() else { return Ok(false) };
        let is_missing = code == ErrorCode::NoNode && error.path() == self.path;
        let was_made = code == ErrorCode::NodeExists && error.path() == self.parent();
        match &mut self.place {
            KeptPlace::Later if is_missing => places.prepare().await?,
            KeptPlace::Pending { is_bucket_gone } | KeptPlace::Kept { is_bucket_gone, .. }
                if if *is_bucket_gone { was_made } else { is_missing } =>
            {
                *is_bucket_gone = !*is_bucket_gone;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(parent, _)| parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All clients must put a result into the same bucket.
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
        assert!(
            counts.iter().all(|count| (800..1200).contains(count) && count * 40 < 1 << 16),
            "{counts:?}"
        );
        assert!(is_bucket(&name("a")) && !is_bucket("b-100000000|0000000000"));
    }
}
