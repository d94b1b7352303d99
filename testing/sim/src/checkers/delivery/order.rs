//! Checks of the order in which items are delivered.

use std::collections::{BTreeMap, BTreeSet};

use super::attempts::{Attempts, Item, Put};
use super::item::{NAME, id_of};
use crate::checkers::Violation;
use crate::history::{
    Event, History, Lifecycle, Name, Operator, Outcome, ProcessId, Queue, Record,
};

/// The first delivery of an item.
struct First<'a> {
    item: Item<'a>,
    place: usize,
}

pub(super) fn check(history: &History) -> Result<(), Violation> {
    let puts = puts(history);
    let attempts = Attempts::of(history);
    let operated =
        places_of(history, |event| matches!(event, Event::Operator(Operator::Removed { .. })));
    let kept = |item: Item<'_>, put: &Put, who, before, place: usize| {
        // An operator has deleted a claim: its consumer had the item, but could not take it.
        let is_damaged = operated.iter().any(|operated| (put.begun..place).contains(operated));
        is_damaged || attempts.kept(&puts, (item, put), who, before)
    };
    let mut taken = BTreeSet::new();
    // First deliveries by queue, consumer and producer.
    let mut firsts: BTreeMap<(&Name, ProcessId, ProcessId), Vec<First<'_>>> = BTreeMap::new();
    for (place, record) in history.records().iter().enumerate() {
        let Event::Queue(Queue::Taken { queue, item, attempt }) = &record.event else { continue };
        let (name, item) = (item, (queue, item));
        let Some(put) = puts.get(&item).filter(|_| taken.insert(item) && *attempt <= 1) else {
            continue;
        };
        let before = firsts.entry((queue, record.who, put.producer)).or_default();
        let is_later = |other: &&First<'_>| {
            let other = puts.get(&other.item).filter(|other| other.rank >= put.rank);
            matches!((put.sure, other), (Some(sure), Some(other)) if sure < other.begun)
        };
        // Items that another client kept could not be taken. That client may get them later.
        let broken = before
            .iter()
            .filter(is_later)
            .find(|other| !kept(item, put, record.who, other.place, place));
        if let Some(other) = broken {
            let broken =
                format!("{name} of {queue} was taken after {}, which was put later", other.item.1);
            return Err(Violation::new(NAME, broken, vec![other.place, place]));
        }
        before.push(First { item, place });
        // The consumer knew the items that it had certainly put itself.
        let Some(chosen_after) = attempts.chosen_after(place) else { continue };
        let comes_first = |other: &&Put| {
            let is_known =
                other.producer == record.who && other.sure.is_some_and(|sure| sure < chosen_after);
            is_known && other.rank < put.rank && other.seen > place
        };
        let of_queue = puts.iter().filter(|((its_queue, _), _)| *its_queue == queue);
        let broken = of_queue
            .filter(|(_, other)| comes_first(other))
            .find(|(better, other)| !kept(**better, other, record.who, place, place));
        if let Some(((_, better), other)) = broken {
            let broken = format!("{name} of {queue} was taken although {better} comes before it");
            return Err(Violation::new(NAME, broken, vec![other.begun, place]));
        }
    }
    Ok(())
}

/// Returns the places of the events of a kind.
fn places_of(history: &History, is_it: impl Fn(&Event) -> bool) -> Vec<usize> {
    let records = history.records().iter().enumerate();
    records.filter(|(_, record)| is_it(&record.event)).map(|(place, _)| place).collect()
}

/// Returns the puts, without those of items with equal names.
fn puts(history: &History) -> BTreeMap<Item<'_>, Put> {
    let mut puts = BTreeMap::new();
    let mut equals = BTreeSet::new();
    // The ids that are being withdrawn, by client and queue.
    let mut withdrawing: BTreeMap<(ProcessId, &Name), (&Name, usize)> = BTreeMap::new();
    for (place, Record { who, event, .. }) in history.records().iter().enumerate() {
        match event {
            Event::Queue(Queue::Putting { queue, item, rank }) => {
                let (producer, rank) = (*who, *rank);
                let withdrawn = withdrawing.values().filter(|(id, _)| ***id == *id_of(item));
                let seen = withdrawn.map(|(_, place)| *place).min().unwrap_or(usize::MAX);
                let put = Put { producer, rank, begun: place, sure: None, seen };
                if puts.insert((queue, item), put).is_some() {
                    equals.insert((queue, item));
                }
            }
            Event::Queue(Queue::Withdrawing { queue, id }) => {
                withdrawing.insert((*who, queue), (id, place));
                for ((of, item), put) in &mut puts {
                    if of == &queue && *id_of(item) == **id {
                        put.seen = put.seen.min(place);
                    }
                }
            }
            Event::Queue(Queue::Withdrawn { queue, .. }) => {
                withdrawing.remove(&(*who, queue));
            }
            Event::Lifecycle(Lifecycle::Killed) => withdrawing.retain(|(whose, _), _| whose != who),
            Event::Queue(Queue::Put { queue, item, outcome: Outcome::Sure }) => {
                if let Some(put) = puts.get_mut(&(queue, item)) {
                    put.sure = Some(place);
                }
            }
            Event::Queue(
                Queue::Taken { queue, item, .. }
                | Queue::Finishing { queue, item }
                | Queue::Done { queue, item, .. }
                | Queue::Dead { queue, item },
            ) => {
                if let Some(put) = puts.get_mut(&(queue, item)) {
                    put.seen = put.seen.min(place);
                }
            }
            _ => {}
        }
    }
    puts.retain(|item, _| !equals.contains(item));
    puts
}
