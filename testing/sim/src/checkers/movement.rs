use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Checker, Violation};
use crate::history::{Division, Event, History, Hold, Lifecycle, Name, ProcessId};

/// Checks how many parts of a set move when its members change.
///
/// It compares two [settled](Division::Settled) states with the same parts, one after the other, if
/// all processes are [calm](Division::Calm), and there are no more faults:
///
/// * If one member has come or gone, the parts that it owns do not count. Of the others, at most as
///   many have moved as there are members besides it, and an eighth of the parts. So far may a
///   bound on the parts of a member move others.
/// * A part with the same owner has the same fencing token: it was not given up in between. That is
///   only checked if no other member has begun to come or to go, and no process was
///   [paused](Lifecycle::Paused), not even in the two seconds before the first state, and no part
///   was lost. A member that was paused may act on a change later.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Movement;

const NAME: &str = "movement";

/// The time in which members have acted on a change.
const SEEN: Duration = Duration::from_secs(2);

/// A settled state.
struct State<'h> {
    place: usize,
    members: BTreeMap<&'h Name, u32>,
    parts: BTreeMap<&'h Name, (&'h Name, i64)>,
}

impl<'h> State<'h> {
    fn new(place: usize, members: &'h [(Name, u32)], parts: &'h [(Name, Name, i64)]) -> Self {
        let members = members.iter().map(|(member, weight)| (member, *weight)).collect();
        let parts = parts.iter().map(|(part, owner, token)| (part, (owner, *token))).collect();
        Self { place, members, parts }
    }

    /// Returns the members that are not in another state, or have another weight there.
    fn without<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = &'h Name> + 's {
        let members = self.members.iter();
        let missing =
            members.filter(|(member, weight)| other.members.get(*member) != Some(*weight));
        missing.map(|(member, _)| *member)
    }

    fn owned_by(&self, member: &Name) -> usize {
        self.parts.values().filter(|(owner, _)| *owner == member).count()
    }
}

/// The history between two settled states.
#[derive(Debug, Default)]
struct Between {
    /// The number of members that have begun to come, or have gone.
    changes: usize,
    /// `true` if a part was lost, a process was killed or paused, or members may still act on a
    /// change before the first state.
    is_disturbed: bool,
}

impl Checker for Movement {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut alive: BTreeSet<ProcessId> = BTreeSet::new();
        let mut calm: BTreeSet<ProcessId> = BTreeSet::new();
        let mut faults_are_over = false;
        let mut last: Option<State<'_>> = None;
        let mut between = Between::default();
        let mut changed: Option<Duration> = None;
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Lifecycle(Lifecycle::Started) => {
                    alive.insert(record.who);
                }
                Event::Lifecycle(Lifecycle::Finished) => {
                    alive.remove(&record.who);
                }
                Event::Lifecycle(Lifecycle::Killed) => {
                    alive.remove(&record.who);
                    between.is_disturbed = true;
                }
                Event::Lifecycle(Lifecycle::Paused | Lifecycle::Resumed) if faults_are_over => {
                    between.is_disturbed = true;
                    changed = Some(record.at);
                }
                Event::FaultsOver => faults_are_over = true,
                Event::Hold(Hold::Lost { .. }) => between.is_disturbed = true,
                Event::Division(Division::Calm) => {
                    calm.insert(record.who);
                }
                Event::Division(Division::Joining { .. } | Division::Parted { .. }) => {
                    between.changes += 1;
                    changed = Some(record.at);
                }
                Event::Division(Division::Settled { members, parts }) => {
                    if !faults_are_over || !alive.is_subset(&calm) {
                        continue;
                    }
                    let now = State::new(place, members, parts);
                    if let Some(before) = &last {
                        compare(before, &now, &between)?;
                    }
                    let is_disturbed = changed.is_some_and(|at| record.at < at + SEEN);
                    (last, between) = (Some(now), Between { changes: 0, is_disturbed });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn compare(before: &State<'_>, now: &State<'_>, between: &Between) -> Result<(), Violation> {
    if !before.parts.keys().eq(now.parts.keys()) {
        return Ok(());
    }
    let broken = |what: String| Err(Violation::new(NAME, what, [before.place, now.place]));
    let (left, joined): (Vec<_>, Vec<_>) =
        (before.without(now).collect(), now.without(before).collect());
    let is_moved = |(part, (owner, _)): &(&&Name, &(&Name, i64))| now.parts[**part].0 != *owner;
    let moved = before.parts.iter().filter(is_moved).count();
    let own = match (&left[..], &joined[..]) {
        ([], []) => 0,
        ([member], []) => before.owned_by(member),
        ([], [member]) => now.owned_by(member),
        // The states in between are not known.
        _ => return Ok(()),
    };
    let is_changed = left.len() + joined.len() > 0;
    let others = before.members.len().min(now.members.len());
    let more = if is_changed { others + before.parts.len() / 8 } else { 0 };
    if moved > own + more {
        return broken(format!("{moved} parts have moved, {own} of them with a member"));
    }
    if between.is_disturbed || between.changes != left.len() + joined.len() {
        return Ok(());
    }
    let is_given_up = |(part, (owner, token)): &(&&Name, &(&Name, i64))| {
        let (owner_now, token_now) = now.parts[**part];
        owner_now == *owner && token_now != *token
    };
    match before.parts.iter().find(is_given_up) {
        Some((part, (owner, _))) => {
            broken(format!("{owner} has given {part} up, and taken it again"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    const CHECKER: Movement = Movement;

    /// Each part is a letter for its owner, and its token is the number of its place.
    fn settled(members: &[&str], owners: &str) -> Event {
        tokens(members, owners, 0)
    }

    fn tokens(members: &[&str], owners: &str, add: i64) -> Event {
        let members = members.iter().map(|member| (Name::from(*member), 1)).collect();
        let part = |(place, owner): (usize, char)| {
            let token = i64::try_from(place).unwrap() + add;
            (
                Name::from(format!("s{place:02}").as_str()),
                Name::from(owner.to_string().as_str()),
                token,
            )
        };
        Division::Settled { members, parts: owners.chars().enumerate().map(part).collect() }.into()
    }

    fn calm(after: impl IntoIterator<Item = (u64, u32, Event)>) -> Vec<(u64, u32, Event)> {
        let began = [
            (0, 1, Lifecycle::Started.into()),
            (0, 0, Event::FaultsOver),
            (1, 1, Division::Calm.into()),
        ];
        began.into_iter().chain(after).collect()
    }

    fn joining(member: &str) -> Event {
        Division::Joining { member: member.into() }.into()
    }

    #[test]
    fn parts_move_with_a_member_that_comes_or_goes() {
        let (two, three) = (settled(&["a", "b"], "aaabbb"), settled(&["a", "b", "c"], "aacbbc"));
        passes(&CHECKER, calm([(2, 1, two.clone()), (3, 1, three.clone())]));
        passes(&CHECKER, calm([(2, 1, three), (3, 1, two)]));
        // Two others besides, as there are two other members.
        let more = settled(&["a", "b", "c"], "bacbac");
        passes(&CHECKER, calm([(2, 1, settled(&["a", "b"], "aaabbb")), (3, 1, more)]));
    }

    #[test]
    fn too_many_other_parts_are_found() {
        let (two, three) = (settled(&["a", "b"], "aaabbb"), settled(&["a", "b", "c"], "bbcaac"));
        let events = calm([(2, 1, two.clone()), (3, 1, three.clone())]);
        fails(&CHECKER, events, "6 parts have moved, 2 of them", &[3, 4]);
        let events = calm([(2, 1, three.clone()), (3, 1, two.clone())]);
        fails(&CHECKER, events, "6 parts have moved, 2 of them", &[3, 4]);
        // Not before all are calm.
        let other = [(0, 2, Lifecycle::Started.into())];
        passes(&CHECKER, other.into_iter().chain(calm([(2, 1, two), (3, 1, three)])));
    }

    #[test]
    fn without_a_change_nothing_moves() {
        let states = [settled(&["a", "b"], "aabb"), settled(&["a", "b"], "abab")];
        let events = states.into_iter().map(|state| (2, 1, state));
        fails(&CHECKER, calm(events), "2 parts have moved, 0 of them", &[3, 4]);
    }

    #[test]
    fn part_that_is_given_up_and_taken_again_is_found() {
        let states = |events: Vec<(u64, u32, Event)>| {
            let before = (2, 1, settled(&["a"], "aaaa"));
            let after = (9, 1, tokens(&["a", "b"], "aabb", 10));
            calm([before].into_iter().chain(events).chain([after]))
        };
        let joined = || vec![(3, 1, joining("b"))];
        fails(&CHECKER, states(joined()), "a has given s00 up", &[3, 5]);
        // A paused member may act on an earlier change.
        let paused: Event = Lifecycle::Resumed.into();
        passes(&CHECKER, states(joined().into_iter().chain([(4, 1, paused)]).collect()));
        // The loss of a session has the same effect.
        let lost: Event = Hold::Lost { hold: 1 }.into();
        passes(&CHECKER, states(joined().into_iter().chain([(4, 1, lost)]).collect()));
        // A third member may have been there for a while.
        passes(&CHECKER, states(joined().into_iter().chain([(4, 1, joining("c"))]).collect()));
    }
}
