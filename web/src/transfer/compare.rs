//! The comparison of two trees.

use std::sync::Arc;

use zk_curator::CuratorFramework;
use zk_curator_ops::files::TemporaryFile;
use zk_curator_ops::transfer::{DiffScope, DiffTree, NodeDifference, differences};
use zk_curator_ops::{Error, path};

use crate::security::Redaction;

/// The maximum number of nodes of a tree. Each takes the length of its path and about 200 bytes.
pub(crate) const MOST_COMPARED: usize = 50_000;

/// The second tree of a comparison.
#[derive(Debug, Clone)]
pub(crate) enum CompareWith {
    Path(String),
    File(Arc<TemporaryFile>),
}

/// The differences of two trees.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The root of the second tree: in the file, if it is one.
    pub(crate) other: String,
    pub(crate) rows: Vec<DifferenceRow>,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DifferenceRow {
    /// `-`: only in the first tree. `+`: only in the second one. `~`: the node differs. `?`: it
    /// cannot be read.
    pub(crate) sign: char,
    /// The path in the tree that has the node, in the first one if both have it.
    pub(crate) path: String,
    pub(crate) what: String,
}

/// Compares a subtree with another one, or with a backup file. The data and rights of hidden nodes
/// are not compared: a user who may only guess them must not learn if a guess is right.
pub(crate) async fn compare(
    zk: &CuratorFramework,
    redaction: &Redaction,
    root: &str,
    with: CompareWith,
    acls: bool,
) -> Result<Comparison, Error> {
    let scope = DiffScope::new().acls(acls).at_most(MOST_COMPARED);
    let before = DiffTree::of_servers(zk, root, scope).await?;
    let (after, other) = match with {
        CompareWith::Path(path) => (DiffTree::of_servers(zk, &path, scope).await?, path),
        CompareWith::File(file) => DiffTree::of_file(file.path(), scope)?,
    };
    let absolute = |path: &str, root: &str| path::moved(path, "/", root);
    let row = |difference: NodeDifference| {
        let (old, new) = (absolute(difference.path(), root), absolute(difference.path(), &other));
        let (sign, path, what) = match difference {
            NodeDifference::Removed(_) => ('-', old, String::new()),
            NodeDifference::Added(_) => ('+', new, String::new()),
            NodeDifference::Unknown(_, why) => ('?', old, why.to_string()),
            NodeDifference::Changed(..) if redaction.hides(&old) || redaction.hides(&new) => {
                return None;
            }
            NodeDifference::Changed(_, what) => ('~', old, what.join(", ")),
        };
        Some(DifferenceRow { sign, path, what })
    };
    let rows = differences(&before, &after).into_iter().filter_map(row).collect();
    Ok(Comparison { other, rows })
}
