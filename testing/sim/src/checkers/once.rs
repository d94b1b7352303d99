use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Event, History, Name};

/// That each transaction of two phases is there once for each begin, at paths that are used again.
///
/// * Nobody who begins to [look](Event::Opening) when it has surely [ended](Event::Ended), in a session that knows that, sees it
///   again.
/// * It is not [missing](Event::Missing) before somebody has begun to [remove](Event::Removing) it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OncePerBegin;

const NAME: &str = "once per begin";

#[derive(Debug, Default)]
struct Txn {
    removing: Option<usize>,
    ended: Option<usize>,
}

impl Checker for OncePerBegin {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut txns: BTreeMap<&Name, Txn> = BTreeMap::new();
        let mut visits: BTreeMap<u64, usize> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            let broken = match &record.event {
                Event::Opening { visit } => {
                    visits.insert(*visit, place);
                    None
                }
                Event::Opened { visit, txn } => {
                    let begun = visits.get(visit).copied().unwrap_or(place);
                    let ended = txns.entry(txn).or_default().ended.filter(|&ended| ended < begun);
                    ended.map(|ended| (format!("{txn} is there again"), vec![ended, begun, place]))
                }
                Event::Removing { txn } => {
                    txns.entry(txn).or_default().removing.get_or_insert(place);
                    None
                }
                Event::Ended { txn } => {
                    txns.entry(txn).or_default().ended.get_or_insert(place);
                    None
                }
                Event::Missing { txn } => match txns.entry(txn).or_default().removing {
                    Some(_) => None,
                    None => Some((format!("{txn} is gone and nobody has removed it"), vec![place])),
                },
                _ => None,
            };
            if let Some((what, records)) = broken {
                return Err(Violation::new(NAME, what, records));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    const CHECKER: OncePerBegin = OncePerBegin;

    const OPENING: Event = Event::Opening { visit: 1 };

    fn opened() -> Event {
        Event::Opened { visit: 1, txn: "t".into() }
    }

    fn removing() -> Event {
        Event::Removing { txn: "t".into() }
    }

    fn ended() -> Event {
        Event::Ended { txn: "t".into() }
    }

    fn missing() -> Event {
        Event::Missing { txn: "t".into() }
    }

    #[test]
    fn what_has_ended_does_not_come_again() {
        let lines = [(0, 1, removing()), (1, 1, ended()), (2, 2, OPENING), (3, 2, opened())];
        fails(&CHECKER, lines, "t is there again", &[1, 2, 3]);
        // It was asked for before.
        passes(&CHECKER, [(0, 2, OPENING), (1, 1, removing()), (2, 1, ended()), (3, 2, opened())]);
        passes(&CHECKER, [(0, 2, OPENING), (1, 2, opened()), (2, 1, removing()), (3, 1, ended())]);
    }

    #[test]
    fn what_nobody_removes_is_there() {
        fails(&CHECKER, [(0, 1, missing())], "nobody has removed it", &[0]);
        passes(&CHECKER, [(0, 2, removing()), (1, 1, missing())]);
    }
}
