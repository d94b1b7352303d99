//! The simulator: its engine, and a few seeds of each scenario.
//!
//! Tests that simulate many seeds run in full only in an optimised build, where a run takes a fifth
//! of the time: `cargo test --profile quick -p zk-curator-sim --test sim`. An unoptimised build
//! plays two seeds of each, and `cargo test` runs it only by name. With `ZK_CURATOR_NIGHT=1`, an
//! optimised build plays the seeds of a night.

use std::ops::Range;

use zk_curator_sim::Scenario;

mod coverage;
mod deletions;
mod engine;
mod exhaustion;
mod reliability;
mod scenarios;
mod services;
mod strays;

/// `true` if this build is optimised.
const IS_OPTIMISED: bool = !cfg!(debug_assertions);

/// Returns the seeds that a property is checked with: the first `gate` seeds, or as many as `night`
/// in a night. An unoptimised build has two.
fn seeds(gate: u64, night: u64) -> Range<u64> {
    let is_night = std::env::var_os("ZK_CURATOR_NIGHT").is_some_and(|value| value == "1");
    match (IS_OPTIMISED, is_night) {
        (false, _) => 0..2,
        (true, false) => 0..gate,
        (true, true) => 0..night,
    }
}

/// Returns all scenarios except the demonstration. An unoptimised build leaves out `many_claims`: a
/// seed of it takes as long as a seed of twenty other scenarios together.
fn sound_scenarios() -> impl Iterator<Item = &'static Scenario> {
    let all = zk_curator_sim::scenarios::ALL.iter();
    all.filter(|scenario| !scenario.is_demonstration())
        .filter(|scenario| IS_OPTIMISED || scenario.name() != "many_claims")
}

/// Returns all of these scenarios, or a tenth of them in an unoptimised build.
fn some_scenarios() -> impl Iterator<Item = &'static Scenario> {
    sound_scenarios().step_by(if IS_OPTIMISED { 1 } else { 10 })
}
