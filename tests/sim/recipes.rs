//! A small slice of what `zk-sim` does: every recipe, under faults of all kinds.

use std::sync::atomic::{AtomicUsize, Ordering};

use zk_curator_sim::{Sim, recipes};

/// Of each recipe. CI runs many more by `zk-sim`.
const SEEDS: u64 = 3;

#[test]
fn every_recipe_keeps_its_promises_under_faults() {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(recipe) = recipes::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            for seed in (0..SEEDS).filter(|_| !recipe.is_demonstration()) {
                let sim = Sim::seed(seed).clients(4).rounds(4).recipe(recipe);
                let Some(violation) = sim.run().violation else { continue };
                let shrunk = sim.shrink().unwrap();
                let arguments = shrunk.sim.arguments();
                panic!(
                    "{violation}\nzk-sim --recipe {} {arguments}\n{}",
                    recipe.name(),
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
