use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, Violation};
use crate::history::{Event, History, Lifecycle, Name, Shared};

/// Checks that no number of a sequence is [issued](Shared::Issued) twice, to any client at any
/// time.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct IssuedOnce;

const NAME: &str = "issued once";

impl Checker for IssuedOnce {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut issued: BTreeMap<(&Name, i64), usize> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            if let Event::Shared(Shared::Issued { sequence, number }) = &record.event
                && let Some(before) = issued.insert((sequence, *number), place)
            {
                let broken = format!("{number} of {sequence} is issued twice");
                return Err(Violation::new(NAME, broken, [before, place]));
            }
        }
        Ok(())
    }
}

/// Checks that no number of a sequence above a limit is [issued](Shared::Issued).
#[derive(Debug, Clone)]
pub struct IssuedUpTo {
    most: i64,
}

impl IssuedUpTo {
    /// Creates a checker that allows numbers up to this one.
    #[must_use]
    pub const fn new(most: i64) -> Self {
        Self { most }
    }
}

impl Checker for IssuedUpTo {
    fn check(&self, history: &History) -> Result<(), Violation> {
        for (place, record) in history.records().iter().enumerate() {
            if let Event::Shared(Shared::Issued { sequence, number }) = &record.event
                && *number > self.most
            {
                let broken = format!("{number} of {sequence} is above {}", self.most);
                return Err(Violation::new("issued up to a limit", broken, [place]));
            }
        }
        Ok(())
    }
}

/// Checks that no number of a sequence is [issued](Shared::Issued) after the sequence was
/// [settled](Shared::Settled).
///
/// A process that was stopped, or whose session was expired by force, may be about to use a number
/// that it got before. So it is believed from then on.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SettledForGood;

impl Checker for SettledForGood {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let (mut settled, mut believed) = (BTreeMap::new(), BTreeSet::new());
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Lifecycle(Lifecycle::Paused | Lifecycle::Expired) => {
                    believed.insert(record.who);
                }
                Event::Shared(Shared::Settled { sequence }) => {
                    settled.entry(sequence).or_insert(place);
                }
                Event::Shared(Shared::Issued { sequence, number })
                    if !believed.contains(&record.who) =>
                {
                    if let Some(before) = settled.get(sequence) {
                        let broken = format!("{number} of {sequence} is issued after its end");
                        return Err(Violation::new("settled for good", broken, [*before, place]));
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

    fn issued(sequence: &str, number: i64) -> Shared {
        Shared::Issued { sequence: sequence.into(), number }
    }

    #[test]
    fn a_number_that_is_given_out_twice_is_found() {
        passes(
            &IssuedOnce,
            [(0, 1, issued("a", 7)), (1, 2, issued("b", 7)), (2, 2, issued("a", 3))],
        );
        let lines = [(0, 1, issued("a", 7)), (1, 2, issued("a", 8)), (2, 2, issued("a", 7))];
        fails(&IssuedOnce, lines, "7 of a is issued twice", &[0, 2]);
    }

    #[test]
    fn a_number_after_the_end_is_found() {
        let settled = |sequence: &str| Event::from(Shared::Settled { sequence: sequence.into() });
        let issued = |sequence, number| Event::from(issued(sequence, number));
        let lines = || [(0, 1, issued("a", 1)), (1, 2, settled("a")), (2, 2, issued("b", 2))];
        passes(&SettledForGood, lines());
        let again = |who| lines().into_iter().chain([(3, who, issued("a", 2))]).collect::<Vec<_>>();
        fails(&SettledForGood, again(1), "2 of a is issued after its end", &[1, 3]);
        for excuse in [Lifecycle::Paused, Lifecycle::Expired] {
            let mut lines = again(1);
            lines.insert(0, (0, 1, excuse.into()));
            passes(&SettledForGood, lines.clone());
            lines[0].1 = 2;
            fails(&SettledForGood, lines, "after its end", &[2, 4]);
        }
    }

    #[test]
    fn a_number_above_the_limit_is_found() {
        let lines = || [(0, 1, issued("a", 7)), (1, 2, issued("b", 8))];
        passes(&IssuedUpTo::new(8), lines());
        fails(&IssuedUpTo::new(7), lines(), "8 of b is above 7", &[1]);
    }
}
