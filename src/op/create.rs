use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zk_curator_client::{Acl, CreateMode, Created, Error as RawError, ErrorCode, Op};

use super::protected::{Claim, find, new_prefix};
use super::{RACE_ROUNDS, Target, awaits, output};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::{CuratorFramework, Session};
use crate::janitor::Protection;
use crate::owned_node::OwnedNode;
use crate::path::{join, split, validate_create};
use crate::raw::RawFuture;
use crate::retry::Budget;
use crate::schema::Intent;

/// Creates a node. Fails with `NodeExists`, `NoNode` (of the parent), `NoChildrenForEphemerals`, `InvalidAcl`,
/// `TooLarge`.
///
/// After an unknown outcome a [`protected`](Self::protected) create finds out; another one fails with
/// [`may_have_applied`](crate::Error::may_have_applied). If the session ends first, a protected create goes on in
/// the next one; another ephemeral one fails with `SessionExpired`.
///
/// # Cancel safety
/// Once polled, a plain create may leave the node behind. A [protected](Self::protected) one does not: the
/// janitor deletes what the abandoned request has created. Nor does an [`owned`](CreateBuilder::owned) one, unless
/// its answer is lost: without a protection nobody can tell whose node it is.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct CreateBuilder<R = output::Plain> {
    target: Target<R>,
    data: Bytes,
    acl: Vec<Acl>,
    mode: CreateMode,
    ttl: Option<Duration>,
    parents: Parents,
    protected: bool,
    compressed: Option<bool>,
}

/// What to do about missing parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parents {
    /// The create fails.
    Expect,
    /// They are created with this mode and without data.
    Create(CreateMode),
}

impl CreateBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        Self {
            target: Target::new(zk, "create", path),
            data: Bytes::new(),
            acl: Acl::open_unsafe(),
            mode: CreateMode::Persistent,
            ttl: None,
            parents: Parents::Expect,
            protected: false,
            compressed: None,
        }
    }

    /// **Awaiting returns** an [`OwnedNode`], which deletes the node when it is dropped.
    pub fn owned(self) -> CreateBuilder<output::Owned> {
        self.returning()
    }

    /// **Awaiting returns** an [`OwnedNode`] and the names of all children of its parent, listed after the
    /// create and in the same flight.
    pub fn owned_with_siblings(self) -> CreateBuilder<output::OwnedWithSiblings> {
        self.returning()
    }
}

impl<R> CreateBuilder<R> {
    fn returning<S>(self) -> CreateBuilder<S> {
        CreateBuilder {
            target: self.target.into(),
            data: self.data,
            acl: self.acl,
            mode: self.mode,
            ttl: self.ttl,
            parents: self.parents,
            protected: self.protected,
            compressed: self.compressed,
        }
    }

    /// The data. Default: none.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// The kind of node. Default: [`CreateMode::Persistent`].
    pub const fn mode(mut self, mode: CreateMode) -> Self {
        self.mode = mode;
        self
    }

    /// The time to live, for the modes that have one: from 1 ms to 2^40 - 1 ms. The servers must have
    /// `extendedTypesEnabled`.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The access control list. Default: everybody may do everything.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Creates missing parents as persistent nodes, without data and open to everybody.
    pub const fn creating_parents(mut self) -> Self {
        self.parents = Parents::Create(CreateMode::Persistent);
        self
    }

    /// Creates missing parents as containers, which the server removes when their last child is gone; without
    /// data and open to everybody.
    pub const fn creating_parents_as_containers(mut self) -> Self {
        self.parents = Parents::Create(CreateMode::Container);
        self
    }

    /// Puts `_c_<uuid>-` in front of the name, as Curator does. If the answer to the create is lost, the node
    /// is found by it: the create then succeeds all the same, exactly once.
    ///
    /// A node that is found but belongs to an earlier session is deleted and created anew (CURATOR-498).
    pub const fn protected(mut self) -> Self {
        self.protected = true;
        self
    }

    /// Stores the data compressed. Default: as the [framework](crate::CuratorFrameworkBuilder::enable_compression) does.
    pub const fn compressed(mut self) -> Self {
        self.compressed = Some(true);
        self
    }

    /// Stores the data as they are, also where the framework compresses.
    pub const fn uncompressed(mut self) -> Self {
        self.compressed = Some(false);
        self
    }

    async fn run(mut self, owned: bool, siblings: bool) -> Result<(OwnedNode, Vec<String>)> {
        let target = &self.target;
        let invalid = |why| Error::invalid_path(target.operation, target.path.as_str(), why);
        validate_create(&target.path, self.mode.is_sequential()).map_err(invalid)?;
        target.admit(Intent::Create { mode: self.mode, data: &self.data, acl: &self.acl })?;
        self.data = target.compress(self.compressed, self.data)?;
        let server_path = target.zk.ns().apply_create(&target.path, self.mode.is_sequential());
        let (parent, name) = split(&server_path);
        let protection =
            self.protected.then(|| Protection { parent: parent.to_owned(), prefix: new_prefix() });
        let mut claim =
            Claim::new(target.zk.core(), protection, self.mode.is_ephemeral(), owned || self.protected);
        let mut budget = Budget::new(target.zk.core());
        let mut parent_rounds = 0;
        loop {
            let session = target.session()?;
            let prefix = claim.protection().map_or("", |protection| protection.prefix.as_str());
            let path = join(parent, &format!("{prefix}{name}"));
            let create = session.raw.create(self.op(path));
            claim.creating(&session, create);
            // Queued before anything is awaited: one flight.
            let children = siblings.then(|| session.raw.get_children(parent));
            match claim.answer().await {
                Ok(created) => {
                    let node = OwnedNode::new(&target.zk, created, session, self.mode.is_ephemeral());
                    let names = match children {
                        Some(children) => self.siblings(parent, Some(children)).await?,
                        None => Vec::new(),
                    };
                    return Ok((node, names));
                }
                Err(RawError::Refused(ErrorCode::NoNode)) if parent_rounds < RACE_ROUNDS => {
                    parent_rounds += 1;
                    self.create_parents(&mut budget, parent).await?;
                }
                Err(error) => {
                    let error = target.error(error);
                    if error.may_have_applied() {
                        if !self.protected {
                            return Err(error);
                        }
                        let found = self.recover(&mut claim, &mut budget, error, session.epoch).await?;
                        if let Some(node) = found {
                            let names =
                                if siblings { self.siblings(parent, None).await? } else { Vec::new() };
                            return Ok((node, names));
                        }
                        continue;
                    }
                    if error.is_session_lost() && self.mode.is_ephemeral() && !self.protected {
                        // The next session's node would be another thing than the one that was asked for.
                        return Err(error);
                    }
                    budget.spend(error, session.epoch).await?;
                }
            }
        }
    }

    fn op(&self, path: String) -> Op {
        Op::Create { path, data: self.data.clone(), acl: self.acl.clone(), mode: self.mode, ttl: self.ttl }
    }

    /// After a lost answer, which is `lost`: the node, if the create was applied in the present session. `None`
    /// if it has to be created anew. Giving up leaves the search to the janitor, because the claim stays.
    async fn recover(
        &self,
        claim: &mut Claim<'_>,
        budget: &mut Budget<'_>,
        lost: Error,
        mut epoch: u64,
    ) -> Result<Option<OwnedNode>> {
        let mut error = lost.clone();
        loop {
            budget.spend(error, epoch).await.map_err(|_| lost.clone())?;
            let session = self.target.session().map_err(|_| lost.clone())?;
            match self.look(claim, &session).await {
                Ok(node) => return Ok(node),
                Err(failed) => (error, epoch) = (self.target.error(failed), session.epoch),
            }
        }
    }

    async fn look(
        &self,
        claim: &mut Claim<'_>,
        session: &Arc<Session>,
    ) -> Result<Option<OwnedNode>, RawError> {
        let Some(protection) = claim.protection().cloned() else {
            return Err(RawError::UnexpectedAnswer);
        };
        let Some(path) = find(&*session.raw, &protection).await? else {
            claim.settle();
            return Ok(None);
        };
        let stat = session.raw.exists(&path).await?;
        let ours = |owner| session.raw.session().is_some_and(|session| session.id.get() == owner);
        match stat {
            Some(stat) if !self.mode.is_ephemeral() || ours(stat.ephemeral_owner) => {
                let node = OwnedNode::new(
                    &self.target.zk,
                    Created::new(path, stat),
                    Arc::clone(session),
                    self.mode.is_ephemeral(),
                );
                claim.settle();
                return Ok(Some(node));
            }
            Some(_) => match session.raw.delete(&path, None).await {
                Ok(()) | Err(RawError::Refused(ErrorCode::NoNode)) => {}
                Err(error) => return Err(error),
            },
            None => {}
        }
        claim.renew();
        Ok(None)
    }

    /// Creates the parent and what is missing above it, if that was asked for or it is the namespace.
    async fn create_parents(&self, budget: &mut Budget<'_>, parent: &str) -> Result<()> {
        let mut mode = match self.parents {
            Parents::Create(mode) => Some(mode),
            Parents::Expect => None,
        };
        if mode.is_none() && self.target.zk.ns().node() == Some(parent) {
            mode = Some(CreateMode::Container);
        }
        let no_node = || Error::new(ErrorKind::NoNode, self.target.operation, self.target.path.as_str());
        let mode = mode.ok_or_else(no_node)?;
        // From the parent upwards until one can be created, and down again (CURATOR-715).
        let mut missing = vec![parent];
        while let Some(path) = missing.last().copied() {
            let session = self.target.session()?;
            let op = Op::Create {
                path: path.to_owned(),
                data: Bytes::new(),
                acl: Acl::open_unsafe(),
                mode,
                ttl: None,
            };
            match session.raw.create(op).await {
                Ok(_) | Err(RawError::Refused(ErrorCode::NodeExists)) => {
                    missing.pop();
                }
                // The root is there, unless it is a chroot, which is not ours to create.
                Err(RawError::Refused(ErrorCode::NoNode)) if split(path).0 != "/" => {
                    missing.push(split(path).0);
                }
                Err(error) => budget.spend(self.target.error(error), session.epoch).await?,
            }
        }
        Ok(())
    }

    /// Lists the parent, through the request that is in flight already if there is one.
    async fn siblings(
        &self,
        parent: &str,
        mut in_flight: Option<RawFuture<zk_curator_client::Children>>,
    ) -> Result<Vec<String>> {
        let mut budget = Budget::new(self.target.zk.core());
        loop {
            let session = self.target.session()?;
            match in_flight.take().unwrap_or_else(|| session.raw.get_children(parent)).await {
                Ok(children) => return Ok(children.names),
                // The parent is gone, and the node with it.
                Err(RawError::Refused(ErrorCode::NoNode)) => return Ok(Vec::new()),
                Err(error) => budget.spend(self.target.error(error), session.epoch).await?,
            }
        }
    }
}

awaits!(CreateBuilder => Created, |this| this.run(false, false).await.map(|(node, _)| node.leak()));
awaits!(CreateBuilder<output::Owned> => OwnedNode, |this| this.run(true, false).await.map(|(node, _)| node));
awaits!(CreateBuilder<output::OwnedWithSiblings> => (OwnedNode, Vec<String>), |this| this.run(true, true).await);
