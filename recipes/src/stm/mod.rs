//! Transactions over many nodes, without a lock: software transactional memory.
//!
//! A body reads nodes and writes nodes. The transaction applies all writes together, and only if
//! nothing that the body has read has changed. Otherwise it runs the body again.
//!
//! # Layout
//! ```text
//! /acc                         persistent: the root of a space, made on first use; its version counts the creates and deletes
//!   ├─ 1                       nodes of the service
//!   ├─ 2
//!   └─ _receipts               persistent: not shown to transactions
//!        └─ _r_<uuid>          ephemeral: a receipt of a client
//! ```
//!
//! # Protocol
//! 1. The first attempt reads the [prefetched](Transaction::prefetch) nodes, and the roots of their
//!    spaces, in one `multiRead`. So does every retry, with all nodes that the attempt before it
//!    has used. The response shows one state of the server.
//! 2. A read of the body that was not prefetched is one more request, which contains the root too.
//!    If the node, or the structure of its space, was written after the state that the attempt
//!    shows, everything is read again, in one `multiRead`. If a node that the body has used has
//!    changed, the attempt ends, and the body runs again with the new state.
//!    Reads may be concurrent. A response that may be older than the state that the attempt shows
//!    is discarded, and the read is repeated.
//! 3. The writes of the body stay in memory, and its later reads show them.
//! 4. After the body, the nodes that it writes and has not read are read as in step 2. If they do
//!    not fit into one response, the roots are read, and then the stat of each node.
//! 5. One [certain](zk_curator::certain) transaction applies the writes: it checks the version of
//!    every node that the body has used, and of the roots, and writes nodes at the versions that
//!    were read. If it creates or deletes nodes, it also writes the root with the root's own data.
//! 6. If a check fails, the attempt was in conflict. After a pause the transaction continues at
//!    step 1.
//! 7. A [linearizable](Transaction::linearizable) transaction sends its first read behind a check
//!    to which a quorum responds. Without writes, step 5 is not needed then, because the reads show
//!    one state that was the newest one after the call. After a conflict in step 6, all
//!    transactions that have written nothing read like that.
//! 8. If the attempt fails instead because of its reads, such as a create of a node that exists,
//!    they are sent again, behind a check to which a quorum responds. If they differ, the attempt
//!    was in conflict. If they do not fit into one response, only stats are compared.
//!
//! Requests of a transaction without conflicts, after the first one of a session:
//!
//! | | requests | round trips |
//! |---|---|---|
//! | prefetched, with writes | 2 | 2 |
//! | prefetched, without writes | 1 | 1 |
//! | linearizable, without writes | 1 more, the check of the quorum | 0 more |
//! | each read that was not prefetched | 1 more, or 2 if the node was written since | the same, at the same time for concurrent reads |
//! | fails because of its reads | 2 instead of the commit | 1 instead of the commit |
//!
//! # Guarantees
//! * Serializable: transactions with writes, and [linearizable](Transaction::linearizable) ones,
//!   behave as if they ran one after the other, each at a moment between its call and its return.
//!   In the terms of etcd this is `SerializableSnapshot`; weaker levels are not offered. A
//!   transaction without writes shows a state between two of them, which may be older, but not
//!   older than what the same framework has read before.
//! * Opaque: within one attempt, the reads show one such state, also if the attempt is not
//!   committed. So an invariant of all transactions holds in every body.
//! * Transactions without writes do not starve: however often others write, a
//!   [linearizable](Transaction::linearizable) one comes to its end as soon as it has read once all
//!   nodes that its body reads.
//! * No transaction fails because of a state that was over when it was called: an
//!   [abort](Error::abort), [`Error::Exists`], [`Error::Unprotected`] and undecodable data are
//!   confirmed by a quorum first.
//! * In a space, the absence of a node, lists of children and the identity of a node are protected
//!   too: a transaction that depends on them is in conflict with every create and delete in the
//!   space. Transactions that only replace data are not in conflict with each other if their
//!   nodes differ.
//! * Applied once or not at all, whatever responses are lost. If the outcome cannot be known, the
//!   transaction fails with [`Error::Unknown`], and the body is not run again.
//!
//! # Assumptions
//! * All creates and deletes in a space go through transactions with the same root: of this recipe,
//!   or of others that write the root in the same way. [`Stm::audit`] finds clients that do not.
//!   No node of a space is ephemeral, a container, or has a time to live. The root is not deleted.
//!   Data may also be written by other clients.
//! * Creates and deletes are rare compared with other transactions, or spread over several spaces:
//!   in one space they are in conflict with everything else.
//! * Servers have `multiRead`: ZooKeeper 3.6 and later.
//! * The session may read and write the root, and create children of the node of the receipts.
//! * All transactions of a space store data in the same form: see
//!   [`compression`](zk_curator::compression).
//!
//! # Without a space
//! [`Stm::loose`] works on nodes that exist anywhere. A transaction of ZooKeeper checks versions of
//! nodes, nothing else:
//!
//! * The absence of a node is protected only if the body [asserts](Tx::assert_absent) it. Other
//!   reads of absent nodes fail with [`Error::Unprotected`], and so do lists of children.
//! * Reads of one attempt show one state, as in a space, including asserted absences. An absence
//!   is known only at the moment of its response, so concurrent reads are repeated more often.
//! * A node that was deleted and created again begins with version 0. A transaction that has read
//!   version 0 of the old one does not notice.
//!
//! # Connection loss
//! * SUSPENDED: requests wait, as the framework's retry policy allows. A commit with a lost
//!   response waits until its outcome is known, as long as the session lives.
//! * LOST: a commit in flight fails with [`Error::Unknown`]. Bodies continue in the next session.
//! * RECONNECTED: nothing is read again. The commit detects changes.
//!
//! # Cancel safety
//! If the future is dropped, the transaction may or may not be applied, once at most. Nothing stays
//! behind but the root and the node of the receipts.
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
//! use zk_curator_recipes::stm::{Error, Stm};
//!
//! let accounts = Stm::space(&zk, "/acc");
//! accounts
//!     .atomically(|tx| async move {
//!         tx.put("/acc/1", &100)?;
//!         tx.put("/acc/2", &0)
//!     })
//!     .await?;
//!
//! let moved = accounts
//!     .transaction()
//!     .prefetch(["/acc/1", "/acc/2"])
//!     .run(|tx| async move {
//!         let missing = || Error::abort("no such account");
//!         let from: i64 = tx.get_typed("/acc/1").await?.ok_or_else(missing)?;
//!         let to: i64 = tx.get_typed("/acc/2").await?.ok_or_else(missing)?;
//!         let amount = from.min(10);
//!         tx.put("/acc/1", &(from - amount))?;
//!         tx.put("/acc/2", &(to + amount))?;
//!         Ok(amount)
//!     })
//!     .await?;
//! assert_eq!((moved.value, moved.attempts), (10, 1));
//! assert_eq!(zk.get_data("/acc/2").await?, "10");
//! # drop(accounts);
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod attempt;
mod audit;
mod contention;
mod error;
mod plan;
mod read_set;
mod site;
mod snapshot;
mod space;
mod transaction;
mod write_set;

pub use attempt::Tx;
pub use audit::{Intrusion, IntrusionKind};
pub use error::Error;
pub use snapshot::snapshot_of;
pub use transaction::{Committed, Stm, Transaction};
