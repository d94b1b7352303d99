use std::time::Duration;

use super::Exclusion;
use crate::checkers::script::{fails, passes};
use crate::history::{
    Answer, Event, Hold, HoldMode, Lifecycle, Operation, Operator, Shared, UseOutcome,
};

type Line = (u64, u32, Event);

fn acquiring(mode: HoldMode, hold: u64) -> Event {
    Hold::Acquiring { resource: "r".into(), mode, hold }.into()
}

fn acquired(mode: HoldMode, hold: u64, token: i64) -> Event {
    Hold::Acquired { resource: "r".into(), mode, hold, token }.into()
}

fn used(hold: u64, token: i64, position: Option<u64>) -> Event {
    let outcome = position.map_or(UseOutcome::Refused, UseOutcome::Accepted);
    Hold::Used { resource: "r".into(), hold, token, outcome }.into()
}

/// Makes the lines of a client that acquires and holds at these two times.
fn holds_as(mode: HoldMode, client: u32, hold: u64, times: [u64; 2], token: i64) -> [Line; 2] {
    [(times[0], client, acquiring(mode, hold)), (times[1], client, acquired(mode, hold, token))]
}

fn holds(client: u32, times: [u64; 2], token: i64) -> [Line; 2] {
    holds_as(HoldMode::Exclusive, client, client.into(), times, token)
}

/// Sorts lines by time, and keeps the given order for equal times.
fn timeline(parts: &[&[Line]]) -> Vec<Line> {
    let mut lines = parts.concat();
    lines.sort_by_key(|line| line.0);
    lines
}

const RELEASING_1: Event = releasing(1);
const RELEASING_2: Event = releasing(2);
const RELEASING_3: Event = releasing(3);
const LOST_1: Event = Event::Hold(Hold::Lost { hold: 1 });
const RELEASED_1: Event = Event::Hold(Hold::Released { hold: 1 });
const PAUSED: Event = Event::Lifecycle(Lifecycle::Paused);
const RESUMED: Event = Event::Lifecycle(Lifecycle::Resumed);
const EXPIRED: Event = Event::Lifecycle(Lifecycle::Expired);

const fn releasing(hold: u64) -> Event {
    Event::Hold(Hold::Releasing { hold })
}

#[test]
fn one_after_the_other_is_fine() {
    let lines = timeline(&[
        &holds(1, [0, 1], 10),
        &holds(2, [2, 6], 11),
        &[(3, 1, used(1, 10, Some(1))), (5, 1, RELEASING_1), (7, 2, used(2, 11, Some(2)))],
    ]);
    passes(&Exclusion::mutual(), lines);
}

#[test]
fn two_at_once_is_found() {
    let lines = timeline(&[&holds(1, [0, 1], 10), &holds(2, [2, 6], 11), &[(9, 1, RELEASING_1)]]);
    fails(&Exclusion::mutual(), lines, "held 2 times at once", &[1, 3, 4]);
}

#[test]
fn a_hold_without_an_end_lasts() {
    let lines = timeline(&[&holds(1, [0, 1], 10), &holds(2, [2, 6], 11), &[(9, 2, RELEASING_2)]]);
    fails(&Exclusion::mutual(), lines, "held 2 times at once", &[1, 3, 4]);
}

#[test]
fn the_end_of_a_process_is_the_end_of_what_it_holds() {
    let lines = timeline(&[
        &holds(1, [0, 1], 10),
        &[(4, 1, Lifecycle::Killed.into())],
        &holds(2, [2, 6], 11),
        &[(9, 2, RELEASING_2)],
    ]);
    passes(&Exclusion::mutual(), lines);
    // The process was closed, and is also killed before it is restarted.
    let lines = timeline(&[
        &holds(1, [0, 1], 10),
        &[(4, 1, Lifecycle::Killed.into())],
        &holds(2, [5, 6], 11),
        &[(7, 1, Lifecycle::Killed.into()), (9, 2, RELEASING_2)],
    ]);
    passes(&Exclusion::mutual(), lines);
}

#[test]
fn holds_that_meet_in_one_moment_do_not_overlap() {
    let lines = timeline(&[
        &holds(1, [0, 1], 10),
        &holds(2, [2, 6], 11),
        &[(6, 1, LOST_1), (8, 2, RELEASING_2)],
    ]);
    passes(&Exclusion::mutual(), lines);
}

#[test]
fn an_overlap_within_the_slack_does_not_count() {
    let lines = timeline(&[
        &holds(1, [0, 1], 10),
        &holds(2, [2, 6], 11),
        &[(9, 1, LOST_1), (20, 2, RELEASING_2)],
    ]);
    passes(&Exclusion::mutual().slack(Duration::from_millis(3)), lines.clone());
    fails(&Exclusion::mutual().slack(Duration::from_millis(2)), lines, "at once", &[1, 3, 4, 5]);
}

#[test]
fn a_stopped_process_may_believe_until_it_goes_on() {
    let lines = |lost| {
        let pause = [(2, 1, PAUSED), (20, 1, RESUMED), (lost, 1, LOST_1), (30, 2, RELEASING_2)];
        timeline(&[&holds(1, [0, 1], 10), &pause, &holds(2, [3, 15], 11)])
    };
    passes(&Exclusion::mutual(), lines(20));
    fails(&Exclusion::mutual(), lines(21), "at once", &[1, 4, 6, 7]);
}

#[test]
fn a_pause_from_before_the_attempt_is_no_excuse() {
    let pause = [(0, 1, PAUSED), (1, 1, RESUMED)];
    let lines = timeline(&[&pause, &holds(1, [2, 3], 10), &holds(2, [3, 5], 11)]);
    fails(&Exclusion::mutual(), lines, "at once", &[3, 5]);
}

#[test]
fn a_pause_is_no_excuse_for_the_others() {
    let pause = [(2, 3, PAUSED), (20, 3, RESUMED)];
    let lines = timeline(&[&holds(1, [0, 1], 10), &pause, &holds(2, [3, 5], 11)]);
    fails(&Exclusion::mutual(), lines, "at once", &[1, 4]);
}

#[test]
fn confirmed_release_proves_the_hold_of_a_stopped_client() {
    let end = [(2, 1, PAUSED), (20, 1, RESUMED), (20, 1, RELEASING_1), (22, 1, RELEASED_1)];
    let lines =
        timeline(&[&holds(1, [0, 1], 10), &end, &holds(2, [3, 15], 11), &[(18, 2, RELEASING_2)]]);
    fails(&Exclusion::mutual(), lines, "at once", &[1, 4, 5, 7]);
}

#[test]
fn forced_expiry_may_be_unknown_until_the_notice() {
    let lines = |lost| {
        let end = [(2, 1, EXPIRED), (lost, 1, LOST_1), (40, 2, RELEASING_2)];
        timeline(&[&holds(1, [0, 1], 10), &end, &holds(2, [0, 4], 11)])
    };
    let checker = Exclusion::mutual().notice(Duration::from_millis(10));
    passes(&checker, lines(12));
    fails(&checker, lines(13), "at once", &[2, 4, 5, 6]);
    passes(&Exclusion::mutual(), lines(13));
}

#[test]
fn while_it_is_stopped_a_client_cannot_notice_either() {
    let end =
        [(2, 1, EXPIRED), (5, 1, PAUSED), (25, 1, RESUMED), (32, 1, LOST_1), (40, 2, RELEASING_2)];
    let lines = timeline(&[&holds(1, [0, 1], 10), &end, &holds(2, [0, 4], 11)]);
    passes(&Exclusion::mutual().notice(Duration::from_millis(10)), lines.clone());
    fails(&Exclusion::mutual().notice(Duration::from_millis(9)), lines, "at once", &[2, 4, 7, 8]);
}

#[test]
fn hold_acquired_after_the_expiry_belongs_to_a_new_session() {
    let lines = timeline(&[&[(0, 1, EXPIRED)], &holds(1, [1, 2], 10), &holds(2, [1, 4], 11)]);
    fails(&Exclusion::mutual(), lines, "at once", &[3, 4]);
}

#[test]
fn what_was_taken_by_force_may_be_believed_in() {
    let lines = |hold, at_ms| {
        let end =
            [(at_ms, 3, Hold::Seized { hold }.into()), (30, 1, RELEASING_1), (30, 2, RELEASING_2)];
        timeline(&[&holds(1, [0, 1], 10), &end, &holds(2, [2, 6], 11)])
    };
    passes(&Exclusion::mutual(), lines(1, 5));
    passes(&Exclusion::mutual(), lines(1, 0));
    fails(&Exclusion::mutual(), lines(1, 7), "at once", &[1, 3, 5, 6]);
    fails(&Exclusion::mutual(), lines(4, 5), "at once", &[1, 4, 5, 6]);
}

#[test]
fn what_an_operator_has_deleted_may_be_believed_in() {
    let lines = |token, at_ms| {
        let removed =
            (at_ms, 0, Operator::Removed { path: "/lock".into(), tokens: vec![token] }.into());
        let end = [removed, (30, 1, RELEASING_1), (30, 2, RELEASING_2)];
        timeline(&[&holds(1, [0, 1], 10), &end, &holds(2, [2, 6], 11)])
    };
    passes(&Exclusion::mutual(), lines(10, 5));
    fails(&Exclusion::mutual(), lines(10, 7), "at once", &[1, 3, 5, 6]);
    fails(&Exclusion::mutual(), lines(9, 5), "at once", &[1, 4, 5, 6]);
}

#[test]
fn hold_by_an_overtaken_node_is_excused() {
    let lines = |token| {
        let end = [
            (30, 1, RELEASING_1),
            (30, 2, RELEASING_2),
            (40, 0, Operator::Overtaken { token }.into()),
        ];
        timeline(&[&holds(1, [0, 1], 10), &holds(2, [2, 6], 11), &end])
    };
    passes(&Exclusion::mutual(), lines(10));
    fails(&Exclusion::mutual(), lines(9), "at once", &[1, 3, 4, 5]);
}

#[test]
fn a_reader_that_was_a_writer_holds_by_another_node() {
    let lines = |name: &str| {
        let reads = [
            (2, 1, acquiring(HoldMode::Shared, 2)),
            (2, 1, RELEASING_1),
            (3, 1, acquired(HoldMode::Shared, 2, 10)),
            (3, 1, Hold::Node { hold: 2, name: "read-7".into() }.into()),
            (
                4,
                0,
                Operator::Removed { path: format!("/lock/{name}").into(), tokens: vec![11] }.into(),
            ),
        ];
        let end = [(30, 1, RELEASING_2), (30, 3, RELEASING_3)];
        timeline(&[
            &holds(1, [0, 1], 10),
            &reads,
            &holds_as(HoldMode::Exclusive, 3, 3, [5, 6], 12),
            &end,
        ])
    };
    passes(&Exclusion::read_write(), lines("read-7"));
    fails(&Exclusion::read_write(), lines("read-8"), "at once", &[4, 8, 9, 10]);
}

#[test]
fn tokens_that_go_back_or_repeat_are_found() {
    let lines = |token, mode| {
        let second = holds_as(mode, 2, 2, [2, 6], token);
        timeline(&[&holds(1, [0, 1], 10), &[(4, 1, RELEASING_1)], &second])
    };
    passes(&Exclusion::mutual(), lines(11, HoldMode::Exclusive));
    fails(&Exclusion::mutual(), lines(9, HoldMode::Exclusive), "gone back", &[1, 3, 4]);
    fails(&Exclusion::mutual(), lines(10, HoldMode::Exclusive), "the same token", &[1, 3, 4]);
    // A reader must not look like one from before the writer.
    fails(&Exclusion::read_write(), lines(9, HoldMode::Shared), "gone back", &[1, 3, 4]);
}

#[test]
fn a_grant_that_was_heard_of_late_may_have_an_old_token() {
    let pause = [(1, 1, PAUSED), (20, 1, RESUMED)];
    let second = holds(2, [2, 10], 11);
    let heard = [
        (0, 1, acquiring(HoldMode::Exclusive, 1)),
        (20, 1, acquired(HoldMode::Exclusive, 1, 10)),
        (20, 1, LOST_1),
    ];
    passes(&Exclusion::mutual(), timeline(&[&heard[..1], &pause, &second, &heard[1..]]));
    let awake = timeline(&[&heard, &second, &[(12, 2, RELEASING_2)]]);
    fails(&Exclusion::mutual(), awake, "gone back", &[2, 3, 4, 5]);
}

#[test]
fn uses_that_go_back_are_found_even_if_the_beliefs_are_excused() {
    let pause = [(2, 1, PAUSED), (20, 1, RESUMED)];
    let lines = |late: Event| {
        let uses = [(8, 2, used(2, 11, Some(1))), (20, 1, late), (20, 1, LOST_1)];
        timeline(&[&holds(1, [0, 1], 10), &pause, &holds(2, [3, 5], 11), &uses])
    };
    passes(&Exclusion::mutual(), lines(used(1, 10, None)));
    fails(&Exclusion::mutual(), lines(used(1, 10, Some(2))), "after one with token 0xb", &[5, 7]);
    // The order of the effects counts, not that of the responses.
    passes(&Exclusion::mutual(), lines(used(1, 10, Some(0))));
    fails(&Exclusion::mutual(), lines(used(1, 10, Some(1))), "at one place", &[5, 7]);
}

#[test]
fn a_use_goes_with_the_token_of_its_hold() {
    let used_with = |token| timeline(&[&holds(1, [0, 1], 10), &[(2, 1, used(1, token, Some(1)))]]);
    passes(&Exclusion::mutual(), used_with(10));
    fails(&Exclusion::mutual(), used_with(11), "another token than that of the hold", &[1, 2]);
    fails(&Exclusion::mutual(), [(2, 1, used(1, 10, Some(1)))], "without a hold", &[0]);
}

#[test]
fn numbers_of_holds_are_unique() {
    let again = holds_as(HoldMode::Exclusive, 2, 1, [2, 3], 11);
    fails(
        &Exclusion::mutual(),
        timeline(&[&holds(1, [0, 1], 10), &again]),
        "the same number",
        &[0, 2],
    );
    let twice = timeline(&[&holds(1, [0, 1], 10), &[(2, 1, acquired(HoldMode::Exclusive, 1, 10))]]);
    fails(&Exclusion::mutual(), twice, "acquired two holds", &[1, 2]);
    fails(
        &Exclusion::mutual(),
        [(2, 1, acquired(HoldMode::Exclusive, 1, 10))],
        "without an attempt",
        &[0],
    );
}

#[test]
fn resources_have_nothing_to_do_with_each_other() {
    let other = |event| match event {
        Event::Hold(Hold::Acquiring { mode, hold, .. }) => {
            Hold::Acquiring { resource: "other".into(), mode, hold }.into()
        }
        Event::Hold(Hold::Acquired { mode, hold, token, .. }) => {
            Hold::Acquired { resource: "other".into(), mode, hold, token }.into()
        }
        event => event,
    };
    let second = holds(2, [2, 3], 9).map(|(at_ms, client, event)| (at_ms, client, other(event)));
    passes(&Exclusion::mutual(), timeline(&[&holds(1, [0, 1], 10), &second]));
}

#[test]
fn only_a_handover_lock_passes_its_token_on() {
    let lines = |client| {
        let second = holds_as(HoldMode::Exclusive, client, 2, [2, 6], 10);
        timeline(&[&holds(1, [0, 1], 10), &[(4, 1, RELEASING_1)], &second])
    };
    passes(&Exclusion::handed_over(), lines(1));
    fails(&Exclusion::handed_over(), lines(2), "the same token", &[1, 3, 4]);
    fails(&Exclusion::mutual(), lines(1), "the same token", &[1, 3, 4]);
}

#[test]
fn what_is_passed_on_goes_with_the_session_of_the_first() {
    // The second attempt began after the session had ended, but got the node of the first.
    let second = holds_as(HoldMode::Exclusive, 1, 2, [3, 4], 10);
    let third = holds_as(HoldMode::Exclusive, 3, 3, [0, 5], 11);
    let lines = timeline(&[
        &holds(1, [0, 1], 10),
        &[(2, 1, EXPIRED), (4, 1, RELEASING_1)],
        &second,
        &third,
    ]);
    passes(&Exclusion::handed_over(), lines);
}

#[test]
fn turns_of_one_node_grow_and_go_with_its_session() {
    let token = Exclusion::turn_token;
    let lines = |first, second| {
        let second = holds_as(HoldMode::Exclusive, 1, 2, [2, 6], second);
        timeline(&[&holds(1, [0, 1], first), &[(4, 1, RELEASING_1)], &second])
    };
    let turns = Exclusion::in_turns();
    passes(&turns, lines(token(10, 0), token(10, 1)));
    fails(&turns, lines(token(10, 1), token(10, 1)), "the same token", &[1, 3, 4]);
    fails(&turns, lines(token(10, 1), token(10, 0)), "gone back", &[1, 3, 4]);
    // As without turns: the session has ended.
    let second = holds_as(HoldMode::Exclusive, 1, 2, [3, 4], token(10, 1));
    let third = holds_as(HoldMode::Exclusive, 3, 3, [0, 5], token(11, 0));
    let ended = [(2, 1, EXPIRED), (4, 1, RELEASING_1)];
    passes(&turns, timeline(&[&holds(1, [0, 1], token(10, 0)), &ended, &second, &third]));
}

fn leases(last: u64) -> Vec<Line> {
    let lease =
        |client: u32, times, token| holds_as(HoldMode::Permit, client, client.into(), times, token);
    let ends = [(10, 1, RELEASING_1), (30, 2, RELEASING_2), (30, 3, RELEASING_3)];
    timeline(&[&lease(1, [0, 1], 12), &ends, &lease(2, [0, 2], 11), &lease(3, [0, last], 13)])
}

#[test]
fn no_more_leases_than_there_are() {
    passes(&Exclusion::at_most(2), leases(10));
    fails(&Exclusion::at_most(2), leases(9), "held 3 times at once", &[3, 4, 5, 6, 7, 8]);
    passes(&Exclusion::at_most(3), leases(9));
}

#[test]
fn three_leases_that_overlap_by_twos_are_two_at_once() {
    let lease =
        |client: u32, times, token| holds_as(HoldMode::Permit, client, client.into(), times, token);
    let ends = [(5, 1, RELEASING_1), (7, 2, RELEASING_2)];
    let lines =
        timeline(&[&lease(1, [0, 1], 11), &lease(2, [0, 3], 12), &ends, &lease(3, [0, 5], 13)]);
    passes(&Exclusion::at_most(2), lines);
}

#[test]
fn a_lease_that_is_given_twice_is_found() {
    let lease = |client: u32| holds_as(HoldMode::Permit, client, client.into(), [0, 1], 12);
    fails(&Exclusion::at_most(2), timeline(&[&lease(1), &lease(2)]), "the same token", &[2, 3]);
}

#[test]
fn readers_share_and_writers_do_not() {
    let reader =
        |client: u32, times, token| holds_as(HoldMode::Shared, client, client.into(), times, token);
    let ends = [(8, 1, RELEASING_1), (9, 2, RELEASING_2)];
    let readers = [&reader(1, [0, 2], 11)[..], &reader(2, [0, 1], 10), &ends];
    let with_writer = |at_ms| timeline(&[&readers.concat(), &holds(3, [0, at_ms], 12)]);
    passes(&Exclusion::read_write(), with_writer(9));
    // The writer conflicts with the remaining reader.
    fails(&Exclusion::read_write(), with_writer(8), "held 2 times", &[3, 6, 7]);
    let writer_first = timeline(&[&holds(1, [0, 1], 10), &reader(2, [0, 2], 11)]);
    fails(&Exclusion::read_write(), writer_first, "held 2 times", &[2, 3]);
}

#[test]
fn a_writer_takes_its_token_along_when_it_becomes_a_reader() {
    let reader = holds_as(HoldMode::Shared, 1, 2, [2, 2], 10);
    let lines = timeline(&[&holds(1, [0, 1], 10), &[(2, 1, RELEASING_1)], &reader]);
    passes(&Exclusion::read_write(), lines.clone());
    let another = holds_as(HoldMode::Shared, 1, 3, [5, 5], 10);
    fails(&Exclusion::read_write(), timeline(&[&lines, &another]), "the same token", &[4, 6]);
}

#[test]
fn reads_go_back_among_themselves_but_not_behind_a_write() {
    let reader =
        |client: u32, token| holds_as(HoldMode::Shared, client, client.into(), [0, 1], token);
    let reads = [(2, 2, used(2, 12, Some(1))), (3, 1, used(1, 11, Some(2)))];
    let lines = timeline(&[&reader(1, 11), &reader(2, 12), &reads]);
    passes(&Exclusion::read_write(), lines.clone());
    let stopped = [(0, 3, acquiring(HoldMode::Exclusive, 3)), (0, 3, PAUSED)];
    let late = [
        (4, 3, acquired(HoldMode::Exclusive, 3, 10)),
        (4, 3, used(3, 10, Some(3))),
        (4, 3, Hold::Lost { hold: 3 }.into()),
    ];
    let write = timeline(&[&stopped, &lines, &late]);
    fails(&Exclusion::read_write(), write, "after one with token 0xc", &[6, 9]);
}

#[test]
fn one_leader_at_a_time() {
    let leader =
        |client, hold, times, token| holds_as(HoldMode::Leader, client, hold, times, token);
    let lines =
        |second: [Line; 2]| timeline(&[&leader(1, 1, [0, 1], 10), &[(5, 1, LOST_1)], &second]);
    passes(&Exclusion::leader(), lines(leader(2, 2, [0, 5], 11)));
    fails(&Exclusion::leader(), lines(leader(2, 2, [0, 4], 11)), "at once", &[2, 3, 4]);
    // The same client may lead again with the same node; another client may not.
    passes(&Exclusion::leader(), lines(leader(1, 2, [6, 7], 10)));
    fails(&Exclusion::leader(), lines(leader(2, 2, [6, 7], 10)), "the same token", &[1, 2, 4]);
    let between = timeline(&[
        &lines(leader(2, 2, [0, 5], 11)),
        &[(8, 2, RELEASING_2)],
        &leader(1, 3, [9, 10], 10),
    ]);
    fails(&Exclusion::leader(), between, "gone back", &[4, 5, 7]);
}

#[test]
fn a_limit_that_changes_is_that_of_the_last_grant() {
    let set = |at, id, value| -> [Line; 2] {
        let (object, operation) = ("limit".into(), Operation::Set(value));
        [
            (at, 9, Shared::Call { id, object, operation }.into()),
            (at + 1, 9, Shared::Return { id, answer: Answer::Done }.into()),
        ]
    };
    let lease = |client: u32, at: u64| {
        holds_as(HoldMode::Permit, client, client.into(), [at, at + 1], 10 + i64::from(client))
    };
    let limited = Exclusion::at_most(1).limited_by("limit");
    let two = "held 2 times at once";
    passes(&limited, timeline(&[&set(0, 100, 2), &lease(1, 4), &lease(2, 6)]));
    passes(&limited, timeline(&[&lease(1, 0), &set(2, 100, 2), &lease(2, 6)]));
    // A lower limit takes no lease away.
    passes(&limited, timeline(&[&set(0, 100, 2), &lease(1, 4), &lease(2, 6), &set(8, 101, 1)]));
    // The limit was lowered while the lease was acquired.
    passes(&limited, timeline(&[&set(0, 100, 2), &lease(1, 2), &lease(2, 4), &set(4, 101, 1)]));
    fails(&limited, timeline(&[&lease(1, 0), &lease(2, 2), &set(6, 100, 2)]), two, &[1, 3]);
    let lowered = timeline(&[&set(0, 100, 2), &lease(1, 2), &set(4, 101, 1), &lease(2, 6)]);
    fails(&limited, lowered, two, &[3, 7]);
    let mut refused = timeline(&[&set(0, 100, 2), &lease(1, 4), &lease(2, 6)]);
    refused[1].2 = Shared::Return { id: 100, answer: Answer::Failed }.into();
    fails(&limited, refused.clone(), two, &[3, 5]);
    refused[1].2 = Shared::Return { id: 100, answer: Answer::Unknown }.into();
    passes(&limited, refused);
}
