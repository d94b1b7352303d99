use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Event, History, Name, ProcessId};

/// That nobody passes a double barrier alone: each round of a barrier is entered when enough have come, and left
/// when all are ready.
///
/// * Nobody has [entered](Event::Entered) before so many members have come to the entrance.
/// * Nobody has [left](Event::Left) before every member that was inside has come to the exit. One that was killed or stopped, or
///   whose session was ended by force, since it came may be missing; so may one that came in addition to those the barrier waits for,
///   unless it was inside before the one that leaves came to the exit.
/// * In the end everybody has entered, if enough have come, and left, if all that were inside have come to the exit: except
///   those that [gave up](Event::Withdrew), were killed, or had their session ended by force.
///
/// Only the first holds for a barrier that is only entered; the others say nothing there.
#[derive(Debug, Clone)]
pub struct BarrierEpochs {
    members: usize,
}

impl BarrierEpochs {
    /// Of barriers that wait for so many members.
    #[must_use]
    pub const fn of(members: usize) -> Self {
        Self { members }
    }
}

const NAME: &str = "barrier epochs";

/// One use of one barrier.
#[derive(Debug, Default)]
struct Round<'a> {
    members: BTreeMap<&'a Name, Member>,
}

/// Where the records of a member are.
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
    /// Whether something has happened to its process since it came that may have put it out.
    fn may_be_out(&self, doubts: &BTreeMap<ProcessId, usize>) -> bool {
        self.withdrew.is_some() || doubts.get(&self.who).is_some_and(|&doubt| doubt > self.entering)
    }
}

impl Checker for BarrierEpochs {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut rounds: BTreeMap<(&Name, u32), Round<'_>> = BTreeMap::new();
        // The last doubtful thing that has happened to each process.
        let mut doubts: BTreeMap<ProcessId, usize> = BTreeMap::new();
        let mut ended: BTreeMap<ProcessId, usize> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            let broken = |what: String, places: Vec<usize>| Err(Violation::new(NAME, what, places));
            match &record.event {
                Event::Paused => {
                    doubts.insert(record.who, place);
                }
                Event::Killed | Event::Expired => {
                    doubts.insert(record.who, place);
                    ended.insert(record.who, place);
                }
                Event::Entering { barrier, member, round } => {
                    let round = rounds.entry((barrier, *round)).or_default();
                    let who = record.who;
                    let came = Member {
                        who,
                        entering: place,
                        entered: None,
                        leaving: None,
                        left: None,
                        withdrew: None,
                    };
                    round.members.insert(member, came);
                }
                Event::Entered { barrier, member, round } => {
                    let all = rounds.entry((barrier, *round)).or_default();
                    if all.members.len() < self.members {
                        let mut places: Vec<usize> = all.members.values().map(|came| came.entering).collect();
                        places.push(place);
                        places.sort_unstable();
                        let came = all.members.len();
                        return broken(format!("{member} has entered when {came} had come"), places);
                    }
                    match all.members.get_mut(member) {
                        Some(came) => came.entered = Some(place),
                        None => return broken(format!("{member} has entered and had not come"), vec![place]),
                    }
                }
                Event::Leaving { barrier, member, round } => {
                    let all = rounds.entry((barrier, *round)).or_default();
                    match all.members.get_mut(member).filter(|inside| inside.entered.is_some()) {
                        Some(inside) => inside.leaving = Some(place),
                        None => return broken(format!("{member} leaves and was not inside"), vec![place]),
                    }
                }
                Event::Left { barrier, member, round } => {
                    let all = rounds.entry((barrier, *round)).or_default();
                    let Some(leaving) = all.members.get(member).and_then(|inside| inside.leaving) else {
                        return broken(
                            format!("{member} has left and had not come to the exit"),
                            vec![place],
                        );
                    };
                    let exact = all.members.len() <= self.members;
                    let inside =
                        |other: &&Member| exact || other.entered.is_some_and(|entered| entered < leaving);
                    let stays = |other: &&Member| other.leaving.is_none() && !other.may_be_out(&doubts);
                    if let Some(other) = all.members.values().filter(inside).find(stays) {
                        let why = format!("{member} has left when {} had not come to the exit", other.who);
                        return broken(why, vec![other.entered.unwrap_or(other.entering), place]);
                    }
                    if let Some(me) = all.members.get_mut(member) {
                        me.left = Some(place);
                    }
                }
                Event::Withdrew { barrier, member, round } => {
                    if let Some(came) = rounds.entry((barrier, *round)).or_default().members.get_mut(member) {
                        came.withdrew = Some(place);
                    }
                }
                _ => {}
            }
        }
        rounds.iter().try_for_each(|((barrier, round), all)| {
            all.everybody_passes(self.members, &ended).map_err(|(member, place)| {
                Violation::new(NAME, format!("{member} is stuck at {barrier}, round {round}"), vec![place])
            })
        })
    }
}

impl<'a> Round<'a> {
    /// Or who does not, and since when.
    fn everybody_passes(
        &self,
        members: usize,
        ended: &BTreeMap<ProcessId, usize>,
    ) -> Result<(), (&'a Name, usize)> {
        let mut there = self.members.iter().filter(|(_, member)| !member.may_be_out(ended));
        let enough = there.clone().count() >= members;
        if enough && let Some((name, member)) = there.clone().find(|(_, member)| member.entered.is_none()) {
            return Err((name, member.entering));
        }
        let all_leave = there.clone().all(|(_, member)| member.leaving.is_some());
        match there.find_map(|(name, member)| Some((name, member.leaving.filter(|_| member.left.is_none())?)))
        {
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

    /// What a client does as the member of its number in the first round.
    fn does(client: u32, step: Step) -> (u64, u32, Event) {
        let (barrier, member, round) = ("b".into(), client.to_string().into(), 1);
        let event = match step {
            Enter => Event::Entering { barrier, member, round },
            In => Event::Entered { barrier, member, round },
            Leave => Event::Leaving { barrier, member, round },
            Out => Event::Left { barrier, member, round },
            GiveUp => Event::Withdrew { barrier, member, round },
        };
        (0, client, event)
    }

    fn all<const N: usize>(steps: [(u32, Step); N]) -> Vec<(u64, u32, Event)> {
        steps.into_iter().map(|(client, step)| does(client, step)).collect()
    }

    #[test]
    fn two_pass_together() {
        let steps = [(1, Enter), (2, Enter), (2, In), (1, In), (1, Leave), (2, Leave), (1, Out), (2, Out)];
        passes(&CHECKER, all(steps));
        // Only the entrance.
        passes(&CHECKER, all([(1, Enter), (2, Enter), (2, In), (1, In)]));
    }

    #[test]
    fn one_that_enters_alone_is_found() {
        fails(&CHECKER, all([(1, Enter), (1, In), (2, Enter), (2, In)]), "when 1 had come", &[0, 1]);
        let [enter, .., entered] = [(1, Enter), (1, Enter), (1, In)].map(|(client, step)| does(client, step));
        fails(&CHECKER, [enter.clone(), enter, entered], "when 1 had come", &[1, 2]);
    }

    #[test]
    fn rounds_do_not_count_for_each_other() {
        let (barrier, member, round) = ("b".into(), "2".into(), 2);
        let other = (0, 2, Event::Entering { barrier, member, round });
        fails(&CHECKER, [does(1, Enter), other, does(1, In)], "when 1 had come", &[0, 2]);
    }

    #[test]
    fn one_that_leaves_early_is_found() {
        let steps = [(1, Enter), (2, Enter), (2, In), (1, In), (1, Leave), (1, Out), (2, Leave), (2, Out)];
        fails(&CHECKER, all(steps), "when c2 had not come", &[2, 5]);
        // It has passed, although its own answer is still on its way.
        fails(&CHECKER, all([(1, Enter), (2, Enter), (1, In), (1, Leave), (1, Out)]), "when c2", &[1, 4]);
    }

    #[test]
    fn the_dead_and_the_stopped_are_not_waited_for() {
        for event in [Event::Killed, Event::Paused, Event::Expired] {
            let mut lines = all([(1, Enter), (2, Enter), (2, In), (1, In), (1, Leave), (1, Out)]);
            lines.insert(5, (0, 2, event));
            passes(&CHECKER, lines);
        }
        let mut before = all([(1, Enter), (2, Enter), (2, In), (1, In), (1, Leave), (1, Out)]);
        before.insert(0, (0, 2, Event::Paused));
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
    fn nobody_skips_a_step() {
        fails(&CHECKER, all([(1, Enter), (2, Enter), (3, In)]), "had not come", &[2]);
        fails(&CHECKER, all([(1, Enter), (2, Enter), (1, Leave)]), "was not inside", &[2]);
        fails(&CHECKER, all([(1, Enter), (2, Enter), (1, In), (1, Out)]), "to the exit", &[3]);
    }
}
