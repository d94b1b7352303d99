//! Nodes that are removed with their children, in one transaction.

use zk_curator::op::DeleteOp;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorCode, ErrorKind};

use crate::path::child;
use crate::race::{RACE_ROUNDS, is_race};

/// Removes a node and its children in one transaction, or nothing; with an identity, only the node
/// that has this child. Unlike a delete of one after the other it cannot be overtaken by children
/// that come back.
///
/// Repeated after a lost response, it removes the same node or none: an identity is checked by the
/// transaction itself; otherwise the `czxid` is compared before every repetition.
///
/// Dropping the future leaves everything, or nothing.
pub(crate) async fn remove(
    zk: &CuratorFramework,
    path: &ZPath,
    identity: Option<&str>,
) -> Result<(), Error> {
    const OP: &str = "delete";
    let mut first = None;
    for round in 1.. {
        let (children, stat) = match zk.children(path.as_str()).with_stat().await {
            Ok(listed) => listed,
            Err(error) if error.kind() == ErrorKind::NoNode => break,
            // Whatever was sent in an earlier round was not applied: the node was there afterwards.
            Err(error) => return Err(error),
        };
        if identity.is_none() && *first.get_or_insert(stat.czxid) != stat.czxid {
            break;
        }
        let mut deletes = zk.transaction();
        // First of all: without it nothing is deleted.
        if let Some(name) = identity {
            deletes = deletes.with(DeleteOp::new(child(path, name)));
        }
        for name in children.iter().filter(|name| Some(name.as_str()) != identity) {
            deletes = deletes.with(DeleteOp::new(child(path, name)));
        }
        let Err(error) = deletes.with(DeleteOp::new(path.as_str())).commit().await else { break };
        let may_help = is_race(&error)
            || error.code() == Some(ErrorCode::NotEmpty)
            || error.may_have_applied();
        if round == RACE_ROUNDS || !may_help {
            return Err(error.of_operation(OP));
        }
        let unknown = error.of_operation(OP);
        let own = identity.map_or_else(|| path.to_string(), |name| child(path, name));
        if zk.exists(own).linearizable().await.map_err(|_| unknown)?.is_none() {
            break;
        }
    }
    Ok(())
}
