//! One session: a pure machine, the loop that performs its I/O, and what both share with the handle.

mod auth;
mod driver;
mod hosts;
mod machine;
mod pending;
mod state;

pub(crate) use driver::run_driver;
pub(crate) use machine::Machine;
pub(crate) use pending::{Command, Gate, Reply, Submission, WatchEffect, WatchPlan};
pub(crate) use state::StateHub;
pub use state::{ExpiredBy, SessionState, SessionStates};
