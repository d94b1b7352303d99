use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Checker, Violation};
use crate::history::{Event, History, Name, ProcessId};

/// That the rounds of a double barrier that is used again and again are whole, where it says by a token which round it is: a
/// place in a round is held as a [lease](crate::history::Mode::Lease), and the token is the same for all its members.
///
/// * A round has no more members than it is for, and nobody has [entered](Event::Acquired) it before so many had
///   [come](Event::Acquiring).
/// * Nobody has [left](Event::Released) it before every other member of it has [begun to](Event::Releasing), or has
///   [lost](Event::Lost) its place. One that was killed or stopped, or whose session was ended by force, since it came may be
///   missing.
/// * Rounds are one after the other: their tokens grow, but for one that was stopped since it came, and enters on waking what was
///   over long before.
///
/// Somebody who came and gave up, or was killed, counts for a while longer: its node is there until it is deleted, or its
/// session is over.
#[derive(Debug, Clone)]
pub struct BarrierRounds {
    members: usize,
    grace: Duration,
}

impl BarrierRounds {
    /// Of barriers for so many members, one of which counts for so long after it has gone.
    #[must_use]
    pub const fn of(members: usize, grace: Duration) -> Self {
        Self { members, grace }
    }
}

const NAME: &str = "barrier rounds";

/// A place that somebody wants, or has.
#[derive(Debug)]
struct Place<'a> {
    barrier: &'a Name,
    who: ProcessId,
    came: usize,
    entered: Option<(usize, i64)>,
    /// When it said, or learnt, that it is there no longer.
    gone: Option<usize>,
}

impl Checker for BarrierRounds {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let places = places(history);
        let mut doubts = Doubts::default();
        let mut tokens: BTreeMap<&Name, i64> = BTreeMap::new();
        for (at, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Paused | Event::Resumed | Event::Killed | Event::Expired => {
                    doubts.learn(record.who, &record.event, at);
                }
                Event::Acquired { resource, hold, token, .. } => {
                    let latest = tokens.entry(resource).or_insert(*token);
                    let slept = places.get(hold).is_some_and(|place| place.may_be_out(&doubts));
                    if *token < *latest && !slept {
                        let what = format!("{token:#x} is entered after {latest:#x}");
                        return Err(Violation::new(NAME, what, vec![at]));
                    }
                    *latest = (*latest).max(*token);
                    self.is_whole(history, &places, resource, *token, at)?;
                }
                Event::Released { hold } => {
                    let Some(leaver) = places.get(hold) else { continue };
                    let Some((_, token)) = leaver.entered else { continue };
                    let is_inside = |other: &&Place<'_>| {
                        other.is_in(leaver.barrier, token)
                            && other.gone.is_none_or(|gone| gone > at)
                            && !other.may_be_out(&doubts)
                    };
                    if let Some(other) = places.values().find(is_inside) {
                        let entered = other.entered.map_or(other.came, |(entered, _)| entered);
                        let what = format!("{} has left when {} had not begun to", record.who, other.who);
                        return Err(Violation::new(NAME, what, vec![entered.min(at), entered.max(at)]));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl BarrierRounds {
    /// Somebody enters a round: whether enough have come by then, and not too many are in it.
    fn is_whole(
        &self,
        history: &History,
        places: &BTreeMap<u64, Place<'_>>,
        barrier: &Name,
        token: i64,
        at: usize,
    ) -> Result<(), Violation> {
        let time = |place: usize| history.records().get(place).map_or(Duration::ZERO, |record| record.at);
        let inside: Vec<_> = places.values().filter(|place| place.is_in(barrier, token)).collect();
        if inside.len() > self.members {
            let entered = inside.iter().filter_map(|place| Some(place.entered?.0)).collect::<Vec<_>>();
            return Err(Violation::new(NAME, format!("{} are in one round", inside.len()), entered));
        }
        let may_count = |place: &&Place<'_>| {
            place.came < at
                && place.entered.is_none_or(|(_, other)| other == token)
                && place.barrier == barrier
                && place.gone.is_none_or(|gone| gone > at || time(gone) + self.grace >= time(at))
        };
        let there = places.values().filter(may_count).count();
        if there < self.members {
            return Err(Violation::new(NAME, format!("a round is entered when {there} are there"), vec![at]));
        }
        Ok(())
    }
}

impl Place<'_> {
    /// Whether something has happened to its process since it came that may have put it out.
    fn may_be_out(&self, doubts: &Doubts) -> bool {
        doubts.stopped.contains(&self.who)
            || doubts.last.get(&self.who).is_some_and(|doubt| *doubt > self.came)
    }

    fn is_in(&self, barrier: &Name, token: i64) -> bool {
        self.entered.is_some_and(|(_, entered)| entered == token) && self.barrier == barrier
    }
}

/// What has happened to processes.
#[derive(Debug, Default)]
struct Doubts {
    /// Where the last doubtful thing is.
    last: BTreeMap<ProcessId, usize>,
    /// Those that are stopped: how often and for how long, their records do not tell.
    stopped: BTreeSet<ProcessId>,
}

impl Doubts {
    fn learn(&mut self, who: ProcessId, event: &Event, at: usize) {
        self.last.insert(who, at);
        match event {
            Event::Paused => drop(self.stopped.insert(who)),
            Event::Resumed | Event::Killed => drop(self.stopped.remove(&who)),
            _ => {}
        }
    }
}

/// Every place that somebody has come for, with what became of it.
fn places(history: &History) -> BTreeMap<u64, Place<'_>> {
    let mut places: BTreeMap<u64, Place<'_>> = BTreeMap::new();
    for (at, record) in history.records().iter().enumerate() {
        match &record.event {
            Event::Acquiring { resource, hold, .. } => {
                let (barrier, who) = (resource, record.who);
                places.insert(*hold, Place { barrier, who, came: at, entered: None, gone: None });
            }
            Event::Acquired { hold, token, .. } => {
                if let Some(place) = places.get_mut(hold) {
                    place.entered = Some((at, *token));
                }
            }
            Event::Missed { hold } | Event::Lost { hold } | Event::Releasing { hold } => {
                if let Some(place) = places.get_mut(hold) {
                    place.gone.get_or_insert(at);
                }
            }
            Event::Killed => {
                for place in places.values_mut().filter(|place| place.who == record.who) {
                    place.gone.get_or_insert(at);
                }
            }
            _ => {}
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};
    use crate::history::Mode;

    const CHECKER: BarrierRounds = BarrierRounds::of(2, Duration::from_millis(100));

    #[derive(Clone, Copy)]
    enum Step {
        Come,
        In(i64),
        Go,
        Out,
        GiveUp,
        Lose,
    }
    use Step::{Come, GiveUp, Go, In, Lose, Out};

    /// What a client does at a time; its number is that of its only hold too.
    fn all<const N: usize>(steps: [(u64, u32, Step); N]) -> Vec<(u64, u32, Event)> {
        let event = |client: u32, step| {
            let (resource, mode, hold) = (Name::from("b"), Mode::Lease, u64::from(client));
            match step {
                Come => Event::Acquiring { resource, mode, hold },
                In(token) => Event::Acquired { resource, mode, hold, token },
                Go => Event::Releasing { hold },
                Out => Event::Released { hold },
                GiveUp => Event::Missed { hold },
                Lose => Event::Lost { hold },
            }
        };
        steps.into_iter().map(|(at, client, step)| (at, client, event(client, step))).collect()
    }

    #[test]
    fn whole_rounds_follow_each_other() {
        passes(
            &CHECKER,
            all([
                (0, 1, Come),
                (0, 2, Come),
                (1, 2, In(7)),
                (1, 1, In(7)),
                (2, 1, Go),
                (3, 2, Go),
                (4, 1, Out),
                (4, 3, Come),
                (5, 2, Out),
                (5, 4, Come),
                (6, 3, In(9)),
                (6, 4, In(9)),
            ]),
        );
    }

    #[test]
    fn one_that_enters_alone_is_found() {
        fails(&CHECKER, all([(0, 1, Come), (1, 1, In(7)), (2, 2, Come)]), "when 1 are there", &[1]);
        // The other one had given up long before; or only just.
        let gave_up = |at| all([(0, 2, Come), (1, 2, GiveUp), (at, 1, Come), (at, 1, In(7))]);
        fails(&CHECKER, gave_up(200), "when 1 are there", &[3]);
        passes(&CHECKER, gave_up(50));
        // Those of the round before do not count.
        let round = [(0, 1, Come), (0, 2, Come), (1, 1, In(7)), (1, 2, In(7)), (2, 3, Come), (3, 3, In(8))];
        fails(&CHECKER, all(round), "when 1 are there", &[5]);
    }

    #[test]
    fn one_too_many_is_found() {
        let three = [(0, 1, Come), (0, 2, Come), (0, 3, Come), (1, 1, In(7)), (1, 2, In(7)), (1, 3, In(7))];
        fails(&CHECKER, all(three), "3 are in one round", &[3, 4, 5]);
    }

    #[test]
    fn one_that_leaves_early_is_found() {
        let leaves = |other| {
            all([
                (0, 1, Come),
                (0, 2, Come),
                (1, 1, In(7)),
                (1, 2, In(7)),
                (2, 1, Go),
                other,
                (3, 1, Out),
                (4, 2, Go),
            ])
        };
        fails(&CHECKER, leaves((2, 3, Come)), "when c2 had not begun to", &[3, 6]);
        passes(&CHECKER, leaves((2, 2, Lose)));
        let mut killed = leaves((2, 3, Come));
        killed[5].2 = Event::Killed;
        killed[5].1 = 2;
        passes(&CHECKER, killed);
        // It is stopped, and was when it came: for moments at first, then for longer than its session lasts.
        let mut stopped = leaves((2, 3, Come));
        stopped.insert(0, (0, 2, Event::Paused));
        passes(&CHECKER, stopped.clone());
        stopped.insert(1, (0, 2, Event::Resumed));
        fails(&CHECKER, stopped, "when c2 had not begun to", &[5, 8]);
        // Nor while one has not even seen that the round has begun.
        let unseen = [(0, 1, Come), (0, 2, Come), (1, 1, In(7)), (2, 1, Go), (3, 1, Out), (4, 2, In(7))];
        fails(&CHECKER, all(unseen), "when c2 had not begun to", &[4, 5]);
    }

    #[test]
    fn an_old_round_is_not_entered_again() {
        let mut both = all([(0, 1, Come), (0, 2, Come), (0, 3, Come), (1, 1, In(9)), (2, 2, In(7))]);
        fails(&CHECKER, both.clone(), "0x7 is entered after 0x9", &[4]);
        // It slept meanwhile.
        both.insert(3, (1, 2, Event::Paused));
        passes(&CHECKER, both);
    }
}
