use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, pending};
use std::pin::pin;

use futures_util::future::{BoxFuture, join};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tracing::warn;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, Ownership, Result};

use super::again::Again;
use super::claim::{SlotClaim, SlotRun};
use super::plan::{self, OnMissed};
use super::record::{RunState, may_be_forgotten};
use super::site::{Abandoned, Exhausted, OpenSlot, ScheduleSite};
use super::slot::Slot;
use super::timing::Timing;
use crate::measure::Scheduled;
use crate::observe::{SCHEDULE_MISSED_SLOTS, SCHEDULE_RUNS};
use crate::shutdown::RunEnding;

/// One member that follows a schedule.
pub(super) struct ScheduleMember {
    site: ScheduleSite,
    timing: Timing,
    missed: OnMissed,
    keep: u32,
    /// `None` if slots run at most once.
    again: Option<Again>,
    has_begun: bool,
    /// Slots of other members, until they are done or may run again.
    waiting: FuturesUnordered<BoxFuture<'static, (i64, Result<Option<OpenSlot>>)>>,
    waited_for: BTreeSet<i64>,
    /// `true` if there may be unfinished slots that this member does not wait for.
    is_stale: bool,
    /// The start of a slot that was perhaps claimed, and the GUID of that claim.
    unsure: Option<(i64, String)>,
    /// `true` if the last slot runs again.
    was_again: bool,
    scheduled: Scheduled,
}

/// The next thing that a member does.
#[derive(Debug)]
enum MemberStep {
    /// It runs a slot, if no other member does.
    Run(SlotCandidate),
    /// It records that the slot with this start has failed permanently.
    GiveUp(i64, Exhausted),
}

/// A slot that a member wants to run.
#[derive(Debug, Clone, Copy)]
enum SlotCandidate {
    /// A new one, by its number.
    New(i64),
    /// The slot that may run again, by its start.
    Again(i64, Abandoned),
}

/// The reason why a run is over.
enum SlotRunEnd {
    ByItself(Result<(), String>),
    /// Another member may take the slot over.
    Lost,
    /// The time to drain has passed.
    Stopped,
}

impl ScheduleMember {
    pub(super) fn new(
        site: ScheduleSite,
        timing: Timing,
        missed: OnMissed,
        keep: u32,
        again: Option<Again>,
    ) -> Self {
        let scheduled = Scheduled::begin(&site.zk, &site.path);
        Self {
            scheduled,
            site,
            timing,
            missed,
            keep,
            is_stale: again.is_some(),
            again,
            has_begun: false,
            waiting: FuturesUnordered::new(),
            waited_for: BTreeSet::new(),
            unsure: None,
            was_again: false,
        }
    }

    /// Runs slots until the end begins, or until a permanent error.
    pub(super) async fn work<F, Fut, E>(mut self, ending: &RunEnding, body: &F) -> Result<()>
    where
        F: Fn(Slot) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        while !ending.has_begun() {
            let wanted = tokio::select! {
                biased;
                () = ending.begun() => break,
                wanted = self.wanted() => wanted?,
            };
            // Other members may already have been refused, so a slot that is claimed when the end
            // begins still runs.
            let candidate = match wanted {
                MemberStep::Run(candidate) => candidate,
                MemberStep::GiveUp(start, exhausted) => {
                    let zk = self.site.zk.clone();
                    tokio::select! {
                        biased;
                        () = ending.gives_up(&zk) => break,
                        given_up = self.give_up(start, exhausted) => given_up?,
                    }
                    continue;
                }
            };
            let zk = self.site.zk.clone();
            let claimed = tokio::select! {
                biased;
                () = ending.gives_up(&zk) => break,
                claimed = self.claim(candidate) => claimed?,
            };
            if let Some((claim, starts)) = claimed {
                Box::pin(self.run(claim, starts, ending, body)).await?;
            }
        }
        Ok(())
    }

    /// Waits for the next slot to run.
    async fn wanted(&mut self) -> Result<MemberStep> {
        loop {
            match self.try_wanted().await {
                Err(error) => self.site.zk.wait_for_recovery(error).await?,
                wanted => return wanted,
            }
        }
    }

    async fn try_wanted(&mut self) -> Result<MemberStep> {
        loop {
            if !self.has_begun {
                let is_needed = self.missed != OnMissed::Skip;
                let starts = if is_needed { self.site.starts().await? } else { Vec::new() };
                self.timing.begin(starts.into_iter().max()).await?;
                self.has_begun = true;
                self.scheduled.waits_for(self.timing.next());
            }
            if self.is_stale {
                self.look_for_open().await?;
            }
            // Slots that fail again and again do not keep new ones from running, nor the clock from
            // being compared.
            if self.was_again && self.timing.is_due() {
                let number = self.timing.until_due().await?;
                return Ok(MemberStep::Run(SlotCandidate::New(number)));
            }
            tokio::select! {
                biased;
                Some((start, open)) = self.waiting.next(), if !self.waiting.is_empty() => {
                    self.waited_for.remove(&start);
                    match open? {
                        Some(OpenSlot::Again(abandoned)) => {
                            return Ok(MemberStep::Run(SlotCandidate::Again(start, abandoned)));
                        }
                        Some(OpenSlot::Exhausted(exhausted)) => {
                            return Ok(MemberStep::GiveUp(start, exhausted));
                        }
                        None => {}
                    }
                }
                number = self.timing.until_due() => {
                    return number.map(|number| MemberStep::Run(SlotCandidate::New(number)));
                }
            }
        }
    }

    /// Waits for all unfinished slots from now on.
    async fn look_for_open(&mut self) -> Result<()> {
        let starts = self.site.starts().await?;
        let open: Vec<i64> = self
            .site
            .read(&starts)
            .await?
            .into_iter()
            .filter(|entry| entry.record.is_open())
            .map(|entry| entry.start)
            .collect();
        open.into_iter().for_each(|start| self.wait_for(start, None));
        self.is_stale = false;
        Ok(())
    }

    /// Waits until the slot of another member is done or may run again, if it may at all. For
    /// `unsure` see [`ScheduleSite::until_abandoned`].
    fn wait_for(&mut self, start: i64, unsure: Option<String>) {
        let Some(again) = &self.again else { return };
        if self.waited_for.insert(start) {
            let (site, again) = (self.site.clone(), again.clone());
            self.waiting.push(Box::pin(async move {
                (start, site.until_abandoned(start, &again, unsure.as_deref()).await)
            }));
        }
    }

    /// Records that a slot has failed permanently, and reports it.
    async fn give_up(&mut self, start: i64, exhausted: Exhausted) -> Result<()> {
        self.was_again = true;
        let claim = exhausted.claim().to_owned();
        match self.site.give_up(start, exhausted).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.wait_for(start, None);
                Ok(())
            }
            Err(error) => {
                self.wait_for(start, error.may_have_applied().then_some(claim));
                self.site.zk.wait_for_recovery(error).await
            }
        }
    }

    /// Claims a slot; with the starts of all recorded slots. `None` if it is not for us.
    async fn claim(&mut self, candidate: SlotCandidate) -> Result<Option<(SlotClaim, Vec<i64>)>> {
        self.was_again = matches!(candidate, SlotCandidate::Again(..));
        let claimed = match candidate {
            SlotCandidate::New(number) => self.claim_new(self.timing.start(number)).await,
            SlotCandidate::Again(start, abandoned) => self.site.take_over(start, abandoned).await,
        };
        match (candidate, &claimed) {
            (SlotCandidate::New(number), Ok(claimed)) => {
                let is_behind = self.timing.dealt_with(number);
                self.is_stale |= is_behind && self.again.is_some();
                self.scheduled.waits_for(self.timing.next());
                if claimed.is_none() {
                    self.wait_for(self.timing.start(number), None);
                }
            }
            // A slot of which nothing is known is still the next.
            (SlotCandidate::New(_), Err(_)) | (SlotCandidate::Again(..), Ok(Some(_))) => {}
            (SlotCandidate::Again(start, _), Ok(None) | Err(_)) => self.wait_for(start, None),
        }
        let claim = match claimed {
            Ok(Some(claim)) => claim,
            Ok(None) => return Ok(None),
            Err(error) => return self.site.zk.wait_for_recovery(error).await.map(|()| None),
        };
        let (starts, was_forgotten) = loop {
            match look_back(&self.site, candidate, claim.start, self.keep).await {
                Ok(seen) => break seen,
                Err(error) => self.site.zk.wait_for_recovery(error).await?,
            }
        };
        if was_forgotten {
            // Our clock was behind, or that of the member whose claim we have taken over, or the
            // process was stopped for long: the slot may have run.
            warn!(
                slot = plan::name(claim.start),
                "the slot may have run before and been deleted: it is not run"
            );
            claim.withdraw().await?;
            return Ok(None);
        }
        if let SlotCandidate::New(number) = candidate {
            let missed = self.timing.missed_before(number, &starts);
            SCHEDULE_MISSED_SLOTS.of(&self.site.zk, []).add(missed);
        }
        Ok(Some((claim, starts)))
    }

    /// Claims a new slot, perhaps again after an unknown outcome.
    async fn claim_new(&mut self, start: i64) -> Result<Option<SlotClaim>> {
        let before = self.unsure.take().filter(|(unsure, _)| *unsure == start);
        let is_again = before.is_some();
        let guid = before.map_or_else(|| self.site.zk.new_guid(), |(_, guid)| guid);
        let claimed = self.site.claim(start, &guid, is_again).await;
        if claimed.is_err() {
            self.unsure = Some((start, guid));
        }
        claimed
    }

    /// Runs a slot, records how that ended, and deletes old slots while it runs.
    async fn run<F, Fut, E>(
        &mut self,
        claim: SlotClaim,
        starts: Vec<i64>,
        ending: &RunEnding,
        body: &F,
    ) -> Result<()>
    where
        F: Fn(Slot) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let start = claim.start;
        let (slot, mut run, watch) = claim.begin();
        let name = slot.name().to_owned();
        // Dropped when the end is recorded, which is an event: to remove the watch would be a
        // request.
        let mut lost = pin!(lost(slot.runner().cloned(), watch));
        let ended = async {
            tokio::select! {
                biased;
                () = ending.drained() => SlotRunEnd::Stopped,
                () = &mut lost => SlotRunEnd::Lost,
                done = body(slot) => SlotRunEnd::ByItself(done.map_err(|error| error.to_string())),
            }
        };
        let cleaned = async {
            tokio::select! {
                biased;
                () = ending.drained() => {}
                () = self.site.clean(starts, self.keep) => {}
            }
        };
        let (ended, ()) = join(ended, cleaned).await;
        let state = match ended {
            SlotRunEnd::ByItself(Ok(())) => Some(RunState::Done),
            SlotRunEnd::ByItself(Err(why)) => Some(self.failed(start, &run, why)),
            SlotRunEnd::Stopped => {
                Some(self.failed(start, &run, "the member was stopped".to_owned()))
            }
            SlotRunEnd::Lost => None,
        };
        match &state {
            Some(RunState::Failed(why)) => warn!(slot = name, why, "a slot has failed"),
            None => warn!(slot = name, "the run of a slot was lost"),
            _ => {}
        }
        let recorded = match &state {
            Some(state) => record(&self.site.zk, &mut run, state, ending).await,
            None => Ok(false),
        };
        let result = match &state {
            Some(RunState::Done) if matches!(recorded, Ok(true)) => "done",
            // The body is done, but the slot is not.
            Some(RunState::Done) | None => "lost",
            Some(_) => "failed",
        };
        SCHEDULE_RUNS.of(&self.site.zk, [result]).add(1);
        let is_recorded = recorded?;
        let claim = run.record.claim.clone();
        drop(run);
        match state {
            Some(RunState::Done) if is_recorded => {}
            Some(RunState::GaveUp(why)) if is_recorded => self.site.report_given_up(start, why),
            // It may be recorded, without a response.
            Some(RunState::GaveUp(_)) => self.wait_for(start, Some(claim)),
            _ => self.wait_for(start, None),
        }
        Ok(())
    }

    /// The state of a slot after a run that was not successful.
    fn failed(&self, start: i64, run: &SlotRun, why: String) -> RunState {
        let Some(again) = &self.again else { return RunState::Failed(why) };
        let (slot, attempt) = (self.site.slot(start), run.record.attempt);
        let pause = again.pause(&self.site.zk, &slot, attempt, run.since.elapsed(), &why);
        if pause.is_some() { RunState::Failed(why) } else { RunState::GaveUp(why) }
    }
}

/// Returns the starts of all recorded slots, and whether the slot that was claimed may have been
/// done and deleted before.
async fn look_back(
    site: &ScheduleSite,
    candidate: SlotCandidate,
    start: i64,
    keep: u32,
) -> Result<(Vec<i64>, bool)> {
    let starts = site.starts().await?;
    let was_forgotten = match candidate {
        SlotCandidate::New(_) => may_be_forgotten(start, &starts, keep),
        SlotCandidate::Again(_, seen) => site.was_forgotten((start, seen), &starts, keep).await?,
    };
    Ok((starts, was_forgotten))
}

/// Resolves when another member may take a slot over: never, if it is run at most once.
async fn lost(runner: Option<Ownership>, watch: Option<Watch>) {
    match (runner, watch) {
        (Some(runner), Some(watch)) => runner.lost_by(watch).await,
        _ => pending().await,
    }
}

/// Records how a run has ended, through outages that pass before the time to drain does. `false` if
/// it is not recorded.
async fn record(
    zk: &CuratorFramework,
    run: &mut SlotRun,
    state: &RunState,
    ending: &RunEnding,
) -> Result<bool> {
    loop {
        let error = match run.end(state).await {
            Ok(is_recorded) => return Ok(is_recorded),
            Err(error) => error,
        };
        tokio::select! {
            biased;
            () = ending.drained() => {
                warn!(%error, "the end of a run is not recorded");
                return Ok(false);
            }
            again = zk.wait_for_recovery(error.clone()) => again?,
        }
    }
}
