use std::collections::BTreeMap;
use std::time::Duration;

use super::{Checker, Violation};
use crate::history::{Event, History, Name, Queue};

/// Checks that an item that is [returned](Queue::Returned) after the last fault is
/// [taken](Queue::Taken) again in time.
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

impl Checker for Redelivery {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut over = false;
        let mut back: BTreeMap<(&Name, &Name), usize> = BTreeMap::new();
        let records = history.records();
        let late = |since: usize, until: usize| {
            let (since, until) = (&records[since], &records[until]);
            until.at.saturating_sub(since.at) > self.within
        };
        for (place, record) in records.iter().enumerate() {
            match &record.event {
                Event::FaultsOver => over = true,
                Event::Queue(Queue::Returned { queue, item }) if over => {
                    back.entry((queue, item)).or_insert(place);
                }
                Event::Queue(Queue::Taken { queue, item, .. }) => {
                    let since = back.remove(&(queue, item)).filter(|&since| late(since, place));
                    if let Some(since) = since {
                        let broken = format!("{item} was returned, and taken too late");
                        return Err(Violation::new(NAME, broken, vec![since, place]));
                    }
                }
                _ => {}
            }
        }
        let last = records.len().saturating_sub(1);
        match back.into_iter().find(|&(_, since)| late(since, last)) {
            Some(((_, item), since)) => {
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
    use crate::history::Lifecycle;

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
    fn an_item_that_nobody_takes_is_found() {
        let lines = [(0, 0, Event::FaultsOver), (1, 1, returned()), (12, 2, FINISHED)];
        fails(&CHECKER, lines, "never taken again", &[1]);
        passes(&CHECKER, [(0, 0, Event::FaultsOver), (1, 1, returned()), (11, 2, FINISHED)]);
    }

    #[test]
    fn there_is_no_limit_while_there_are_faults() {
        passes(&CHECKER, [(1, 1, returned()), (50, 0, Event::FaultsOver), (60, 2, taken())]);
    }
}
