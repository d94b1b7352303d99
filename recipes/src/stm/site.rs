//! The requests of transactions.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use tokio::time::Instant;
use tracing::debug;
use zk_curator::certain::ReceiptPool;
use zk_curator::internal::ReadFreshness;
use zk_curator::op::{MultiReadBuilder, ReadResult};
use zk_curator::{
    CuratorFramework, Error as ZkError, ErrorCode, ErrorKind, OpResult, Ownership,
    Result as ZkResult,
};

use super::error::Error;
use super::plan::{CommitPlan, StepKind};
use super::read_set::{Query, ReadAnswer, ReadAnswers, ReadSet};
use super::space::{self, SpaceScope, is_in};
use crate::race::{LastWriteDuration, RACE_ROUNDS};

/// The nodes of transactions, and the receipts that prove them.
#[derive(Debug)]
pub(super) struct StmSite {
    pub(super) zk: CuratorFramework,
    pub(super) scope: SpaceScope,
    receipts: Option<Receipts>,
    /// Of commits.
    pub(super) flight: LastWriteDuration,
}

#[derive(Debug)]
struct Receipts {
    pool: ReceiptPool,
    parent: String,
    /// The root of the space that the parent belongs to, if it was not chosen by the caller.
    root: Option<String>,
}

/// The result of a transaction that was applied.
#[derive(Debug)]
pub(super) struct AppliedCommit {
    pub(super) zxid: Option<i64>,
    /// The paths of the sequential nodes, if they are known.
    pub(super) created: Option<Vec<String>>,
}

impl AppliedCommit {
    /// The result of a transaction that writes nothing.
    pub(super) const fn nothing() -> Self {
        Self { zxid: None, created: Some(Vec::new()) }
    }
}

/// The reason why a transaction was not applied, or may not have been.
#[derive(Debug)]
pub(super) enum CommitFailure {
    /// Another client has changed this node.
    Conflict(String),
    /// The owned node with this path is gone.
    OwnershipLost(ZkError),
    /// The node that should have the receipts as children was missing.
    NoReceipts(ZkError),
    Failed(Error),
}

impl StmSite {
    pub(super) fn new(zk: &CuratorFramework, scope: SpaceScope, receipts: Option<&str>) -> Self {
        let root = if receipts.is_none() { scope.roots().first().cloned() } else { None };
        let parent = receipts.map(str::to_owned).or_else(|| root.as_deref().map(space::receipts));
        let receipts = parent.map(|parent| {
            let pool = ReceiptPool::below(zk, parent.as_str());
            Receipts { pool, parent, root }
        });
        Self { zk: zk.clone(), scope, receipts, flight: LastWriteDuration::default() }
    }

    /// Reads nodes, and the roots of their spaces, in one request. Creates missing roots.
    pub(super) async fn read(&self, queries: BTreeSet<Query>) -> Result<ReadSet, Error> {
        self.read_as(queries, MultiReadBuilder::in_one_request).await
    }

    /// Reads as [`read`](Self::read) or [`read_newest`](Self::read_newest).
    pub(super) async fn read_at(
        &self,
        freshness: ReadFreshness,
        queries: BTreeSet<Query>,
    ) -> Result<ReadSet, Error> {
        match freshness {
            ReadFreshness::Linearizable => self.read_newest(queries).await,
            _ => self.read(queries).await,
        }
    }

    /// Does the same as [`read`](Self::read), but returns the state that was committed before the
    /// call by any client.
    pub(super) async fn read_newest(&self, queries: BTreeSet<Query>) -> Result<ReadSet, Error> {
        let options = |request: MultiReadBuilder| request.in_one_request().linearizable();
        self.read_as(queries, options).await.map(ReadSet::newest)
    }

    async fn read_as(
        &self,
        queries: BTreeSet<Query>,
        options: impl Fn(MultiReadBuilder) -> MultiReadBuilder,
    ) -> Result<ReadSet, Error> {
        let mut all = self.roots_of(&queries)?;
        all.extend(queries);
        let mut rounds = 0..RACE_ROUNDS;
        loop {
            // The server that responds has applied at least this.
            let floor = self.zk.last_zxid_seen().unwrap_or(0);
            let mut request = options(self.zk.multi_read());
            for query in &all {
                request = match query {
                    Query::Data(path) => request.get_data(path),
                    Query::Children(path) => request.children(path),
                };
            }
            let mut answers = ReadAnswers::new();
            let mut missing = None;
            for (query, result) in all.iter().zip(request.await?) {
                let answer = answer(result)?;
                if let (Err(error), Query::Data(path)) = (&answer, query)
                    && self.scope.roots().contains(path)
                {
                    missing = Some((path, error.clone()));
                }
                answers.insert(query.clone(), answer.unwrap_or(ReadAnswer::Absent));
            }
            match missing {
                None => return Ok(ReadSet::of(answers, floor)),
                Some((_, error)) if rounds.next().is_none() => return Err(error.into()),
                Some((root, _)) => self.create_root(root).await?,
            }
        }
    }

    /// Reads the roots of the spaces of nodes. Creates missing roots.
    pub(super) async fn read_roots(&self, of: &BTreeSet<Query>) -> Result<ReadSet, Error> {
        self.read(self.roots_of(of)?).await
    }

    fn roots_of(&self, queries: &BTreeSet<Query>) -> Result<BTreeSet<Query>, Error> {
        let roots = queries.iter().map(|query| self.scope.root_of(query.path()));
        let roots: Vec<_> = roots.collect::<Result<_, _>>()?;
        Ok(roots.into_iter().flatten().map(|root| Query::Data(root.to_owned())).collect())
    }

    /// Reads nodes without their data, with one request for each. The responses may show different
    /// states.
    pub(super) async fn stats(
        &self,
        queries: impl Iterator<Item = &Query>,
        freshness: ReadFreshness,
    ) -> Result<ReadSet, Error> {
        let is_newest = freshness == ReadFreshness::Linearizable;
        let stat = async |query: &Query| {
            let exists = self.zk.exists(query.path());
            let exists = if is_newest { exists.linearizable() } else { exists };
            let answer = exists.await?.map_or(ReadAnswer::Absent, ReadAnswer::Stat);
            Ok::<_, Error>((query.clone(), answer))
        };
        let answers = try_join_all(queries.map(stat)).await?;
        Ok(ReadSet::of(answers.into_iter().collect(), 0))
    }

    /// Finds a read whose response was over when this was called, without reading data. If there is
    /// none, all of them were true together at a moment during the call.
    pub(super) async fn find_changed<'q>(
        &self,
        reads: &ReadSet,
        queries: &'q BTreeSet<Query>,
    ) -> Result<Option<&'q Query>, Error> {
        let exists = |query: &&Query| reads.get(query).is_some_and(|one| one.stat().is_some());
        // In a space, its root stands for missing nodes and lists of children. Otherwise nodes are
        // missing at the moment of one response, and the others have not changed until after it.
        let is_loose = matches!(self.scope, SpaceScope::Loose);
        let missing: BTreeSet<_> =
            queries.iter().filter(|query| is_loose && !exists(query)).cloned().collect();
        if !missing.is_empty() {
            let now = match self.read_newest(missing.clone()).await {
                // A response that shows only missing nodes is not large.
                Err(error) if error.is_too_large() => ReadSet::default(),
                now => now?,
            };
            let differs = |query: &&Query| missing.contains(query) && reads.differs(&now, query);
            if let Some(query) = queries.iter().find(differs) {
                return Ok(Some(query));
            }
        }
        let now = self.stats(queries.iter().filter(exists), ReadFreshness::Linearizable).await?;
        Ok(queries.iter().filter(exists).find(|query| reads.differs(&now, query)))
    }

    async fn create_root(&self, root: &str) -> ZkResult<()> {
        match self.zk.create(root).creating_parents_as_containers().idempotent().await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NodeExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates the node that has the receipts as children, unless another client does it. It does
    /// not write the root, because no transaction sees this node: transactions that have read the
    /// space without it are not in conflict.
    ///
    /// Creates the root too, if `plan` does not use its space. Otherwise the root existed when the
    /// space was read, and without it the next commit is in conflict.
    pub(super) async fn create_receipts(&self, plan: &CommitPlan) -> ZkResult<()> {
        let Some(Receipts { parent, root: Some(root), .. }) = &self.receipts else {
            return Ok(());
        };
        if plan.steps.iter().all(|step| step.path != *root) {
            self.create_root(root).await?;
        }
        match self.zk.create(parent).data("").idempotent().await {
            Ok(_) => Ok(()),
            Err(error) => match error.code() {
                // The next commit finds out if the root was deleted.
                Some(ErrorCode::NodeExists | ErrorCode::NoNode) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Applies the transaction while these nodes are owned.
    pub(super) async fn commit<'f>(
        &self,
        plan: &CommitPlan,
        fences: impl Iterator<Item = &'f Ownership>,
    ) -> Result<AppliedCommit, CommitFailure> {
        let mut transaction = self.zk.transaction();
        for fence in fences {
            transaction = transaction.fenced_by(fence);
        }
        let mut kinds = Vec::with_capacity(plan.steps.len());
        for (path, op, kind) in plan.ops() {
            transaction = transaction.with(op);
            kinds.push((path, kind));
        }
        let sent = Instant::now();
        let done = match &self.receipts {
            Some(receipts) => {
                let applied = receipts.pool.apply(transaction).await;
                applied.map(|applied| {
                    (Some(applied.zxid()), applied.results().map(<[OpResult]>::to_vec))
                })
            }
            None => transaction.commit().await.map(|results| {
                let stat = results.iter().find_map(OpResult::stat);
                // Servers return no stat of a deleted node.
                let zxid = stat.map(|stat| stat.mzxid).or_else(|| self.zk.last_zxid_seen());
                (zxid, Some(results))
            }),
        };
        let (zxid, results) = done.map_err(|error| self.failure(&kinds, error))?;
        self.flight.ended(sent);
        let created = |results: Vec<OpResult>| {
            let each =
                results.iter().zip(&kinds).filter(|(_, (_, kind))| *kind == StepKind::Sequential);
            each.filter_map(|(result, _)| result.created_path().map(str::to_owned)).collect()
        };
        let nothing = || kinds.iter().all(|(_, kind)| *kind != StepKind::Sequential).then(Vec::new);
        Ok(AppliedCommit { zxid, created: results.map(created).or_else(nothing) })
    }

    fn failure(&self, ops: &[(String, StepKind)], error: ZkError) -> CommitFailure {
        debug!(%error, "transaction not applied");
        if error.may_have_applied() {
            return CommitFailure::Failed(Error::Unknown { why: error });
        }
        match error.kind() {
            ErrorKind::OwnershipLost => CommitFailure::OwnershipLost(error),
            ErrorKind::TransactionFailed { index, code } => {
                let (path, kind) =
                    ops.get(index).cloned().unwrap_or((String::new(), StepKind::Other));
                match (code, kind) {
                    // The parent has assigned its last sequence number.
                    (ErrorCode::NodeExists, StepKind::Sequential) => {
                        CommitFailure::Failed(error.into())
                    }
                    (ErrorCode::BadVersion | ErrorCode::NodeExists, _)
                    | (ErrorCode::NoNode, StepKind::Other) => CommitFailure::Conflict(path),
                    // The parent of the new node is missing: the body has to create it.
                    _ => CommitFailure::Failed(error.into()),
                }
            }
            ErrorKind::NoNode
                if self.receipts.as_ref().is_some_and(|receipts| {
                    receipts.root.is_some() && is_in(error.path(), &receipts.parent)
                }) =>
            {
                CommitFailure::NoReceipts(error)
            }
            _ => CommitFailure::Failed(error.into()),
        }
    }
}

/// Returns what was read, or the error that says that the node does not exist.
fn answer(result: ZkResult<ReadResult>) -> Result<Result<ReadAnswer, ZkError>, Error> {
    Ok(Ok(match result {
        Ok(ReadResult::Data { data, stat, .. }) => ReadAnswer::Data { data, stat },
        Ok(ReadResult::Children { mut names }) => {
            names.sort_unstable();
            ReadAnswer::Children(names)
        }
        Ok(_) => return Ok(Ok(ReadAnswer::Absent)),
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Err(error)),
        Err(error) => return Err(error.into()),
    }))
}
