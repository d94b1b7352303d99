use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use zk_curator_client::{CreateMode, Data, Error as RawError, ErrorCode, Op, Stat, Version};

use crate::core::{
    Cleanup, Core, FencingToken, OwedDeletion, ResourceRegistration, Session, read_behind_quorum,
};
use crate::framework::CuratorFramework;
use crate::path::join;
use crate::raw::RawClient;
use crate::retry::Budget;

/// The prefix of the names of receipts. A UUID follows.
const PREFIX: &str = "_r_";

/// Returns `true` if this is the name of the node of a [`Receipt`].
///
/// A listing of the parent of a receipt contains the receipt. Its data belong to the protocol and
/// are never compressed. So a caller that reads all children as values has to leave it out before
/// decoding.
///
/// ```
/// use zk_curator::certain::is_receipt;
///
/// assert!(is_receipt("_r_5e0a7c8e-0000-4000-8000-000000000001"));
/// assert!(!is_receipt("_r_mine"));
/// ```
#[must_use]
pub fn is_receipt(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|guid| uuid::Uuid::try_parse(guid).is_ok())
}

/// Proof that [certain](crate::op::Transaction::certain) transactions were applied.
///
/// Cheap to clone; clones are the same receipt. Transactions of one receipt are sent one at a time,
/// so tasks that should not wait for each other need a receipt each. Like a guard, it keeps its
/// framework open.
///
/// # Cancel safety
/// The node is deleted in the background when the last clone is dropped. It ends with its session
/// in any case.
#[derive(Clone)]
pub struct Receipt {
    zk: CuratorFramework,
    parent: String,
    state: Arc<Mutex<ReceiptState>>,
}

impl Receipt {
    /// Creates a receipt below an existing node; the path is within the namespace. The first
    /// transaction creates its node, and so does the first one in every later session.
    ///
    /// The parent may be any node that may have children. A listing of it shows one more child. An
    /// invalid path is an error of the transaction.
    pub fn new(zk: &CuratorFramework, parent: impl Into<String>) -> Self {
        Self { zk: zk.clone(), parent: parent.into(), state: Arc::default() }
    }

    /// Returns the parent, within the namespace.
    #[must_use]
    pub fn parent(&self) -> &str {
        &self.parent
    }

    pub(super) const fn zk(&self) -> &CuratorFramework {
        &self.zk
    }

    /// Waits until no other transaction is in flight.
    pub(super) async fn lock(
        &self,
        budget: &Budget<'_>,
    ) -> Result<MutexGuard<'_, ReceiptState>, RawError> {
        match budget.time_left() {
            None => Ok(self.state.lock().await),
            Some(left) => {
                let state = timeout(left, self.state.lock()).await;
                state.map_err(|_| RawError::DeadlineExceeded { sent: false })
            }
        }
    }

    /// Returns a node that does not exist yet, for this session.
    pub(super) fn new_node(&self, session: &Arc<Session>) -> ReceiptNode {
        let core = self.zk.core();
        let path = self.server_path(&core.random.guid());
        ReceiptNode {
            zk: self.zk.clone(),
            session: Arc::clone(session),
            path,
            version: None,
            may_exist: false,
            registration: None,
        }
    }

    pub(super) fn server_path(&self, guid: &str) -> String {
        join(&self.zk.ns().apply(&self.parent), &format!("{PREFIX}{guid}"))
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("parent", &self.parent).finish_non_exhaustive()
    }
}

/// The state that the transactions of a receipt pass on to each other.
#[derive(Default)]
pub(super) struct ReceiptState {
    /// The number of the last transaction. No two have the same.
    number: u64,
    /// The node, if its content is known.
    node: Option<ReceiptNode>,
}

impl ReceiptState {
    pub(super) const fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Takes the node to write in this session. While it is taken, its content is unknown. If it is
    /// dropped then, it is deleted.
    pub(super) fn take(&mut self, session: &Arc<Session>) -> Option<ReceiptNode> {
        // A version near the overflow is not used.
        let fit = |node: &ReceiptNode| {
            Arc::ptr_eq(&node.session, session)
                && node.version.is_none_or(|version| version < i32::MAX)
        };
        self.node.take().filter(fit)
    }

    pub(super) fn put(&mut self, node: ReceiptNode) {
        self.node = Some(node);
    }
}

/// The node of a receipt in one session. If it is dropped, the janitor deletes the node.
pub(super) struct ReceiptNode {
    zk: CuratorFramework,
    pub(super) session: Arc<Session>,
    /// The path on the server.
    pub(super) path: String,
    /// The version, once the node exists.
    pub(super) version: Option<i32>,
    /// `true` if the node may exist.
    may_exist: bool,
    registration: Option<ResourceRegistration>,
}

/// The outcome of a transaction, by its receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiptOutcome {
    /// The transaction was applied: its id, and the version of the receipt since.
    Applied { zxid: i64, version: i32 },
    /// The transaction was not applied.
    NotApplied,
    /// Another client has deleted or written the receipt.
    Unreadable,
}

impl ReceiptNode {
    /// Appends the proof to the operations. From here on the node may exist.
    pub(super) fn prove(&mut self, number: u64, ops: &mut Vec<Op>) {
        self.may_exist = true;
        append(self.zk.core(), &self.path, self.version, number, ops);
    }

    /// Records that the last transaction was not applied, so the node is unchanged.
    pub(super) const fn unwritten(&mut self) {
        self.may_exist = self.version.is_some();
    }

    /// Records that the node does not exist.
    pub(super) const fn gone(&mut self) {
        self.may_exist = false;
    }

    /// Records that a transaction has written the node.
    pub(super) fn written(&mut self, zxid: i64, version: i32) {
        self.version = Some(version);
        if self.registration.is_none() {
            let (token, epoch) = (FencingToken::new(zxid), self.session.epoch);
            let registration = self.zk.core().resources.node(&self.path, token, epoch, false);
            self.registration = Some(registration);
        }
    }

    /// Reads the node, after everything that was sent in this session before. Returns `None` if it
    /// does not exist.
    pub(super) async fn read(&self, raw: &dyn RawClient) -> Result<Option<Data>, RawError> {
        match read_behind_quorum(raw, &self.path, |raw, path| raw.get_data(path)).await {
            Ok(data) => Ok(Some(data)),
            Err(RawError::Refused(ErrorCode::NoNode)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Judges the transaction with this number by the receipt. `read` is `None` if the node does
    /// not exist.
    pub(super) fn judge(&self, number: u64, read: Option<(&[u8], &Stat)>) -> ReceiptOutcome {
        judge(self.version, number, read)
    }
}

impl Drop for ReceiptNode {
    fn drop(&mut self) {
        if !self.may_exist || self.session.lost.is_cancelled() {
            return;
        }
        let (session, path) = (Arc::clone(&self.session), std::mem::take(&mut self.path));
        // The delete comes after everything that was sent before, including a transaction that
        // created the node.
        let first = Some(session.raw.delete(&path, Version::Any));
        self.zk
            .core()
            .owe(Cleanup::Delete(OwedDeletion { first, ..OwedDeletion::of(session, path, true) }));
    }
}

/// Appends the operations that prove a transaction. Two operations are needed to create the node,
/// so that every server returns a stat.
pub(super) fn append(
    core: &Core,
    path: &str,
    version: Option<i32>,
    number: u64,
    ops: &mut Vec<Op>,
) {
    let path = path.to_owned();
    if version.is_none() {
        let (acl, mode) = (core.acl_of(&path), CreateMode::Ephemeral);
        let data = Some(Bytes::new());
        ops.push(Op::Create { path: path.clone(), data, acl, mode, ttl: None });
    }
    ops.push(Op::SetData {
        path,
        data: Some(number.to_string().into()),
        version: version.unwrap_or(0).into(),
    });
}

fn judge(before: Option<i32>, number: u64, read: Option<(&[u8], &Stat)>) -> ReceiptOutcome {
    match (before, read) {
        (_, Some((data, stat))) if data == number.to_string().as_bytes() => {
            ReceiptOutcome::Applied { zxid: stat.mzxid, version: stat.version }
        }
        (Some(before), Some((_, stat))) if stat.version == before => ReceiptOutcome::NotApplied,
        (None, None) => ReceiptOutcome::NotApplied,
        _ => ReceiptOutcome::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_proves_and_only_what_was_there_disproves() {
        let stat = |version| Stat { version, mzxid: 9, ..Stat::default() };
        let applied = |version| ReceiptOutcome::Applied { zxid: 9, version };
        for (before, read, verdict) in [
            (None, None, ReceiptOutcome::NotApplied),
            (None, Some(("7", 1)), applied(1)),
            (None, Some(("6", 1)), ReceiptOutcome::Unreadable),
            (Some(3), Some(("6", 3)), ReceiptOutcome::NotApplied),
            (Some(3), Some(("7", 4)), applied(4)),
            (Some(3), Some(("8", 4)), ReceiptOutcome::Unreadable),
            (Some(3), Some(("", 4)), ReceiptOutcome::Unreadable),
            (Some(3), None, ReceiptOutcome::Unreadable),
        ] {
            let stat = stat(read.map_or(0, |(_, version)| version));
            let seen = read.map(|(data, _)| (data.as_bytes(), &stat));
            assert_eq!(judge(before, 7, seen), verdict, "{before:?} {read:?}");
        }
    }
}
