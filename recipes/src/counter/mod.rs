//! Counters that are exact, also when replies are lost.
//!
//! | Curator, kazoo | here |
//! |---|---|
//! | `DistributedAtomicLong`, `DistributedAtomicInteger` | [`DistributedAtomicLong`], [`DistributedAtomicInteger`] |
//! | `PromotedToLock` | [`AtomicBuilder::then_lock`] |
//! | `DistributedAtomicValue` | [`DistributedAtomicValue`] |
//! | `CachedAtomicLong` | [`IdBlocks`] |
//! | kazoo's `Counter` | [`AtomicBuilder::encoding`]: [`Encoding::Text`], [`Encoding::TextFloat`]; with `support_curator`: [`Encoding::I32Be`] |
//! | `java.util.concurrent.CountDownLatch` | [`CountDownLatch`] |
//! | `SharedCount`, `SharedValue` | [`shared`](crate::shared) |
//!
//! # Layout
//! ```text
//! /counters/orders                          persistent: the number, as the encoding says; parents are containers
//!   ├─ _r_1f0c52a0-…                        ephemeral: the receipt of a process that writes, see `zk_curator::certain`
//!   └─ _o                                   of `add_once`
//!       └─ 3f                               one of 256 buckets
//!           └─ order-4711                   the record of an id: the values before and after, in decimal digits
//! ```
//! Java, Python and Rust can use one counter: Curator and kazoo never list its children. Who
//! deletes the node has to delete its children, too.
//!
//! # Protocol
//! 1. Take the value from the last write of this process, or read it.
//! 2. Apply all operations that wait in this process to it, in the order of their calls.
//! 3. Write the result at the version of the value, in one transaction with a receipt.
//! 4. If another process has written since, pause for a random time from 0.5 ms to 50 ms (200 ms
//!    after ten conflicts), read the value, and go to 2. After
//!    [30 retries](AtomicBuilder::retries) take the lock, if there is one.
//! 5. After a lost response the receipt shows whether the write was applied.
//! 6. After 4 to 16 writes in a row, while other processes have receipts or were met within a
//!    second, pause for two round trips. Servers less than a millisecond away are not waited for.
//!
//! # Guarantees
//! * An operation is applied once or not at all. Ten increments make ten, whatever replies are
//!   lost. In Curator and kazoo a lost reply makes eleven: the write is repeated, is refused
//!   because of itself, and is made again.
//! * [`add_once`](Counter::add_once) is applied once for an id, in whatever process and session it
//!   is repeated.
//! * Operations take effect one after the other, each between its call and its response.
//! * An operation whose caller gives up before it is sent is withdrawn: it is not applied, and
//!   takes no memory.
//! * Data that are not a number of the counter are never written over, except by
//!   [`set`](Counter::set).
//! * An error without [`may_have_applied`](Error::may_have_applied) was not applied.
//! * The outcome is [unknown](Error::Unknown) only if the session ended before it could be
//!   determined, or another client has deleted the receipt.
//!
//! # Assumptions
//! * Other programs write the node only at its version, as Curator and kazoo do.
//! * Where the receipts are [elsewhere](AtomicBuilder::receipts_at), or there are
//!   [none](AtomicBuilder::without_receipts), no client deletes the node while other clients write
//!   it. Otherwise an operation on a deleted node could be applied to the next node at the path, if
//!   their versions are equal. Where they are children of the node, that cannot happen: a write
//!   needs its receipt, which is gone with the node.
//! * At version -1, once in 2^32 writes, servers before 3.10 have no conditional write: operations
//!   fail with `InvalidArgument` until a client writes the node unconditionally.
//!
//! # Connection loss
//! * SUSPENDED: operations wait, as the retry policy allows; those with a lost reply wait for the
//!   connection.
//! * LOST: a write with a lost reply is [unknown](Error::Unknown). Other operations continue in the
//!   next session.
//! * The writing task ends with its runtime, or by a panic of an `AclProvider`. Operations that
//!   were sent are then [unknown](Error::Unknown), and the next operation starts another task.
//!
//! # Cancel safety
//! An operation that was not sent is withdrawn, and not applied. A sent operation may be.
//!
//! # Errors
//! [`Error`].
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::counter::DistributedAtomicLong;
//!
//! let orders = DistributedAtomicLong::new(&zk, "/counters/orders");
//! assert_eq!(orders.increment().await?, 1);
//! let change = orders.add(10).await?;
//! assert_eq!((change.pre, change.post), (1, 11));
//! assert_eq!(orders.compare_and_set(5, 6).await?, Err(11));
//! assert_eq!(orders.get().await?, 11);
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod batch;
mod blocks;
mod builder;
mod driver;
mod encoding;
mod error;
mod handle;
mod latch;
mod once;
mod queue;
mod settings;
mod site;
mod value;

pub use batch::OnMissing;
pub use blocks::IdBlocks;
pub use builder::AtomicBuilder;
pub use encoding::Encoding;
pub use error::Error;
pub use handle::{
    Change, Counter, CounterWatch, DistributedAtomicInteger, DistributedAtomicLong, Number, Once,
};
pub use latch::CountDownLatch;
pub use value::{AtomicValueBuilder, AtomicValueWatch, DistributedAtomicValue};

pub use crate::race::PromotedToLock;
