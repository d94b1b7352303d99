use std::time::Duration;

use crate::queue::jobs::JobPhase;
use crate::two_phase::{Form, Outcome, SiteState};

/// The facts of a [`Finding`](super::Finding) that only recipes of its kind have.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Details {
    /// There are none.
    #[default]
    None,
    /// Of a semaphore.
    Semaphore {
        /// The maximum number of leases, if the nodes tell. Curator and this crate do not store it.
        limit: Option<u32>,
    },
    /// Of a lease with an end.
    TimedLease {
        /// The data of its node `lease_holder`, which is JSON; `None` if nobody has taken it.
        lease: Option<String>,
    },
    /// Of a double barrier.
    DoubleBarrier {
        /// `true` if a round has begun and is not over: the node `ready` exists.
        has_begun: bool,
        /// The names of the members of the round that have left it or died, if `ready` lists its
        /// members.
        gone: Vec<String>,
    },
    /// Of a queue.
    Queue {
        /// The number of items that were listed, claimed or not.
        items: usize,
        /// The number of claimed items.
        claimed: usize,
        /// The number of deliveries of the first item before it came to its place, if its name
        /// tells.
        first_deliveries: Option<u32>,
    },
    /// Of jobs.
    Jobs {
        /// The number of jobs that were listed in each state.
        counts: Vec<(JobPhase, usize)>,
    },
    /// Of a two-phase commit.
    TwoPhaseCommit {
        /// The form of the protocol.
        form: Form,
        /// The decision; `None` if none is recorded.
        outcome: Option<Outcome>,
        /// The time for which votes are awaited.
        deadline: Duration,
        /// The states of the sites, in the order of the coordinator.
        sites: Vec<(String, SiteState)>,
    },
    /// Of a configuration store.
    ConfigStore {
        /// The number of updates since the store was made, if the node was read.
        updates: Option<i32>,
        /// The keys, sorted.
        keys: Vec<String>,
    },
    /// Of a set of migrations.
    Migrations {
        /// The number of applied migrations.
        applied: usize,
    },
    /// Of a mutex or a read/write lock in which nodes of Curator and of kazoo contend.
    ///
    /// They exclude each other only if the clients of one side are set up for the names of the
    /// other.
    MixedLock,
}
