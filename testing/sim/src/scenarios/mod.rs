//! The scenarios and their workloads, which `zk-sim` and chaos on a real ensemble run.
//!
//! # Adding one
//! 1. A file in this directory with a `pub(super) const SCENARIO: Scenario`, its workload, and its
//!    checkers:
//!    ```
//!    use zk_curator::observe::{Attempt, HoldMode};
//!    use zk_curator_recipes::lock::InterProcessMutex;
//!    use zk_curator_sim::checkers::Exclusion;
//!    use zk_curator_sim::{Client, Failure, Scenario, Sim};
//!
//!    const SCENARIO: Scenario =
//!        Scenario::new("mutex", "one holder at a time", &["acquisitions", "uses"], |sim| {
//!            sim.workload(work).checker(Exclusion::mutual())
//!        });
//!
//!    async fn work(client: Client) -> Result<(), Failure> {
//!        let lock = InterProcessMutex::new(&client.connect().await?, "/locks/orders");
//!        while client.next_round().is_some() {
//!            let attempt = Attempt::begin(&client, "orders", HoldMode::Exclusive);
//!            let Some(Ok(guard)) = client.maybe_cancel(lock.acquire()).await else { continue };
//!            // Declared after the guard, so that it is dropped before the guard.
//!            let held = attempt.acquired(guard.fencing_token());
//!            client.use_resource(&held).await;
//!        }
//!        Ok(())
//!    }
//!    # let outcome = Sim::seed(1).rounds(2).scenario(&SCENARIO).run();
//!    # assert_eq!(outcome.violation, None, "{}", outcome.history);
//!    ```
//! 2. Its line in [`ALL`], in alphabetical order.
//! 3. `zk-sim --scenario NAME --seeds 0..10000`.
//!
//! The list names what the clients achieve: runs in which they achieve none of it prove nothing,
//! and are a failure. Declare nodes that exist from the start, and may stay, with [`Sim::nodes`](crate::Sim::nodes),
//! and nodes that the workload may leave with [`Sim::leaves`](crate::Sim::leaves). If a workload
//! takes longer than others to finish after the last fault, set
//! [`Sim::patience_after_faults`](crate::Sim::patience_after_faults).

mod barrier;
mod cache;
mod config;
mod counter;
mod counter_once;
mod counter_shared;
mod discovery;
mod double_barrier;
mod election;
mod farewell;
mod group;
mod handover;
mod id_blocks;
mod jobs;
mod large_responses;
mod leader_latch;
mod leader_selector;
mod locking_queue;
mod many_claims;
mod migrations;
mod multi;
mod mutex;
mod name;
mod once_per;
mod owned;
mod partitioner;
mod persistent_node;
mod previous_incarnation;
mod queue;
mod read_write;
mod reentrant;
mod removed_waiter;
mod revocable;
mod scenario;
mod semaphore;
mod semaphore_mutex;
mod session_lease;
mod shared_value;
mod stm;
mod support;
mod timed_lease;
mod ttl_node;
mod two_phase;
mod two_phase_leaving;
mod two_phase_reused;
mod typed_cache;

pub use scenario::Scenario;

/// All scenarios, including those that [fail on purpose](Scenario::is_demonstration).
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
    discovery::SCENARIO,
    double_barrier::SCENARIO,
    election::SCENARIO,
    queue::EXACTLY_ONCE,
    farewell::SCENARIO,
    queue::FIFO,
    queue::FIFO_TWO_PHASE,
    group::SCENARIO,
    handover::SCENARIO,
    many_claims::SCENARIO,
    id_blocks::SCENARIO,
    queue::IDENTIFIED,
    jobs::SCENARIO,
    counter_once::LATCH,
    leader_latch::SCENARIO,
    leader_selector::SCENARIO,
    locking_queue::SCENARIO,
    large_responses::SCENARIO,
    migrations::SCENARIO,
    multi::SCENARIO,
    multi::OF_ALL_KINDS,
    timed_lease::MULTI,
    mutex::SCENARIO,
    mutex::FENCED,
    mutex::UNFENCED,
    name::SCENARIO,
    once_per::AT_MOST,
    once_per::AT_LEAST,
    once_per::FORGETS,
    owned::SCENARIO,
    partitioner::SCENARIO,
    persistent_node::SCENARIO,
    previous_incarnation::SCENARIO,
    queue::PRIORITY,
    queue::PLAIN,
    queue::SHARDED,
    queue::TAKER,
    read_write::SCENARIO,
    reentrant::SCENARIO,
    revocable::SCENARIO,
    removed_waiter::SCENARIO,
    semaphore::SCENARIO,
    semaphore::KAZOO,
    semaphore_mutex::SCENARIO,
    semaphore::LIMITED,
    session_lease::SCENARIO,
    shared_value::SCENARIO,
    queue::SIMPLE,
    stm::SCENARIO,
    timed_lease::SCENARIO,
    ttl_node::SCENARIO,
    two_phase::SCENARIO,
    two_phase_leaving::SCENARIO,
    two_phase_reused::SCENARIO,
    typed_cache::SCENARIO,
];

/// Returns the scenario with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name() == name)
}
