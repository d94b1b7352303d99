use std::sync::Arc;

use futures_util::future::join_all;
use zk_curator::{CuratorFramework, Error, ErrorCode, ErrorKind, OwnedNode, Stat};

/// The outcome of the removal of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) enum Removed {
    /// We have removed it.
    Ours,
    /// Another client has.
    Others,
    /// It is still there.
    Not,
    /// It cannot be removed: somebody has created a node below it.
    HasChildren,
}

/// Removes items: all in one transaction, or each for itself if one of them is not as it was read.
pub(in crate::queue) async fn delete_all(
    zk: CuratorFramework,
    nodes: Vec<(String, Stat)>,
) -> Vec<Result<Removed, Error>> {
    if nodes.len() > 1 {
        let all = nodes.iter().fold(zk.transaction(), |all, (path, stat)| all.delete_if(path, stat.version));
        match all.await {
            Ok(_) => return nodes.iter().map(|_| Ok(Removed::Ours)).collect(),
            Err(error) if error.may_have_applied() => {
                let looks = nodes.iter().map(|(path, stat)| look(&zk, path, stat, error.clone()));
                let looked = join_all(looks).await;
                // All of them or none: where one is left, it was not applied, and cannot be any more.
                if !looked.iter().any(|looked| matches!(looked, Ok(Removed::Not))) {
                    return looked;
                }
            }
            Err(error) if is_of_the_batch(error.kind()) => {}
            Err(error) => return nodes.iter().map(|_| Err(error.clone())).collect(),
        }
    }
    join_all(nodes.iter().map(|(path, stat)| delete(&zk, path, stat))).await
}

/// Whether what cannot be done in one transaction may be done one by one.
const fn is_of_the_batch(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TransactionFailed { .. } | ErrorKind::Unsupported | ErrorKind::TooLarge)
}

async fn delete(zk: &CuratorFramework, path: &str, stat: &Stat) -> Result<Removed, Error> {
    match zk.delete(path).version(stat.version).await {
        Ok(()) => Ok(Removed::Ours),
        Err(error) if error.may_have_applied() => look(zk, path, stat, error).await,
        Err(error) => refused(error),
    }
}

/// After a lost answer: an item is ours if it can be removed again; if it is gone instead, nobody can tell.
async fn look(zk: &CuratorFramework, path: &str, stat: &Stat, lost: Error) -> Result<Removed, Error> {
    match zk.exists(path).linearizable().await {
        Ok(Some(there)) if there.czxid == stat.czxid => Ok(Removed::Not),
        Ok(_) | Err(_) => Err(lost),
    }
}

fn refused(error: Error) -> Result<Removed, Error> {
    match error.kind() {
        ErrorKind::NoNode => Ok(Removed::Others),
        // It has changed since it was read.
        ErrorKind::BadVersion => Ok(Removed::Not),
        ErrorKind::NotEmpty => Ok(Removed::HasChildren),
        _ => Err(error),
    }
}

/// Removes an item and writes its name into our receipt, or neither: that says what has become of it after a lost answer,
/// as long as our session lives.
pub(in crate::queue) async fn delete_with_receipt(
    zk: CuratorFramework,
    path: String,
    stat: Stat,
    receipt: Arc<OwnedNode>,
    name: String,
) -> Result<Removed, Error> {
    loop {
        let delete = zk.transaction().delete_if(&path, stat.version).set_data(receipt.path(), name.clone());
        let Err(error) = delete.await else { return Ok(Removed::Ours) };
        if !error.may_have_applied() {
            return match error.kind() {
                ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NoNode } => Ok(Removed::Others),
                ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NotEmpty } => {
                    Ok(Removed::HasChildren)
                }
                // Changed since it was read, or our receipt is gone with its session: see again.
                ErrorKind::TransactionFailed { .. } => Ok(Removed::Not),
                _ => Err(error),
            };
        }
        // Without our receipt nobody can tell.
        let written = zk.get_data(receipt.path()).linearizable().await.map_err(|_| error.clone())?;
        if written == name {
            return Ok(Removed::Ours);
        }
        // Not applied, and it cannot be any more.
    }
}
