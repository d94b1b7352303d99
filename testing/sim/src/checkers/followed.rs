use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, Violation};
use crate::history::{Event, History, Name, Operation, Shared};

/// Checks that [followers](Shared::Followed) of an object are notified of its values, each once and
/// in order, and only of written values. The workload itself checks that the last value is notified
/// at the end.
#[derive(Debug, Clone)]
pub struct Followed {
    initial: i64,
}

impl Followed {
    /// Creates a checker of objects that have this value at first, and never have equal values.
    #[must_use]
    pub const fn from(initial: i64) -> Self {
        Self { initial }
    }
}

const NAME: &str = "followed";

impl Checker for Followed {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut written: BTreeSet<(&Name, i64)> = BTreeSet::new();
        let mut revisions: BTreeMap<(&Name, i64), (i64, usize)> = BTreeMap::new();
        let mut told: BTreeMap<u64, (i64, usize)> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            let Event::Shared(event) = &record.event else { continue };
            match event {
                Shared::Call { object, operation, .. } => match operation {
                    Operation::Set(new) | Operation::CompareAndSet { new, .. } => {
                        written.insert((object, *new));
                    }
                    Operation::Get | Operation::Add(_) => {}
                },
                Shared::Followed { object, follower, value, revision } => {
                    if *value != self.initial && !written.contains(&(object, *value)) {
                        let broken =
                            format!("{value} of {object} is notified, but was never written");
                        return Err(Violation::new(NAME, broken, [place]));
                    }
                    let (of, at) = *revisions.entry((object, *revision)).or_insert((*value, place));
                    if of != *value {
                        let broken = format!("{revision:#x} of {object} has two values");
                        return Err(Violation::new(NAME, broken, [at, place]));
                    }
                    if let Some((last, at)) = told.insert(*follower, (*revision, place))
                        && last >= *revision
                    {
                        let broken =
                            format!("{revision:#x} of {object} is notified after {last:#x}");
                        return Err(Violation::new(NAME, broken, [at, place]));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    const CHECKER: Followed = Followed::from(0);

    fn set(value: i64) -> Shared {
        Shared::Call { id: 7, object: "n".into(), operation: Operation::Set(value) }
    }

    fn told(follower: u64, value: i64, revision: i64) -> Shared {
        Shared::Followed { object: "n".into(), follower, value, revision }
    }

    #[test]
    fn values_are_reported_in_order() {
        let all =
            |last| [(0, 1, told(1, 0, 3)), (1, 1, set(8)), (2, 2, told(2, 8, 5)), (3, 1, last)];
        passes(&CHECKER, all(told(1, 8, 5)));
        passes(&CHECKER, all(told(2, 0, 6)));
        fails(&CHECKER, all(told(2, 8, 5)), "0x5 of n is notified after 0x5", &[2, 3]);
        fails(&CHECKER, all(told(2, 0, 3)), "0x3 of n is notified after 0x5", &[2, 3]);
        fails(&CHECKER, all(told(1, 8, 3)), "0x3 of n has two values", &[0, 3]);
    }

    #[test]
    fn a_value_that_was_never_written_is_found() {
        fails(
            &CHECKER,
            [(0, 1, told(1, 8, 5)), (1, 1, set(8))],
            "8 of n is notified, but was never",
            &[0],
        );
    }
}
