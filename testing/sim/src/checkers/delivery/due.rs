//! Deliveries that may still be due at the end of a history.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::checkers::redelivery::Running;
use crate::history::{Event, History, Lifecycle, ProcessId};

/// The times of the records of a history, and the time that a delivery may take.
pub(super) struct Due {
    within: Duration,
    times: Vec<Duration>,
    faults_over: Duration,
    killed: BTreeMap<ProcessId, Duration>,
}

impl Due {
    pub(super) fn of(history: &History, within: Duration) -> Self {
        let mut due = Self {
            within,
            times: Vec::new(),
            faults_over: Duration::ZERO,
            killed: BTreeMap::new(),
        };
        let mut running = Running::default();
        for record in history.records() {
            let now = running.until(record);
            due.times.push(now);
            match record.event {
                Event::FaultsOver => due.faults_over = now,
                Event::Lifecycle(Lifecycle::Killed) => drop(due.killed.insert(record.who, now)),
                _ => {}
            }
        }
        due
    }

    /// Returns `true` if an item may still be delivered whose last record, of this process, is at
    /// this place.
    pub(super) fn is_still(&self, place: usize, who: ProcessId) -> bool {
        let since = self.times.get(place).copied().unwrap_or_default();
        let killed = self.killed.get(&who).copied().unwrap_or_default();
        let since = since.max(killed).max(self.faults_over);
        let end = self.times.last().copied().unwrap_or_default();
        end.saturating_sub(since) < self.within
    }
}

#[cfg(test)]
mod tests {
    use super::super::Delivery;
    use super::*;
    use crate::checkers::script::{fails, passes};
    use crate::history::{Outcome, Queue};

    const CHECKER: Delivery = Delivery::exactly_once().due_within(Duration::from_millis(10));

    fn item(at: u64, event: fn(crate::history::Name, crate::history::Name) -> Queue) -> Line {
        (at, 1, event("q".into(), "a".into()).into())
    }

    type Line = (u64, u32, Event);

    /// An item that was put at 1 ms.
    fn put() -> [Line; 2] {
        [
            item(1, |queue, item| Queue::Putting { queue, item, rank: 0 }),
            item(1, |queue, item| Queue::Put { queue, item, outcome: Outcome::Sure }),
        ]
    }

    fn taken(at: u64) -> Line {
        item(at, |queue, item| Queue::Taken { queue, item, attempt: 1 })
    }

    fn with(lines: impl IntoIterator<Item = Line>) -> Vec<Line> {
        put().into_iter().chain(lines).collect()
    }

    const FINISHED: Event = Event::Lifecycle(Lifecycle::Finished);
    const KILLED: Event = Event::Lifecycle(Lifecycle::Killed);

    #[test]
    fn item_that_is_late_is_not_lost() {
        passes(&CHECKER, with([(10, 2, FINISHED)]));
        fails(&CHECKER, with([(11, 2, FINISHED)]), "a of q is lost", &[1]);
        fails(&Delivery::exactly_once(), with([(1, 2, FINISHED)]), "a of q is lost", &[1]);
        // The time begins again when it is returned, or its consumer is killed.
        let returned = item(8, |queue, item| Queue::Returned { queue, item });
        passes(&CHECKER, with([taken(5), returned.clone(), (17, 2, FINISHED)]));
        fails(&CHECKER, with([taken(5), returned, (18, 2, FINISHED)]), "is lost", &[1]);
        passes(&CHECKER, with([taken(5), (9, 1, KILLED), (18, 2, FINISHED)]));
        fails(&CHECKER, with([taken(5), (9, 1, KILLED), (19, 2, FINISHED)]), "is lost", &[1, 2]);
        // Of another process.
        fails(&CHECKER, with([taken(5), (9, 2, KILLED), (18, 3, FINISHED)]), "is lost", &[1, 2]);
    }

    #[test]
    fn time_begins_after_the_last_fault_and_stands_still_in_pauses() {
        passes(&CHECKER, with([(50, 0, Event::FaultsOver), (59, 2, FINISHED)]));
        fails(&CHECKER, with([(50, 0, Event::FaultsOver), (60, 2, FINISHED)]), "is lost", &[1]);
        let (paused, resumed) = (Lifecycle::Paused.into(), Lifecycle::Resumed.into());
        passes(&CHECKER, with([(3, 2, paused), (9, 2, resumed), (16, 2, FINISHED)]));
    }
}
