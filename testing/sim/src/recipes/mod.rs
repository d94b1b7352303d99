//! The recipes with a workload: what `zk-sim` runs, and what runs on a real ensemble.
//!
//! # Adding one
//! 1. A file here with one `pub(super) const RECIPE: Recipe`, its workload, and what it is judged by:
//!    ```
//!    use std::sync::Arc;
//!
//!    use zk_curator_recipes::lock::InterProcessMutex;
//!    use zk_curator_sim::checkers::Exclusion;
//!    use zk_curator_sim::history::{Event, Mode, Name};
//!    use zk_curator_sim::{Client, Failure, Recipe, Sim};
//!
//!    const RECIPE: Recipe = Recipe::new("mutex", "one holder at a time", |client| Box::pin(work(client)))
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
//!    # let outcome = Sim::seed(1).rounds(2).recipe(&RECIPE).run();
//!    # assert_eq!(outcome.violation, None, "{}", outcome.history);
//!    ```
//! 2. Its line in [`ALL`], in the order of the alphabet.
//! 3. `zk-sim --recipe NAME --seeds 0..10000`.
//!
//! Nodes that are there from the start and may stay are declared with [`Recipe::nodes`], nodes that the workload may
//! leave with [`Recipe::leaves`]; one that takes longer than others to come to its end once all faults are over says so
//! with [`Recipe::patience`].

mod barrier;
mod config;
mod double_barrier;
mod election;
mod exclusive;
mod farewell;
mod group;
mod handover;
mod hoarding;
mod holding;
mod jobs;
mod leader_latch;
mod leader_selector;
mod leading;
mod locking_queue;
mod long_answers;
mod multi;
mod mutex;
mod name;
mod owned;
mod persistent_node;
mod queue;
mod read_write;
mod reentrant;
mod removed_waiter;
mod revocable;
mod semaphore;
mod semaphore_mutex;
mod two_phase;
mod two_phase_leaving;
mod two_phase_reused;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::checkers::Checker;
use super::client::{Client, Running};
use super::{Sim, Workload};

/// All of them, also those that [go wrong on purpose](Recipe::is_demonstration).
pub const ALL: &[Recipe] = &[
    barrier::RECIPE,
    queue::BOUNDED,
    config::RECIPE,
    queue::DEAD_LETTERS,
    queue::DELAY,
    double_barrier::RECIPE,
    election::RECIPE,
    queue::EXACTLY_ONCE,
    farewell::RECIPE,
    queue::FIFO,
    queue::FIFO_TWO_PHASE,
    group::RECIPE,
    handover::RECIPE,
    hoarding::RECIPE,
    queue::IDENTIFIED,
    jobs::RECIPE,
    leader_latch::RECIPE,
    leader_selector::RECIPE,
    locking_queue::RECIPE,
    long_answers::RECIPE,
    multi::RECIPE,
    mutex::RECIPE,
    mutex::FENCED,
    mutex::UNFENCED,
    name::RECIPE,
    owned::RECIPE,
    persistent_node::RECIPE,
    queue::PRIORITY,
    queue::PLAIN,
    queue::TAKER,
    read_write::RECIPE,
    reentrant::RECIPE,
    revocable::RECIPE,
    removed_waiter::RECIPE,
    semaphore::RECIPE,
    semaphore_mutex::RECIPE,
    queue::SIMPLE,
    two_phase::RECIPE,
    two_phase_leaving::RECIPE,
    two_phase_reused::RECIPE,
];

/// The one with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Recipe> {
    ALL.iter().find(|recipe| recipe.name == name)
}

/// A workload with all that belongs to it.
#[derive(Clone, Copy)]
pub struct Recipe {
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
    crowd: bool,
    patience: Option<Duration>,
    demonstrates: bool,
}

impl Recipe {
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
        sim.nodes(self.nodes.iter().copied())
            .leaves(self.leaves.iter().copied())
            .sequences(self.sequences.iter().copied())
            .operator(self.operated.iter().copied())
            .settled(self.settled.iter().copied())
            .common(self.common.iter().copied())
    }
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipe").field("name", &self.name).finish_non_exhaustive()
    }
}
