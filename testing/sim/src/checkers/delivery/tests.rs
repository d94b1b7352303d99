use std::time::Duration;

use super::Delivery;
use crate::checkers::script::{fails, passes};
use crate::history::{Event, Lifecycle, Operator, Outcome, Queue};

pub(super) type Line = (u64, u32, Event);

pub(super) const SURE: Outcome = Outcome::Sure;
pub(super) const UNKNOWN: Outcome = Outcome::Unknown;
pub(super) const FAILED: Outcome = Outcome::Failed;

/// A killed consumer loses at most one item.
const AT_MOST_ONCE: Delivery = Delivery::at_most_once(1);

/// The time in milliseconds for which a claim can outlive its owner.
const LINGER: u64 = 10;

pub(super) fn putting(producer: u32, item: &str) -> Line {
    ranked(producer, item, 0)
}

fn ranked(producer: u32, item: &str, rank: i64) -> Line {
    (0, producer, Queue::Putting { queue: "q".into(), item: item.into(), rank }.into())
}

fn taking(consumer: u32) -> Line {
    taking_ahead(consumer, 1)
}

fn taking_ahead(consumer: u32, ahead: u32) -> Line {
    (
        0,
        consumer,
        Queue::Taking { queue: "q".into(), ahead, linger: Duration::from_millis(LINGER) }.into(),
    )
}

fn later(ms: u64, (at, who, event): Line) -> Line {
    (at + ms, who, event)
}

fn untaken(consumer: u32) -> Line {
    (0, consumer, Queue::Untaken { queue: "q".into() }.into())
}

pub(super) fn put(producer: u32, item: &str, outcome: Outcome) -> Line {
    (0, producer, Queue::Put { queue: "q".into(), item: item.into(), outcome }.into())
}

pub(super) fn taken(consumer: u32, item: &str) -> Line {
    taken_again(consumer, item, 1)
}

fn taken_again(consumer: u32, item: &str, attempt: u32) -> Line {
    (0, consumer, Queue::Taken { queue: "q".into(), item: item.into(), attempt }.into())
}

pub(super) fn done(consumer: u32, item: &str, outcome: Outcome) -> Line {
    (0, consumer, Queue::Done { queue: "q".into(), item: item.into(), outcome }.into())
}

pub(super) fn finishing(consumer: u32, item: &str) -> Line {
    (0, consumer, Queue::Finishing { queue: "q".into(), item: item.into() }.into())
}

fn returned(consumer: u32, item: &str) -> Line {
    (0, consumer, Queue::Returned { queue: "q".into(), item: item.into() }.into())
}

pub(super) fn dead(consumer: u32, item: &str) -> Line {
    (0, consumer, Queue::Dead { queue: "q".into(), item: item.into() }.into())
}

fn all() -> [Delivery; 3] {
    [AT_MOST_ONCE, Delivery::at_least_once(), Delivery::exactly_once()]
}

#[test]
fn what_was_put_is_taken_and_worked_off() {
    for checker in all() {
        passes(&checker, [putting(1, "a"), put(1, "a", SURE), taken(2, "a"), done(2, "a", SURE)]);
        // The consumer is faster than the response to the producer.
        passes(&checker, [putting(1, "a"), taken(2, "a"), done(2, "a", SURE), put(1, "a", SURE)]);
    }
}

#[test]
fn an_item_from_nowhere_is_found() {
    for checker in all() {
        fails(&checker, [taken(2, "a"), putting(1, "a"), put(1, "a", SURE)], "never put", &[0]);
        fails(&checker, [putting(1, "b"), dead(2, "a")], "never put", &[1]);
        fails(&checker, [putting(1, "b"), done(2, "a", UNKNOWN)], "never put", &[1]);
    }
}

#[test]
fn an_item_whose_put_failed_is_found() {
    for checker in all() {
        fails(&checker, [putting(1, "a"), put(1, "a", FAILED), taken(2, "a")], "not put", &[1, 2]);
        fails(&checker, [putting(1, "a"), taken(2, "a"), put(1, "a", FAILED)], "not put", &[1, 2]);
        passes(&checker, [putting(1, "a"), put(1, "a", FAILED)]);
    }
}

#[test]
fn an_unknown_put_may_be_there_or_not() {
    for checker in all() {
        for unknown in [vec![], vec![put(1, "a", UNKNOWN)]] {
            let begun = [vec![putting(1, "a")], unknown].concat();
            passes(&checker, begun.clone());
            passes(&checker, [begun, vec![taken(2, "a"), done(2, "a", SURE)]].concat());
        }
    }
}

#[test]
fn a_lost_item_is_found() {
    let lines = [putting(1, "a"), put(1, "a", SURE), putting(1, "b"), put(1, "b", SURE)];
    let rest = [taken(2, "b"), taken(2, "a"), done(2, "a", SURE), done(2, "b", FAILED)];
    for checker in all() {
        fails(&checker, lines[..2].to_vec(), "a of q is lost", &[1]);
        fails(&checker, [&lines[..], &rest].concat(), "b of q is lost", &[3, 4]);
    }
}

fn killed(client: u32) -> Line {
    (0, client, Lifecycle::Killed.into())
}

#[test]
fn killed_consumer_loses_bounded_items() {
    let puts = |items: &[&str]| -> Vec<Line> {
        items.iter().flat_map(|item| [putting(1, item), put(1, item, SURE)]).collect()
    };
    let a = puts(&["a"]);
    let ab = puts(&["a", "b"]);
    passes(&AT_MOST_ONCE, [&a[..], &[killed(2)]].concat());
    // The consumer's request may be in flight while the producer waits for the response.
    passes(&AT_MOST_ONCE, [putting(1, "a"), killed(2), put(1, "a", SURE)]);
    for other in [Delivery::at_least_once(), Delivery::exactly_once()] {
        fails(&other, [&a[..], &[killed(2)]].concat(), "a of q is lost", &[1]);
    }
    // The consumer was killed too early to have taken the item.
    fails(&AT_MOST_ONCE, [&[killed(2)], &a[..]].concat(), "a of q is lost", &[2]);
    fails(&AT_MOST_ONCE, [&[killed(2), killed(3)], &a[..]].concat(), "a of q is lost", &[3]);
    // The consumer lost more items than it had.
    fails(&AT_MOST_ONCE, [&ab[..], &[killed(2)]].concat(), "a of q is lost", &[1]);
    passes(&Delivery::at_most_once(2), [&ab[..], &[killed(2)]].concat());
    passes(&AT_MOST_ONCE, [&ab[..], &[killed(2), killed(3)]].concat());
    // Each consumer has lost one item. The first cannot have lost two, nor the second item.
    passes(&AT_MOST_ONCE, [&a[..], &[killed(2)], &puts(&["b"]), &[killed(2)]].concat());
    fails(&AT_MOST_ONCE, [&a[..], &[killed(2)], &puts(&["b"])].concat(), "b of q is lost", &[4]);
    fails(
        &AT_MOST_ONCE,
        [&ab[..], &[killed(2)], &puts(&["c"]), &[killed(2)]].concat(),
        "is lost",
        &[1],
    );
    // A consumer that was paused, or whose session ended, has not forgotten its items.
    let others = [Lifecycle::Paused, Lifecycle::Resumed, Lifecycle::Expired, Lifecycle::Finished]
        .map(|event| (0, 2, event.into()));
    fails(&AT_MOST_ONCE, [&a[..], &others].concat(), "a of q is lost", &[1]);
}

#[test]
fn a_take_with_unknown_outcome_names_its_item() {
    let start = [putting(1, "a"), put(1, "a", SURE), putting(1, "b"), put(1, "b", SURE)];
    let with = |last: &[Line]| [&start[..], last].concat();
    let got = [taken(3, "b"), done(3, "b", SURE)];
    passes(&AT_MOST_ONCE, with(&[&[done(2, "a", UNKNOWN)], &got[..]].concat()));
    // Another consumer has taken the item, before or after.
    let by_another = [taken(3, "a"), done(3, "a", SURE)];
    passes(&AT_MOST_ONCE, with(&[&[done(2, "a", UNKNOWN)], &got[..], &by_another].concat()));
    passes(&AT_MOST_ONCE, with(&[&by_another[..], &[done(2, "a", UNKNOWN)], &got].concat()));
    fails(&AT_MOST_ONCE, with(&[done(2, "b", UNKNOWN)]), "a of q is lost", &[1]);
    fails(
        &AT_MOST_ONCE,
        with(&[&[done(2, "a", FAILED)], &got[..]].concat()),
        "a of q is lost",
        &[1],
    );
}

#[test]
fn only_a_killed_client_may_have_removed_its_item() {
    let start = [putting(1, "a"), put(1, "a", SURE), taken(2, "a"), finishing(2, "a")];
    let with = |last: &[Line]| [&start[..], last].concat();
    for checker in [Delivery::at_least_once(), Delivery::exactly_once()] {
        passes(&checker, start.clone());
        passes(&checker, with(&[done(2, "a", UNKNOWN)]));
        // The client reports that its removal failed.
        fails(&checker, with(&[done(2, "a", FAILED)]), "a of q is lost", &[1, 2]);
        // Another client failed; of two attempts, one failed.
        passes(&checker, with(&[taken(3, "a"), finishing(3, "a"), done(3, "a", FAILED)]));
        passes(&checker, with(&[done(2, "a", UNKNOWN), finishing(2, "a"), done(2, "a", FAILED)]));
        let both = [taken(3, "a"), finishing(3, "a"), done(3, "a", FAILED), done(2, "a", FAILED)];
        fails(&checker, with(&both), "a of q is lost", &[1, 4]);
        fails(&checker, [putting(1, "a"), finishing(2, "b")], "never put", &[1]);
    }
}

#[test]
fn what_is_put_aside_is_not_lost() {
    for checker in all() {
        passes(&checker, [putting(1, "a"), put(1, "a", SURE), taken(2, "a"), dead(2, "a")]);
    }
}

#[test]
fn what_is_taken_twice_is_found_where_once_is_the_limit() {
    let lines =
        [putting(1, "a"), put(1, "a", SURE), taken(2, "a"), taken(3, "a"), done(3, "a", SURE)];
    fails(&AT_MOST_ONCE, lines.clone(), "taken twice", &[2, 3]);
    passes(&Delivery::at_least_once(), lines.clone());
    passes(&Delivery::exactly_once(), lines);
}

#[test]
fn what_was_given_back_may_be_taken_again() {
    let lines = |last| {
        [putting(1, "a"), put(1, "a", SURE), taken(2, "a"), returned(2, "a"), taken(3, "a"), last]
    };
    passes(&AT_MOST_ONCE, lines(done(3, "a", SURE)));
    fails(&AT_MOST_ONCE, lines(taken(2, "a")), "taken twice", &[4, 5]);
}

#[test]
fn what_is_worked_off_twice_is_found_where_once_is_the_promise() {
    let lines = |first, second| {
        let start = [putting(1, "a"), put(1, "a", SURE), taken(2, "a"), taken(3, "a")];
        [&start[..], &[done(2, "a", first), done(3, "a", second)]].concat()
    };
    fails(&Delivery::exactly_once(), lines(SURE, SURE), "processed twice", &[4, 5]);
    passes(&Delivery::at_least_once(), lines(SURE, SURE));
    for (first, second) in
        [(SURE, UNKNOWN), (UNKNOWN, SURE), (FAILED, SURE), (SURE, FAILED), (UNKNOWN, UNKNOWN)]
    {
        passes(&Delivery::exactly_once(), lines(first, second));
    }
}

#[test]
fn what_is_worked_off_and_put_aside_is_found() {
    let start = [putting(1, "a"), put(1, "a", SURE), taken(2, "a"), taken(3, "a")];
    let lines = |last: [Line; 2]| [&start[..], &last].concat();
    let both = [done(2, "a", SURE), dead(3, "a")];
    fails(
        &Delivery::exactly_once(),
        lines(both.clone()),
        "processed, and became a dead letter",
        &[4, 5],
    );
    let [a, b] = both.clone();
    fails(
        &Delivery::exactly_once(),
        lines([b, a]),
        "became a dead letter, and was processed",
        &[4, 5],
    );
    passes(&Delivery::at_least_once(), lines(both));
    passes(&Delivery::exactly_once(), lines([done(2, "a", UNKNOWN), dead(3, "a")]));
}

#[test]
fn names_of_items_are_unique() {
    for checker in all() {
        fails(
            &checker,
            [putting(1, "a"), put(1, "a", SURE), putting(2, "a")],
            "two items",
            &[0, 2],
        );
        fails(&checker, [put(1, "a", SURE), put(2, "a", SURE)], "two items", &[0, 1]);
    }
}

#[test]
fn queues_have_nothing_to_do_with_each_other() {
    let other =
        (0, 2, Queue::Taken { queue: "another".into(), item: "a".into(), attempt: 1 }.into());
    fails(&AT_MOST_ONCE, [putting(1, "a"), put(1, "a", SURE), other], "a of another", &[2]);
}

/// Two items that are put one after the other, or side by side.
fn two(one_after_the_other: bool) -> Vec<Line> {
    let mut puts = [putting(1, "a"), put(1, "a", SURE), putting(1, "b"), put(1, "b", SURE)];
    if !one_after_the_other {
        puts.swap(1, 2);
    }
    puts.to_vec()
}

fn order(puts: Vec<Line>, takes: &[Line]) -> Vec<Line> {
    [&puts[..], takes, &[done(2, "a", SURE), done(2, "b", SURE)]].concat()
}

#[test]
fn items_out_of_order_are_found() {
    for checker in all() {
        let lines = order(two(true), &[taken(2, "b"), taken(2, "a")]);
        passes(&checker, lines.clone());
        let checker = checker.in_order();
        fails(&checker, lines, "a of q was taken after b", &[4, 5]);
        passes(&checker, order(two(true), &[taken(2, "a"), taken(2, "b")]));
    }
}

#[test]
fn the_one_put_last_counts_however_many_are_between() {
    let checker = AT_MOST_ONCE.in_order();
    let puts = [putting(1, "a"), put(1, "a", SURE), putting(1, "b"), put(1, "b", SURE)];
    let third = [putting(1, "c"), put(1, "c", SURE), taken(2, "a"), taken(2, "c"), taken(2, "b")];
    fails(&checker, [&puts[..], &third].concat(), "b of q was taken after c", &[7, 8]);
}

#[test]
fn order_is_of_one_producer_and_one_consumer() {
    let checker = Delivery::exactly_once().in_order();
    passes(&checker, order(two(true), &[taken(3, "b"), taken(2, "a")]));
    let producers = vec![putting(1, "a"), put(1, "a", SURE), putting(4, "b"), put(4, "b", SURE)];
    passes(&checker, order(producers, &[taken(2, "b"), taken(2, "a")]));
    passes(&checker, order(two(false), &[taken(2, "b"), taken(2, "a")]));
}

#[test]
fn order_ends_where_an_operator_deletes_claims() {
    let checker = Delivery::exactly_once().in_order();
    let removed =
        |path: &str| (0, 0, Operator::Removed { path: path.into(), tokens: vec![1] }.into());
    passes(&checker, order(two(true), &[taken(2, "b"), removed("/q-locks/a"), taken(2, "a")]));
    let before = [vec![removed("/q-locks/a")], two(true)].concat();
    fails(
        &checker,
        order(before, &[taken(2, "b"), taken(2, "a")]),
        "a of q was taken after b",
        &[5, 6],
    );
}

#[test]
fn what_comes_back_comes_late() {
    let checker = Delivery::exactly_once().in_order();
    passes(&checker, order(two(true), &[taken(3, "a"), taken(2, "b"), taken(2, "a")]));
    passes(&checker, order(two(true), &[taken(2, "b"), taken_again(2, "a", 2)]));
}

#[test]
fn an_unknown_put_has_no_place_in_the_order() {
    let checker = Delivery::exactly_once().in_order();
    let unknown = |a, b| vec![putting(1, "a"), put(1, "a", a), putting(1, "b"), put(1, "b", b)];
    passes(&checker, order(unknown(UNKNOWN, SURE), &[taken(2, "b"), taken(2, "a")]));
    // The second put came after the first one, regardless of its outcome.
    let lines = order(unknown(SURE, UNKNOWN), &[taken(2, "b"), taken(2, "a")]);
    fails(&checker, lines, "a of q was taken after b", &[4, 5]);
}

#[test]
fn a_take_without_an_item_may_have_kept_one_from_others() {
    let checker = Delivery::exactly_once().in_order();
    let takes = [taking(2), taken(2, "b"), taking(2), taken(2, "a")];
    // A client kept exactly the item from others that it got.
    let got = [&[taking(3), putting(3, "c"), taken(3, "c")], &takes[..]].concat();
    fails(&checker, order(two(true), &got), "a of q was taken after b", &[8, 10]);
    for end in [untaken(3), killed(3)] {
        let kept = [&[taking(3)], &takes[..3], std::slice::from_ref(&end), &takes[3..]].concat();
        passes(&checker, order(two(true), &kept));
        // The attempt ended before the puts.
        let before = [&[taking(3), end.clone()], &two(true)[..]].concat();
        fails(&checker, order(before, &takes), "a of q was taken after b", &[7, 9]);
        // The attempt began after the other item was taken.
        let after = [&takes[..2], &[taking(3), end], &takes[2..]].concat();
        fails(&checker, order(two(true), &after), "a of q was taken after b", &[5, 9]);
    }
    // The client gets the item later: its claim is lost, but it does not know.
    let late = [&[taking(3)], &takes[..], &[taken(3, "a")]].concat();
    passes(&checker, order(two(true), &late));
    // The attempt was the consumer's own.
    let own = [&[taking(2), untaken(2)], &takes[..]].concat();
    passes(&checker, order(two(true), &own));
}

#[test]
fn an_item_kept_by_a_consumer_is_free_again_in_time() {
    let checker = Delivery::exactly_once().in_order();
    let kept = [&two(true)[..], &[taking(3)]].concat();
    let takes = [taking(2), taken(2, "b"), taking(2), taken(2, "a")];
    let with = |end: &[Line], ms: u64| {
        [
            &kept[..],
            end,
            &takes.clone().map(|line| later(ms, line)),
            &[done(2, "b", SURE), done(2, "a", SURE)],
        ]
        .concat()
    };
    let found = |end: &[Line]| [end.len() + 6, end.len() + 8];
    let other = [putting(3, "c"), taking(3), taken(3, "c"), done(3, "c", SURE)];
    let given_up = [&[untaken(3)], &other[..]].concat();
    for end in [vec![killed(3)], given_up] {
        passes(&checker, with(&end, LINGER));
        fails(&checker, with(&end, LINGER + 1), "a of q was taken after b", &found(&end));
    }
    // No later call has asked for the item that the abandoned call had claimed.
    passes(&checker, with(&[untaken(3)], LINGER + 1));
    let twice = [untaken(3), taking(3), untaken(3)];
    passes(&checker, with(&twice, LINGER + 1));
    // A consumer that holds another item when it dies had no further claim.
    let busy = [putting(3, "c"), taken(3, "c"), done(3, "c", SURE), killed(3)];
    fails(&checker, with(&busy, 0), "a of q was taken after b", &found(&busy));
}

#[test]
fn what_counts_is_when_the_one_put_later_was_chosen() {
    let checker = Delivery::exactly_once().in_order();
    let puts = [&two(true)[..], &[taking(3), killed(3)]].concat();
    let rest = [taken(2, "b"), taking(2), taken(2, "a"), done(2, "b", SURE), done(2, "a", SURE)]
        .map(|line| later(2 * LINGER, line));
    let with = |chosen: &[Line]| [&puts[..], chosen, &rest].concat();
    passes(&checker, with(&[taking(2)]));
    // The item was claimed for a call that was given up.
    let again = later(2 * LINGER, taking(2));
    passes(&checker, with(&[taking(2), untaken(2), again.clone()]));
    let between = [taking(2), putting(4, "c"), taken(2, "c"), done(2, "c", SURE), again];
    fails(&checker, with(&between), "a of q was taken after b", &[11, 13]);
    // The item was claimed ahead.
    passes(
        &checker,
        with(&between.map(|line| match line {
            (at, who, Event::Queue(Queue::Taking { queue, linger, .. })) => {
                (at, who, Queue::Taking { queue, ahead: 2, linger }.into())
            }
            line => line,
        })),
    );
}

#[test]
fn prefetching_consumer_may_hold_more_than_it_got() {
    let checker = Delivery::exactly_once().in_order();
    let takes = [
        taking(2),
        taken(2, "b"),
        taking(2),
        taken(2, "a"),
        done(2, "b", SURE),
        done(2, "a", SURE),
    ];
    let with = |ahead, end: &[Line]| {
        let first = [taking_ahead(3, ahead), putting(3, "c"), taken(3, "c"), done(3, "c", SURE)];
        [&two(true)[..], &first, end, &takes].concat()
    };
    for end in [vec![killed(3)], vec![taking(3), untaken(3)]] {
        passes(&checker, with(2, &end));
    }
    fails(&checker, with(1, &[killed(3)]), "a of q was taken after b", &[10, 12]);
    // The consumer goes on, and has no more claims.
    fails(&checker, with(2, &[]), "a of q was taken after b", &[9, 11]);
}

#[test]
fn every_item_that_was_put_later_counts() {
    let checker = Delivery::exactly_once().in_order();
    let third = [putting(1, "c"), put(1, "c", SURE)];
    // The attempt that kept `a` when `c` was taken did not keep it when `b` was taken, long before.
    let takes = [
        taking(2),
        taken(2, "b"),
        taking(3),
        untaken(3),
        taking(2),
        taken(2, "c"),
        taking(2),
        taken(2, "a"),
    ];
    fails(
        &checker,
        [&two(true)[..], &third, &takes].concat(),
        "a of q was taken after b",
        &[7, 13],
    );
}

#[test]
fn items_that_are_delivered_together_are_kept_together() {
    let checker = Delivery::exactly_once().in_order();
    let takes = [
        taking(3),
        taking(2),
        taken(2, "b"),
        taking(2),
        taken(2, "a"),
        putting(4, "c"),
        taken(3, "c"),
        taken(3, "a"),
    ];
    let ends = [done(2, "b", SURE), done(2, "a", SURE), done(3, "c", SURE)];
    passes(&checker, [&two(true)[..], &takes, &ends].concat());
}

#[test]
fn what_has_a_higher_rank_may_come_later() {
    let checker = Delivery::exactly_once().in_order();
    let puts =
        |a, b| vec![ranked(1, "a", a), put(1, "a", SURE), ranked(1, "b", b), put(1, "b", SURE)];
    let takes = [taken(2, "b"), taken(2, "a")];
    passes(&checker, order(puts(1, 0), &takes));
    for (a, b) in [(0, 0), (0, 1), (-1, 1)] {
        fails(&checker, order(puts(a, b), &takes), "a of q was taken after b", &[4, 5]);
    }
}

#[test]
fn the_putter_of_a_better_item_gets_it_first() {
    let checker = Delivery::exactly_once().in_order();
    let puts = [ranked(1, "a", 5), put(1, "a", SURE), ranked(2, "b", 1), put(2, "b", SURE)];
    let takes = [
        taking(2),
        taken(2, "a"),
        taking(2),
        taken(2, "b"),
        done(2, "a", SURE),
        done(2, "b", SURE),
    ];
    let with = |between: &[Line]| [&puts[..], between, &takes].concat();
    fails(&checker, with(&[]), "a of q was taken although b comes before it", &[2, 5]);
    // Another client put the item, or the put was not certain when the wait began.
    let by_another =
        [&puts[..], &[taking(3), taken(3, "a"), taking(2), taken(2, "b")], &takes[4..]].concat();
    passes(&checker, by_another);
    passes(&checker, [&puts[..3], &takes[..2], &puts[3..], &takes[2..]].concat());
    // The item was claimed for a call that was given up before.
    passes(&checker, [&puts[..2], &[taking(2), untaken(2)], &puts[2..], &takes].concat());
    // Another client has the item, or may have it.
    passes(&checker, with(&[taking(3)]));
    passes(&checker, with(&[taking(3), taken(3, "b")]));
    passes(&checker, with(&[finishing(4, "b"), done(4, "b", FAILED)]));
}

#[test]
fn item_is_returned_only_for_a_better_later_one() {
    let checker = Delivery::exactly_once().in_order();
    let puts = [ranked(1, "a", 5), put(1, "a", SURE), ranked(1, "b", 5), put(1, "b", SURE)];
    let with_rank = |rank| [ranked(4, "c", rank), put(4, "c", SURE)];
    let better = with_rank(1);
    let takes = [taking(3), taking(2), taken(2, "b"), taken(3, "c"), taking(2), taken(2, "a")];
    let ends = [done(2, "a", SURE), done(2, "b", SURE), done(3, "c", SURE)];
    passes(&checker, [&puts[..], &better, &takes, &ends].concat());
    // An item that was put before with the same rank comes first, but not for clients that would
    // have claimed it immediately.
    let same = with_rank(5);
    let had = [taken(5, "c"), returned(5, "c")];
    passes(&checker, [&same[..], &puts, &had, &takes, &ends].concat());
    fails(
        &checker,
        [&same[..], &puts, &takes, &ends].concat(),
        "a of q was taken after b",
        &[8, 11],
    );
    let other = with_rank(5);
    fails(
        &checker,
        [&puts[..], &other, &takes, &ends].concat(),
        "a of q was taken after b",
        &[8, 11],
    );
    // The consumer would have claimed the better item instead of `a`, unless another client had it.
    fails(
        &checker,
        [&better[..], &puts, &takes, &ends].concat(),
        "a of q was taken after b",
        &[8, 11],
    );
    passes(&checker, [&better[..], &puts, &had, &takes, &ends].concat());
}

#[test]
fn deliveries_with_the_same_number_are_found() {
    let put = || [putting(1, "a"), put(1, "a", SURE)];
    let again = |attempt| {
        put().into_iter().chain([
            taken(2, "a"),
            returned(2, "a"),
            taken_again(3, "a", attempt),
            done(3, "a", SURE),
        ])
    };
    for checker in all() {
        passes(&checker, again(1).collect::<Vec<_>>());
        passes(&checker.clone().counted(), again(2).collect::<Vec<_>>());
        fails(&checker.counted(), again(1).collect::<Vec<_>>(), "of the same number", &[2, 4]);
    }
}
