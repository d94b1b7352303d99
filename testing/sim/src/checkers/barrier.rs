use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Barrier, Event, History, Lifecycle, Name, ProcessId};

/// Checks the rounds of a double barrier: the members enter when enough have arrived, and leave
/// when all are ready.
///
/// * No member has [entered](Barrier::Entered) before this number of members have arrived at the
///   entrance.
/// * No member has [left](Barrier::Left) before every member that was inside has arrived at the
///   exit. A member may be missing if it was killed or stopped since it arrived, or its session was
///   expired by force. A member beyond the number of the barrier may be missing too, unless it was
///   inside before the leaving member arrived at the exit.
/// * At the end, all members have entered if enough have arrived, and have left if all members
///   inside have arrived at the exit. Exceptions are members that [gave up](Barrier::Withdrew),
///   were killed, or had their session expired by force.
///
/// For a barrier that members only enter, only the first promise applies. The others are then
/// always kept.
#[derive(Debug, Clone)]
pub struct BarrierEpochs {
    members: usize,
}

impl BarrierEpochs {
    /// Creates a checker of barriers that wait for this number of members.
    #[must_use]
    pub const fn of(members: usize) -> Self {
        Self { members }
    }
}

const NAME: &str = "barrier epochs";

/// One round of one barrier.
#[derive(Debug, Default)]
struct Round<'a> {
    members: BTreeMap<&'a Name, Member>,
}

/// The places of the records of a member.
#[derive(Debug)]
struct Member {
    who: ProcessId,
    entering: usize,
    entered: Option<usize>,
    leaving: Option<usize>,
    left: Option<usize>,
    withdrew: Option<usize>,
}

impl Member {
    /// Returns `true` if something has happened to the process since it arrived that may have put
    /// it out.
    fn may_be_out(&self, doubts: &BTreeMap<ProcessId, usize>) -> bool {
        self.withdrew.is_some() || doubts.get(&self.who).is_some_and(|&doubt| doubt > self.entering)
    }
}

impl Member {
    const fn came(who: ProcessId, entering: usize) -> Self {
        Self { who, entering, entered: None, leaving: None, left: None, withdrew: None }
    }
}

impl Checker for BarrierEpochs {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut rounds: BTreeMap<(&Name, u32), Round<'_>> = BTreeMap::new();
        // The last event of each process that may have put it out.
        let mut doubts: BTreeMap<ProcessId, usize> = BTreeMap::new();
        let mut ended: BTreeMap<ProcessId, usize> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Lifecycle(Lifecycle::Paused) => {
                    doubts.insert(record.who, place);
                }
                Event::Lifecycle(Lifecycle::Killed | Lifecycle::Expired) => {
                    doubts.insert(record.who, place);
                    ended.insert(record.who, place);
                }
                Event::Barrier(Barrier::Entering { barrier, member, round }) => {
                    let round = rounds.entry((barrier, *round)).or_default();
                    round.members.insert(member, Member::came(record.who, place));
                }
                Event::Barrier(Barrier::Entered { barrier, member, round }) => {
                    let round = rounds.entry((barrier, *round)).or_default();
                    round.entered(self.members, member, place)?;
                }
                Event::Barrier(Barrier::Leaving { barrier, member, round }) => {
                    let round = rounds.entry((barrier, *round)).or_default();
                    match round.members.get_mut(member).filter(|inside| inside.entered.is_some()) {
                        Some(inside) => inside.leaving = Some(place),
                        None => {
                            let what = format!("{member} leaves, but was not inside");
                            return Err(Violation::new(NAME, what, vec![place]));
                        }
                    }
                }
                Event::Barrier(Barrier::Left { barrier, member, round }) => {
                    let round = rounds.entry((barrier, *round)).or_default();
                    round.left(self.members, member, place, &doubts)?;
                }
                Event::Barrier(Barrier::Withdrew { barrier, member, round }) => {
                    let round = rounds.entry((barrier, *round)).or_default();
                    if let Some(came) = round.members.get_mut(member) {
                        came.withdrew = Some(place);
                    }
                }
                _ => {}
            }
        }
        rounds.iter().try_for_each(|((barrier, round), all)| {
            all.everybody_passes(self.members, &ended).map_err(|(member, place)| {
                Violation::new(
                    NAME,
                    format!("{member} is stuck at {barrier}, round {round}"),
                    vec![place],
                )
            })
        })
    }
}

impl<'a> Round<'a> {
    /// Notes that a member has entered: everybody must have arrived.
    fn entered(&mut self, members: usize, member: &'a Name, place: usize) -> Result<(), Violation> {
        let came = self.members.len();
        if came < members {
            let mut places: Vec<_> = self.members.values().map(|came| came.entering).collect();
            places.push(place);
            places.sort_unstable();
            let what = format!("{member} has entered when {came} had arrived");
            return Err(Violation::new(NAME, what, places));
        }
        let Some(came) = self.members.get_mut(member) else {
            let what = format!("{member} has entered, but had not arrived");
            return Err(Violation::new(NAME, what, vec![place]));
        };
        came.entered = Some(place);
        Ok(())
    }

    /// Notes that a member has left: everybody must have arrived at the exit, or be out.
    fn left(
        &mut self,
        members: usize,
        member: &'a Name,
        place: usize,
        doubts: &BTreeMap<ProcessId, usize>,
    ) -> Result<(), Violation> {
        let Some(leaving) = self.members.get(member).and_then(|inside| inside.leaving) else {
            let what = format!("{member} has left, but had not arrived at the exit");
            return Err(Violation::new(NAME, what, vec![place]));
        };
        let exact = self.members.len() <= members;
        let inside =
            |other: &&Member| exact || other.entered.is_some_and(|entered| entered < leaving);
        let stays = |other: &&Member| other.leaving.is_none() && !other.may_be_out(doubts);
        if let Some(other) = self.members.values().filter(inside).find(stays) {
            let what = format!("{member} has left when {} had not arrived at the exit", other.who);
            let places = vec![other.entered.unwrap_or(other.entering), place];
            return Err(Violation::new(NAME, what, places));
        }
        if let Some(me) = self.members.get_mut(member) {
            me.left = Some(place);
        }
        Ok(())
    }

    /// Finds a member that is stuck, and the record since which it is.
    fn everybody_passes(
        &self,
        members: usize,
        ended: &BTreeMap<ProcessId, usize>,
    ) -> Result<(), (&'a Name, usize)> {
        let mut there = self.members.iter().filter(|(_, member)| !member.may_be_out(ended));
        let enough = there.clone().count() >= members;
        if enough
            && let Some((name, member)) = there.clone().find(|(_, member)| member.entered.is_none())
        {
            return Err((name, member.entering));
        }
        let all_leave = there.clone().all(|(_, member)| member.leaving.is_some());
        match there.find_map(|(name, member)| {
            Some((name, member.leaving.filter(|_| member.left.is_none())?))
        }) {
            Some((name, leaving)) if all_leave => Err((name, leaving)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    const CHECKER: BarrierEpochs = BarrierEpochs::of(2);

    #[derive(Clone, Copy)]
    enum Step {
        Enter,
        In,
        Leave,
        Out,
        GiveUp,
    }
    use Step::{Enter, GiveUp, In, Leave, Out};

    /// Makes a step of a client, as the member with its number, in the first round.
    fn does(client: u32, step: Step) -> (u64, u32, Event) {
        let (barrier, member, round) = ("b".into(), client.to_string().into(), 1);
        let event = match step {
            Enter => Barrier::Entering { barrier, member, round },
            In => Barrier::Entered { barrier, member, round },
            Leave => Barrier::Leaving { barrier, member, round },
            Out => Barrier::Left { barrier, member, round },
            GiveUp => Barrier::Withdrew { barrier, member, round },
        };
        (0, client, event.into())
    }

    fn all<const N: usize>(steps: [(u32, Step); N]) -> Vec<(u64, u32, Event)> {
        steps.into_iter().map(|(client, step)| does(client, step)).collect()
    }

    #[test]
    fn two_pass_together() {
        let steps =
            [(1, Enter), (2, Enter), (2, In), (1, In), (1, Leave), (2, Leave), (1, Out), (2, Out)];
        passes(&CHECKER, all(steps));
        // The members only enter.
        passes(&CHECKER, all([(1, Enter), (2, Enter), (2, In), (1, In)]));
    }

    #[test]
    fn one_that_enters_alone_is_found() {
        fails(
            &CHECKER,
            all([(1, Enter), (1, In), (2, Enter), (2, In)]),
            "when 1 had arrived",
            &[0, 1],
        );
        let [enter, .., entered] =
            [(1, Enter), (1, Enter), (1, In)].map(|(client, step)| does(client, step));
        fails(&CHECKER, [enter.clone(), enter, entered], "when 1 had arrived", &[1, 2]);
    }

    #[test]
    fn rounds_do_not_count_for_each_other() {
        let (barrier, member, round) = ("b".into(), "2".into(), 2);
        let other = (0, 2, Barrier::Entering { barrier, member, round }.into());
        fails(&CHECKER, [does(1, Enter), other, does(1, In)], "when 1 had arrived", &[0, 2]);
    }

    #[test]
    fn one_that_leaves_early_is_found() {
        let steps =
            [(1, Enter), (2, Enter), (2, In), (1, In), (1, Leave), (1, Out), (2, Leave), (2, Out)];
        fails(&CHECKER, all(steps), "when c2 had not arrived", &[2, 5]);
        // The other member has passed, although its own response is still in flight.
        fails(
            &CHECKER,
            all([(1, Enter), (2, Enter), (1, In), (1, Leave), (1, Out)]),
            "when c2",
            &[1, 4],
        );
    }

    #[test]
    fn the_dead_and_the_stopped_are_not_waited_for() {
        for event in [Lifecycle::Killed, Lifecycle::Paused, Lifecycle::Expired] {
            let mut lines = all([(1, Enter), (2, Enter), (2, In), (1, In), (1, Leave), (1, Out)]);
            lines.insert(5, (0, 2, event.into()));
            passes(&CHECKER, lines);
        }
        let mut before = all([(1, Enter), (2, Enter), (2, In), (1, In), (1, Leave), (1, Out)]);
        before.insert(0, (0, 2, Lifecycle::Paused.into()));
        fails(&CHECKER, before, "when c2", &[3, 6]);
    }

    #[test]
    fn one_too_many_is_waited_for_only_if_it_was_inside() {
        let pair = [(1, Enter), (2, Enter), (2, In), (1, In)];
        let rest = [(1, Leave), (2, Leave), (1, Out), (2, Out)];
        let in_time = [&all(pair)[..], &all([(3, Enter), (3, In)]), &all(rest)].concat();
        fails(&CHECKER, in_time, "when c3", &[5, 8]);
        let late = [&all(pair)[..], &all([(3, Enter)]), &all(rest), &all([(3, In)])].concat();
        passes(&CHECKER, late);
    }

    #[test]
    fn one_that_is_stuck_is_found() {
        fails(&CHECKER, all([(1, Enter), (2, Enter), (2, In)]), "1 is stuck at b, round 1", &[0]);
        let steps = [(1, Enter), (2, Enter), (2, In), (1, In), (1, Leave), (2, Leave), (1, Out)];
        fails(&CHECKER, all(steps), "2 is stuck", &[5]);
    }

    #[test]
    fn one_that_lacks_others_may_wait_for_ever() {
        passes(&CHECKER, all([(1, Enter)]));
        passes(&CHECKER, all([(1, Enter), (2, Enter), (2, GiveUp)]));
        passes(&CHECKER, all([(1, Enter), (2, Enter), (1, In), (2, In), (1, Leave)]));
    }

    #[test]
    fn no_member_skips_a_step() {
        fails(&CHECKER, all([(1, Enter), (2, Enter), (3, In)]), "had not arrived", &[2]);
        fails(&CHECKER, all([(1, Enter), (2, Enter), (1, Leave)]), "was not inside", &[2]);
        fails(&CHECKER, all([(1, Enter), (2, Enter), (1, In), (1, Out)]), "at the exit", &[3]);
    }
}
