//! Transactions whose outcome can be determined after a lost response.
//!
//! A transaction whose response is lost may or may not have been applied, and repeating it could
//! apply it twice. A [certain](crate::op::Transaction::certain) transaction has an additional
//! operation: it writes a number to a node of this client, its *receipt*. After a lost response,
//! the client reads the receipt. If it has the number, the transaction was applied, once. If not,
//! the transaction was not applied and cannot be applied any more, so it is sent again.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator::certain::Receipt;
//!
//! zk.create("/counter").data("41").await?;
//! let receipt = Receipt::new(&zk, "/counter");
//! let applied = zk.transaction().set_data_if("/counter", "42", 0).certain(&receipt).await?;
//! // The transaction id is that of the last write of the node.
//! let (_, stat) = zk.get_data("/counter").with_stat().await?;
//! assert_eq!(stat.mzxid, applied.zxid());
//! # zk.close().await?;
//! # Ok(()) }
//! ```
//!
//! A single operation does the same:
//! `zk.set_data("/counter", "43").version(1).certain(&receipt).await?`. So do
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
//! 1. Only one transaction of a receipt is in flight at a time. The others wait, and are sent in
//!    the order of the calls.
//! 2. The first transaction of a session creates the receipt, under a unique name. So no request is
//!    sent except the transaction itself.
//! 3. The number is written at the known version of the receipt, so a transaction that is sent
//!    twice can be applied only once.
//! 4. After a lost response, the client sends two requests in the same session and in one round
//!    trip: a transaction of one check, to which only a leader with a quorum responds, after
//!    everything that was sent before it, and a read of the receipt.
//! 5. If the transaction was not applied, it is sent again, as the [retry policy](crate::retry) and
//!    the deadline allow.
//!
//! # Guarantees
//!
//! * A transaction is applied once or not at all, regardless of lost messages.
//! * If an error has no [`may_have_applied`](crate::Error::may_have_applied), the transaction was
//!   not applied, and will not be.
//! * The outcome is unknown, and the error says `may_have_applied`, only if the receipt cannot be
//!   read: the session ended first, the deadline passed, the framework was closed, another client
//!   has deleted or written the receipt, or its ACL does not allow the read.
//!
//! # Assumptions
//!
//! * The session may create children of the parent and delete them, and the ACL of the
//!   [provider](crate::acl::AclProvider) lets it read and write the receipt.
//! * No client deletes a receipt right after it was created by a transaction whose response is
//!   lost: it would look as if it had never been applied. To exclude even that, create the receipt
//!   in advance by a transaction without operations.
//!
//! # Connection loss
//!
//! * SUSPENDED: a transaction with a lost response waits for the connection as long as the session
//!   lives, at most about the session timeout. A deadline ends the wait earlier.
//! * LOST: the transaction fails with `SessionExpired` and `may_have_applied`. The receipt ends
//!   with its session, and the next transaction creates another one.
//! * RECONNECTED: the client reads the outcome.

mod commit;
mod ids;
mod pool;
mod receipt;
mod resolve;
mod single;

pub use commit::{Applied, CertainTransaction, CommitProof};
#[doc(hidden)]
pub use ids::{Id, Ids, protected_name};
pub use pool::ReceiptPool;
pub use receipt::{Receipt, is_receipt};
#[doc(hidden)]
pub use resolve::{ResolvedOutcome, resolve};
