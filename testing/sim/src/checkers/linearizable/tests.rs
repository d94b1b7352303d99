use proptest::collection::vec;
use proptest::prelude::*;

use super::{Linearizable, apply};
use crate::checkers::Checker;
use crate::checkers::script::{fails, history, passes};
use crate::history::Operation::{self, Add, CompareAndSet, Get, Set};
use crate::history::{Answer, Event, Operator, Shared};

type Line = (u64, u32, Shared);

const CHECKER: Linearizable = Linearizable::from(0);

fn call(id: u64, operation: Operation) -> Line {
    (0, 1, Shared::Call { id, object: "n".into(), operation })
}

fn answer(id: u64, answer: Answer) -> Line {
    (0, 1, Shared::Return { id, answer })
}

fn value(id: u64, value: i64) -> Line {
    answer(id, Answer::Value(value))
}

fn done(id: u64) -> Line {
    answer(id, Answer::Done)
}

#[test]
fn one_after_the_other_is_as_in_one_place() {
    passes(
        &CHECKER,
        [call(1, Set(5)), done(1), call(2, Add(2)), value(2, 7), call(3, Get), value(3, 7)],
    );
    let swap = |expected| CompareAndSet { expected, new: 9 };
    let swaps = [
        call(1, swap(1)),
        answer(1, Answer::Differs),
        call(2, swap(0)),
        done(2),
        call(3, Get),
        value(3, 9),
    ];
    passes(&CHECKER, swaps);
    passes(&Linearizable::from(i64::MAX), [call(1, Add(1)), value(1, i64::MIN)]);
}

#[test]
fn what_an_operator_deletes_has_its_initial_value() {
    const CHECKER: Linearizable = Linearizable::from(0).deleted_with("n", "/n");
    let shared = |(at, client, event): Line| (at, client, Event::from(event));
    let lines = |path: &str, seen| {
        let deleted = Operator::Removed { path: path.into(), tokens: vec![1] };
        let before = [call(1, Set(5)), done(1)].map(shared);
        let after = [call(2, Get), value(2, seen)].map(shared);
        before.into_iter().chain([(0, 0, deleted.into())]).chain(after)
    };
    passes(&CHECKER, lines("/namespace/n", 0));
    fails(&CHECKER, lines("/namespace/n", 5), "n: no order", &[3, 4]);
    fails(&CHECKER, lines("/other", 0), "n: no order", &[3, 4]);
}

#[test]
fn a_stale_read_is_found() {
    let lines = [call(1, Set(5)), done(1), call(2, Get), value(2, 0)];
    fails(&CHECKER, lines, "n: no order", &[2, 3]);
    // A read that overlaps with the write may return the old value.
    passes(&CHECKER, [call(1, Set(5)), call(2, Get), done(1), value(2, 0)]);
}

#[test]
fn reads_that_go_back_are_found() {
    let lines = [call(1, Set(5)), call(2, Get), value(2, 5), call(3, Get), value(3, 0), done(1)];
    fails(&CHECKER, lines, "no order", &[0, 3, 4]);
}

#[test]
fn a_lost_update_is_found() {
    let lines = [call(1, Add(1)), call(2, Add(1)), value(1, 1), value(2, 1)];
    fails(&CHECKER, lines, "no order", &[1, 3]);
    passes(&CHECKER, [call(1, Add(1)), call(2, Add(1)), value(1, 2), value(2, 1)]);
}

#[test]
fn two_that_both_swap_are_found() {
    let swap = CompareAndSet { expected: 0, new: 0x51 };
    fails(&CHECKER, [call(1, swap), call(2, swap), done(2), done(1)], "no order", &[0, 3]);
}

#[test]
fn what_failed_has_no_effect() {
    passes(&CHECKER, [call(1, Set(5)), answer(1, Answer::Failed), call(2, Get), value(2, 0)]);
    let lines = [call(1, Set(5)), answer(1, Answer::Failed), call(2, Get), value(2, 5)];
    fails(&CHECKER, lines, "no order", &[2, 3]);
}

#[test]
fn unknown_call_takes_effect_at_any_later_time_or_never() {
    for unknown in [vec![], vec![answer(1, Answer::Unknown)]] {
        let begun = [vec![call(1, Set(5))], unknown].concat();
        let reads = |values: &[i64]| {
            let read = |(id, &read)| [call(id + 2, Get), value(id + 2, read)];
            let reads: Vec<Line> = (0_u64..).zip(values).flat_map(read).collect();
            [begun.clone(), reads].concat()
        };
        passes(&CHECKER, reads(&[0, 0, 0]));
        passes(&CHECKER, reads(&[5, 5]));
        passes(&CHECKER, reads(&[0, 0, 5]));
        let back = reads(&[5, 0]);
        let last = back.len() - 1;
        fails(&CHECKER, back, "no order", &[last - 1, last]);
    }
    fails(&CHECKER, [call(2, Get), value(2, 5), call(1, Set(5))], "no order", &[0, 1]);
}

#[test]
fn an_unknown_call_takes_effect_once() {
    let unknown = [call(1, Add(1)), answer(1, Answer::Unknown)];
    let reads = |last| [call(2, Get), value(2, 1), call(3, Get), value(3, last)];
    passes(&CHECKER, [&unknown[..], &reads(1)].concat());
    fails(&CHECKER, [&unknown[..], &reads(2)].concat(), "no order", &[4, 5]);
}

#[test]
fn objects_have_nothing_to_do_with_each_other() {
    let other = (0, 1, Shared::Call { id: 2, object: "m".into(), operation: Get });
    passes(&CHECKER, [call(1, Set(5)), done(1), other, value(2, 0)]);
}

#[test]
fn numbers_of_calls_are_unique() {
    fails(&CHECKER, [call(1, Get), call(1, Get)], "the same number", &[0, 1]);
    fails(&CHECKER, [call(1, Get), value(1, 0), value(1, 0)], "returns twice", &[2]);
    fails(&CHECKER, [call(1, Get), value(2, 0)], "never began", &[1]);
}

#[test]
fn unknown_calls_add_up_only_to_different_values() {
    let unknown = |id| call(id, if id % 2 == 0 { Add(1) } else { Set(100 * (id % 4) as i64) });
    let reads =
        (0..30).flat_map(|read| [call(1_000 + read, Get), value(1_000 + read, read as i64 / 2)]);
    passes(&CHECKER, (0..60).map(unknown).chain(reads));
}

#[test]
fn too_many_possibilities_are_no_approval() {
    let calls = (0..40).map(|id| call(id, Set(id as i64 + 1)));
    let returns = (0..40).map(done);
    let lines: Vec<Line> = calls.chain([call(99, Get), value(99, -1)]).chain(returns).collect();
    let violation = CHECKER.check(&history(lines)).expect_err("no client can have read that");
    assert!(violation.broken.contains("too many simultaneous calls"), "{violation}");
}

/// A call: the operation, three places of a permutation at which it begins, takes effect and
/// returns, and if its response is lost.
fn operations() -> impl Strategy<Value = Vec<(Operation, [u32; 3], bool)>> {
    let operation = prop_oneof![
        Just(Get),
        (0..3_i64).prop_map(Set),
        (-2..3_i64).prop_map(Add),
        (0..3_i64, 0..3_i64).prop_map(|(expected, new)| CompareAndSet { expected, new }),
    ];
    let moments = any::<[u32; 3]>().prop_map(|mut moments| {
        moments.sort_unstable();
        moments
    });
    vec((operation, moments, prop::bool::weighted(0.4)), 1..7)
}

/// Makes a history of a single number, whose calls take effect at the second of their moments. Some
/// responses are lost.
fn of_one_place(operations: &[(Operation, [u32; 3], bool)]) -> Vec<Line> {
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_by_key(|&index| operations[index].1[1]);
    let mut now = 0;
    let mut answers = vec![Answer::Unknown; operations.len()];
    for index in order {
        (now, answers[index]) = apply(now, operations[index].0);
    }
    let mut lines: Vec<(u32, Line)> = Vec::new();
    for ((id, &(operation, [begins, _, returns], lost)), answered) in
        (0_u64..).zip(operations).zip(answers)
    {
        lines.push((begins, call(id, operation)));
        lines.push((returns, answer(id, if lost { Answer::Unknown } else { answered })));
    }
    lines.sort_by_key(|&(moment, _)| moment);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Tries all orders of the calls.
fn is_linearizable(lines: &[Line]) -> bool {
    let mut calls = Vec::new();
    for (place, (_, _, event)) in lines.iter().enumerate() {
        if let Shared::Call { id, operation, .. } = *event {
            let returned =
                lines.iter().enumerate().find_map(|(place, (_, _, event))| match *event {
                    Shared::Return { id: of, answer } if of == id => Some((place, answer)),
                    _ => None,
                });
            calls.push((place, operation, returned));
        }
    }
    explain(0, &calls)
}

type Known = (usize, Operation, Option<(usize, Answer)>);

fn explain(now: i64, left: &[Known]) -> bool {
    let is_unknown =
        |(_, _, returned): &Known| matches!(returned, None | Some((_, Answer::Unknown)));
    if left.iter().all(is_unknown) {
        return true;
    }
    left.iter().enumerate().any(|(index, first)| {
        let returned_before =
            |other: &Known| !is_unknown(other) && other.2.is_some_and(|(place, _)| place < first.0);
        let (then, answered) = apply(now, first.1);
        let fits = is_unknown(first) || first.2.is_some_and(|(_, answer)| answer == answered);
        let mut rest = left.to_vec();
        rest.remove(index);
        fits && !left.iter().any(returned_before) && explain(then, &rest)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn what_was_in_one_place_passes(operations in operations()) {
        let history = history(of_one_place(&operations));
        prop_assert_eq!(CHECKER.check(&history), Ok(()), "{}", history);
    }

    #[test]
    fn verdict_agrees_with_trying_all_orders(
        operations in operations(),
        which in any::<prop::sample::Index>(),
        altered in prop_oneof![(0..5_i64).prop_map(Answer::Value), Just(Answer::Done), Just(Answer::Differs)],
    ) {
        let mut lines = of_one_place(&operations);
        let is_return = |&place: &usize| matches!(lines[place].2, Shared::Return { .. });
        let returns: Vec<usize> = (0..lines.len()).filter(is_return).collect();
        if let Shared::Return { answer, .. } = &mut lines[returns[which.index(returns.len())]].2 {
            *answer = altered;
        }
        let history = history(lines.clone());
        prop_assert_eq!(CHECKER.check(&history).is_ok(), is_linearizable(&lines), "{}", history);
    }
}
