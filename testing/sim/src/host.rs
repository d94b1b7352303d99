//! For those who run workloads elsewhere than in simulated time: on real servers, with clients in processes of their own.
//!
//! Such a host makes a [`Client`](crate::Client) of [`ClientParts`](crate::ClientParts) in each process, gives it a
//! [`Run::remote`](crate::Run::remote) whose [`Remote`] tells the history to whoever judges it, and learns from
//! [`Sim::subject`](crate::Sim::subject) what to run, what to create before, what may be left, and what to check.

use std::sync::Arc;

use crate::checkers::Checker;
use crate::client::Workload;

pub use crate::remote::{Answered, Remote};
pub use crate::seed::of as seed_of;

/// What a [`Sim`](crate::Sim) is about: all of it but the faults and the simulated servers.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Subject<'a> {
    /// What every client does.
    pub workload: &'a Workload,
    /// What judges the history.
    pub checkers: &'a [Arc<dyn Checker>],
    /// The nodes to create before the first client starts.
    pub nodes: &'a [String],
    pub(crate) leaves: &'a [String],
}

impl Subject<'_> {
    /// Whether this node may be there when all clients have ended: it, or a node below it, was given, or
    /// [`Sim::leaves`](crate::Sim::leaves) allows it.
    #[must_use]
    pub fn may_stay(&self, path: &str) -> bool {
        let given = |node: &String| {
            node.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.nodes.iter().any(given)
            || self.leaves.iter().any(|leaf| zk_curator_testing::rule::path_matches(leaf, path))
    }
}
