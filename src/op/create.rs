use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator_client::{Acl, CreateMode, Created, Error as RawError, ErrorCode, Op, Stat, Version};

use super::parents::{Parents, create_parents, missing_chroot, parent_options};
use super::protected::Claim;
use super::set_data::Write;
use super::transaction_op::CreateOp;
use super::{Attempt, Target, Transaction, awaits, call_options, output};
use crate::core::{Core, Found, Protection, RACE_ROUNDS, find, new_prefix};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::owned_node::OwnedNode;
use crate::path::{join, split, validate_create};
use crate::raw::{RawClient, RawFuture};
use crate::retry::Budget;
use crate::schema::Intent;

impl CuratorFramework {
    /// Creates a node.
    ///
    /// **Awaiting returns** [`Created`](crate::Created): the path, with the sequence number, and the stat.
    /// See [`CreateBuilder`] for options and errors.
    pub fn create(&self, path: impl Into<String>) -> CreateBuilder {
        CreateBuilder::new(self.clone(), path.into())
    }
}

/// Creates a node. Fails with `NodeExists`, `NoNode` (of the parent), `NoChildrenForEphemerals`, `InvalidAcl`,
/// `TooLarge`.
///
/// After an unknown outcome a [`protected`](Self::protected) create finds out, and an
/// [`idempotent`](Self::idempotent) one is repeated; another one fails with
/// [`may_have_applied`](crate::Error::may_have_applied). If the session ends first, a protected create goes on in
/// the next one; another ephemeral one fails with `SessionExpired`.
///
/// # Cancel safety
/// Once polled, a plain create may leave the node behind. A [protected](Self::protected) one does not: the
/// janitor deletes what the abandoned request has created. Nor does an [`owned`](CreateBuilder::owned) one, unless
/// its answer is lost: without a protection nobody can tell whose node it is. Parents may stay in any case.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct CreateBuilder<R = output::Plain> {
    target: Target<R>,
    options: Options,
    parents: Parents,
}

/// The node to create.
#[derive(Debug)]
struct Options {
    data: Option<Bytes>,
    acl: Option<Vec<Acl>>,
    mode: CreateMode,
    ttl: Option<Duration>,
    protected: bool,
    /// Whether it is so by its data, and not by its name.
    by_data: bool,
    /// Whether nobody else can have chosen the name.
    is_unique: bool,
    compressed: Option<bool>,
    idempotent: bool,
    /// Replaces the data of an existing node, if they have this version.
    or_set_data: Option<Version>,
    /// The node that is read afterwards.
    read: Option<String>,
}

impl CreateBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        let options = Options {
            data: None,
            acl: None,
            mode: CreateMode::Persistent,
            ttl: None,
            protected: false,
            by_data: false,
            is_unique: false,
            compressed: None,
            idempotent: false,
            or_set_data: None,
            read: None,
        };
        Self { target: Target::new(zk, "create", path), options, parents: Parents::default() }
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

    /// **Awaiting returns** an [`OwnedNode`], and the data and stat of another node, which is `None` if it does not exist. It is
    /// read after the create, also when that has to be repeated, and in the same flight. The data are decompressed as the
    /// [framework](crate::CuratorFrameworkBuilder::enable_compression) does.
    pub fn owned_with_data(mut self, path: impl Into<String>) -> CreateBuilder<output::OwnedWithData> {
        self.options.read = Some(path.into());
        self.returning()
    }

    /// Returns a transaction of this one operation.
    pub(crate) fn into_transaction(self) -> Transaction {
        let Self { target, options, parents } = self;
        let conflict = (options.protected || options.accepts_existing())
            .then_some("a certain create cannot be protected, idempotent or replace data");
        let Options { data, acl, mode, ttl, compressed, .. } = options;
        let op = CreateOp { path: target.path.clone(), data, acl, mode, ttl, compressed };
        Transaction::single(target, op, parents, conflict)
    }
}

/// Reads after the create, given the parent.
type Beside<'a, T> = dyn Fn(&dyn RawClient, &str) -> RawFuture<T> + Send + Sync + 'a;

impl<R> CreateBuilder<R> {
    fn returning<S>(self) -> CreateBuilder<S> {
        CreateBuilder { target: self.target.with_output(), options: self.options, parents: self.parents }
    }

    /// The data. Default: the framework's [default data](crate::CuratorFrameworkBuilder::default_data), which are
    /// none unless it says otherwise.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.options.data = Some(data.into());
        self
    }

    /// The kind of node. Default: [`CreateMode::Persistent`].
    pub const fn mode(mut self, mode: CreateMode) -> Self {
        self.options.mode = mode;
        self
    }

    /// The time to live, for the modes that have one: from 1 ms to 2^40 - 1 ms. The servers must have
    /// `extendedTypesEnabled`.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// The access control list. Default: that of the [provider](crate::acl::AclProvider). That of parents that are
    /// created is [`acl_of_parents`](Self::acl_of_parents).
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.options.acl = Some(acl);
        self
    }

    parent_options!();

    /// Puts `_c_<uuid>-` in front of the name, as Curator does. If the answer to the create is lost, the node
    /// is found by it: the create then succeeds all the same, exactly once.
    ///
    /// A node that is found but belongs to an earlier session is deleted and created anew (CURATOR-498). A node that somebody else
    /// has deleted before it is looked for cannot be told from one that was never created, and is created again: what others
    /// consume is created in a [certain](crate::certain) transaction.
    pub const fn protected(mut self) -> Self {
        self.options.protected = true;
        self
    }

    /// Recovers a create of a fixed name, which other clients may create too: its data say whose it is, so nobody else
    /// may have the same. An [owned](CreateBuilder::owned) node of this kind is never mistaken for that of another who
    /// has created it after us. Not for sequential nodes, nor without data.
    ///
    /// A node that is found but belongs to an earlier session is not deleted: others may have created theirs by then. The
    /// create fails with `NodeExists` until that session is over.
    pub const fn protected_by_data(mut self) -> Self {
        self.options.by_data = true;
        self.protected()
    }

    /// Says that nobody else creates a node of this name, because it contains a UUID for example: the guard of an
    /// [owned](CreateBuilder::owned) node then deletes it in one request, without a [look](OwnedNode#shared-names) before.
    /// Default: of names that were given, others may create nodes too.
    pub const fn unique_name(mut self) -> Self {
        self.options.is_unique = true;
        self
    }

    /// Stores the data compressed. Default: as the [framework](crate::CuratorFrameworkBuilder::enable_compression) does.
    pub const fn compressed(mut self) -> Self {
        self.options.compressed = Some(true);
        self
    }

    /// Stores the data as they are, also where the framework compresses.
    pub const fn uncompressed(mut self) -> Self {
        self.options.compressed = Some(false);
        self
    }

    /// Succeeds, too, when the node exists as this create would have made it: with these data, never changed,
    /// and if it is ephemeral in the same session. Repeats the create after an unknown outcome.
    ///
    /// Not for sequential nodes, whose names cannot be compared, see [`protected`](Self::protected); nor for owned ones,
    /// unless they are ephemeral: then whoever has created it in this session with these data owns it as well.
    pub const fn idempotent(mut self) -> Self {
        self.options.idempotent = true;
        self
    }

    /// Replaces the data when the node exists; its kind, owner and ACL stay. Not for sequential or owned nodes.
    ///
    /// **Awaiting returns** the stat after that.
    pub const fn or_set_data(mut self) -> Self {
        self.options.or_set_data = Some(Version::Any);
        self
    }

    /// [`or_set_data`](Self::or_set_data), if the data have this version; -1 for any, as in Java.
    pub fn or_set_data_if(mut self, version: impl Into<Version>) -> Self {
        self.options.or_set_data = Some(version.into());
        self
    }

    /// Creates the node, and reads what is to be read after that: `None` if it does not exist. `keep` makes of the node what
    /// the caller is to have, before anything else is awaited; its path is the server's.
    async fn run<K, T>(
        mut self,
        owned: bool,
        keep: impl Fn(&Self, Created, &Attempt) -> K,
        beside: Option<&Beside<'_, T>>,
    ) -> Result<(K, Option<T>)> {
        self.options.check(&self.target, owned)?;
        let (own_data, own_acl) = (self.options.data.take(), self.options.acl.take());
        let (target, options) = (&self.target, &self.options);
        let sequential = options.mode.is_sequential();
        let invalid = |why| Error::invalid_path(target.operation, target.path.as_str(), why);
        validate_create(&target.path, sequential).map_err(invalid)?;
        let server_path = target.zk.ns().apply_create(&target.path, sequential);
        let (parent, name) = split(&server_path);
        let core = target.zk.core();
        let acl = own_acl.unwrap_or_else(|| core.acl_of(&server_path));
        let plain = own_data.unwrap_or_else(|| core.default_data());
        target.admit(Intent::Create { mode: options.mode, data: &plain, acl: &acl })?;
        let data = target.compress(options.compressed, plain)?;
        let protection = options.protected.then(|| Protection {
            parent: parent.to_owned(),
            prefix: if options.by_data { name.to_owned() } else { new_prefix(&core.random) },
            data: options.by_data.then(|| data.clone()),
        });
        let (bound, owes) = (options.mode.is_ephemeral(), owned || options.protected);
        let mut claim = Claim::new(core, &server_path, protection, bound, owes, options.shares_name());
        let mut budget = target.budget();
        let mut unknown: Option<Error> = None;
        let mut rounds = 0..RACE_ROUNDS;
        let (mode, ttl) = (options.mode, options.ttl);
        let mut op = Op::Create { path: String::new(), data: data.clone(), acl, mode, ttl };
        loop {
            let attempt = target.attempt(&budget).await.map_err(|last| unknown.clone().unwrap_or(last))?;
            let prefix = claim.protection().filter(|protection| protection.data.is_none());
            let prefix = prefix.map_or("", |protection| protection.prefix.as_str());
            if let Op::Create { path, .. } = &mut op {
                *path = if prefix.is_empty() {
                    server_path.clone()
                } else {
                    join(parent, &format!("{prefix}{name}"))
                };
            }
            let owed = options.shares_name() && core.held.owes(&server_path);
            // The deadline ends the wait, and not the answer: it may have to be deleted.
            let raw = &attempt.session.raw;
            let sent = claim.create(&attempt.session, || raw.create_revocable(&op));
            sent.map_err(|last| unknown.clone().unwrap_or_else(|| target.error(last)))?;
            // Queued before anything is awaited: one flight.
            let read = beside.map(|beside| (attempt.session.epoch, beside(&*attempt.raw, parent)));
            let error = match claim.answer(budget.time_left()).await {
                Ok(created) => {
                    let node = keep(&self, created, &attempt);
                    return Ok((node, self.beside(&mut budget, beside, parent, read).await?));
                }
                Err(RawError::Refused(ErrorCode::NoNode)) if parent == "/" => {
                    return Err(unknown.unwrap_or_else(|| missing_chroot(target)));
                }
                Err(RawError::Refused(ErrorCode::NoNode)) if rounds.next().is_some() => {
                    create_parents(target, &mut budget, parent, &self.parents)
                        .await
                        .map_err(|last| unknown.clone().unwrap_or(last))?;
                    continue;
                }
                Err(RawError::Refused(ErrorCode::NodeExists)) if options.accepts_existing() => {
                    match self.adopt(&mut budget, &attempt, &server_path, &data).await {
                        Ok(Some(created)) => {
                            let node = keep(&self, created, &attempt);
                            return Ok((node, self.beside(&mut budget, beside, parent, None).await?));
                        }
                        // It has just gone.
                        Ok(None) if rounds.next().is_some() => continue,
                        Ok(None) => target.error(RawError::Refused(ErrorCode::NodeExists)),
                        Err(error) => return Err(unknown.unwrap_or(error)),
                    }
                }
                // A guard of ours was dropped, and its node was still to be deleted.
                Err(RawError::Refused(ErrorCode::NodeExists)) if owed && rounds.next().is_some() => {
                    settled(core, &budget, &server_path)
                        .await
                        .map_err(|taken| unknown.clone().unwrap_or_else(|| target.error(taken)))?;
                    continue;
                }
                Err(error) => target.error(error),
            };
            if error.may_have_applied() && options.protected {
                let recovered = self.recover(&mut claim, &mut budget, error, attempt.session.epoch);
                let Some((created, attempt)) = recovered.await? else { continue };
                let node = keep(&self, created, &attempt);
                return Ok((node, self.beside(&mut budget, beside, parent, None).await?));
            }
            if error.may_have_applied() {
                if !options.idempotent {
                    return Err(error);
                }
                unknown.get_or_insert_with(|| error.clone());
            }
            if error.is_session_lost() && options.mode.is_ephemeral() && !options.protected {
                // The next session's node would be another thing than the one that was asked for.
                return Err(unknown.unwrap_or(error));
            }
            budget
                .spend(error, attempt.session.epoch)
                .await
                .map_err(|last| unknown.clone().unwrap_or(last))?;
        }
    }

    /// The node without a guard, with its path within the namespace.
    fn plain(&self, created: Created, _: &Attempt) -> Created {
        Created::new(self.target.zk.ns().strip(&created.path).to_owned(), created.stat)
    }

    /// The node with a guard.
    fn guarded(&self, created: Created, attempt: &Attempt) -> OwnedNode {
        let session = Arc::clone(&attempt.session);
        let ephemeral = self.options.mode.is_ephemeral();
        OwnedNode::new(&self.target.zk, created, session, ephemeral, self.options.shares_name())
    }

    /// Returns the existing node if it will do, after its data were replaced if that was asked for; `None` if it has
    /// gone. `path` is the server's.
    async fn adopt(
        &self,
        budget: &mut Budget<'_>,
        attempt: &Attempt,
        path: &str,
        data: &Bytes,
    ) -> Result<Option<Created>> {
        let (target, options) = (&self.target, &self.options);
        let gone = |error: Error| if error.kind() == ErrorKind::NoNode { Ok(None) } else { Err(error) };
        if options.idempotent {
            let present = match target.read_within(budget, path, |raw, path| raw.get_data(path)).await {
                Ok(present) => present,
                Err(error) => return gone(error),
            };
            let ours = |owner| attempt.session.raw.session().is_some_and(|session| session.id.get() == owner);
            let same_owner = !options.mode.is_ephemeral() || ours(present.stat.ephemeral_owner);
            if present.stat.version == 0 && present.data == *data && same_owner {
                return Ok(Some(Created::new(path.to_owned(), present.stat)));
            }
        }
        let Some(version) = options.or_set_data else {
            return Err(target.error(RawError::Refused(ErrorCode::NodeExists)));
        };
        let write = Write { data, version, idempotent: options.idempotent };
        match write.run(target, budget, path).await {
            Ok(stat) => Ok(Some(Created::new(path.to_owned(), stat))),
            // A node that is gone is created, not written again (CURATOR-719).
            Err(error) => gone(error),
        }
    }

    /// After a lost answer, which is `lost`: the node, if the create was applied in the present session. `None`
    /// if it has to be created anew. Giving up leaves the search to the janitor, because the claim stays.
    async fn recover(
        &self,
        claim: &mut Claim<'_>,
        budget: &mut Budget<'_>,
        lost: Error,
        mut epoch: u64,
    ) -> Result<Option<(Created, Attempt)>> {
        let mut error = lost.clone();
        loop {
            budget.spend(error, epoch).await.map_err(|_| lost.clone())?;
            let attempt = self.target.attempt(budget).await.map_err(|_| lost.clone())?;
            match self.look(claim, &attempt).await {
                Ok(created) => return Ok(created.map(|created| (created, attempt))),
                Err(taken @ RawError::Refused(ErrorCode::NodeExists)) => {
                    return Err(self.target.error(taken));
                }
                Err(failed) => {
                    (error, epoch) = (self.target.error(failed), attempt.session.epoch);
                }
            }
        }
    }

    async fn look(&self, claim: &mut Claim<'_>, attempt: &Attempt) -> Result<Option<Created>, RawError> {
        let raw = &*attempt.raw;
        let Some(protection) = claim.protection().cloned() else {
            return Err(RawError::UnexpectedAnswer);
        };
        let Some(Found { path, stat }) = find(raw, &protection).await? else {
            claim.settle()?;
            return Ok(None);
        };
        let shared = stat.is_some();
        let stat = match stat {
            Some(stat) => Some(stat),
            None => raw.exists(&path).await?,
        };
        let ours = |owner| raw.session().is_some_and(|session| session.id.get() == owner);
        match stat {
            Some(stat) if !self.options.mode.is_ephemeral() || ours(stat.ephemeral_owner) => {
                claim.settle()?;
                return Ok(Some(Created::new(path, stat)));
            }
            // It ends with its session, and may have ended since. To delete it could hit that of somebody else.
            Some(_) if shared => {
                claim.settle()?;
                return Err(RawError::Refused(ErrorCode::NodeExists));
            }
            Some(_) => match raw.delete(&path, Version::Any).await {
                Ok(()) | Err(RawError::Refused(ErrorCode::NoNode)) => {}
                Err(error) => return Err(error),
            },
            None => {}
        }
        claim.renew()?;
        Ok(None)
    }

    /// Reads what is to be read after the create, through the request that is in flight already if there is one.
    async fn beside<T>(
        &self,
        budget: &mut Budget<'_>,
        beside: Option<&Beside<'_, T>>,
        parent: &str,
        mut in_flight: Option<(u64, RawFuture<T>)>,
    ) -> Result<Option<T>> {
        // A create that is done is not to fail for what nobody has asked for.
        let Some(beside) = beside else { return Ok(None) };
        loop {
            let (epoch, read) = match in_flight.take() {
                Some(sent) => sent,
                None => {
                    let attempt = self.target.attempt(budget).await?;
                    (attempt.session.epoch, beside(&*attempt.raw, parent))
                }
            };
            match read.await {
                Ok(read) => return Ok(Some(read)),
                Err(RawError::Refused(ErrorCode::NoNode)) => return Ok(None),
                Err(error) => budget.spend(self.target.error(error), epoch).await?,
            }
        }
    }
}

/// Waits until a node that we owe the deletion of is deleted, or cannot be; no longer than the call may take, nor than
/// a request waits for a connection.
async fn settled(core: &Core, budget: &Budget<'_>, path: &str) -> Result<(), RawError> {
    let patience = budget.time_left().unwrap_or(Duration::MAX).min(core.connection_timeout());
    let in_vain = RawError::Refused(ErrorCode::NodeExists);
    tokio::select! {
        biased;
        () = core.shutdown.cancelled() => Err(in_vain),
        settled = timeout(patience, core.held.settled(path)) => settled.map_err(|_| in_vain),
    }
}

impl Options {
    /// Refuses what contradicts itself.
    fn check<R>(&self, target: &Target<R>, owned: bool) -> Result<()> {
        let why = if self.accepts_existing() && self.mode.is_sequential() {
            "a sequential create always makes a new node"
        } else if owned && (self.or_set_data.is_some() || (self.idempotent && !self.mode.is_ephemeral())) {
            "an owned node is one that nobody else has created"
        } else if self.by_data && (self.mode.is_sequential() || self.accepts_existing()) {
            "protection by data is for new nodes whose names are given"
        } else if self.by_data && self.data.as_ref().is_none_or(Bytes::is_empty) {
            "protection by data needs data"
        } else {
            return Ok(());
        };
        Err(target.error(RawError::InvalidArgument(why)))
    }

    /// Whether others may create a node of the same name: it has neither a prefix nor a number.
    const fn shares_name(&self) -> bool {
        !self.is_unique && (self.by_data || !(self.protected || self.mode.is_sequential()))
    }

    const fn accepts_existing(&self) -> bool {
        self.idempotent || self.or_set_data.is_some()
    }
}

call_options!(CreateBuilder<R>);

const NOTHING: Option<&Beside<'_, ()>> = None;

awaits!(CreateBuilder => Created, |this| this.run(false, Self::plain, NOTHING).await.map(|(node, _)| node));
awaits!(CreateBuilder<output::Owned> => OwnedNode, |this| {
    this.run(true, Self::guarded, NOTHING).await.map(|(node, _)| node)
});
awaits!(CreateBuilder<output::OwnedWithSiblings> => (OwnedNode, Vec<String>), |this| {
    let list = |raw: &dyn RawClient, parent: &str| raw.get_children(parent);
    let (node, children) = this.run(true, Self::guarded, Some(&list)).await?;
    // Without its parent the node is gone as well.
    Ok((node, children.map(|children| children.names).unwrap_or_default()))
});
awaits!(CreateBuilder<output::OwnedWithData> => (OwnedNode, Option<(Bytes, Stat)>), |this| {
    let (zk, of) = (this.target.zk.clone(), this.options.read.clone().unwrap_or_default());
    let path = this.target.server_path_of(&of)?;
    let read = |raw: &dyn RawClient, _: &str| raw.get_data(&path);
    let (node, read) = this.run(true, Self::guarded, Some(&read)).await?;
    let target = Target::<output::Plain>::new(zk, "create", of);
    let read = read.map(|read| Ok((target.decompress(None, read.data)?, read.stat)));
    Ok((node, read.transpose()?))
});
