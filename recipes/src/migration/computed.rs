//! The reads of computed migrations, and the guards that keep them true until the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator::internal::Locked;
use zk_curator::op::{CheckOp, CreateOp, DeleteOp, TransactionOp};
use zk_curator::path::ZPath;
use zk_curator::value::Failure;
use zk_curator::{CuratorFramework, Error, ErrorKind, Result, Stat};

use crate::path::child;

/// Reads nodes for a [computed](super::MigrationSetBuilder::computed) migration. Clones share what
/// they have read.
///
/// The transaction of the migration is applied only if every node that was read is unchanged. If
/// another client has changed one, the computation runs again. Paths are within the namespace.
///
/// # Guarantees
/// * Data that were read have the same version. If a node was deleted and created again between
///   the read and the commit, and has the same version, ZooKeeper does not notice that.
/// * A node that did not exist still does not. The transaction creates it and deletes it, or its
///   topmost missing parent, because ZooKeeper has no check for that. Watches of clients fire, and
///   the session needs the permissions for it.
/// * Children that were listed still exist. ZooKeeper cannot check that there are no further ones:
///   a child that another client has created after the listing is not noticed. If no child may be
///   left behind, the migration should delete the parent: that fails, and the computation runs
///   again, while it has children.
#[derive(Clone)]
pub struct Reads {
    zk: CuratorFramework,
    seen: Arc<Locked<SeenNodes>>,
}

/// The state of a node that must be unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnchangedNode {
    Version { czxid: i64, version: i32 },
    Exists,
    Absent,
}

/// The reads of a computation.
#[derive(Debug, Default)]
pub(super) struct SeenNodes {
    guards: BTreeMap<String, UnchangedNode>,
    /// Two reads of one node have differed.
    pub(super) is_torn: bool,
    /// The first read that failed for another reason than a missing node. It has no guard.
    pub(super) failure: Option<Error>,
    /// The paths of the missing nodes that were an error. They have guards.
    missing: BTreeSet<String>,
}

impl SeenNodes {
    /// Returns the error of a computation, if it is that of a read of a missing node.
    pub(super) fn missing_node(&self, source: &Failure) -> Option<Error> {
        let error = source.downcast_ref::<Error>()?;
        let is_of_read = error.kind() == ErrorKind::NoNode && self.missing.contains(error.path());
        is_of_read.then(|| error.clone())
    }

    /// Returns the guards of everything that was read.
    pub(super) fn into_guards(self) -> Vec<TransactionOp> {
        let mut ops = Vec::new();
        for (path, guard) in self.guards {
            match guard {
                UnchangedNode::Version { version, .. } => {
                    ops.push(CheckOp::new(path).version(version).into());
                }
                UnchangedNode::Exists => ops.push(CheckOp::new(path).into()),
                UnchangedNode::Absent => {
                    let create = CreateOp::new(path.as_str()).data("").uncompressed();
                    ops.extend([create.into(), DeleteOp::new(path).into()]);
                }
            }
        }
        ops
    }
}

impl Reads {
    pub(super) fn new(zk: &CuratorFramework) -> Self {
        Self { zk: zk.clone(), seen: Arc::default() }
    }

    /// Reads the data of a node. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// As every read of the framework. Return the error: if it passes, so will the migration when
    /// it is called again.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn find_data(&self, path: impl Into<String>) -> Result<Option<Bytes>> {
        let path = path.into();
        let read = self.zk.get_data(path.as_str()).with_stat().await;
        let guard =
            |stat: &Stat| UnchangedNode::Version { czxid: stat.czxid, version: stat.version };
        match self.found(&path, read).await? {
            Some((data, stat)) => {
                self.note(path, guard(&stat));
                Ok(Some(data))
            }
            None => Ok(None),
        }
    }

    /// Reads the data of a node that has to exist.
    ///
    /// # Errors
    /// As [`find_data`](Self::find_data), and `NoNode`.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get_data(&self, path: impl Into<String>) -> Result<Bytes> {
        let path = path.into();
        let read = self.zk.get_data(path.as_str()).with_stat().await;
        if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoNode) {
            // The body may go on without the node.
            self.note_absent(&path).await?;
        }
        let (data, stat) = self.failed(read)?;
        self.note(path, UnchangedNode::Version { czxid: stat.czxid, version: stat.version });
        Ok(data)
    }

    /// Returns `true` if a node exists.
    ///
    /// # Errors
    /// As [`find_data`](Self::find_data).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn exists(&self, path: impl Into<String>) -> Result<bool> {
        let path = path.into();
        let exists = self.failed(self.zk.exists(path.as_str()).await)?.is_some();
        if exists {
            self.note(path, UnchangedNode::Exists);
        } else {
            self.note_absent(&path).await?;
        }
        Ok(exists)
    }

    /// Lists the children of a node, sorted by name. Returns `None` if the node does not exist.
    ///
    /// # Errors
    /// As [`find_data`](Self::find_data).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn children(&self, path: impl Into<String>) -> Result<Option<Vec<String>>> {
        let path = path.into();
        let listed = self.zk.children(path.as_str()).await;
        let Some(mut names) = self.found(&path, listed).await? else { return Ok(None) };
        names.sort_unstable();
        for name in &names {
            self.note(child(&path, name), UnchangedNode::Exists);
        }
        self.note(path, UnchangedNode::Exists);
        Ok(Some(names))
    }

    /// Returns `None` if the node does not exist, and guards that.
    async fn found<T>(&self, path: &str, read: Result<T>) -> Result<Option<T>> {
        match read {
            Err(error) if error.kind() == ErrorKind::NoNode => {
                self.note_absent(path).await?;
                Ok(None)
            }
            read => self.failed(read).map(Some),
        }
    }

    /// Guards the topmost parent that does not exist.
    async fn note_absent(&self, path: &str) -> Result<()> {
        let mut missing = self.failed(ZPath::for_operation("exists", path))?;
        while let Some(parent) = missing.parent().filter(|parent| parent.as_str() != "/") {
            if self.failed(self.zk.exists(parent.as_str()).await)?.is_some() {
                break;
            }
            missing = parent;
        }
        self.note(missing.into(), UnchangedNode::Absent);
        Ok(())
    }

    fn note(&self, path: String, guard: UnchangedNode) {
        let mut seen = self.seen.lock();
        let seen = &mut *seen;
        let before = *seen.guards.entry(path.clone()).or_insert(guard);
        match (before, guard) {
            (before, guard) if before == guard => {}
            (UnchangedNode::Exists, UnchangedNode::Version { .. }) => {
                seen.guards.insert(path, guard);
            }
            (UnchangedNode::Version { .. }, UnchangedNode::Exists) => {}
            _ => seen.is_torn = true,
        }
    }

    fn failed<T>(&self, read: Result<T>) -> Result<T> {
        if let Err(error) = &read {
            let mut seen = self.seen.lock();
            if error.kind() == ErrorKind::NoNode {
                seen.missing.insert(error.path().to_owned());
            } else {
                seen.failure.get_or_insert_with(|| error.clone());
            }
        }
        read
    }

    /// Returns everything that was read.
    pub(super) fn end(&self) -> SeenNodes {
        std::mem::take(&mut *self.seen.lock())
    }
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").finish_non_exhaustive()
    }
}
