//! The simulation of the recipes, and what keeps it repeatable.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod recipes;
mod replay;
mod sources;
