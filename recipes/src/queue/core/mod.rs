//! The decisions of consumers as pure state machines: no requests, no clock, no async.
//!
//! [`Feed`] decides what is listed, watched and waited for. [`Claiming`] decides which items of a feed are claimed, and which
//! claim is handed out. The drivers perform the effects and hand in the answers; `model.rs` and `claiming_model.rs` play them in every order.

mod blocked;
mod buckets;
#[cfg(test)]
mod choices;
mod claiming;
#[cfg(test)]
mod claiming_model;
mod effects;
mod feed;
mod items;
#[cfg(test)]
mod model;
pub(crate) mod name;
mod pipeline;
mod watch_state;

pub(crate) use buckets::Deletion;
pub(crate) use claiming::{Action, Claiming, Outcome};
pub(crate) use effects::{Effect, Input, Order, Watched};
pub(crate) use feed::Feed;
pub(crate) use items::Seen;
pub(crate) use pipeline::{Pipeline, Stage, Stages};
