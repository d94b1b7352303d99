use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Answer, Doubt, Event, History, Operation, ProcessId};

/// That the answer to a call is [unknown](Answer::Unknown) only for a [reason](Event::Doubtful): the session ended, the deadline
/// passed, the caller has given up, or there is no receipt.
///
/// An operator who [deletes](Event::Removed) the receipt of a process is a reason, too, as long as the process has not called
/// again with success: so long it need not know that.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Doubts;

const NAME: &str = "doubts";

#[derive(Debug)]
struct Call {
    place: usize,
    operation: Operation,
    /// Since when its process has had its receipt, at least.
    since: usize,
}

impl Checker for Doubts {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut called: BTreeMap<u64, Call> = BTreeMap::new();
        let mut reasons: BTreeMap<u64, Doubt> = BTreeMap::new();
        let mut since: BTreeMap<ProcessId, usize> = BTreeMap::new();
        let mut removed = None;
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Started => drop(since.insert(record.who, place)),
                Event::Call { id, operation, .. } => {
                    let since = since.get(&record.who).copied().unwrap_or_default();
                    called.insert(*id, Call { place, operation: *operation, since });
                }
                Event::Doubtful { id, why } => drop(reasons.insert(*id, *why)),
                // A deleted node takes its receipts along.
                Event::Removed { .. } => removed = Some(place),
                Event::Return { id, answer } => {
                    let Some(call) = called.get(id) else { continue };
                    match (call.operation, answer) {
                        (_, Answer::Unknown) => {
                            let why = reasons.get(id).copied().unwrap_or(Doubt::Unexplained);
                            if why == Doubt::Unexplained && removed.is_none_or(|removed| removed < call.since)
                            {
                                let broken = "an answer is unknown without a reason";
                                return Err(Violation::new(NAME, broken, [call.place, place]));
                            }
                        }
                        (Operation::Get, _) | (_, Answer::Failed | Answer::Differs) => {}
                        _ => {
                            let since = since.entry(record.who).or_default();
                            *since = call.place.max(*since);
                        }
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
    use crate::history::Operation;

    const CALL: fn() -> Event = || Event::Call { id: 7, object: "n".into(), operation: Operation::Add(1) };
    const UNKNOWN: Event = Event::Return { id: 7, answer: Answer::Unknown };

    fn doubtful(why: Doubt) -> Event {
        Event::Doubtful { id: 7, why }
    }

    fn removed() -> Event {
        Event::Removed { path: "/n/_r_1".into(), tokens: vec![1] }
    }

    #[test]
    fn unknown_answers_have_a_reason() {
        for why in [Doubt::SessionEnded, Doubt::Deadline, Doubt::Cancelled, Doubt::Unproven] {
            passes(&Doubts, [(0, 1, CALL()), (1, 1, doubtful(why)), (2, 1, UNKNOWN)]);
        }
        let lines = [(0, 1, CALL()), (1, 1, doubtful(Doubt::Unexplained)), (2, 1, UNKNOWN)];
        fails(&Doubts, lines, "without a reason", &[0, 2]);
        fails(&Doubts, [(0, 1, CALL()), (2, 1, UNKNOWN)], "without a reason", &[0, 1]);
        passes(&Doubts, [(0, 1, CALL()), (2, 1, Event::Return { id: 7, answer: Answer::Failed })]);
    }

    #[test]
    fn a_deleted_receipt_is_a_reason_until_there_is_another_one() {
        passes(&Doubts, [(0, 1, CALL()), (1, 0, removed()), (2, 1, UNKNOWN)]);
        passes(&Doubts, [(0, 0, removed()), (1, 1, CALL()), (2, 1, UNKNOWN)]);
        let before = |answer| {
            let call = Event::Call { id: 6, object: "n".into(), operation: Operation::Add(1) };
            let returns = Event::Return { id: 6, answer };
            [(0, 0, removed()), (1, 1, call), (2, 1, returns), (3, 1, CALL()), (4, 1, UNKNOWN)]
        };
        fails(&Doubts, before(Answer::Value(1)), "without a reason", &[3, 4]);
        passes(&Doubts, before(Answer::Failed));
        let started = [(0, 0, removed()), (1, 1, Event::Started), (2, 1, CALL()), (3, 1, UNKNOWN)];
        fails(&Doubts, started, "without a reason", &[2, 3]);
    }
}
