//! The builder of a create.

mod run;

use std::time::Duration;

use bytes::Bytes;
use zk_curator_client::{Acl, CreateMode, Error as RawError, Version};

use super::parents::{Parents, parent_options};
use super::settings::{compression_settings, node_settings};
use super::transaction_op::CreateOp;
use super::{OpTarget, Transaction, call_options, output};
use crate::core::Authorship;
use crate::error::Result;
use crate::framework::CuratorFramework;

impl CuratorFramework {
    /// Creates a node.
    ///
    /// **Awaiting returns** [`Created`](crate::Created): the path, with the sequence number, and
    /// the stat. See [`CreateBuilder`] for options and errors.
    pub fn create(&self, path: impl Into<String>) -> CreateBuilder {
        CreateBuilder::new(self.clone(), path.into())
    }
}

/// Creates a node. Fails with `NodeExists`, `NoNode` (of the parent), `NoChildrenForEphemerals`,
/// `InvalidAcl`, `TooLarge`.
///
/// After an unknown outcome, a [`protected`](Self::protected) create finds out, an
/// [`idempotent`](Self::idempotent) one is repeated, and any other one fails with
/// [`may_have_applied`](crate::Error::may_have_applied). If the session ends first, a protected
/// create continues in the next one, while another ephemeral one fails with `SessionExpired`.
///
/// # Cancel safety
/// Once the future was polled, a plain create may leave the node behind. A
/// [protected](Self::protected) create does not: the janitor deletes the node of the abandoned
/// request. Neither does an [`owned`](CreateBuilder::owned) create that is
/// [`idempotent`](Self::idempotent), or whose response arrives. Otherwise it is impossible to tell
/// whose node it is. Created parents may stay in any case.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct CreateBuilder<R = output::Plain> {
    target: OpTarget<R>,
    options: CreateOptions,
    parents: Parents,
}

/// The node to create.
#[derive(Debug)]
struct CreateOptions {
    data: Option<Bytes>,
    acl: Option<Vec<Acl>>,
    mode: CreateMode,
    ttl: Option<Duration>,
    protected: bool,
    /// `true` if the protection is in the data, not in the name.
    by_data: bool,
    /// `true` if no other client can have chosen the name.
    is_unique: bool,
    compressed: Option<bool>,
    idempotent: bool,
    /// The author of the node, if it must be remembered between calls.
    author: Option<Authorship>,
    /// Replaces the data of an existing node if the data have this version.
    or_set_data: Option<Version>,
    /// The node that is read after the create.
    read: Option<String>,
}

impl CreateBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        let options = CreateOptions {
            data: None,
            acl: None,
            mode: CreateMode::Persistent,
            ttl: None,
            protected: false,
            by_data: false,
            is_unique: false,
            compressed: None,
            idempotent: false,
            author: None,
            or_set_data: None,
            read: None,
        };
        Self { target: OpTarget::new(zk, "create", path), options, parents: Parents::default() }
    }

    /// **Awaiting returns** an [`OwnedNode`](crate::OwnedNode), which deletes the node when it is
    /// dropped.
    pub fn owned(self) -> CreateBuilder<output::Owned> {
        self.returning()
    }

    /// **Awaiting returns** an [`OwnedNode`](crate::OwnedNode) and the names of all children of its
    /// parent, listed after the create and in the same round trip.
    pub fn owned_with_siblings(self) -> CreateBuilder<output::OwnedWithSiblings> {
        self.returning()
    }

    /// **Awaiting returns** an [`OwnedNode`](crate::OwnedNode), and the data and stat of another
    /// node, or `None` if that node does not exist. It is read after the create, in the same round
    /// trip, and again if the create is repeated. The data are decompressed as the
    /// [framework](crate::CuratorFrameworkBuilder::enable_compression) does.
    pub fn owned_with_data(
        mut self,
        path: impl Into<String>,
    ) -> CreateBuilder<output::OwnedWithData> {
        self.options.read = Some(path.into());
        self.returning()
    }

    /// Returns a transaction of this one operation.
    pub(crate) fn into_transaction(self) -> Transaction {
        let Self { target, options, parents } = self;
        let conflict = (options.protected || options.accepts_existing())
            .then_some("a certain create cannot be protected, idempotent or replace data");
        let CreateOptions { data, acl, mode, ttl, compressed, .. } = options;
        let (path, data) = (target.path.clone(), data.map(Some));
        let op = CreateOp { path, data, acl, mode, ttl, compressed };
        Transaction::single(target, op, parents, conflict)
    }
}

impl<R> CreateBuilder<R> {
    fn returning<S>(self) -> CreateBuilder<S> {
        CreateBuilder {
            target: self.target.with_output(),
            options: self.options,
            parents: self.parents,
        }
    }

    /// Sets the data. Default: the framework's [default
    /// data](crate::CuratorFrameworkBuilder::default_data), which are empty by default.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.options.data = Some(data.into());
        self
    }

    node_settings!(options);

    parent_options!();

    /// Puts `_c_<uuid>-` in front of the name, as Curator does. If the response to the create is
    /// lost, the client finds the node by this prefix, so the create succeeds exactly once.
    ///
    /// If the client finds its node, but the node belongs to an earlier session, it is deleted and
    /// created again (CURATOR-498). A node that another client deletes before the search looks like
    /// one that was never created, and is created again. If other clients consume the node, create
    /// it in a [certain](crate::certain) transaction.
    pub const fn protected(mut self) -> Self {
        self.options.protected = true;
        self
    }

    /// Recovers a create of a fixed name that other clients may create too. The data identify the
    /// creator, so no other client may use the same data. An [owned](CreateBuilder::owned) node of
    /// this kind is never mistaken for a node that another client has created in its place.
    /// Sequential nodes, and creates without data, are refused.
    ///
    /// If the client finds its node, but the node belongs to an earlier session, it is not deleted,
    /// because another client may have replaced it in between. The create fails with `NodeExists`
    /// until that session is over.
    pub const fn protected_by_data(mut self) -> Self {
        self.options.by_data = true;
        self.protected()
    }

    /// Declares that no other client creates a node of this name, for example because it contains a
    /// UUID. The guard of an [owned](CreateBuilder::owned) node then deletes it in one request,
    /// without a [check](crate::OwnedNode#shared-names) first. Default: other clients may create
    /// nodes of a given name.
    pub const fn unique_name(mut self) -> Self {
        self.options.is_unique = true;
        self
    }

    compression_settings!(options);

    /// Also succeeds if the node exists as this create would have made it: with these data, never
    /// changed, and, if ephemeral, in the same session. Repeats the create after an unknown
    /// outcome.
    ///
    /// Sequential nodes are refused, because their names cannot be compared; see
    /// [`protected`](Self::protected). An [owned](CreateBuilder::owned) node has to be ephemeral,
    /// and must have been created by this very call, whose response was lost. An equal node that
    /// another caller has created in this session belongs to that caller, and the create fails with
    /// `NodeExists`.
    pub const fn idempotent(mut self) -> Self {
        self.options.idempotent = true;
        self
    }

    /// Remembers the author of an [idempotent](Self::idempotent) create of an
    /// [owned](CreateBuilder::owned) node beyond this call. If the outcome is unknown, a later
    /// create by the same author, with the same data, recognises the node. Default: an author of
    /// its own, so the outcome is forgotten when the call fails.
    pub fn authored_by(mut self, author: &Authorship) -> Self {
        self.options.author = Some(author.clone());
        self
    }

    /// Replaces the data if the node exists. Its kind, owner and ACL stay the same. Not for
    /// sequential or owned nodes.
    ///
    /// **Awaiting returns** the stat after the write.
    pub const fn or_set_data(mut self) -> Self {
        self.options.or_set_data = Some(Version::Any);
        self
    }

    /// Does the same as [`or_set_data`](Self::or_set_data) if the data have this version; -1 for
    /// any, as in Java.
    pub fn or_set_data_if(mut self, version: impl Into<Version>) -> Self {
        self.options.or_set_data = Some(version.into());
        self
    }
}

impl CreateOptions {
    /// Refuses contradictory options.
    fn check<R>(&self, target: &OpTarget<R>, owned: bool) -> Result<()> {
        let why = if self.accepts_existing() && self.mode.is_sequential() {
            "a sequential create always makes a new node"
        } else if owned
            && (self.or_set_data.is_some() || (self.idempotent && !self.mode.is_ephemeral()))
        {
            "an owned node cannot be an existing one"
        } else if self.by_data && (self.mode.is_sequential() || self.accepts_existing()) {
            "protection by data is for new nodes whose names are given"
        } else if self.by_data && self.data.as_ref().is_none_or(Bytes::is_empty) {
            "protection by data needs data"
        } else {
            return Ok(());
        };
        Err(target.error(RawError::InvalidArgument(why)))
    }

    /// Returns `true` if other clients may create a node of the same name: it has neither a prefix
    /// nor a number.
    const fn shares_name(&self) -> bool {
        !self.is_unique && (self.by_data || !(self.protected || self.mode.is_sequential()))
    }

    const fn accepts_existing(&self) -> bool {
        self.idempotent || self.or_set_data.is_some()
    }
}

call_options!(CreateBuilder<R>);
