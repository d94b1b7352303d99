//! Distributed queues.
//!
//! * [`SimpleDistributedQueue`]: the queue of ZooKeeper's recipes.
//! * [`DistributedQueue`], [`DistributedPriorityQueue`], [`DistributedDelayQueue`], [`DistributedIdQueue`]: Apache
//!   Curator's, wire-compatible: Java puts and we take, and the reverse.
//!
//! * [`QueueSharder`]: several of these as one, with more queues when all are full.
//!
//! * [`FifoQueue`]: a queue of our own, without a herd, into which items get exactly once.
//! * [`LockingQueue`]: the same for items that must not get lost with their consumer: taken under claims, counted, and put
//!   aside when they fail too often.
//!
//! * [`jobs`]: work that is claimed, executed and completed, and of which is known who executes it.
//!
//! Items are taken in one of two ways: with an [`AutoAckConsumer`] each is removed before it is handed out, and so handed out **at
//! most once**; with a [`Consumer`] each is removed when it is acknowledged, and so handed out **at least once**.
//!
//! # Items of a type
//! What is put is [`ToData`](zk_curator::value::ToData): bytes, text, numbers, and with the feature `serde` a value of any type in JSON,
//! `queue.put(Json(&order))`. What is taken is decoded where it is used: [`Item::values`], [`Delivery::values`],
//! [`LockingDelivery::value`], [`Task::value`](jobs::Task::value). What cannot be decoded is [`Error::Undecodable`]; a body of `run` that
//! fails with it has the item redelivered and put aside as any other that fails.
//!
//! # A graceful stop
//! `run` of a consumer or a worker goes on until the framework is closed. `run_until(…, stop, drain, body)` ends when the future `stop`
//! does, for example at a SIGTERM:
//!
//! 1. nothing more is taken from the queue, at once;
//! 2. what `body` has in its hands may be worked off, for as long as `drain`, and is settled as ever; what it fails with meanwhile,
//!    or has failed with before, is given back or put aside without the pause before redelivery;
//! 3. the rest is dropped, `body` first, then the claims;
//! 4. `run_until` returns when the claims are gone, so that other consumers have the items; or when the session is over; or after twice the
//!    session timeout at the latest.
//!
//! Close the framework after it, not at once: `close` ends everything that needs the session.
//!
//! ZooKeeper keeps all items in memory and writes them to the log of every server: queues in it are for few and small
//! items, thousands and not millions, whose order and whose fate matter.

mod auto_ack;
mod buckets;
mod codec;
mod consumer;
mod core;
mod curator;
mod driver;
mod error;
mod fifo;
mod item;
pub mod jobs;
mod layout;
mod locking;
mod put;
mod put_ids;
mod redelivery;
mod sharder;
mod simple;
mod unconfirmed;
mod value;

pub use auto_ack::AutoAckConsumer;
pub use codec::CorruptItem;
pub use consumer::{Consumer, Delivery};
pub use curator::{
    CuratorQueue, Delay, DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue,
    DistributedQueue, Id, KeyedQueue, Plain, Priority,
};
pub use error::{Error, ErrorMode};
pub use fifo::{FifoQueue, PutMode, UnconfirmedPolicy};
pub use item::Item;
pub use locking::{LockingConsumer, LockingDelivery, LockingQueue, Message};
pub use put::WhenFull;
pub use redelivery::Rejection;
pub use sharder::{QueueSharder, QueueSharderBuilder};
pub use simple::SimpleDistributedQueue;
