//! Reads a subtree with its ACLs, a batch of nodes at a time.
//!
//! The walk goes deep before it goes wide, so the memory that it needs does not depend on the size
//! of the tree, except for the children of one node.

use zk_curator::op::fan_out;
use zk_curator::{Acl, CuratorFramework, Error, ErrorKind, Stat};

use super::left_out::LeftOut;
use super::plan::ExistingNode;
use super::record::TransferRecord;
use crate::path;
use crate::tree::unreadable::{UnreadableNodes, UnreadableReason};
use crate::tree::walk::{self, WalkPace};

/// The nodes that are read at a time. Their data are in memory together.
const NODES_AT_ONCE: usize = 1_024;
/// The children that are listed at a time.
const CHILDREN_AT_ONCE: i64 = 32_768;
/// The requests for ACLs in flight. No request reads several.
const ACLS_AT_ONCE: usize = 1_024;

/// The version of an ACL of another node, which no node has.
const UNKNOWN: i32 = -1;

/// A node that was read.
#[derive(Debug)]
pub(crate) struct SourceNode {
    pub(crate) record: TransferRecord,
    /// Its `aversion` is that of the ACL in the record, if that was read.
    pub(crate) stat: Stat,
}

/// A walk over a subtree: parents before their children. Below the root of the servers, their own
/// nodes, `/zookeeper`, are left out.
#[derive(Debug)]
pub(crate) struct SourceWalk<'a> {
    todo: Vec<Todo>,
    left_out: LeftOut<'a>,
    pace: WalkPace,
    /// `true` if ACLs are read.
    acls: bool,
    /// `true` after the root was read.
    has_begun: bool,
    unreadable: UnreadableNodes,
}

#[derive(Debug)]
enum Todo {
    Read(String),
    /// A node to list, with the number of its children.
    List(String, i64),
}

impl<'a> SourceWalk<'a> {
    pub(crate) fn new(root: &str, acls: bool) -> Self {
        Self {
            todo: vec![Todo::Read(root.to_owned())],
            left_out: LeftOut::default(),
            pace: WalkPace::up_to(NODES_AT_ONCE),
            acls,
            has_begun: false,
            unreadable: UnreadableNodes::default(),
        }
    }

    /// Leaves out nodes below the root, with everything below them. They count as unreadable.
    pub(crate) const fn leaving_out(mut self, left_out: LeftOut<'a>) -> Self {
        self.left_out = left_out;
        self
    }

    /// Returns the nodes that could not be read, after the last batch. What is below them is not
    /// known either.
    pub(crate) fn into_unreadable(self) -> UnreadableNodes {
        self.unreadable
    }

    /// Returns the next nodes; `None` at the end. Fails with `NoNode` if there is no root.
    pub(crate) async fn next(
        &mut self,
        zk: &CuratorFramework,
    ) -> Result<Option<Vec<SourceNode>>, Error> {
        loop {
            match self.todo.last() {
                None => return Ok(None),
                Some(Todo::List(..)) => self.list(zk).await?,
                Some(Todo::Read(_)) => {
                    let found = self.read(zk).await?;
                    if !found.is_empty() {
                        return Ok(Some(found));
                    }
                }
            }
        }
    }

    /// Lists the children of the nodes on top of the stack.
    async fn list(&mut self, zk: &CuratorFramework) -> Result<(), Error> {
        let (mut parents, mut children) = (Vec::new(), 0);
        while let Some(Todo::List(_, number)) = self.todo.last() {
            if !parents.is_empty() && children + number > CHILDREN_AT_ONCE {
                break;
            }
            children += number;
            if let Some(Todo::List(path, _)) = self.todo.pop() {
                parents.push(path);
            }
        }
        let mut lists = zk.multi_read();
        for parent in &parents {
            lists = lists.children(parent);
        }
        let answers = lists.await?;
        for (parent, answer) in parents.iter().zip(answers).rev() {
            let mut names = match answer {
                Ok(answer) => answer.into_children().unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::NoNode => continue,
                // The list is too large, or the permission was withdrawn after the node was read.
                Err(error) => {
                    self.unreadable.extend([(parent.clone(), error.kind())]);
                    continue;
                }
            };
            // The first is on top.
            names.sort_unstable_by(|a, b| b.cmp(a));
            let system = path::system_below(zk, parent);
            let paths = names.iter().map(|name| path::join(parent, name));
            let paths = paths.filter(|path| system != Some(path.as_str()));
            let (hidden, shown): (Vec<_>, Vec<_>) = paths.partition(|path| self.left_out.has(path));
            self.unreadable
                .extend(hidden.into_iter().map(|path| (path, UnreadableReason::LeftOut)));
            self.todo.extend(shown.into_iter().map(Todo::Read));
        }
        Ok(())
    }

    /// Reads the nodes on top of the stack.
    async fn read(&mut self, zk: &CuratorFramework) -> Result<Vec<SourceNode>, Error> {
        let mut paths = Vec::new();
        while paths.len() < self.pace.nodes()
            && let Some(Todo::Read(_)) = self.todo.last()
            && let Some(Todo::Read(path)) = self.todo.pop()
        {
            paths.push(path);
        }
        let mut found = Vec::with_capacity(paths.len());
        let answers = read(zk, &paths, &mut self.pace, self.acls).await?;
        for (path, answer) in paths.into_iter().zip(answers) {
            match answer {
                Ok((record, stat)) => found.push(SourceNode { record, stat }),
                Err(error) if !self.has_begun => return Err(error),
                // The node was deleted after its parent was listed.
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => self.unreadable.extend([(path, error.kind())]),
            }
        }
        self.has_begun = true;
        let parents = found.iter().rev().filter(|node| node.stat.num_children > 0);
        self.todo.extend(
            parents.map(|node| {
                Todo::List(node.record.path.clone(), i64::from(node.stat.num_children))
            }),
        );
        Ok(found)
    }
}

/// The answer of one node: the error is `NoNode` if it was deleted; otherwise it cannot be read.
pub(crate) type SourceReply = Result<(TransferRecord, Stat), Error>;

/// Reads nodes with their ACLs in one round trip.
pub(crate) async fn read(
    zk: &CuratorFramework,
    paths: &[String],
    pace: &mut WalkPace,
    with_acls: bool,
) -> Result<Vec<SourceReply>, Error> {
    let lists = if with_acls { paths } else { &[] };
    let lists = lists.iter().map(|path| zk.get_acl(path).with_stat());
    let (data, lists) =
        tokio::join!(walk::read_each(zk, paths, pace), fan_out(ACLS_AT_ONCE, lists));
    let mut lists = lists.into_iter();
    let mut answers = Vec::with_capacity(paths.len());
    for (path, data) in paths.iter().zip(data?) {
        let acl = lists.next().transpose();
        answers.push(match (data, acl) {
            (Ok((data, mut stat)), Ok(read)) => {
                let (acl, read) = read.unwrap_or_else(|| (Vec::new(), stat));
                // The two requests may have read two nodes.
                stat.aversion = if read.czxid == stat.czxid { read.aversion } else { UNKNOWN };
                Ok((TransferRecord::new(path.clone(), data, acl, &stat), stat))
            }
            (Err(error), _) => Err(error),
            (_, Err(error)) if walk::is_left_out(&error) => Err(error),
            (_, Err(error)) => return Err(error),
        });
    }
    Ok(answers)
}

/// Reads the ACLs of nodes.
pub(crate) async fn acls(
    zk: &CuratorFramework,
    paths: impl Iterator<Item = &str>,
) -> Vec<Result<Vec<Acl>, Error>> {
    fan_out(ACLS_AT_ONCE, paths.map(|path| zk.get_acl(path))).await
}

/// Reads the present state of nodes; `None` for those that do not exist.
pub(crate) async fn present(
    zk: &CuratorFramework,
    paths: &[String],
    pace: &mut WalkPace,
    with_acls: bool,
) -> Result<Vec<Option<ExistingNode>>, Error> {
    let mut present = Vec::with_capacity(paths.len());
    for answer in walk::read_each(zk, paths, pace).await? {
        let state = existing(answer)?;
        present.push(state.map(|(data, stat)| ExistingNode { data, stat, acl: None }));
    }
    if with_acls {
        let found = paths.iter().zip(&mut present).filter(|(_, present)| present.is_some());
        let (paths, found): (Vec<_>, Vec<_>) = found.unzip();
        let lists = acls(zk, paths.into_iter().map(String::as_str)).await;
        for (state, acl) in found.into_iter().zip(lists) {
            *state = match (state.take(), existing(acl)?) {
                (Some(state), Some(acl)) => Some(ExistingNode { acl: Some(acl), ..state }),
                _ => None,
            };
        }
    }
    Ok(present)
}

/// Returns `None` if the node does not exist.
fn existing<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        Err(error) => Err(error),
    }
}
