use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use tracing::debug;
use zk_curator::internal::ReadFreshness;
use zk_curator::{CuratorFramework, Ownership};

use super::attempt::{AttemptStage, AttemptState, Tx};
use super::contention::ConflictPaths;
use super::error::Error;
use super::plan::CommitPlan;
use super::read_set::{Query, ReadSet};
use super::site::{AppliedCommit, CommitFailure, StmSite};
use super::space::SpaceScope;
use super::write_set::WriteSet;
use crate::lock::MutexGuard;
use crate::race::{PromotedToLock, RACE_ROUNDS, RaceConflicts};

/// The default number of retries.
const RETRIES: u32 = 50;

/// Transactions over many nodes. Cheap to clone; clones share receipts. See the [module](super).
#[derive(Debug, Clone)]
pub struct Stm {
    site: Arc<StmSite>,
}

/// The result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed<T> {
    /// The value that the body has returned.
    pub value: T,
    /// The transaction id: the `mzxid` of all written nodes. `None` if nothing was committed, as by
    /// a [linearizable](Transaction::linearizable) transaction without writes.
    ///
    /// Without receipts, servers do not return it if nodes were only deleted, or, before ZooKeeper
    /// 3.9, only created. Then it is the last transaction that the session had seen when the
    /// response arrived: this one, or one that was applied shortly after it.
    pub zxid: Option<i64>,
    /// The paths of the sequential nodes, in the order of the calls. `None` if there are some, and
    /// the response that has their names was lost.
    pub created: Option<Vec<String>>,
    /// The number of attempts, from 1.
    pub attempts: u32,
}

/// The options of one transaction: see [`Stm::transaction`].
#[derive(Debug, Clone)]
#[must_use = "nothing is sent until it is run"]
pub struct Transaction {
    site: Arc<StmSite>,
    retries: u32,
    prefetch: Vec<String>,
    fences: Vec<Ownership>,
    lock: Option<PromotedToLock>,
    linearizable: bool,
}

impl Stm {
    /// The nodes at `root` and below it, whose creates and deletes all go through transactions. The
    /// first transaction creates the root, if it is missing. An invalid path is an error of the
    /// transaction. Nothing is sent.
    pub fn space(zk: &CuratorFramework, root: impl Into<String>) -> Self {
        Self::spaces(zk, [root])
    }

    /// Several spaces, for transactions that span them. A transaction depends on the structure of
    /// only those spaces that it uses. The receipts are in the first one.
    ///
    /// No space can be within another one: that is an `InvalidArgument` error of the transaction.
    pub fn spaces(
        zk: &CuratorFramework,
        roots: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let scope = SpaceScope::Spaces(roots.into_iter().map(Into::into).collect());
        Self { site: Arc::new(StmSite::new(zk, scope, None)) }
    }

    /// Nodes anywhere, which other clients may create and delete as they like. The absence of a
    /// node can be read only after it was [asserted](super::Tx::assert_absent), lists of children
    /// cannot be read, and the commit takes a node that was deleted and created again for the one
    /// that was read if it has the same version: see [the module](super#without-a-space).
    ///
    /// Without [`receipts_at`](Self::receipts_at), a lost response is [`Error::Unknown`].
    #[must_use]
    pub fn loose(zk: &CuratorFramework) -> Self {
        Self { site: Arc::new(StmSite::new(zk, SpaceScope::Loose, None)) }
    }

    /// Sets the parent of the receipts that prove transactions whose responses were lost: an
    /// existing node that may have children, such as `/receipts`. Default: a node below the root of
    /// the first space, which is created on first use; no receipts without a space.
    ///
    /// In a space, the parent should be outside of it: [`audit`](Self::audit) would report the
    /// receipts.
    #[must_use]
    pub fn receipts_at(self, parent: impl Into<String>) -> Self {
        let parent = parent.into();
        let scope = match &self.site.scope {
            SpaceScope::Spaces(roots) => SpaceScope::Spaces(roots.clone()),
            SpaceScope::Loose => SpaceScope::Loose,
        };
        Self { site: Arc::new(StmSite::new(&self.site.zk, scope, Some(&parent))) }
    }

    pub(super) fn site(&self) -> &StmSite {
        &self.site
    }

    /// Begins a transaction with options: see [`Transaction`].
    pub fn transaction(&self) -> Transaction {
        Transaction {
            site: Arc::clone(&self.site),
            retries: RETRIES,
            prefetch: Vec::new(),
            fences: Vec::new(),
            lock: None,
            linearizable: false,
        }
    }

    /// Runs `body` as a transaction with the default options: see [`Transaction::run`].
    ///
    /// # Errors
    /// As [`Transaction::run`].
    ///
    /// # Panics
    /// Panics if `body` panics.
    ///
    /// # Cancel safety
    /// As [`Transaction::run`].
    pub async fn atomically<T, F, Fut>(&self, body: F) -> Result<Committed<T>, Error>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        self.transaction().run(body).await
    }
}

impl Transaction {
    /// Sets the number of attempts after the first one. Then the transaction fails with
    /// [`Error::Conflict`], or [acquires its lock](Self::then_lock). Default: 50.
    ///
    /// An attempt is not counted if it was in conflict while its body read a node, and it has read
    /// more nodes than every attempt before it: the next attempt reads all of them in one request
    /// before it begins. So a body that reads many nodes one after the other comes to its end.
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Reads these nodes, with their data, in one request before the first attempt. A retry reads
    /// everything that the previous attempt has used in one request in any case. If the nodes do
    /// not fit into one response, nothing is prefetched. Default: none.
    pub fn prefetch(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.prefetch.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Applies the transaction only while this node is owned: pass the
    /// [`ownership`](crate::lock::Guard::ownership) of a guard. Otherwise it fails with the
    /// framework's `OwnershipLost`. May be called for several nodes. Without writes, the
    /// transaction shows the newest state too, as a [linearizable](Self::linearizable) one.
    pub fn fenced_by(mut self, ownership: &Ownership) -> Self {
        self.fences.push(ownership.clone());
        self
    }

    /// After the [retries](Self::retries), acquires a lock and continues under it, without a limit
    /// of attempts. All transactions that may be in conflict should have the same lock. Default:
    /// none.
    pub fn then_lock(mut self, lock: PromotedToLock) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Reads the newest state: the first read is confirmed by a quorum, in the same round trip. So
    /// a transaction without writes shows a state that was there at a moment between its call and
    /// its return. It commits nothing then, and however often others write, it is not in conflict
    /// with them once it knows what its body reads: after the first read, if the nodes are
    /// [prefetched](Self::prefetch) or the body reads them with [`get_all`](Tx::get_all).
    ///
    /// Default: the reads of a transaction without writes and [fences](Self::fenced_by) may be as
    /// old as every read of ZooKeeper.
    pub const fn linearizable(mut self) -> Self {
        self.linearizable = true;
        self
    }

    /// Runs `body` until an attempt is committed.
    ///
    /// The body may run several times, so it should have no effect besides the transaction. It is
    /// not run again after a commit whose outcome is unknown. Errors that its reads return should
    /// be returned from it.
    ///
    /// # Errors
    /// * The error of `body`, such as [`Error::abort`]. Nothing was written. If the error may
    ///   depend on reads, the newest state is read first, with a quorum. If it differs from the
    ///   state that the body has read, the body runs again, so the reason was true during the call.
    ///   These errors are [`Error::Aborted`], [`Error::Exists`], [`Error::Unprotected`] and
    ///   `Undecodable`.
    /// * [`Error::Conflict`] after the last retry, [`Error::LockTimeout`].
    /// * [`Error::Unknown`].
    /// * [`Error::Exists`], [`Error::Unprotected`], [`Error::OutsideSpaces`].
    /// * [`Error::Framework`]: as every read and transaction of the framework. `Unsupported` on
    ///   servers before ZooKeeper 3.6. `NoNode` if the parent of a new node is missing, `NotEmpty`
    ///   if a deleted node has children, `TooLarge`, `OwnershipLost`. `ResponseTooLarge` if
    ///   everything that the body has read does not fit into one response, and has to be read
    ///   again because a node was written since. Nodes that it only writes may have any size.
    ///
    /// # Panics
    /// Panics if `body` panics.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body`. The transaction may be applied, once or not at all.
    pub async fn run<T, F, Fut>(self, mut body: F) -> Result<Committed<T>, Error>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        self.site.scope.check()?;
        let mut race = Race::new(&self);
        let mut reads = race.first_reads().await?;
        let mut attempts = 0_u32;
        loop {
            attempts = attempts.saturating_add(1);
            let tx = Tx::begin(&self.site, reads, race.freshness);
            let result = body(tx.clone()).await;
            let (path, next) = match race.end(&tx, result).await {
                Ok((value, AppliedCommit { zxid, created })) => {
                    return Ok(Committed { value, zxid, created, attempts });
                }
                Err(NotCommitted::Failed(error)) => return Err(error),
                Err(NotCommitted::Conflict { path, next }) => (path, next),
            };
            debug!(path, attempts, "transaction in conflict");
            reads = race.prepare(path, next, attempts).await?;
        }
    }
}

/// The reason why an attempt was not committed, as far as this client knows.
enum NotCommitted {
    /// Another client was faster.
    Conflict { path: String, next: NextAttempt },
    /// The transaction fails.
    Failed(Error),
}

impl From<Error> for NotCommitted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The reads for the next attempt.
enum NextAttempt {
    /// Reads that have shown the conflict, with the present state.
    Reads(ReadSet),
    /// As `Reads`. The body has met the conflict when it read something new.
    Learned(ReadSet),
    /// The reads of this attempt, to be repeated.
    Again(BTreeSet<Query>),
}

/// A transaction and its conflicts with other clients.
struct Race<'t> {
    of: &'t Transaction,
    met: ConflictPaths,
    conflicts: RaceConflicts,
    /// The lock, after too many conflicts.
    guard: Option<MutexGuard>,
    rounds: u32,
    /// The freshness of the first read of an attempt.
    freshness: ReadFreshness,
    /// The largest number of reads with which an attempt has begun.
    most_reads: usize,
    /// The number of attempts that do not count as retries.
    uncounted: u32,
}

impl<'t> Race<'t> {
    fn new(of: &'t Transaction) -> Self {
        let freshness =
            if of.linearizable { ReadFreshness::Linearizable } else { ReadFreshness::AsIs };
        Self {
            of,
            met: ConflictPaths::default(),
            conflicts: RaceConflicts::new(),
            guard: None,
            rounds: RACE_ROUNDS,
            freshness,
            most_reads: 0,
            uncounted: 0,
        }
    }

    /// Reads what should be there before the first attempt.
    async fn first_reads(&mut self) -> Result<ReadSet, Error> {
        let prefetch: BTreeSet<_> = self.of.prefetch.iter().cloned().map(Query::Data).collect();
        if prefetch.is_empty() {
            return Ok(ReadSet::default());
        }
        let reads = self.read_ahead(prefetch).await?;
        self.most_reads = reads.len();
        Ok(reads)
    }

    /// Reads nodes that the body will probably read. If they do not fit into one response, each
    /// read of the body alone may.
    async fn read_ahead(&self, queries: BTreeSet<Query>) -> Result<ReadSet, Error> {
        match self.of.site.read_at(self.freshness, queries).await {
            Err(error) if error.is_too_large() => Ok(ReadSet::default()),
            reads => reads,
        }
    }

    /// Ends an attempt whose body has returned `result`: commits it.
    async fn end<T>(
        &mut self,
        tx: &Tx,
        result: Result<T, Error>,
    ) -> Result<(T, AppliedCommit), NotCommitted> {
        let loaded = match &result {
            Ok(_) => tx.load_writes().await,
            Err(_) => Ok(()),
        };
        let AttemptState { reads, writes, stage, .. } = tx.end();
        if let AttemptStage::Changed { path, reads } = stage {
            return Err(NotCommitted::Conflict { path, next: NextAttempt::Learned(reads) });
        }
        let planned = match result {
            Ok(value) => {
                loaded?;
                CommitPlan::new(&reads, &writes, &self.of.site.scope).map(|plan| (value, plan))
            }
            Err(error) => Err(error),
        };
        let (value, plan) = match planned {
            Ok(planned) => planned,
            Err(error) if error.depends_on_reads() => {
                let (path, next) = self.confirm(error, &reads, &writes).await?;
                return Err(NotCommitted::Conflict { path, next });
            }
            Err(error) => return Err(error.into()),
        };
        let applied = match self.without_needless_checks(plan, &reads, &writes) {
            Some(plan) => self.commit(&plan, &reads, &writes).await?,
            None => AppliedCommit::nothing(),
        };
        Ok((value, applied))
    }

    /// Returns what has to be committed; `None` if the reads alone are a result.
    ///
    /// The body may have asked for a change without effect, such as a delete of a node that was
    /// missing when it was read. Only checks show that it is still missing, and that the fences
    /// exist.
    fn without_needless_checks(
        &mut self,
        mut plan: CommitPlan,
        reads: &ReadSet,
        writes: &WriteSet,
    ) -> Option<CommitPlan> {
        if !plan.only_reads() {
            return Some(plan);
        }
        let is_unchecked = writes.is_empty() && !self.of.linearizable;
        if (is_unchecked || reads.is_newest()) && self.of.fences.is_empty() {
            return None;
        }
        if reads.is_newest() {
            // A node that is still owned now was owned when the reads were true.
            plan.steps.clear();
        } else {
            // Checks of many nodes that others write would fail again and again.
            self.freshness = ReadFreshness::Linearizable;
        }
        Some(plan)
    }

    /// Sends the commit, once more after the parent of the receipts was created.
    async fn commit(
        &mut self,
        plan: &CommitPlan,
        reads: &ReadSet,
        writes: &WriteSet,
    ) -> Result<AppliedCommit, NotCommitted> {
        let site = &self.of.site;
        loop {
            let lock = self.guard.as_ref().map(MutexGuard::ownership);
            let path = match site.commit(plan, self.of.fences.iter().chain(lock)).await {
                Ok(applied) => return Ok(applied),
                Err(CommitFailure::Failed(error)) => return Err(error.into()),
                Err(CommitFailure::Conflict(path)) => path,
                Err(CommitFailure::OwnershipLost(error)) => {
                    let path = error.path().to_owned();
                    if self.guard.as_ref().is_none_or(|guard| guard.path() != path) {
                        return Err(Error::from(error).into());
                    }
                    self.guard = None;
                    path
                }
                Err(CommitFailure::NoReceipts(error)) => {
                    self.rounds = self.rounds.checked_sub(1).ok_or_else(|| Error::from(error))?;
                    site.create_receipts(plan).await.map_err(Error::from)?;
                    continue;
                }
            };
            let again = self.again(reads, writes);
            return Err(NotCommitted::Conflict { path, next: NextAttempt::Again(again) });
        }
    }

    /// Returns everything that the next attempt probably needs.
    fn again(&self, reads: &ReadSet, writes: &WriteSet) -> BTreeSet<Query> {
        let used = reads.used().cloned();
        let written = writes.paths().cloned().map(Query::Data);
        let prefetched = self.of.prefetch.iter().cloned().map(Query::Data);
        used.chain(written).chain(prefetched).collect()
    }

    /// Fails with an error that an attempt has because of its reads, if they still show the newest
    /// state. The server that they come from may have been behind. Otherwise returns the path of a
    /// conflict.
    async fn confirm(
        &self,
        error: Error,
        reads: &ReadSet,
        writes: &WriteSet,
    ) -> Result<(String, NextAttempt), Error> {
        if reads.is_newest() {
            return Err(error);
        }
        let written = writes.paths().cloned().map(Query::Data);
        let written = written.filter(|query| reads.get(query).is_some());
        let reasons: BTreeSet<Query> = reads.used().cloned().chain(written).collect();
        if reasons.is_empty() {
            return Err(error);
        }
        let site = &self.of.site;
        let again = self.again(reads, writes);
        let (changed, next) = match site.read_newest(again.clone()).await {
            Ok(newest) => {
                let changed = reasons.iter().find(|query| reads.differs(&newest, query));
                (changed, NextAttempt::Reads(newest))
            }
            // The body has read them with several requests. Their versions are enough.
            Err(error) if error.is_too_large() => {
                (site.find_changed(reads, &reasons).await?, NextAttempt::Again(again))
            }
            Err(error) => return Err(error),
        };
        match changed {
            Some(query) => Ok((query.path().to_owned(), next)),
            None => Err(error),
        }
    }

    /// Prepares the next attempt after a conflict: waits, acquires the lock if it is time, and
    /// reads.
    async fn prepare(
        &mut self,
        path: String,
        next: NextAttempt,
        attempts: u32,
    ) -> Result<ReadSet, Error> {
        let site = &self.of.site;
        self.met.note(path);
        self.conflicts.note();
        if let NextAttempt::Learned(reads) = &next
            && reads.len() > self.most_reads
        {
            self.most_reads = reads.len();
            self.uncounted += 1;
        }
        if attempts - self.uncounted > self.of.retries && self.guard.is_none() {
            let Some(lock) = &self.of.lock else { return Err(self.give_up(attempts).await) };
            let guard = lock.acquire(&site.zk, "stm").await?;
            let timeout = || Error::LockTimeout { path: lock.path.clone() };
            self.guard = Some(guard.ok_or_else(timeout)?);
        } else if matches!(next, NextAttempt::Again(_)) {
            self.conflicts.pause(&site.zk, &site.flight).await;
        }
        match next {
            // Still the present state, as far as anybody knows.
            NextAttempt::Reads(reads) | NextAttempt::Learned(reads) => Ok(reads),
            NextAttempt::Again(queries) => self.read_ahead(queries).await,
        }
    }

    async fn give_up(&self, attempts: u32) -> Error {
        let path = self.met.hottest().unwrap_or_default().to_owned();
        let last = self.of.site.zk.exists(path.as_str()).await;
        let mzxid = last.ok().flatten().map(|stat| stat.mzxid);
        Error::Conflict { path, attempts, mzxid }
    }
}
