use super::{Checker, Violation};
use crate::history::{Event, History, Hold, Name, Outcome, Queue, UseOutcome};

/// Checks that a service works again after the faults: it uses a resource, or processes an item of
/// a queue, after [`FaultsOver`](Event::FaultsOver).
///
/// An item is processed by [`Done`](Queue::Done) with a certain outcome, or by
/// [`Finishing`](Queue::Finishing): a body of `run` can report no more, because the item is
/// acknowledged after the body has returned.
///
/// This checker is for services that run [until the end](crate::Sim::service). A service that hangs
/// does not finish late: it is dropped. The run itself, and [`Progress`](super::Progress), judge
/// clients with a number of rounds.
#[derive(Debug, Clone)]
pub struct Recovery {
    what: Name,
}

impl Recovery {
    /// Checks that the resource of this name has accepted a use, or that an item of the queue of
    /// this name was processed.
    pub fn of(what: impl Into<Name>) -> Self {
        Self { what: what.into() }
    }

    fn is_progress(&self, event: &Event) -> bool {
        match event {
            Event::Hold(Hold::Used {
                resource: what, outcome: UseOutcome::Accepted(_), ..
            })
            | Event::Queue(
                Queue::Done { queue: what, outcome: Outcome::Sure, .. }
                | Queue::Finishing { queue: what, .. },
            ) => *what == self.what,
            _ => false,
        }
    }
}

impl Checker for Recovery {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let records = history.records();
        let Some(over) = records.iter().position(|record| record.event == Event::FaultsOver) else {
            return Ok(());
        };
        if records[over..].iter().any(|record| self.is_progress(&record.event)) {
            return Ok(());
        }
        let last = records[..over].iter().rposition(|record| self.is_progress(&record.event));
        let broken = format!("{} is no longer used after the faults", self.what);
        Err(Violation::new("recovery", broken, last.into_iter().chain([over]).collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::ProcessId;

    fn check(events: impl IntoIterator<Item = Event>) -> Result<(), Vec<usize>> {
        let mut history = History::new();
        for event in events {
            history.record(Duration::ZERO, ProcessId::client(0), event);
        }
        Recovery::of("orders").check(&history).map_err(|violation| violation.records)
    }

    fn used(outcome: UseOutcome) -> Event {
        Hold::Used { resource: "orders".into(), hold: 1, token: 1, outcome }.into()
    }

    #[test]
    fn use_after_the_faults_is_recovery() {
        let accepted = || used(UseOutcome::Accepted(1));
        assert_eq!(check([accepted(), Event::FaultsOver, accepted()]), Ok(()));
        assert_eq!(check([accepted(), Event::FaultsOver]), Err(vec![0, 1]));
        assert_eq!(check([Event::FaultsOver, used(UseOutcome::Refused)]), Err(vec![0]));
        assert_eq!(check([accepted()]), Ok(()), "the run has ended before");
    }

    #[test]
    fn item_that_is_worked_off_is_recovery() {
        let done =
            |outcome| Queue::Done { queue: "orders".into(), item: "a".into(), outcome }.into();
        assert_eq!(check([Event::FaultsOver, done(Outcome::Sure)]), Ok(()));
        assert_eq!(check([Event::FaultsOver, done(Outcome::Unknown)]), Err(vec![0]));
        let finishing = Queue::Finishing { queue: "orders".into(), item: "a".into() };
        assert_eq!(check([Event::FaultsOver, finishing.into()]), Ok(()));
    }
}
