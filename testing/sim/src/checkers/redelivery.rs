use std::collections::BTreeMap;
use std::time::Duration;

use super::{Checker, Violation};
use crate::history::{Event, History, Name};

/// That an item that is [given back](Event::Returned), when there are no more faults, is [taken](Event::Taken) again in time.
#[derive(Debug, Clone)]
pub struct Redelivery {
    within: Duration,
}

const NAME: &str = "redelivery";

impl Redelivery {
    /// So long after it was given back.
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
                Event::Returned { queue, item } if over => {
                    back.entry((queue, item)).or_insert(place);
                }
                Event::Taken { queue, item, .. } => {
                    let since = back.remove(&(queue, item)).filter(|&since| late(since, place));
                    if let Some(since) = since {
                        let broken = format!("{item} was given back, and taken too late");
                        return Err(Violation::new(NAME, broken, vec![since, place]));
                    }
                }
                _ => {}
            }
        }
        let last = records.len().saturating_sub(1);
        match back.into_iter().find(|&(_, since)| late(since, last)) {
            Some(((_, item), since)) => {
                let broken = format!("{item} was given back, and nobody has taken it");
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

    fn returned() -> Event {
        Event::Returned { queue: "q".into(), item: "i".into() }
    }

    fn taken() -> Event {
        Event::Taken { queue: "q".into(), item: "i".into(), attempt: 2 }
    }

    #[test]
    fn in_time_is_fine_and_later_is_found() {
        let lines = |at_ms| [(0, 0, Event::FaultsOver), (1, 1, returned()), (at_ms, 2, taken())];
        passes(&CHECKER, lines(11));
        fails(&CHECKER, lines(12), "taken too late", &[1, 2]);
    }

    #[test]
    fn an_item_that_nobody_takes_is_found() {
        let lines = [(0, 0, Event::FaultsOver), (1, 1, returned()), (12, 2, Event::Finished)];
        fails(&CHECKER, lines, "nobody has taken it", &[1]);
        passes(&CHECKER, [(0, 0, Event::FaultsOver), (1, 1, returned()), (11, 2, Event::Finished)]);
    }

    #[test]
    fn there_is_no_limit_while_there_are_faults() {
        passes(&CHECKER, [(1, 1, returned()), (50, 0, Event::FaultsOver), (60, 2, taken())]);
    }
}
