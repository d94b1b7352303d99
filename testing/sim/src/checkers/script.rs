//! Short ways to write histories in the tests of the checkers.

use std::time::Duration;

use super::Checker;
use crate::history::{Event, History, ProcessId};

/// Makes a history of events, each with its time in milliseconds and the number of its client. The
/// number zero is the world.
pub(super) fn history<E: Into<Event>>(events: impl IntoIterator<Item = (u64, u32, E)>) -> History {
    let mut history = History::new();
    for (at_ms, client, event) in events {
        let who = if client == 0 { ProcessId::World } else { ProcessId::client(client) };
        history.record(Duration::from_millis(at_ms), who, event);
    }
    history
}

pub(super) fn passes<E: Into<Event>>(
    checker: &impl Checker,
    events: impl IntoIterator<Item = (u64, u32, E)>,
) {
    let history = history(events);
    if let Err(violation) = checker.check(&history) {
        panic!("{violation}\n{history}");
    }
}

/// Asserts that the checker rejects a history for this reason, with these records as the proof.
pub(super) fn fails<E: Into<Event>>(
    checker: &impl Checker,
    events: impl IntoIterator<Item = (u64, u32, E)>,
    why: &str,
    records: &[usize],
) {
    let history = history(events);
    let Err(violation) = checker.check(&history) else { panic!("nothing was found in\n{history}") };
    assert!(violation.broken.contains(why), "{violation}\n{history}");
    assert_eq!(violation.records, records, "{violation}\n{history}");
}
