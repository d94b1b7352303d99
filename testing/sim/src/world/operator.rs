//! An operator who deletes nodes.

use zk_curator_testing::TestCluster;
use zk_curator_testing::rule::path_matches;

use super::World;
use crate::history::{Name, Operator, ProcessId};
use crate::shared_run::Run;

/// Deletes nodes that match the patterns of a run.
#[derive(Debug)]
pub(super) struct NodeOperator {
    cluster: TestCluster,
    run: Run,
    patterns: Vec<String>,
}

impl World<'_> {
    pub(super) fn operator(&self) -> NodeOperator {
        let patterns = self.sim.operated.iter().map(|pattern| self.on_server(pattern)).collect();
        NodeOperator { cluster: self.cluster.clone(), run: self.run.clone(), patterns }
    }
}

impl NodeOperator {
    /// Returns the existing nodes that the operator may delete, in alphabetical order.
    pub(super) fn nodes(&self) -> Vec<String> {
        if self.patterns.is_empty() {
            return Vec::new();
        }
        let probe = self.cluster.probe();
        let mut paths = probe.latest().paths();
        paths.retain(|path| self.patterns.iter().any(|pattern| path_matches(pattern, path)));
        // Certain writes assume that nobody deletes a receipt before its first read.
        let is_new_receipt = |path: &str| {
            let is_receipt = path.rsplit('/').next().is_some_and(|name| name.starts_with("_r_"));
            is_receipt && probe.latest().stat(path).is_some_and(|stat| stat.version <= 1)
        };
        paths.retain(|path| !is_new_receipt(path));
        paths.sort_unstable();
        paths
    }

    /// Deletes the node at a place: zero is the first node, `u16::MAX` the last one. Returns `true`
    /// if there is one.
    pub(super) fn delete_at(&self, place: u16) -> bool {
        let paths = self.nodes();
        let path = paths.get(paths.len() * usize::from(place) / (1 << 16));
        path.is_some_and(|path| self.delete(path))
    }

    /// Deletes a node and everything below it. Returns `true` if it was deleted: without a leader,
    /// no node is.
    pub(super) fn delete(&self, path: &str) -> bool {
        let Ok(removed) = self.cluster.remove(path) else { return false };
        let tokens = removed.into_iter().map(|stat| stat.czxid).collect();
        self.run.record(ProcessId::World, Operator::Removed { path: Name::from(path), tokens });
        true
    }
}
