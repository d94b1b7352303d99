use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Event, History, Name, Shared};

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
    fn a_number_above_the_limit_is_found() {
        let lines = || [(0, 1, issued("a", 7)), (1, 2, issued("b", 8))];
        passes(&IssuedUpTo::new(8), lines());
        fails(&IssuedUpTo::new(7), lines(), "8 of b is above 7", &[1]);
    }
}
