use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator_client::{
    Acl, CreateMode, Created, Error as RawError, ErrorCode, Op, Stat, Version,
};

use super::parents::{Parents, create_parents, missing_chroot, parent_options};
use super::protected::ProtectedCreate;
use super::set_data::Write;
use super::settings::{compression_settings, node_settings};
use super::transaction_op::CreateOp;
use super::{Attempt, Target, Transaction, awaits, call_options, output};
use crate::chroot;
use crate::core::{
    Authorship, Cleanup, Core, Found, PendingCreate, Protection, RACE_ROUNDS, find, new_prefix,
};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::owned_node::OwnedNode;
use crate::path::{split, validate_create};
use crate::raw::{RawClient, RawFuture};
use crate::retry::{Budget, RetryLoop};
use crate::schema::Intent;

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
            author: None,
            or_set_data: None,
            read: None,
        };
        Self { target: Target::new(zk, "create", path), options, parents: Parents::default() }
    }

    /// **Awaiting returns** an [`OwnedNode`], which deletes the node when it is dropped.
    pub fn owned(self) -> CreateBuilder<output::Owned> {
        self.returning()
    }

    /// **Awaiting returns** an [`OwnedNode`] and the names of all children of its parent, listed
    /// after the create and in the same round trip.
    pub fn owned_with_siblings(self) -> CreateBuilder<output::OwnedWithSiblings> {
        self.returning()
    }

    /// **Awaiting returns** an [`OwnedNode`], and the data and stat of another node, or `None` if
    /// that node does not exist. It is read after the create, in the same round trip, and again if
    /// the create is repeated. The data are decompressed as the
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
        let Options { data, acl, mode, ttl, compressed, .. } = options;
        let (path, data) = (target.path.clone(), data.map(Some));
        let op = CreateOp { path, data, acl, mode, ttl, compressed };
        Transaction::single(target, op, parents, conflict)
    }
}

/// The node to create, with the defaults filled in.
struct Request {
    /// The path on the server, without a prefix.
    path: String,
    data: Bytes,
    acl: Vec<Acl>,
}

impl Request {
    fn parent(&self) -> &str {
        split(&self.path).0
    }
}

/// The result of the search for the node of a create whose response was lost.
enum Search {
    Found(Created, Attempt),
    /// The node does not exist, and has to be created again.
    NotThere,
    /// The search gave up. The janitor continues it, because the create is not settled.
    StillUnknown,
}

/// A read that was sent with a create, and the epoch of its session.
type InFlight<T> = (u64, RawFuture<T>);

/// An existing node.
struct Made<'a, T> {
    created: Created,
    attempt: Attempt,
    read: Option<InFlight<T>>,
    /// The create, until it is settled.
    pending: Option<PendingCreate<'a>>,
}

impl<T> Made<'_, T> {
    /// Returns a node of an earlier attempt.
    const fn found(created: Created, attempt: Attempt) -> Self {
        Self { created, attempt, read: None, pending: None }
    }
}

/// A read after the create, given the parent.
type Beside<'a, T> = dyn Fn(&dyn RawClient, &str) -> RawFuture<T> + Send + Sync + 'a;

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
    /// without a [check](OwnedNode#shared-names) first. Default: other clients may create nodes of
    /// a given name.
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

    /// Creates the node, and then reads with `beside`, which returns `None` if its node does not
    /// exist. `keep` turns the created node, whose path is the server's, into the caller's value
    /// before anything else is awaited.
    async fn run<K, T>(
        mut self,
        owned: bool,
        keep: impl Fn(&Self, Created, &Attempt) -> K,
        beside: Option<&Beside<'_, T>>,
    ) -> Result<(K, Option<T>)> {
        let author = self.options.author.take().unwrap_or_default();
        let author = (owned && self.options.idempotent).then_some(&author);
        let request = self.request(owned)?;
        // This lives until `keep` has the node, so that `close` sees one of the two at any time.
        let mut protected = self.protected_create(&request, author, owned);
        let mut budget = self.target.budget();
        let made = self.create(&request, author, &mut protected, &mut budget, beside).await?;
        let Made { created, attempt, read, pending } = made;
        let node = keep(&self, created, &attempt);
        drop(pending);
        Ok((node, self.beside(&mut budget, beside, request.parent(), read).await?))
    }

    /// Checks the options, and completes them with the defaults of the framework.
    fn request(&mut self, owned: bool) -> Result<Request> {
        self.options.check(&self.target, owned)?;
        let (own_data, own_acl) = (self.options.data.take(), self.options.acl.take());
        let (target, mode) = (&self.target, self.options.mode);
        let invalid = |why| Error::invalid_path(target.operation, target.path.as_str(), why);
        validate_create(&target.path, mode.is_sequential()).map_err(invalid)?;
        let path = target.zk.ns().apply_create(&target.path, mode.is_sequential());
        let core = target.zk.core();
        let acl = own_acl.unwrap_or_else(|| core.acl_of(&path));
        let plain = own_data.unwrap_or_else(|| core.default_data());
        target.admit(Intent::Create { mode, data: &plain, acl: &acl })?;
        let data = target.compress(self.options.compressed, plain)?;
        Ok(Request { path, data, acl })
    }

    fn protected_create<'a>(
        &'a self,
        request: &'a Request,
        author: Option<&'a Authorship>,
        owned: bool,
    ) -> ProtectedCreate<'a> {
        let (core, options) = (self.target.zk.core(), &self.options);
        let (parent, name) = split(&request.path);
        let protection = options.protected.then(|| Protection {
            parent: parent.to_owned(),
            prefix: if options.by_data { name.to_owned() } else { new_prefix(&core.random) },
            data: options.by_data.then(|| request.data.clone()),
        });
        let (bound, owes) = (options.mode.is_ephemeral(), owned || options.protected);
        ProtectedCreate::new(
            core,
            &request.path,
            protection,
            author,
            bound,
            owes,
            options.shares_name(),
        )
    }

    /// Sends the create until the node exists, or certainly does not.
    async fn create<'a, T>(
        &'a self,
        request: &'a Request,
        author: Option<&Authorship>,
        protected: &mut ProtectedCreate<'_>,
        budget: &mut Budget<'_>,
        beside: Option<&Beside<'_, T>>,
    ) -> Result<Made<'a, T>> {
        let (target, options, parent) = (&self.target, &self.options, request.parent());
        let core = target.zk.core();
        let mut retries = RetryLoop::new(budget);
        let mut rounds = 0..RACE_ROUNDS;
        loop {
            let attempt = target.next_attempt(&mut retries).await?;
            let owed = options.shares_name() && core.resources.owes(&request.path);
            let left = retries.budget().time_left();
            let (response, read, pending) =
                self.send(request, author, protected, &attempt, left, beside).await;
            let error = match response {
                Ok(created) => return Ok(Made { created, attempt, read, pending }),
                Err(error) => error,
            };
            drop(pending);
            match error {
                RawError::Refused(ErrorCode::NoNode)
                    if parent == "/"
                        && (rounds.next().is_none()
                            || !chroot::restore(core, retries.budget().time_left()).await) =>
                {
                    return Err(retries.failure(missing_chroot(target)));
                }
                RawError::Refused(ErrorCode::NoNode) if parent == "/" => continue,
                RawError::Refused(ErrorCode::NoNode) if rounds.next().is_some() => {
                    let parents =
                        create_parents(target, retries.budget(), parent, &self.parents).await;
                    parents.map_err(|last| retries.failure(last))?;
                    continue;
                }
                RawError::Refused(ErrorCode::NodeExists) if options.accepts_existing() => {
                    match self.adopt(retries.budget(), &attempt, request, author).await {
                        Ok(Some(created)) => return Ok(Made::found(created, attempt)),
                        // The node was deleted after the create was refused.
                        Ok(None) if rounds.next().is_some() => continue,
                        Ok(None) => return Err(retries.failure(target.error(error))),
                        Err(taken) if owed && is_taken(&taken) && rounds.next().is_some() => {
                            settled(core, retries.budget(), &request.path)
                                .await
                                .map_err(|_| taken)?;
                            continue;
                        }
                        Err(error) if is_taken(&error) && author.is_some() => return Err(error),
                        Err(error) => return Err(retries.failure(error)),
                    }
                }
                // A guard of this client was dropped, and its node is not deleted yet.
                RawError::Refused(ErrorCode::NodeExists) if owed && rounds.next().is_some() => {
                    settled(core, retries.budget(), &request.path)
                        .await
                        .map_err(|taken| retries.failure(target.error(taken)))?;
                    continue;
                }
                _ => {}
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
    async fn send<'a, T>(
        &'a self,
        request: &'a Request,
        author: Option<&Authorship>,
        protected: &mut ProtectedCreate<'_>,
        attempt: &Attempt,
        left: Option<Duration>,
        beside: Option<&Beside<'_, T>>,
    ) -> (Result<Created, RawError>, Option<InFlight<T>>, Option<PendingCreate<'a>>) {
        let core = self.target.zk.core();
        let authors = &core.authors;
        let Options { mode, ttl, .. } = self.options;
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
        let is_shared = mode == CreateMode::Ephemeral && self.options.shares_name();
        let pending = is_shared.then(|| authors.begin(&request.path));
        let raw = &attempt.session.raw;
        if let Err(closed) = protected.create(&attempt.session, || raw.create_revocable(&op)) {
            if let Some(author) = author {
                author.refused();
            }
            return (Err(closed), None, None);
        }
        // The read is queued before anything is awaited.
        let read =
            beside.map(|beside| (attempt.session.epoch, beside(&*attempt.raw, request.parent())));
        let response = protected.response(left).await;
        match (&response, author) {
            (Ok(_), Some(author)) => author.known(),
            (Err(error), Some(author)) if !error.may_have_applied() => author.refused(),
            (Ok(created), None) => authors.created(&created.path, created.stat.czxid),
            _ => {}
        }
        (response, read, pending)
    }

    /// Returns the node without a guard, with its path within the namespace.
    fn plain(&self, created: Created, _: &Attempt) -> Created {
        Created::new(self.target.zk.ns().strip(&created.path).to_owned(), created.stat)
    }

    /// Returns the node with a guard.
    fn guarded(&self, created: Created, attempt: &Attempt) -> OwnedNode {
        let session = Arc::clone(&attempt.session);
        let ephemeral = self.options.mode.is_ephemeral();
        OwnedNode::new(&self.target.zk, created, session, ephemeral, self.options.shares_name())
    }

    /// Returns the existing node if it is acceptable, after replacing its data if that was
    /// requested. Returns `None` if it was deleted.
    async fn adopt(
        &self,
        budget: &mut Budget<'_>,
        attempt: &Attempt,
        Request { path, data, .. }: &Request,
        author: Option<&Authorship>,
    ) -> Result<Option<Created>> {
        let (target, options) = (&self.target, &self.options);
        let (session, authors) = (&*attempt.session, &target.zk.core().authors);
        let taken = || Err(target.error(RawError::Refused(ErrorCode::NodeExists)));
        if author.is_some_and(|author| !author.is_open(path, session)) {
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
            let ours = |owner| {
                attempt.session.raw.session().is_some_and(|session| session.id.get() == owner)
            };
            let same_owner = !options.mode.is_ephemeral() || ours(present.stat.ephemeral_owner);
            if let Some(author) = author {
                // Data that another client has written since prove nothing.
                let has_data = present.stat.version > 0 || present.data == *data;
                let is_own = same_owner && has_data;
                let is_own =
                    match is_own.then(|| author.take(authors, path, present.stat.czxid, session)) {
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
        let write = Write { data, version, idempotent: options.idempotent };
        match write.run(target, budget, path).await {
            Ok(stat) => Ok(Some(Created::new(path.to_owned(), stat))),
            // A missing node is created, not written again (CURATOR-719).
            Err(error) => gone(error),
        }
    }

    /// Searches for the node of a protected create after its response was `lost`.
    async fn search(
        &self,
        protected: &mut ProtectedCreate<'_>,
        budget: &mut Budget<'_>,
        lost: &Error,
        mut epoch: u64,
    ) -> Result<Search> {
        let mut error = lost.clone();
        loop {
            if budget.spend(error, epoch).await.is_err() {
                return Ok(Search::StillUnknown);
            }
            let Ok(attempt) = self.target.attempt(budget).await else {
                return Ok(Search::StillUnknown);
            };
            match self.find_created(protected, &attempt).await {
                Ok(Some(created)) => return Ok(Search::Found(created, attempt)),
                Ok(None) => return Ok(Search::NotThere),
                Err(taken @ RawError::Refused(ErrorCode::NodeExists)) => {
                    return Err(self.target.error(taken));
                }
                Err(failed) => (error, epoch) = (self.target.error(failed), attempt.session.epoch),
            }
        }
    }

    /// Returns the node if the create was applied in the present session. Deletes a node of an
    /// earlier session, unless other clients may have created it.
    async fn find_created(
        &self,
        protected: &mut ProtectedCreate<'_>,
        attempt: &Attempt,
    ) -> Result<Option<Created>, RawError> {
        let raw = &*attempt.raw;
        let Some(protection) = protected.protection().cloned() else {
            return Err(RawError::UnexpectedResponse);
        };
        let Some(Found { path, stat }) = find(raw, &protection).await? else {
            protected.settle()?;
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
    async fn beside<T>(
        &self,
        budget: &mut Budget<'_>,
        beside: Option<&Beside<'_, T>>,
        parent: &str,
        mut in_flight: Option<InFlight<T>>,
    ) -> Result<Option<T>> {
        // Without a companion read, a completed create cannot fail here.
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

fn is_taken(error: &Error) -> bool {
    error.kind() == ErrorKind::NodeExists
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

impl Options {
    /// Refuses contradictory options.
    fn check<R>(&self, target: &Target<R>, owned: bool) -> Result<()> {
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
    let target = Target::<output::Plain>::new(zk, "create", of);
    let read = read.map(|read| Ok((target.decompress(None, read.data)?, read.stat)));
    Ok((node, read.transpose()?))
});
