//! Items with ids: withdrawals by id, and ids that are used repeatedly.

use std::collections::BTreeMap;

use super::item::{Item, Lost, NAME, id_of};
use crate::checkers::Violation;
use crate::history::{Event, History, Name, Outcome, ProcessId, Queue};

/// A queue and an id.
type Id<'a> = (&'a str, &'a str);

/// A removal of items by their id.
struct Withdrawal {
    begun: usize,
    /// The place of its end. Items whose put begins later are not among the removed ones.
    ended: usize,
    count: usize,
    is_sure: bool,
}

/// All removals by id of a history.
pub(super) struct Withdrawals<'a>(BTreeMap<Id<'a>, Vec<Withdrawal>>);

impl<'a> Withdrawals<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let mut all: BTreeMap<Id<'_>, Vec<Withdrawal>> = BTreeMap::new();
        let mut open: BTreeMap<(ProcessId, Id<'_>), usize> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            let Event::Queue(event) = &record.event else { continue };
            match event {
                Queue::Withdrawing { queue, id } => {
                    open.insert((record.who, (queue, id)), place);
                }
                Queue::Withdrawn { queue, id, count, outcome } => {
                    let begun = open.remove(&(record.who, (queue, id))).unwrap_or(place);
                    if *outcome != Outcome::Failed {
                        let (count, is_sure) = (*count as usize, *outcome == Outcome::Sure);
                        let withdrawal = Withdrawal { begun, ended: place, count, is_sure };
                        all.entry((queue, id)).or_default().push(withdrawal);
                    }
                }
                _ => {}
            }
        }
        // Clients that were killed. They can remove only items that they had listed, so the end of
        // the history is late enough.
        for ((_, id), begun) in open {
            let ended = history.records().len();
            let withdrawal = Withdrawal { begun, ended, count: usize::MAX, is_sure: false };
            all.entry(id).or_default().push(withdrawal);
        }
        for withdrawals in all.values_mut() {
            withdrawals.sort_by_key(|withdrawal| withdrawal.ended);
        }
        Self(all)
    }

    /// Checks that there was an item for every certain withdrawal.
    pub(super) fn check(&self, items: &BTreeMap<(&Name, &Name), Item>) -> Result<(), Violation> {
        for (&(queue, id), withdrawals) in &self.0 {
            let with_id =
                items.iter().filter(|((of, name), _)| &***of == queue && id_of(name) == id);
            let may_be_withdrawn = with_id.filter(|(_, item)| item.is_open());
            let begun: Vec<usize> =
                may_be_withdrawn.filter_map(|(_, item)| item.first_record()).collect();
            let mut count = 0;
            for withdrawal in withdrawals.iter().filter(|withdrawal| withdrawal.is_sure) {
                count += withdrawal.count;
                let there = begun.iter().filter(|begun| **begun < withdrawal.ended).count();
                if count > there {
                    let broken =
                        format!("{count} of {id} of {queue} were withdrawn, and {there} existed");
                    return Err(Violation::new(
                        NAME,
                        broken,
                        vec![withdrawal.begun, withdrawal.ended],
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns those of the missing items that cannot have been withdrawn. Both lists begin with
    /// the latest put.
    pub(super) fn without<'b>(&self, lost: Vec<Lost<'b>>) -> Vec<Lost<'b>> {
        let mut explained: BTreeMap<Id<'_>, usize> = BTreeMap::new();
        let mut left = Vec::new();
        for lost in lost {
            let (queue, name) = lost.names;
            let id = (&**queue, id_of(name));
            let withdrawals = self.0.get(&id).map_or(&[][..], Vec::as_slice);
            let after = withdrawals.iter().filter(|withdrawal| withdrawal.ended > lost.begun);
            let most = after.fold(0_usize, |sum, withdrawal| sum.saturating_add(withdrawal.count));
            let explained = explained.entry((&**queue, id_of(name))).or_default();
            if *explained < most {
                *explained += 1;
            } else {
                left.push(lost);
            }
        }
        left
    }
}

/// The time during which an item certainly existed.
struct Life<'a> {
    item: &'a Name,
    /// The place where its put began, and the place where the put was certain.
    put: Option<(usize, usize)>,
    from: usize,
    to: usize,
}

/// Checks that no item was put while there was another one with its id.
pub(super) fn one_at_a_time(history: &History) -> Result<(), Violation> {
    let mut ids: BTreeMap<Id<'_>, BTreeMap<&Name, Life<'_>>> = BTreeMap::new();
    let mut finishing: BTreeMap<(ProcessId, &Name, &Name), usize> = BTreeMap::new();
    for (place, record) in history.records().iter().enumerate() {
        let Event::Queue(event) = &record.event else { continue };
        let (Queue::Putting { queue, item, .. }
        | Queue::Put { queue, item, .. }
        | Queue::Finishing { queue, item }
        | Queue::Done { queue, item, .. }) = event
        else {
            continue;
        };
        let lives = ids.entry((queue, id_of(item))).or_default();
        let life = lives.entry(item).or_insert(Life { item, put: None, from: place, to: place });
        let key = (record.who, queue, item);
        match event {
            Queue::Put { outcome: Outcome::Sure, .. } => {
                // The put created the item in between.
                life.put = Some((life.from, place));
                life.from = place;
            }
            Queue::Finishing { .. } => drop(finishing.insert(key, place)),
            Queue::Done { outcome: Outcome::Sure, .. } => {
                life.to = finishing.remove(&key).unwrap_or(life.to);
            }
            _ => {}
        }
    }
    for ((queue, id), lives) in &ids {
        for life in lives.values() {
            let Some((begun, sure)) = life.put else { continue };
            let is_other = |other: &&Life<'_>| other.item != life.item && other.put.is_some();
            let mut others = lives.values().filter(is_other);
            // One item existed when the other was created, or all the time of the other.
            let other = others.find(|other| {
                let all_the_time = other.from < begun && sure < other.to;
                all_the_time || (other.from < life.to && life.from < other.to)
            });
            if let Some(other) = other {
                let (first, second) =
                    if other.from < life.from { (other, life) } else { (life, other) };
                let both = format!("{} and {} of {queue}", first.item, second.item);
                let records = vec![first.from, second.from, first.to];
                return Err(Violation::new(
                    NAME,
                    format!("{both} existed at the same time: both are {id}"),
                    records,
                ));
            }
        }
    }
    Ok(())
}

/// The events of one id.
#[derive(Default)]
struct Past<'a> {
    /// The items that may have existed: the places where their puts began, and where these were
    /// certain.
    puts: BTreeMap<&'a Name, (usize, Option<usize>)>,
    /// The begin and the end of each time that contains a moment without any such item.
    vacancies: Vec<(usize, usize)>,
    /// The items that were refused: the places where their puts began, and where they were refused.
    refused: Vec<(&'a Name, usize, usize)>,
}

impl<'a> Past<'a> {
    /// Returns the first item that was refused without a reason, and the records that prove it.
    fn wrongly_refused(&self) -> Option<(&'a Name, Vec<usize>)> {
        self.refused.iter().find_map(|&(item, begun, refused)| {
            // An item that existed when the put began was created after this vacancy.
            let vacant = self.vacancies.iter().filter(|(_, proof)| *proof < begun).max();
            let since = vacant.map_or(0, |(since, _)| *since);
            let is_reason = |(begun, sure): &(usize, Option<usize>)| {
                *begun < refused && sure.is_none_or(|sure| sure >= since)
            };
            let proof =
                || vacant.map(|(_, proof)| *proof).into_iter().chain([begun, refused]).collect();
            (!self.puts.values().any(is_reason)).then(|| (item, proof()))
        })
    }
}

/// Checks that no item was refused because of another one with its id when there was none.
pub(super) fn refused_for_a_reason(history: &History) -> Result<(), Violation> {
    let mut ids: BTreeMap<Id<'_>, Past<'_>> = BTreeMap::new();
    // The places where clients began to delete the items of an id.
    let mut deleting: BTreeMap<(ProcessId, Id<'_>), usize> = BTreeMap::new();
    for (place, record) in history.records().iter().enumerate() {
        let Event::Queue(event) = &record.event else { continue };
        match event {
            Queue::Putting { queue, item, .. } => {
                ids.entry((queue, id_of(item))).or_default().puts.insert(item, (place, None));
            }
            Queue::Put { queue, item, outcome } => {
                let puts = &mut ids.entry((queue, id_of(item))).or_default().puts;
                match (outcome, puts.get_mut(item)) {
                    (Outcome::Sure, Some((_, sure))) => *sure = Some(place),
                    (Outcome::Failed, _) => drop(puts.remove(item)),
                    _ => {}
                }
            }
            Queue::Refused { queue, item } => {
                let past = ids.entry((queue, id_of(item))).or_default();
                if let Some((begun, _)) = past.puts.remove(item) {
                    past.refused.push((item, begun, place));
                }
            }
            Queue::Withdrawing { queue, id } => {
                deleting.insert((record.who, (queue, id)), place);
            }
            Queue::Finishing { queue, item } => {
                deleting.insert((record.who, (queue, id_of(item))), place);
            }
            Queue::Vacant { queue, id } => {
                let id: Id<'_> = (queue, id);
                let since = deleting.get(&(record.who, id)).copied().unwrap_or_default();
                ids.entry(id).or_default().vacancies.push((since, place));
            }
            _ => {}
        }
    }
    for ((queue, id), past) in &ids {
        if let Some((item, proof)) = past.wrongly_refused() {
            let broken = format!("{item} of {queue} was refused, and no other {id} existed");
            return Err(Violation::new(NAME, broken, proof));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::checkers::Delivery;
    use crate::checkers::delivery::tests::{
        FAILED, Line, SURE, UNKNOWN, dead, done, finishing, put, putting, taken,
    };
    use crate::checkers::script::{fails, passes};
    use crate::history::{Outcome, Queue};

    const CHECKER: Delivery = Delivery::exactly_once().in_order();

    fn item(name: &str) -> [Line; 2] {
        [putting(1, name), put(1, name, SURE)]
    }

    fn withdrawing(id: &str) -> Line {
        (0, 2, Queue::Withdrawing { queue: "q".into(), id: id.into() }.into())
    }

    fn withdrawn(id: &str, count: u32, outcome: Outcome) -> [Line; 2] {
        let done = Queue::Withdrawn { queue: "q".into(), id: id.into(), count, outcome };
        [withdrawing(id), (0, 2, done.into())]
    }

    #[test]
    fn items_that_are_withdrawn_are_not_lost() {
        let both = [item("a#1"), item("a#2")].concat();
        let with = |last: &[Line]| [&both[..], last].concat();
        passes(&CHECKER, with(&withdrawn("a", 2, SURE)));
        passes(&CHECKER, with(&withdrawn("a", 2, UNKNOWN)));
        passes(&CHECKER, with(&[withdrawing("a")]));
        fails(&CHECKER, with(&withdrawn("a", 1, SURE)), "is lost", &[1]);
        fails(&CHECKER, with(&withdrawn("b", 2, UNKNOWN)), "is lost", &[3]);
        fails(&CHECKER, with(&withdrawn("a", 2, FAILED)), "is lost", &[3]);
        // The second item was put after the withdrawal.
        let late = [&item("a#1")[..], &withdrawn("a", 2, UNKNOWN), &item("a#2")].concat();
        fails(&CHECKER, late, "a#2 of q is lost", &[5]);
    }

    #[test]
    fn an_item_that_is_worked_off_was_not_withdrawn() {
        let one = |last: Line| [&item("a")[..], &withdrawn("a", 1, SURE), &[last]].concat();
        fails(
            &CHECKER,
            one(done(3, "a", SURE)),
            "1 of a of q were withdrawn, and 0 existed",
            &[2, 3],
        );
        fails(&CHECKER, one(dead(3, "a")), "0 existed", &[2, 3]);
        passes(&CHECKER, one(done(3, "a", UNKNOWN)));
        let other =
            [&one(putting(1, "a#2"))[..], &[put(1, "a#2", SURE), done(3, "a#2", SURE)]].concat();
        passes(&CHECKER, other);
        let too_late = [&withdrawn("a", 1, SURE)[..], &item("a")].concat();
        fails(&CHECKER, too_late, "0 existed", &[0, 1]);
        let failed =
            [&withdrawn("a", 1, SURE)[..], &[putting(1, "a"), put(1, "a", FAILED)]].concat();
        fails(&CHECKER, failed, "0 existed", &[0, 1]);
    }

    #[test]
    fn two_items_of_an_id_that_were_there_at_once_are_found() {
        let checker = CHECKER.one_at_a_time();
        let off = |name: &str| [taken(3, name), finishing(3, name), done(3, name, SURE)];
        passes(&checker, [&item("a#1")[..], &off("a#1"), &item("a#2"), &off("a#2")].concat());
        let at_once = [&item("a#1")[..], &item("a#2"), &off("a#1"), &off("a#2")].concat();
        passes(&CHECKER, at_once.clone());
        fails(
            &checker,
            at_once,
            "a#1 and a#2 of q existed at the same time: both are a",
            &[1, 3, 5],
        );
        // The first item may have been gone before the second existed.
        let first = off("a#1");
        let late = [&item("a#1")[..], &first[..2], &item("a#2"), &first[2..], &off("a#2")].concat();
        passes(&checker, late);
        let other_id = [&item("a#1")[..], &item("b#2"), &off("a#1"), &off("b#2")].concat();
        passes(&checker, other_id);
    }

    fn refused(producer: u32, name: &str) -> [Line; 3] {
        let refused = Queue::Refused { queue: "q".into(), item: name.into() };
        [putting(producer, name), (0, producer, refused.into()), put(producer, name, FAILED)]
    }

    fn vacant(client: u32, id: &str) -> Line {
        (0, client, Queue::Vacant { queue: "q".into(), id: id.into() }.into())
    }

    #[test]
    fn an_item_is_refused_because_of_another_one_of_its_id() {
        let checker = CHECKER.one_at_a_time();
        let off = [taken(3, "a#1"), finishing(3, "a#1"), done(3, "a#1", SURE)];
        passes(&checker, [&item("a#1")[..], &refused(2, "a#2"), &off].concat());
        // The queue may keep a record of the id.
        passes(&checker, [&item("a#1")[..], &off, &refused(2, "a#2")].concat());
        // The outcome and the time of the put are unknown.
        passes(&checker, [&[putting(1, "a#1")][..], &refused(2, "a#2")].concat());
        passes(
            &checker,
            [&[putting(1, "a#1"), put(1, "a#1", UNKNOWN)][..], &refused(2, "a#2")].concat(),
        );
        let late = [putting(2, "a#2"), putting(1, "a#1")];
        passes(
            &checker,
            [&late[..], &refused(2, "a#2")[1..], &[put(1, "a#1", SURE)], &off].concat(),
        );
        // Refusals are checked only if there has to be one item of an id.
        passes(&CHECKER, refused(2, "a#1"));
    }

    #[test]
    fn an_item_that_was_refused_without_a_reason_is_found() {
        let checker = CHECKER.one_at_a_time();
        fails(&checker, refused(2, "a#1"), "a#1 of q was refused, and no other a existed", &[0, 1]);
        fails(
            &checker,
            [&[putting(1, "b#1")][..], &refused(2, "a#2")].concat(),
            "no other a",
            &[1, 2],
        );
        let failed = [putting(1, "a#1"), put(1, "a#1", FAILED)];
        fails(&checker, [&failed[..], &refused(2, "a#2")].concat(), "no other a", &[2, 3]);
        // The other item was put later, or was refused too.
        fails(
            &checker,
            [&refused(2, "a#2")[..], &[putting(1, "a#1")]].concat(),
            "no other a",
            &[0, 1],
        );
        let both = [&refused(2, "a#2")[..], &refused(1, "a#1")].concat();
        fails(&checker, both, "no other a", &[0, 1]);
    }

    #[test]
    fn an_item_is_not_refused_because_of_one_that_was_deleted() {
        let checker = CHECKER.one_at_a_time();
        let off = [taken(3, "a#1"), finishing(3, "a#1"), vacant(3, "a"), done(3, "a#1", SURE)];
        let gone = [&item("a#1")[..], &off].concat();
        fails(&checker, [&gone[..], &refused(2, "a#2")].concat(), "no other a", &[4, 6, 7]);
        let forgotten =
            [&item("a#1")[..], &off[..2], &[off[3].clone(), withdrawing("a"), vacant(2, "a")]]
                .concat();
        fails(&checker, [&forgotten[..], &refused(1, "a#2")].concat(), "no other a", &[6, 7, 8]);
        // The item was deleted while the put was in flight, or another one was put since.
        let meanwhile =
            [&gone[..4], &refused(2, "a#2")[..1], &gone[4..], &refused(2, "a#2")[1..]].concat();
        passes(&checker, meanwhile);
        passes(&checker, [&gone[..], &[putting(1, "a#3")], &refused(2, "a#2")].concat());
        let between =
            [&gone[..4], &[putting(1, "a#3")], &gone[4..], &[put(1, "a#3", UNKNOWN)]].concat();
        passes(&checker, [&between[..], &refused(2, "a#2")].concat());
        // Another id was vacant.
        let other = [&gone[..4], &[vacant(3, "b")], &gone[5..]].concat();
        passes(&checker, [&other[..], &refused(2, "a#2")].concat());
    }
}
