use std::collections::BTreeMap;

use zk_curator::internal::ancestors;
use zk_curator::op::{MultiReadBuilder, ReadResult, fan_out};
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::{CuratorFramework, Error, ErrorKind};

use super::finding::{Finding, RecipeKind};
use super::layout::semaphore::{KAZOO_LOCK, add_lock};
use super::node::Node;
use super::recognise::{may_contain_recipes, recognise, recognise_all};
use crate::path::child;

/// The maximum number of nodes that [`inspect`] reads.
const MOST_NODES: usize = 2048;
/// The maximum number of nodes that [`glance`] reads below a node, in one request.
const MOST_GLANCED: usize = 256;
/// The number of nodes that are read at a time while the size of the data is limited.
const BATCH: usize = 256;
/// The approximate size of a node in memory in addition to its name and its data.
const NODE_BYTES: usize = 256;
/// The deepest recipe: the claim to an item of a queue is four levels below the queue.
const DEPTH: usize = 4;
/// Directories of recipes. Below other nodes, only the children say which recipe it is.
const DIRECTORIES: [&str; 7] =
    ["leases", "items", "entries", "executing", "party", "members", "values"];
/// While a level has at most this many nodes, they are listed in the request that reads them.
const FEW: usize = 16;

/// Finds out which recipe is at a path, who holds it and who waits. If the node belongs to a recipe
/// above it, for example as the node of a contender, that recipe is returned: compare
/// [`Finding::path`].
///
/// Reads at most 2,048 nodes. Of a larger recipe it knows the names of all contenders, and reads
/// those with the lowest numbers: see [`Finding::is_partial`]. Two round trips for a lock or an
/// election, three for a semaphore, at most six for queues. The nodes are not read at one moment,
/// and the connected server may lag.
///
/// # Errors
/// `NoNode` if there is no such node; otherwise as a [`multi_read`](CuratorFramework::multi_read).
/// Other nodes that cannot be read are treated as nodes that were not read.
///
/// # Cancel safety
/// Nothing is changed.
pub async fn inspect(zk: &CuratorFramework, path: impl Into<String>) -> Result<Finding, Error> {
    let path = ZPath::for_operation("inspect", path)?;
    let zk = zk.uncompressed();
    let mut tree = start(chain(&zk, &path).await?);
    let depth = depth_of(&tree);
    NodeReader::new(&zk, MOST_NODES, depth).read_below(&mut tree).await?;
    let mut finding = recognise(&tree);
    if finding.has_own_lock() {
        let lock = ZPath::for_operation("inspect", format!("{}{KAZOO_LOCK}", finding.path))?;
        match read_tree(NodeReader::new(&zk, MOST_NODES - 1, 1), &lock).await {
            Ok((lock, _)) => add_lock(&mut finding, recognise(&lock)),
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            Err(error) => return Err(error),
        }
    }
    Ok(finding)
}

/// Finds out the same as [`inspect`] in two round trips, whatever the recipe is.
///
/// Reads the node, the nodes above it, and at most 256 nodes below the recipe. That is all of a
/// lock or an election with fewer contenders. Of a recipe with directories, such as a semaphore or
/// a queue, the nodes in the directories are known by their names only, or not at all:
/// [`Finding::is_partial`] is `true` then, and a missing holder means nothing. The waiters of
/// kazoo's semaphores are not read.
///
/// # Errors
/// As [`inspect`].
///
/// # Cancel safety
/// Nothing is changed.
pub async fn glance(zk: &CuratorFramework, path: impl Into<String>) -> Result<Finding, Error> {
    let path = ZPath::for_operation("inspect", path)?;
    let zk = zk.uncompressed();
    let mut tree = start(chain(&zk, &path).await?);
    NodeReader::new(&zk, MOST_GLANCED, 1).read_children(&mut tree).await?;
    Ok(recognise(&tree))
}

/// The recipes below a node, and the extent of the search.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// The recipes, sorted by path: see [`recognise_all`].
    pub findings: Vec<Finding>,
    /// The number of nodes that were read.
    pub nodes: usize,
    /// `true` if all nodes were read that can be read: no limit was reached.
    pub is_complete: bool,
    /// The paths of the nodes that could not be read, sorted, with the reasons: `NoAuth`, or for
    /// example `ResponseTooLarge`. There may be recipes at these nodes. Below them the search goes
    /// on if their children could be listed.
    pub unreadable: Vec<(String, ErrorKind)>,
}

/// Finds all recipes at a node and below it, except in the servers' `/zookeeper`. Reads at most
/// `limit` nodes,
/// level by level: one or two round trips for each level, with one request for every 256 nodes.
///
/// # Errors
/// As [`inspect`]. The errors of other nodes than the first one are in
/// [`unreadable`](Found::unreadable).
///
/// # Cancel safety
/// Nothing is changed.
pub async fn find(
    zk: &CuratorFramework,
    root: impl Into<String>,
    limit: usize,
) -> Result<Found, Error> {
    find_within(zk, root, limit, usize::MAX).await
}

/// Finds the same as [`find`], and also stops when the nodes take about `bytes` of memory: their
/// data, and the names of all listed children. They are read one request after the other, and the
/// limit is checked after each of them, so it may be exceeded by one response.
///
/// # Errors
/// As [`find`].
///
/// # Cancel safety
/// Nothing is changed.
pub async fn find_within(
    zk: &CuratorFramework,
    root: impl Into<String>,
    limit: usize,
    bytes: usize,
) -> Result<Found, Error> {
    let root = ZPath::for_operation("find", root)?;
    let zk = zk.uncompressed();
    let reader = NodeReader::new(&zk, limit.saturating_sub(1), usize::MAX).within(bytes);
    let (tree, reader) = read_tree(reader, &root).await?;
    let (nodes, is_complete) = (reader.read + 1, !reader.was_cut);
    let unreadable = reader.unreadable.into_iter().collect();
    Ok(Found { findings: recognise_all(&tree), nodes, is_complete, unreadable })
}

/// Reads a node and the nodes below it. The reader says what it has read below the node.
async fn read_tree<'z>(
    mut reader: NodeReader<'z>,
    path: &ZPath,
) -> Result<(Node, NodeReader<'z>), Error> {
    let mut nodes = read_nodes(reader.zk, vec![path.as_str().to_owned()]).await?;
    let mut tree = nodes.pop().expect("invariant: one result for each path")?;
    reader.spend(NodeReadKind::Data.bytes(&tree) + NodeReadKind::Names.bytes(&tree));
    reader.read_below(&mut tree).await?;
    Ok((tree, reader))
}

/// Reads a node and the nodes above it, without the root, in one round trip: the node comes first.
async fn chain(zk: &CuratorFramework, path: &ZPath) -> Result<Vec<Node>, Error> {
    let path = path.as_str();
    let paths = ancestors(path).take(DEPTH + 1).filter(|above| *above == path || *above != "/");
    let mut nodes = read_nodes(zk, paths.map(str::to_owned).collect()).await?.into_iter();
    let first = nodes.next().expect("invariant: one result for each path")?;
    // Permission to read the nodes above it is not necessary.
    Ok([first].into_iter().chain(nodes.map_while(Result::ok)).collect())
}

/// Reads these nodes and the names of their children.
async fn read_nodes(
    zk: &CuratorFramework,
    paths: Vec<String>,
) -> Result<Vec<Result<Node, Error>>, Error> {
    let mut reads = zk.multi_read();
    for path in &paths {
        reads = reads.get_data(path).children(path);
    }
    let mut answers = reads.await?.into_iter();
    let mut nodes = Vec::with_capacity(paths.len());
    for path in paths {
        let (Some(data), Some(children)) = (answers.next(), answers.next()) else { break };
        let mut node = Node::new(path);
        nodes.push(data.and_then(|data| {
            set_data(&mut node, data);
            set_children(&mut node, children?);
            Ok(node)
        }));
    }
    Ok(nodes)
}

fn set_data(node: &mut Node, read: ReadResult) {
    if let Some((data, stat)) = read.into_data() {
        (node.data, node.stat) = (data, Some(stat));
    }
}

fn set_children(node: &mut Node, read: ReadResult) {
    let Some(names) = read.into_children() else { return };
    // The node may have changed between the two reads.
    if let (Some(stat), Ok(listed)) = (&mut node.stat, i32::try_from(names.len())) {
        stat.num_children = listed;
    }
    node.children = names.iter().map(|name| Node::new(child(&node.path, name))).collect();
}

/// Chooses the outermost recipe to which the first node of a chain belongs, or that node.
fn start(chain: Vec<Node>) -> Node {
    let mut chain = chain.into_iter();
    let Some(mut below) = chain.next() else { return Node::new("/") };
    let path = below.path.clone();
    let mut chosen = below.clone();
    for mut above in chain {
        if let Some(place) = above.children.iter_mut().find(|node| node.path == below.path) {
            *place = below.clone();
        }
        let finding = recognise(&above);
        let is_certain = finding.kind != RecipeKind::Unknown && !finding.is_guess;
        if is_certain && finding.covers(&path) && !may_contain_recipes(&finding, &below) {
            chosen = above.clone();
        }
        below = above;
    }
    // Nodes of a chain were read before the nodes next to them.
    for node in &mut chosen.children {
        if node.stat.is_some() {
            *node = Node::new(node.path.clone());
        }
    }
    chosen
}

/// The number of levels below a node that a recipe there may have.
fn depth_of(node: &Node) -> usize {
    // A slot of a schedule is named for a time, and has a runner.
    let is_slot = |name: &str| name.len() == 20 && name.ends_with('Z');
    let is_directory = |name: &str| DIRECTORIES.contains(&name) || name.starts_with("b-");
    let names = || node.children.iter().map(Node::name);
    if names().any(is_directory) {
        DEPTH
    } else if names().any(is_slot) {
        2
    } else {
        1
    }
}

/// A read of a node.
#[derive(Debug, Clone, Copy)]
enum NodeReadKind {
    /// The data and the metadata.
    Data,
    /// The names of the children.
    Names,
}

impl NodeReadKind {
    /// Adds the read to others.
    fn add(self, reads: MultiReadBuilder, path: &str) -> MultiReadBuilder {
        match self {
            Self::Data => reads.get_data(path),
            Self::Names => reads.children(path),
        }
    }

    /// Returns the approximate number of bytes that the result takes.
    fn bytes(self, node: &Node) -> usize {
        match self {
            Self::Data => node.data.len(),
            Self::Names => node.children.iter().map(|child| child.path.len() + NODE_BYTES).sum(),
        }
    }
}

/// Reads a tree level by level.
struct NodeReader<'z> {
    zk: &'z CuratorFramework,
    /// The number of nodes that may still be read.
    left: usize,
    /// The number of bytes that further nodes may take; `usize::MAX` without a limit.
    bytes: usize,
    /// The number of levels below the root.
    depth: usize,
    /// The number of nodes that were read.
    read: usize,
    /// `true` if there were too many nodes.
    was_cut: bool,
    /// The paths of the nodes that could not be read, with the reasons.
    unreadable: BTreeMap<String, ErrorKind>,
}

impl<'z> NodeReader<'z> {
    const fn new(zk: &'z CuratorFramework, left: usize, depth: usize) -> Self {
        Self {
            zk,
            left,
            bytes: usize::MAX,
            depth,
            read: 0,
            was_cut: false,
            unreadable: BTreeMap::new(),
        }
    }

    /// Limits the bytes that the nodes take.
    const fn within(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Reads the children of a node in one round trip. If they are few, also lists their children.
    async fn read_children(&mut self, root: &mut Node) -> Result<(), Error> {
        let mut level = children_to_read(self.zk, root);
        let is_last = level.len() > FEW;
        self.read_level(&mut level, is_last).await?;
        prune(root);
        Ok(())
    }

    /// Reads the nodes below a node whose children are listed.
    async fn read_below(&mut self, root: &mut Node) -> Result<(), Error> {
        let mut level = Vec::new();
        let mut next = vec![&mut *root];
        for depth in 1..=self.depth {
            let zk = self.zk;
            let children = next.drain(..).flat_map(|node| children_to_read(zk, node));
            level.extend(children);
            if level.is_empty() {
                break;
            }
            let is_last = depth == self.depth;
            self.read_level(&mut level, is_last).await?;
            next = std::mem::take(&mut level);
        }
        prune(root);
        Ok(())
    }

    /// Reads the nodes of a level, and lists their children unless it is the last.
    async fn read_level(&mut self, level: &mut Vec<&mut Node>, is_last: bool) -> Result<(), Error> {
        self.was_cut |= level.len() > self.left;
        level.truncate(self.left);
        let lists_early = !is_last && level.len() <= FEW;
        let sets = if lists_early {
            &[NodeReadKind::Data, NodeReadKind::Names][..]
        } else {
            &[NodeReadKind::Data]
        };
        let read = self.read_batches(level, sets).await?;
        self.was_cut |= read < level.len();
        level.truncate(read);
        self.left -= read;
        self.read += read;
        self.read_stats(level).await?;
        level.retain(|node| node.stat.is_some_and(|stat| stat.num_children > 0));
        if is_last || lists_early || level.is_empty() {
            return Ok(());
        }
        let listed = self.read_batches(level, &[NodeReadKind::Names]).await?;
        self.was_cut |= listed < level.len();
        level.truncate(listed);
        Ok(())
    }

    /// Sends these reads of each node, and uses the responses: all at once, or in batches up to the
    /// limit of the bytes. Returns the number of nodes that were read.
    async fn read_batches(
        &mut self,
        level: &mut [&mut Node],
        kinds: &[NodeReadKind],
    ) -> Result<usize, Error> {
        let batch = if self.bytes == usize::MAX { level.len().max(1) } else { BATCH };
        let mut read = 0;
        for nodes in level.chunks_mut(batch) {
            if self.bytes == 0 {
                break;
            }
            let mut reads = self.zk.multi_read();
            for node in nodes.iter() {
                for kind in kinds {
                    reads = kind.add(reads, &node.path);
                }
            }
            let mut answers = reads.await?.into_iter();
            for node in nodes.iter_mut() {
                for kind in kinds {
                    self.accept(node, answers.next(), *kind);
                }
            }
            read += nodes.len();
        }
        Ok(read)
    }

    /// Counts bytes that are in memory from now on.
    const fn spend(&mut self, bytes: usize) {
        if self.bytes != usize::MAX {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// Uses the response of a read. A node that cannot be read remains unread.
    fn accept(
        &mut self,
        node: &mut Node,
        answer: Option<Result<ReadResult, Error>>,
        kind: NodeReadKind,
    ) {
        match answer {
            Some(Ok(read)) => {
                match kind {
                    NodeReadKind::Data => set_data(node, read),
                    NodeReadKind::Names => set_children(node, read),
                }
                self.spend(kind.bytes(node));
            }
            Some(Err(error)) => match error.kind() {
                // It is gone: see `prune`.
                ErrorKind::NoNode => node.path.clear(),
                kind => {
                    self.unreadable.insert(node.path.clone(), kind);
                }
            },
            None => {}
        }
    }

    /// Reads the metadata of nodes whose data could not be read, so that their children are read.
    /// The children of a node without permission cannot be listed either.
    async fn read_stats(&self, level: &mut [&mut Node]) -> Result<(), Error> {
        let is_unread = |node: &&mut &mut Node| {
            let why = self.unreadable.get(&node.path);
            node.stat.is_none() && why.is_some_and(|why| *why != ErrorKind::NoAuth)
        };
        let mut nodes: Vec<_> = level.iter_mut().filter(is_unread).collect();
        let reads = nodes.iter().map(|node| self.zk.exists(&node.path));
        let stats = fan_out(FEW, reads).await;
        for (node, stat) in nodes.iter_mut().zip(stats) {
            node.stat = match stat {
                Err(error) if error.kind() == ErrorKind::NoAuth => None,
                stat => stat?,
            };
        }
        Ok(())
    }
}

/// Removes the nodes that were gone when they were read. As contenders they would seem to hold.
fn prune(node: &mut Node) {
    let listed = node.children.len();
    node.children.retain(|child| !child.path.is_empty());
    let gone = i32::try_from(listed - node.children.len()).unwrap_or(0);
    if let Some(stat) = &mut node.stat {
        stat.num_children -= gone;
    }
    node.children.iter_mut().for_each(prune);
}

/// The children of a node to read, low sequence numbers first.
fn children_to_read<'n>(zk: &CuratorFramework, node: &'n mut Node) -> Vec<&'n mut Node> {
    let unread = unread_parts(node);
    let is_root = node.path == "/" && zk.server_path("/") == "/";
    let mut children: Vec<_> = node
        .children
        .iter_mut()
        .filter(|child| !unread.contains(&child.name()))
        .filter(|child| !(is_root && child.name() == "zookeeper"))
        .collect();
    children.sort_by_cached_key(|child| {
        let number = SequenceSuffix::after(child.name(), "").map(SequenceSuffix::get);
        (number, child.name().to_owned())
    });
    children
}

/// The large parts of a recipe that say nothing about its contenders.
fn unread_parts(node: &Node) -> &'static [&'static str] {
    let has = |name| node.get(name).is_some();
    if has("all") && has("pending") && has("executing") {
        &["all", "done", "failed", "ids", "cleaner"]
    } else if has("items") && has("ids") {
        &["ids"]
    } else if has("values") && has("history") {
        &["history"]
    } else {
        &[]
    }
}
