//! The holds that clients believed to have, and the times at which they were certain.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Violation;
use crate::History;
use crate::history::{Event, Hold, HoldMode, Lifecycle, Name, Operator, ProcessId, UseOutcome};

/// The tolerance for wrong beliefs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) slack: Duration,
    pub(super) notice: Duration,
}

/// The time after the last fault in which the servers and clients catch up.
const CATCHING_UP: Duration = Duration::from_secs(5);

/// The holds and the uses of one resource.
#[derive(Debug, Default)]
pub(super) struct Resource {
    /// The holds, in the order of their [`Hold::Acquired`].
    pub(super) holds: Vec<Held>,
    /// The uses, in the order in which the resource accepted them.
    pub(super) uses: Vec<AcceptedUse>,
}

/// A hold, from its [`Hold::Acquired`] to its end.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) who: ProcessId,
    pub(super) mode: HoldMode,
    pub(super) token: i64,
    /// The place of the [`Hold::Acquired`].
    pub(super) acquired: usize,
    /// The place of the record that ended the hold, if there is one.
    pub(super) ended: Option<usize>,
    /// The times at which the hold was certain, in order.
    pub(super) certain: Vec<Span>,
    /// `true` if the client may have lost the hold, without knowing it, when it recorded the hold.
    pub(super) may_be_stale: bool,
}

impl Held {
    /// Returns the records that prove the hold.
    pub(super) fn proof(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.acquired).chain(self.ended)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

#[derive(Debug)]
pub(super) struct AcceptedUse {
    pub(super) place: usize,
    pub(super) mode: HoldMode,
    pub(super) token: i64,
    position: u64,
}

/// The events of a process that may make it wrong about its holds.
#[derive(Debug, Default)]
struct Process {
    /// The places of each `Paused` event and of its end.
    pauses: Vec<(usize, Option<usize>)>,
    expiries: Vec<usize>,
    killed: Option<usize>,
}

impl Process {
    fn learn(&mut self, place: usize, event: &Lifecycle) {
        match event {
            Lifecycle::Paused => self.pauses.push((place, None)),
            Lifecycle::Resumed => {
                if let Some((_, end @ None)) = self.pauses.last_mut() {
                    *end = Some(place);
                }
            }
            Lifecycle::Expired => self.expiries.push(place),
            // A process that was closed may also be killed before it is restarted.
            Lifecycle::Killed => drop(self.killed.get_or_insert(place)),
            Lifecycle::Started | Lifecycle::Finished => {}
        }
    }
}

/// One attempt, as far as the history was read.
#[derive(Debug)]
struct Attempt {
    who: ProcessId,
    begun: usize,
    acquired: Option<usize>,
    ended: Option<usize>,
    released: bool,
}

/// The parts of a history that concern holds.
#[derive(Debug, Default)]
struct Reading<'a> {
    attempts: BTreeMap<u64, Attempt>,
    processes: BTreeMap<ProcessId, Process>,
    /// The place of the first seizure of each attempt.
    seizures: BTreeMap<u64, usize>,
    /// The places where an operator deleted the nodes that these transactions created.
    removals: BTreeMap<i64, usize>,
    /// The places where an operator deleted the nodes of these names.
    removed: BTreeMap<&'a str, usize>,
    /// The names of the nodes of holds whose token is not that of the node.
    nodes: BTreeMap<u64, &'a str>,
    /// The tokens of nodes that were deleted in place of other nodes.
    overtaken: BTreeSet<i64>,
    /// The time from which on a client that acquires a hold knows of every deletion during the
    /// faults.
    informed: Option<Duration>,
    /// See [`Exclusion`](super::Exclusion).
    turn_bits: u32,
    /// The place where the first attempt began that got the token of this node. Holds with one node
    /// share every doubt.
    founded: BTreeMap<(&'a Name, i64), usize>,
}

/// Returns the holds in these modes and their uses, by resource.
pub(super) fn resources(
    history: &History,
    checker: &'static str,
    modes: &[HoldMode],
    patience: Patience,
    turn_bits: u32,
) -> Result<BTreeMap<Name, Resource>, Violation> {
    let broken = |what: &str, places: Vec<usize>| Violation::new(checker, what, places);
    let reading = Reading::of(history, turn_bits).map_err(|(what, places)| broken(what, places))?;
    let mut resources: BTreeMap<Name, Resource> = BTreeMap::new();
    for (place, record) in history.records().iter().enumerate() {
        match &record.event {
            Event::Hold(Hold::Acquired { resource, mode, hold, token }) if modes.contains(mode) => {
                let Some(attempt) = reading.attempts.get(hold) else { continue };
                let node = token >> turn_bits;
                let founded =
                    reading.founded.get(&(resource, node)).copied().unwrap_or(attempt.begun);
                let (ended, believed) = reading.belief(history, attempt, place);
                let doubts = reading.doubts(history, attempt, (*hold, node), founded, patience);
                let may_be_stale = doubts.iter().any(|&(doubt, _)| doubt < place);
                let certain = without(believed, doubts.into_iter().map(|(_, span)| span).collect());
                let (who, mode, token) = (attempt.who, *mode, *token);
                let hold = Held { who, mode, token, acquired: place, ended, certain, may_be_stale };
                resources.entry(resource.clone()).or_default().holds.push(hold);
            }
            Event::Hold(Hold::Used { resource, hold, token, outcome }) => {
                let held = reading.attempts.get(hold).and_then(|attempt| attempt.acquired);
                let acquired =
                    held.and_then(|held| Some((held, &history.records().get(held)?.event)));
                let Some((held, Event::Hold(Hold::Acquired { token: with, mode, .. }))) = acquired
                else {
                    return Err(broken("used without a hold", vec![place]));
                };
                if with != token {
                    return Err(broken(
                        "used with another token than that of the hold",
                        vec![held, place],
                    ));
                }
                if let (UseOutcome::Accepted(position), true) = (*outcome, modes.contains(mode)) {
                    let accepted = AcceptedUse { place, mode: *mode, token: *token, position };
                    resources.entry(resource.clone()).or_default().uses.push(accepted);
                }
            }
            _ => {}
        }
    }
    for resource in resources.values_mut() {
        resource.uses.sort_by_key(|accepted| accepted.position);
        let twins = resource.uses.windows(2).find(|pair| pair[0].position == pair[1].position);
        if let Some(twins) = twins {
            return Err(broken(
                "two uses took effect at one place",
                vec![twins[0].place, twins[1].place],
            ));
        }
    }
    Ok(resources)
}

/// A promise that every workload keeps, and the records that break it.
type Broken = (&'static str, Vec<usize>);

impl<'a> Reading<'a> {
    fn of(history: &'a History, turn_bits: u32) -> Result<Self, Broken> {
        let mut reading = Self { turn_bits, ..Self::default() };
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Lifecycle(event) => reading.process(record.who).learn(place, event),
                Event::Operator(Operator::Removed { path, tokens }) => {
                    reading.removals.extend(tokens.iter().map(|token| (*token, place)));
                    reading.removed.extend(path.rsplit('/').next().map(|name| (name, place)));
                }
                Event::Operator(Operator::Overtaken { token }) => {
                    reading.overtaken.insert(*token);
                }
                Event::FaultsOver => reading.informed = Some(record.at + CATCHING_UP),
                Event::Hold(event) => reading.learn(place, record.who, event)?,
                _ => {}
            }
        }
        Ok(reading)
    }

    fn learn(&mut self, place: usize, who: ProcessId, event: &'a Hold) -> Result<(), Broken> {
        match event {
            Hold::Acquiring { hold, .. } => {
                let attempt =
                    Attempt { who, begun: place, acquired: None, ended: None, released: false };
                if let Some(other) = self.attempts.insert(*hold, attempt) {
                    return Err(("two attempts have the same number", vec![other.begun, place]));
                }
            }
            Hold::Acquired { resource, hold, token, .. } => {
                let attempt = self.attempts.get_mut(hold).filter(|attempt| attempt.who == who);
                let Some(attempt) = attempt else {
                    return Err(("held without an attempt", vec![place]));
                };
                if let Some(first) = attempt.acquired.replace(place) {
                    return Err(("one attempt has acquired two holds", vec![first, place]));
                }
                let founded = self
                    .founded
                    .entry((resource, token >> self.turn_bits))
                    .or_insert(attempt.begun);
                *founded = attempt.begun.min(*founded);
            }
            Hold::Lost { hold } | Hold::Releasing { hold } => {
                if let Some(attempt) = self.attempts.get_mut(hold) {
                    attempt.ended.get_or_insert(place);
                }
            }
            Hold::Released { hold } => {
                if let Some(attempt) = self.attempts.get_mut(hold) {
                    attempt.released = true;
                }
            }
            Hold::Node { hold, name } => drop(self.nodes.insert(*hold, &**name)),
            Hold::Seized { hold } => {
                self.seizures.entry(*hold).or_insert(place);
            }
            Hold::Missed { .. } | Hold::Used { .. } => {}
        }
        Ok(())
    }

    fn process(&mut self, who: ProcessId) -> &mut Process {
        self.processes.entry(who).or_default()
    }

    /// Returns the record that ended a hold, and the time from its begin to its end.
    fn belief(
        &self,
        history: &History,
        attempt: &Attempt,
        acquired: usize,
    ) -> (Option<usize>, Span) {
        let killed = self.processes.get(&attempt.who).and_then(|process| process.killed);
        let ended =
            attempt.ended.into_iter().chain(killed.filter(|&killed| killed > acquired)).min();
        (ended, Span { from: at(history, Some(acquired)), to: at(history, ended) })
    }

    /// Returns the times at which the client may have lost the hold without knowing it, each with
    /// its first record.
    fn doubts(
        &self,
        history: &History,
        attempt: &Attempt,
        (hold, token): (u64, i64),
        founded: usize,
        patience: Patience,
    ) -> Vec<(usize, Span)> {
        let mut doubts = Vec::new();
        if let Some(process) = self.processes.get(&attempt.who).filter(|_| !attempt.released) {
            let pauses =
                process.pauses.iter().filter(|&&(_, end)| end.is_none_or(|end| end > founded));
            let span = |from, to| Span { from: at(history, Some(from)), to: at(history, to) };
            doubts.extend(pauses.map(|&(from, to)| (from, span(from, to))));
            let expiries = process.expiries.iter().filter(|&&expiry| expiry > founded);
            let heard = expiries.map(|&expiry| {
                let from = at(history, Some(expiry));
                let notices =
                    doubts.iter().fold(from.saturating_add(patience.notice), |to, (_, pause)| {
                        // The clock of a stopped process stands still.
                        let still = pause.to.saturating_sub(pause.from.max(from));
                        if pause.from < to { to.saturating_add(still) } else { to }
                    });
                (expiry, Span { from, to: notices })
            });
            let heard: Vec<_> = heard.collect();
            doubts.extend(heard);
        }
        if self.overtaken.contains(&token) {
            doubts.push((attempt.begun, Span { from: Duration::ZERO, to: Duration::MAX }));
        }
        // If an operator deletes a node, its holder is excused, but no client that is granted the
        // hold later.
        let is_informed =
            self.informed.is_some_and(|informed| at(history, attempt.acquired) > informed);
        let of_node = self.nodes.get(&hold).and_then(|name| self.removed.get(name));
        let removals = self.removals.get(&token).into_iter().chain(of_node);
        let removals = removals.filter(|_| !is_informed);
        for &taken in self.seizures.get(&hold).into_iter().chain(removals) {
            doubts.push((taken, Span { from: at(history, Some(taken)), to: Duration::MAX }));
        }
        doubts
    }
}

/// Returns the time of a record; without a record, the end of time.
fn at(history: &History, place: Option<usize>) -> Duration {
    place.and_then(|place| history.records().get(place)).map_or(Duration::MAX, |record| record.at)
}

/// Subtracts spans from a span.
fn without(span: Span, mut others: Vec<Span>) -> Vec<Span> {
    others.sort_by_key(|other| other.from);
    let mut rest = Vec::new();
    let mut from = span.from;
    for other in others {
        if other.from > from {
            rest.push(Span { from, to: other.from.min(span.to) });
        }
        from = from.max(other.to);
    }
    rest.push(Span { from, to: span.to });
    rest.retain(|part| part.from < part.to);
    rest
}

/// Finds a moment at which a certain hold conflicts with other certain holds. `conflict` gets the
/// other holds and the new one, and returns the indices of the conflicting ones among the others.
pub(super) fn find_overlap(
    holds: &[Held],
    patience: Patience,
    conflict: impl Fn(&[&Held], &Held) -> Vec<usize>,
) -> Option<(Vec<&Held>, &Held)> {
    let mut spans: Vec<(Span, &Held)> =
        holds.iter().flat_map(|hold| hold.certain.iter().map(move |&span| (span, hold))).collect();
    spans.sort_by_key(|(span, hold)| (span.from, hold.acquired));
    let mut open: Vec<(Span, &Held)> = Vec::new();
    for (span, hold) in spans {
        let lasts = |other: &Span| other.to > span.from.saturating_add(patience.slack);
        open.retain(|(other, _)| lasts(other));
        if !lasts(&span) {
            continue;
        }
        let others: Vec<&Held> = open
            .iter()
            .map(|&(_, other)| other)
            .filter(|other| other.acquired != hold.acquired)
            .collect();
        let against = conflict(&others, hold);
        if !against.is_empty() {
            return Some((against.into_iter().map(|index| others[index]).collect(), hold));
        }
        open.push((span, hold));
    }
    None
}
