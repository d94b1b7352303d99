//! Nodes, groups, names, configuration and two-phase commit, by subject, and what holds for all recipes.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod atomic_value;
mod cache;
mod cache_cancel;
mod cache_cost;
mod cache_faults;
mod cache_scope;
mod config;
mod config_cancel;
mod counter;
mod counter_cancel;
mod counter_once;
mod flights;
mod group;
mod group_cancel;
mod name;
mod nodes;
mod nodes_cancel;
mod replay;
mod schedule;
mod shared;
mod two_phase;
mod two_phase_cancel;
mod unknown;
