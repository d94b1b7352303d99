//! For those who run workloads elsewhere than in simulated time: on real servers, with clients in processes of their own.
//!
//! Such a host makes a [`Client`](crate::Client) of [`ClientParts`](crate::ClientParts) in each process, gives it a
//! [`Run::remote`](crate::Run::remote) whose [`Remote`] tells the history to whoever judges it, and learns from
//! [`Sim::subject`](crate::Sim::subject) what to run, what to create before, what may be left, and what to check.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::checkers::Checker;
use crate::client::Workload;
use crate::history::{Event, Mode, Name, Who};

pub use crate::seed::of as seed_of;

/// The rest of a run, for a client in a process of its own.
pub trait Remote: Send + Sync {
    /// Writes down what happens now.
    fn record(&self, who: Who, event: Event);

    /// The time, from wherever: the same in all processes.
    fn now(&self) -> Duration;

    /// A number that nobody else has in this run, higher than those before.
    fn number(&self) -> u64;

    /// Uses a resource: [`FencedResource::use_as`](crate::FencedResource::use_as).
    fn use_resource(&self, resource: &Name, mode: Mode, hold: u64, token: i64) -> Answered;
}

/// What became of the use of a resource.
pub type Answered = Pin<Box<dyn Future<Output = Event> + Send>>;

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
