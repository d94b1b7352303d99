//! Items of the same name, which are counted.

use super::Broken;
use crate::history::{Event, Outcome, ProcessId};

/// The items of one name.
#[derive(Debug, Default)]
pub(super) struct Equals {
    /// How many puts have begun.
    begun: usize,
    /// How many puts have failed.
    failed: usize,
    /// Where the puts were sure.
    sure: Vec<usize>,
    /// Clients that have begun to remove one, without an outcome so far.
    finishing: Vec<ProcessId>,
    /// Where one was worked off for sure.
    done: Vec<usize>,
    /// How many were worked off perhaps, or were put aside.
    others: usize,
}

impl Equals {
    /// Takes note of a record. What is wrong, if there are several items; `None` if there is only one.
    pub(super) fn step(&mut self, place: usize, who: ProcessId, event: &Event) -> Option<Broken> {
        match event {
            Event::Putting { .. } => self.begun += 1,
            Event::Put { outcome: Outcome::Failed, .. } => self.failed += 1,
            Event::Put { outcome: Outcome::Sure, .. } => self.sure.push(place),
            Event::Finishing { .. } => self.finishing.push(who),
            Event::Done { outcome, .. } => {
                if let Some(begun) = self.finishing.iter().rposition(|begun| *begun == who) {
                    self.finishing.remove(begun);
                }
                match outcome {
                    Outcome::Sure => self.done.push(place),
                    Outcome::Unknown => self.others += 1,
                    Outcome::Failed => {}
                }
            }
            Event::Dead { .. } => self.others += 1,
            _ => {}
        }
        self.are_several().then(|| {
            let is_too_much = self.done.len() + self.failed > self.begun;
            let last = self.done.last().copied().filter(|_| is_too_much)?;
            Some(("was worked off more often than it was put", vec![last]))
        })
    }

    /// Whether the name is that of several items.
    pub(super) const fn are_several(&self) -> bool {
        self.begun > 1
    }

    /// Where the last one was put, if there are several, and not all of them can be gone.
    pub(super) fn lost(&self) -> Option<usize> {
        let gone = self.done.len() + self.others + self.finishing.len();
        self.sure.last().copied().filter(|_| self.are_several() && self.sure.len() > gone)
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::Delivery;
    use crate::checkers::delivery::tests::{
        FAILED, Line, SURE, UNKNOWN, done, finishing, put, putting, taken,
    };
    use crate::checkers::script::{fails, passes};

    const CHECKER: Delivery = Delivery::exactly_once().in_order().equals();

    fn twice(outcome: crate::history::Outcome) -> Vec<Line> {
        vec![putting(1, "a"), put(1, "a", SURE), putting(2, "a"), put(2, "a", outcome)]
    }

    #[test]
    fn equal_items_are_worked_off_as_often_as_they_were_put() {
        let both = [taken(3, "a"), done(3, "a", SURE), taken(4, "a"), done(4, "a", SURE)];
        passes(&CHECKER, [&twice(SURE)[..], &both].concat());
        passes(&CHECKER, [&twice(UNKNOWN)[..], &both[..2]].concat());
        fails(&CHECKER, [&twice(SURE)[..], &both[..2]].concat(), "a of q is lost", &[3]);
        let third = [done(3, "a", SURE)];
        fails(&CHECKER, [&twice(SURE)[..], &both, &third].concat(), "more often than it was put", &[8]);
        fails(&CHECKER, [&twice(FAILED)[..], &both].concat(), "more often than it was put", &[7]);
        // The put that fails may be told later.
        let late = [&twice(SURE)[..3], &both[..], &[put(2, "a", FAILED)]].concat();
        fails(&CHECKER, late, "more often than it was put", &[6]);
    }

    #[test]
    fn an_equal_item_that_may_be_gone_is_not_lost() {
        let with = |last: &[Line]| [&twice(SURE)[..], &[done(3, "a", SURE)], last].concat();
        passes(&CHECKER, with(&[done(4, "a", UNKNOWN)]));
        passes(&CHECKER, with(&[finishing(4, "a")]));
        fails(&CHECKER, with(&[finishing(4, "a"), done(4, "a", FAILED)]), "a of q is lost", &[3]);
    }

    #[test]
    fn an_item_that_is_alone_is_judged_as_ever() {
        let once = [putting(1, "a"), put(1, "a", SURE), done(2, "a", SURE), done(3, "a", SURE)];
        fails(&CHECKER, once, "worked off twice", &[2, 3]);
    }
}
