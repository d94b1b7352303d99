//! That items come in the order in which they were put.

use std::collections::{BTreeMap, BTreeSet};

use super::attempts::{Attempts, Item, Put};
use super::{NAME, id_of};
use crate::checkers::Violation;
use crate::history::{Event, History, Name, Outcome, ProcessId, Record};

/// An item that its consumer was the first to take.
struct First<'a> {
    item: Item<'a>,
    place: usize,
}

pub(super) fn check(history: &History) -> Result<(), Violation> {
    let puts = puts(history);
    let attempts = Attempts::of(history);
    let operated = places_of(history, |event| matches!(event, Event::Removed { .. }));
    let kept = |item: Item<'_>, put: &Put, who, before, place: usize| {
        // A claim that an operator has deleted, of a consumer that had the item and did not get to take it.
        let is_damaged = operated.iter().any(|operated| (put.begun..place).contains(operated));
        is_damaged || attempts.kept(&puts, (item, put), who, before)
    };
    let mut taken = BTreeSet::new();
    // By queue, consumer and producer.
    let mut firsts: BTreeMap<(&Name, ProcessId, ProcessId), Vec<First<'_>>> = BTreeMap::new();
    for (place, record) in history.records().iter().enumerate() {
        let Event::Taken { queue, item, attempt } = &record.event else { continue };
        let (name, item) = (item, (queue, item));
        let Some(put) = puts.get(&item).filter(|_| taken.insert(item) && *attempt <= 1) else { continue };
        let before = firsts.entry((queue, record.who, put.producer)).or_default();
        let is_later = |other: &&First<'_>| {
            let other = puts.get(&other.item).filter(|other| other.rank >= put.rank);
            matches!((put.sure, other), (Some(sure), Some(other)) if sure < other.begun)
        };
        // What somebody has kept from it it could not take; perhaps that one gets it later.
        let broken =
            before.iter().filter(is_later).find(|other| !kept(item, put, record.who, other.place, place));
        if let Some(other) = broken {
            let broken = format!("{name} of {queue} was taken after {}, which was put later", other.item.1);
            return Err(Violation::new(NAME, broken, vec![other.place, place]));
        }
        before.push(First { item, place });
        // It was sure of what it had put itself, and knew all of that.
        let Some(chosen_after) = attempts.chosen_after(place) else { continue };
        let comes_first = |other: &&Put| {
            let is_known = other.producer == record.who && other.sure.is_some_and(|sure| sure < chosen_after);
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

/// The places of the events of a kind.
fn places_of(history: &History, is_it: impl Fn(&Event) -> bool) -> Vec<usize> {
    let records = history.records().iter().enumerate();
    records.filter(|(_, record)| is_it(&record.event)).map(|(place, _)| place).collect()
}

/// The puts, but for those of items that are equal to others.
fn puts(history: &History) -> BTreeMap<Item<'_>, Put> {
    let mut puts = BTreeMap::new();
    let mut equals = BTreeSet::new();
    // The ids that are being withdrawn.
    let mut withdrawing: BTreeMap<(ProcessId, &Name), (&Name, usize)> = BTreeMap::new();
    for (place, Record { who, event, .. }) in history.records().iter().enumerate() {
        match event {
            Event::Putting { queue, item, rank } => {
                let (producer, rank) = (*who, *rank);
                let withdrawn = withdrawing.values().filter(|(id, _)| ***id == *id_of(item));
                let seen = withdrawn.map(|(_, place)| *place).min().unwrap_or(usize::MAX);
                let put = Put { producer, rank, begun: place, sure: None, seen };
                if puts.insert((queue, item), put).is_some() {
                    equals.insert((queue, item));
                }
            }
            Event::Withdrawing { queue, id } => {
                withdrawing.insert((*who, queue), (id, place));
                for ((of, item), put) in &mut puts {
                    if of == &queue && *id_of(item) == **id {
                        put.seen = put.seen.min(place);
                    }
                }
            }
            Event::Withdrawn { queue, .. } => drop(withdrawing.remove(&(*who, queue))),
            Event::Killed => withdrawing.retain(|(whose, _), _| whose != who),
            Event::Put { queue, item, outcome: Outcome::Sure } => {
                if let Some(put) = puts.get_mut(&(queue, item)) {
                    put.sure = Some(place);
                }
            }
            Event::Taken { queue, item, .. }
            | Event::Finishing { queue, item }
            | Event::Done { queue, item, .. }
            | Event::Dead { queue, item } => {
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
