//! Quotas: the counts below `/zookeeper/quota`, and the limits.
//!
//! A quota on `/a` is a pair of nodes, `/zookeeper/quota/a/zookeeper_limits` and
//! `…/zookeeper_stats`. The server writes the second one whenever something below `/a` changes,
//! without a trace in its stat.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_curator_proto::ErrorCode;

use super::node::length;
use super::path;
use super::store::Tree;

const ROOT: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// The effect of a write on the counts. It is counted when the whole transaction has succeeded.
#[derive(Debug)]
pub(super) struct Usage {
    pub(super) path: Arc<str>,
    pub(super) bytes: i64,
    pub(super) nodes: i64,
}

impl Tree {
    /// Returns `true` if writes to `path` have to be counted.
    pub(super) fn counts(&self, path: &str) -> bool {
        !self.quotas.is_empty() || path.starts_with(ROOT)
    }

    /// Counts the effects of a transaction.
    pub(super) fn count_usages(&mut self, usages: &[Usage]) {
        let mut begun = Vec::new();
        for usage in usages {
            match quota_node(&usage.path) {
                Some((limited, LIMITS)) if usage.nodes > 0 => {
                    self.quotas.insert(limited.to_owned());
                }
                Some((limited, LIMITS)) if usage.nodes < 0 => {
                    self.quotas.remove(limited);
                }
                Some((limited, STATS)) if usage.nodes > 0 => begun.push(limited.to_owned()),
                _ => {}
            }
            if let Some(limited) = self.limited(&usage.path).map(str::to_owned) {
                let mut stats = self.numbers(&limited, STATS).unwrap_or_default();
                stats.add("count", usage.nodes);
                stats.add("bytes", usage.bytes);
                self.write_stats(&limited, &stats);
            }
        }
        for limited in begun {
            let mut stats = Numbers::default();
            let (nodes, bytes) = self.usage_below(&limited);
            stats.set("count", nodes);
            stats.set("bytes", bytes);
            self.write_stats(&limited, &stats);
        }
    }

    /// Refuses a write that would exceed a hard limit.
    pub(super) fn check_quota(&self, path: &str, bytes: i64, nodes: i64) -> Result<(), ErrorCode> {
        if !self.enforces_quotas {
            return Ok(());
        }
        let Some(limited) = self.limited(path) else { return Ok(()) };
        let (Some(limits), Some(stats)) =
            (self.numbers(limited, LIMITS), self.numbers(limited, STATS))
        else {
            return Ok(());
        };
        let over = |more: i64, current: &str, limit: &str| {
            more != 0
                && limits.get(limit) > -1
                && stats.get(current).saturating_add(more) > limits.get(limit)
        };
        if over(nodes, "count", "countHardLimit") || over(bytes, "bytes", "byteHardLimit") {
            return Err(ErrorCode::QuotaExceeded);
        }
        Ok(())
    }

    /// Returns the nearest node with a quota, at or above `path`.
    fn limited<'a>(&self, path: &'a str) -> Option<&'a str> {
        let mut above = path;
        while above != "/" && !self.quotas.is_empty() {
            if self.quotas.contains(above) {
                return Some(above);
            }
            above = path::parent(above);
        }
        None
    }

    fn numbers(&self, limited: &str, name: &str) -> Option<Numbers> {
        let data = self.get(&format!("{ROOT}{limited}/{name}"))?.data();
        Some(Numbers::parse(data.unwrap_or_default()))
    }

    fn write_stats(&mut self, limited: &str, stats: &Numbers) {
        if let Ok(node) = self.node_mut(&format!("{ROOT}{limited}/{STATS}")) {
            node.data = Some(stats.to_string().into_bytes().into());
        }
    }

    /// Returns the number of nodes at and below `path`, and the number of their bytes.
    fn usage_below(&self, path: &str) -> (i64, i64) {
        let nodes = self.get(path).into_iter().flat_map(|node| node.walk(path));
        nodes.fold((0, 0), |(nodes, bytes), (_, node)| (nodes + 1, bytes + length(node.data())))
    }
}

/// Returns the node that these limits apply to; `None` if the path is not one of limits.
pub(super) fn limited_by(path: &str) -> Option<&str> {
    quota_node(path).filter(|(_, name)| *name == LIMITS).map(|(limited, _)| limited)
}

/// Returns the node of a quota node, and the name of the quota node.
fn quota_node(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix(ROOT)?.rsplit_once('/')
}

/// The data of a quota node: names and numbers.
#[derive(Debug, Default)]
struct Numbers {
    by_name: BTreeMap<String, i64>,
}

impl Numbers {
    /// Parses the data, and ignores parts that are not a name and a number. The process of Apache
    /// ZooKeeper ends on them.
    fn parse(data: &[u8]) -> Self {
        let text = String::from_utf8_lossy(data);
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.trim_end_matches('=').parse().unwrap_or(-1)))
        };
        Self { by_name: text.split([',', ';']).filter_map(pair).collect() }
    }

    fn get(&self, name: &str) -> i64 {
        self.by_name.get(name).copied().unwrap_or(-1)
    }

    fn set(&mut self, name: &str, value: i64) {
        self.by_name.insert(name.to_owned(), value);
    }

    fn add(&mut self, name: &str, more: i64) {
        self.set(name, self.get(name) + more);
    }
}

/// Prints count and bytes first. Another equals sign hides the rest from old parsers.
impl std::fmt::Display for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "count={},bytes={}", self.get("count"), self.get("bytes"))?;
        let others =
            self.by_name.iter().filter(|(name, _)| !matches!(name.as_str(), "count" | "bytes"));
        for (index, (name, value)) in others.enumerate() {
            let hide = if index == 0 { "=" } else { "" };
            write!(f, "{hide};{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zk_curator_proto::records::{Acl, CreateRequest, DeleteRequest, MultiOp, SetDataRequest};

    use super::super::txn::Txn;
    use super::*;
    use crate::config::Config;

    const TXN: Txn<'static> = Txn { session: 1, identities: &[], zxid: 1, time: 0 };

    fn create(path: &str, data: &'static str) -> MultiOp {
        let data = Some(Bytes::from_static(data.as_bytes()));
        MultiOp::Create(CreateRequest {
            path: path.into(),
            data,
            acl: Acl::open_unsafe(),
            flags: 0,
        })
    }

    fn set(path: &str, data: &'static str) -> MultiOp {
        let data = Some(Bytes::from_static(data.as_bytes()));
        MultiOp::SetData(SetDataRequest { path: path.into(), data, version: -1 })
    }

    fn delete(path: &str) -> MultiOp {
        MultiOp::Delete(DeleteRequest { path: path.into(), version: -1 })
    }

    /// Creates a tree with a quota on `/a`, which already has a child.
    fn limited(enforce_quotas: bool, limits: &'static str) -> Tree {
        let mut tree = Tree::new(&Config { enforce_quotas, ..Config::DEFAULT });
        for (path, data) in [
            ("/a", "12"),
            ("/a/b", "345"),
            ("/zookeeper/quota/a", ""),
            ("/zookeeper/quota/a/zookeeper_limits", limits),
            ("/zookeeper/quota/a/zookeeper_stats", ""),
        ] {
            tree.apply(create(path, data), TXN).unwrap();
        }
        tree
    }

    fn stats(tree: &Tree) -> String {
        let node = tree.get("/zookeeper/quota/a/zookeeper_stats").unwrap();
        String::from_utf8(node.data().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn nodes_and_bytes_are_counted() {
        let mut tree = limited(false, "count=1,bytes=1");
        assert_eq!(stats(&tree), "count=2,bytes=5");
        tree.apply(create("/a/c", "6789"), TXN).unwrap();
        tree.apply(set("/a", ""), TXN).unwrap();
        tree.apply(create("/ab", "elsewhere"), TXN).unwrap();
        assert_eq!(stats(&tree), "count=3,bytes=7");
        tree.apply(delete("/a/b"), TXN).unwrap();
        assert_eq!(stats(&tree), "count=2,bytes=4");
        tree.apply_multi(vec![create("/a/d", "1"), delete("/none")], TXN).unwrap();
        assert_eq!(stats(&tree), "count=2,bytes=4", "nothing of a failed multi");
        tree.apply_multi(vec![create("/a/d", "1"), delete("/a/c")], TXN).unwrap();
        assert_eq!(stats(&tree), "count=2,bytes=1");
        tree.apply(delete("/zookeeper/quota/a/zookeeper_limits"), TXN).unwrap();
        tree.apply(delete("/a/d"), TXN).unwrap();
        assert_eq!(stats(&tree), "count=2,bytes=1", "no quota any more");
    }

    #[test]
    fn hard_limits_are_enforced_on_request() {
        let limits = "count=-1,bytes=-1=;byteHardLimit=8;countHardLimit=3";
        let mut lenient = limited(false, limits);
        lenient.apply(set("/a", "far too many bytes"), TXN).unwrap();
        let mut tree = limited(true, limits);
        let exceeded = |result: Result<_, ErrorCode>| {
            result.map(|_: (_, _)| ()) == Err(ErrorCode::QuotaExceeded)
        };
        assert!(exceeded(tree.apply(create("/a/c", "1234"), TXN)));
        tree.apply(create("/a/c", "123"), TXN).unwrap();
        assert!(exceeded(tree.apply(create("/a/d", ""), TXN)));
        assert!(exceeded(tree.apply(set("/a/c", "1234"), TXN)));
        tree.apply(set("/a/c", "12"), TXN).unwrap();
        assert_eq!(stats(&tree), "count=3,bytes=7");
    }
}
