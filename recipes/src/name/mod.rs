//! A name service: what a name stands for, now and later.
//!
//! # Layout
//! ```text
//! /names                            container, made on first use, or by an administrator
//!   ├─ billing                      persistent, or ephemeral: bound to its data
//!   └─ orders
//! ```
//!
//! # Protocol
//! 1. To bind a name is to create its node, which only one can.
//! 2. Who follows a name reads its node with a watch, or leaves one for when it comes, again and again.
//!
//! Requests, counted at a server: one for [`bind`](NameService::bind), [`resolve`](NameService::resolve) and each change that a
//! [`follower`](NameService::follow) is told of, three, in two flights, for [`rebind`](NameService::rebind) and [`unbind`](NameService::unbind), n + 1 to
//! [`list`](NameService::list) n names.
//!
//! # Guarantees
//! * A name is bound to one value at a time. Of those that bind it, or rebind what they have seen, one succeeds.
//! * A binding that goes with its session does not outlive it, and never takes itself for one while it is not connected.
//!   It comes back only where that was [asked for](NameService::keep_bound).
//! * Who follows a name ends with what it is bound to, or with nothing if it is not.
//!
//! # Assumptions
//! Nobody writes to the nodes but by these functions. A binding that goes with a session belongs to who has made it: others
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

use bytes::Bytes;
use zk_curator::op::fan_out;
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind, Stat};

pub use binding::{Binding, KeptBinding};
pub use follow::NameWatch;

use crate::contender::child;
use crate::node::PersistentNode;
use crate::value::{Failure, FromData, ToData};

/// How many names are read at a time.
const READS_AT_ONCE: usize = 64;

/// Names and what they are bound to. Cheap to clone. See the [module](self).
#[derive(Debug, Clone)]
pub struct NameService {
    zk: CuratorFramework,
    path: ZPath,
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
        // Containers and nodes with a time to live have an owner that is none, and is negative.
        Self { path, data, version: Version::of(stat), is_ephemeral: stat.ephemeral_owner > 0 }
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
        Ok(Self { zk: zk.clone(), path: ZPath::for_operation("name", path)? })
    }

    /// The path of the names.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// Binds a name that is not bound, until somebody unbinds it. One that is bound to the same value, and has never been
    /// rebound, counts as bound by us: so a lost answer makes no difference.
    ///
    /// # Errors
    /// * [`Error::Taken`] when it is bound to something else.
    /// * [`Error::InvalidName`], [`Error::Unencodable`].
    /// * [`Error::Framework`] as a create.
    ///
    /// # Cancel safety
    /// Once polled, the name may be bound.
    pub async fn bind(&self, name: &str, value: impl ToData) -> Result<Version, Error> {
        let (path, data) = (self.name_path(name)?, self.data(name, &value)?);
        let create = self.zk.create(path.as_str()).data(data).creating_parents_as_containers().idempotent();
        match create.await {
            Ok(created) => Ok(Version::of(&created.stat)),
            Err(error) => Err(taken(path, error)),
        }
    }

    /// Binds a name that is not bound, until the binding is unbound or dropped, or its session is over. It is not bound again.
    ///
    /// # Errors
    /// * [`Error::Taken`] when it is bound, also by an earlier session of ours that has not ended on the servers yet.
    /// * [`Error::InvalidName`], [`Error::Unencodable`].
    /// * [`Error::Framework`] as a create: `SessionExpired` when the session was lost meanwhile.
    ///
    /// # Cancel safety
    /// The name is not bound, or is unbound in the background.
    pub async fn bind_ephemeral(&self, name: &str, value: impl ToData) -> Result<Binding, Error> {
        let (path, data) = (self.name_path(name)?, self.data(name, &value)?);
        let create = self.zk.create(path.as_str()).mode(CreateMode::Ephemeral).data(data);
        match create.creating_parents_as_containers().idempotent().owned().await {
            Ok(node) => Ok(Binding::new(self.zk.clone(), name.to_owned(), node)),
            Err(error) => Err(taken(path, error)),
        }
    }

    /// Binds a name in a background task, as soon as it is not bound, and again in every session, until the binding is
    /// unbound or dropped: as [`PersistentNode`] does.
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
        // A name that was unbound and bound again has the same numbers of versions.
        self.look(name, Some(seen)).await?;
        match self.zk.set_data(path.as_str(), data).version(seen.version).idempotent().await {
            Ok(stat) => Ok(Version::of(&stat)),
            Err(error) => Err(changed(path, error)),
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
        let bound = self.look(name, seen).await?;
        let Version { czxid, version } = bound.version;
        let delete = self.zk.delete(path.as_str()).version(version).czxid(czxid).idempotent();
        delete.await.map_err(|error| changed(path, error))
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
        Ok(NameWatch::new(self.zk.clone(), self.name_path(name)?))
    }

    /// All names that are bound, and to what.
    ///
    /// # Errors
    /// [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn list(&self) -> Result<BTreeMap<String, Bound>, Error> {
        let names = match self.zk.children(self.path.as_str()).await {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let reads: Vec<_> =
            names.iter().map(|name| self.zk.get_data(child(&self.path, name)).with_stat()).collect();
        let mut bound = BTreeMap::new();
        for (name, read) in names.into_iter().zip(fan_out(READS_AT_ONCE, reads).await) {
            match read {
                Ok((data, stat)) => {
                    let path = child(&self.path, &name);
                    bound.insert(name, Bound::new(path, data, &stat));
                }
                // Unbound meanwhile.
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(bound)
    }

    /// A binding that may be changed by anybody.
    async fn look(&self, name: &str, seen: Option<Version>) -> Result<Bound, Error> {
        let path = self.name_path(name)?;
        let read = self.zk.get_data(path.as_str()).synced().with_stat().await;
        let (data, stat) = read.map_err(|error| changed(path.clone(), error))?;
        let bound = Bound::new(path.clone(), data, &stat);
        if bound.is_ephemeral {
            Err(Error::Held { path })
        } else if seen.is_some_and(|seen| seen != bound.version) {
            Err(Error::Rebound { path })
        } else {
            Ok(bound)
        }
    }

    fn name_path(&self, name: &str) -> Result<String, Error> {
        let path = child(&self.path, name);
        if name.contains('/') || ZPath::for_operation("name", path.as_str()).is_err() {
            return Err(Error::InvalidName { path: self.path().to_owned(), name: name.to_owned() });
        }
        Ok(path)
    }

    fn data(&self, name: &str, value: &impl ToData) -> Result<Bytes, Error> {
        value.to_data().map_err(|source| Error::Unencodable { path: child(&self.path, name), source })
    }
}

fn taken(path: String, error: zk_curator::Error) -> Error {
    match error.kind() {
        ErrorKind::NodeExists => Error::Taken { path },
        _ => error.into(),
    }
}

fn changed(path: String, error: zk_curator::Error) -> Error {
    match error.kind() {
        ErrorKind::NoNode => Error::NotBound { path },
        ErrorKind::BadVersion => Error::Rebound { path },
        _ => error.into(),
    }
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
    /// It cannot be the name of a node.
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
