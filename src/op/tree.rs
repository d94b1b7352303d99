use std::collections::BTreeSet;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator_client::{Data, Read, ReadResponse, Stat};

use super::multi_read::{found, read_chunks, resolve};
use super::{OpFuture, OpTarget, decompression_options};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::path::join;
use crate::schema::Intent;

/// The number of reads in one request.
const PER_REQUEST: usize = 512;
/// A level of at most this many nodes is read in one round trip: the data and the names of the
/// children of every node, in one request. In larger levels the data are read first, and only the
/// nodes that have children are listed.
const FEW: usize = PER_REQUEST / 2;
/// The number of reads that are requested at a time. Their responses are in the memory of the
/// server together.
const AT_ONCE: usize = 8 * PER_REQUEST;

/// A node of a [tree](CuratorFramework::tree), with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeNode {
    /// The path, within the namespace.
    pub path: String,
    /// The data.
    pub data: Bytes,
    /// The stat.
    pub stat: Stat,
}

/// A filter of nodes, by their paths or their names.
pub(super) type NodeFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Reads a node and everything below it, level by level, in one session.
///
/// A level of at most 256 nodes costs one request and one round trip. A larger level costs one
/// request for every 512 nodes, and one for every 512 nodes with children. Its requests share one
/// or two round trips, as long as it has at most 4,096 nodes.
///
/// Fails with `NoNode` if the first node does not exist, and if a node cannot be read for another
/// reason than that it is gone: `Undecodable` if its data cannot be decompressed, `NoAuth`, and so
/// on. Nodes that the [filter](Self::filter) excludes are not read, so they cause no error.
///
/// The retry policy and the deadline of the handle apply to each of its requests.
///
/// # Cancel safety
/// Nothing is changed.
#[must_use = "nothing is sent until it is awaited"]
pub struct TreeBuilder {
    zk: CuratorFramework,
    path: String,
    max_depth: usize,
    filter: Option<NodeFilter>,
    decompressed: Option<bool>,
}

impl CuratorFramework {
    /// Reads a node and everything below it once, with the data.
    ///
    /// **Awaiting returns** `Vec<TreeNode>`: parents before their children, and children in the
    /// order of their names, without the nodes that were deleted during the call. The nodes are not
    /// read at one moment, and all of them are in memory. To follow a tree, use the cache of the
    /// crate `zk-curator-recipes`. See [`TreeBuilder`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zk_curator_testing::TestServer::start().await;
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
    /// # zk.start().await?;
    /// zk.create("/shops/eu/berlin").creating_parents().data("open").await?;
    /// zk.create("/shops/us").data("closed").await?;
    /// let shops = zk.tree("/shops").await?;
    /// let paths: Vec<_> = shops.iter().map(|node| node.path.as_str()).collect();
    /// assert_eq!(paths, ["/shops", "/shops/eu", "/shops/eu/berlin", "/shops/us"]);
    /// assert_eq!(shops[2].data, "open");
    /// # zk.close().await?;
    /// # Ok(()) }
    /// ```
    pub fn tree(&self, path: impl Into<String>) -> TreeBuilder {
        let (zk, path) = (self.clone(), path.into());
        TreeBuilder { zk, path, max_depth: usize::MAX, filter: None, decompressed: None }
    }
}

impl TreeBuilder {
    /// Sets the number of levels below the node; 0 for the node alone. Default: all.
    pub const fn max_depth(mut self, levels: usize) -> Self {
        self.max_depth = levels;
        self
    }

    /// Reads only the nodes below the first one for whose path the filter returns `true`, and whose
    /// parents were read as well. Default: all, including
    /// [receipts](crate::certain::is_receipt) and, in the tree of `/`, the nodes of ZooKeeper.
    pub fn filter(mut self, filter: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }
}

decompression_options!(TreeBuilder);

impl IntoFuture for TreeBuilder {
    type Output = Result<Vec<TreeNode>>;
    type IntoFuture = OpFuture<Vec<TreeNode>>;

    fn into_future(self) -> Self::IntoFuture {
        const OP: &str = "tree";
        let (zk, path) = (self.zk.clone(), self.path.clone());
        // A server of the next session might lag behind a list, and not have its nodes yet.
        let read = async move {
            let tree = &self;
            tree.zk
                .in_one_session(|zk| {
                    let target = OpTarget::new(zk, OP, tree.path.clone());
                    async move { tree.run(&target).await }
                })
                .await
        };
        OpFuture::new(&zk, OP, &path, read)
    }
}

impl fmt::Debug for TreeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeBuilder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl TreeBuilder {
    async fn run(&self, target: &OpTarget) -> Result<Vec<TreeNode>> {
        target.admit(Intent::Read { watched: false })?;
        let mut nodes = Vec::new();
        let mut level = vec![target.path.clone()];
        for depth in 0.. {
            let (found, next) = self.read_level(target, &level, depth < self.max_depth).await?;
            if depth == 0 && found.is_empty() {
                return Err(Error::new(ErrorKind::NoNode, target.operation, &target.path));
            }
            nodes.extend(found);
            level = next;
            if level.is_empty() {
                break;
            }
        }
        nodes.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        Ok(nodes)
    }

    /// Reads the existing nodes of a level. Also returns the next level, which is empty unless
    /// `lists`.
    async fn read_level(
        &self,
        target: &OpTarget,
        level: &[String],
        lists: bool,
    ) -> Result<(Vec<TreeNode>, Vec<String>)> {
        let lists_early = lists && level.len() <= FEW;
        let data = level.iter().cloned().map(Read::Data);
        let early = level.iter().filter(|_| lists_early).cloned().map(Read::Children);
        let mut answers = self.read(target, data.chain(early).collect()).await?;
        let early = answers.split_off(level.len());
        let mut nodes = Vec::with_capacity(level.len());
        for (path, answer) in level.iter().zip(answers) {
            match found(answer)? {
                Some(ReadResponse::Data(Data { data, stat, .. })) => {
                    let data = target.decompress_at(path, self.decompressed, data)?;
                    nodes.push(TreeNode { path: path.clone(), data, stat });
                }
                Some(_) => return Err(Error::new(ErrorKind::Malformed, target.operation, path)),
                None => {}
            }
        }
        if !lists {
            return Ok((nodes, Vec::new()));
        }
        // A list of a node that was created after its data were not found has no parent here.
        let (parents, answers): (Vec<String>, Vec<_>) = if lists_early {
            let read: BTreeSet<_> = nodes.iter().map(|node| node.path.as_str()).collect();
            let lists = level.iter().cloned().zip(early);
            lists.filter(|(path, _)| read.contains(path.as_str())).unzip()
        } else {
            let parents = nodes.iter().filter(|node| node.stat.num_children > 0);
            let parents: Vec<String> = parents.map(|node| node.path.clone()).collect();
            let lists = parents.iter().cloned().map(Read::Children).collect();
            let answers = self.read(target, lists).await?;
            (parents, answers)
        };
        let (next, gone) = self.children(target, parents.into_iter().zip(answers))?;
        nodes.retain(|node| !gone.contains(&node.path));
        Ok((nodes, next))
    }

    /// Returns the paths of the children to read, and the parents that are gone.
    fn children(
        &self,
        target: &OpTarget,
        lists: impl Iterator<Item = (String, Result<ReadResponse>)>,
    ) -> Result<(Vec<String>, BTreeSet<String>)> {
        let (mut next, mut gone) = (Vec::<String>::new(), BTreeSet::new());
        for (parent, answer) in lists {
            match found(answer)? {
                Some(ReadResponse::Children(names)) => {
                    next.extend(names.iter().map(|name| join(&parent, name)));
                }
                Some(_) => return Err(Error::new(ErrorKind::Malformed, target.operation, parent)),
                None => drop(gone.insert(parent)),
            }
        }
        next.retain(|path| self.filter.as_ref().is_none_or(|filter| filter(path)));
        Ok((next, gone))
    }

    async fn read(&self, target: &OpTarget, reads: Vec<Read>) -> Result<Vec<Result<ReadResponse>>> {
        let reads: Vec<_> =
            reads.iter().map(|read| resolve(target, read)).collect::<Result<_>>()?;
        let mut answers = Vec::with_capacity(reads.len());
        for reads in reads.chunks(AT_ONCE) {
            answers.extend(read_chunks(target, reads, PER_REQUEST).await?);
        }
        Ok(answers)
    }
}
