use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Event, History, Name};

/// That no number of a sequence is [given out](Event::Issued) twice, whoever gets it and whenever.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct IssuedOnce;

const NAME: &str = "issued once";

impl Checker for IssuedOnce {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut issued: BTreeMap<(&Name, i64), usize> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            if let Event::Issued { sequence, number } = &record.event
                && let Some(before) = issued.insert((sequence, *number), place)
            {
                let broken = format!("{number} of {sequence} is given out twice");
                return Err(Violation::new(NAME, broken, [before, place]));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    fn issued(sequence: &str, number: i64) -> Event {
        Event::Issued { sequence: sequence.into(), number }
    }

    #[test]
    fn a_number_that_is_given_out_twice_is_found() {
        passes(&IssuedOnce, [(0, 1, issued("a", 7)), (1, 2, issued("b", 7)), (2, 2, issued("a", 3))]);
        let lines = [(0, 1, issued("a", 7)), (1, 2, issued("a", 8)), (2, 2, issued("a", 7))];
        fails(&IssuedOnce, lines, "7 of a is given out twice", &[0, 2]);
    }
}
