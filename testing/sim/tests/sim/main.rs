//! The simulator: its engine, and a few seeds of each scenario.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod coverage;
mod engine;
mod reliability;
mod scenarios;
mod services;
mod strays;
