//! The node of a number or of a value: read, and written at its version.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use zk_curator::certain::{CommitProof, Receipt};
use zk_curator::internal::{Locked, sleep, withdrawn_by};
use zk_curator::op::{CreateOp, SetDataOp};
use zk_curator::{CuratorFramework, Error as ZkError, ErrorCode, ErrorKind, Version};

use super::error::Error;
use crate::lock::MutexGuard as LockGuard;
use crate::measure;
use crate::observe::{COUNTER_CONFLICTS, COUNTER_PROMOTIONS, COUNTER_WRITES};
use crate::path::create_parents;
use crate::race::{self, LastWriteDuration, PromotedToLock};

/// The retries before a counter gives up, or takes its lock.
const RETRIES: u32 = 100;
const RETRIES_BEFORE_LOCK: u32 = 30;
/// The pause after a node has come between two requests of one read.
const PAUSE: Duration = Duration::from_micros(500);

/// The node in the state of its last read or write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CounterNode {
    Absent,
    Present {
        czxid: Option<i64>,
        version: i32,
        data: Bytes,
        /// The node of the receipt that was there before this was read.
        proof: Option<CommitProof>,
    },
}

impl CounterNode {
    pub(super) const fn data(&self) -> Option<&Bytes> {
        match self {
            Self::Absent => None,
            Self::Present { data, .. } => Some(data),
        }
    }

    /// Returns `true` if both show the same node at the same version.
    pub(super) fn is_still(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Absent, Self::Absent) => true,
            (
                Self::Present { czxid: Some(before), version, .. },
                Self::Present { czxid: Some(now), version: version_now, .. },
            ) => before == now && version == version_now,
            _ => false,
        }
    }

    /// The node after this one was written.
    fn written(self, data: Bytes, proof: Option<CommitProof>) -> Self {
        match self {
            Self::Absent => Self::Present { czxid: None, version: 0, data, proof },
            Self::Present { czxid, version, .. } => {
                Self::Present { czxid, version: version.wrapping_add(1), data, proof }
            }
        }
    }
}

/// Why a write was not applied, or may not have been.
pub(super) enum WriteFailure {
    /// Another process has written, created or deleted the node.
    Conflict,
    /// One of the nodes that were to be created with the write was refused, by its position;
    /// nothing was written.
    Companion(usize, ErrorCode, ZkError),
    /// The lock is lost that the write depended on.
    LockLost,
    /// A caller has given up before it was sent.
    Withdrawn,
    Unknown(ZkError),
    Other(Error),
}

/// The options that counters and values share.
#[derive(Debug)]
pub(super) struct SiteOptions {
    zk: CuratorFramework,
    path: String,
    pub(super) retries: Option<u32>,
    pub(super) lock: Option<PromotedToLock>,
    /// The parent of the receipt.
    pub(super) receipts: Option<String>,
}

impl SiteOptions {
    pub(super) fn new(zk: &CuratorFramework, path: String) -> Self {
        let receipts = Some(path.clone());
        Self { zk: zk.uncompressed(), path, retries: None, lock: None, receipts }
    }

    pub(super) fn build(self) -> CounterSite {
        let Self { zk, path, retries, lock, receipts } = self;
        measure::counter(&zk);
        let default = if lock.is_some() { RETRIES_BEFORE_LOCK } else { RETRIES };
        let retries = retries.unwrap_or(default);
        let receipt = receipts.map(|parent| Receipt::new(&zk, parent));
        let (proof, flight, has_others) =
            (Locked::default(), LastWriteDuration::default(), AtomicBool::new(false));
        CounterSite { zk, path, retries, lock, receipt, proof, flight, has_others }
    }
}

/// Writes the settings that counters and values share: those of the field `site` of a builder.
macro_rules! site_settings {
    () => {
        /// Sets the number of writes after the first one that may meet a newer value, in a row.
        /// After that the counter [acquires its lock](Self::then_lock), or fails with
        /// [`Error::Contended`](crate::counter::Error::Contended). Default: 30 with a lock, which
        /// takes about a second or two, and 100 without one, which takes about ten seconds.
        pub const fn retries(mut self, retries: u32) -> Self {
            self.site.retries = Some(retries);
            self
        }

        /// Acquires a lock when the [retries](Self::retries) are used up (Curator's
        /// `PromotedToLock`). Writes under the lock are fenced by it. The lock only ensures
        /// progress: versions still detect writes by clients that do not acquire it. Default: none.
        pub fn then_lock(mut self, lock: crate::counter::PromotedToLock) -> Self {
            self.site.lock = Some(lock);
            self
        }

        /// Sets the parent of the [receipt](zk_curator::certain), which must exist. Default: the
        /// node itself, which then can only be deleted together with its children while a process
        /// writes it.
        pub fn receipts_at(mut self, parent: impl Into<String>) -> Self {
            self.site.receipts = Some(parent.into());
            self
        }

        /// Writes no receipts, for nodes that must have no children. After a lost response, an
        /// unchanged version of the node shows that the write was not applied. If the version has
        /// changed, the outcome is [unknown](crate::counter::Error::Unknown). Default: with
        /// receipts.
        pub fn without_receipts(mut self) -> Self {
            self.site.receipts = None;
            self
        }
    };
}
pub(super) use site_settings;

/// The place of a number or of a value.
#[derive(Debug)]
pub(super) struct CounterSite {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    retries: u32,
    lock: Option<PromotedToLock>,
    /// Proves writes whose response is lost.
    receipt: Option<Receipt>,
    /// Its node, as long as nothing says that it is gone.
    proof: Locked<Option<CommitProof>>,
    flight: LastWriteDuration,
    /// `true` if the node had children other than our receipt after the last write: receipts of
    /// other processes.
    has_others: AtomicBool,
}

impl CounterSite {
    /// Reads the node behind a quorum, and not in order to write it.
    pub(super) async fn look(&self) -> Result<CounterNode, Error> {
        self.read_with(true, None).await
    }

    /// Reads the node in order to write it; `confirmed` is behind a quorum.
    pub(super) async fn read(&self, confirmed: bool) -> Result<CounterNode, Error> {
        loop {
            let (proof, is_missing) = self.prove().await;
            let node = self.read_with(confirmed, proof).await?;
            // Unless it has come in between, and has a place for the receipt now.
            if !is_missing || node == CounterNode::Absent {
                return Ok(node);
            }
            sleep(PAUSE).await;
        }
    }

    /// The proof for later reads, or none because there is no node. Other failures will show in the
    /// write.
    async fn prove(&self) -> (Option<CommitProof>, bool) {
        let Some(receipt) = &self.receipt else { return (None, false) };
        if let Some(proof) = self.proof() {
            return (Some(proof), false);
        }
        // This does not share a round trip with the read, because another task may use the receipt.
        match self.zk.transaction().certain(receipt).await {
            Ok(applied) => {
                let proof = Some(applied.proof().clone());
                self.set_proof(proof.clone());
                (proof, false)
            }
            Err(error) => (None, error.kind() == ErrorKind::NoNode && self.is_below(receipt)),
        }
    }

    async fn read_with(
        &self,
        confirmed: bool,
        proof: Option<CommitProof>,
    ) -> Result<CounterNode, Error> {
        let read = self.zk.get_data(self.path.as_str());
        // An older state of the same node is found out by its version; after a write that was
        // refused, the server has what refused it. Of another node the version may be the same,
        // unless the proof is checked along with it.
        let is_guarded = self.guarding(proof.as_ref()).is_some();
        let read = match (confirmed, is_guarded) {
            (true, _) => read.linearizable(),
            (false, true) => read,
            (false, false) => read.synced(),
        };
        match read.with_stat().await {
            Ok((data, stat)) => Ok(CounterNode::Present {
                czxid: Some(stat.czxid),
                version: stat.version,
                data,
                proof,
            }),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(CounterNode::Absent),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes data if the node is the known one, and creates companions in the same transaction.
    /// Returns the node after the write, unless it could be confused with another one. Withdrawn
    /// before it is sent, nothing is written.
    #[expect(clippy::too_many_lines, reason = "one write: build, send, judge")]
    pub(super) async fn write(
        &self,
        node: CounterNode,
        data: Bytes,
        companions: Vec<CreateOp>,
        guard: Option<&LockGuard>,
        withdrawal: CancellationToken,
    ) -> Result<Option<CounterNode>, WriteFailure> {
        let path = self.path.as_str();
        let transaction = guard.map_or_else(|| self.zk.transaction(), LockGuard::fenced);
        let transaction = withdrawn_by(transaction.uncompressed(), withdrawal);
        let mut transaction = match &node {
            CounterNode::Absent => transaction.with(CreateOp::new(path).data(data.clone())),
            CounterNode::Present { version, .. } => transaction
                .with(SetDataOp::new(path, data.clone()).version(Version::Exactly(*version))),
        };
        for companion in companions {
            transaction = transaction.with(companion);
        }
        let sent = Instant::now();
        let written = match &self.receipt {
            Some(receipt) => {
                let transaction = transaction.certain(receipt);
                let transaction = match &node {
                    CounterNode::Present { proof, .. } => match self.guarding(proof.as_ref()) {
                        // Of another node at the path the version may be the same.
                        Some(proof) => transaction.while_there(proof),
                        _ => transaction,
                    },
                    CounterNode::Absent => transaction,
                };
                transaction.await.map(|applied| {
                    if let Some(stat) =
                        applied.results().and_then(|results| results.first()?.stat())
                    {
                        self.has_others.store(stat.num_children > 1, Ordering::Relaxed);
                    }
                    (Some(applied.zxid()), Some(applied.proof().clone()))
                })
            }
            // Servers before 3.9 do not return the stat of a node that a transaction creates.
            None => {
                let results = transaction.commit().await;
                results.map(|results| {
                    (results.first().and_then(|result| result.stat()).map(|stat| stat.czxid), None)
                })
            }
        };
        let error = match written {
            Ok((created, proof)) => {
                self.flight.ended(sent);
                COUNTER_WRITES.of(&self.zk, []).add(1);
                self.set_proof(proof.clone());
                return Ok(match node.written(data, proof) {
                    CounterNode::Present { czxid, version, data, proof } => {
                        let czxid = czxid.or(created);
                        czxid.map(|_| CounterNode::Present { czxid, version, data, proof })
                    }
                    CounterNode::Absent => None,
                });
            }
            Err(error) => error,
        };
        debug!(path, %error, "not written");
        if error.may_have_applied() {
            return match self.receipt {
                Some(_) => Err(WriteFailure::Unknown(error)),
                None => self.find_out(&node, error).await,
            };
        }
        match error.kind() {
            ErrorKind::OwnershipLost => Err(WriteFailure::LockLost),
            ErrorKind::Withdrawn => Err(WriteFailure::Withdrawn),
            ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NoNode }
                if node == CounterNode::Absent =>
            {
                create_parents(&self.zk, path)
                    .await
                    .map_err(|error| WriteFailure::Other(error.into()))?;
                Err(WriteFailure::Conflict)
            }
            ErrorKind::TransactionFailed {
                index: 0,
                code: ErrorCode::BadVersion | ErrorCode::NoNode | ErrorCode::NodeExists,
            } => Err(WriteFailure::Conflict),
            ErrorKind::TransactionFailed { index: index @ 1.., code } => {
                Err(WriteFailure::Companion(index - 1, code, error))
            }
            // The receipt is gone, perhaps with the node, or with its session.
            ErrorKind::NoNode => {
                self.set_proof(None);
                Err(WriteFailure::Conflict)
            }
            ErrorKind::NoAuth | ErrorKind::NoChildrenForEphemerals
                if self
                    .receipt
                    .as_ref()
                    .is_some_and(|receipt| is_below(error.path(), receipt.parent())) =>
            {
                let parent = self
                    .receipt
                    .as_ref()
                    .map_or_else(String::new, |receipt| receipt.parent().to_owned());
                Err(WriteFailure::Other(Error::ReceiptDenied { parent, why: error }))
            }
            _ => Err(WriteFailure::Other(error.into())),
        }
    }

    /// Returns the duration of the last write, limited by the longest pause.
    pub(super) fn flight(&self) -> Duration {
        self.flight.last()
    }

    /// Returns `true` if other processes may write the node.
    pub(super) fn has_others(&self) -> bool {
        self.has_others.load(Ordering::Relaxed)
    }

    fn proof(&self) -> Option<CommitProof> {
        self.proof.lock().clone()
    }

    fn set_proof(&self, proof: Option<CommitProof>) {
        *self.proof.lock() = proof;
    }

    /// The proof, if it shows that the node is the same as before.
    fn guarding<'p>(&self, proof: Option<&'p CommitProof>) -> Option<&'p CommitProof> {
        proof.filter(|_| self.receipt.as_ref().is_some_and(|receipt| self.is_below(receipt)))
    }

    /// Returns `true` if the receipt is a child of the node, which then cannot be replaced while
    /// the receipt exists.
    fn is_below(&self, receipt: &Receipt) -> bool {
        receipt.parent() == self.path
    }

    /// Without a receipt: whether a write whose response was lost was not applied. That it was,
    /// nothing proves.
    async fn find_out(
        &self,
        node: &CounterNode,
        lost: ZkError,
    ) -> Result<Option<CounterNode>, WriteFailure> {
        match (node, self.zk.exists(self.path.as_str()).linearizable().await) {
            (CounterNode::Absent, Ok(None)) => Err(WriteFailure::Conflict),
            (CounterNode::Present { czxid, version, .. }, Ok(Some(stat)))
                if stat.version == *version && *czxid == Some(stat.czxid) =>
            {
                Err(WriteFailure::Conflict)
            }
            _ => Err(WriteFailure::Unknown(lost)),
        }
    }

    /// Acquires the lock, if there is one, after this number of tries.
    async fn lock(&self, tries: u32) -> Result<LockGuard, Error> {
        let path = self.path.clone();
        let Some(lock) = &self.lock else { return Err(Error::Contended { path, tries }) };
        COUNTER_PROMOTIONS.of(&self.zk, []).add(1);
        lock.acquire(&self.zk, "counter").await?.ok_or(Error::LockTimeout { path })
    }
}

/// The conflicting writes that an operation, or a batch, has met.
#[derive(Debug)]
pub(super) struct WriteConflicts {
    met: race::RaceConflicts,
    guard: Option<LockGuard>,
}

impl WriteConflicts {
    pub(super) const fn new() -> Self {
        Self { met: race::RaceConflicts::new(), guard: None }
    }

    /// The lock, since there were too many of them.
    pub(super) const fn guard(&self) -> Option<&LockGuard> {
        self.guard.as_ref()
    }

    /// Waits before the next try, or acquires the lock.
    pub(super) async fn met(
        &mut self,
        site: &CounterSite,
        is_lock_lost: bool,
    ) -> Result<(), Error> {
        COUNTER_CONFLICTS.of(&site.zk, []).add(1);
        let met = self.met.note();
        if is_lock_lost {
            self.guard = None;
        }
        if met > site.retries && self.guard.is_none() {
            self.guard = Some(site.lock(met).await?);
        } else {
            self.met.pause(&site.zk, &site.flight).await;
        }
        Ok(())
    }
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}
