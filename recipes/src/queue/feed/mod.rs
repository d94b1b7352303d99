//! The items of a queue, in their order, as one consumer sees them.
//!
//! [`Feed`](machine::FeedMachine) decides what is listed, watched and waited for, without requests,
//! clock or async; `model.rs` tests it with every order of responses.
//! [`FeedDriver`](driver::FeedDriver) performs its effects and reports the responses.

mod blocked;
mod buckets;
#[cfg(test)]
pub(in crate::queue) mod choices;
pub(in crate::queue) mod driver;
pub(in crate::queue) mod effects;
#[cfg(test)]
mod feed_model;
pub(in crate::queue) mod items;
pub(in crate::queue) mod machine;
mod watch_state;
mod watches;
