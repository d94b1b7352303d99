//! Distributed queues.
//!
//! * [`SimpleDistributedQueue`]: the queue of ZooKeeper's recipes.
//! * [`DistributedQueue`], [`DistributedPriorityQueue`], [`DistributedDelayQueue`],
//!   [`DistributedIdQueue`]: Apache Curator's queues, wire-compatible: a Java producer can serve a
//!   Rust consumer, and the reverse.
//!
//! * [`QueueSharder`]: several of these as one queue; it adds queues when all are full.
//!
//! * [`FifoQueue`]: this crate's own queue. Items are put exactly once, and a new item wakes only
//!   one waiter.
//! * [`LockingQueue`]: a queue for items that must not be lost with their consumer. Items are
//!   claimed, their deliveries are counted, and those that fail too often become dead letters.
//!
//! * [`jobs`]: work that is claimed, executed and completed. For each job it is known which worker
//!   executes it.
//!
//! A [`Consumer`] takes items in one of two ways. A consumer of the kind [`AutoAck`] removes each
//! item before it delivers it, so an item is delivered **at most once**, unless it is
//! [peeked](Consumer::peek) first. All other consumers return
//! a [`Delivery`], which removes the item when it is acknowledged, so an item is delivered **at
//! least once**.
//!
//! # Items of a type
//! An item is [`ToData`](zk_curator::value::ToData): bytes, text, numbers, and with the feature
//! `serde` a value of any type in JSON, `queue.put(Json(&order))`. A taken item is decoded where it
//! is used: [`Item::values`], [`Delivery::values`], [`Delivery::value`],
//! [`JobTask::value`](jobs::JobTask::value). Data that cannot be decoded cause
//! [`Error::Undecodable`]. If a body of `run` fails with it, the item is redelivered and
//! dead-lettered as after any other failure.
//!
//! # A graceful stop
//! `run` of a consumer or a worker continues until the framework is closed.
//! [`run(…).until(shutdown)`](crate::Run::until) ends at the stop of the
//! [`Shutdown`](crate::Shutdown) is cancelled, for example at a SIGTERM:
//!
//! 1. No further item is taken from the queue. An item that is being claimed is still delivered,
//!    because the claim may count as a delivery, unless the time to drain is zero.
//! 2. Running bodies may continue for the time to drain, and their items are settled as usual.
//!    Items whose bodies fail, or have failed before, are released or dead-lettered without the
//!    pause before redelivery.
//! 3. The remaining bodies are dropped, and then their claims.
//! 4. The run returns when the claims are deleted, so that other consumers can claim the items,
//!    or when the session is over, but after twice the session timeout at the latest.
//!
//! Close the framework only after the run has returned: `close` ends everything that needs the
//! session.
//!
//! ZooKeeper keeps all items in memory and writes them to the log of every server: use its queues
//! for small items, in thousands rather than millions, whose order and outcome matter.

mod consume;
mod error;
pub(crate) mod feed;
pub mod jobs;
mod kinds;
mod produce;
mod sharder;
pub(crate) mod wire;

pub use consume::auto_ack::{AutoAck, AutoAckConsumer};
pub use consume::consumer::Consumer;
pub use consume::delivery::Delivery;
pub use consume::kind::QueueKind;
pub use consume::peeked::Peeked;
pub use error::{Error, ErrorMode};
pub use kinds::curator::{
    CuratorQueue, Delay, DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue,
    DistributedQueue, Id, KeyedQueue, Plain, Priority,
};
pub use kinds::fifo::{FifoQueue, OnUnconfirmed, PutMode};
pub use kinds::lock_path::{LockPath, LockPathConsumer, LockPathDelivery};
pub use kinds::locking::LockingQueue;
pub use kinds::locking_delivery::{Locking, LockingConsumer, LockingDelivery, Message};
pub use kinds::simple::SimpleDistributedQueue;
pub use produce::producer::OnFull;
pub use sharder::{QueueSharder, QueueSharderBuilder};
pub use wire::codec::CorruptItem;
pub use wire::item::Item;
pub use wire::rejection::Rejection;
