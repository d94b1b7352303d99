use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Commit, Event, History, Name};

/// Checks that each two-phase transaction exists once for each begin, at paths that are used
/// repeatedly.
///
/// * A client that begins to [read](Commit::Opening) after the transaction has certainly
///   [ended](Commit::Ended), in a session that has seen that, does not see it again.
/// * A transaction is not [missing](Commit::Missing) before a client has begun to
///   [remove](Commit::Removing) it.
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
            let Event::Commit(event) = &record.event else { continue };
            let broken = match event {
                Commit::Opening { visit } => {
                    visits.insert(*visit, place);
                    None
                }
                Commit::Opened { visit, txn } => {
                    let begun = visits.get(visit).copied().unwrap_or(place);
                    let ended = txns.entry(txn).or_default().ended.filter(|&ended| ended < begun);
                    ended.map(|ended| (format!("{txn} exists again"), vec![ended, begun, place]))
                }
                Commit::Removing { txn } => {
                    txns.entry(txn).or_default().removing.get_or_insert(place);
                    None
                }
                Commit::Ended { txn } => {
                    txns.entry(txn).or_default().ended.get_or_insert(place);
                    None
                }
                Commit::Missing { txn } => match txns.entry(txn).or_default().removing {
                    Some(_) => None,
                    None => Some((format!("{txn} is gone, but was not removed"), vec![place])),
                },
                _ => continue,
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

    const OPENING: Commit = Commit::Opening { visit: 1 };

    fn opened() -> Commit {
        Commit::Opened { visit: 1, txn: "t".into() }
    }

    fn removing() -> Commit {
        Commit::Removing { txn: "t".into() }
    }

    fn ended() -> Commit {
        Commit::Ended { txn: "t".into() }
    }

    fn missing() -> Commit {
        Commit::Missing { txn: "t".into() }
    }

    #[test]
    fn what_has_ended_does_not_come_again() {
        let lines = [(0, 1, removing()), (1, 1, ended()), (2, 2, OPENING), (3, 2, opened())];
        fails(&CHECKER, lines, "t exists again", &[1, 2, 3]);
        // The read began before the transaction ended.
        passes(&CHECKER, [(0, 2, OPENING), (1, 1, removing()), (2, 1, ended()), (3, 2, opened())]);
        passes(&CHECKER, [(0, 2, OPENING), (1, 2, opened()), (2, 1, removing()), (3, 1, ended())]);
    }

    #[test]
    fn items_that_are_not_removed_stay() {
        fails(&CHECKER, [(0, 1, missing())], "but was not removed", &[0]);
        passes(&CHECKER, [(0, 2, removing()), (1, 1, missing())]);
    }
}
