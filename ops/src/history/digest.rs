//! The digest of a node, as ZooKeeper 3.6 to 3.9 compute it (`DigestCalculator`, version 2).

use flate2::Crc;

use super::stat::StoredStat;
use crate::path::{SYSTEM, is_within};

/// Returns the digest of a node: the CRC-32 of its path, its data and its metadata. The path of the
/// root is empty. The digest of a tree is the sum of the digests of its nodes, modulo 2^64.
///
/// Nodes below `/zookeeper` have the digest zero, because each server changes the statistics of
/// quotas by itself.
pub(super) fn node_digest(path: &str, data: Option<&[u8]>, stat: &StoredStat) -> u32 {
    if path != SYSTEM && is_within(path, SYSTEM) {
        return 0;
    }
    let mut bytes = [0; StoredStat::LENGTH];
    let (times, rest) = bytes.split_at_mut(40);
    let (versions, owner) = rest.split_at_mut(12);
    let times = times.chunks_exact_mut(8);
    for (field, value) in times.zip([stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime]) {
        field.copy_from_slice(&value.to_be_bytes());
    }
    let versions = versions.chunks_exact_mut(4);
    for (field, value) in versions.zip([stat.version, stat.cversion, stat.aversion]) {
        field.copy_from_slice(&value.to_be_bytes());
    }
    owner.copy_from_slice(&stat.ephemeral_owner.to_be_bytes());
    let mut crc = Crc::new();
    crc.update(path.as_bytes());
    crc.update(data.unwrap_or_default());
    crc.update(&bytes);
    crc.sum()
}
