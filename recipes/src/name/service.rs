use std::collections::BTreeMap;
use std::future::IntoFuture;

use bytes::Bytes;
use futures_util::future::join;
use zk_curator::certain::{Applied, Receipt};
use zk_curator::op::{
    CheckOp, ChildData, CreateOp, DeleteOp, SetDataOp, Transaction, TransactionOp,
};
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};

use super::{Binding, Bound, Error, KeptBinding, NameWatch, Version};
use crate::node::PersistentNode;
use crate::path::child;
use crate::race::{RACE_ROUNDS, is_race};
use zk_curator::value::ToData;

/// The prefix of the name of the child that distinguishes a binding from others of the same name.
const IDENTITY: &str = "_b_";
/// The start of the names of [receipts](zk_curator::certain::is_receipt). No other name starts like
/// that.
const RECEIPT: &str = "_r_";

/// Names and their bindings. Cheap to clone. See the [module](super).
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
        Self { zk: zk.clone(), receipt: Receipt::new(zk, path.as_str()), path }
    }

    /// The path of the names.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Binds an unbound name, until a client unbinds it.
    ///
    /// # Errors
    /// * [`Error::Taken`] when it is bound, whatever to.
    /// * [`Error::InvalidName`], [`Error::Unencodable`].
    /// * [`Error::Framework`] as a [certain](zk_curator::certain) transaction.
    ///
    /// # Cancel safety
    /// Once polled, the name may be bound.
    pub async fn bind(
        &self,
        name: impl Into<String>,
        value: impl ToData,
    ) -> Result<Version, Error> {
        let (path, data) = self.binding("bind", &name.into(), &value)?;
        let identity = format!("{path}/{IDENTITY}{}", self.zk.new_guid());
        let create = || {
            let node = CreateOp::new(path.as_str()).data(data.clone());
            self.zk
                .transaction()
                .with(node)
                .with(CreateOp::new(identity.as_str()).data("").uncompressed())
        };
        Ok(Version { czxid: self.create(&path, create).await?.zxid(), version: 0 })
    }

    /// Creates the node of a name, once, and the parent if it is missing.
    async fn create(&self, path: &str, create: impl Fn() -> Transaction) -> Result<Applied, Error> {
        let mut rounds = 0..RACE_ROUNDS;
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

    /// Binds a name that is not bound, until the binding is unbound or dropped, or its session is
    /// over. It is not bound again.
    ///
    /// # Errors
    /// * [`Error::Taken`] if it is bound. It may be bound by an earlier session of this client that
    ///   has not ended on the servers yet, or by an earlier binding that is not unbound there yet.
    /// * [`Error::InvalidName`], [`Error::Unencodable`].
    /// * [`Error::Framework`] as a create: `SessionExpired` when the session was lost before the
    ///   response. The name is not bound then, or is unbound in the background.
    ///
    /// # Cancel safety
    /// The name is not bound, or is unbound in the background.
    pub async fn bind_ephemeral(
        &self,
        name: impl Into<String>,
        value: impl ToData,
    ) -> Result<Binding, Error> {
        let name = name.into();
        let (path, data) = self.binding("bind_ephemeral", &name, &value)?;
        let create = self.zk.create(path.as_str()).mode(CreateMode::Ephemeral).data(data);
        match create.creating_parents_as_containers().owned().idempotent().await {
            Ok(node) => Ok(Binding::new(self.zk.clone(), self.receipt.clone(), name, node)),
            Err(error) if error.kind() == ErrorKind::NodeExists => Err(Error::Taken { path }),
            Err(error) => Err(error.of_operation("bind_ephemeral").into()),
        }
    }

    /// Binds a name in a background task as soon as it is free, and again in every session, until
    /// the binding is unbound or dropped, as [`PersistentNode`] does. A binding that another handle
    /// of the same session has made is waited for, like one of another client, even if its value is
    /// the same.
    ///
    /// An invalid name, or a value that cannot be encoded, is refused by [`KeptBinding::bound`].
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    pub fn keep_bound(&self, name: impl Into<String>, value: impl ToData) -> KeptBinding {
        let name = name.into();
        let node = || {
            let (path, data) = self.binding("keep_bound", &name, &value)?;
            Ok(PersistentNode::builder(&self.zk, path, CreateMode::Ephemeral).data(data).start())
        };
        let node = node();
        KeptBinding::new(self.zk.clone(), name, node)
    }

    /// Binds a name to another value, if its binding is the expected one.
    ///
    /// # Errors
    /// * [`Error::NotBound`], [`Error::Rebound`] when it is not.
    /// * [`Error::Held`] if the binding belongs to the session of another client.
    /// * [`Error::InvalidName`], [`Error::Unencodable`].
    /// * [`Error::Framework`] as a write.
    ///
    /// # Cancel safety
    /// Once polled, the name may be rebound.
    pub async fn rebind(
        &self,
        name: impl Into<String>,
        value: impl ToData,
        seen: Version,
    ) -> Result<Version, Error> {
        let (path, data) = self.binding("rebind", &name.into(), &value)?;
        loop {
            let Persistent { identity, .. } = self.look(&path, Some(seen)).await?;
            let write = SetDataOp::new(path.as_str(), data.clone()).version(seen.version);
            let identity = identity.map(|identity| CheckOp::new(identity).into());
            if self.change("rebind", identity, write.into()).await? {
                return Ok(Version { version: seen.version.wrapping_add(1), ..seen });
            }
        }
    }

    /// Unbinds a name, if its binding is the expected one, or whatever it is if `seen` is `None`.
    ///
    /// # Errors
    /// * [`Error::NotBound`], [`Error::Rebound`].
    /// * [`Error::Held`] if the binding belongs to the session of another client.
    /// * [`Error::InvalidName`].
    /// * [`Error::Framework`] as a delete.
    ///
    /// # Cancel safety
    /// Once polled, the name may be unbound.
    pub async fn unbind(
        &self,
        name: impl Into<String>,
        seen: Option<Version>,
    ) -> Result<(), Error> {
        let path = self.name_path("unbind", &name.into())?;
        loop {
            let Persistent { bound, identity } = self.look(&path, seen).await?;
            let delete = DeleteOp::new(path.as_str()).version(bound.version.version);
            let identity = identity.map(|identity| DeleteOp::new(identity).into());
            if self.change("unbind", identity, delete.into()).await? {
                return Ok(());
            }
        }
    }

    /// Changes a binding, along with its identity: `false` if it has changed since it was read.
    async fn change(
        &self,
        operation: &'static str,
        identity: Option<TransactionOp>,
        change: TransactionOp,
    ) -> Result<bool, Error> {
        let transaction = identity.into_iter().fold(self.zk.transaction(), Transaction::with);
        match transaction.with(change).certain(&self.receipt).commit().await {
            Ok(_) => Ok(true),
            Err(error) if is_race(&error) => Ok(false),
            Err(error) => Err(error.of_operation(operation).into()),
        }
    }

    /// Returns the value of a name, as far as the connected server knows; `None` if it is not
    /// bound.
    ///
    /// # Errors
    /// * [`Error::InvalidName`].
    /// * [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn resolve(&self, name: impl Into<String>) -> Result<Option<Bound>, Error> {
        let path = self.name_path("resolve", &name.into())?;
        match self.zk.get_data(path.as_str()).with_stat().await {
            Ok((data, stat)) => Ok(Some(Bound::new(path, data, &stat))),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Follows a name forever, whether it is bound or not. An invalid name is refused by
    /// [`NameWatch::next`].
    pub fn follow(&self, name: impl Into<String>) -> NameWatch {
        NameWatch::new(self.name_path("follow", &name.into()).map(|path| self.zk.watch_data(path)))
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
        let names = self.zk.children_with_data(path.as_str()).named(|name| !is_reserved(name));
        let nodes = match names.await {
            Ok(nodes) => nodes,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let bound = |node: ChildData| {
            let bound = Bound::new(child(&self.path, &node.name), node.data, &node.stat);
            (node.name, bound)
        };
        Ok(nodes.into_iter().map(bound).collect())
    }

    /// A binding that every client may change. Its data need not be readable for this handle.
    async fn look(&self, path: &str, seen: Option<Version>) -> Result<Persistent, Error> {
        let zk = self.zk.uncompressed();
        let (children, data, stat) = loop {
            let since = zk.status().epoch;
            let children = zk.children(path).synced().into_future();
            let data = zk.get_data(path).with_stat().into_future();
            // In one round trip.
            let (children, read) = join(children, data).await;
            let not_bound = |error: zk_curator::Error| match error.kind() {
                ErrorKind::NoNode => Error::NotBound { path: path.to_owned() },
                _ => error.into(),
            };
            let (children, (data, stat)) = (children.map_err(not_bound)?, read.map_err(not_bound)?);
            // On one connection the children are read first. If the node is the expected one, the
            // data belong to it, or they are older and their identity is refused.
            if zk.status().epoch == since {
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
            Ok(Persistent { bound, identity })
        }
    }

    fn name_path(&self, operation: &'static str, name: &str) -> Result<String, Error> {
        let path = child(ZPath::for_operation(operation, self.path.as_str())?, name);
        if is_reserved(name) || name.contains('/') || ZPath::parse(path.as_str()).is_err() {
            return Err(Error::InvalidName { path: self.path().to_owned(), name: name.to_owned() });
        }
        Ok(path)
    }

    /// The path and the data of a binding to be.
    fn binding(
        &self,
        operation: &'static str,
        name: &str,
        value: &impl ToData,
    ) -> Result<(String, Bytes), Error> {
        let path = self.name_path(operation, name)?;
        match value.to_data() {
            Ok(data) => Ok((path, data)),
            Err(source) => Err(Error::Unencodable { path, source }),
        }
    }
}

/// Returns `true` if a node below the path may be a receipt, which is no name.
fn is_reserved(name: &str) -> bool {
    name.starts_with(RECEIPT)
}

/// A binding without a session, in the state of its read.
struct Persistent {
    bound: Bound,
    /// The path of the child that no other binding has; `None` if the node was created by hand.
    identity: Option<String>,
}
