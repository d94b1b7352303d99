use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use self::due::Due;
use self::equals::Broken;
use self::ids::Withdrawals;
use self::item::{Item, Lost, NAME, Times};
use super::{Checker, Violation};
use crate::history::{Event, History, Lifecycle, Name, ProcessId, Queue};

/// Checks that a queue delivers the items that were put into it: as often as it promises, no other
/// items, and in order if it promises that.
///
/// With every promise, a taken item must have been put, by a put that did not fail. An item whose
/// put has an [unknown](crate::history::Outcome::Unknown) outcome, or no outcome, may or may not be
/// in the queue. The names of items are unique, unless [equal items](Self::equals) are allowed.
///
/// Items that are [withdrawn](Queue::Withdrawn) by their id are not lost. For each certainly
/// withdrawn item there must be an item that was put under this id, and that was neither processed
/// nor made a dead letter.
///
/// The queue has to be empty at the end of the history, so a missing item counts as lost, unless
/// its delivery may [still be due](Self::due_within).
#[derive(Debug, Clone)]
pub struct Delivery {
    promise: Times,
    in_order: bool,
    counted: bool,
    equals: bool,
    one_at_a_time: bool,
    /// The number of items that a killed consumer may lose.
    at_hand: usize,
    due: Duration,
}

impl Delivery {
    /// Checks that no item is [taken](Queue::Taken) again unless it was
    /// [returned](Queue::Returned). A consumer that is [killed](Lifecycle::Killed) may lose up to
    /// `at_hand` items, if their puts had begun before that. No other client may lose an item that
    /// was certainly put. A client that cannot know if it has removed an item records
    /// [`Done`](Queue::Done) with an [unknown](crate::history::Outcome::Unknown) outcome.
    #[must_use]
    pub const fn at_most_once(at_hand: usize) -> Self {
        Self { at_hand, ..Self::new(Times::AtMost) }
    }

    /// Checks that every item that was certainly put is [processed](Queue::Done), perhaps several
    /// times, or becomes a [dead letter](Queue::Dead). A consumer that was killed when it was
    /// [about to](Queue::Finishing) remove an item may have processed it.
    #[must_use]
    pub const fn at_least_once() -> Self {
        Self::new(Times::AtLeast)
    }

    /// Checks that every item that was certainly put is processed or becomes a dead letter, and
    /// never twice with a certain outcome. An item may be taken several times, because a consumer
    /// can end, or be stopped and come too late.
    #[must_use]
    pub const fn exactly_once() -> Self {
        Self::new(Times::Exactly)
    }

    const fn new(promise: Times) -> Self {
        Self {
            promise,
            in_order: false,
            counted: false,
            equals: false,
            one_at_a_time: false,
            at_hand: 0,
            due: Duration::ZERO,
        }
    }

    /// Allows a delivery this much time after the item was put or returned, or its consumer was
    /// killed. An item that is missing at the end of the history is then not lost, but only late,
    /// if this time is not over. It begins after the last fault, and does not pass while a process
    /// is [paused](Lifecycle::Paused), as for [`Redelivery`](super::Redelivery). Default: zero.
    #[must_use]
    pub const fn due_within(mut self, due: Duration) -> Self {
        self.due = due;
        self
    }

    /// Also checks the order. No consumer takes an item after another item of the same producer
    /// whose put began later, if the first put was certain by then and the first item has no higher
    /// [rank](Queue::Putting). No consumer takes an item while there is one with a lower rank that
    /// the consumer itself had certainly put before it began to [wait](Queue::Taking).
    ///
    /// Only first deliveries count, of items that no other client has taken before, because
    /// returned items come late. An item may also come late if a client kept it from other
    /// consumers when the other item was taken. That is possible if the client
    /// [claimed](Queue::Taking) the item without getting it, in an attempt that came to
    /// [nothing](Queue::Untaken) or is not over, or if it returned the item for a better one.
    #[must_use]
    pub const fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Allows items of the same name, which cannot be told apart. The checker counts them: no more
    /// and no fewer of them are processed than were put. It checks nothing else about them.
    #[must_use]
    pub const fn equals(mut self) -> Self {
        self.equals = true;
        self
    }

    /// Also checks that there is at most one item of an id at a time, and that an item is
    /// [refused](Queue::Refused) for that reason only if another item with its id may exist. An
    /// item that was put before its id was [vacant](Queue::Vacant) does not count.
    #[must_use]
    pub const fn one_at_a_time(mut self) -> Self {
        self.one_at_a_time = true;
        self
    }

    /// Also checks that no two deliveries of an item have the same number.
    #[must_use]
    pub const fn counted(mut self) -> Self {
        self.counted = true;
        self
    }
}

impl Delivery {
    /// Returns the violation by an item in this record.
    fn step(&self, item: &mut Item, place: usize, who: ProcessId, event: &Queue) -> Broken {
        if self.equals
            && let Some(broken) = item.equals.step(place, who, event)
        {
            return broken;
        }
        match event {
            Queue::Putting { .. } => item.putting(place),
            Queue::Put { outcome, .. } => item.put(place, *outcome),
            Queue::Taken { attempt, .. } => {
                let twin = item.deliveries.insert(*attempt, place).filter(|_| self.counted);
                let broken =
                    twin.map(|twin| ("has two deliveries of the same number", vec![twin, place]));
                item.take(place, self.promise).or(broken)
            }
            Queue::Finishing { .. } => item.finishing(place, who),
            Queue::Done { outcome, .. } => item.done(place, who, *outcome, self.promise),
            Queue::Dead { .. } => item.put_aside(place, self.promise),
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
            let Event::Queue(event) = &record.event else { continue };
            let (Queue::Putting { queue, item, .. }
            | Queue::Put { queue, item, .. }
            | Queue::Taken { queue, item, .. }
            | Queue::Finishing { queue, item }
            | Queue::Done { queue, item, .. }
            | Queue::Returned { queue, item }
            | Queue::Dead { queue, item }) = event
            else {
                continue;
            };
            let entry = items.entry((queue, item)).or_default();
            entry.last = Some((place, who));
            if let Some((what, places)) = self.step(entry, place, who, event) {
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
        let due = Due::of(history, self.due);
        lost.retain(|lost| lost.last.is_none_or(|(place, who)| !due.is_still(place, who)));
        // Items that were put last have the fewest consumers that could have lost them.
        lost.sort_by_key(|lost| Reverse(lost.begun));
        let lost = withdrawals.without(lost);
        let places = history.records().iter().enumerate();
        let killed: Vec<usize> = places
            .filter(|(_, record)| record.event == Event::Lifecycle(Lifecycle::Killed))
            .map(|(place, _)| place)
            .collect();
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

mod attempts;
mod due;
mod equals;
mod ids;
mod item;
mod order;
#[cfg(test)]
mod tests;
