use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Checker, Violation};
use crate::history::{Event, History, Hold, Lifecycle, Name, ProcessId};

/// Checks that the rounds of a repeatedly used double barrier are complete, where a token
/// identifies the round. A place in a round is held as a
/// [permit](crate::history::HoldMode::Permit), and all members of a round have the same token.
///
/// * A round has at most the number of members that the barrier is for. No client has
///   [entered](Hold::Acquired) before that number of clients had [arrived](Hold::Acquiring).
/// * No client has [left](Hold::Released) a round before every other member has [begun to
///   leave](Hold::Releasing), or has [lost](Hold::Lost) its place. A member may be missing if it
///   was killed or stopped since it arrived, or its session was expired by force.
/// * Rounds follow each other: their tokens grow. The exception is a client that was stopped since
///   it arrived, which may enter a round that was over long before.
///
/// A client that arrived and then gave up, or was killed, still counts for a while: its node exists
/// until it is deleted, or its session is over.
#[derive(Debug, Clone)]
pub struct BarrierRounds {
    members: usize,
    grace: Duration,
}

impl BarrierRounds {
    /// Creates a checker of barriers for this number of members. A client that has gone still
    /// counts for the time `grace`.
    #[must_use]
    pub const fn of(members: usize, grace: Duration) -> Self {
        Self { members, grace }
    }
}

const NAME: &str = "barrier rounds";

/// A place that a client wants, or has.
#[derive(Debug)]
struct Place<'a> {
    barrier: &'a Name,
    who: ProcessId,
    came: usize,
    entered: Option<(usize, i64)>,
    /// The record in which it said, or learnt, that it has left.
    gone: Option<usize>,
}

impl Checker for BarrierRounds {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let places = places(history);
        let mut doubts = Doubts::default();
        let mut tokens: BTreeMap<&Name, i64> = BTreeMap::new();
        for (at, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Lifecycle(event) => doubts.learn(record.who, event, at),
                Event::Hold(Hold::Acquired { resource, hold, token, .. }) => {
                    let latest = tokens.entry(resource).or_insert(*token);
                    let slept = places.get(hold).is_some_and(|place| place.may_be_out(&doubts));
                    if *token < *latest && !slept {
                        let what = format!("{token:#x} is entered after {latest:#x}");
                        return Err(Violation::new(NAME, what, vec![at]));
                    }
                    *latest = (*latest).max(*token);
                    self.is_whole(history, &places, resource, *token, at)?;
                }
                Event::Hold(Hold::Released { hold }) => {
                    let Some(leaver) = places.get(hold) else { continue };
                    let Some((_, token)) = leaver.entered else { continue };
                    let is_inside = |other: &&Place<'_>| {
                        other.is_in(leaver.barrier, token)
                            && other.gone.is_none_or(|gone| gone > at)
                            && !other.may_be_out(&doubts)
                    };
                    if let Some(other) = places.values().find(is_inside) {
                        let entered = other.entered.map_or(other.came, |(entered, _)| entered);
                        let what = format!(
                            "{} has left when {} had not begun to leave",
                            record.who, other.who
                        );
                        return Err(Violation::new(
                            NAME,
                            what,
                            vec![entered.min(at), entered.max(at)],
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl BarrierRounds {
    /// Checks a client that enters a round: enough clients must have arrived, and not too many may
    /// be inside.
    fn is_whole(
        &self,
        history: &History,
        places: &BTreeMap<u64, Place<'_>>,
        barrier: &Name,
        token: i64,
        at: usize,
    ) -> Result<(), Violation> {
        let time =
            |place: usize| history.records().get(place).map_or(Duration::ZERO, |record| record.at);
        let inside: Vec<_> = places.values().filter(|place| place.is_in(barrier, token)).collect();
        if inside.len() > self.members {
            let entered =
                inside.iter().filter_map(|place| Some(place.entered?.0)).collect::<Vec<_>>();
            return Err(Violation::new(
                NAME,
                format!("{} members are in one round", inside.len()),
                entered,
            ));
        }
        let may_count = |place: &&Place<'_>| {
            place.came < at
                && place.entered.is_none_or(|(_, other)| other == token)
                && place.barrier == barrier
                && place.gone.is_none_or(|gone| gone > at || time(gone) + self.grace >= time(at))
        };
        let there = places.values().filter(may_count).count();
        if there < self.members {
            return Err(Violation::new(
                NAME,
                format!("a round is entered when {there} had arrived"),
                vec![at],
            ));
        }
        Ok(())
    }
}

impl Place<'_> {
    /// Returns `true` if something has happened to the process since it arrived that may have ended
    /// its place.
    fn may_be_out(&self, doubts: &Doubts) -> bool {
        doubts.stopped.contains(&self.who)
            || doubts.last.get(&self.who).is_some_and(|doubt| *doubt > self.came)
    }

    fn is_in(&self, barrier: &Name, token: i64) -> bool {
        self.entered.is_some_and(|(_, entered)| entered == token) && self.barrier == barrier
    }
}

/// The events of processes that make their places doubtful.
#[derive(Debug, Default)]
struct Doubts {
    /// The place of the last such event.
    last: BTreeMap<ProcessId, usize>,
    /// The stopped processes. The records do not tell how often and for how long they are stopped.
    stopped: BTreeSet<ProcessId>,
}

impl Doubts {
    fn learn(&mut self, who: ProcessId, event: &Lifecycle, at: usize) {
        match event {
            Lifecycle::Started | Lifecycle::Finished => return,
            Lifecycle::Paused => drop(self.stopped.insert(who)),
            Lifecycle::Resumed | Lifecycle::Killed => drop(self.stopped.remove(&who)),
            Lifecycle::Expired => {}
        }
        self.last.insert(who, at);
    }
}

/// Returns every place that a client has arrived for, and its end.
fn places(history: &History) -> BTreeMap<u64, Place<'_>> {
    let mut places: BTreeMap<u64, Place<'_>> = BTreeMap::new();
    for (at, record) in history.records().iter().enumerate() {
        match &record.event {
            Event::Hold(Hold::Acquiring { resource, hold, .. }) => {
                let (barrier, who) = (resource, record.who);
                places.insert(*hold, Place { barrier, who, came: at, entered: None, gone: None });
            }
            Event::Hold(Hold::Acquired { hold, token, .. }) => {
                if let Some(place) = places.get_mut(hold) {
                    place.entered = Some((at, *token));
                }
            }
            Event::Hold(Hold::Missed { hold } | Hold::Lost { hold } | Hold::Releasing { hold }) => {
                if let Some(place) = places.get_mut(hold) {
                    place.gone.get_or_insert(at);
                }
            }
            Event::Lifecycle(Lifecycle::Killed) => {
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
    use crate::history::HoldMode;

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

    /// Makes events of steps. The number of a client is also that of its only hold.
    fn all<const N: usize>(steps: [(u64, u32, Step); N]) -> Vec<(u64, u32, Event)> {
        let event = |client: u32, step| {
            let (resource, mode, hold) = (Name::from("b"), HoldMode::Permit, u64::from(client));
            match step {
                Come => Hold::Acquiring { resource, mode, hold },
                In(token) => Hold::Acquired { resource, mode, hold, token },
                Go => Hold::Releasing { hold },
                Out => Hold::Released { hold },
                GiveUp => Hold::Missed { hold },
                Lose => Hold::Lost { hold },
            }
            .into()
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
        fails(
            &CHECKER,
            all([(0, 1, Come), (1, 1, In(7)), (2, 2, Come)]),
            "when 1 had arrived",
            &[1],
        );
        // The other client gave up long before, or just before.
        let gave_up = |at| all([(0, 2, Come), (1, 2, GiveUp), (at, 1, Come), (at, 1, In(7))]);
        fails(&CHECKER, gave_up(200), "when 1 had arrived", &[3]);
        passes(&CHECKER, gave_up(50));
        // Members of the previous round do not count.
        let round =
            [(0, 1, Come), (0, 2, Come), (1, 1, In(7)), (1, 2, In(7)), (2, 3, Come), (3, 3, In(8))];
        fails(&CHECKER, all(round), "when 1 had arrived", &[5]);
    }

    #[test]
    fn one_too_many_is_found() {
        let three =
            [(0, 1, Come), (0, 2, Come), (0, 3, Come), (1, 1, In(7)), (1, 2, In(7)), (1, 3, In(7))];
        fails(&CHECKER, all(three), "3 members are in one round", &[3, 4, 5]);
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
        killed[5].2 = Lifecycle::Killed.into();
        killed[5].1 = 2;
        passes(&CHECKER, killed);
        // The client is stopped, and was already stopped when it arrived: for moments at first,
        // then for longer than its session lasts.
        let mut stopped = leaves((2, 3, Come));
        stopped.insert(0, (0, 2, Lifecycle::Paused.into()));
        passes(&CHECKER, stopped.clone());
        stopped.insert(1, (0, 2, Lifecycle::Resumed.into()));
        fails(&CHECKER, stopped, "when c2 had not begun to", &[5, 8]);
        // A member that has not seen the begin of the round has not left either.
        let unseen =
            [(0, 1, Come), (0, 2, Come), (1, 1, In(7)), (2, 1, Go), (3, 1, Out), (4, 2, In(7))];
        fails(&CHECKER, all(unseen), "when c2 had not begun to", &[4, 5]);
    }

    #[test]
    fn an_old_round_is_not_entered_again() {
        let mut both =
            all([(0, 1, Come), (0, 2, Come), (0, 3, Come), (1, 1, In(9)), (2, 2, In(7))]);
        fails(&CHECKER, both.clone(), "0x7 is entered after 0x9", &[4]);
        // The client was stopped in between.
        both.insert(3, (1, 2, Lifecycle::Paused.into()));
        passes(&CHECKER, both);
    }
}
