//! Adds up the sizes of subtrees.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! # zk.create("/a/b").creating_parents().data("xyz").await?;
//! use zk_curator_ops::tree::du;
//!
//! let sizes = du::usage(&zk, "/a", 0).await?;
//! let of_root = &sizes.subtrees["/a"];
//! assert_eq!((of_root.bytes, of_root.nodes, of_root.largest), (3, 2, 3));
//! # Ok(()) }
//! ```

use std::collections::BTreeMap;

use zk_curator::{CuratorFramework, Error};

use super::unreadable::UnreadableNodes;
use super::walk;
use crate::path;

/// The size of a subtree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SubtreeUsage {
    /// The bytes of the data of all nodes.
    pub bytes: usize,
    /// The number of nodes, with the root of the subtree.
    pub nodes: usize,
    /// The bytes of the largest node.
    pub largest: usize,
}

/// The sizes of the subtrees below a node.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct UsageReport {
    /// The subtrees, by the paths of their roots.
    pub subtrees: BTreeMap<String, SubtreeUsage>,
    /// The nodes that could not be read. They, and nodes below them, are missing in the sizes.
    pub unreadable: UnreadableNodes,
}

/// Reads a subtree, and adds up the sizes of the subtrees in it. `depth` is the greatest depth of
/// their roots; 0 is `root` alone.
///
/// # Errors
/// Those of the framework. A node that cannot be read is not an error, unless it is the root.
pub async fn usage(zk: &CuratorFramework, root: &str, depth: usize) -> Result<UsageReport, Error> {
    let nodes = walk::list(zk, root, usize::MAX, |_| true).await?;
    let mut unreadable = walk::hidden(&nodes);
    let paths: Vec<_> = nodes.into_iter().map(|node| node.path).collect();
    let deepest = steps(root).saturating_add(depth);
    let mut subtrees = BTreeMap::<String, SubtreeUsage>::new();
    let unread = walk::read(zk, &paths, |node| {
        let size = node.data.len();
        let mut above = path::ancestors(&node.path);
        above.push(node.path);
        let counted = above.into_iter().filter(|path| path::is_within(path, root));
        for path in counted.filter(|path| steps(path) <= deepest) {
            let usage = subtrees.entry(path).or_default();
            usage.bytes += size;
            usage.nodes += 1;
            usage.largest = usage.largest.max(size);
        }
    });
    unreadable.extend(unread.await?);
    Ok(UsageReport { subtrees, unreadable })
}

/// Returns the number of steps from the root of the tree.
fn steps(path: &str) -> usize {
    if path == "/" { 0 } else { path.matches('/').count() }
}
