use std::time::Duration;

use zk_curator::internal::sleep;

use super::clock::ComparedClock;
use super::plan::{self, OnMissed, SlotPlan};

/// The longest sleep between two reads of the clock, which may be changed in between.
const CLOCK_CHECKED: Duration = Duration::from_secs(10);
/// The longest time ahead of a slot at which the clock is compared.
const LEAD: Duration = Duration::from_secs(10);

/// Says when a member deals with which slot.
pub(super) struct Timing {
    clock: ComparedClock,
    plan: SlotPlan,
    missed: OnMissed,
    keep: u32,
    /// The first slot that was not dealt with.
    next: i64,
    /// `true` if slots before that were left out.
    is_behind: bool,
    /// The time ahead of a slot at which the clock is compared, so that a claim does not wait for
    /// that.
    lead: Duration,
}

impl Timing {
    /// `by_chance` is from 0 to 1, so that members do not compare their clocks at the same moment.
    pub(super) fn new(
        clock: ComparedClock,
        plan: SlotPlan,
        missed: OnMissed,
        keep: u32,
        by_chance: f64,
    ) -> Self {
        let most = LEAD.min(plan.period() / 2);
        let lead = most / 2 + (most / 2).mul_f64(by_chance);
        Self { clock, plan, missed, keep, next: 0, is_behind: false, lead }
    }

    /// Begins after the newest recorded slot, by its start, once the clock is right.
    pub(super) async fn begin(&mut self, newest: Option<i64>) -> zk_curator::Result<()> {
        self.clock.until_right().await?;
        self.next = plan::first(self.plan, self.current(), newest, self.missed);
        // The present slot may be claimed yet.
        self.is_behind = true;
        Ok(())
    }

    /// Returns `true` if a slot is due, by a clock that may be wrong.
    pub(super) fn is_due(&self) -> bool {
        self.current() >= self.next
    }

    /// Waits until a slot is due, and returns its number. The clock is right then.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn until_due(&mut self) -> zk_curator::Result<i64> {
        loop {
            let current = self.current();
            if current >= self.next {
                if !self.clock.is_fresh() {
                    self.compare().await?;
                    continue;
                }
                return Ok(*plan::due(self.next, current, self.missed, self.keep).start());
            }
            let left = plan::until(self.plan.start(self.next), self.clock.now());
            let pause = if self.clock.is_fresh_ahead() {
                left
            } else if left <= self.lead || self.clock.was_set() {
                self.compare().await?;
                continue;
            } else {
                left - self.lead
            };
            sleep(pause.min(CLOCK_CHECKED)).await;
        }
    }

    /// The start of the next slot.
    pub(super) fn next(&self) -> i64 {
        self.plan.start(self.next)
    }

    /// The number of slots without a record between the newest recorded slot before this one and
    /// this one. `starts` are the starts of the recorded slots.
    pub(super) fn missed_before(&self, number: i64, starts: &[i64]) -> u64 {
        let newest =
            starts.iter().map(|start| self.plan.at(*start)).filter(|other| *other < number).max();
        newest.map_or(0, |newest| number.saturating_sub(newest).saturating_sub(1).unsigned_abs())
    }

    /// A slot was dealt with. Returns whether slots before it were left out since the last call.
    pub(super) fn dealt_with(&mut self, number: i64) -> bool {
        let is_behind = std::mem::take(&mut self.is_behind) || number > self.next;
        self.next = number.saturating_add(1);
        is_behind
    }

    /// The start of a slot.
    pub(super) const fn start(&self, number: i64) -> i64 {
        self.plan.start(number)
    }

    async fn compare(&mut self) -> zk_curator::Result<()> {
        let was_set = self.clock.was_set();
        if self.clock.until_right().await? || was_set {
            // By a clock that was ahead, the next slot would be a later one.
            self.next = self.next.min(self.current());
            self.is_behind = true;
        }
        Ok(())
    }

    fn current(&self) -> i64 {
        self.plan.at(plan::seconds(self.clock.now()))
    }
}
