use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use zk_curator_client::{CreateMode, Data, Error as RawError, ErrorCode, Op, Stat, Version};

use crate::core::{Chore, Core, Deletion, FencingToken, Session, Ticket, read_behind_quorum};
use crate::framework::CuratorFramework;
use crate::path::join;
use crate::raw::RawClient;
use crate::retry::Budget;

/// Proof that [certain](crate::op::Transaction::certain) transactions were applied.
///
/// Cheap to clone; clones are the same receipt. Transactions of one receipt are sent one at a time: tasks that should
/// not wait for each other have one each. It holds its framework open, as guards do.
///
/// # Cancel safety
/// The node is deleted in the background when the last clone is dropped, and ends with its session in any case.
#[derive(Clone)]
pub struct Receipt {
    zk: CuratorFramework,
    parent: String,
    turn: Arc<Mutex<Turn>>,
}

impl Receipt {
    /// A receipt below a node that exists; the path is within the namespace. Its node is created by the first
    /// transaction, and by the first one in every later session.
    ///
    /// The parent may be any node that may have children; a listing of it shows one more. An invalid path fails the
    /// transaction.
    pub fn at(zk: &CuratorFramework, parent: impl Into<String>) -> Self {
        Self { zk: zk.clone(), parent: parent.into(), turn: Arc::default() }
    }

    /// The parent, within the namespace.
    #[must_use]
    pub fn parent(&self) -> &str {
        &self.parent
    }

    pub(super) const fn zk(&self) -> &CuratorFramework {
        &self.zk
    }

    /// Waits until no other transaction is outstanding.
    pub(super) async fn turn(&self, budget: &Budget<'_>) -> Result<MutexGuard<'_, Turn>, RawError> {
        match budget.time_left() {
            None => Ok(self.turn.lock().await),
            Some(left) => {
                let turn = timeout(left, self.turn.lock()).await;
                turn.map_err(|_| RawError::DeadlineExceeded { sent: false })
            }
        }
    }

    /// A node that is not there yet, for this session.
    pub(super) fn slip(&self, session: &Arc<Session>) -> Slip {
        let core = self.zk.core();
        let path = self.server_path(&core.random.guid());
        Slip {
            zk: self.zk.clone(),
            session: Arc::clone(session),
            path,
            version: None,
            owed: false,
            ticket: None,
        }
    }

    pub(super) fn server_path(&self, guid: &str) -> String {
        join(&self.zk.ns().apply(&self.parent), &format!("_r_{guid}"))
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("parent", &self.parent).finish_non_exhaustive()
    }
}

/// The state that the transactions of a receipt hand on to each other.
#[derive(Default)]
pub(super) struct Turn {
    /// Of the last transaction: no two have the same.
    number: u64,
    /// The node, if it is known what it holds.
    slip: Option<Slip>,
}

impl Turn {
    pub(super) const fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Takes the node to write in this session. While it is taken, its content is not known; dropped then, it is
    /// deleted.
    pub(super) fn take(&mut self, session: &Arc<Session>) -> Option<Slip> {
        // Versions that do not count up any longer are not relied on.
        let fit = |slip: &Slip| {
            Arc::ptr_eq(&slip.session, session) && slip.version.is_none_or(|version| version < i32::MAX)
        };
        self.slip.take().filter(fit)
    }

    pub(super) fn put(&mut self, slip: Slip) {
        self.slip = Some(slip);
    }
}

/// The node of a receipt in one session. Dropped, it owes the deletion.
pub(super) struct Slip {
    zk: CuratorFramework,
    pub(super) session: Arc<Session>,
    /// On the server.
    pub(super) path: String,
    /// Once it is there.
    pub(super) version: Option<i32>,
    /// Whether it may be there.
    owed: bool,
    ticket: Option<Ticket>,
}

/// The outcome of a transaction, by its receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was applied: the transaction, and the version of the receipt since.
    Applied { zxid: i64, version: i32 },
    /// It was not.
    NotApplied,
    /// Another client has deleted or written it.
    Unreadable,
}

impl Slip {
    /// Appends the proof to the operations. From here on the node may be there.
    pub(super) fn prove(&mut self, number: u64, ops: &mut Vec<Op>) {
        self.owed = true;
        append(self.zk.core(), &self.path, self.version, number, ops);
    }

    /// The last transaction was not applied: the node is as it was before.
    pub(super) const fn unwritten(&mut self) {
        self.owed = self.version.is_some();
    }

    /// The node is gone.
    pub(super) const fn gone(&mut self) {
        self.owed = false;
    }

    /// A transaction has written it.
    pub(super) fn written(&mut self, zxid: i64, version: i32) {
        self.version = Some(version);
        if self.ticket.is_none() {
            let (token, epoch) = (FencingToken::new(zxid), self.session.epoch);
            let ticket = self.zk.core().held.node(&self.path, token, epoch, false);
            self.ticket = Some(ticket);
        }
    }

    /// Reads it, after everything that was sent in this session before: `None` if it is not there.
    pub(super) async fn read(&self, raw: &dyn RawClient) -> Result<Option<Data>, RawError> {
        match read_behind_quorum(raw, &self.path, |raw, path| raw.get_data(path)).await {
            Ok(data) => Ok(Some(data)),
            Err(RawError::Refused(ErrorCode::NoNode)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Judges the transaction of this number by what was read: `None` if the node is not there.
    pub(super) fn judge(&self, number: u64, read: Option<(&[u8], &Stat)>) -> Verdict {
        judge(self.version, number, read)
    }
}

impl Drop for Slip {
    fn drop(&mut self) {
        if !self.owed || self.session.lost.is_cancelled() {
            return;
        }
        let (session, path) = (Arc::clone(&self.session), std::mem::take(&mut self.path));
        // After everything that was sent before: also after a transaction that has created it.
        let first = Some(session.raw.delete(&path, Version::Any));
        self.zk.core().owe(Chore::Delete(Deletion { first, ..Deletion::of(session, path, true) }));
    }
}

/// Appends the operations that prove a transaction: two, where the node has to be created, so that there is a stat in
/// the answer of every server.
pub(super) fn append(core: &Core, path: &str, version: Option<i32>, number: u64, ops: &mut Vec<Op>) {
    let path = path.to_owned();
    if version.is_none() {
        let (acl, mode) = (core.acl_of(&path), CreateMode::Ephemeral);
        ops.push(Op::Create { path: path.clone(), data: Bytes::new(), acl, mode, ttl: None });
    }
    ops.push(Op::SetData { path, data: number.to_string().into(), version: version.unwrap_or(0).into() });
}

fn judge(before: Option<i32>, number: u64, read: Option<(&[u8], &Stat)>) -> Verdict {
    match (before, read) {
        (_, Some((data, stat))) if data == number.to_string().as_bytes() => {
            Verdict::Applied { zxid: stat.mzxid, version: stat.version }
        }
        (Some(before), Some((_, stat))) if stat.version == before => Verdict::NotApplied,
        (None, None) => Verdict::NotApplied,
        _ => Verdict::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_proves_and_only_what_was_there_disproves() {
        let stat = |version| Stat { version, mzxid: 9, ..Stat::default() };
        let applied = |version| Verdict::Applied { zxid: 9, version };
        for (before, read, verdict) in [
            (None, None, Verdict::NotApplied),
            (None, Some(("7", 1)), applied(1)),
            (None, Some(("6", 1)), Verdict::Unreadable),
            (Some(3), Some(("6", 3)), Verdict::NotApplied),
            (Some(3), Some(("7", 4)), applied(4)),
            (Some(3), Some(("8", 4)), Verdict::Unreadable),
            (Some(3), Some(("", 4)), Verdict::Unreadable),
            (Some(3), None, Verdict::Unreadable),
        ] {
            let stat = stat(read.map_or(0, |(_, version)| version));
            let seen = read.map(|(data, _)| (data.as_bytes(), &stat));
            assert_eq!(judge(before, 7, seen), verdict, "{before:?} {read:?}");
        }
    }
}
