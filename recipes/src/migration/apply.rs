//! The driver: takes the lock, and sends the transactions that the plan requests.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info};
use zk_curator::certain::is_receipt;
use zk_curator::internal::{ancestors, bounded, described, sleep};
use zk_curator::op::{CheckOp, CreateOp, SetDataOp, Transaction, TransactionOp};
use zk_curator::{CreateMode, ErrorCode, ErrorKind, Ownership};

use super::computed::Reads;
use super::model::Outcome;
use super::plan::{self, Expected, META};
use super::record::MigrationRecord;
use super::set::{MigrationWork, Operations};
use super::settings::MigrationSettings;
use super::site::{MigrationSite, SetNodes, is_lease};
use super::{Error, MigrationSet};
use crate::lock::{self, InterProcessSemaphoreMutex, Permit};
use crate::path::child;
use crate::race::{RACE_ROUNDS, is_conflict};

/// The number of times that a computation runs again because its operations were refused.
const REFUSALS: u32 = 3;
/// The longest pause before a computation runs again.
const PAUSE: Duration = Duration::from_millis(50);
/// A node of the lock in a transaction whose size is checked before the lock is taken.
const LEASE: &str = "leases/_c_00000000-0000-0000-0000-000000000000-lease-0000000000";

/// One call of [`migrate`](super::MigrationManager::migrate).
pub(super) struct MigrationCall<'a> {
    settings: &'a MigrationSettings,
    site: MigrationSite,
    set: &'a MigrationSet,
    pub(super) expected: Vec<Expected>,
    /// In the records of this call, which no other call shares.
    attempt: String,
    /// The migrations that this call has applied.
    applied: Vec<usize>,
    /// The error of a transaction whose outcome is not known yet.
    unknown: Option<zk_curator::Error>,
}

/// The meaning of an operation of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperationMeaning {
    /// A node that a computation has read.
    Guard,
    /// An operation of a migration.
    Operation { migration: usize, index: usize },
    /// The metadata of a migration.
    Metadata,
    /// The record of a migration.
    Record,
}

/// The result of a transaction, or of several.
enum ApplyResult {
    Applied,
    /// A node that was read has changed, or an operation of a computed migration was refused,
    /// which may have the same reason.
    Computed(Option<Error>),
    /// The lock may be lost, or another client was faster: begin again.
    Again,
}

impl<'a> MigrationCall<'a> {
    pub(super) fn new(
        settings: &'a MigrationSettings,
        site: MigrationSite,
        set: &'a MigrationSet,
        expected: Vec<Expected>,
    ) -> Self {
        let attempt = settings.zk.new_guid();
        Self { settings, site, set, expected, attempt, applied: Vec::new(), unknown: None }
    }

    pub(super) async fn migrate(mut self) -> Result<Outcome, Error> {
        let result = self.run().await;
        let name = |&index: &usize| self.expected[index].name.clone();
        let applied: Vec<_> = self.applied.iter().map(name).collect();
        let path = self.site.metadata;
        let error = match (result, self.unknown) {
            (Ok(()), _) => {
                let already = self.expected.len() - applied.len();
                return Ok(Outcome { applied, already });
            }
            // Its own failure would say that nothing was applied.
            (
                Err(Error::Framework(_) | Error::LockTimeout { .. } | Error::Busy { .. }),
                Some(unknown),
            ) => unknown.into(),
            (Err(error), _) => error,
        };
        if applied.is_empty() {
            return Err(error);
        }
        Err(Error::Incomplete { path, applied, source: Box::new(error) })
    }

    async fn run(&mut self) -> Result<(), Error> {
        for _ in 0..RACE_ROUNDS {
            // 1. Without the lock: a complete set stays complete.
            let (seen, applied) = self.look(true).await?;
            if applied == self.expected.len() {
                return Ok(());
            }
            if let ApplyResult::Applied = self.apply_held(seen).await? {
                return Ok(());
            }
        }
        Err(self.site.busy())
    }

    /// Applies the missing migrations, under the lock or the fence.
    async fn apply_held(&mut self, mut seen: SetNodes) -> Result<ApplyResult, Error> {
        if let Some(fence) = self.settings.fence.clone() {
            self.create_missing_parents(&seen).await?;
            return self.apply_all(&fence).await;
        }
        // 2. While another client applies migrations, wait for that.
        let until = Instant::now() + bounded(self.settings.lock_timeout);
        while seen.is_locked && self.holder_ended(until).await? {
            let applied;
            (seen, applied) = self.look(false).await?;
            if applied == self.expected.len() {
                return Ok(ApplyResult::Applied);
            }
        }
        // Sent in this order, in one round trip.
        let ((), held) = try_join(self.create_missing_parents(&seen), self.lock(until)).await?;
        // The lock is released in the background: a failure of that is no failure of the call.
        self.apply_all(held.ownership()).await
    }

    /// Reads everything, and returns the number of migrations that were applied.
    async fn look(&mut self, synced: bool) -> Result<(SetNodes, usize), Error> {
        let seen = self.site.look(self.expected.len(), synced).await?;
        let of_this_call = |index: &usize| {
            let stored = seen.records.get(*index).and_then(Option::as_ref);
            let record = stored.and_then(|stored| stored.record.as_ref());
            record.is_some_and(|record| record.attempt == self.attempt)
        };
        let compared = seen.compare(&self.expected);
        // Also if the set differs: a transaction whose outcome was unknown may have been applied.
        let known = *compared.as_ref().unwrap_or(&self.expected.len());
        self.applied = (0..known).filter(of_this_call).collect();
        let refused = |difference| Error::of_difference(&self.site.metadata, difference);
        let applied = compared.map_err(refused)?;
        if applied < self.expected.len() {
            self.check_sizes(applied)?;
        }
        Ok((seen, applied))
    }

    /// Waits until the holder of the lock has released it. Returns `false` if there is no holder,
    /// or no time to wait.
    async fn holder_ended(&self, until: Instant) -> Result<bool, Error> {
        if self.settings.lock_timeout.is_zero() {
            return Ok(false);
        }
        let watched = match self.settings.zk.children(self.site.leases()).watched().await {
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(false),
            watched => watched?,
        };
        if !watched.value.0.iter().any(|name| is_lease(name)) {
            return Ok(false);
        }
        // Whatever happens to the watch, everything is read again.
        match timeout_at(until, watched.watch).await {
            Ok(_) => Ok(true),
            Err(_) => Err(self.lock_timeout()),
        }
    }

    async fn lock(&self, until: Instant) -> Result<Permit, Error> {
        let MigrationSettings { zk, .. } = &self.settings;
        let lock = InterProcessSemaphoreMutex::within(zk, self.site.lock.as_str(), "migration");
        let lock = lock.label(self.settings.label.clone());
        let acquired = if self.settings.lock_timeout.is_zero() {
            lock.try_acquire().await
        } else {
            match timeout_at(until, lock.acquire()).await {
                Ok(acquired) => acquired.map(Some),
                Err(_) => Ok(None),
            }
        };
        match acquired {
            Ok(Some(lease)) => Ok(lease),
            Ok(None) => Err(self.lock_timeout()),
            Err(lock::Error::Framework(error)) => Err(error.into()),
            Err(_) => Err(self.site.busy()),
        }
    }

    /// The path and the name of a migration, for an error.
    fn named(&self, index: usize) -> (String, String) {
        (self.site.metadata.clone(), self.expected[index].name.clone())
    }

    fn lock_timeout(&self) -> Error {
        let (path, timeout) = (self.site.lock.clone(), self.settings.lock_timeout);
        Error::LockTimeout { path, timeout }
    }

    /// Applies the missing migrations, while the fence exists.
    async fn apply_all(&mut self, fence: &Ownership) -> Result<ApplyResult, Error> {
        // 3. Again, because other clients may have applied migrations before the lock was ours.
        // The server that has granted the lock knows of them.
        let (seen, mut from) = self.look(self.settings.fence.is_some()).await?;
        // A transaction that was sent under an earlier lock can no longer be applied.
        self.unknown = None;
        let mut tries = 0;
        while from < self.expected.len() {
            let batch = plan::batch(&self.expected, from, self.settings.one_each);
            match self.apply(&seen, batch.clone(), fence).await? {
                ApplyResult::Applied => {
                    (from, tries) = (batch.end, 0);
                    info!(id = self.site.id, applied = ?batch, "migrations were applied");
                    self.applied.extend(batch);
                }
                ApplyResult::Computed(refusal) => {
                    tries += 1;
                    match refusal {
                        Some(refusal) if tries > REFUSALS => return Err(refusal),
                        None if tries > RACE_ROUNDS => {
                            return Err(self.site.busy());
                        }
                        _ => sleep(self.settings.zk.jitter(PAUSE)).await,
                    }
                }
                ApplyResult::Again => return Ok(ApplyResult::Again),
            }
        }
        Ok(ApplyResult::Applied)
    }

    /// Applies some migrations in one transaction.
    async fn apply(
        &mut self,
        seen: &SetNodes,
        batch: Range<usize>,
        fence: &Ownership,
    ) -> Result<ApplyResult, Error> {
        let (mut guards, mut computed) = (Vec::new(), None);
        if let MigrationWork::Computed { compute, .. } = &self.set.migrations[batch.start].work {
            let reads = Reads::new(&self.settings.zk);
            let result = compute(reads.clone()).await;
            let ended = reads.end();
            if ended.is_torn {
                return Ok(ApplyResult::Computed(None));
            }
            // A body that goes on after a failed read has no guard for it.
            if let Some(failure) = ended.failure {
                return Err(failure.into());
            }
            match result {
                Ok(operations) => computed = Some(operations),
                Err(source) => {
                    let failure = if let Some(missing) = ended.missing_node(&source) {
                        missing.into()
                    } else {
                        let (path, migration) = self.named(batch.start);
                        Error::Computation { path, migration, source }
                    };
                    let from = batch.start;
                    let checks = ended.into_guards();
                    return self.failed_computation(checks, failure, from, fence).await;
                }
            }
            guards = ended.into_guards();
        }
        if let Some(operations) = &computed {
            operations.check_data(&self.expected[batch.start].name)?;
        }
        // 4. All or nothing, and only while the lock is held.
        let from = batch.start;
        let (ops, parts) = self.operations(seen, guards, batch, computed.as_ref());
        let transaction = self.settings.zk.transaction().fenced_by(fence);
        let transaction = ops.into_iter().fold(transaction, Transaction::with);
        match transaction.certain(&self.settings.receipt).commit().await {
            Ok(_) => Ok(ApplyResult::Applied),
            Err(error) => self.failed(error, &parts, from, fence).await,
        }
    }

    /// Fails with the error of a computation, unless its reads no longer show the present state. It
    /// may have seen a mixture of two states.
    async fn failed_computation(
        &mut self,
        guards: Vec<TransactionOp>,
        failure: Error,
        from: usize,
        fence: &Ownership,
    ) -> Result<ApplyResult, Error> {
        if guards.is_empty() {
            return Err(failure);
        }
        let parts = vec![OperationMeaning::Guard; guards.len()];
        let transaction = self.settings.zk.transaction().fenced_by(fence);
        let transaction = guards.into_iter().fold(transaction, Transaction::with);
        let Err(error) = transaction.certain(&self.settings.receipt).commit().await else {
            return Err(failure);
        };
        if let ErrorKind::TransactionFailed { code, .. } = error.kind()
            && !is_conflict(code)
        {
            // The session may lack the permission to create the absent nodes.
            return Err(failure);
        }
        let step = self.failed(error, &parts, from, fence).await;
        // Guards alone change nothing.
        self.unknown = None;
        step
    }

    /// Returns the operations of a transaction, and their meanings.
    fn operations(
        &self,
        seen: &SetNodes,
        guards: Vec<TransactionOp>,
        batch: Range<usize>,
        computed: Option<&Operations>,
    ) -> (Vec<TransactionOp>, Vec<OperationMeaning>) {
        let mut parts = vec![OperationMeaning::Guard; guards.len()];
        let mut ops = guards;
        for migration in batch {
            let operations = match &self.set.migrations[migration].work {
                MigrationWork::Fixed(operations) => Some(operations),
                MigrationWork::Computed { .. } => computed,
            };
            for (index, op) in operations.iter().flat_map(|operations| &operations.0).enumerate() {
                ops.push(op.clone());
                parts.push(OperationMeaning::Operation { migration, index });
            }
            let Expected { name, digest, sound, .. } = &self.expected[migration];
            let metadata = CreateOp::new(child(&self.site.metadata, META));
            let metadata = metadata.data(digest.to_vec()).mode(CreateMode::PersistentSequential);
            ops.push(metadata.uncompressed().into());
            parts.push(OperationMeaning::Metadata);
            let record = MigrationRecord {
                name: name.clone(),
                metadata: *digest,
                digest: *sound,
                attempt: self.attempt.clone(),
                by: String::from_utf8_lossy(&self.settings.label).into_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            };
            let (path, data) = (self.site.record(migration), record.encode());
            // The names of the metadata never collide, those of the records do: two clients never
            // apply the same migration, even without the lock.
            ops.push(match seen.records.get(migration).and_then(Option::as_ref) {
                None => CreateOp::new(path).data(data).uncompressed().into(),
                // Its metadata were deleted by hand.
                Some(old) => SetDataOp::new(path, data).version(old.version).uncompressed().into(),
            });
            parts.push(OperationMeaning::Record);
        }
        (ops, parts)
    }

    /// Finds out what a failed transaction means.
    async fn failed(
        &mut self,
        error: zk_curator::Error,
        parts: &[OperationMeaning],
        from: usize,
        fence: &Ownership,
    ) -> Result<ApplyResult, Error> {
        debug!(id = self.site.id, %error, "migrations were not applied");
        match error.kind() {
            ErrorKind::TransactionFailed { index, code } => {
                let part = parts.get(index).copied();
                return self.refused(error, part, code, from).await;
            }
            // The parent of the receipt.
            ErrorKind::NoNode if error.path().rsplit('/').next().is_some_and(is_receipt) => {
                self.create_parents().await?;
                return Ok(ApplyResult::Again);
            }
            ErrorKind::OwnershipLost | ErrorKind::SessionExpired => {}
            // The sizes of the others were checked before.
            ErrorKind::TooLarge if !error.may_have_applied() => {
                let (path, migration) = self.named(from);
                return Err(Error::TooLarge { path, migration });
            }
            _ => return Err(error.into()),
        }
        // 5. The session is over, or the lock is lost: the next look under the lock tells.
        let is_unknown = error.may_have_applied();
        if is_unknown {
            self.unknown = Some(error.clone());
        }
        if self.settings.fence.is_none() {
            return Ok(ApplyResult::Again);
        }
        if !is_unknown {
            return Err(error.into());
        }
        // Once the node of the fence is gone, the transaction is applied, or never will be.
        let zk = &self.settings.zk;
        loop {
            let node = fence.framework().exists(fence.path()).linearizable().await?;
            let Some(node) = node.filter(|node| node.czxid == fence.czxid()) else {
                return Ok(ApplyResult::Again);
            };
            if node.ephemeral_owner == 0 {
                // It does not end with its session.
                return Err(error.into());
            }
            sleep(zk.jitter(PAUSE)).await;
        }
    }

    async fn refused(
        &mut self,
        error: zk_curator::Error,
        part: Option<OperationMeaning>,
        code: ErrorCode,
        from: usize,
    ) -> Result<ApplyResult, Error> {
        match part {
            Some(OperationMeaning::Guard) if is_conflict(code) => Ok(ApplyResult::Computed(None)),
            Some(OperationMeaning::Operation { migration, index }) => {
                let Expected { name, is_computed, .. } = &self.expected[migration];
                let (migration, path) = (name.clone(), error.path().to_owned());
                let refusal = Error::Refused { migration, index, path, code };
                let is_computed = *is_computed;
                // A client that ignores the lock, such as a Java process whose session has ended,
                // may have applied it.
                if self.look(true).await?.1 > from {
                    return Ok(ApplyResult::Again);
                }
                if is_computed { Ok(ApplyResult::Computed(Some(refusal))) } else { Err(refusal) }
            }
            Some(OperationMeaning::Metadata | OperationMeaning::Record)
                if code == ErrorCode::NoNode =>
            {
                self.create_parents().await?;
                Ok(ApplyResult::Again)
            }
            Some(OperationMeaning::Record) if is_conflict(code) => Ok(ApplyResult::Again),
            _ => Err(error.of_operation("migrate").into()),
        }
    }

    async fn create_missing_parents(&self, seen: &SetNodes) -> Result<(), Error> {
        if seen.exists { Ok(()) } else { self.create_parents().await }
    }

    /// Creates all nodes above the records, the metadata and the nodes of the lock, from the top:
    /// one round trip.
    async fn create_parents(&self) -> Result<(), Error> {
        let site = &self.site;
        let mut parents = vec![site.metadata.clone(), site.records.clone()];
        if self.settings.fence.is_none() {
            parents.extend([site.turns(), site.leases()]);
        }
        // A node is sorted before those below it.
        let paths: BTreeSet<&str> =
            parents.iter().flat_map(|path| ancestors(path)).filter(|path| *path != "/").collect();
        let create = |path: &str| self.settings.zk.create_containers(path).into_future();
        try_join_all(paths.into_iter().map(create)).await?;
        Ok(())
    }

    /// Checks the sizes of all transactions whose operations are known.
    fn check_sizes(&self, mut from: usize) -> Result<(), Error> {
        while from < self.expected.len() {
            let batch = plan::batch(&self.expected, from, self.settings.one_each);
            from = batch.end;
            self.check_size(batch)?;
        }
        Ok(())
    }

    /// Checks if a transaction fits into a request, without its computed operations.
    pub(super) fn check_size(&self, batch: Range<usize>) -> Result<(), Error> {
        let is_too_large = |batch: Range<usize>| {
            let (ops, _) = self.operations(&SetNodes::default(), Vec::new(), batch, None);
            let transaction = match &self.settings.fence {
                Some(fence) => self.settings.zk.transaction().fenced_by(fence),
                None => {
                    let lease = CheckOp::new(child(&self.site.lock, LEASE));
                    self.settings.zk.transaction().with(lease)
                }
            };
            let transaction = ops.into_iter().fold(transaction, Transaction::with);
            match transaction.certain(&self.settings.receipt).check_size() {
                Err(error) if error.kind() == ErrorKind::TooLarge => Ok(true),
                checked => checked.map(|()| false),
            }
        };
        match plan::first_too_large(batch, is_too_large)? {
            None => Ok(()),
            Some(first) => {
                let (path, migration) = self.named(first);
                Err(Error::TooLarge { path, migration })
            }
        }
    }

    /// Returns the size of the operations of a transaction, without computed ones.
    pub(super) fn size(&self, batch: Range<usize>) -> usize {
        let (ops, _) = self.operations(&SetNodes::default(), Vec::new(), batch, None);
        ops.iter().map(|op| plan::size(&described(&self.settings.zk, op).0)).sum()
    }
}
