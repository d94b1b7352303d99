//! The state of an item according to the history.

use std::collections::BTreeMap;

use super::equals::{Broken, Equals};
use crate::history::{Name, Outcome, ProcessId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    AtMost,
    AtLeast,
    Exactly,
}

pub(super) const NAME: &str = "delivery";

/// Returns the id of the item with this name.
pub(super) fn id_of(item: &str) -> &str {
    item.split_once('#').map_or(item, |(id, _)| id)
}

#[derive(Debug, Default)]
pub(super) struct Item {
    /// The counts of items of the same name.
    pub(super) equals: Equals,
    pub(super) putting: Option<usize>,
    pub(super) put: Option<(usize, Outcome)>,
    /// The place where it was last taken and not returned since.
    pub(super) taken: Option<usize>,
    /// The clients that have begun to remove it, without an outcome so far.
    pub(super) finishing: Vec<ProcessId>,
    /// The number of each delivery, and its place.
    pub(super) deliveries: BTreeMap<u32, usize>,
    pub(super) done: Option<(usize, Outcome)>,
    pub(super) dead: Option<usize>,
    /// The place of its last record, and the process.
    pub(super) last: Option<(usize, ProcessId)>,
}

impl Item {
    pub(super) fn first_record(&self) -> Option<usize> {
        self.putting.or_else(|| self.put.map(|(place, _)| place))
    }
}

impl Item {
    pub(super) fn putting(&mut self, place: usize) -> Broken {
        let before = self.putting.replace(place)?;
        Some(("the name of two items", vec![before, place]))
    }

    pub(super) fn put(&mut self, place: usize, outcome: Outcome) -> Broken {
        let before = self.put.replace((place, outcome));
        if let Some((before, _)) = before {
            return Some(("the name of two items", vec![before, place]));
        }
        let seen = self
            .taken
            .or_else(|| self.done.map(|(done, _)| done))
            .filter(|_| outcome == Outcome::Failed)?;
        Some(("existed although it was not put", vec![seen, place]))
    }

    /// Checks that an item that a client works with exists.
    pub(super) fn seen(&self, place: usize) -> Broken {
        match (self.first_record(), self.put) {
            (None, _) => Some(("exists and was never put", vec![place])),
            (_, Some((put, Outcome::Failed))) => {
                Some(("existed although it was not put", vec![put, place]))
            }
            _ => None,
        }
    }

    pub(super) fn take(&mut self, place: usize, promise: Times) -> Broken {
        let broken = self.seen(place);
        let before = self.taken.replace(place).filter(|_| promise == Times::AtMost);
        broken.or_else(|| before.map(|before| ("was taken twice", vec![before, place])))
    }

    pub(super) fn give_back(&mut self) {
        self.taken = None;
    }

    pub(super) fn finishing(&mut self, place: usize, who: ProcessId) -> Broken {
        self.finishing.push(who);
        self.seen(place)
    }

    pub(super) fn done(
        &mut self,
        place: usize,
        who: ProcessId,
        outcome: Outcome,
        promise: Times,
    ) -> Broken {
        if let Some(begun) = self.finishing.iter().rposition(|begun| *begun == who) {
            self.finishing.remove(begun);
        }
        if let Some(broken) = self.seen(place) {
            return Some(broken);
        }
        match (self.done, outcome) {
            (_, Outcome::Failed) => None,
            (Some((before, Outcome::Sure)), Outcome::Sure) if promise == Times::Exactly => {
                Some(("was processed twice", vec![before, place]))
            }
            (Some((_, Outcome::Sure)), _) => None,
            _ => {
                self.done = Some((place, outcome));
                let dead = self.dead.filter(|_| self.is_both(promise))?;
                Some(("became a dead letter, and was processed", vec![dead, place]))
            }
        }
    }

    pub(super) fn put_aside(&mut self, place: usize, promise: Times) -> Broken {
        if let Some(broken) = self.seen(place) {
            return Some(broken);
        }
        self.dead.get_or_insert(place);
        let (done, _) = self.done.filter(|_| self.is_both(promise))?;
        Some(("was processed, and became a dead letter", vec![done, place]))
    }

    pub(super) fn is_both(&self, promise: Times) -> bool {
        let surely_done = matches!(self.done, Some((_, Outcome::Sure)));
        promise == Times::Exactly && surely_done && self.dead.is_some()
    }

    /// Returns `true` if a client may have withdrawn it.
    pub(super) fn is_open(&self) -> bool {
        let is_put = !matches!(self.put, Some((_, Outcome::Failed)));
        is_put && !matches!(self.done, Some((_, Outcome::Sure))) && self.dead.is_none()
    }

    /// Returns the place of its put, if it is lost.
    pub(super) fn lost(&self) -> Option<usize> {
        let (put, _) = self.put.filter(|&(_, outcome)| outcome == Outcome::Sure)?;
        let is_open = self.done.is_none() && self.finishing.is_empty();
        (is_open && self.dead.is_none()).then_some(put)
    }
}

/// An item that was certainly put and not processed.
pub(super) struct Lost<'a> {
    pub(super) names: (&'a Name, &'a Name),
    /// The place where its put began.
    pub(super) begun: usize,
    pub(super) put: usize,
    pub(super) taken: Option<usize>,
    /// The place of its last record, and the process.
    pub(super) last: Option<(usize, ProcessId)>,
}

impl<'a> Lost<'a> {
    pub(super) fn new(names: (&'a Name, &'a Name), item: &Item) -> Option<Self> {
        let put =
            item.equals.lost().or_else(|| item.lost().filter(|_| !item.equals.are_several()))?;
        let begun = item.first_record().unwrap_or(put);
        Some(Self { names, begun, put, taken: item.taken, last: item.last })
    }
}
