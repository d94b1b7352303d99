//! Who believed when to hold what, and with how much right.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Violation;
use crate::History;
use crate::history::{Event, Mode, Name, ProcessId, ResourceUse};

/// How long beliefs may be wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) slack: Duration,
    pub(super) notice: Duration,
}

/// The holds of one resource.
#[derive(Debug, Default)]
pub(super) struct Resource {
    /// In the order of their [`Event::Acquired`].
    pub(super) holds: Vec<Hold>,
    /// In the order in which the resource accepted them.
    pub(super) uses: Vec<AcceptedUse>,
}

/// From an [`Event::Acquired`] to its end.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) who: ProcessId,
    pub(super) mode: Mode,
    pub(super) token: i64,
    /// The place of the [`Event::Acquired`].
    pub(super) acquired: usize,
    /// The place of what ended the belief, if anything did.
    pub(super) ended: Option<usize>,
    /// When the belief was founded, in order.
    pub(super) certain: Vec<Span>,
    /// Whether it could have been lost already, without the client's knowing, when it was written down.
    pub(super) may_be_stale: bool,
}

impl Hold {
    /// The records that prove the belief.
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
    pub(super) mode: Mode,
    pub(super) token: i64,
    position: u64,
}

/// What happened to a process that may make it wrong about what it holds.
#[derive(Debug, Default)]
struct Process {
    /// Places of Paused, and of what ended it.
    pauses: Vec<(usize, Option<usize>)>,
    expiries: Vec<usize>,
    killed: Option<usize>,
}

/// One attempt, as far as it is read.
#[derive(Debug)]
struct Attempt {
    who: ProcessId,
    begun: usize,
    acquired: Option<usize>,
    ended: Option<usize>,
    released: bool,
}

/// What of a history bears on holds.
#[derive(Debug, Default)]
struct Reading<'a> {
    attempts: BTreeMap<u64, Attempt>,
    processes: BTreeMap<ProcessId, Process>,
    /// The first of each attempt.
    seizures: BTreeMap<u64, usize>,
    /// Where an operator has deleted what was created by these transactions.
    removals: BTreeMap<i64, usize>,
    /// Where an operator has deleted the node of each name.
    removed: BTreeMap<&'a str, usize>,
    /// The names of nodes that things are held by, where their token is not that of the node.
    nodes: BTreeMap<u64, &'a str>,
    /// Tokens of nodes that were deleted in place of others.
    overtaken: BTreeSet<i64>,
    /// When the first attempt was begun that has come to this token: holds with one token have one node, and what is
    /// doubtful about one is doubtful about all.
    founded: BTreeMap<(&'a Name, i64), usize>,
}

/// The holds in these modes and their uses, by resource.
pub(super) fn resources(
    history: &History,
    checker: &'static str,
    modes: &[Mode],
    patience: Patience,
) -> Result<BTreeMap<Name, Resource>, Violation> {
    let broken = |what: &str, places: Vec<usize>| Violation::new(checker, what, places);
    let reading = Reading::of(history).map_err(|(what, places)| broken(what, places))?;
    let mut resources: BTreeMap<Name, Resource> = BTreeMap::new();
    for (place, record) in history.records().iter().enumerate() {
        match &record.event {
            Event::Acquired { resource, mode, hold, token } if modes.contains(mode) => {
                let Some(attempt) = reading.attempts.get(hold) else { continue };
                let founded = reading.founded.get(&(resource, *token)).copied().unwrap_or(attempt.begun);
                let (ended, believed) = reading.belief(history, attempt, place);
                let doubts = reading.doubts(history, attempt, (*hold, *token), founded, patience);
                let may_be_stale = doubts.iter().any(|&(doubt, _)| doubt < place);
                let certain = without(believed, doubts.into_iter().map(|(_, span)| span).collect());
                let (who, mode, token) = (attempt.who, *mode, *token);
                let hold = Hold { who, mode, token, acquired: place, ended, certain, may_be_stale };
                resources.entry(resource.clone()).or_default().holds.push(hold);
            }
            Event::Used { resource, hold, token, outcome } => {
                let held = reading.attempts.get(hold).and_then(|attempt| attempt.acquired);
                let acquired = held.and_then(|held| Some((held, &history.records().get(held)?.event)));
                let Some((held, Event::Acquired { token: with, mode, .. })) = acquired else {
                    return Err(broken("used without being held", vec![place]));
                };
                if with != token {
                    return Err(broken("used with a token that is not that of the hold", vec![held, place]));
                }
                if let (ResourceUse::Accepted(position), true) = (*outcome, modes.contains(mode)) {
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
                "two uses took effect at the same place",
                vec![twins[0].place, twins[1].place],
            ));
        }
    }
    Ok(resources)
}

impl<'a> Reading<'a> {
    fn of(history: &'a History) -> Result<Self, (&'static str, Vec<usize>)> {
        let mut reading = Self::default();
        for (place, record) in history.records().iter().enumerate() {
            let who = record.who;
            match &record.event {
                Event::Paused => reading.process(who).pauses.push((place, None)),
                Event::Resumed => {
                    if let Some((_, end @ None)) = reading.process(who).pauses.last_mut() {
                        *end = Some(place);
                    }
                }
                Event::Expired => reading.process(who).expiries.push(place),
                Event::Killed => reading.process(who).killed = Some(place),
                Event::Removed { path, tokens } => {
                    reading.removals.extend(tokens.iter().map(|token| (*token, place)));
                    reading.removed.extend(path.rsplit('/').next().map(|name| (name, place)));
                }
                Event::Node { hold, name } => drop(reading.nodes.insert(*hold, &**name)),
                Event::Overtaken { token } => drop(reading.overtaken.insert(*token)),
                Event::Seized { hold } => {
                    reading.seizures.entry(*hold).or_insert(place);
                }
                Event::Acquiring { hold, .. } => {
                    let attempt = Attempt { who, begun: place, acquired: None, ended: None, released: false };
                    if let Some(other) = reading.attempts.insert(*hold, attempt) {
                        return Err(("two attempts have the same number", vec![other.begun, place]));
                    }
                }
                Event::Acquired { resource, hold, token, .. } => {
                    let attempt = reading.attempts.get_mut(hold).filter(|attempt| attempt.who == who);
                    let Some(attempt) = attempt else { return Err(("held without an attempt", vec![place])) };
                    if let Some(first) = attempt.acquired.replace(place) {
                        return Err(("what one attempt has got is held twice", vec![first, place]));
                    }
                    let founded = reading.founded.entry((resource, *token)).or_insert(attempt.begun);
                    *founded = attempt.begun.min(*founded);
                }
                Event::Lost { hold } | Event::Releasing { hold } => {
                    if let Some(attempt) = reading.attempts.get_mut(hold) {
                        attempt.ended.get_or_insert(place);
                    }
                }
                Event::Released { hold } => {
                    if let Some(attempt) = reading.attempts.get_mut(hold) {
                        attempt.released = true;
                    }
                }
                _ => {}
            }
        }
        Ok(reading)
    }

    fn process(&mut self, who: ProcessId) -> &mut Process {
        self.processes.entry(who).or_default()
    }

    /// What ended a belief, and when it was had.
    fn belief(&self, history: &History, attempt: &Attempt, acquired: usize) -> (Option<usize>, Span) {
        let killed = self.processes.get(&attempt.who).and_then(|process| process.killed);
        let ended = attempt.ended.into_iter().chain(killed.filter(|&killed| killed > acquired)).min();
        (ended, Span { from: at(history, Some(acquired)), to: at(history, ended) })
    }

    /// When a hold may have been lost without the client's knowing, each from a record on.
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
            let pauses = process.pauses.iter().filter(|&&(_, end)| end.is_none_or(|end| end > founded));
            let span = |from, to| Span { from: at(history, Some(from)), to: at(history, to) };
            doubts.extend(pauses.map(|&(from, to)| (from, span(from, to))));
            let expiries = process.expiries.iter().filter(|&&expiry| expiry > founded);
            let heard = expiries.map(|&expiry| {
                let from = at(history, Some(expiry));
                let notices = doubts.iter().fold(from.saturating_add(patience.notice), |to, (_, pause)| {
                    // Its clock stands still.
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
        let of_node = self.nodes.get(&hold).and_then(|name| self.removed.get(name));
        for &taken in self.seizures.get(&hold).into_iter().chain(self.removals.get(&token)).chain(of_node) {
            doubts.push((taken, Span { from: at(history, Some(taken)), to: Duration::MAX }));
        }
        doubts
    }
}

/// When a record was written; without one, never.
fn at(history: &History, place: Option<usize>) -> Duration {
    place.and_then(|place| history.records().get(place)).map_or(Duration::MAX, |record| record.at)
}

/// A span without others.
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

/// Finds a moment at which a hold is certain that may not be, because of others that are certain then too. `conflict` gets
/// those others and the new one, and returns the places among the others of those that stand against it.
pub(super) fn find_overlap(
    holds: &[Hold],
    patience: Patience,
    conflict: impl Fn(&[&Hold], &Hold) -> Vec<usize>,
) -> Option<(Vec<&Hold>, &Hold)> {
    let mut spans: Vec<(Span, &Hold)> =
        holds.iter().flat_map(|hold| hold.certain.iter().map(move |&span| (span, hold))).collect();
    spans.sort_by_key(|(span, hold)| (span.from, hold.acquired));
    let mut open: Vec<(Span, &Hold)> = Vec::new();
    for (span, hold) in spans {
        let lasts = |other: &Span| other.to > span.from.saturating_add(patience.slack);
        open.retain(|(other, _)| lasts(other));
        if !lasts(&span) {
            continue;
        }
        let others: Vec<&Hold> =
            open.iter().map(|&(_, other)| other).filter(|other| other.acquired != hold.acquired).collect();
        let against = conflict(&others, hold);
        if !against.is_empty() {
            return Some((against.into_iter().map(|index| others[index]).collect(), hold));
        }
        open.push((span, hold));
    }
    None
}
