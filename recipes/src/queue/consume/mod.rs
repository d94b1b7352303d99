//! Taking items. All queues have one [`Consumer`](consumer::Consumer), which takes an item in these
//! steps:
//!
//! 1. [`Consumer::next`](consumer::Consumer::next) asks its [`ItemSource`](kind::ItemSource) for
//!    the next item of the list that it has. [`Claims`](claims::Claims) claims items, and
//!    [`Removals`](auto_ack::AutoAckSource) removes them.
//! 2. At the end of the list, the [`FeedDriver`](super::feed::driver::FeedDriver) waits in line,
//!    lists the queue, and waits for an item.
//! 3. Back to step 1.
//!
//! [`claiming`] and [`pipeline`] decide, as pure state machines; `claiming_model.rs` plays the
//! first in every order of responses. A [`ClaimKind`](claims::ClaimKind) says how the items of one
//! kind of queue are claimed, counted and settled.

pub(in crate::queue) mod auto_ack;
pub(in crate::queue) mod claiming;
#[cfg(test)]
mod claiming_model;
pub(in crate::queue) mod claims;
pub(in crate::queue) mod consumer;
pub(in crate::queue) mod delivery;
pub(in crate::queue) mod kind;
pub(in crate::queue) mod peeked;
mod pipeline;
pub(in crate::queue) mod redelivery;
mod removal;
mod run;
pub(in crate::queue) mod settle;
