//! The digests of the tree, computed and recorded.

use std::collections::BTreeMap;

use super::records::{DIGEST_VERSION, TreeDigest};
#[cfg(feature = "serde")]
use super::serial;

/// The maximum number of mismatches that are listed.
const LISTED: usize = 100;

/// The comparison of the digests that servers recorded with those of the replayed tree.
///
/// A server records the digest of its tree with each transaction, and at the end of a snapshot
/// (ZooKeeper 3.6 and later). Nodes below `/zookeeper` have no digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DigestReport {
    /// The number of digests that are equal.
    pub matched: u64,
    /// The number of digests that differ.
    pub mismatched: u64,
    /// The first 100 of the digests that differ. Once a transaction was lost or applied wrongly,
    /// all later digests differ.
    pub mismatches: Vec<DigestMismatch>,
    /// The number of digests that differ before the first equal one, if the snapshot does not tell
    /// the end of its fuzzy range. The range explains them. In a [check](super::Check), the range
    /// ends with the next snapshot.
    pub unsettled: u64,
    /// The number of digests with a formula that is unknown here.
    pub unknown_version: u64,
}

/// A recorded digest that differs from the digest of the replayed tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DigestMismatch {
    /// The transaction after which the digests were computed.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::zxid"))]
    pub zxid: i64,
    /// The digest that the server recorded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::digest"))]
    pub recorded: u64,
    /// The digest of the replayed tree.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::digest"))]
    pub computed: u64,
}

/// Compares digests during a replay.
#[derive(Debug)]
pub(super) struct Comparison {
    /// The last transaction of the fuzzy range of the snapshot.
    settled_at: Option<i64>,
    /// A transaction at which an unknown fuzzy range is over.
    pub(super) settled_by: Option<i64>,
    /// The digests in snapshots, by transaction.
    of_snapshots: BTreeMap<i64, TreeDigest>,
    pub(super) report: DigestReport,
}

impl Comparison {
    /// Returns the comparison for a replay that begins with a snapshot whose fuzzy range ends at
    /// `settled_at`, or at an unknown transaction.
    pub(super) fn new(settled_at: Option<i64>, of_snapshots: BTreeMap<i64, TreeDigest>) -> Self {
        Self { settled_at, settled_by: None, of_snapshots, report: DigestReport::default() }
    }

    /// Continues with the tree of a snapshot.
    pub(super) const fn restart(&mut self, settled_at: Option<i64>) {
        (self.settled_at, self.settled_by) = (settled_at, None);
    }

    /// Compares the digest of the tree after a transaction, and those in snapshots.
    pub(super) fn compare(
        &mut self,
        zxid: i64,
        recorded: Option<TreeDigest>,
        computed: Option<u64>,
    ) {
        let Some(computed) = computed else { return };
        if self.settled_at.is_some_and(|settled| zxid < settled) {
            return;
        }
        let of_snapshot = self.of_snapshots.get(&zxid).copied();
        for recorded in recorded.into_iter().chain(of_snapshot) {
            self.compare_one(zxid, recorded, computed);
        }
    }

    fn compare_one(&mut self, zxid: i64, recorded: TreeDigest, computed: u64) {
        let report = &mut self.report;
        if recorded.version != DIGEST_VERSION {
            report.unknown_version += 1;
        } else if recorded.value == computed {
            report.matched += 1;
            self.settled_at = self.settled_at.or(Some(zxid));
        } else if self.settled_at.is_none() && self.settled_by.is_none_or(|by| zxid < by) {
            report.unsettled += 1;
        } else {
            report.mismatched += 1;
            if report.mismatches.len() < LISTED {
                let recorded = recorded.value;
                report.mismatches.push(DigestMismatch { zxid, recorded, computed });
            }
        }
    }
}
