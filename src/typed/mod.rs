//! Nodes as values of a type (Curator's `ModeledFramework`).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! let limits = zk.typed::<u32>();
//! limits.put("/config/limit", &8).await?;
//! limits.modify("/config/limit", |limit| limit * 2).await?;
//! let node = limits.get("/config/limit").await?;
//! assert_eq!((node.value, node.stat.version), (16, 1));
//! assert_eq!(zk.get_data("/config/limit").await?, "16");
//! # zk.close().await?; Ok(()) }
//! ```
//!
//! A type is decoded by its [`FromData`], and encoded by its [`ToData`]: for JSON,
//! `typed::<Json<Job>>()` (feature `serde`). Data that cannot be decoded fail with `Undecodable`,
//! and values that cannot be encoded with `InvalidArgument`. Both have the [`Failure`] as source.

mod ops;
mod watch;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
pub use watch::TypedWatch;
use zk_curator_client::{Acl, CreateMode, Created, Stat, Version};

use crate::certain::is_receipt;
use crate::core::RACE_ROUNDS;
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::op::node_settings;
use crate::op::{ChildData, OpFuture};
use crate::path::join;
use crate::value::{Failure, FromData, ToData};
use crate::watch::Watched;

/// The reason why a modification fails although it was written.
const OTHER_NODE: &str =
    "the node was re-created after it was read, and the value of the new node was replaced";

/// Reads and writes nodes as values of `T`. Made by [`CuratorFramework::typed`]; cheap to clone.
///
/// **Nothing is sent until a future is awaited**, and every future is `Send + 'static`. Dropping a
/// future that reads has no effect; dropping one that writes may leave the write applied. Paths are
/// those of the framework: within its namespace, subject to its schemas. Data are compressed if the
/// framework [compresses](crate::compression).
#[must_use]
pub struct Typed<T> {
    zk: CuratorFramework,
    mode: CreateMode,
    ttl: Option<Duration>,
    acl: Option<Vec<Acl>>,
    value: PhantomData<fn(T) -> T>,
}

/// A node and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZNode<T> {
    /// The path, within the namespace.
    pub path: String,
    /// The stat that belongs to the value.
    pub stat: Stat,
    /// The value.
    pub value: T,
}

impl<T> ZNode<T> {
    /// Combines a value and the stat of the same read.
    pub fn new(path: impl Into<String>, stat: Stat, value: T) -> Self {
        Self { path: path.into(), stat, value }
    }
}

impl CuratorFramework {
    /// Returns a view of nodes as values of a type.
    pub fn typed<T>(&self) -> Typed<T> {
        let (zk, mode) = (self.clone(), CreateMode::Persistent);
        Typed { zk, mode, ttl: None, acl: None, value: PhantomData }
    }
}

impl<T> Typed<T> {
    node_settings!();

    /// Returns the handle that reads and writes the nodes.
    #[must_use]
    pub const fn framework(&self) -> &CuratorFramework {
        &self.zk
    }
}

impl<T: FromData + Send + 'static> Typed<T> {
    /// Reads a node. **Awaiting returns** a [`ZNode`]. Fails with `NoNode`, `Undecodable`.
    pub fn get(&self, path: impl Into<String>) -> OpFuture<ZNode<T>> {
        self.run(path, async |this, path| this.read(path).await)
    }

    /// Reads a node that may not exist. **Awaiting returns** `None` if it does not. Fails with
    /// `Undecodable`.
    pub fn find(&self, path: impl Into<String>) -> OpFuture<Option<ZNode<T>>> {
        self.run(path, async |this, path| found(this.read(path).await))
    }

    /// Reads a node and watches it. **Awaiting returns** a [`Watched`] [`ZNode`]: the watch fires
    /// when the data change or the node is deleted. Fails with `NoNode`, `Undecodable`.
    pub fn watched(&self, path: impl Into<String>) -> OpFuture<Watched<ZNode<T>>> {
        self.run(path, async |this, path| {
            let Watched { value: (data, stat), watch } = this.zk.get_data(&path).watched().await?;
            Ok(Watched { value: this.node(path, data, stat)?, watch })
        })
    }

    /// Reads the children of a node, in [two round trips](CuratorFramework::children_with_data).
    /// **Awaiting returns** them in the order of their names, without children that were deleted in
    /// between, and without [receipts](crate::certain::is_receipt), which are not read. Fails with
    /// `NoNode`, and with `Undecodable` if a child cannot be decoded: the error names it.
    pub fn children(&self, path: impl Into<String>) -> OpFuture<Vec<ZNode<T>>> {
        self.run(path, async |this, path| {
            let children =
                this.zk.children_with_data(&path).named(|name| !is_receipt(name)).await?;
            let node =
                |child: ChildData| this.node(join(&path, &child.name), child.data, child.stat);
            children.into_iter().map(node).collect()
        })
    }

    async fn read(&self, path: String) -> Result<ZNode<T>> {
        let (data, stat) = self.zk.get_data(&path).with_stat().await?;
        self.node(path, data, stat)
    }

    fn node(&self, path: String, data: Bytes, stat: Stat) -> Result<ZNode<T>> {
        match T::from_data(&data) {
            Ok(value) => Ok(ZNode { path, stat, value }),
            Err(why) => Err(Error::undecodable("get_data", path, why)),
        }
    }
}

impl<T: ToData + Send + 'static> Typed<T> {
    /// Creates a node, and its missing parents as containers. **Awaiting returns** [`Created`].
    /// Fails with `NodeExists`, and after an unknown outcome with
    /// [`may_have_applied`](Error::may_have_applied).
    pub fn create(&self, path: impl Into<String>, value: &T) -> OpFuture<Created> {
        let data = value.to_data();
        self.run(path, async |this, path| {
            let data = encoded("typed_create", &path, data)?;
            this.create_node(&path, data).await
        })
    }

    /// Creates a node, or replaces its value unconditionally. **Awaiting returns** its stat. After
    /// an unknown outcome it fails with [`may_have_applied`](Error::may_have_applied).
    pub fn put(&self, path: impl Into<String>, value: &T) -> OpFuture<Stat> {
        const OP: &str = "typed_put";
        let data = value.to_data();
        self.run(path, async |this, path| {
            let data = encoded(OP, &path, data)?;
            for _ in 0..RACE_ROUNDS {
                match this.zk.set_data(&path, data.clone()).await {
                    Err(error) if error.kind() == ErrorKind::NoNode => {}
                    result => return result,
                }
                match this.create_node(&path, data.clone()).await {
                    Err(error) if error.kind() == ErrorKind::NodeExists => {}
                    result => return result.map(|created| created.stat),
                }
            }
            Err(Error::new(ErrorKind::NoNode, OP, path))
        })
    }

    /// Replaces the value of a node that has this version, which [`ZNode::stat`] contains.
    /// **Awaiting returns** the new stat. Fails with `NoNode`, `BadVersion`.
    pub fn replace(
        &self,
        path: impl Into<String>,
        value: &T,
        version: impl Into<Version>,
    ) -> OpFuture<Stat> {
        let (data, version) = (value.to_data(), version.into());
        self.run(path, async move |this, path| {
            let data = encoded("typed_replace", &path, data)?;
            this.zk.set_data(&path, data).version(version).await
        })
    }
}

impl<T: FromData + ToData + Send + 'static> Typed<T> {
    /// Replaces the value of a node by the result of `change`, and repeats that if another client
    /// has replaced the value in between. **Awaiting returns** the node as it was written.
    ///
    /// Fails with `NoNode`, `Undecodable`, with `BadVersion` if other clients are faster fifty
    /// times in a row, and after an unknown outcome with
    /// [`may_have_applied`](Error::may_have_applied). Also fails with `BadVersion` and
    /// `may_have_applied` if the value of another node was replaced: the read node was deleted, and
    /// a node that was created in its place had the same version.
    pub fn modify(
        &self,
        path: impl Into<String>,
        change: impl FnMut(T) -> T + Send + 'static,
    ) -> OpFuture<ZNode<T>> {
        self.run(path, async |this, path| this.modify_known(path, None, change).await)
    }

    /// Does the same as [`modify`](Self::modify), but begins with a node that was read before: if
    /// no other client has written it since, this costs one round trip.
    pub fn modify_from(
        &self,
        node: ZNode<T>,
        change: impl FnMut(T) -> T + Send + 'static,
    ) -> OpFuture<ZNode<T>> {
        let ZNode { path, stat, value } = node;
        self.run(path, async move |this, path| {
            this.modify_known(path, Some((stat, value)), change).await
        })
    }

    async fn modify_known(
        &self,
        path: String,
        mut known: Option<(Stat, T)>,
        mut change: impl FnMut(T) -> T,
    ) -> Result<ZNode<T>> {
        const OP: &str = "typed_modify";
        let mut rounds = 0;
        loop {
            let is_guess = known.is_some();
            let (before, value) = match known.take() {
                Some(known) => known,
                None => {
                    let node = self.read(path.clone()).await?;
                    (node.stat, node.value)
                }
            };
            let value = change(value);
            let data = encoded(OP, &path, value.to_data())?;
            match self.zk.set_data(&path, data).version(before.version).await {
                Ok(stat) if stat.czxid == before.czxid => return Ok(ZNode { path, stat, value }),
                Ok(_) => {
                    let error = Error::new(ErrorKind::BadVersion, OP, path);
                    return Err(error.with_source(OTHER_NODE).of_unknown_outcome());
                }
                // An error after a lost response is final, whatever its kind.
                Err(error) if error.may_have_applied() => return Err(error),
                // The node may exist again.
                Err(error) if error.kind() == ErrorKind::NoNode && is_guess => {}
                Err(error) if error.kind() == ErrorKind::BadVersion && rounds < RACE_ROUNDS => {
                    rounds += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl<T: Send + 'static> Typed<T> {
    async fn create_node(&self, path: &str, data: Bytes) -> Result<Created> {
        let mut create =
            self.zk.create(path).data(data).mode(self.mode).creating_parents_as_containers();
        if let Some(ttl) = self.ttl {
            create = create.ttl(ttl);
        }
        if let Some(acl) = &self.acl {
            create = create.acl(acl.clone());
        }
        create.await
    }

    fn run<O, F>(
        &self,
        path: impl Into<String>,
        work: impl FnOnce(Self, String) -> F,
    ) -> OpFuture<O>
    where
        F: Future<Output = Result<O>> + Send + 'static,
    {
        OpFuture::composed(work(self.clone(), path.into()))
    }
}

fn found<N>(node: Result<N>) -> Result<Option<N>> {
    match node {
        Ok(node) => Ok(Some(node)),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        Err(error) => Err(error),
    }
}

fn encoded(operation: &'static str, path: &str, data: Result<Bytes, Failure>) -> Result<Bytes> {
    data.map_err(|why| {
        Error::new(ErrorKind::InvalidArgument, operation, path).with_shared_source(why)
    })
}

impl<T> Clone for Typed<T> {
    fn clone(&self) -> Self {
        let (zk, acl) = (self.zk.clone(), self.acl.clone());
        Self { zk, mode: self.mode, ttl: self.ttl, acl, value: PhantomData }
    }
}

impl<T> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed").field("mode", &self.mode).finish_non_exhaustive()
    }
}
