//! Items of the same name, which are only counted.

use crate::history::{Outcome, ProcessId, Queue};

/// A violation: its description, and the places of its records.
pub(super) type Broken = Option<(&'static str, Vec<usize>)>;

/// The items of one name.
#[derive(Debug, Default)]
pub(super) struct Equals {
    /// The number of puts that have begun.
    begun: usize,
    /// The number of puts that have failed.
    failed: usize,
    /// The places where puts were certain.
    sure: Vec<usize>,
    /// The clients that have begun to remove an item, without an outcome so far.
    finishing: Vec<ProcessId>,
    /// The places where an item was certainly processed.
    done: Vec<usize>,
    /// The number of items that were possibly processed, or became dead letters.
    others: usize,
}

impl Equals {
    /// Reads a record. Returns `None` if there is only one item of the name, and else the violation
    /// if there is one.
    pub(super) fn step(&mut self, place: usize, who: ProcessId, event: &Queue) -> Option<Broken> {
        match event {
            Queue::Putting { .. } => self.begun += 1,
            Queue::Put { outcome: Outcome::Failed, .. } => self.failed += 1,
            Queue::Put { outcome: Outcome::Sure, .. } => self.sure.push(place),
            Queue::Finishing { .. } => self.finishing.push(who),
            Queue::Done { outcome, .. } => {
                if let Some(begun) = self.finishing.iter().rposition(|begun| *begun == who) {
                    self.finishing.remove(begun);
                }
                match outcome {
                    Outcome::Sure => self.done.push(place),
                    Outcome::Failed => {}
                    _ => self.others += 1,
                }
            }
            Queue::Dead { .. } => self.others += 1,
            _ => {}
        }
        self.are_several().then(|| {
            let is_too_much = self.done.len() + self.failed > self.begun;
            let last = self.done.last().copied().filter(|_| is_too_much)?;
            Some(("was processed more often than it was put", vec![last]))
        })
    }

    /// Returns `true` if several items have the name.
    pub(super) const fn are_several(&self) -> bool {
        self.begun > 1
    }

    /// Returns the place of the last put, if there are several items and not all of them can be
    /// gone.
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
        fails(
            &CHECKER,
            [&twice(SURE)[..], &both, &third].concat(),
            "more often than it was put",
            &[8],
        );
        fails(&CHECKER, [&twice(FAILED)[..], &both].concat(), "more often than it was put", &[7]);
        // The failure of the put may be recorded later.
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
        fails(&CHECKER, once, "processed twice", &[2, 3]);
    }
}
