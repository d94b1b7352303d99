use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, Violation};
use crate::history::{Doubt, Event, History, Name, ProcessId, Transact};

/// Checks strict serializability and opacity of transactions over several nodes, of which none
/// exists at first.
///
/// * Committed transactions that write, or are confirmed, have taken effect one after the other:
///   those that write at a moment between their last attempt and their return, the others between
///   their call and their return. Each has read what the ones before it have written.
/// * Every attempt, also one that was not committed, has read one state between two of them. That
///   state is not older than the last transaction that the same process has committed.
/// * An outcome is [unknown](Transact::Unknown) only for a reason.
///
/// A transaction with an unknown outcome, or of a process that was killed, may have taken effect at
/// any time after its last attempt.
///
/// # Algorithm
/// The search is exact: it keeps every possible state, which consists of the values and of the open
/// transactions that have taken effect, and tries all orders of the open ones whenever one of them
/// returns. A transaction that writes nothing takes effect as soon as it can. With more than
/// [`MOST_STATES`](Self::MOST_STATES) states the checker gives up, which is a violation too: about
/// a dozen transactions that overlap are no problem.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Serializable;

impl Serializable {
    /// The maximum number of states that the checker keeps at a time.
    pub const MOST_STATES: usize = 20_000;
}

const NAME: &str = "serializability";

type State = BTreeMap<Name, Option<u64>>;

/// Something that takes effect at one moment.
#[derive(Debug)]
struct Effect {
    reads: State,
    writes: State,
    /// The place after which it takes effect.
    opens: usize,
    /// The place before which it must have taken effect, if it must.
    closes: Option<usize>,
    what: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Possible {
    values: State,
    /// The open effects that it includes.
    done: BTreeSet<usize>,
}

impl Effect {
    fn fits(&self, values: &State) -> bool {
        self.reads.iter().all(|(name, read)| values.get(name).copied().flatten() == *read)
    }
}

/// A transaction, as far as the history was read.
#[derive(Debug)]
struct Txn {
    confirmed: bool,
    /// The place of its call.
    called: usize,
    /// The place of the last transaction that the same process has committed.
    since: usize,
    /// The last attempt: its place, its reads and its writes.
    attempt: Option<(usize, State, State)>,
}

impl Checker for Serializable {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let effects = effects(history)?;
        let mut search = Search::new(&effects);
        for place in 0..history.records().len() {
            search.open(place);
            search.close(place)?;
        }
        Ok(())
    }
}

/// Returns what must have taken effect, and what may have.
fn effects(history: &History) -> Result<Vec<Effect>, Violation> {
    let mut effects = Vec::new();
    let mut txns: BTreeMap<u64, Txn> = BTreeMap::new();
    let mut since: BTreeMap<ProcessId, usize> = BTreeMap::new();
    let of = |values: &[(Name, Option<u64>)]| values.iter().cloned().collect::<State>();
    for (place, record) in history.records().iter().enumerate() {
        let Event::Transact(event) = &record.event else { continue };
        match event {
            Transact::Begun { txn, confirmed } => {
                let since = since.get(&record.who).copied().unwrap_or_default();
                let (confirmed, called) = (*confirmed, place);
                txns.insert(*txn, Txn { confirmed, called, since, attempt: None });
            }
            Transact::Attempted { txn, reads, writes } => {
                let Some(begun) = txns.get_mut(txn) else { continue };
                let (reads, writes) = (of(reads), of(writes));
                effects.push(Effect {
                    reads: reads.clone(),
                    writes: State::new(),
                    opens: begun.since,
                    closes: Some(place),
                    what: "an attempt has read values that were never there together",
                });
                begun.attempt = Some((place, reads, writes));
            }
            Transact::Committed { txn } => {
                let Some(Txn { confirmed, called, attempt, .. }) = txns.remove(txn) else {
                    continue;
                };
                let Some((attempted, reads, writes)) = attempt else { continue };
                if confirmed || !writes.is_empty() {
                    // Without writes, nothing but the reads takes effect, and they come first.
                    let opens = if writes.is_empty() { called } else { attempted };
                    since.insert(record.who, opens);
                    let what = "a transaction fits nowhere in the order of the others";
                    effects.push(Effect { reads, writes, opens, closes: Some(place), what });
                }
            }
            Transact::Failed { txn } => drop(txns.remove(txn)),
            Transact::Unknown { why: Doubt::Unexplained, .. } => {
                let broken = "the outcome of a transaction is unknown without a reason";
                return Err(Violation::new(NAME, broken, [place]));
            }
            Transact::Unknown { .. } => {}
        }
    }
    let unknown = txns.into_values().filter_map(|txn| txn.attempt);
    let unknown = unknown.filter(|(_, _, writes)| !writes.is_empty());
    effects.extend(unknown.map(|(opens, reads, writes)| {
        let what = "an unknown outcome";
        Effect { reads, writes, opens, closes: None, what }
    }));
    Ok(effects)
}

struct Search<'e> {
    effects: &'e [Effect],
    /// By the places where they open, and where they close.
    opening: BTreeMap<usize, Vec<usize>>,
    closing: BTreeMap<usize, Vec<usize>>,
    open: BTreeSet<usize>,
    states: BTreeSet<Possible>,
}

impl<'e> Search<'e> {
    fn new(effects: &'e [Effect]) -> Self {
        let (mut opening, mut closing) = (BTreeMap::new(), BTreeMap::new());
        for (number, effect) in effects.iter().enumerate() {
            opening.entry(effect.opens).or_insert_with(Vec::new).push(number);
            if let Some(closes) = effect.closes {
                closing.entry(closes).or_insert_with(Vec::new).push(number);
            }
        }
        let initial = Possible { values: State::new(), done: BTreeSet::new() };
        Self { effects, opening, closing, open: BTreeSet::new(), states: [initial].into() }
    }

    fn open(&mut self, place: usize) {
        let opened = self.opening.remove(&place).unwrap_or_default();
        if opened.is_empty() {
            return;
        }
        self.open.extend(opened);
        let states = std::mem::take(&mut self.states);
        self.states = states.into_iter().map(|state| self.settled(state)).collect();
    }

    fn close(&mut self, place: usize) -> Result<(), Violation> {
        for number in self.closing.remove(&place).unwrap_or_default() {
            let before = std::mem::take(&mut self.states);
            let mut seen = before.clone();
            let mut todo = Vec::from_iter(before);
            while let Some(mut state) = todo.pop() {
                if state.done.remove(&number) {
                    self.states.insert(state);
                    continue;
                }
                for next in self.next(&state) {
                    if seen.insert(next.clone()) {
                        todo.push(next);
                    }
                }
                if seen.len() > Serializable::MOST_STATES {
                    let broken = "more possible orders than this checker keeps";
                    return Err(Violation::new(NAME, broken, [place]));
                }
            }
            self.open.remove(&number);
            if self.states.is_empty() {
                let Effect { what, opens, .. } = &self.effects[number];
                return Err(Violation::new(NAME, *what, [*opens, place]));
            }
        }
        Ok(())
    }

    /// Returns the states after one more open transaction.
    fn next(&self, state: &Possible) -> Vec<Possible> {
        let may_follow = |number: &&usize| {
            let effect = &self.effects[**number];
            !effect.writes.is_empty() && !state.done.contains(number) && effect.fits(&state.values)
        };
        let follow = |number: &usize| {
            let mut next = state.clone();
            let writes = &self.effects[*number].writes;
            next.values.extend(writes.iter().map(|(name, value)| (Name::clone(name), *value)));
            next.done.insert(*number);
            self.settled(next)
        };
        self.open.iter().filter(may_follow).map(follow).collect()
    }

    /// Adds the open effects that change nothing and fit.
    fn settled(&self, mut state: Possible) -> Possible {
        for number in &self.open {
            let effect = &self.effects[*number];
            if effect.writes.is_empty() && effect.fits(&state.values) {
                state.done.insert(*number);
            }
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};
    use crate::history::Values;

    const CHECKER: Serializable = Serializable;

    fn values(values: &[(&str, u64)]) -> Values {
        let value = |value: u64| (value > 0).then_some(value);
        values.iter().map(|(name, number)| ((*name).into(), value(*number))).collect()
    }

    const fn begun(txn: u64) -> Transact {
        Transact::Begun { txn, confirmed: false }
    }

    /// Zero stands for an absent node.
    fn attempted(txn: u64, reads: &[(&str, u64)], writes: &[(&str, u64)]) -> Transact {
        Transact::Attempted { txn, reads: values(reads), writes: values(writes) }
    }

    const fn committed(txn: u64) -> Transact {
        Transact::Committed { txn }
    }

    /// A transaction of client 1 that makes a and b 1.
    fn first() -> [(u64, u32, Transact); 3] {
        let writes = [("a", 1), ("b", 1)];
        [(0, 1, begun(1)), (1, 1, attempted(1, &[("a", 0)], &writes)), (2, 1, committed(1))]
    }

    #[test]
    fn one_after_the_other_passes() {
        let second = [
            (3, 2, begun(2)),
            (4, 2, attempted(2, &[("a", 1), ("b", 1)], &[("a", 0), ("b", 2)])),
            (5, 2, committed(2)),
            (6, 3, begun(3)),
            (7, 3, attempted(3, &[("a", 0), ("b", 2)], &[])),
            (8, 3, committed(3)),
        ];
        passes(&CHECKER, first().into_iter().chain(second));
    }

    #[test]
    fn lost_update_is_found() {
        let later = [
            (3, 2, begun(2)),
            (3, 3, begun(3)),
            (4, 2, attempted(2, &[("a", 1)], &[("a", 2)])),
            (4, 3, attempted(3, &[("a", 1)], &[("a", 3)])),
            (5, 2, committed(2)),
            (6, 3, committed(3)),
        ];
        let lines = first().into_iter().chain(later);
        fails(&CHECKER, lines, "fits nowhere", &[6, 8]);
    }

    #[test]
    fn write_skew_is_found() {
        let later = [
            (3, 2, begun(2)),
            (3, 3, begun(3)),
            (4, 2, attempted(2, &[("a", 1), ("b", 1)], &[("a", 2)])),
            (4, 3, attempted(3, &[("a", 1), ("b", 1)], &[("b", 3)])),
            (5, 2, committed(2)),
            (6, 3, committed(3)),
        ];
        fails(&CHECKER, first().into_iter().chain(later), "fits nowhere", &[6, 8]);
    }

    #[test]
    fn mixture_of_two_states_is_found_even_if_not_committed() {
        let later = [
            (3, 2, begun(2)),
            (4, 2, attempted(2, &[("a", 1)], &[("a", 2), ("b", 2)])),
            (5, 2, committed(2)),
            (6, 3, begun(3)),
            (7, 3, attempted(3, &[("a", 1), ("b", 2)], &[("a", 3)])),
            (8, 3, Transact::Failed { txn: 3 }),
        ];
        fails(&CHECKER, first().into_iter().chain(later), "never there together", &[0, 7]);
    }

    #[test]
    fn old_reads_pass_unless_confirmed_or_own() {
        let by = |client, confirmed| {
            let later = [
                (3, client, Transact::Begun { txn: 2, confirmed }),
                (4, client, attempted(2, &[("a", 0), ("b", 0)], &[])),
                (5, client, committed(2)),
            ];
            first().into_iter().chain(later)
        };
        passes(&CHECKER, by(2, false));
        fails(&CHECKER, by(2, true), "fits nowhere", &[3, 5]);
        // Writes of others during the call may come after the reads.
        let overtaken = [
            (3, 2, Transact::Begun { txn: 2, confirmed: true }),
            (4, 3, begun(3)),
            (5, 3, attempted(3, &[("a", 1)], &[("a", 2)])),
            (6, 3, committed(3)),
            (7, 2, attempted(2, &[("a", 1), ("b", 1)], &[])),
            (8, 2, committed(2)),
        ];
        passes(&CHECKER, first().into_iter().chain(overtaken));
        let second = [
            (3, 1, begun(2)),
            (4, 1, attempted(2, &[("a", 1)], &[("a", 2)])),
            (5, 1, committed(2)),
            (6, 1, begun(3)),
            (7, 1, attempted(3, &[("a", 0), ("b", 0)], &[])),
            (8, 1, committed(3)),
        ];
        fails(&CHECKER, first().into_iter().chain(second), "never there together", &[4, 7]);
    }

    #[test]
    fn unknown_outcome_may_take_effect_later_or_never() {
        let unknown = |why| {
            let first = [
                (0, 1, begun(1)),
                (1, 1, attempted(1, &[("a", 0)], &[("a", 1)])),
                (2, 1, Transact::Unknown { txn: 1, why }),
            ];
            first.into_iter()
        };
        let read = |at, txn, value| {
            [
                (at, 2, Transact::Begun { txn, confirmed: true }),
                (at, 2, attempted(txn, &[("a", value)], &[])),
                (at, 2, committed(txn)),
            ]
        };
        let ended = || unknown(Doubt::SessionEnded);
        passes(&CHECKER, ended().chain(read(3, 2, 0)).chain(read(4, 3, 1)));
        passes(&CHECKER, ended().chain(read(3, 2, 0)).chain(read(4, 3, 0)));
        let back = ended().chain(read(3, 2, 1)).chain(read(4, 3, 0));
        fails(&CHECKER, back, "fits nowhere", &[6, 8]);
        fails(&CHECKER, unknown(Doubt::Unexplained), "without a reason", &[2]);
        // A killed process.
        passes(&CHECKER, ended().take(2).chain(read(3, 2, 1)));
    }

    #[test]
    fn all_orders_of_a_dozen_are_tried() {
        let names = ["a", "b", "c"];
        let mut lines: Vec<_> = (1..=12).map(|txn| (0, txn as u32, begun(txn))).collect();
        // Each reads what the one before it has written, and all return in the opposite order.
        for txn in 1..=12_u64 {
            let name = names[txn as usize % 3];
            let before = txn.saturating_sub(3);
            let attempt = attempted(txn, &[(name, before)], &[(name, txn)]);
            lines.push((1, txn as u32, attempt));
        }
        lines.extend((1..=12).rev().map(|txn| (2, txn as u32, committed(txn))));
        passes(&CHECKER, lines);
    }
}
