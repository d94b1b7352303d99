//! Reads quotas: limits of subtrees, in nodes of the servers below `/zookeeper/quota`.
//!
//! ```
//! use zk_curator_ops::tree::quota;
//!
//! assert_eq!(quota::limits_path("/app"), "/zookeeper/quota/app/zookeeper_limits");
//! let [nodes, bytes] = quota::usage(b"count=5,bytes=-1", b"count=3,bytes=120");
//! assert_eq!((nodes.used, nodes.limit), (Some(3), Some(5)));
//! assert_eq!((bytes.used, bytes.limit), (Some(120), None));
//! ```

use std::collections::BTreeMap;

/// The node of the servers with the quotas.
pub const ROOT: &str = "/zookeeper/quota";

/// A limit of a subtree, and how much of it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaUsage {
    /// `nodes` or `bytes`.
    pub of: &'static str,
    /// The present number, if the server says it.
    pub used: Option<i64>,
    /// The limit above which servers log a warning, if there is one.
    pub limit: Option<i64>,
    /// The limit above which servers with `enforceQuota` refuse writes, if there is one.
    pub hard_limit: Option<i64>,
}

/// Returns the path of the node with the limits of a subtree. `path` is that on the servers,
/// without a namespace and a chroot.
#[must_use]
pub fn limits_path(path: &str) -> String {
    format!("{ROOT}{path}/zookeeper_limits")
}

/// Returns the path of the node with the present numbers of a subtree.
#[must_use]
pub fn stats_path(path: &str) -> String {
    format!("{ROOT}{path}/zookeeper_stats")
}

/// Returns the limits of nodes and of bytes, from the data of both nodes of a quota.
#[must_use]
pub fn usage(limits: &[u8], stats: &[u8]) -> [QuotaUsage; 2] {
    let (limits, stats) = (numbers(limits), numbers(stats));
    // Negative numbers stand for none.
    let number = |numbers: &BTreeMap<String, i64>, key: &str| {
        numbers.get(key).copied().filter(|number| *number >= 0)
    };
    [("nodes", "count", "countHardLimit"), ("bytes", "bytes", "byteHardLimit")].map(
        |(of, key, hard)| QuotaUsage {
            of,
            used: number(&stats, key),
            limit: number(&limits, key),
            hard_limit: number(&limits, hard),
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
    }
}
