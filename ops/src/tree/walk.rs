//! Walks over subtrees, in requests for many nodes at a time.
//!
//! A walk lists at most 1,024 nodes in a request, and 4,096 at a time. Data are read in batches
//! that begin with 32 nodes and grow only while responses stay below 1 MiB.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! # zk.create("/a/b").creating_parents().data("xyz").await?;
//! use zk_curator_ops::tree::walk;
//!
//! let nodes = walk::list(&zk, "/a", usize::MAX, |_| true).await?;
//! let paths: Vec<_> = nodes.into_iter().map(|node| node.path).collect();
//! let mut bytes = 0;
//! let unreadable = walk::read(&zk, &paths, |node| bytes += node.data.len()).await?;
//! assert_eq!((paths.len(), bytes, unreadable.len()), (2, 3, 0));
//! # Ok(()) }
//! ```

use bytes::Bytes;
use zk_curator::op::ReadResult;
use zk_curator::{CuratorFramework, Error, ErrorKind, Stat};

use super::unreadable::UnreadableNodes;
use crate::path;

/// The lists of children in one request.
const LISTS_PER_REQUEST: usize = 1_024;
/// The lists that are requested at a time. Their answers are in memory together.
const LISTS_AT_ONCE: usize = 4 * LISTS_PER_REQUEST;
/// The number of nodes whose data are requested first, before anything is known of their sizes.
const FIRST_READS: usize = 32;
/// More reads are requested at a time as long as answers are smaller than this, in bytes.
const SMALL: usize = 1 << 20;

/// A node, without its data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ListedNode {
    /// The path.
    pub path: String,
    /// The number of steps from the root of the walk.
    pub depth: usize,
    /// The names of the children, sorted.
    pub children: Vec<String>,
    /// The reason why the children could not be listed: there may be some.
    pub hidden: Option<ErrorKind>,
}

/// A node with its data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WalkNode {
    /// The path.
    pub path: String,
    /// The stored data; empty for null data.
    pub data: Bytes,
    /// The stat.
    pub stat: Stat,
}

/// Lists the nodes of a subtree down to a depth, level by level, so parents come first. Depth 0 is
/// the root alone. `keep` decides by its path if a node, and everything below it, is visited. Nodes
/// that are deleted during the walk are left out. Nodes that cannot be read are not: their parents
/// name them.
///
/// # Errors
/// Those of the framework: `NoNode` if the root does not exist, and `NoAuth` if it cannot be read.
pub async fn list(
    zk: &CuratorFramework,
    root: &str,
    depth: usize,
    keep: impl Fn(&str) -> bool,
) -> Result<Vec<ListedNode>, Error> {
    let mut found = Vec::new();
    let mut level = vec![root.to_owned()];
    for at in 0..=depth {
        let mut next = Vec::new();
        for paths in level.chunks(LISTS_AT_ONCE) {
            let mut lists = zk.multi_read().per_request(LISTS_PER_REQUEST);
            for path in paths {
                lists = lists.children(path);
            }
            for (path, answer) in paths.iter().zip(lists.await?) {
                let (mut children, hidden) = match answer.map(ReadResult::into_children) {
                    Ok(children) => (children.unwrap_or_default(), None),
                    Err(error) if at == 0 => return Err(error),
                    Err(error) if error.kind() == ErrorKind::NoNode => continue,
                    Err(error) => (Vec::new(), Some(error.kind())),
                };
                children.sort_unstable();
                if at < depth {
                    let below = children.iter().map(|name| path::join(path, name));
                    next.extend(below.filter(|path| keep(path)));
                }
                found.push(ListedNode { path: path.clone(), depth: at, children, hidden });
            }
        }
        level = next;
        if level.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Returns the nodes whose children could not be listed.
#[must_use]
pub fn hidden<'a>(nodes: impl IntoIterator<Item = &'a ListedNode>) -> UnreadableNodes {
    let hidden = nodes.into_iter().filter_map(|node| Some((node.path.clone(), node.hidden?)));
    hidden.collect()
}

/// Reads the data of nodes, and passes each node to `with`, in their order. Nodes that were deleted
/// are left out. Returns the nodes that cannot be read.
///
/// # Errors
/// Those of the framework, except the errors of single nodes.
pub async fn read(
    zk: &CuratorFramework,
    paths: &[String],
    mut with: impl FnMut(WalkNode),
) -> Result<UnreadableNodes, Error> {
    let (mut unreadable, mut pace) = (UnreadableNodes::default(), WalkPace::up_to(LISTS_AT_ONCE));
    let mut rest = paths;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(pace.nodes().min(rest.len()));
        for (path, answer) in now.iter().zip(read_each(zk, now, &mut pace).await?) {
            match answer {
                Ok((data, stat)) => {
                    with(WalkNode { path: path.clone(), data: data.unwrap_or_default(), stat });
                }
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => unreadable.extend([(path.clone(), error.kind())]),
            }
        }
        rest = later;
    }
    Ok(unreadable)
}

/// The number of nodes to read at a time, by the sizes of those that were read.
#[derive(Debug)]
pub(crate) struct WalkPace {
    nodes: usize,
    most: usize,
}

impl WalkPace {
    pub(crate) const fn up_to(most: usize) -> Self {
        Self { nodes: FIRST_READS, most }
    }

    pub(crate) const fn nodes(&self) -> usize {
        self.nodes
    }

    fn adapt(&mut self, bytes: usize) {
        self.nodes = match bytes {
            0..SMALL => (self.nodes * 2).min(self.most),
            _ => (self.nodes / 2).max(1),
        };
    }
}

/// The answer of a node: its data, or `None` for null data, and its stat. The error is `NoNode` if
/// it was deleted; otherwise it cannot be read.
pub(crate) type WalkReply = Result<(Option<Bytes>, Stat), Error>;

/// Reads the data of these nodes in one round trip, and adapts the pace.
pub(crate) async fn read_each(
    zk: &CuratorFramework,
    paths: &[String],
    pace: &mut WalkPace,
) -> Result<Vec<WalkReply>, Error> {
    let mut reads = zk.multi_read().undecompressed().per_request(LISTS_PER_REQUEST);
    for path in paths {
        reads = reads.get_data(path);
    }
    let (mut bytes, mut nodes) = (0, Vec::with_capacity(paths.len()));
    for answer in reads.await? {
        nodes.push(match answer {
            Ok(ReadResult::Data { data, is_null, stat }) => {
                bytes += data.len();
                Ok(((!is_null).then_some(data), stat))
            }
            Err(error) => Err(error),
            Ok(_) => continue,
        });
    }
    pace.adapt(bytes);
    Ok(nodes)
}

/// Returns `true` for errors of single nodes, which do not end a walk.
pub(crate) fn is_left_out(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoNode | ErrorKind::NoAuth)
}
