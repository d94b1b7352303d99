use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Checker, Violation};
use crate::history::{Answer, Event, History, Name, Operation};

/// That each object behaves as if every [call](Event::Call) took effect at one moment between itself and its
/// [return](Event::Return), in an order in which a number in one place would have given the same answers.
///
/// A call whose outcome is [unknown](Answer::Unknown), or that never returned, may have taken effect or not, at any time after it
/// began, and be it after everything else; one that [failed](Answer::Failed) has not.
///
/// # How
/// The history is read once. What is kept is every state the object may be in: its value, and which of the calls that are open
/// have taken effect. Only when a call returns is it asked which of the open calls could have gone before it. Unknown calls stay
/// open for ever: those that ask for the same are not told apart, and of two possibilities with the same value the one in which
/// fewer unknown calls are used up makes the other needless. So the memory depends on what goes on at a time, not on the length
/// of the history; beyond [`MOST_STATES`](Self::MOST_STATES) at a time the check is given up, which is a violation too.
#[derive(Debug, Clone)]
pub struct Linearizable {
    initial: i64,
    /// A node, and the object that has its initial value when that is deleted.
    node: Option<(&'static str, &'static str)>,
}

impl Linearizable {
    /// How many states are kept at a time.
    pub const MOST_STATES: usize = 20_000;

    /// Of counters and values that have this value at first.
    #[must_use]
    pub const fn from(initial: i64) -> Self {
        Self { initial, node: None }
    }

    /// Also that an object has the initial value again once an [operator has deleted](Event::Removed) this node: its absolute
    /// path, without a namespace or chroot.
    #[must_use]
    pub const fn deleted_with(mut self, object: &'static str, node: &'static str) -> Self {
        self.node = Some((object, node));
        self
    }
}

const NAME: &str = "linearizability";

/// The number of a call.
type Id = u64;

#[derive(Debug, Clone, Copy)]
struct Call {
    place: usize,
    operation: Operation,
    /// Nothing if it is not known.
    answer: Option<Answer>,
}

/// One object, as far as the history is read.
#[derive(Debug)]
struct Object {
    /// Calls that will return and have not.
    open: BTreeMap<Id, Call>,
    /// Unknown calls that have begun: how many of each kind.
    unknown: BTreeMap<Operation, u32>,
    states: States,
}

#[derive(Debug, Clone)]
struct State {
    look: Look,
    used_up: UsedUp,
}

/// The value, and the open calls that have taken effect.
type Look = (i64, BTreeSet<Id>);

/// How many unknown calls of each kind have taken effect.
type UsedUp = BTreeMap<Operation, u32>;

/// What the object may be, without what is needless.
#[derive(Debug, Default)]
struct States {
    looks: BTreeMap<Look, Vec<UsedUp>>,
    count: usize,
}

impl States {
    /// Adds a state, unless there is one with the same look in which no more unknown calls are used up; such calls need not take
    /// effect, so that it can do whatever the new one can.
    fn add(&mut self, State { look, used_up }: State) -> bool {
        let alike = self.looks.entry(look).or_default();
        if alike.iter().any(|other| is_part_of(other, &used_up)) {
            return false;
        }
        let before = alike.len();
        alike.retain(|other| !is_part_of(&used_up, other));
        alike.push(used_up);
        self.count = self.count + alike.len() - before;
        true
    }
}

fn is_part_of(one: &UsedUp, other: &UsedUp) -> bool {
    one.iter().all(|(operation, count)| other.get(operation).is_some_and(|more| count <= more))
}

impl Checker for Linearizable {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut answers: BTreeMap<Id, Answer> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            if let Event::Return { id, answer } = record.event
                && answers.insert(id, answer).is_some()
            {
                return Err(Violation::new(NAME, "a call returns twice", vec![place]));
            }
        }
        let mut objects: BTreeMap<&Name, Object> = BTreeMap::new();
        let mut called: BTreeMap<Id, (&Name, usize)> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Call { id, object, operation } => {
                    if let Some((_, before)) = called.insert(*id, (object, place)) {
                        return Err(Violation::new(
                            NAME,
                            "two calls have the same number",
                            vec![before, place],
                        ));
                    }
                    let answer = answers.get(id).copied().filter(|&answer| answer != Answer::Unknown);
                    let call = Call { place, operation: *operation, answer };
                    objects.entry(object).or_insert_with(|| Object::new(self.initial)).call(*id, call);
                }
                Event::Return { id, answer } => {
                    let Some(&(name, _)) = called.get(id) else {
                        return Err(Violation::new(NAME, "a call returns and never began", vec![place]));
                    };
                    let Some(object) = objects.get_mut(name).filter(|_| *answer != Answer::Unknown) else {
                        continue;
                    };
                    object.answer(*id, place).map_err(|(broken, places)| {
                        Violation::new(NAME, format!("{name}: {broken}"), places)
                    })?;
                }
                Event::Removed { path, .. } => {
                    let Some((object, _)) = self.node.filter(|(_, node)| path.ends_with(node)) else {
                        continue;
                    };
                    // A call that has taken effect at once. Other calls have low numbers.
                    let (id, operation) = (Id::MAX - place as Id, Operation::Set(self.initial));
                    let call = Call { place, operation, answer: Some(Answer::Done) };
                    if let Some((name, object)) = objects.iter_mut().find(|(name, _)| &****name == object) {
                        object.call(id, call);
                        object.answer(id, place).map_err(|(broken, places)| {
                            Violation::new(NAME, format!("{name}: {broken}"), places)
                        })?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Object {
    fn new(initial: i64) -> Self {
        let mut states = States::default();
        states.add(State { look: (initial, BTreeSet::new()), used_up: UsedUp::new() });
        Self { open: BTreeMap::new(), unknown: BTreeMap::new(), states }
    }

    fn call(&mut self, id: Id, call: Call) {
        match (call.answer, call.operation) {
            (Some(Answer::Failed), _) | (None, Operation::Get) => {}
            (Some(_), _) => {
                self.open.insert(id, call);
            }
            (None, operation) => *self.unknown.entry(operation).or_default() += 1,
        }
    }

    /// Keeps the states in which this call has taken effect.
    fn answer(&mut self, id: Id, place: usize) -> Result<(), (&'static str, Vec<usize>)> {
        if !self.open.contains_key(&id) {
            return Ok(());
        }
        let proof = || {
            let mut places: Vec<usize> = self.open.values().map(|call| call.place).collect();
            places.push(place);
            places.sort_unstable();
            places
        };
        let mut kept = States::default();
        let mut looked_at = States::default();
        let mut to_look_at: VecDeque<State> = VecDeque::new();
        for (look, alike) in &self.states.looks {
            to_look_at
                .extend(alike.iter().map(|used_up| State { look: look.clone(), used_up: used_up.clone() }));
        }
        while let Some(mut state) = to_look_at.pop_front() {
            if looked_at.count + kept.count >= Linearizable::MOST_STATES {
                return Err(("too many calls at a time to be judged", proof()));
            }
            if state.look.1.remove(&id) {
                kept.add(state);
            } else if looked_at.add(state.clone()) {
                to_look_at.extend(self.next(&state));
            }
        }
        if kept.count == 0 {
            return Err(("no order of the calls explains this answer", proof()));
        }
        self.open.remove(&id);
        self.states = kept;
        Ok(())
    }

    /// The states after one more call of those that are open.
    fn next<'a>(&'a self, state: &'a State) -> impl Iterator<Item = State> + 'a {
        let open = self.open.iter().filter(|(id, _)| !state.look.1.contains(id));
        let known = open.filter_map(|(&id, call)| {
            let (value, answer) = apply(state.look.0, call.operation);
            (call.answer == Some(answer)).then(|| {
                let mut next = state.clone();
                next.look.0 = value;
                next.look.1.insert(id);
                next
            })
        });
        let left = self
            .unknown
            .iter()
            .filter(|(operation, count)| state.used_up.get(operation).is_none_or(|used_up| used_up < count));
        let unknown = left.filter_map(|(&operation, _)| {
            let (value, _) = apply(state.look.0, operation);
            (value != state.look.0).then(|| {
                let mut next = state.clone();
                next.look.0 = value;
                *next.used_up.entry(operation).or_default() += 1;
                next
            })
        });
        known.chain(unknown)
    }
}

/// What becomes of a value, and the answer.
const fn apply(value: i64, operation: Operation) -> (i64, Answer) {
    match operation {
        Operation::Get => (value, Answer::Value(value)),
        Operation::Set(new) => (new, Answer::Done),
        Operation::Add(more) => {
            let sum = value.wrapping_add(more);
            (sum, Answer::Value(sum))
        }
        Operation::CompareAndSet { expected, new } if value == expected => (new, Answer::Done),
        Operation::CompareAndSet { .. } => (value, Answer::Differs),
    }
}

#[cfg(test)]
mod tests;
