use std::slice;
use std::sync::Arc;

use futures_util::future::join_all;
use zk_curator::internal::{ResolvedOutcome, resolve};
use zk_curator::{CuratorFramework, Error, ErrorCode, ErrorKind, OwnedNode, Stat};

/// The outcome of the removal of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) enum RemovalOutcome {
    /// We have removed it.
    Ours,
    /// Another client has.
    Others,
    /// It still exists.
    Not,
    /// It cannot be removed, because another client has created a node below it.
    HasChildren,
}

/// Removes items in one transaction, or separately if one of them has changed since it was read.
pub(in crate::queue) async fn delete_all(
    zk: CuratorFramework,
    nodes: Vec<(String, Stat)>,
) -> Vec<Result<RemovalOutcome, Error>> {
    if nodes.len() > 1 {
        let delete = || {
            nodes
                .iter()
                .fold(zk.transaction(), |all, (path, stat)| all.delete_if(path, stat.version))
        };
        match resolve(delete, || still_there(&zk, &nodes)).await {
            Ok(_) => return nodes.iter().map(|_| Ok(RemovalOutcome::Ours)).collect(),
            Err(error) if is_of_the_batch(error.kind()) && !error.may_have_applied() => {}
            Err(error) => return nodes.iter().map(|_| refused(error.clone())).collect(),
        }
    }
    join_all(nodes.iter().map(|node| delete(&zk, node))).await
}

/// Returns `true` if operations that were refused as one transaction may succeed one by one.
const fn is_of_the_batch(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::TransactionFailed { .. } | ErrorKind::Unsupported | ErrorKind::TooLarge
    )
}

async fn delete(zk: &CuratorFramework, node: &(String, Stat)) -> Result<RemovalOutcome, Error> {
    let delete = || zk.delete(&node.0).version(node.1.version);
    match resolve(delete, || still_there(zk, slice::from_ref(node))).await {
        Ok(_) => Ok(RemovalOutcome::Ours),
        Err(error) => refused(error),
    }
}

/// Looks for items after a lost response. All were removed or none: if one still exists, they can
/// be removed again. If none exists, the outcome is unknown.
async fn still_there(
    zk: &CuratorFramework,
    nodes: &[(String, Stat)],
) -> Result<ResolvedOutcome, Error> {
    let is_there = async |(path, stat): &(String, Stat)| {
        let there = zk.exists(path).linearizable().await;
        there.is_ok_and(|there| there.is_some_and(|there| there.czxid == stat.czxid))
    };
    let there = join_all(nodes.iter().map(is_there)).await;
    Ok(if there.contains(&true) { ResolvedOutcome::NotApplied } else { ResolvedOutcome::Unknown })
}

fn refused(error: Error) -> Result<RemovalOutcome, Error> {
    match (error.kind(), error.code()) {
        (_, Some(ErrorCode::NotEmpty)) => Ok(RemovalOutcome::HasChildren),
        // Our receipt has ended with its session: read again.
        (ErrorKind::TransactionFailed { index: 1.., .. }, _) => Ok(RemovalOutcome::Not),
        (_, Some(ErrorCode::NoNode)) => Ok(RemovalOutcome::Others),
        // It has changed since it was read.
        (_, Some(ErrorCode::BadVersion)) => Ok(RemovalOutcome::Not),
        _ => Err(error),
    }
}

/// Removes an item and writes its name into our receipt, in one transaction. After a lost response
/// the receipt shows the outcome, as long as our session lives.
pub(in crate::queue) async fn delete_with_receipt(
    zk: CuratorFramework,
    path: String,
    stat: Stat,
    receipt: Arc<OwnedNode>,
    name: String,
) -> Result<RemovalOutcome, Error> {
    let delete =
        || zk.transaction().delete_if(&path, stat.version).set_data(receipt.path(), name.clone());
    let look = async || {
        let written = zk.get_data(receipt.path()).linearizable().await?;
        Ok(if written == name { ResolvedOutcome::Applied } else { ResolvedOutcome::NotApplied })
    };
    match resolve(delete, look).await {
        Ok(_) => Ok(RemovalOutcome::Ours),
        Err(error) => refused(error),
    }
}
