use std::collections::BTreeMap;
use std::future::IntoFuture;

use bytes::Bytes;
use futures_util::future::join;
use tokio::sync::oneshot;
use zk_curator::certain::{Applied, Receipt};
use zk_curator::op::{CheckOp, ChildData, CreateOp, DeleteOp, SetDataOp, Transaction, TransactionOp};
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind};

use super::{Binding, Bound, Error, KeptBinding, NameWatch, Version};
use crate::node::PersistentNode;
use crate::path::child;
use crate::removal::is_race;
use zk_curator::value::ToData;

/// The number of times that the parent is created while others remove it.
const ROUNDS: usize = 50;
/// The start of the name of the child that tells a binding from others of the same name.
const IDENTITY: &str = "_b_";
/// The start of the names of receipts, which are no names here.
const RECEIPT: &str = "_r_";

/// Names and what they are bound to. Cheap to clone. See the [module](super).
#[derive(Debug, Clone)]
pub struct NameService {
    zk: CuratorFramework,
    path: String,
    receipt: Receipt,
}

impl NameService {
    /// The names below a path. Nothing is sent. An invalid path is refused by the first operation.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { zk: zk.clone(), receipt: Receipt::at(zk, path.as_str()), path }
    }

    /// The path of the names.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
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
        let (path, data) = (self.name_path("bind", name)?, self.data(name, &value)?);
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
        let (path, data) = (self.name_path("bind_ephemeral", name)?, self.data(name, &value)?);
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
            Some(node) => Ok(Binding::new(self.zk, self.receipt, name, node)),
            // Already deleted.
            None => Err(Error::NotBound { path }),
        }
    }

    /// Binds a name in a background task, as soon as it is not bound, and again in every session, until the binding is
    /// unbound or dropped: as [`PersistentNode`] does. Several of one session that keep the same value share a node.
    ///
    /// An invalid name, or a value that cannot be encoded, is refused by [`KeptBinding::bound`].
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    pub fn keep_bound(&self, name: &str, value: impl ToData) -> KeptBinding {
        let node = || {
            let (path, data) = (self.name_path("keep_bound", name)?, self.data(name, &value)?);
            Ok(PersistentNode::builder(&self.zk, path, CreateMode::Ephemeral).data(data).start())
        };
        KeptBinding::new(self.zk.clone(), name.to_owned(), node())
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
        let (path, data) = (self.name_path("rebind", name)?, self.data(name, &value)?);
        loop {
            let Lasting { identity, .. } = self.look(&path, Some(seen)).await?;
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
        let path = self.name_path("unbind", name)?;
        loop {
            let Lasting { bound, identity } = self.look(&path, seen).await?;
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

    /// Returns the value of a name, as far as the connected server knows; `None` if it is not bound.
    ///
    /// # Errors
    /// * [`Error::InvalidName`].
    /// * [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn resolve(&self, name: &str) -> Result<Option<Bound>, Error> {
        let path = self.name_path("resolve", name)?;
        match self.zk.get_data(path.as_str()).with_stat().await {
            Ok((data, stat)) => Ok(Some(Bound::new(path, data, &stat))),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Follows a name for ever, whether it is bound or not. An invalid name is refused by [`NameWatch::next`].
    pub fn follow(&self, name: &str) -> NameWatch {
        NameWatch::new(self.name_path("follow", name).map(|path| self.zk.watch_data(path)))
    }

    /// All names that are bound, and to what.
    ///
    /// # Errors
    /// [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn list(&self) -> Result<BTreeMap<String, Bound>, Error> {
        let path = ZPath::for_operation("list", self.path.as_str())?;
        let nodes = match self.zk.children_with_data(path.as_str()).await {
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
    async fn look(&self, path: &str, seen: Option<Version>) -> Result<Lasting, Error> {
        let (children, data, stat) = loop {
            let since = self.zk.status().epoch;
            let children = self.zk.children(path).synced().into_future();
            let data = self.zk.get_data(path).with_stat().into_future();
            // In one flight.
            let (children, read) = join(children, data).await;
            let not_bound = |error: zk_curator::Error| match error.kind() {
                ErrorKind::NoNode => Error::NotBound { path: path.to_owned() },
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
        let bound = Bound::new(path.to_owned(), data, &stat);
        if bound.is_ephemeral {
            Err(Error::Held { path: path.to_owned() })
        } else if seen.is_some_and(|seen| seen != bound.version) {
            Err(Error::Rebound { path: path.to_owned() })
        } else {
            Ok(Lasting { bound, identity })
        }
    }

    fn name_path(&self, operation: &'static str, name: &str) -> Result<String, Error> {
        let path = child(ZPath::for_operation(operation, self.path.as_str())?, name);
        let is_reserved = name.starts_with(RECEIPT);
        if is_reserved || name.contains('/') || ZPath::parse(path.as_str()).is_err() {
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
