use super::{Checker, Violation};
use crate::history::{Event, History, Name, Outcome, ResourceUse};

/// That a service works again after the faults: it uses a resource, or works off an item of a queue, after
/// [`FaultsOver`](Event::FaultsOver).
///
/// For services that run [to the end](crate::Sim::service): one that waits for ever does not finish late, it is dropped. Clients
/// that do a number of rounds are judged by the run, and by [`Progress`](super::Progress).
#[derive(Debug, Clone)]
pub struct Recovery {
    what: Name,
}

impl Recovery {
    /// That the resource of this name has accepted a use, or that an item of the queue of this name was surely worked off.
    pub fn of(what: impl Into<Name>) -> Self {
        Self { what: what.into() }
    }

    fn is_progress(&self, event: &Event) -> bool {
        match event {
            Event::Used { resource: what, outcome: ResourceUse::Accepted(_), .. }
            | Event::Done { queue: what, outcome: Outcome::Sure, .. } => *what == self.what,
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
        let broken = format!("{} is not used any more after the faults", self.what);
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

    fn used(outcome: ResourceUse) -> Event {
        Event::Used { resource: "orders".into(), hold: 1, token: 1, outcome }
    }

    #[test]
    fn use_after_the_faults_is_recovery() {
        let accepted = || used(ResourceUse::Accepted(1));
        assert_eq!(check([accepted(), Event::FaultsOver, accepted()]), Ok(()));
        assert_eq!(check([accepted(), Event::FaultsOver]), Err(vec![0, 1]));
        assert_eq!(check([Event::FaultsOver, used(ResourceUse::Refused)]), Err(vec![0]));
        assert_eq!(check([accepted()]), Ok(()), "the run has ended before");
    }

    #[test]
    fn item_that_is_worked_off_is_recovery() {
        let done = |outcome| Event::Done { queue: "orders".into(), item: "a".into(), outcome };
        assert_eq!(check([Event::FaultsOver, done(Outcome::Sure)]), Ok(()));
        assert_eq!(check([Event::FaultsOver, done(Outcome::Unknown)]), Err(vec![0]));
    }
}
