use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Event, History, Hold, HoldMode, Leader, Name};

/// Checks that observers of an election are notified of leaders in order, and of no leader that had
/// already left.
///
/// * An observer is never notified of a leader with a lower token than the previous one, nor of the
///   same leader after the notification that there is none.
/// * No observer is notified of a leader that had left before the [observation
///   began](Leader::Observing): a leader that had been [released](Hold::Released), or one with a
///   lower token than another leader that had [begun to lead](Hold::Acquired).
///
/// The workload itself checks that the last leader is notified.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Observed;

const NAME: &str = "observed";

/// The state of an election.
#[derive(Default)]
struct Election {
    /// The highest token of a leader, and its record.
    newest: Option<(i64, usize)>,
    /// The leaders that have left, and the records of that.
    left: BTreeMap<i64, usize>,
}

struct Observer {
    begun: usize,
    /// The highest token when the observation began.
    newest: Option<(i64, usize)>,
    /// The last notified leader, its record, and whether the observer was then notified that there
    /// is none.
    told: Option<(i64, usize, bool)>,
}

impl Checker for Observed {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut elections: BTreeMap<&Name, Election> = BTreeMap::new();
        let mut holds: BTreeMap<u64, (&Name, i64)> = BTreeMap::new();
        let mut observers: BTreeMap<u64, Observer> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Hold(Hold::Acquired { resource, mode: HoldMode::Leader, hold, token }) => {
                    holds.insert(*hold, (resource, *token));
                    let election = elections.entry(resource).or_default();
                    if election.newest.is_none_or(|(newest, _)| newest < *token) {
                        election.newest = Some((*token, place));
                    }
                }
                Event::Hold(Hold::Released { hold }) => {
                    if let Some((resource, token)) = holds.get(hold) {
                        elections.entry(resource).or_default().left.entry(*token).or_insert(place);
                    }
                }
                Event::Leader(Leader::Observing { election, observer }) => {
                    let newest = elections.get(election).and_then(|election| election.newest);
                    observers.insert(*observer, Observer { begun: place, newest, told: None });
                }
                Event::Leader(Leader::Observed { election, observer, leader }) => {
                    let Some(observer) = observers.get_mut(observer) else {
                        return Err(Violation::new(
                            NAME,
                            "an observer that has not begun is notified",
                            [place],
                        ));
                    };
                    let left = elections.get(election).map(|election| &election.left);
                    observer.is_told(*leader, place, left)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Observer {
    fn is_told(
        &mut self,
        leader: Option<i64>,
        place: usize,
        left: Option<&BTreeMap<i64, usize>>,
    ) -> Result<(), Violation> {
        let Some(leader) = leader else {
            self.told = self.told.map(|(last, at, _)| (last, at, true));
            return Ok(());
        };
        if let Some((last, at, is_gone)) = self.told
            && (leader < last || leader == last && is_gone)
        {
            let broken = format!("{leader:#x} is notified after {last:#x}");
            return Err(Violation::new(NAME, broken, [at, place]));
        }
        if let Some((newest, at)) = self.newest
            && leader < newest
        {
            let broken = format!(
                "{leader:#x} is notified, although {newest:#x} had led before the observation began"
            );
            return Err(Violation::new(NAME, broken, [at, self.begun, place]));
        }
        if let Some(&at) = left.and_then(|left| left.get(&leader))
            && at < self.begun
        {
            let broken = format!(
                "{leader:#x} is notified, although it had left before the observation began"
            );
            return Err(Violation::new(NAME, broken, [at, self.begun, place]));
        }
        self.told = Some((leader, place, false));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    const CHECKER: Observed = Observed;

    fn leads(hold: u64, token: i64) -> Event {
        Hold::Acquired { resource: "e".into(), mode: HoldMode::Leader, hold, token }.into()
    }

    fn begins(observer: u64) -> Event {
        Leader::Observing { election: "e".into(), observer }.into()
    }

    fn told(observer: u64, leader: i64) -> Event {
        Leader::Observed { election: "e".into(), observer, leader: Some(leader) }.into()
    }

    fn nobody(observer: u64) -> Event {
        Leader::Observed { election: "e".into(), observer, leader: None }.into()
    }

    fn all(events: impl IntoIterator<Item = Event>) -> Vec<(u64, u32, Event)> {
        (0..).zip(events).map(|(at, event)| (at, 1, event)).collect()
    }

    #[test]
    fn leaders_are_reported_in_their_order() {
        passes(
            &CHECKER,
            all([begins(1), nobody(1), told(1, 3), told(1, 3), told(1, 5), nobody(1), told(1, 7)]),
        );
        fails(
            &CHECKER,
            all([begins(1), told(1, 5), told(1, 3)]),
            "0x3 is notified after 0x5",
            &[1, 2],
        );
        fails(
            &CHECKER,
            all([begins(1), told(1, 5), nobody(1), told(1, 5)]),
            "0x5 is notified after",
            &[1, 3],
        );
        // A second observer may be behind the first.
        passes(&CHECKER, all([begins(1), begins(2), told(1, 5), told(2, 3)]));
    }

    #[test]
    fn one_that_had_left_before_is_found() {
        let released = || Hold::Released { hold: 7 }.into();
        passes(&CHECKER, all([leads(7, 3), begins(1), released(), told(1, 3)]));
        fails(
            &CHECKER,
            all([leads(7, 3), released(), begins(1), told(1, 3)]),
            "0x3 is notified, although it had left",
            &[1, 2, 3],
        );
        let late = all([leads(7, 3), leads(8, 5), begins(1), told(1, 3)]);
        fails(&CHECKER, late, "0x3 is notified, although 0x5 had led before", &[1, 2, 3]);
        passes(&CHECKER, all([leads(7, 3), begins(1), leads(8, 5), told(1, 3), told(1, 5)]));
    }
}
