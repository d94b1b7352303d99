//! A name service: what a name stands for, now and later.
//!
//! # Layout
//! ```text
//! /names                            container, made on first use, or by an administrator
//!   ├─ billing                      persistent: bound to its data for good
//!   │    └─ _b_1f0c52a0-…           its identity: a name that no other binding has
//!   ├─ orders                       ephemeral: bound as long as a session
//!   └─ _r_9b2e77c4-…                ephemeral: a receipt of who binds
//! ```
//! Names of earlier versions have no identity. They are served, and told from later ones by `czxid` and version only; earlier
//! versions cannot unbind the new ones (`NotEmpty`).
//!
//! # Protocol
//! 1. To bind a name is to create its node, which only one can. It is a [certain](zk_curator::certain) write: after a lost
//!    answer a receipt tells whether it was ours.
//! 2. To rebind or unbind a lasting name is a certain write that also checks its identity: a name that was unbound and bound
//!    again since has another one, though versions begin anew.
//! 3. Who follows a name reads its node with a watch, or leaves one for when it comes, again and again.
//!
//! Requests, counted at a server: one for [`bind`](NameService::bind), [`resolve`](NameService::resolve) and each change that a
//! [`follower`](NameService::follow) is told of, four, in two flights, for [`rebind`](NameService::rebind) and [`unbind`](NameService::unbind), two for
//! [`bind_ephemeral`](NameService::bind_ephemeral), n + 1 to [`list`](NameService::list) n names.
//!
//! Bindings that are made or changed through one [`NameService`] and its clones wait for each other, because they share a
//! receipt.
//!
//! # Guarantees
//! * A name is bound to one value at a time. Of those that bind it, or rebind what they have seen, one succeeds, also if
//!   they give the same value, and whatever answers are lost. If that cannot be known, because the session ended first, the
//!   error says [`may_have_applied`](zk_curator::Error::may_have_applied).
//! * Rebinding and unbinding never hit another binding of the name. For an ephemeral one, which can have no children, its
//!   `czxid` and version are looked at first: what remains is somebody who deletes it and binds the name in the moment between.
//! * A binding that goes with its session does not outlive it, and never takes itself for one while it is not connected.
//!   It comes back only where that was [asked for](NameService::keep_bound).
//! * Who follows a name ends with what it is bound to, or with nothing if it is not.
//!
//! # Assumptions
//! Nobody writes to the nodes but by these functions; an administrator may delete them. A binding that goes with a session belongs to who has made it: others
//! can neither rebind nor unbind it.
//!
//! # Connection loss
//! * SUSPENDED: no binding [is bound](Binding::is_bound) for itself; for others it is, as long as its session.
//! * LOST: a [`Binding`] is over, a [`KeptBinding`] is bound again in the next session.
//!
//! # Cancel safety
//! Every future may be dropped at any point. Dropping a binding that goes with its session unbinds it in the background.
//!
//! # Errors
//! [`Error`].
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::name::NameService;
//!
//! let names = NameService::new(&zk, "/names")?;
//! let version = names.bind("billing", "10.0.0.7:80").await?;
//! let mut billing = names.follow("billing")?;
//! assert_eq!(billing.next().await?.unwrap().value::<String>()?, "10.0.0.7:80");
//!
//! names.rebind("billing", "10.0.0.8:80", version).await?;
//! assert_eq!(billing.next().await?.unwrap().value::<String>()?, "10.0.0.8:80");
//!
//! let orders = names.bind_ephemeral("orders", "10.0.0.9:80").await?;
//! assert_eq!(names.list().await?.len(), 2);
//! orders.unbind().await?;
//! assert!(names.resolve("orders").await?.is_none());
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod binding;
mod follow;

use std::collections::BTreeMap;
use std::future::IntoFuture;

use bytes::Bytes;
use futures_util::future::join;
use tokio::sync::oneshot;
use zk_curator::certain::{Applied, Receipt};
use zk_curator::op::{CheckOp, ChildData, CreateOp, DeleteOp, SetDataOp, Transaction, TransactionOp};
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind, Stat};

pub use binding::{Binding, KeptBinding};
pub use follow::NameWatch;

use crate::contender::child;
use crate::node::PersistentNode;
use crate::removal::is_race;
use crate::value::{Failure, FromData, ToData};

/// How often the parent is made that somebody else removes.
const ROUNDS: usize = 50;
/// What the name of the child begins with that tells a binding from others of the same name.
const IDENTITY: &str = "_b_";
/// What names of receipts begin with, which are no names here.
const RECEIPT: &str = "_r_";

/// Names and what they are bound to. Cheap to clone. See the [module](self).
#[derive(Debug, Clone)]
pub struct NameService {
    zk: CuratorFramework,
    path: ZPath,
    receipt: Receipt,
}

/// Which binding of a name it is: that which was made by one transaction, and so many times rebound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    czxid: i64,
    version: i32,
}

impl Version {
    const fn of(stat: &Stat) -> Self {
        Self { czxid: stat.czxid, version: stat.version }
    }
}

/// What a name is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The path of the node.
    pub path: String,
    /// The value as it is stored.
    pub data: Bytes,
    /// For [`NameService::rebind`].
    pub version: Version,
    /// Whether it goes with the session of whoever has bound it.
    pub is_ephemeral: bool,
}

impl Bound {
    fn new(path: String, data: Bytes, stat: &Stat) -> Self {
        Self { path, data, version: Version::of(stat), is_ephemeral: stat.is_ephemeral() }
    }

    /// The value as this type.
    ///
    /// # Errors
    /// [`Error::Undecodable`] when it is none of this type.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        T::from_data(&self.data).map_err(|source| Error::Undecodable { path: self.path.clone(), source })
    }
}

impl NameService {
    /// The names below a path. Nothing is sent.
    ///
    /// # Errors
    /// `InvalidPath`.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Result<Self, zk_curator::Error> {
        let path = ZPath::for_operation("name", path)?;
        Ok(Self { zk: zk.clone(), receipt: Receipt::at(zk, path.as_str()), path })
    }

    /// The path of the names.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// Binds a name that is not bound, until somebody unbinds it.
    ///
    /// # Errors
    /// * [`Error::Taken`] when it is bound, whatever to.
    /// * [`Error::InvalidName`], [`Error::Unencodable`].
    /// * [`Error::Framework`] as a [certain](zk_curator::certain) transaction.
    ///
    /// # Cancel safety
    /// Once polled, the name may be bound.
    pub async fn bind(&self, name: &str, value: impl ToData) -> Result<Version, Error> {
        let (path, data) = (self.name_path(name)?, self.data(name, &value)?);
        let identity = format!("{path}/{IDENTITY}{}", self.zk.new_guid());
        let create = || {
            let node = CreateOp::new(path.as_str()).data(data.clone());
            self.zk.transaction().with(node).with(CreateOp::new(identity.as_str()).data("").uncompressed())
        };
        Ok(Version { czxid: self.create(&path, create).await?.zxid(), version: 0 })
    }

    /// Creates the node of a name, once, and the parent if it is missing.
    async fn create(&self, path: &str, create: impl Fn() -> Transaction) -> Result<Applied, Error> {
        let mut rounds = 0..ROUNDS;
        loop {
            let error = match create().certain(&self.receipt).commit().await {
                Ok(applied) => return Ok(applied),
                Err(error) => error.of_operation("bind"),
            };
            match error.kind() {
                ErrorKind::NodeExists => return Err(Error::Taken { path: path.to_owned() }),
                ErrorKind::NoNode if rounds.next().is_some() => {
                    self.zk.create_containers(self.path.as_str()).await?;
                }
                _ => return Err(error.into()),
            }
        }
    }

    /// Binds a name that is not bound, until the binding is unbound or dropped, or its session is over. It is not bound again.
    ///
    /// # Errors
    /// * [`Error::Taken`] when it is bound, also by an earlier session of ours that has not ended on the servers yet, or an
    ///   earlier binding of ours that has not been unbound there yet.
    /// * [`Error::InvalidName`], [`Error::Unencodable`].
    /// * [`Error::Framework`] as a [certain](zk_curator::certain) transaction: `SessionExpired` when the session was lost
    ///   meanwhile.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    ///
    /// # Cancel safety
    /// The name is not bound, or is unbound in the background.
    pub async fn bind_ephemeral(&self, name: &str, value: impl ToData) -> Result<Binding, Error> {
        let (path, data) = (self.name_path(name)?, self.data(name, &value)?);
        let (names, name) = (self.clone(), name.to_owned());
        let (tell, told) = oneshot::channel();
        // A task of its own, which goes on when this future is dropped, or nobody would unbind the name.
        self.zk.spawn(async move { drop(tell.send(names.bind_owned(name, path, data).await)) });
        match told.await {
            Ok(bound) => bound,
            // The runtime of the task has ended.
            Err(_) => std::future::pending().await,
        }
    }

    async fn bind_owned(self, name: String, path: String, data: Bytes) -> Result<Binding, Error> {
        let create = || {
            let node = CreateOp::new(path.as_str()).mode(CreateMode::Ephemeral).data(data.clone());
            self.zk.transaction().with(node)
        };
        let applied = self.create(&path, create).await?;
        let there = loop {
            match self.zk.exists(path.as_str()).await {
                Ok(there) => break there,
                // Until it is known, nobody would unbind it.
                Err(error) => self.zk.ride_out(error).await?,
            }
        };
        match there.and_then(|stat| applied.own(&self.zk, &path, stat)) {
            Some(node) => Ok(Binding::new(self, name, node)),
            // Somebody has deleted it already.
            None => Err(Error::NotBound { path }),
        }
    }

    /// Binds a name in a background task, as soon as it is not bound, and again in every session, until the binding is
    /// unbound or dropped: as [`PersistentNode`] does. Several of one session that keep the same value share a node.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::Unencodable`].
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    pub fn keep_bound(&self, name: &str, value: impl ToData) -> Result<KeptBinding, Error> {
        let (path, data) = (self.name_path(name)?, self.data(name, &value)?);
        let node = PersistentNode::builder(&self.zk, path, CreateMode::Ephemeral).data(data).start();
        Ok(KeptBinding::new(self.zk.clone(), name.to_owned(), node))
    }

    /// Binds a name to another value, if its binding is the one that was seen.
    ///
    /// # Errors
    /// * [`Error::NotBound`], [`Error::Rebound`] when it is not.
    /// * [`Error::Held`] when it goes with somebody's session.
    /// * [`Error::InvalidName`], [`Error::Unencodable`].
    /// * [`Error::Framework`] as a write.
    ///
    /// # Cancel safety
    /// Once polled, the name may be rebound.
    pub async fn rebind(&self, name: &str, value: impl ToData, seen: Version) -> Result<Version, Error> {
        let (path, data) = (self.name_path(name)?, self.data(name, &value)?);
        loop {
            let Lasting { identity, .. } = self.look(name, Some(seen)).await?;
            let write = SetDataOp::new(path.as_str(), data.clone()).version(seen.version);
            let identity = identity.map(|identity| CheckOp::new(identity).into());
            if self.change("rebind", identity, write.into()).await? {
                return Ok(Version { version: seen.version.wrapping_add(1), ..seen });
            }
        }
    }

    /// Unbinds a name, if its binding is the one that was seen; whatever it is, if that is `None`.
    ///
    /// # Errors
    /// * [`Error::NotBound`], [`Error::Rebound`].
    /// * [`Error::Held`] when it goes with somebody's session.
    /// * [`Error::InvalidName`].
    /// * [`Error::Framework`] as a delete.
    ///
    /// # Cancel safety
    /// Once polled, the name may be unbound.
    pub async fn unbind(&self, name: &str, seen: Option<Version>) -> Result<(), Error> {
        let path = self.name_path(name)?;
        loop {
            let Lasting { bound, identity } = self.look(name, seen).await?;
            let delete = DeleteOp::new(path.as_str()).version(bound.version.version);
            let identity = identity.map(|identity| DeleteOp::new(identity).into());
            if self.change("unbind", identity, delete.into()).await? {
                return Ok(());
            }
        }
    }

    /// Changes a binding, along with its identity: `false` if it is not as it was seen any more.
    async fn change(
        &self,
        operation: &'static str,
        identity: Option<TransactionOp>,
        change: TransactionOp,
    ) -> Result<bool, Error> {
        let transaction = identity.into_iter().fold(self.zk.transaction(), Transaction::with);
        match transaction.with(change).certain(&self.receipt).commit().await {
            Ok(_) => Ok(true),
            Err(error) if is_race(&error) && error.code() != Some(ErrorCode::NotEmpty) => Ok(false),
            Err(error) => Err(error.of_operation(operation).into()),
        }
    }

    /// What a name is bound to, as far as the server knows that we are connected to; `None` if it is not bound.
    ///
    /// # Errors
    /// * [`Error::InvalidName`].
    /// * [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn resolve(&self, name: &str) -> Result<Option<Bound>, Error> {
        let path = self.name_path(name)?;
        match self.zk.get_data(path.as_str()).with_stat().await {
            Ok((data, stat)) => Ok(Some(Bound::new(path, data, &stat))),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Follows a name for ever, whether it is bound or not.
    ///
    /// # Errors
    /// [`Error::InvalidName`].
    pub fn follow(&self, name: &str) -> Result<NameWatch, Error> {
        Ok(NameWatch::new(self.zk.watch_data(self.name_path(name)?)))
    }

    /// All names that are bound, and to what.
    ///
    /// # Errors
    /// [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn list(&self) -> Result<BTreeMap<String, Bound>, Error> {
        let nodes = match self.zk.children_with_data(self.path.as_str()).await {
            Ok(nodes) => nodes,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let bound = |node: ChildData| {
            let bound = Bound::new(child(&self.path, &node.name), node.data, &node.stat);
            (node.name, bound)
        };
        Ok(nodes.into_iter().filter(|node| !node.name.starts_with(RECEIPT)).map(bound).collect())
    }

    /// A binding that may be changed by anybody.
    async fn look(&self, name: &str, seen: Option<Version>) -> Result<Lasting, Error> {
        let path = self.name_path(name)?;
        let (children, data, stat) = loop {
            let since = self.zk.status().epoch;
            let children = self.zk.children(path.as_str()).synced().into_future();
            let data = self.zk.get_data(path.as_str()).with_stat().into_future();
            // In one flight.
            let (children, read) = join(children, data).await;
            let not_bound = |error: zk_curator::Error| match error.kind() {
                ErrorKind::NoNode => Error::NotBound { path: path.clone() },
                _ => error.into(),
            };
            let (children, (data, stat)) = (children.map_err(not_bound)?, read.map_err(not_bound)?);
            // On one connection the children are read first. If the node is the one that was seen, so are they, or they are
            // older, and their identity is refused.
            if self.zk.status().epoch == since {
                break (children, data, stat);
            }
        };
        let identity = children.iter().find(|child| child.starts_with(IDENTITY));
        let identity = identity.map(|identity| format!("{path}/{identity}"));
        let bound = Bound::new(path.clone(), data, &stat);
        if bound.is_ephemeral {
            Err(Error::Held { path })
        } else if seen.is_some_and(|seen| seen != bound.version) {
            Err(Error::Rebound { path })
        } else {
            Ok(Lasting { bound, identity })
        }
    }

    fn name_path(&self, name: &str) -> Result<String, Error> {
        let path = child(&self.path, name);
        let is_reserved = name.starts_with(RECEIPT);
        if is_reserved || name.contains('/') || ZPath::for_operation("name", path.as_str()).is_err() {
            return Err(Error::InvalidName { path: self.path().to_owned(), name: name.to_owned() });
        }
        Ok(path)
    }

    fn data(&self, name: &str, value: &impl ToData) -> Result<Bytes, Error> {
        value.to_data().map_err(|source| Error::Unencodable { path: child(&self.path, name), source })
    }
}

/// A binding without a session, as it was read.
struct Lasting {
    bound: Bound,
    /// The path of the child that no other binding has; `None` if an earlier version has made it.
    identity: Option<String>,
}

/// Why a name could not be bound or changed.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The name is bound already.
    #[error("{path} is bound already")]
    Taken {
        /// The path of its node.
        path: String,
    },
    /// The name is not bound, or not any more.
    #[error("{path} is not bound")]
    NotBound {
        /// The path of its node.
        path: String,
    },
    /// The binding is not the one that was seen.
    #[error("{path} has been rebound")]
    Rebound {
        /// The path of its node.
        path: String,
    },
    /// The binding goes with a session: only who has made it can change it.
    #[error("{path} is bound to a session")]
    Held {
        /// The path of its node.
        path: String,
    },
    /// It cannot be the name of a node, or begins with `_r_`, as receipts do.
    #[error("{name:?} is no name below {path}")]
    InvalidName {
        /// The path of the names.
        path: String,
        /// The name.
        name: String,
    },
    /// A value is not of the type that was asked for.
    #[error("{path} is bound to no value of this type")]
    Undecodable {
        /// The path of the node.
        path: String,
        /// Why.
        source: Failure,
    },
    /// The value cannot be written.
    #[error("{path} cannot be bound to this value")]
    Unencodable {
        /// The path of the node.
        path: String,
        /// Why.
        source: Failure,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}
