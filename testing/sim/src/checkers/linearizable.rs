use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Checker, Violation};
use crate::history::{Answer, Event, History, Name, Operation, Operator, Shared};

/// Checks linearizability: every [call](Shared::Call) seems to take effect at one moment between
/// its begin and its [return](Shared::Return), in an order in which a single number would have
/// given the same responses.
///
/// A call may or may not have taken effect, at any time after it began, if its outcome is
/// [unknown](Answer::Unknown) or it never returned. A call that [failed](Answer::Failed) has not
/// taken effect.
///
/// # Algorithm
/// The history is read once. The checker keeps every possible state of the object: its value, and
/// the set of open calls that have taken effect. States are dropped from which an open call can no
/// longer find the value of its response. When a call returns, the checker tries the orders of open
/// calls before it; a call that changes nothing takes effect as soon as it can.
///
/// Unknown calls stay open forever. They take effect only where they lead to a value that an open
/// call has found. Equal unknown calls are interchangeable. Of two states with the same value, the
/// one that uses up fewer unknown calls makes the other one needless. So the memory depends on the
/// number of simultaneous calls, not on the length of the history. With more than
/// [`MOST_STATES`](Self::MOST_STATES) states at a time the checker gives up, which is a violation
/// too.
#[derive(Debug, Clone)]
pub struct Linearizable {
    initial: i64,
    /// An object, and the node whose deletion gives the object its initial value.
    node: Option<(&'static str, &'static str)>,
}

impl Linearizable {
    /// The maximum number of states that the checker keeps at a time.
    pub const MOST_STATES: usize = 20_000;

    /// Creates a checker of counters and values that have this value at first.
    #[must_use]
    pub const fn from(initial: i64) -> Self {
        Self { initial, node: None }
    }

    /// Gives an object its initial value again when an [operator has deleted](Operator::Removed)
    /// this node. The path is absolute, without a namespace or chroot.
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
    /// The response; `None` if it is unknown.
    answer: Option<Answer>,
}

/// One object, as far as the history was read.
#[derive(Debug)]
struct Object {
    /// The calls that will return but have not returned yet.
    open: BTreeMap<Id, Call>,
    /// The number of unknown calls that have begun, for each operation.
    unknown: BTreeMap<Operation, u32>,
    states: States,
    later: Later,
}

/// The calls of an object that the rest of the history contains.
#[derive(Debug, Default)]
struct Later {
    /// The values that they set, and how often.
    jumps: BTreeMap<i64, u64>,
    /// The sums of all additions, and of all subtractions, in the history.
    most: i128,
    least: i128,
}

#[derive(Debug, Clone)]
struct State {
    look: Look,
    used_up: UsedUp,
}

/// The value of an object, and the open calls that have taken effect.
type Look = (i64, BTreeSet<Id>);

/// The number of unknown calls that have taken effect, for each operation.
type UsedUp = BTreeMap<Operation, u32>;

/// The possible states of an object, without needless ones.
#[derive(Debug, Default)]
struct States {
    looks: BTreeMap<Look, Vec<UsedUp>>,
    count: usize,
}

impl States {
    /// Adds a state, unless there is one with the same look that has used up no more unknown calls.
    /// Unknown calls need not take effect, so that state can do everything that the new one can.
    /// Returns `true` if the state was added.
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

/// Returns the answers of all calls that have returned.
fn answers(history: &History) -> Result<BTreeMap<Id, Answer>, Violation> {
    let mut answers: BTreeMap<Id, Answer> = BTreeMap::new();
    for (place, record) in history.records().iter().enumerate() {
        if let Event::Shared(Shared::Return { id, answer }) = record.event
            && answers.insert(id, answer).is_some()
        {
            return Err(Violation::new(NAME, "a call returns twice", vec![place]));
        }
    }
    Ok(answers)
}

impl Linearizable {
    /// Returns the objects, each with the sum of what calls may still do to it.
    fn objects<'h>(&self, history: &'h History) -> BTreeMap<&'h Name, Object> {
        let mut objects: BTreeMap<&Name, Object> = BTreeMap::new();
        for record in history.records() {
            if let Event::Shared(Shared::Call { object, operation, .. }) = &record.event {
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
                    // The node may be deleted at any time.
                    object.later.jumps.insert(self.initial, u64::MAX / 2);
                }
            }
        }
        objects
    }
}

impl Checker for Linearizable {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let answers = answers(history)?;
        let mut objects = self.objects(history);
        let mut called: BTreeMap<Id, (&Name, usize)> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Shared(Shared::Call { id, object, operation }) => {
                    if let Some((_, before)) = called.insert(*id, (object, place)) {
                        return Err(Violation::new(
                            NAME,
                            "two calls have the same number",
                            vec![before, place],
                        ));
                    }
                    let answer =
                        answers.get(id).copied().filter(|&answer| answer != Answer::Unknown);
                    let call = Call { place, operation: *operation, answer };
                    objects
                        .entry(object)
                        .or_insert_with(|| Object::new(self.initial))
                        .call(*id, call);
                }
                Event::Shared(Shared::Return { id, answer }) => {
                    let Some(&(name, _)) = called.get(id) else {
                        return Err(Violation::new(
                            NAME,
                            "a call returns and never began",
                            vec![place],
                        ));
                    };
                    let Some(object) = objects.get_mut(name).filter(|_| *answer != Answer::Unknown)
                    else {
                        continue;
                    };
                    object.answer(*id, place).map_err(|(broken, places)| {
                        Violation::new(NAME, format!("{name}: {broken}"), places)
                    })?;
                }
                Event::Operator(Operator::Removed { path, .. }) => {
                    let Some((object, _)) = self.node.filter(|(_, node)| path.ends_with(node))
                    else {
                        continue;
                    };
                    // A call that takes effect immediately. Other calls have low numbers.
                    let (id, operation) = (Id::MAX - place as Id, Operation::Set(self.initial));
                    let call = Call { place, operation, answer: Some(Answer::Done) };
                    if let Some((name, object)) =
                        objects.iter_mut().find(|(name, _)| &****name == object)
                    {
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
        // Without the look ahead, the rest of a wrong history may still be explained up to a later
        // response, which proves the violation better.
        let kept = match self.search(id, true) {
            Some(kept) if kept.count == 0 => self.search(id, false),
            kept => kept,
        };
        let Some(kept) = kept else {
            return Err(("too many simultaneous calls to be judged", proof()));
        };
        if kept.count == 0 {
            return Err(("no order of the calls explains this response", proof()));
        }
        self.open.remove(&id);
        self.states = kept;
        Ok(())
    }

    /// Returns the states in which this call has taken effect; `None` if there are too many. With
    /// `ahead`, leaves out the states in which another open call can no longer take effect.
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

    /// Lets all open calls take effect that change nothing and find this state as they returned it.
    /// No later moment suits them better.
    fn settled(&self, mut state: State) -> State {
        let finds = |call: &Call| match (call.operation, call.answer) {
            (Operation::Get, Some(answer)) => answer == Answer::Value(state.look.0),
            (Operation::CompareAndSet { expected, .. }, Some(Answer::Differs)) => {
                expected != state.look.0
            }
            _ => false,
        };
        state.look.1.extend(self.open.iter().filter(|(_, call)| finds(call)).map(|(&id, _)| id));
        state
    }

    /// Returns the states after one more call, open or unknown.
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
        let left = self.unknown.iter().filter(|(operation, count)| {
            state.used_up.get(operation).is_none_or(|used_up| used_up < count)
        });
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

/// The values that open calls have found, to which unknown calls can have led. An unknown call that
/// no open call needs can take effect later.
#[derive(Debug, Default)]
struct Goals {
    values: BTreeSet<i64>,
    /// The values that an open call has not found.
    avoided: BTreeSet<i64>,
    /// The sums of the additions, and of the subtractions, of all unknown calls.
    most: i128,
    least: i128,
    /// The greatest step of an unknown addition or subtraction.
    step: i128,
    /// The value that each open call needs.
    needed: Vec<(Id, i64)>,
    /// The values that can still be set, each with the open call that sets it, or `None` for other
    /// calls.
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
                (Operation::CompareAndSet { expected, .. }, _) => {
                    goals.avoided.insert(expected);
                }
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
        // Adds the values before the unknown calls that lead to goals.
        loop {
            let before = object.unknown.keys().filter_map(|operation| match *operation {
                Operation::CompareAndSet { expected, new } if goals.can_follow(new) => {
                    Some(expected)
                }
                _ => None,
            });
            let before: Vec<i64> = before.filter(|value| !goals.values.contains(value)).collect();
            if before.is_empty() {
                return goals;
            }
            goals.values.extend(before);
        }
    }

    /// Returns `true` if every open call that has not taken effect can still find the value that it
    /// needs.
    fn are_possible(&self, State { look: (now, taken), .. }: &State, later: &Later) -> bool {
        let leads = |from: i64, to: i64| {
            (later.least..=later.most).contains(&(i128::from(to) - i128::from(from)))
        };
        let is_free = |id: &Option<Id>| id.is_none_or(|id| !taken.contains(&id));
        self.needed.iter().filter(|(id, _)| !taken.contains(id)).all(|&(_, value)| {
            leads(*now, value)
                || self.jumps.iter().any(|(id, jump)| is_free(id) && leads(*jump, value))
        })
    }

    /// Returns `true` if unknown additions and subtractions can lead from a value to a goal.
    fn can_follow(&self, value: i64) -> bool {
        self.values.iter().any(|&goal| self.is_in_reach(value, goal))
    }

    fn is_in_reach(&self, value: i64, goal: i64) -> bool {
        (self.least..=self.most).contains(&(i128::from(goal) - i128::from(value)))
    }

    /// Returns `true` if an open call may need an unknown call that changes the value from `before`
    /// to `value`.
    fn are_met_by(&self, before: i64, operation: Operation, value: i64) -> bool {
        if before == value || self.avoided.contains(&before) {
            return before != value;
        }
        match operation {
            Operation::Add(_) => self.values.iter().any(|&goal| {
                let distance = |from: i64| (i128::from(goal) - i128::from(from)).abs();
                // Additions and subtractions may come in an order that does not go far beyond the
                // goal.
                let is_closer = distance(value) < distance(before) || distance(value) <= self.step;
                is_closer && self.is_in_reach(before, goal)
            }),
            _ => self.can_follow(value),
        }
    }
}

/// Returns the value that an operation sets regardless of the value before.
const fn set_by(operation: Operation) -> Option<i64> {
    match operation {
        Operation::Set(new) | Operation::CompareAndSet { new, .. } => Some(new),
        Operation::Get | Operation::Add(_) => None,
    }
}

/// Returns the value after an operation, and the response.
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
