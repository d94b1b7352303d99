use std::collections::BTreeMap;
use std::time::Duration;

use super::{Checker, Violation};
use crate::history::{Event, History, Lifecycle, ProcessId};

/// Checks progress: each process that was started and not killed has
/// [finished](Lifecycle::Finished), and in time once there were no more faults.
///
/// A client that was killed and not restarted does not have to finish.
#[derive(Debug, Clone)]
pub struct Progress {
    within: Duration,
}

impl Progress {
    /// Creates a checker that all clients finish within this time after
    /// [`FaultsOver`](Event::FaultsOver).
    #[must_use]
    pub const fn within(within: Duration) -> Self {
        Self { within }
    }
}

const NAME: &str = "progress";

impl Checker for Progress {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut last: BTreeMap<ProcessId, usize> = BTreeMap::new();
        let mut deadline: Option<(usize, Duration)> = None;
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Lifecycle(Lifecycle::Started) => {
                    last.insert(record.who, place);
                }
                Event::Lifecycle(Lifecycle::Killed) => {
                    last.remove(&record.who);
                }
                Event::FaultsOver => {
                    deadline = Some((place, record.at.saturating_add(self.within)));
                }
                Event::Lifecycle(Lifecycle::Finished) => {
                    last.remove(&record.who);
                    if let Some((over, _)) = deadline.filter(|&(_, deadline)| record.at > deadline)
                    {
                        let broken = format!("{} has finished too late", record.who);
                        return Err(Violation::new(NAME, broken, vec![over, place]));
                    }
                }
                _ => {}
            }
        }
        match last.into_iter().next() {
            None => Ok(()),
            Some((who, started)) => {
                let broken = format!("{who} has not finished");
                // The last record of the process shows where it got stuck.
                let latest = history.records().iter().rposition(|record| record.who == who);
                let mut places = vec![started];
                places.extend(latest.filter(|&latest| latest > started));
                Err(Violation::new(NAME, broken, places))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};
    use crate::history::{Hold, HoldMode};

    const CHECKER: Progress = Progress::within(Duration::from_millis(10));
    const STARTED: Event = Event::Lifecycle(Lifecycle::Started);
    const FINISHED: Event = Event::Lifecycle(Lifecycle::Finished);

    #[test]
    fn a_client_that_finished_in_time_is_accepted() {
        let finished = |at_ms| [(0, 1, STARTED), (5, 0, Event::FaultsOver), (at_ms, 1, FINISHED)];
        passes(&CHECKER, finished(15));
        fails(&CHECKER, finished(16), "c1 has finished too late", &[1, 2]);
    }

    #[test]
    fn before_the_faults_are_over_there_is_no_hurry() {
        passes(&CHECKER, [(0, 1, STARTED), (5000, 1, FINISHED), (6000, 0, Event::FaultsOver)]);
    }

    #[test]
    fn an_unfinished_client_is_found_with_its_last_step() {
        let stuck = Hold::Acquiring { resource: "r".into(), mode: HoldMode::Exclusive, hold: 1 };
        let lines = [(0, 1, STARTED), (0, 2, STARTED), (1, 2, stuck.into()), (2, 1, FINISHED)];
        fails(&CHECKER, lines, "c2 has not finished", &[1, 2]);
    }

    #[test]
    fn the_killed_need_not_finish_but_their_successors_do() {
        let mut history = History::new();
        let successor = ProcessId::Client { number: 1, incarnation: 1 };
        let mut record = |who, event| history.record(Duration::ZERO, who, event);
        record(ProcessId::client(1), Lifecycle::Started);
        record(ProcessId::client(1), Lifecycle::Killed);
        record(successor, Lifecycle::Started);
        let violation = CHECKER.check(&history).expect_err("the second life is not over");
        assert_eq!(
            (violation.records, violation.broken.as_str()),
            (vec![2], "c1.1 has not finished")
        );
        history.record(Duration::ZERO, successor, Lifecycle::Finished);
        assert_eq!(CHECKER.check(&history), Ok(()));
    }
}
