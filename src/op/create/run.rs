//! The requests of a create.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator_client::{
    Acl, CreateMode, Created, Error as RawError, ErrorCode, Op, Stat, Version,
};

use super::{CreateBuilder, CreateOptions};
use crate::chroot;
use crate::core::{
    Authorship, Cleanup, Core, PendingCreate, ProtectedNode, Protection, RACE_ROUNDS, find,
    new_prefix,
};
use crate::error::{Error, ErrorKind, Result};
use crate::op::parents::{create_parents, missing_chroot};
use crate::op::protected::TrackedCreate;
use crate::op::set_data::DataWrite;
use crate::op::{AttemptClient, OpTarget, awaits, output};
use crate::owned_node::OwnedNode;
use crate::path::{split, validate_create};
use crate::raw::{RawClient, RawFuture};
use crate::retry::{Budget, RetryLoop};
use crate::schema::Intent;

/// The node to create, with the defaults filled in.
struct CreateSpec {
    /// The path on the server, without a prefix.
    path: String,
    data: Bytes,
    acl: Vec<Acl>,
}

impl CreateSpec {
    fn parent(&self) -> &str {
        split(&self.path).0
    }
}

/// A read after the create, given the parent.
type Beside<'a, T> = dyn Fn(&dyn RawClient, &str) -> RawFuture<T> + Send + Sync + 'a;

/// A read that was sent with a create, and the epoch of its session.
type SentRead<T> = (u64, RawFuture<T>);

/// The response to a create.
struct AnsweredCreate<'a, T> {
    created: Created,
    read: Option<SentRead<T>>,
    /// The create, until its node is kept.
    pending: Option<PendingCreate<'a>>,
}

/// An existing node.
struct Made<'a, T> {
    sent: AnsweredCreate<'a, T>,
    attempt: AttemptClient,
}

impl<T> Made<'_, T> {
    /// Returns a node of an earlier attempt.
    const fn found(created: Created, attempt: AttemptClient) -> Self {
        Self { sent: AnsweredCreate { created, read: None, pending: None }, attempt }
    }

    /// Turns the node into the value of the caller. The create is settled after that.
    fn kept<K>(self, keep: impl FnOnce(Created, &AttemptClient) -> K) -> (K, Option<SentRead<T>>) {
        let Self { sent: AnsweredCreate { created, read, pending: _until_kept }, attempt } = self;
        (keep(created, &attempt), read)
    }
}

/// The reaction to a refusal.
enum RefusalReaction {
    /// The create is sent again.
    Again,
    Exists(Created),
    /// The code is the result.
    Final,
}

/// The result of the search for the node of a create whose response was lost.
enum Search {
    Found(Created, AttemptClient),
    /// The node does not exist, and has to be created again.
    NotThere,
    /// The search gave up. The janitor continues it, because the create is not settled.
    StillUnknown,
}

/// One call of a create.
struct CreateCall<'a, R, T> {
    of: &'a CreateBuilder<R>,
    request: &'a CreateSpec,
    author: Option<&'a Authorship>,
    beside: Option<&'a Beside<'a, T>>,
    rounds: Range<u32>,
}

impl<R> CreateBuilder<R> {
    /// Creates the node, and then reads with `beside`, which returns `None` if its node does not
    /// exist. `keep` turns the created node, whose path is the server's, into the caller's value
    /// before anything else is awaited.
    async fn run<K, T>(
        mut self,
        owned: bool,
        keep: impl Fn(&Self, Created, &AttemptClient) -> K,
        beside: Option<&Beside<'_, T>>,
    ) -> Result<(K, Option<T>)> {
        let author = self.options.author.take().unwrap_or_default();
        let author = (owned && self.options.idempotent).then_some(&author);
        let request = self.request(owned)?;
        // This lives until `keep` has the node, so that `close` sees one of the two at any time.
        let mut protected = self.protected_create(&request, author, owned);
        let mut budget = self.target.budget();
        let rounds = 0..RACE_ROUNDS;
        let mut creation = CreateCall { of: &self, request: &request, author, beside, rounds };
        let made = creation.create(&mut protected, &mut budget).await?;
        let (node, read) = made.kept(|created, attempt| keep(&self, created, attempt));
        Ok((node, creation.read_beside(&mut budget, read).await?))
    }

    /// Checks the options, and completes them with the defaults of the framework.
    fn request(&mut self, owned: bool) -> Result<CreateSpec> {
        self.options.check(&self.target, owned)?;
        let (own_data, own_acl) = (self.options.data.take(), self.options.acl.take());
        let (target, mode) = (&self.target, self.options.mode);
        let invalid = |why| Error::invalid_path(target.operation, target.path.as_str(), why);
        validate_create(&target.path, mode.is_sequential()).map_err(invalid)?;
        let path = target.zk.ns().apply_create(&target.path, mode.is_sequential());
        let core = target.zk.core();
        let acl = own_acl.unwrap_or_else(|| core.acl_of(&path));
        let is_default = own_data.is_none();
        let plain = own_data.unwrap_or_else(|| core.default_data());
        target.admit(Intent::Create { mode, data: &plain, acl: &acl })?;
        let (operation, wanted) = (target.operation, target.zk.compresses(self.options.compressed));
        let compression = core.compression();
        let data =
            compression.compress_unless_none(operation, &target.path, wanted, is_default, plain)?;
        Ok(CreateSpec { path, data, acl })
    }

    fn protected_create<'a>(
        &'a self,
        request: &'a CreateSpec,
        author: Option<&'a Authorship>,
        owned: bool,
    ) -> TrackedCreate<'a> {
        let (core, options) = (self.target.zk.core(), &self.options);
        let (parent, name) = split(&request.path);
        let protection = options.protected.then(|| Protection {
            parent: parent.to_owned(),
            prefix: if options.by_data { name.to_owned() } else { new_prefix(&core.random) },
            data: options.by_data.then(|| request.data.clone()),
        });
        let (bound, owes) = (options.mode.is_ephemeral(), owned || options.protected);
        TrackedCreate::new(
            core,
            &request.path,
            protection,
            author,
            bound,
            owes,
            options.shares_name(),
        )
    }

    /// Returns the node without a guard, with its path within the namespace.
    fn plain(&self, created: Created, _: &AttemptClient) -> Created {
        Created::new(self.target.zk.ns().strip(&created.path).to_owned(), created.stat)
    }

    /// Returns the node with a guard.
    fn guarded(&self, created: Created, attempt: &AttemptClient) -> OwnedNode {
        let session = Arc::clone(&attempt.session);
        let ephemeral = self.options.mode.is_ephemeral();
        OwnedNode::new(&self.target.zk, created, session, ephemeral, self.options.shares_name())
    }
}

impl<'a, R, T> CreateCall<'a, R, T> {
    /// Sends the create until the node exists, or certainly does not.
    async fn create(
        &mut self,
        protected: &mut TrackedCreate<'_>,
        budget: &mut Budget<'_>,
    ) -> Result<Made<'a, T>> {
        let (target, options) = (&self.of.target, &self.of.options);
        let mut retries = RetryLoop::new(budget);
        loop {
            let attempt = target.next_attempt(&mut retries).await?;
            let owed = options.shares_name() && target.zk.core().resources.owes(&self.request.path);
            let left = retries.budget().time_left();
            let error = match self.send(protected, &attempt, left).await {
                Ok(sent) => return Ok(Made { sent, attempt }),
                Err(error) => error,
            };
            if let RawError::Refused(code) = error {
                match self.refused(code, owed, &attempt, &mut retries).await? {
                    RefusalReaction::Again => continue,
                    RefusalReaction::Exists(created) => return Ok(Made::found(created, attempt)),
                    RefusalReaction::Final => {}
                }
            }
            let (error, epoch) = (target.error(error), attempt.session.epoch);
            if error.may_have_applied() && options.protected {
                match self.search(protected, retries.budget(), &error, epoch).await? {
                    Search::Found(created, attempt) => return Ok(Made::found(created, attempt)),
                    Search::NotThere => continue,
                    Search::StillUnknown => return Err(error),
                }
            }
            if error.may_have_applied() && !options.idempotent {
                return Err(error);
            }
            if error.is_session_lost() && options.mode.is_ephemeral() && !options.protected {
                // A node of the next session would not be the requested one.
                return Err(retries.failure(error));
            }
            retries.again(error, epoch).await?;
        }
    }

    /// Sends the create and the read after it in one round trip, and waits for the response to the
    /// create.
    async fn send(
        &self,
        protected: &mut TrackedCreate<'_>,
        attempt: &AttemptClient,
        left: Option<Duration>,
    ) -> Result<AnsweredCreate<'a, T>, RawError> {
        let (request, author) = (self.request, self.author);
        let core = self.of.target.zk.core();
        let authors = &core.authors;
        let CreateOptions { mode, ttl, .. } = self.of.options;
        let (data, acl) = (Some(request.data.clone()), request.acl.clone());
        let op = Op::Create { path: protected.node_path(), data, acl, mode, ttl };
        if let Some(author) = author {
            let janitor = Arc::downgrade(core);
            author.sending(authors, &request.path, &attempt.session, move |orphan| {
                if let Some(core) = janitor.upgrade() {
                    core.owe(Cleanup::Orphan(orphan));
                }
            });
        }
        let is_shared = mode == CreateMode::Ephemeral && self.of.options.shares_name();
        let pending = is_shared.then(|| authors.begin(&request.path));
        let raw = &attempt.session.raw;
        if let Err(closed) = protected.create(&attempt.session, || raw.create_revocable(&op)) {
            if let Some(author) = author {
                author.refused();
            }
            return Err(closed);
        }
        // The read is queued before anything is awaited.
        let read = self
            .beside
            .map(|beside| (attempt.session.epoch, beside(&*attempt.raw, request.parent())));
        let response = protected.response(left).await;
        match (&response, author) {
            (Ok(_), Some(author)) => author.known(),
            (Err(error), Some(author)) if !error.may_have_applied() => author.refused(),
            (Ok(created), None) => authors.created(&created.path, created.stat.czxid),
            _ => {}
        }
        Ok(AnsweredCreate { created: response?, read, pending })
    }

    /// Creates what is missing, adopts the node that is there, or waits for its deletion.
    async fn refused(
        &mut self,
        code: ErrorCode,
        owed: bool,
        attempt: &AttemptClient,
        retries: &mut RetryLoop<'_, '_>,
    ) -> Result<RefusalReaction> {
        let (target, parent) = (&self.of.target, self.request.parent());
        let core = target.zk.core();
        match code {
            ErrorCode::NoNode if parent == "/" => {
                let has_rounds = self.rounds.next().is_some();
                if has_rounds && chroot::restore(core, retries.budget().time_left()).await {
                    return Ok(RefusalReaction::Again);
                }
                Err(retries.failure(missing_chroot(target)))
            }
            ErrorCode::NoNode if self.rounds.next().is_some() => {
                let parents =
                    create_parents(target, retries.budget(), parent, &self.of.parents).await;
                parents.map(|()| RefusalReaction::Again).map_err(|last| retries.failure(last))
            }
            ErrorCode::NodeExists if self.of.options.accepts_existing() => {
                match self.adopt(retries.budget(), attempt).await {
                    Ok(Some(created)) => Ok(RefusalReaction::Exists(created)),
                    // The node was deleted after the create was refused.
                    Ok(None) if self.rounds.next().is_some() => Ok(RefusalReaction::Again),
                    Ok(None) => Err(retries.failure(target.error(RawError::Refused(code)))),
                    Err(taken) if owed && is_taken(&taken) && self.rounds.next().is_some() => {
                        let settled = settled(core, retries.budget(), &self.request.path).await;
                        settled.map(|()| RefusalReaction::Again).map_err(|_| taken)
                    }
                    Err(error) if is_taken(&error) && self.author.is_some() => Err(error),
                    Err(error) => Err(retries.failure(error)),
                }
            }
            // A guard of this client was dropped, and its node is not deleted yet.
            ErrorCode::NodeExists if owed && self.rounds.next().is_some() => {
                let settled = settled(core, retries.budget(), &self.request.path).await;
                let failure = |taken| retries.failure(target.error(taken));
                settled.map(|()| RefusalReaction::Again).map_err(failure)
            }
            _ => Ok(RefusalReaction::Final),
        }
    }

    /// Returns the existing node if it is acceptable, after replacing its data if that was
    /// requested. Returns `None` if it was deleted.
    async fn adopt(
        &self,
        budget: &mut Budget<'_>,
        attempt: &AttemptClient,
    ) -> Result<Option<Created>> {
        let (target, options, CreateSpec { path, data, .. }) =
            (&self.of.target, &self.of.options, self.request);
        let session = &*attempt.session;
        let taken = || Err(target.error(RawError::Refused(ErrorCode::NodeExists)));
        if self.author.is_some_and(|author| !author.is_open(path, session)) {
            return taken();
        }
        let gone =
            |error: Error| if error.kind() == ErrorKind::NoNode { Ok(None) } else { Err(error) };
        if options.idempotent {
            let present =
                match target.read_within(budget, path, |raw, path| raw.get_data(path)).await {
                    Ok(present) => present,
                    Err(error) => return gone(error),
                };
            let same_owner = !options.mode.is_ephemeral() || is_ours(&*session.raw, &present.stat);
            if let Some(author) = self.author {
                // Data that another client has written since prove nothing.
                let has_data = present.stat.version > 0 || present.data == *data;
                let authors = &target.zk.core().authors;
                let take = || author.take(authors, path, present.stat.czxid, session);
                let is_own = match (same_owner && has_data).then(take) {
                    // The node may belong to another create that is in flight.
                    Some(None) => return Ok(None),
                    Some(Some(is_own)) => is_own,
                    None => false,
                };
                // If the node is foreign, no node of this author exists.
                author.known();
                return if is_own {
                    Ok(Some(Created::new(path.to_owned(), present.stat)))
                } else {
                    taken()
                };
            }
            if present.stat.version == 0 && present.data == *data && same_owner {
                return Ok(Some(Created::new(path.to_owned(), present.stat)));
            }
        }
        let Some(version) = options.or_set_data else { return taken() };
        let write = DataWrite { data, version, idempotent: options.idempotent };
        match write.run(target, budget, path).await {
            Ok(stat) => Ok(Some(Created::new(path.to_owned(), stat))),
            // A missing node is created, not written again (CURATOR-719).
            Err(error) => gone(error),
        }
    }

    /// Searches for the node of a protected create after its response was `lost`.
    async fn search(
        &self,
        protected: &mut TrackedCreate<'_>,
        budget: &mut Budget<'_>,
        lost: &Error,
        mut epoch: u64,
    ) -> Result<Search> {
        let target = &self.of.target;
        let mut error = lost.clone();
        loop {
            if budget.spend(error, epoch).await.is_err() {
                return Ok(Search::StillUnknown);
            }
            let Ok(attempt) = target.attempt(budget).await else {
                return Ok(Search::StillUnknown);
            };
            match self.find_created(protected, &attempt).await {
                Ok(Some(created)) => return Ok(Search::Found(created, attempt)),
                Ok(None) => return Ok(Search::NotThere),
                Err(taken @ RawError::Refused(ErrorCode::NodeExists)) => {
                    return Err(target.error(taken));
                }
                Err(failed) => (error, epoch) = (target.error(failed), attempt.session.epoch),
            }
        }
    }

    /// Returns the node if the create was applied in the present session. Deletes a node of an
    /// earlier session, unless other clients may have created it.
    async fn find_created(
        &self,
        protected: &mut TrackedCreate<'_>,
        attempt: &AttemptClient,
    ) -> Result<Option<Created>, RawError> {
        let raw = &*attempt.raw;
        let Some(protection) = protected.protection().cloned() else {
            return Err(RawError::UnexpectedResponse);
        };
        let Some(ProtectedNode { path, stat }) = find(raw, &protection).await? else {
            protected.settle()?;
            return Ok(None);
        };
        let shared = stat.is_some();
        let stat = match stat {
            Some(stat) => Some(stat),
            None => raw.exists(&path).await?,
        };
        match stat {
            Some(stat) if !self.of.options.mode.is_ephemeral() || is_ours(raw, &stat) => {
                protected.settle()?;
                return Ok(Some(Created::new(path, stat)));
            }
            // The node ends with its session, and may have ended since. Deleting it could hit a
            // foreign node.
            Some(_) if shared => {
                protected.settle()?;
                return Err(RawError::Refused(ErrorCode::NodeExists));
            }
            Some(_) => match raw.delete(&path, Version::Any).await {
                Ok(()) | Err(RawError::Refused(ErrorCode::NoNode)) => {}
                Err(error) => return Err(error),
            },
            None => {}
        }
        protected.renew()?;
        Ok(None)
    }

    /// Performs the read after the create. Uses the request that is in flight, if there is one.
    async fn read_beside(
        &self,
        budget: &mut Budget<'_>,
        mut in_flight: Option<SentRead<T>>,
    ) -> Result<Option<T>> {
        // Without a companion read, a completed create cannot fail here.
        let Some(beside) = self.beside else { return Ok(None) };
        let target = &self.of.target;
        loop {
            let (epoch, read) = match in_flight.take() {
                Some(sent) => sent,
                None => {
                    let attempt = target.attempt(budget).await?;
                    (attempt.session.epoch, beside(&*attempt.raw, self.request.parent()))
                }
            };
            match read.await {
                Ok(read) => return Ok(Some(read)),
                Err(RawError::Refused(ErrorCode::NoNode)) => return Ok(None),
                Err(error) => budget.spend(target.error(error), epoch).await?,
            }
        }
    }
}

fn is_taken(error: &Error) -> bool {
    error.kind() == ErrorKind::NodeExists
}

/// Returns `true` if the present session owns the ephemeral node.
fn is_ours(raw: &dyn RawClient, stat: &Stat) -> bool {
    raw.session().is_some_and(|session| session.id.get() == stat.ephemeral_owner)
}

/// Waits until a node whose deletion is pending is deleted, or cannot be deleted. Waits no longer
/// than the call may take, nor than a request waits for a connection.
async fn settled(core: &Core, budget: &Budget<'_>, path: &str) -> Result<(), RawError> {
    let patience = budget.time_left().unwrap_or(Duration::MAX).min(core.connection_timeout());
    let in_vain = RawError::Refused(ErrorCode::NodeExists);
    tokio::select! {
        biased;
        () = core.shutdown.cancelled() => Err(in_vain),
        settled = timeout(patience, core.resources.settled(path)) => settled.map_err(|_| in_vain),
    }
}

const NOTHING: Option<&Beside<'_, ()>> = None;

awaits!(CreateBuilder => Created, |this| this.run(false, Self::plain, NOTHING).await.map(|(node, _)| node));
awaits!(CreateBuilder<output::Owned> => OwnedNode, |this| {
    this.run(true, Self::guarded, NOTHING).await.map(|(node, _)| node)
});
awaits!(CreateBuilder<output::OwnedWithSiblings> => (OwnedNode, Vec<String>), |this| {
    let list = |raw: &dyn RawClient, parent: &str| raw.get_children(parent);
    let (node, children) = this.run(true, Self::guarded, Some(&list)).await?;
    // Without its parent the node does not exist either.
    Ok((node, children.map(|children| children.names).unwrap_or_default()))
});
awaits!(CreateBuilder<output::OwnedWithData> => (OwnedNode, Option<(Bytes, Stat)>), |this| {
    let (zk, of) = (this.target.zk.clone(), this.options.read.clone().unwrap_or_default());
    let path = this.target.server_path_of(&of)?;
    let read = |raw: &dyn RawClient, _: &str| raw.get_data(&path);
    let (node, read) = this.run(true, Self::guarded, Some(&read)).await?;
    let target = OpTarget::<output::Plain>::new(zk, "create", of);
    let read = read.map(|read| Ok((target.decompress(None, read.data)?, read.stat)));
    Ok((node, read.transpose()?))
});
