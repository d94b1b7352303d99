use std::collections::BTreeSet;

use zk_curator::op::ReadResult;
use zk_curator::{CuratorFramework, Error as ZkError, ErrorKind, Stat};

use super::error::Error;
use super::space::receipts;
use super::transaction::Stm;
use crate::path::child;

/// A node of a space that is not as transactions leave it: see [`Stm::audit`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Intrusion {
    /// The path of the node.
    pub path: String,
    /// The reason for the report.
    pub kind: IntrusionKind,
}

/// The reason why a node of a space is reported by [`Stm::audit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IntrusionKind {
    /// A child was created or deleted without a write of the root, after the last transaction that
    /// did so.
    ChildrenChanged {
        /// The transaction id of that change.
        zxid: i64,
    },
    /// The node is ephemeral, a container or has a time to live: the server deletes it without a
    /// write of the root.
    MayVanish,
}

impl Stm {
    /// Looks for clients that create or delete nodes of the spaces without these transactions.
    ///
    /// Reads all nodes, one level of the tree at a time, and compares the last change of their
    /// children with the last write of the root. So it finds only changes after the last
    /// transaction that has created or deleted nodes in that space, or that has written its root.
    /// Without a space, it returns nothing.
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework. A missing root is an empty space.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn audit(&self) -> Result<Vec<Intrusion>, Error> {
        let site = self.site();
        site.scope.check()?;
        let mut found = Vec::new();
        for root in site.scope.roots() {
            audit_space(&site.zk, root, &mut found).await?;
        }
        Ok(found)
    }
}

async fn audit_space(
    zk: &CuratorFramework,
    root: &str,
    found: &mut Vec<Intrusion>,
) -> Result<(), ZkError> {
    let receipts = receipts(root);
    let mut changes: Vec<(String, i64)> = Vec::new();
    let mut receipts_created = None;
    let mut level = BTreeSet::from([root.to_owned()]);
    while !level.is_empty() {
        let mut next = BTreeSet::new();
        for (path, stat, names) in read(zk, level).await? {
            let may_vanish = stat.ephemeral_owner != 0;
            if may_vanish && path != root {
                let kind = IntrusionKind::MayVanish;
                found.push(Intrusion { path: path.clone(), kind });
            }
            if path == receipts {
                receipts_created = Some(stat.czxid);
            } else {
                next.extend(names.iter().map(|name| child(&path, name)));
                // A node without changes since it was created shows in its parent.
                if stat.pzxid > stat.czxid {
                    changes.push((path, stat.pzxid));
                }
            }
        }
        level = next;
    }
    // Read last: all changes of transactions that were seen before are not after it.
    let Some(last) = zk.exists(root).await? else { return Ok(()) };
    // The node of the receipts is created without a write of the root.
    changes.retain(|(path, zxid)| path != root || Some(*zxid) != receipts_created);
    let intrusion = |(path, zxid)| {
        let kind = IntrusionKind::ChildrenChanged { zxid };
        Intrusion { path, kind }
    };
    found.extend(changes.into_iter().filter(|(_, zxid)| *zxid > last.mzxid).map(intrusion));
    Ok(())
}

/// Reads nodes and lists their children. Leaves out the nodes that do not exist.
async fn read(
    zk: &CuratorFramework,
    paths: BTreeSet<String>,
) -> Result<Vec<(String, Stat, Vec<String>)>, ZkError> {
    let mut request = zk.multi_read().undecompressed();
    for path in &paths {
        request = request.get_data(path).children(path);
    }
    let mut results = request.await?.into_iter();
    let mut nodes = Vec::with_capacity(paths.len());
    for path in paths {
        let node = found(results.next())?.and_then(ReadResult::into_data);
        let children = found(results.next())?.and_then(ReadResult::into_children);
        if let (Some((_, stat)), Some(children)) = (node, children) {
            nodes.push((path, stat, children));
        }
    }
    Ok(nodes)
}

fn found<T>(result: Option<Result<T, ZkError>>) -> Result<Option<T>, ZkError> {
    match result {
        Some(Err(error)) if error.kind() == ErrorKind::NoNode => Ok(None),
        result => result.transpose(),
    }
}
