//! Histories for the tests of the checkers, in few words.

use std::time::Duration;

use super::Checker;
use crate::history::{Event, History, ProcessId};

/// A history of events, each with its time in milliseconds and the number of its client, which is zero for the world.
pub(super) fn history(events: impl IntoIterator<Item = (u64, u32, Event)>) -> History {
    let mut history = History::new();
    for (at_ms, client, event) in events {
        let who = if client == 0 { ProcessId::World } else { ProcessId::client(client) };
        history.record(Duration::from_millis(at_ms), who, event);
    }
    history
}

pub(super) fn passes(checker: &impl Checker, events: impl IntoIterator<Item = (u64, u32, Event)>) {
    let history = history(events);
    if let Err(violation) = checker.check(&history) {
        panic!("{violation}\n{history}");
    }
}

/// Asserts that a history is refused for this reason, with these records as the proof.
pub(super) fn fails(
    checker: &impl Checker,
    events: impl IntoIterator<Item = (u64, u32, Event)>,
    why: &str,
    records: &[usize],
) {
    let history = history(events);
    let Err(violation) = checker.check(&history) else { panic!("nothing was found in\n{history}") };
    assert!(violation.broken.contains(why), "{violation}\n{history}");
    assert_eq!(violation.records, records, "{violation}\n{history}");
}
