//! One session: a pure machine, the loop that performs its I/O, and the parts that both share with
//! the handle.

mod auth;
mod command;
mod driver;
mod hosts;
mod machine;
mod request_queue;
mod state;

pub(crate) use command::{ReplySlot, RequestSubmission, SessionCommand, WatchEffect, WatchPlan};
pub(crate) use driver::run_driver;
pub(crate) use machine::SessionMachine;
pub(crate) use request_queue::{QueuedAnswers, RequestBatch, RequestQueue, ResponseTicket};
pub(crate) use state::StateHub;
pub use state::{ExpiredBy, SessionState, SessionStates, StatePublisher};
