//! That items come in the order in which they were put.

use std::collections::{BTreeMap, BTreeSet};

use super::NAME;
use super::attempts::Attempts;
use crate::sim::checkers::Violation;
use crate::sim::history::{Event, History, Name, Outcome, Record, Who};

/// An item, by its queue and its name.
pub(super) type Item<'a> = (&'a Name, &'a Name);

pub(super) struct Put {
    producer: Who,
    pub(super) rank: i64,
    pub(super) begun: usize,
    /// Where its producer was sure.
    sure: Option<usize>,
}

/// An item that its consumer was the first to take.
struct First<'a> {
    item: Item<'a>,
    place: usize,
}

pub(super) fn check(history: &History) -> Result<(), Violation> {
    let puts = puts(history);
    let attempts = Attempts::of(history, &puts);
    let mut taken = BTreeSet::new();
    // By queue, consumer and producer.
    let mut firsts: BTreeMap<(&Name, Who, Who), Vec<First<'_>>> = BTreeMap::new();
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
        let kept = |other: &First<'_>| attempts.kept(item, put, record.who, other.place);
        if let Some(other) = before.iter().filter(is_later).find(|other| !kept(other)) {
            let broken = format!("{name} of {queue} was taken after {}, which was put later", other.item.1);
            return Err(Violation::new(NAME, broken, vec![other.place, place]));
        }
        before.push(First { item, place });
    }
    Ok(())
}

fn puts(history: &History) -> BTreeMap<Item<'_>, Put> {
    let mut puts = BTreeMap::new();
    for (place, Record { who, event, .. }) in history.records().iter().enumerate() {
        match event {
            Event::Putting { queue, item, rank } => {
                let put = Put { producer: *who, rank: *rank, begun: place, sure: None };
                puts.insert((queue, item), put);
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
