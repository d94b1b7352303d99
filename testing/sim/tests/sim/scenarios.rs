//! Two seeds of what `zk-sim` runs: every scenario, under faults of all kinds.

use std::sync::atomic::{AtomicUsize, Ordering};

use zk_curator_sim::{Faults, Sim, scenarios};

use crate::sound_scenarios;

/// The number of seeds of each scenario. CI runs many more by `zk-sim`.
const SEEDS: u64 = 2;

#[test]
fn every_recipe_keeps_its_promises_under_faults() {
    let (all, next) = (sound_scenarios().collect::<Vec<_>>(), AtomicUsize::new(0));
    let work = || {
        while let Some(scenario) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            for seed in 0..SEEDS {
                let sim = Sim::seed(seed).clients(4).rounds(4).scenario(scenario);
                let Some(violation) = sim.run().violation else { continue };
                let shrunk = sim.shrink().unwrap();
                let arguments = shrunk.sim.arguments();
                panic!(
                    "{violation}\nzk-sim --scenario {} {arguments}\n{}",
                    scenario.name(),
                    shrunk.outcome.history
                );
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}

/// In this run an item is put into a bucket that was listed as empty, while the parent of the
/// buckets is listed again. An earlier version then forgot the watch of the bucket, and the first
/// in line waited forever.
#[test]
fn item_during_a_listing_of_buckets_wakes_the_first_in_line() {
    let scenario = scenarios::named("fifo_queue").unwrap();
    let sim = Sim::seed(1195)
        .clients(5)
        .rounds(20)
        .settings(false)
        .faults(Faults::list([]))
        .scenario(scenario);
    assert_eq!(sim.run().violation.map(|violation| violation.to_string()), None);
}
