use proptest::prelude::*;

use super::tree;
use crate::inspect::{Deadlocks, Finding, deadlocks, recognise};

/// A lock at a path, from a tree.
fn lock(path: &str, lines: &str) -> Finding {
    recognise(&tree(path, lines))
}

/// A mutex in which these sessions contend, in this order.
fn mutex(path: &str, sessions: &[i64]) -> Finding {
    let line = |(number, session): (usize, &i64)| format!("lock-{number:010} @{session}");
    lock(path, &sessions.iter().enumerate().map(line).collect::<Vec<_>>().join("\n"))
}

/// The cycles as text.
fn cycles(found: &Deadlocks) -> Vec<String> {
    let cycle = |waits: &[crate::inspect::Wait]| {
        let edge = |wait: &crate::inspect::Wait| {
            format!("{}-{}", wait.waiter_session.get(), wait.holder_session.get())
        };
        waits.iter().map(edge).collect::<Vec<_>>().join(" ")
    };
    found.cycles.iter().map(|found| cycle(&found.waits)).collect()
}

#[test]
fn two_locks_in_two_orders_are_a_deadlock() {
    let found = deadlocks(&[mutex("/a", &[1, 2]), mutex("/b", &[2, 1])]);
    assert_eq!(cycles(&found), ["1-2 2-1"]);
    assert_eq!(found.stuck, 2);
    let cycle = &found.cycles[0];
    assert_eq!(cycle.waits[0].to_string(), "0x1 waits in /b for 0x2");
    assert_eq!(cycle.waits[0].waiter, "/b/lock-0000000001");
    assert_eq!(cycle.waits[0].holder, "/b/lock-0000000000");
    // One of the two frees both.
    assert_eq!(cycle.victim.frees, 2);
}

/// `zkc lock /a -- zkc lock /b`, and the same the other way round: four sessions.
#[test]
fn commands_under_locks_are_a_deadlock() {
    let a = lock("/a", "lock-0000000000 @1\nlock-0000000001 @4 =x (within 0x3)");
    let b = lock("/b", "lock-0000000000 @3\nlock-0000000001 @2 =x (within 0x1)");
    let found = deadlocks(&[a, b]);
    assert_eq!(cycles(&found), ["2-3 4-1"]);
    assert_eq!((found.stuck, found.cycles[0].victim.frees), (2, 2));
    // Without the marks, they are four independent processes.
    assert_eq!(deadlocks(&[mutex("/a", &[1, 4]), mutex("/b", &[3, 2])]).stuck, 0);
}

/// `zkc lock /a -- zkc elect /e`, and the same the other way round.
#[test]
fn candidates_under_locks_are_a_deadlock() {
    let a = || lock("/a", "lock-0000000000 @1\nlock-0000000001 @4 =x (within 0x3)");
    let e = lock("/e", "latch-0000000000 @3 =y\nlatch-0000000001 @2 =x (within 0x1)");
    let found = deadlocks(&[a(), e]);
    assert_eq!(cycles(&found), ["2-3 4-1"]);
    assert_eq!(found.stuck, 2);
    // A candidate without the mark does other work while it waits.
    let e = lock("/e", "latch-0000000000 @3 =y\nlatch-0000000001 @2 =x");
    assert_eq!(deadlocks(&[a(), e]).stuck, 0);
}

#[test]
fn a_command_that_waits_for_the_lock_above_it_is_a_deadlock() {
    let below = lock("/a", "lock-0000000000 @1\nlock-0000000001 @2 =x (within 0x1)");
    assert_eq!(cycles(&deadlocks(&[below])), ["2-1"]);
    // Also two levels below, and behind others.
    let below =
        lock("/a", "lock-0000000000 @1\nlock-0000000001 @9\nlock-0000000002 @3 =x (within 0x2)");
    let between = lock("/b", "lock-0000000000 @2 =x (within 0x1)");
    let found = deadlocks(&[below, between]);
    assert_eq!((found.cycles.len(), found.stuck), (1, 2));
}

#[test]
fn sessions_within_each_other_are_no_hang() {
    let a = lock("/a", "lock-0000000000 @1 =x (within 0x2)\nlock-0000000001 @2 =x (within 0x1)");
    assert_eq!(deadlocks(&[a]).cycles.len(), 1);
}

#[test]
fn the_same_order_is_no_deadlock() {
    let found = deadlocks(&[mutex("/a", &[1, 2, 3]), mutex("/b", &[1, 2])]);
    assert_eq!((found.cycles.len(), found.stuck), (0, 0));
}

#[test]
fn sessions_behind_a_cycle_are_stuck_but_not_in_it() {
    let found = deadlocks(&[mutex("/a", &[1, 2, 5]), mutex("/b", &[2, 1]), mutex("/c", &[5, 6])]);
    assert_eq!(cycles(&found), ["1-2 2-1"]);
    assert_eq!(found.stuck, 4);
}

/// Session 3 waits behind a waiting writer, not for the reader that holds.
#[test]
fn a_reader_behind_a_writer_closes_a_cycle() {
    let read_write = lock(
        "/rw",
        "__READ__0000000001 @1
         __WRIT__0000000002 @2
         __READ__0000000003 @3",
    );
    let found = deadlocks(&[read_write, mutex("/a", &[3, 1])]);
    assert_eq!(cycles(&found), ["1-3 3-2 2-1"]);
}

/// A writer waits for all readers, not only for the nearest.
#[test]
fn a_writer_waits_for_every_reader() {
    let read_write = lock(
        "/rw",
        "__READ__0000000001 @1
         __READ__0000000002 @2
         __WRIT__0000000003 @3",
    );
    let found = deadlocks(&[read_write, mutex("/a", &[3, 1])]);
    assert_eq!(cycles(&found), ["1-3 3-1"]);
}

#[test]
fn a_semaphore_is_stuck_only_if_all_its_holders_are() {
    let semaphore = |leases: &str| {
        lock(
            "/s",
            &format!(
                "{leases}\nlocks/_c_{{a}}-lock-0000000000 @3\nlocks/_c_{{b}}-lock-0000000001 @4"
            ),
        )
    };
    let one = "leases/_c_{c}-lease-0000000000 @1";
    let two = "leases/_c_{c}-lease-0000000000 @1\nleases/_c_{d}-lease-0000000001 @2";
    let locks = [mutex("/a", &[3, 1])];
    let with = |leases| deadlocks(&[&[semaphore(leases)][..], &locks[..]].concat());
    assert_eq!(cycles(&with(one)), ["1-3 3-1"]);
    assert_eq!(with(one).stuck, 3);
    assert_eq!(cycles(&with(two)), [""; 0]);
    // The second in line waits for the first.
    let locks = [semaphore(one), mutex("/a", &[4, 1])];
    assert_eq!(cycles(&deadlocks(&locks)), ["1-4 4-3 3-1"]);
}

#[test]
fn the_victim_frees_the_most() {
    // 1 and 2 wait for each other, 3 and 4 as well, all by way of 1.
    let locks = [mutex("/a", &[1, 2, 3]), mutex("/b", &[2, 1]), mutex("/c", &[3, 1])];
    let found = deadlocks(&locks);
    assert_eq!(found.stuck, 3);
    assert_eq!(found.cycles.len(), 1);
    assert_eq!(found.cycles[0].victim.path, "/a/lock-0000000000");
    assert_eq!(found.cycles[0].victim.frees, 3);
}

#[test]
fn a_session_that_waits_behind_itself_is_distinguished() {
    for sessions in [&[1, 1][..], &[1, 2, 1], &[2, 1, 3, 1]] {
        let found = deadlocks(&[mutex("/a", sessions)]);
        assert!(found.cycles.is_empty());
        let [wait] = &found.behind_themselves[..] else { panic!("{found:?}") };
        assert_eq!((wait.waiter_session.get(), wait.holder_session.get()), (1, 1));
    }
}

/// The tasks of two processes contend for one lock.
#[test]
fn one_lock_is_no_deadlock() {
    let found = deadlocks(&[mutex("/a", &[1, 2, 1, 2])]);
    assert_eq!((found.cycles.len(), found.stuck), (0, 0));
}

#[test]
fn elections_are_left_out() {
    let election = lock("/e", "latch-0000000000 @1\nlatch-0000000001 @2");
    assert!(deadlocks(&[election, mutex("/a", &[2, 1])]).cycles.is_empty());
}

proptest! {
    /// Sessions that acquire locks in the order of their paths never deadlock. In any order, each
    /// reported cycle is one, and removing its victim frees a session.
    #[test]
    fn cycles_are_cycles(lines in prop::collection::vec(prop::collection::vec(1..6_i64, 1..5), 1..6)) {
        let locks: Vec<_> = lines
            .iter()
            .enumerate()
            .map(|(lock, sessions)| mutex(&format!("/{lock}"), sessions))
            .collect();
        let found = deadlocks(&locks);
        for cycle in &found.cycles {
            for (wait, next) in cycle.waits.iter().zip(cycle.waits.iter().cycle().skip(1)) {
                prop_assert_eq!(wait.holder_session, next.waiter_session);
                prop_assert_ne!(wait.waiter_session, wait.holder_session);
            }
        }
        prop_assert_eq!(found.cycles.is_empty(), found.stuck == 0);
    }
}
