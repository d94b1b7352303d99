use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Checker, Violation};
use crate::history::{Event, History, Lifecycle, Name, ProcessId, Queue, Record};

/// Checks that an item that is [returned](Queue::Returned) after the last fault is
/// [taken](Queue::Taken) again in time. The time does not pass while a process is
/// [paused](Lifecycle::Paused).
#[derive(Debug, Clone)]
pub struct Redelivery {
    within: Duration,
}

const NAME: &str = "redelivery";

impl Redelivery {
    /// Creates a checker that allows this time after the return.
    #[must_use]
    pub const fn within(within: Duration) -> Self {
        Self { within }
    }
}

/// The time for which all processes have run.
#[derive(Debug, Default)]
pub(super) struct Running {
    paused: BTreeSet<ProcessId>,
    time: Duration,
    last: Duration,
}

impl Running {
    /// Returns the time until this record.
    pub(super) fn until(&mut self, record: &Record) -> Duration {
        if self.paused.is_empty() {
            self.time += record.at.saturating_sub(self.last);
        }
        self.last = record.at;
        match record.event {
            Event::Lifecycle(Lifecycle::Paused) => drop(self.paused.insert(record.who)),
            Event::Lifecycle(Lifecycle::Resumed | Lifecycle::Killed | Lifecycle::Finished) => {
                self.paused.remove(&record.who);
            }
            _ => {}
        }
        self.time
    }
}

impl Checker for Redelivery {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut over = false;
        let mut back: BTreeMap<(&Name, &Name), (usize, Duration)> = BTreeMap::new();
        let mut running = Running::default();
        let mut now = Duration::ZERO;
        for (place, record) in history.records().iter().enumerate() {
            now = running.until(record);
            match &record.event {
                Event::FaultsOver => over = true,
                Event::Queue(Queue::Returned { queue, item }) if over => {
                    back.entry((queue, item)).or_insert((place, now));
                }
                Event::Queue(Queue::Taken { queue, item, .. }) => {
                    if let Some((since, at)) = back.remove(&(queue, item))
                        && now - at > self.within
                    {
                        let broken = format!("{item} was returned, and taken too late");
                        return Err(Violation::new(NAME, broken, vec![since, place]));
                    }
                }
                _ => {}
            }
        }
        match back.into_iter().find(|&(_, (_, at))| now - at > self.within) {
            Some(((_, item), (since, _))) => {
                let broken = format!("{item} was returned, and never taken again");
                Err(Violation::new(NAME, broken, vec![since]))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    const CHECKER: Redelivery = Redelivery::within(Duration::from_millis(10));
    const FINISHED: Event = Event::Lifecycle(Lifecycle::Finished);

    fn returned() -> Event {
        Queue::Returned { queue: "q".into(), item: "i".into() }.into()
    }

    fn taken() -> Event {
        Queue::Taken { queue: "q".into(), item: "i".into(), attempt: 2 }.into()
    }

    #[test]
    fn in_time_is_fine_and_later_is_found() {
        let lines = |at_ms| [(0, 0, Event::FaultsOver), (1, 1, returned()), (at_ms, 2, taken())];
        passes(&CHECKER, lines(11));
        fails(&CHECKER, lines(12), "taken too late", &[1, 2]);
    }

    #[test]
    fn the_time_stands_still_while_a_process_is_paused() {
        let pause = |from, to| {
            let (paused, resumed) = (Lifecycle::Paused.into(), Lifecycle::Resumed.into());
            let returned = [(0, 0, Event::FaultsOver), (1, 1, returned())];
            returned.into_iter().chain([(from, 2, paused), (to, 2, resumed), (15, 2, taken())])
        };
        passes(&CHECKER, pause(3, 7));
        fails(&CHECKER, pause(3, 6), "taken too late", &[1, 4]);
    }

    #[test]
    fn an_item_that_is_never_taken_is_found() {
        let lines = [(0, 0, Event::FaultsOver), (1, 1, returned()), (12, 2, FINISHED)];
        fails(&CHECKER, lines, "never taken again", &[1]);
        passes(&CHECKER, [(0, 0, Event::FaultsOver), (1, 1, returned()), (11, 2, FINISHED)]);
    }

    #[test]
    fn there_is_no_limit_while_there_are_faults() {
        passes(&CHECKER, [(1, 1, returned()), (50, 0, Event::FaultsOver), (60, 2, taken())]);
    }
}
