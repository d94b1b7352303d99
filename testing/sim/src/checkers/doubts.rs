use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{
    Answer, Doubt, Event, History, Lifecycle, Operation, Operator, ProcessId, Shared,
};

/// Checks that the response to a call is [unknown](Answer::Unknown) only for a
/// [reason](Shared::Doubtful): the session ended, the deadline passed, the caller gave up, or there
/// is no receipt.
///
/// Another reason is an operator who [deletes](Operator::Removed) the receipt of a process. It is
/// valid until the process calls again with success, because the process may not know of the delete
/// until then.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Doubts;

const NAME: &str = "doubts";

#[derive(Debug)]
struct Call {
    place: usize,
    operation: Operation,
    /// The place since which the process has certainly had its receipt.
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
                Event::Lifecycle(Lifecycle::Started) => drop(since.insert(record.who, place)),
                Event::Shared(Shared::Call { id, operation, .. }) => {
                    let since = since.get(&record.who).copied().unwrap_or_default();
                    called.insert(*id, Call { place, operation: *operation, since });
                }
                Event::Shared(Shared::Doubtful { id, why }) => drop(reasons.insert(*id, *why)),
                // The receipts below a deleted node are deleted with it.
                Event::Operator(Operator::Removed { .. }) => removed = Some(place),
                Event::Shared(Shared::Return { id, answer }) => {
                    let Some(call) = called.get(id) else { continue };
                    match (call.operation, answer) {
                        (_, Answer::Unknown) => {
                            let why = reasons.get(id).copied().unwrap_or(Doubt::Unexplained);
                            if why == Doubt::Unexplained
                                && removed.is_none_or(|removed| removed < call.since)
                            {
                                let broken = "a response is unknown without a reason";
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

    const UNKNOWN: Event = returns(7, Answer::Unknown);

    fn call(id: u64) -> Event {
        Shared::Call { id, object: "n".into(), operation: Operation::Add(1) }.into()
    }

    const fn returns(id: u64, answer: Answer) -> Event {
        Event::Shared(Shared::Return { id, answer })
    }

    const fn doubtful(why: Doubt) -> Event {
        Event::Shared(Shared::Doubtful { id: 7, why })
    }

    fn removed() -> Event {
        Operator::Removed { path: "/n/_r_1".into(), tokens: vec![1] }.into()
    }

    #[test]
    fn unknown_outcomes_have_a_reason() {
        for why in [Doubt::SessionEnded, Doubt::Deadline, Doubt::Cancelled, Doubt::Unproven] {
            passes(&Doubts, [(0, 1, call(7)), (1, 1, doubtful(why)), (2, 1, UNKNOWN)]);
        }
        let lines = [(0, 1, call(7)), (1, 1, doubtful(Doubt::Unexplained)), (2, 1, UNKNOWN)];
        fails(&Doubts, lines, "without a reason", &[0, 2]);
        fails(&Doubts, [(0, 1, call(7)), (2, 1, UNKNOWN)], "without a reason", &[0, 1]);
        passes(&Doubts, [(0, 1, call(7)), (2, 1, returns(7, Answer::Failed))]);
    }

    #[test]
    fn a_deleted_receipt_is_a_reason_until_there_is_another_one() {
        passes(&Doubts, [(0, 1, call(7)), (1, 0, removed()), (2, 1, UNKNOWN)]);
        passes(&Doubts, [(0, 0, removed()), (1, 1, call(7)), (2, 1, UNKNOWN)]);
        let before = |answer| {
            let earlier = [(1, 1, call(6)), (2, 1, returns(6, answer))];
            let later = [(3, 1, call(7)), (4, 1, UNKNOWN)];
            [(0, 0, removed())].into_iter().chain(earlier).chain(later)
        };
        fails(&Doubts, before(Answer::Value(1)), "without a reason", &[3, 4]);
        passes(&Doubts, before(Answer::Failed));
        let started = [
            (0, 0, removed()),
            (1, 1, Lifecycle::Started.into()),
            (2, 1, call(7)),
            (3, 1, UNKNOWN),
        ];
        fails(&Doubts, started, "without a reason", &[2, 3]);
    }
}
