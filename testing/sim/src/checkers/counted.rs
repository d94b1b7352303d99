use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Answer, Event, History, Name, Operation, Shared};

/// Checks that a key is [counted](Shared::Counted) once, even if a client asks for it repeatedly.
///
/// * One key has one number, and no two keys have the same number.
/// * A value that is [read](Operation::Get) is at least the number of keys that were counted
///   earlier, and at most the number of keys that any client had [begun](Shared::Counting) to
///   count.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CountedOnce;

const NAME: &str = "counted once";

#[derive(Debug, Default)]
struct Object<'a> {
    /// The place where a client first began to count each key.
    begun: BTreeMap<&'a Name, usize>,
    /// The number of each key, and the place where it was first returned.
    numbers: BTreeMap<&'a Name, (i64, usize)>,
    /// The key of each number.
    keys: BTreeMap<i64, &'a Name>,
}

/// A read without a response so far.
#[derive(Debug)]
struct Read<'a> {
    object: &'a Name,
    place: usize,
    /// The number of keys that were counted before the read.
    least: usize,
}

impl Checker for CountedOnce {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut objects: BTreeMap<&Name, Object<'_>> = BTreeMap::new();
        let mut reads: BTreeMap<u64, Read<'_>> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            let broken = |what: String, places: Vec<usize>| Err(Violation::new(NAME, what, places));
            let Event::Shared(event) = &record.event else { continue };
            match event {
                Shared::Counting { object, key } => {
                    objects.entry(object).or_default().begun.entry(key).or_insert(place);
                }
                Shared::Counted { object, key, number } => {
                    let state = objects.entry(object).or_default();
                    let (of, at) = *state.numbers.entry(key).or_insert((*number, place));
                    if of != *number {
                        let what = format!("{key} is number {of} of {object}, and number {number}");
                        return broken(what, vec![at, place]);
                    }
                    let other = *state.keys.entry(*number).or_insert(key);
                    if other != key {
                        let what =
                            format!("{other} and {key} are both number {number} of {object}");
                        return broken(what, vec![state.numbers[other].1, place]);
                    }
                }
                Shared::Call { id, object, operation: Operation::Get } => {
                    let least = objects.entry(object).or_default().numbers.len();
                    reads.insert(*id, Read { object, place, least });
                }
                Shared::Return { id, answer: Answer::Value(value) } => {
                    let Some(Read { object, place: at, least }) = reads.remove(id) else {
                        continue;
                    };
                    let most = objects.entry(object).or_default().begun.len();
                    if !usize::try_from(*value).is_ok_and(|value| (least..=most).contains(&value)) {
                        let what = format!("{object} is {value}, and not from {least} to {most}");
                        return broken(what, vec![at, place]);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    fn counting(key: &str) -> Shared {
        Shared::Counting { object: "n".into(), key: key.into() }
    }

    fn counted(key: &str, number: i64) -> Shared {
        Shared::Counted { object: "n".into(), key: key.into(), number }
    }

    #[test]
    fn a_key_has_one_number() {
        let all = |last| {
            [
                (0, 1, counting("a")),
                (1, 1, counted("a", 1)),
                (2, 2, counting("a")),
                (3, 2, counting("b")),
                last,
            ]
        };
        passes(&CountedOnce, all((4, 2, counted("a", 1))));
        passes(&CountedOnce, all((4, 2, counted("b", 2))));
        fails(
            &CountedOnce,
            all((4, 2, counted("a", 2))),
            "a is number 1 of n, and number 2",
            &[1, 4],
        );
        fails(
            &CountedOnce,
            all((4, 2, counted("b", 1))),
            "a and b are both number 1 of n",
            &[1, 4],
        );
    }

    #[test]
    fn a_value_counts_each_key_once() {
        let all = |value| {
            let call = Shared::Call { id: 7, object: "n".into(), operation: Operation::Get };
            let answer = Shared::Return { id: 7, answer: Answer::Value(value) };
            let before = [(0, 1, counting("a")), (1, 1, counted("a", 1)), (2, 2, counting("b"))];
            before.into_iter().chain([(3, 1, call), (4, 2, counting("c")), (5, 1, answer)])
        };
        (1..=3).for_each(|value| passes(&CountedOnce, all(value)));
        fails(&CountedOnce, all(0), "n is 0, and not from 1 to 3", &[3, 5]);
        fails(&CountedOnce, all(4), "n is 4, and not from 1 to 3", &[3, 5]);
        fails(&CountedOnce, all(-1), "n is -1, and not from 1 to 3", &[3, 5]);
    }
}
