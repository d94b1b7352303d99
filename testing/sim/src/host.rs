//! Support for clients that run workloads outside simulated time: on real servers, in processes of
//! their own.
//!
//! A host makes a [`Client`](crate::Client) of [`ClientParts`](crate::ClientParts) in each process,
//! and gives it a [`Run::remote`](crate::Run::remote). The [`Remote`] of that run passes the
//! history to the process that judges it. [`Sim::subject`](crate::Sim::subject) tells the host
//! which workload to run, which nodes to create first, which nodes may be left, and which checkers
//! to use.

use std::sync::Arc;
use std::time::Duration;

use crate::checkers::Checker;
use crate::client::Workload;

pub use crate::remote::{Answered, Remote};
pub use crate::seed::of as seed_of;

/// The parts of a [`Sim`](crate::Sim) without the faults and the simulated servers.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Subject<'a> {
    /// The workload of every client.
    pub workload: &'a Workload,
    /// The checkers of the history.
    pub checkers: &'a [Arc<dyn Checker>],
    /// The nodes to create before the first client starts.
    pub nodes: &'a [String],
    /// The time that the clients may take to finish after the faults, if the run sets it
    /// ([`Sim::patience_after_faults`](crate::Sim::patience_after_faults)).
    pub patience: Option<Duration>,
    /// What clients achieve in many runs ([`Sim::achieves`](crate::Sim::achieves)).
    pub achieves: &'a [&'static str],
    pub(crate) leaves: &'a [String],
}

impl Subject<'_> {
    /// Returns `true` if this node may exist after all clients have ended: the node, or a node
    /// below it, existed from the start, or [`Sim::leaves`](crate::Sim::leaves) allows it.
    #[must_use]
    pub fn may_stay(&self, path: &str) -> bool {
        let given = |node: &String| {
            node.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.nodes.iter().any(given)
            || self.leaves.iter().any(|leaf| zk_curator_testing::rule::path_matches(leaf, path))
    }
}
