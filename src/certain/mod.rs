//! Transactions that find out what became of them when their answer is lost.
//!
//! A transaction whose answer is lost was applied or not, and to repeat it could apply it twice. A
//! [certain](crate::op::Transaction::certain) one has one operation more: it writes a number to a node of ours, its
//! *receipt*. After a lost answer the receipt is read. It has the number: the transaction was applied, once. It has
//! not: the transaction was not applied, cannot be any more, and is sent again.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator::certain::Receipt;
//!
//! zk.create("/counter").data("41").await?;
//! let receipt = Receipt::at(&zk, "/counter");
//! let applied = zk.transaction().set_data_if("/counter", "42", 0).certain(&receipt).await?;
//! // The transaction that has written the node.
//! let (_, stat) = zk.get_data("/counter").with_stat().await?;
//! assert_eq!(stat.mzxid, applied.zxid());
//! # zk.close().await?;
//! # Ok(()) }
//! ```
//!
//! A single operation does the same: `zk.set_data("/counter", "43").version(1).certain(&receipt).await?`. So do
//! [`create`](crate::op::CreateBuilder::certain) and [`delete`](crate::op::DeleteBuilder::certain).
//!
//! # Layout
//!
//! ```text
//! /counter                                  the parent that the caller has chosen; it must exist
//!   └─ _r_1f0c52a0-…                        ephemeral – a receipt    data: 17, the number of the last transaction
//! ```
//!
//! # Protocol
//!
//! 1. One transaction of a receipt is outstanding at a time. The others wait, and are sent in the order of the calls.
//! 2. The first one of a session creates the receipt, under a name that nobody else can have chosen. So no request is
//!    sent but the transaction itself.
//! 3. The number is written at the version that the receipt has: of one transaction that is sent twice no more than
//!    one can be applied.
//! 4. After a lost answer, in the same session and in one flight: a transaction of one check, which is answered only
//!    by a leader with a quorum and after everything that was sent before it; and a read of the receipt.
//! 5. Not applied: it is sent again, as the [retry policy](crate::retry) and the deadline allow.
//!
//! # Guarantees
//!
//! * A transaction is applied once or not at all, whatever is lost.
//! * An error without [`may_have_applied`](crate::Error::may_have_applied) was not applied, and will not be.
//! * The outcome is unknown, and the error says `may_have_applied`, only if the receipt cannot be read: the session
//!   ended first, the deadline passed, the framework was closed, somebody else has deleted or written the receipt, or
//!   its ACL does not let us read.
//!
//! # Assumptions
//!
//! * The session may create children of the parent and delete them, and the ACL of the
//!   [provider](crate::acl::AclProvider) lets it read and write the receipt.
//! * Nobody deletes a receipt in the moment when it was created by a transaction whose answer is lost: that would look
//!   as if it had never been applied. A transaction without operations creates the receipt in advance, for callers
//!   that want to exclude even that.
//!
//! # Connection loss
//!
//! * SUSPENDED: a transaction with a lost answer waits for the connection, as long as the session lives: at most about
//!   the session timeout. A deadline ends it earlier.
//! * LOST: it fails with `SessionExpired` and `may_have_applied`. The receipt ends with its session; the next
//!   transaction creates another one.
//! * RECONNECTED: what became of it is read.

mod commit;
mod receipt;
mod single;

pub use commit::{Applied, CertainTransaction, Proof};
pub use receipt::Receipt;
