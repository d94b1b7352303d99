use std::cmp::Reverse;
use std::collections::BTreeMap;

use self::equals::Equals;
use self::ids::Withdrawals;
use super::{Checker, Violation};
use crate::history::{Event, History, Name, Outcome, ProcessId};

/// That a queue gives out what was put into it: as often as it promises, nothing else, and in order if it promises that.
///
/// Whatever it promises, an item that is taken was put, by a put that did not fail; one whose put has an
/// [unknown](Outcome::Unknown) outcome, or none, may be there or not. The names of items are unique, unless
/// [equal items](Self::equals) are allowed.
///
/// Items that are [withdrawn](Event::Withdrawn) by their id are not lost. For every one of them that is surely withdrawn there
/// is one that was put under this id, and that nobody has worked off or put aside.
///
/// At the end of the history the queue has to be empty, so that what is missing is lost.
#[derive(Debug, Clone)]
pub struct Delivery {
    promise: Times,
    in_order: bool,
    counted: bool,
    equals: bool,
    one_at_a_time: bool,
    /// How many items who is killed may lose.
    at_hand: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    AtMost,
    AtLeast,
    Exactly,
}

impl Delivery {
    /// No item is [taken](Event::Taken) again unless it was [given back](Event::Returned). A consumer that is
    /// [killed](Event::Killed) may lose as many items as that, of those whose put had begun by then. Nobody else may lose
    /// one that was surely put: who cannot know whether it has removed an item says so, with an event
    /// [`Done`](Event::Done) of [unknown](Outcome::Unknown) outcome.
    #[must_use]
    pub const fn at_most_once(at_hand: usize) -> Self {
        Self { at_hand, ..Self::new(Times::AtMost) }
    }

    /// Every item that was surely put is [worked off](Event::Done), or [put aside](Event::Dead): perhaps several times. Who
    /// was killed when it was [about to](Event::Finishing) remove one may have done it.
    #[must_use]
    pub const fn at_least_once() -> Self {
        Self::new(Times::AtLeast)
    }

    /// Every item that was surely put is worked off, or put aside: never twice with a sure outcome. It may be taken several times,
    /// for a consumer can end, or be stopped and come too late.
    #[must_use]
    pub const fn exactly_once() -> Self {
        Self::new(Times::Exactly)
    }

    const fn new(promise: Times) -> Self {
        Self { promise, in_order: false, counted: false, equals: false, one_at_a_time: false, at_hand: 0 }
    }

    /// Also that no consumer takes an item after one that the same producer began to put later, when it was sure of the
    /// first, and whose [rank](Event::Putting) is not lower. And that none takes an item while there is one with a lower rank,
    /// which it was sure to have put itself before it began to [wait](Event::Taking).
    ///
    /// Only first deliveries count, of what nobody else has taken before: what comes back comes late. So does what somebody may
    /// have kept from others when another was taken, where that is possible: [claimed](Event::Taking) and not got, in an
    /// attempt that came to [nothing](Event::Untaken), or not got yet, or given back for one that came first.
    #[must_use]
    pub const fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Allows items of the same name, which nobody can tell apart. They are counted: no more of them are worked off than were
    /// put, and no fewer. Nothing else is said about them.
    #[must_use]
    pub const fn equals(mut self) -> Self {
        self.equals = true;
        self
    }

    /// Also that there is one item of an id at a time; and that an item is [refused](Event::Refused) for that only if there may
    /// be another one with its id. One that was put before its id was [vacant](Event::Vacant) is none.
    #[must_use]
    pub const fn one_at_a_time(mut self) -> Self {
        self.one_at_a_time = true;
        self
    }

    /// Also that no two deliveries of an item have the same number.
    #[must_use]
    pub const fn counted(mut self) -> Self {
        self.counted = true;
        self
    }
}

const NAME: &str = "delivery";

/// The id of the item with this name.
fn id_of(item: &str) -> &str {
    item.split_once('#').map_or(item, |(id, _)| id)
}

#[derive(Debug, Default)]
struct Item {
    /// Of this name, where that is the name of several.
    equals: Equals,
    putting: Option<usize>,
    put: Option<(usize, Outcome)>,
    /// The last time that it was taken and not given back.
    taken: Option<usize>,
    /// Those who have begun to remove it and not said what came of it.
    finishing: Vec<ProcessId>,
    /// The number of each delivery, and where it was.
    deliveries: BTreeMap<u32, usize>,
    done: Option<(usize, Outcome)>,
    dead: Option<usize>,
}

impl Item {
    fn first_record(&self) -> Option<usize> {
        self.putting.or_else(|| self.put.map(|(place, _)| place))
    }
}

type Broken = Option<(&'static str, Vec<usize>)>;

impl Item {
    fn putting(&mut self, place: usize) -> Broken {
        let before = self.putting.replace(place)?;
        Some(("the name of two items", vec![before, place]))
    }

    fn put(&mut self, place: usize, outcome: Outcome) -> Broken {
        let before = self.put.replace((place, outcome));
        if let Some((before, _)) = before {
            return Some(("the name of two items", vec![before, place]));
        }
        let seen =
            self.taken.or_else(|| self.done.map(|(done, _)| done)).filter(|_| outcome == Outcome::Failed)?;
        Some(("was there although it was not put", vec![seen, place]))
    }

    /// Whatever is done with it, it has to be there.
    fn seen(&self, place: usize) -> Broken {
        match (self.first_record(), self.put) {
            (None, _) => Some(("is there and was never put", vec![place])),
            (_, Some((put, Outcome::Failed))) => {
                Some(("was there although it was not put", vec![put, place]))
            }
            _ => None,
        }
    }

    fn take(&mut self, place: usize, promise: Times) -> Broken {
        let broken = self.seen(place);
        let before = self.taken.replace(place).filter(|_| promise == Times::AtMost);
        broken.or_else(|| before.map(|before| ("was taken twice", vec![before, place])))
    }

    fn give_back(&mut self) {
        self.taken = None;
    }

    fn finishing(&mut self, place: usize, who: ProcessId) -> Broken {
        self.finishing.push(who);
        self.seen(place)
    }

    fn done(&mut self, place: usize, who: ProcessId, outcome: Outcome, promise: Times) -> Broken {
        if let Some(begun) = self.finishing.iter().rposition(|begun| *begun == who) {
            self.finishing.remove(begun);
        }
        if let Some(broken) = self.seen(place) {
            return Some(broken);
        }
        match (self.done, outcome) {
            (_, Outcome::Failed) => None,
            (Some((before, Outcome::Sure)), Outcome::Sure) if promise == Times::Exactly => {
                Some(("was worked off twice", vec![before, place]))
            }
            (Some((_, Outcome::Sure)), _) => None,
            _ => {
                self.done = Some((place, outcome));
                let dead = self.dead.filter(|_| self.is_both(promise))?;
                Some(("was put aside and worked off", vec![dead, place]))
            }
        }
    }

    fn put_aside(&mut self, place: usize, promise: Times) -> Broken {
        if let Some(broken) = self.seen(place) {
            return Some(broken);
        }
        self.dead.get_or_insert(place);
        let (done, _) = self.done.filter(|_| self.is_both(promise))?;
        Some(("was worked off and put aside", vec![done, place]))
    }

    fn is_both(&self, promise: Times) -> bool {
        let surely_done = matches!(self.done, Some((_, Outcome::Sure)));
        promise == Times::Exactly && surely_done && self.dead.is_some()
    }

    /// Whether somebody may have withdrawn it.
    fn is_open(&self) -> bool {
        let is_put = !matches!(self.put, Some((_, Outcome::Failed)));
        is_put && !matches!(self.done, Some((_, Outcome::Sure))) && self.dead.is_none()
    }

    /// Where it was put, if it is lost.
    fn lost(&self) -> Option<usize> {
        let (put, _) = self.put.filter(|&(_, outcome)| outcome == Outcome::Sure)?;
        let is_open = self.done.is_none() && self.finishing.is_empty();
        (is_open && self.dead.is_none()).then_some(put)
    }
}

impl Delivery {
    /// What is wrong with an item as of this record.
    fn step(&self, item: &mut Item, place: usize, who: ProcessId, event: &Event) -> Broken {
        if self.equals
            && let Some(broken) = item.equals.step(place, who, event)
        {
            return broken;
        }
        match event {
            Event::Putting { .. } => item.putting(place),
            Event::Put { outcome, .. } => item.put(place, *outcome),
            Event::Taken { attempt, .. } => {
                let twin = item.deliveries.insert(*attempt, place).filter(|_| self.counted);
                let broken = twin.map(|twin| ("was twice delivered for the same time", vec![twin, place]));
                item.take(place, self.promise).or(broken)
            }
            Event::Finishing { .. } => item.finishing(place, who),
            Event::Done { outcome, .. } => item.done(place, who, *outcome, self.promise),
            Event::Dead { .. } => item.put_aside(place, self.promise),
            _ => {
                item.give_back();
                None
            }
        }
    }
}

impl Checker for Delivery {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut items: BTreeMap<(&Name, &Name), Item> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            let who = record.who;
            let (Event::Putting { queue, item, .. }
            | Event::Put { queue, item, .. }
            | Event::Taken { queue, item, .. }
            | Event::Finishing { queue, item }
            | Event::Done { queue, item, .. }
            | Event::Returned { queue, item }
            | Event::Dead { queue, item }) = &record.event
            else {
                continue;
            };
            let entry = items.entry((queue, item)).or_default();
            if let Some((what, places)) = self.step(entry, place, who, &record.event) {
                return Err(Violation::new(NAME, format!("{item} of {queue} {what}"), places));
            }
        }
        if self.in_order {
            order::check(history)?;
        }
        if self.one_at_a_time {
            ids::one_at_a_time(history)?;
            ids::refused_for_a_reason(history)?;
        }
        let withdrawals = Withdrawals::of(history);
        withdrawals.check(&items)?;
        let mut lost: Vec<Lost<'_>> =
            items.iter().filter_map(|(names, item)| Lost::new(*names, item)).collect();
        // Those that were put last have the fewest whom they could be lost with.
        lost.sort_by_key(|lost| Reverse(lost.begun));
        let lost = withdrawals.without(lost);
        let places = history.records().iter().enumerate();
        let killed: Vec<usize> =
            places.filter(|(_, record)| record.event == Event::Killed).map(|(place, _)| place).collect();
        let unexplained = lost.iter().enumerate().find(|(rank, lost)| {
            let takers = killed.iter().filter(|killed| lost.begun < **killed).count();
            *rank >= takers.saturating_mul(self.at_hand)
        });
        unexplained.map_or(Ok(()), |(_, lost)| {
            let places: Vec<usize> = std::iter::once(lost.put).chain(lost.taken).collect();
            let (queue, item) = lost.names;
            Err(Violation::new(NAME, format!("{item} of {queue} is lost"), places))
        })
    }
}

/// An item that was surely put and not worked off.
struct Lost<'a> {
    names: (&'a Name, &'a Name),
    /// Where its put began.
    begun: usize,
    put: usize,
    taken: Option<usize>,
}

impl<'a> Lost<'a> {
    fn new(names: (&'a Name, &'a Name), item: &Item) -> Option<Self> {
        let put = item.equals.lost().or_else(|| item.lost().filter(|_| !item.equals.are_several()))?;
        Some(Self { names, begun: item.first_record().unwrap_or(put), put, taken: item.taken })
    }
}

mod attempts;
mod equals;
mod ids;
mod order;
#[cfg(test)]
mod tests;
