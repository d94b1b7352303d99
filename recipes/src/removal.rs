//! Nodes that are removed with their children, at once.

use zk_curator::op::DeleteOp;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorCode, ErrorKind, Stat};

use crate::path::child;

/// The number of attempts while children come and go, or outcomes are unknown.
const ROUNDS: usize = 50;

/// Which node at a path is to be removed: others may put one of the same name in its place at any time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which<'a> {
    /// The one that is there when the removal begins.
    Present,
    /// The one with this child, whose name no other node has among its children.
    Having(&'a str),
    /// The one whose data have this version, if it is there when the removal begins.
    Version(i32),
}

/// Removes a node and its children in one transaction, or nothing. Unlike a delete of one after the other it cannot be
/// overtaken by children that come back.
///
/// Repeated after a lost answer, it removes the same node or none: [`Which::Having`] is checked by the transaction itself;
/// otherwise the `czxid` is compared before every repetition.
///
/// Dropping the future leaves everything, or nothing.
pub(crate) async fn remove(zk: &CuratorFramework, path: &ZPath, which: Which<'_>) -> Result<(), Error> {
    const OP: &str = "delete";
    let mut first = None;
    for round in 1.. {
        let (children, stat) = match zk.children(path.as_str()).with_stat().await {
            Ok(listed) => listed,
            Err(error) if error.kind() == ErrorKind::NoNode => break,
            // Whatever was sent in an earlier round was not applied: the node was there afterwards.
            Err(error) => return Err(error),
        };
        if !matches!(which, Which::Having(_)) && *first.get_or_insert(stat.czxid) != stat.czxid {
            break;
        }
        let mut deletes = zk.transaction();
        // First of all: without it nothing is deleted.
        let known = if let Which::Having(name) = which { Some(name) } else { None };
        if let Some(name) = known {
            deletes = deletes.with(DeleteOp::new(child(path, name)));
        }
        for name in children.iter().filter(|name| Some(name.as_str()) != known) {
            deletes = deletes.with(DeleteOp::new(child(path, name)));
        }
        let own = DeleteOp::new(path.as_str());
        let own = if let Which::Version(version) = which { own.version(version) } else { own };
        let Err(error) = deletes.with(own).commit().await else { break };
        if round == ROUNDS || !(is_race(&error) || error.may_have_applied()) {
            return Err(error.of_operation(OP));
        }
        let seen = match which {
            Which::Present | Which::Version(_) => zk.exists(path.as_str()),
            Which::Having(name) => zk.exists(child(path, name)),
        };
        let is_it = |stat: Stat| match which {
            Which::Version(version) => stat.version == version,
            Which::Present | Which::Having(_) => true,
        };
        // A read that fails tells nothing of the transaction, and its own error would say that nothing was applied.
        let seen = seen.linearizable().await;
        if !seen.map_err(|_| error.of_operation(OP))?.is_some_and(is_it) {
            break;
        }
    }
    Ok(())
}

/// Whether a transaction was refused because somebody else was there, so that looking again is of use.
pub(crate) fn is_race(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TransactionFailed {
            code: ErrorCode::NoNode | ErrorCode::NodeExists | ErrorCode::BadVersion | ErrorCode::NotEmpty,
            ..
        }
    )
}
