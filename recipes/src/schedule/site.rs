use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tracing::{debug, warn};
use zk_curator::certain::{Applied, Receipt};
use zk_curator::internal::{Locked, Setbacks, sleep};
use zk_curator::{CreateMode, CuratorFramework, Error, ErrorCode, ErrorKind, Result, Stat};

use super::again::{self, Again, between};
use super::claim::{Runner, Since, SlotClaim};
use super::plan;
use super::record::{
    ClaimMode, Old, RunState, SlotRecord, may_be_forgotten, older, outdated, was_forgotten,
};
use crate::advice;
use crate::path::child;
use crate::race::{RACE_ROUNDS, is_conflict};
use crate::random::fraction;

/// The reason why a slot is deleted that is not done.
const TOO_MANY: &str = "deleted, for as many newer slots are not done as are kept";
/// The shortest pause before a slot is taken over.
const PAUSE: Duration = Duration::from_millis(100);

/// The nodes of a schedule, as one member uses them. Clones share a receipt.
#[derive(Debug, Clone)]
pub(super) struct ScheduleSite {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    pub(super) id: String,
    pub(super) mode: ClaimMode,
    receipt: Receipt,
    /// Failures to delete old slots.
    uncleaned: Arc<Locked<Setbacks>>,
    /// Closed when this and all claims in the background have ended.
    _alive: mpsc::Sender<()>,
}

/// A slot that is not done and has no runner.
#[derive(Debug)]
pub(super) enum OpenSlot {
    Again(Abandoned),
    Exhausted(Exhausted),
}

/// A slot that may run again, in the state of its read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Abandoned {
    version: i32,
    attempt: u32,
    /// The time of the first claim, by the clock of the servers.
    claimed_at: i64,
    /// The transaction that created the slot.
    created: i64,
}

/// A slot that may not run again, in the state of its read.
#[derive(Debug)]
pub(super) struct Exhausted {
    record: SlotRecord,
    version: i32,
}

impl Exhausted {
    /// The GUID of its last claim.
    pub(super) fn claim(&self) -> &str {
        &self.record.claim
    }
}

/// A slot that was read.
#[derive(Debug)]
pub(super) struct ReadSlot {
    pub(super) start: i64,
    pub(super) record: SlotRecord,
    pub(super) stat: Stat,
}

impl ScheduleSite {
    pub(super) fn new(
        zk: &CuratorFramework,
        path: &str,
        id: &str,
        mode: ClaimMode,
        alive: mpsc::Sender<()>,
    ) -> Self {
        let receipt = Receipt::new(zk, path);
        let (path, id) = (path.to_owned(), id.to_owned());
        let uncleaned = Arc::default();
        Self { zk: zk.uncompressed(), path, id, mode, receipt, uncleaned, _alive: alive }
    }

    pub(super) fn slot(&self, start: i64) -> String {
        child(&self.path, &plan::name(start))
    }

    fn runner(&self, start: i64) -> String {
        format!("{}/runner", self.slot(start))
    }

    fn record(&self, attempt: u32, claim: String) -> SlotRecord {
        SlotRecord {
            claim,
            mode: self.mode,
            attempt,
            state: RunState::Running,
            by: self.id.clone(),
        }
    }

    /// Claims a slot; `None` if it is claimed. One request, and one more if it `is_again`: after an
    /// unknown outcome, a call with the same GUID determines it.
    ///
    /// Dropping the future gives a slot back that runs at least once.
    pub(super) async fn claim(
        &self,
        start: i64,
        guid: &str,
        is_again: bool,
    ) -> Result<Option<SlotClaim>> {
        match self.mode {
            ClaimMode::AtMostOnce => self.claim_once(start, guid, is_again).await,
            ClaimMode::AtLeastOnce => self.claim_owned(start, None).await,
        }
    }

    /// Claims a slot whose runner is gone; `None` if another member was faster.
    pub(super) async fn take_over(&self, start: i64, seen: Abandoned) -> Result<Option<SlotClaim>> {
        self.claim_owned(start, Some(seen)).await
    }

    async fn claim_once(
        &self,
        start: i64,
        guid: &str,
        is_again: bool,
    ) -> Result<Option<SlotClaim>> {
        let (path, record) = (self.slot(start), self.record(1, guid.to_owned()));
        let create = self.zk.create(&path).creating_parents_as_containers().data(record.encode());
        // It is not deleted if this is dropped: older slots may already be deleted because this one
        // exists.
        let created = if is_again { create.idempotent().await } else { create.await };
        match created {
            Ok(_) => {
                let (zk, since) = (self.zk.clone(), Since::new(Duration::ZERO));
                Ok(Some(SlotClaim { start, zk, path, record, runner: None, since }))
            }
            Err(error) if error.kind() == ErrorKind::NodeExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn claim_owned(&self, start: i64, seen: Option<Abandoned>) -> Result<Option<SlotClaim>> {
        let site = self.clone();
        // A separate task, which continues when this future is dropped: no other client would
        // delete the runner, which blocks the slot for all members as long as our session lives.
        let claimed = self.zk.spawn_task(site.claim_with_runner(start, seen)).detached().await;
        claimed.unwrap_or_else(|why| Err(why.of_operation("claim", self.slot(start))))
    }

    async fn claim_with_runner(
        self,
        start: i64,
        seen: Option<Abandoned>,
    ) -> Result<Option<SlotClaim>> {
        let attempt = seen.map_or(1, |seen| seen.attempt.saturating_add(1));
        let record = self.record(attempt, self.zk.new_guid());
        let (path, runner) = (self.slot(start), self.runner(start));
        let mut rounds = 0..RACE_ROUNDS;
        let applied = loop {
            let transaction = match seen {
                None => self.zk.transaction().create(&path, record.encode()),
                Some(seen) => {
                    self.zk.transaction().set_data_if(&path, record.encode(), seen.version)
                }
            };
            let transaction =
                transaction.create_with_mode(&runner, self.id.clone(), CreateMode::Ephemeral);
            let error = match transaction.certain(&self.receipt).commit().await {
                Ok(applied) => break applied,
                Err(error) => error,
            };
            match error.code() {
                // Of the slot, or of a runner.
                Some(ErrorCode::NodeExists | ErrorCode::BadVersion) => return Ok(None),
                Some(ErrorCode::NoNode) if seen.is_some() => return Ok(None),
                Some(ErrorCode::NoNode) if rounds.next().is_some() => {
                    self.zk.create_containers(self.path.as_str()).await?;
                }
                _ => {
                    if error.may_have_applied() {
                        // Its own failure would say that nothing was claimed.
                        drop(self.give_back(&path, &runner, &record.claim).await);
                    }
                    return Err(error);
                }
            }
        };
        let version = seen.map_or(0, |seen| seen.version.wrapping_add(1));
        // The slot is claimed.
        let runner =
            self.own(&applied, &runner, version).await.map_err(Error::of_unknown_outcome)?;
        let claim = |runner: Runner| {
            let before = seen.map(|seen| between(seen.claimed_at, runner.node.stat().ctime));
            let (since, runner) = (Since::new(before.unwrap_or_default()), Some(Box::new(runner)));
            SlotClaim { start, zk: self.zk.clone(), path, record, runner, since }
        };
        Ok(runner.map(claim))
    }

    /// Deletes the runner of a claim that may have been applied: no other client would, as long as
    /// our session lives.
    async fn give_back(&self, path: &str, runner: &str, claim: &str) -> Result<()> {
        loop {
            let given_back = match self.zk.get_data(path).with_stat().linearizable().await {
                // No member takes the slot over as long as there is a runner.
                Ok((data, stat))
                    if SlotRecord::parse(&data).is_some_and(|record| record.claim == claim) =>
                {
                    let ours = self.zk.transaction().check(path, Some(stat.version));
                    ours.delete(runner).commit().await.map(drop)
                }
                Ok(_) => return Ok(()),
                Err(error) => Err(error),
            };
            match given_back {
                Ok(()) => return Ok(()),
                Err(error)
                    if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion)) =>
                {
                    return Ok(());
                }
                Err(error) => self.zk.wait_for_recovery(error).await?,
            }
        }
    }

    /// The guard of a runner that was created; `None` if it is gone already.
    async fn own(&self, applied: &Applied, path: &str, version: i32) -> Result<Option<Runner>> {
        loop {
            match self.zk.get_data(path).watched().await {
                Ok(read) => {
                    let (_, stat) = read.value;
                    let node = applied.own(&self.zk, path, stat);
                    let receipt = self.receipt.clone();
                    return Ok(node.map(|node| Runner {
                        node,
                        watch: read.watch,
                        version,
                        receipt,
                    }));
                }
                Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
                // Until it is known, no client would delete it.
                Err(error) => self.zk.wait_for_recovery(error).await?,
            }
        }
    }

    /// Returns `true` if a slot may have been done and deleted before this claim to it, whose
    /// member ended before it noticed. `starts` are those of the recorded slots.
    pub(super) async fn was_forgotten(
        &self,
        (start, seen): (i64, Abandoned),
        starts: &[i64],
        keep: u32,
    ) -> Result<bool> {
        if !may_be_forgotten(start, starts, keep) {
            return Ok(false);
        }
        let newer: Vec<i64> = starts.iter().copied().filter(|other| *other > start).collect();
        let newer = self.read(&newer).await?;
        Ok(was_forgotten(seen.created, newer.iter().map(|entry| entry.stat.czxid), keep))
    }

    /// Waits until a slot that a member has claimed may run again, or has failed permanently: when
    /// it has no runner, and is not done within the pause of the policy from then on. `None` if it
    /// is done or need not run again.
    ///
    /// `unsure` is the GUID of the last claim if we may have recorded that it has failed. If that
    /// is the case, it is reported here.
    ///
    /// It only reads: a future that is not polled for a while must not hold the receipt.
    pub(super) async fn until_abandoned(
        &self,
        start: i64,
        again: &Again,
        unsure: Option<&str>,
    ) -> Result<Option<OpenSlot>> {
        loop {
            // No herd of requests: one event, and one read.
            let runner = self.runner(start);
            let gone = self.zk.wait_gone(runner.as_str());
            advice::long_wait(&self.zk, "run", &runner, gone).await?;
            let Some((record, stat)) = self.open(start, unsure).await? else { return Ok(None) };
            let after = again.pause_of(&self.zk, &self.slot(start), &record, &stat);
            let pause = after.unwrap_or_default();
            let longest = (pause / 4).max(PAUSE);
            sleep(pause.saturating_add(longest.mul_f64(fraction(&self.zk)).max(PAUSE / 10))).await;
            let Some((_, now)) = self.open(start, unsure).await? else { return Ok(None) };
            if (now.czxid, now.version) != (stat.czxid, stat.version) {
                // Another member has taken it over.
                continue;
            }
            let version = stat.version;
            return Ok(Some(if after.is_some() {
                let (claimed_at, created) = (stat.ctime, stat.czxid);
                OpenSlot::Again(Abandoned { version, attempt: record.attempt, claimed_at, created })
            } else {
                OpenSlot::Exhausted(Exhausted { record, version })
            }));
        }
    }

    /// Records and reports that a slot without a runner has failed permanently. `false` if it may
    /// have been taken over.
    pub(super) async fn give_up(&self, start: i64, exhausted: Exhausted) -> Result<bool> {
        let Exhausted { record, version } = exhausted;
        let (path, runner, why) = (self.slot(start), self.runner(start), again::why(&record));
        let given_up = SlotRecord { state: RunState::GaveUp(why.clone()), ..record }.encode();
        let write = self.zk.transaction().set_data_if(&path, given_up, version);
        // This proves that there is no runner.
        let proof = write.create(&runner, "").delete(&runner);
        match proof.certain(&self.receipt).commit().await {
            Ok(_) => {
                self.report_given_up(start, why);
                Ok(true)
            }
            // Another member was faster.
            Err(error) if error.code().is_some_and(is_conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reports that a slot has failed permanently.
    pub(super) fn report_given_up(&self, start: i64, why: impl Into<String>) {
        let error = Error::body_failed("run", self.slot(start), why);
        warn!(%error, "a slot has failed permanently");
        self.zk.report_background_error(error);
    }

    /// Reads a slot, if it is to run again when it has no runner. For `unsure` see
    /// [`until_abandoned`](Self::until_abandoned).
    async fn open(&self, start: i64, unsure: Option<&str>) -> Result<Option<(SlotRecord, Stat)>> {
        let (data, stat) = loop {
            match self.zk.get_data(self.slot(start)).with_stat().await {
                Ok(read) => break read,
                Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
                Err(error) => self.zk.wait_for_recovery(error).await?,
            }
        };
        let Some(record) = SlotRecord::parse(&data) else { return Ok(None) };
        if let RunState::GaveUp(why) = &record.state
            && unsure.is_some_and(|claim| claim == record.claim)
        {
            self.report_given_up(start, why.clone());
        }
        Ok(record.is_open().then_some((record, stat)))
    }

    /// The starts of the recorded slots.
    pub(super) async fn starts(&self) -> Result<Vec<i64>> {
        match self.zk.children(self.path.as_str()).await {
            Ok(names) => Ok(names.iter().filter_map(|name| plan::parse(name)).collect()),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reads slots; without missing ones and those that no member has written.
    pub(super) async fn read(&self, starts: &[i64]) -> Result<Vec<ReadSlot>> {
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        let reads = starts
            .iter()
            .fold(self.zk.multi_read(), |reads, start| reads.get_data(self.slot(*start)));
        let mut entries = Vec::new();
        for (start, read) in starts.iter().copied().zip(reads.await?) {
            match read {
                Ok(read) => entries.extend(read.into_data().and_then(|(data, stat)| {
                    SlotRecord::parse(&data).map(|record| ReadSlot { start, record, stat })
                })),
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// Deletes old slots. What cannot be deleted now is left to the next winner.
    pub(super) async fn clean(&self, starts: Vec<i64>, keep: u32) {
        let cleaned = self.try_clean(starts, keep).await;
        self.uncleaned.lock().cleaned(&self.zk, &cleaned);
        if let Err(error) = cleaned {
            debug!(path = self.path, %error, "old slots are not deleted yet");
        }
    }

    async fn try_clean(&self, starts: Vec<i64>, keep: u32) -> Result<()> {
        let read = self.read(&older(starts, keep)).await?;
        let old = |entry: &ReadSlot| {
            let (start, created) = (entry.start, entry.stat.czxid);
            Old { start, is_open: entry.record.is_open(), created }
        };
        let outdated = outdated(&read.iter().map(old).collect::<Vec<_>>(), keep);
        let outdated: Vec<&ReadSlot> =
            read.iter().filter(|entry| outdated.contains(&entry.start)).collect();
        let deletes = outdated.iter().map(|entry| {
            let (path, version) = (self.slot(entry.start), entry.stat.version);
            async move { self.zk.delete(path).version(version).await }
        });
        let mut refused = Ok(());
        for (entry, deleted) in outdated.iter().zip(join_all(deletes).await) {
            match deleted.map_err(|error| (error.kind(), error)) {
                Ok(()) if entry.record.is_open() => {
                    self.report_given_up(
                        entry.start,
                        format!("{TOO_MANY}: {}", again::why(&entry.record)),
                    );
                }
                // Deleted or taken over by another member, or it has a child.
                Ok(())
                | Err((ErrorKind::NoNode | ErrorKind::BadVersion | ErrorKind::NotEmpty, _)) => {}
                Err((_, error)) => refused = Err(error),
            }
        }
        refused
    }
}
