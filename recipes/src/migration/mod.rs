//! Migrations of the nodes of a service: each applied once, in order, by one of many processes.
//!
//! The layout of a service's nodes changes with its versions. A [`MigrationSet`] has the changes in
//! their order. Every process of every version calls [`migrate`](MigrationManager::migrate) before
//! it serves: one of them applies the missing migrations, the others wait for that.
//!
//! # Layout
//!
//! ```text
//! /migrations/locks/orders                 the lock: a semaphore of one permit, only while it is used
//! /migrations/meta
//!   ├─ _r_<uuid>                           ephemeral: a receipt, which settles lost responses
//!   ├─ orders                              container, made on first use
//!   │    ├─ meta-0000000000                persistent, sequential; data: the checksum of the first migration
//!   │    └─ meta-0000000001                … of the second one
//!   └─ orders-info                         container
//!        ├─ 0                              persistent; data: name, second checksum, who has applied it
//!        └─ 1
//! ```
//! The layout of Apache Curator's `MigrationManager`: Java and Rust can share one set, and each
//! continues where the other one has stopped. Java does not read the nodes `-info`, and does not
//! write them.
//!
//! # Protocol
//!
//! 1. Read the metadata and the records, in one request behind a `sync`. If they are those of the
//!    set, it is done, without a lock.
//! 2. If another client holds the lock, wait until it has released it, and go to 1. Otherwise
//!    acquire it.
//! 3. Read again.
//! 4. Send one transaction: a check of our node of the lock, checks of the nodes that a computation
//!    has read, and then for each migration its operations, its metadata and its record.
//! 5. If the response is lost, the receipt says if the transaction was applied. If the session is
//!    lost too, go to 1: under the next lock, the metadata show the outcome.
//! 6. Release the lock.
//!
//! Without contention, [`migrate`](MigrationManager::migrate) takes two requests and one round trip
//! if nothing is missing.
//!
//! # Guarantees
//!
//! * Every migration is applied once, whichever responses, sessions and processes are lost. The
//!   check of the lock is in the transaction, so a process that has lost the lock applies nothing.
//! * The missing migrations are applied together, or none of them. With
//!   [`per_migration`](MigrationManager::per_migration), and before a
//!   [computed](MigrationSetBuilder::computed) migration, that holds for the migrations of one
//!   transaction.
//! * When [`migrate`](MigrationManager::migrate) or
//!   [`wait_applied`](MigrationManager::wait_applied) returns, all migrations of the set are
//!   committed.
//! * A set that differs from the applied migrations changes nothing. A migration that was altered
//!   is a [`Mismatch`](Error::Mismatch); an older version of the service gets
//!   [`Ahead`](Error::Ahead).
//!
//! # Checksums
//!
//! Curator's checksum of a migration is a SHA-256 of its operations, with their full paths within
//! the chroot, data and ACLs. Some different operations have the same one, because Java writes
//! bytes as hexadecimal digits without padding: to set the bytes `01 23` or `12 03` makes no
//! difference. So the record has a second checksum, and both are compared where there is a record.
//!
//! Both checksums are of the data before compression, so a set with compressed data is the same on
//! every host. Java compresses first, and its checksum depends on the version of Java:
//! [`compatible`](MigrationSetBuilder::compatible) sets refuse compressed data.
//!
//! # Assumptions
//!
//! * Only migrations write these nodes. All managers of a set have the same paths, namespace, and
//!   ACLs.
//! * Java's manager does not check its lock in its transaction. If its session is lost between its
//!   read and its transaction, it may apply migrations that Rust has applied in between.
//! * The missing migrations fit into a request, which is 1 MiB on servers that are not configured
//!   otherwise. That is checked before the lock is taken.
//! * For operations that must not be overtaken by other writes: the operations have versions, or
//!   the migration is [computed](MigrationSetBuilder::computed).
//!
//! # Connection loss
//!
//! * SUSPENDED: a waiting process keeps waiting. A transaction whose response is lost is settled
//!   when the connection is back.
//! * LOST: begins again in the next session.
//!
//! # Cancel safety
//!
//! Every future may be dropped at any point: each transaction is applied as a whole or not at all,
//! and the lock is released in the background.
//!
//! # Errors
//! [`Error`].
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::migration::{MigrationManager, MigrationSet};
//!
//! let set = MigrationSet::builder("orders")
//!     .migration("create roots", |m| m.create("/orders", "").create("/orders/by-id", ""))
//!     .migration("limit", |m| m.create("/orders/limit", "10"))
//!     .build()?;
//! let migrator = MigrationManager::new(&zk, "/migrations/locks", "/migrations/meta");
//! let outcome = migrator.migrate(&set).await?;
//! assert_eq!(outcome.applied, ["create roots", "limit"]);
//!
//! // In another process, or after a restart:
//! let outcome = migrator.migrate(&set).await?;
//! assert_eq!((outcome.applied.len(), outcome.already), (0, 2));
//! assert_eq!(zk.get_data("/orders/limit").await?, "10");
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod apply;
mod computed;
mod digest;
mod error;
mod manager;
mod model;
mod plan;
mod record;
mod set;
mod settings;
mod site;

pub use computed::Reads;
pub use error::Error;
pub use manager::MigrationManager;
pub use model::{AppliedMigration, Outcome, Plan};
pub use plan::Difference;
pub(crate) use plan::META;
pub use set::{MigrationSet, MigrationSetBuilder, Operations};
