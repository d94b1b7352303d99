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
/// have taken effect; not those from which an open call can no longer find the value that it answers with. Only when a call
/// returns is it asked which of the open calls could have gone before it; those that change nothing go as soon as they can.
/// Unknown calls stay open for ever: they go only where they lead to a value that an open call has found, those that ask for the
/// same are not told apart, and of two possibilities with the same value the one in which fewer unknown calls are used up makes
/// the other needless. So the memory depends on what goes on at a time, not on the length of the history; beyond
/// [`MOST_STATES`](Self::MOST_STATES) at a time the check is given up, which is a violation too.
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
    later: Later,
}

/// The calls of an object that are to come.
#[derive(Debug, Default)]
struct Later {
    /// The values that they set, and how often.
    jumps: BTreeMap<i64, u64>,
    /// The sums of all calls of the history that add, and that subtract.
    most: i128,
    least: i128,
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
        for record in history.records() {
            if let Event::Call { object, operation, .. } = &record.event {
                let object = objects.entry(object).or_insert_with(|| Object::new(self.initial));
                match *operation {
                    Operation::Add(more) if more > 0 => object.later.most += i128::from(more),
                    Operation::Add(more) => object.later.least += i128::from(more),
                    operation => {
                        if let Some(value) = set_by(operation) {
                            *object.later.jumps.entry(value).or_default() += 1;
                        }
                    }
                }
                if self.node.is_some() {
                    // It may be deleted at any time.
                    object.later.jumps.insert(self.initial, u64::MAX / 2);
                }
            }
        }
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
        Self { open: BTreeMap::new(), unknown: BTreeMap::new(), states, later: Later::default() }
    }

    fn call(&mut self, id: Id, call: Call) {
        if let Some(value) = set_by(call.operation) {
            if let Some(count) = self.later.jumps.get_mut(&value) {
                *count -= 1;
            }
            self.later.jumps.retain(|_, count| *count > 0);
        }
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
        // What is left of a wrong history may be explained up to a later answer, which proves it better.
        let kept = match self.search(id, true) {
            Some(kept) if kept.count == 0 => self.search(id, false),
            kept => kept,
        };
        let Some(kept) = kept else { return Err(("too many calls at a time to be judged", proof())) };
        if kept.count == 0 {
            return Err(("no order of the calls explains this answer", proof()));
        }
        self.open.remove(&id);
        self.states = kept;
        Ok(())
    }

    /// The states in which this call has taken effect, and `ahead` those only from which the other open calls can; `None` if
    /// there are too many.
    fn search(&self, id: Id, ahead: bool) -> Option<States> {
        let goals = Goals::of(self);
        let mut kept = States::default();
        let mut looked_at = States::default();
        let mut to_look_at: VecDeque<State> = VecDeque::new();
        for (look, alike) in &self.states.looks {
            let state = |used_up: &UsedUp| State { look: look.clone(), used_up: used_up.clone() };
            to_look_at.extend(alike.iter().map(|used_up| self.settled(state(used_up))));
        }
        while let Some(mut state) = to_look_at.pop_front() {
            if looked_at.count + kept.count >= Linearizable::MOST_STATES {
                return None;
            }
            if ahead && !goals.are_possible(&state, &self.later) {
                continue;
            }
            if state.look.1.remove(&id) {
                kept.add(state);
            } else if looked_at.add(state.clone()) {
                to_look_at.extend(self.next(&state, &goals).map(|next| self.settled(next)));
            }
        }
        Some(kept)
    }

    /// The state after all open calls that find it as they answer, and change nothing: no later moment suits them better.
    fn settled(&self, mut state: State) -> State {
        let finds = |call: &Call| match (call.operation, call.answer) {
            (Operation::Get, Some(answer)) => answer == Answer::Value(state.look.0),
            (Operation::CompareAndSet { expected, .. }, Some(Answer::Differs)) => expected != state.look.0,
            _ => false,
        };
        state.look.1.extend(self.open.iter().filter(|(_, call)| finds(call)).map(|(&id, _)| id));
        state
    }

    /// The states after one more call of those that are open.
    fn next<'a>(&'a self, state: &'a State, goals: &'a Goals) -> impl Iterator<Item = State> + 'a {
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
            goals.are_met_by(state.look.0, operation, value).then(|| {
                let mut next = state.clone();
                next.look.0 = value;
                *next.used_up.entry(operation).or_default() += 1;
                next
            })
        });
        known.chain(unknown)
    }
}

/// The values that open calls have found, so that unknown calls can have led to them. An unknown call that no open call needs
/// can as well take effect later.
#[derive(Debug, Default)]
struct Goals {
    values: BTreeSet<i64>,
    /// Values that an open call has not found.
    avoided: BTreeSet<i64>,
    /// The sums of all unknown calls that add, and that subtract.
    most: i128,
    least: i128,
    /// The greatest step of one of them.
    step: i128,
    /// The values that open calls need, each once.
    needed: Vec<(Id, i64)>,
    /// The values that can be set yet, by which of the open calls if it is one of them.
    jumps: Vec<(Option<Id>, i64)>,
}

impl Goals {
    fn of(object: &Object) -> Self {
        let mut goals = Self::default();
        for (&id, call) in &object.open {
            goals.jumps.extend(set_by(call.operation).map(|value| (Some(id), value)));
            match (call.operation, call.answer) {
                (Operation::Get, Some(Answer::Value(value))) => goals.needed.push((id, value)),
                (Operation::Add(more), Some(Answer::Value(sum))) => {
                    goals.needed.push((id, sum.wrapping_sub(more)));
                }
                (Operation::CompareAndSet { expected, .. }, Some(Answer::Done)) => {
                    goals.needed.push((id, expected));
                }
                (Operation::CompareAndSet { expected, .. }, _) => drop(goals.avoided.insert(expected)),
                _ => {}
            }
        }
        goals.values.extend(goals.needed.iter().map(|(_, value)| value));
        goals.jumps.extend(object.later.jumps.keys().map(|&value| (None, value)));
        for (operation, &count) in &object.unknown {
            goals.jumps.extend(set_by(*operation).map(|value| (None, value)));
            if let Operation::Add(more) = *operation {
                let (more, sum) = (i128::from(more), i128::from(more) * i128::from(count));
                (goals.most, goals.least) = (goals.most + sum.max(0), goals.least + sum.min(0));
                goals.step = goals.step.max(more.abs());
            }
        }
        // What comes before an unknown call that leads on to them.
        loop {
            let before = object.unknown.keys().filter_map(|operation| match *operation {
                Operation::CompareAndSet { expected, new } if goals.can_follow(new) => Some(expected),
                _ => None,
            });
            let before: Vec<i64> = before.filter(|value| !goals.values.contains(value)).collect();
            if before.is_empty() {
                return goals;
            }
            goals.values.extend(before);
        }
    }

    /// Whether every open call that has not taken effect can still find the value that it needs.
    fn are_possible(&self, State { look: (now, taken), .. }: &State, later: &Later) -> bool {
        let leads =
            |from: i64, to: i64| (later.least..=later.most).contains(&(i128::from(to) - i128::from(from)));
        let is_free = |id: &Option<Id>| id.is_none_or(|id| !taken.contains(&id));
        self.needed.iter().filter(|(id, _)| !taken.contains(id)).all(|&(_, value)| {
            leads(*now, value) || self.jumps.iter().any(|(id, jump)| is_free(id) && leads(*jump, value))
        })
    }

    /// Whether unknown calls that add or subtract can lead from a value to one of the goals.
    fn can_follow(&self, value: i64) -> bool {
        self.values.iter().any(|&goal| self.is_in_reach(value, goal))
    }

    fn is_in_reach(&self, value: i64, goal: i64) -> bool {
        (self.least..=self.most).contains(&(i128::from(goal) - i128::from(value)))
    }

    /// Whether an unknown call that makes one value of another may be needed for a call that is open.
    fn are_met_by(&self, before: i64, operation: Operation, value: i64) -> bool {
        if before == value || self.avoided.contains(&before) {
            return before != value;
        }
        match operation {
            Operation::Add(_) => self.values.iter().any(|&goal| {
                let distance = |from: i64| (i128::from(goal) - i128::from(from)).abs();
                // Additions and subtractions may come in an order that does not go far beyond the goal.
                let is_closer = distance(value) < distance(before) || distance(value) <= self.step;
                is_closer && self.is_in_reach(before, goal)
            }),
            _ => self.can_follow(value),
        }
    }
}

/// The value that an operation sets, whatever there was.
const fn set_by(operation: Operation) -> Option<i64> {
    match operation {
        Operation::Set(new) | Operation::CompareAndSet { new, .. } => Some(new),
        Operation::Get | Operation::Add(_) => None,
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
