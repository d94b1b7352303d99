//! The scenarios with a workload: what `zk-sim` runs, and what runs on a real ensemble.
//!
//! # Adding one
//! 1. A file here with one `pub(super) const SCENARIO: Scenario`, its workload, and what it is judged by:
//!    ```
//!    use std::sync::Arc;
//!
//!    use zk_curator_recipes::lock::InterProcessMutex;
//!    use zk_curator_sim::checkers::Exclusion;
//!    use zk_curator_sim::history::{Event, Mode, Name};
//!    use zk_curator_sim::{Client, Failure, Scenario, Sim};
//!
//!    const SCENARIO: Scenario = Scenario::new("mutex", "one holder at a time", |client| Box::pin(work(client)))
//!        .checked_by(|| vec![Arc::new(Exclusion::mutual())]);
//!
//!    async fn work(client: Client) -> Result<(), Failure> {
//!        let lock = InterProcessMutex::new(&client.connect().await?, "/locks/orders");
//!        let orders = Name::from("orders");
//!        while client.next_round().is_some() {
//!            let hold = client.unique();
//!            client.record(Event::Acquiring { resource: orders.clone(), mode: Mode::Exclusive, hold });
//!            let Some(Ok(guard)) = client.maybe_cancel(lock.acquire()).await else {
//!                client.record(Event::Missed { hold });
//!                continue;
//!            };
//!            let token = guard.fencing_token();
//!            let (resource, mode) = (orders.clone(), Mode::Exclusive);
//!            client.record(Event::Acquired { resource, mode, hold, token: token.get() });
//!            client.use_resource(&orders, mode, hold, token).await;
//!            client.record(Event::Releasing { hold });
//!            drop(guard);
//!        }
//!        Ok(())
//!    }
//!    # let outcome = Sim::seed(1).rounds(2).scenario(&SCENARIO).run();
//!    # assert_eq!(outcome.violation, None, "{}", outcome.history);
//!    ```
//! 2. Its line in [`ALL`], in the order of the alphabet.
//! 3. `zk-sim --scenario NAME --seeds 0..10000`.
//!
//! Nodes that are there from the start and may stay are declared with [`Scenario::nodes`], nodes that the workload may
//! leave with [`Scenario::leaves`]; one that takes longer than others to come to its end once all faults are over says so
//! with [`Scenario::patience`].

mod barrier;
mod cache;
mod calling;
mod config;
mod counter;
mod counter_once;
mod counter_shared;
mod double_barrier;
mod election;
mod exclusive;
mod farewell;
mod group;
mod handover;
mod hoarding;
mod holding;
mod id_blocks;
mod jobs;
mod leader_latch;
mod leader_selector;
mod leading;
mod locking_queue;
mod long_answers;
mod multi;
mod mutex;
mod name;
mod once_per;
mod owned;
mod persistent_node;
mod queue;
mod read_write;
mod reentrant;
mod removed_waiter;
mod revocable;
mod semaphore;
mod semaphore_mutex;
mod shared_value;
mod two_phase;
mod two_phase_leaving;
mod two_phase_reused;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::checkers::Checker;
use super::client::{Client, Running};
use super::{Sim, Workload};

/// All of them, also those that [go wrong on purpose](Scenario::is_demonstration).
pub const ALL: &[Scenario] = &[
    barrier::SCENARIO,
    queue::BOUNDED,
    cache::SCENARIO,
    config::SCENARIO,
    counter::SCENARIO,
    counter_shared::COMBINED,
    counter_once::COUNTED,
    counter_shared::PROMOTED,
    counter::WITHOUT_RECEIPTS,
    queue::DEAD_LETTERS,
    queue::DELAY,
    double_barrier::SCENARIO,
    election::SCENARIO,
    queue::EXACTLY_ONCE,
    farewell::SCENARIO,
    queue::FIFO,
    queue::FIFO_TWO_PHASE,
    group::SCENARIO,
    handover::SCENARIO,
    hoarding::SCENARIO,
    id_blocks::SCENARIO,
    queue::IDENTIFIED,
    jobs::SCENARIO,
    counter_once::LATCH,
    leader_latch::SCENARIO,
    leader_selector::SCENARIO,
    locking_queue::SCENARIO,
    long_answers::SCENARIO,
    multi::SCENARIO,
    mutex::SCENARIO,
    mutex::FENCED,
    mutex::UNFENCED,
    name::SCENARIO,
    once_per::AT_MOST,
    once_per::AT_LEAST,
    owned::SCENARIO,
    persistent_node::SCENARIO,
    queue::PRIORITY,
    queue::PLAIN,
    queue::TAKER,
    read_write::SCENARIO,
    reentrant::SCENARIO,
    revocable::SCENARIO,
    removed_waiter::SCENARIO,
    semaphore::SCENARIO,
    semaphore_mutex::SCENARIO,
    semaphore::LIMITED,
    shared_value::SCENARIO,
    queue::SIMPLE,
    two_phase::SCENARIO,
    two_phase_leaving::SCENARIO,
    two_phase_reused::SCENARIO,
];

/// The one with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// A workload with all that belongs to it.
#[derive(Clone, Copy)]
pub struct Scenario {
    name: &'static str,
    about: &'static str,
    workload: fn(Client) -> Running,
    checkers: fn() -> Vec<Arc<dyn Checker>>,
    nodes: &'static [&'static str],
    leaves: &'static [&'static str],
    sequences: &'static [&'static str],
    operated: &'static [&'static str],
    settled: &'static [(&'static str, &'static str)],
    common: &'static [&'static str],
    journal: &'static [&'static str],
    releases: bool,
    crowd: bool,
    patience: Option<Duration>,
    demonstrates: bool,
}

impl Scenario {
    /// A workload with its name, as on the command line of `zk-sim`, and a line about it. It is judged by nothing but what
    /// is wrong with every run.
    pub const fn new(name: &'static str, about: &'static str, workload: fn(Client) -> Running) -> Self {
        Self {
            name,
            about,
            workload,
            checkers: Vec::new,
            nodes: &[],
            leaves: &[],
            sequences: &[],
            operated: &[],
            settled: &[],
            common: &[],
            journal: &[],
            releases: false,
            crowd: false,
            patience: None,
            demonstrates: false,
        }
    }

    /// What its histories are judged by.
    #[must_use]
    pub const fn checked_by(mut self, checkers: fn() -> Vec<Arc<dyn Checker>>) -> Self {
        self.checkers = checkers;
        self
    }

    /// [`Sim::nodes`].
    #[must_use]
    pub const fn nodes(mut self, paths: &'static [&'static str]) -> Self {
        self.nodes = paths;
        self
    }

    /// [`Sim::leaves`].
    #[must_use]
    pub const fn leaves(mut self, patterns: &'static [&'static str]) -> Self {
        self.leaves = patterns;
        self
    }

    /// [`Sim::sequences`].
    #[must_use]
    pub const fn sequences(mut self, paths: &'static [&'static str]) -> Self {
        self.sequences = paths;
        self
    }

    /// [`Sim::operator`].
    #[must_use]
    pub const fn operator(mut self, patterns: &'static [&'static str]) -> Self {
        self.operated = patterns;
        self
    }

    /// [`Sim::settled`].
    #[must_use]
    pub const fn settled(mut self, claims: &'static [(&'static str, &'static str)]) -> Self {
        self.settled = claims;
        self
    }

    /// [`Sim::common`].
    #[must_use]
    pub const fn common(mut self, patterns: &'static [&'static str]) -> Self {
        self.common = patterns;
        self
    }

    /// [`Sim::journal`].
    #[must_use]
    pub const fn journal(mut self, patterns: &'static [&'static str]) -> Self {
        self.journal = patterns;
        self
    }

    /// [`Sim::releases`].
    #[must_use]
    pub const fn releases(mut self) -> Self {
        self.releases = true;
        self
    }

    /// [`Sim::crowd`].
    #[must_use]
    pub const fn crowd(mut self) -> Self {
        self.crowd = true;
        self
    }

    /// [`Sim::patience_after_faults`].
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Makes it one that goes wrong, to show what it is that goes wrong: it is run only when it is asked for by its name.
    #[must_use]
    pub const fn demonstration(mut self) -> Self {
        self.demonstrates = true;
        self
    }

    /// Whether it goes wrong on purpose.
    #[must_use]
    pub const fn is_demonstration(&self) -> bool {
        self.demonstrates
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// A line about it.
    #[must_use]
    pub const fn about(&self) -> &'static str {
        self.about
    }

    /// What each client does.
    pub fn workload(&self) -> Workload {
        Workload::new(self.workload)
    }

    /// What its histories are judged by.
    #[must_use]
    pub fn checkers(&self) -> Vec<Arc<dyn Checker>> {
        (self.checkers)()
    }

    /// The nodes that are there from the start.
    #[must_use]
    pub const fn initial_nodes(&self) -> &'static [&'static str] {
        self.nodes
    }

    pub(super) fn set_up(&self, mut sim: Sim) -> Sim {
        sim.checkers.extend(self.checkers());
        sim.workload = self.workload();
        sim.patience = self.patience.or(sim.patience);
        let sim = if self.crowd { sim.crowd() } else { sim };
        let sim = if self.releases { sim.releases() } else { sim };
        sim.nodes(self.nodes.iter().copied())
            .leaves(self.leaves.iter().copied())
            .sequences(self.sequences.iter().copied())
            .operator(self.operated.iter().copied())
            .settled(self.settled.iter().copied())
            .common(self.common.iter().copied())
            .journal(self.journal.iter().copied())
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}
