//! That items come in the order in which they were put.

use std::collections::{BTreeMap, BTreeSet};

use super::NAME;
use crate::sim::checkers::Violation;
use crate::sim::history::{Event, History, Name, Outcome, Record, Who};

/// An item, by its queue and its name.
type Item<'a> = (&'a Name, &'a Name);

/// By rank.
type Latest<'a> = BTreeMap<i64, (Item<'a>, usize)>;

struct Put {
    producer: Who,
    rank: i64,
    begun: usize,
    /// Where its producer was sure.
    sure: Option<usize>,
}

/// Somebody has waited for an item, from one record to another.
struct Attempt<'a> {
    queue: &'a Name,
    begun: usize,
    ended: usize,
    /// What it has got, and the rank of that; unless that was nothing, or it may have kept others from more.
    got: Option<(Item<'a>, i64)>,
}

pub(super) fn check(history: &History) -> Result<(), Violation> {
    let puts = puts(history);
    let attempts = attempts(history, &puts);
    let mut taken = BTreeSet::new();
    // By queue, consumer and producer: the item that was put last, of those taken, and where it was.
    let mut latest: BTreeMap<(&Name, Who, Who), Latest<'_>> = BTreeMap::new();
    for (place, record) in history.records().iter().enumerate() {
        let Event::Taken { queue, item, attempt } = &record.event else { continue };
        let (name, item) = (item, (queue, item));
        let Some(put) = puts.get(&item).filter(|_| taken.insert(item) && *attempt <= 1) else { continue };
        let latest = latest.entry((queue, record.who, put.producer)).or_default();
        let is_later = |other: Item<'_>| {
            let begun = puts.get(&other).map(|other| other.begun);
            matches!((put.sure, begun), (Some(sure), Some(begun)) if sure < begun)
        };
        let later = latest.range(put.rank..).find(|(_, (other, _))| is_later(*other));
        if let Some((_, ((_, other), before))) = later {
            // What somebody else, or it itself, has kept from it meanwhile, it could not take; perhaps that one gets it later.
            let keeps = |attempt: &&Attempt<'_>| {
                let meanwhile = attempt.begun < *before && attempt.ended > put.begun;
                let keeps = attempt.got.is_none_or(|(got, rank)| got == item || rank < put.rank);
                attempt.queue == queue && meanwhile && keeps
            };
            if !attempts.iter().any(|attempt| keeps(&attempt)) {
                let broken = format!("{name} of {queue} was taken after {other}, which was put later");
                return Err(Violation::new(NAME, broken, vec![*before, place]));
            }
        }
        let last = latest.entry(put.rank).or_insert((item, place));
        if puts.get(&last.0).is_none_or(|last| last.begun < put.begun) {
            *last = (item, place);
        }
    }
    Ok(())
}

fn puts(history: &History) -> BTreeMap<Item<'_>, Put> {
    let mut puts = BTreeMap::new();
    for (place, Record { who, event, .. }) in history.records().iter().enumerate() {
        match event {
            Event::Putting { queue, item, rank } => {
                puts.insert((queue, item), Put { producer: *who, rank: *rank, begun: place, sure: None });
            }
            Event::Put { queue, item, outcome: Outcome::Sure } => {
                if let Some(put) = puts.get_mut(&(queue, item)) {
                    put.sure = Some(place);
                }
            }
            _ => {}
        }
    }
    puts
}

fn attempts<'a>(history: &'a History, puts: &BTreeMap<Item<'a>, Put>) -> Vec<Attempt<'a>> {
    let mut attempts = Vec::new();
    let mut open: BTreeMap<(Who, &Name), usize> = BTreeMap::new();
    for (place, Record { who, event, .. }) in history.records().iter().enumerate() {
        match event {
            Event::Taking { queue } => {
                open.insert((*who, queue), place);
            }
            Event::Taken { queue, item, .. } => {
                if let Some(begun) = open.remove(&(*who, queue)) {
                    let got = puts.get(&(queue, item)).map(|put| ((queue, item), put.rank));
                    attempts.push(Attempt { queue, begun, ended: place, got });
                }
            }
            Event::Untaken { queue } => {
                if let Some(begun) = open.remove(&(*who, queue)) {
                    attempts.push(Attempt { queue, begun, ended: place, got: None });
                }
            }
            // It has got nothing.
            Event::Killed => open.retain(|&(whose, queue), &mut begun| {
                if whose == *who {
                    attempts.push(Attempt { queue, begun, ended: place, got: None });
                }
                whose != *who
            }),
            _ => {}
        }
    }
    let ended = history.records().len();
    attempts.extend(open.into_iter().map(|((_, queue), begun)| Attempt { queue, begun, ended, got: None }));
    attempts
}
