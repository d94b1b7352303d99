//! Nodes that are removed with their children, at once.

use zk_curator::op::DeleteOp;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorKind};

use crate::contender::child;

/// How often it begins anew because children come and go, or because nobody knows what came of it.
const ROUNDS: usize = 50;

/// Removes a node and its children in one transaction, or nothing; nothing, too, if the data of the node have another
/// version. Unlike a delete of one after the other it cannot be overtaken by children that come back.
///
/// Dropping the future leaves everything, or nothing.
pub(crate) async fn remove(zk: &CuratorFramework, path: &ZPath, version: Option<i32>) -> Result<(), Error> {
    for round in 1.. {
        let children = match zk.children(path.as_str()).await {
            Ok(children) => children,
            Err(error) if error.kind() == ErrorKind::NoNode => break,
            Err(error) => return Err(error),
        };
        let mut deletes = zk.transaction();
        for name in children {
            deletes = deletes.with(DeleteOp::new(child(path, &name)));
        }
        let own = DeleteOp::new(path.as_str());
        let own = if let Some(version) = version { own.version(version) } else { own };
        let Err(error) = deletes.with(own).commit().await else { break };
        let raced = matches!(error.kind(), ErrorKind::TransactionFailed { .. }) || error.may_have_applied();
        if round == ROUNDS || !raced {
            return Err(error);
        }
        zk.sync(path.as_str()).await?;
        match zk.exists(path.as_str()).await? {
            Some(stat) if version.is_none_or(|version| version == stat.version) => {}
            Some(_) | None => break,
        }
    }
    Ok(())
}
