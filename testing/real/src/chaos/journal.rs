//! What is written down in a run, by the processes of the clients and by those who disturb them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::wire::Clock;
use zk_curator_sim::checkers::Violation;
use zk_curator_sim::history::{Name, ProcessId};
use zk_curator_sim::{Event, FencedResource};

/// Shared by all who take part in a run. Clones are the same journal.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    clock: Clock,
    entries: Arc<Mutex<Entries>>,
}

/// All that is written down, in no order.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) entries: Vec<Entry>,
    /// How often each kind of fault has happened.
    pub(super) faults: BTreeMap<&'static str, u64>,
    /// When a process did not run.
    pub(super) stalls: Vec<Stall>,
    /// When servers did not run.
    pub(super) outages: Vec<Span>,
    /// What is wrong, but not by the history, and with which scenario.
    pub(super) violations: Vec<(Option<usize>, Violation)>,
    /// Outside of ZooKeeper, by scenario.
    pub(super) resources: BTreeMap<(usize, Name), Arc<FencedResource>>,
}

/// A line of the journal.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) at: Duration,
    /// The scenario that it is about; `None` for all of them.
    pub(super) scenario: Option<usize>,
    pub(super) who: ProcessId,
    pub(super) event: Event,
}

/// A time in which a process did not run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    /// `None` for the process that watches.
    pub(super) client: Option<(usize, ProcessId)>,
    pub(super) span: Span,
}

/// From one time to another, since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

impl Journal {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, entries: Arc::default() }
    }

    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// What a client says.
    pub(super) fn client_says(&self, scenario: usize, who: ProcessId, at: Duration, event: Event) {
        self.lock().entries.push(Entry { at, scenario: Some(scenario), who, event });
    }

    /// What happens to a client now.
    pub(super) fn client(&self, scenario: usize, who: ProcessId, event: Event) {
        self.client_says(scenario, who, self.clock.now(), event);
    }

    /// A fault for one client.
    pub(super) fn client_fault(&self, scenario: usize, who: ProcessId, kind: &'static str, text: String) {
        self.client(scenario, who, Event::Fault { text });
        self.count(kind);
    }

    /// What happens to all of them now.
    pub(super) fn world(&self, event: Event) {
        let at = self.clock.now();
        self.lock().entries.push(Entry { at, scenario: None, who: ProcessId::World, event });
    }

    /// A fault for all of them.
    pub(super) fn fault(&self, kind: &'static str, text: String) {
        self.world(Event::Fault { text });
        self.count(kind);
    }

    pub(super) fn stall(&self, client: Option<(usize, ProcessId)>, span: Span) {
        self.lock().stalls.push(Stall { client, span });
    }

    /// Servers did not run since then, and do now.
    pub(super) fn outage(&self, from: Duration) {
        let to = self.clock.now();
        self.lock().outages.push(Span { from, to });
    }

    /// Something is wrong with a client.
    pub(super) fn fail(&self, scenario: usize, who: ProcessId, broken: &str) {
        self.violated(Some(scenario), "processes", format!("{who} {broken}"));
    }

    /// Something is wrong with a scenario, or with all of them.
    pub(super) fn violated(&self, scenario: Option<usize>, promise: &'static str, broken: String) {
        self.lock().violations.push((scenario, Violation::new(promise, broken, Vec::new())));
    }

    /// A resource of a scenario that is not in ZooKeeper.
    pub(super) fn resource(&self, scenario: usize, name: Name) -> Arc<FencedResource> {
        let mut entries = self.lock();
        let resource = entries.resources.entry((scenario, Name::clone(&name)));
        Arc::clone(resource.or_insert_with(|| Arc::new(FencedResource::new(name))))
    }

    /// Takes all that was written down.
    pub(super) fn take(&self) -> Entries {
        std::mem::take(&mut *self.lock())
    }

    fn count(&self, kind: &'static str) {
        *self.lock().faults.entry(kind).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
