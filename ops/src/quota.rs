//! Quotas of subtrees, as ZooKeeper stores them: in two nodes below `/zookeeper/quota`.
//!
//! ```
//! use zk_curator_ops::quota;
//!
//! assert_eq!(quota::limits_node("/a"), "/zookeeper/quota/a/zookeeper_limits");
//! let [nodes, bytes] = quota::lines(b"count=5,bytes=-1=;countHardLimit=7", b"count=3,bytes=120");
//! assert_eq!((nodes.used, nodes.limit, nodes.hard_limit), (Some(3), Some(5), Some(7)));
//! assert_eq!((bytes.used, bytes.limit, bytes.hard_limit), (Some(120), None, None));
//! ```

use std::collections::BTreeMap;

use zk_curator::{CuratorFramework, Error};

use crate::path::SYSTEM;

/// Returns a handle for the nodes of quotas, which are outside of every namespace. `None` with a
/// chroot, because they are above it.
///
/// # Errors
/// Those of [`using_namespace`](CuratorFramework::using_namespace).
pub fn handle(zk: &CuratorFramework) -> Result<Option<CuratorFramework>, Error> {
    let root = zk.using_namespace("")?;
    let has_chroot = root.server_path("/") != "/";
    Ok((!has_chroot).then_some(root))
}

/// Returns the node of the quota of a node. Both are paths on the servers: with the chroot and the
/// namespace.
#[must_use]
pub fn node(on_server: &str) -> String {
    format!("{SYSTEM}/quota{on_server}")
}

/// Returns the node of the limits of a node.
#[must_use]
pub fn limits_node(on_server: &str) -> String {
    format!("{}/zookeeper_limits", node(on_server))
}

/// Returns the node of the statistics of a node.
#[must_use]
pub fn stats_node(on_server: &str) -> String {
    format!("{}/zookeeper_stats", node(on_server))
}

/// A limit of a subtree, and how much of it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QuotaLine {
    /// `nodes` or `bytes`.
    pub of: &'static str,
    /// The present number; `None` if the server does not say.
    pub used: Option<i64>,
    /// The limit above which servers log a warning.
    pub limit: Option<i64>,
    /// The limit above which servers with `enforceQuota` refuse writes.
    pub hard_limit: Option<i64>,
}

/// Returns the lines for nodes and for bytes, from the data of the limits and of the statistics.
#[must_use]
pub fn lines(limits: &[u8], stats: &[u8]) -> [QuotaLine; 2] {
    let (limits, stats) = (numbers(limits), numbers(stats));
    let of = |numbers: &BTreeMap<String, i64>, key| {
        numbers.get(key).copied().filter(|number| *number >= 0)
    };
    [("nodes", "count", "countHardLimit"), ("bytes", "bytes", "byteHardLimit")].map(
        |(name, key, hard)| QuotaLine {
            of: name,
            used: of(&stats, key),
            limit: of(&limits, key),
            hard_limit: of(&limits, hard),
        },
    )
}

/// Parses `count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=7`. Other parts are skipped.
#[must_use]
pub fn numbers(data: &[u8]) -> BTreeMap<String, i64> {
    let text = String::from_utf8_lossy(data);
    let part = |part: &str| {
        let (key, number) = part.split_once('=')?;
        Some((key.trim().to_owned(), number.trim_end_matches('=').trim().parse().ok()?))
    };
    text.split([',', ';']).filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_quota() {
        let quota = numbers(b"count=5,bytes=-1=;countHardLimit=7;x;byteHardLimit=y");
        assert_eq!(quota.get("count"), Some(&5));
        assert_eq!(quota.get("bytes"), Some(&-1));
        assert_eq!(quota.get("countHardLimit"), Some(&7));
        assert_eq!(quota.get("byteHardLimit"), None);
        assert_eq!(lines(b"\xff=x", b"")[0].used, None);
    }
}
