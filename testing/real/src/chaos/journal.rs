//! The records of a run, by the processes of the clients and by the tasks that disturb them.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::wire::Clock;
use zk_curator_client::internal::Locked;
use zk_curator_sim::checkers::Violation;
use zk_curator_sim::history::{HoldMode, Name, ProcessId, UseOutcome};
use zk_curator_sim::{Event, FencedResource};

/// The journal of all participants of a run. Clones are the same journal.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    clock: Clock,
    entries: Arc<Locked<Entries>>,
}

/// All records, in no order.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) entries: Vec<Entry>,
    /// The number of faults of each kind.
    pub(super) faults: BTreeMap<&'static str, u64>,
    /// The times in which a process did not run.
    pub(super) stalls: Vec<Stall>,
    /// The times in which servers did not run.
    pub(super) outages: Vec<Span>,
    /// The violations that the history does not show, each with its scenario.
    pub(super) violations: Vec<(Option<usize>, Violation)>,
    /// The resources outside ZooKeeper, by scenario.
    pub(super) resources: BTreeMap<(usize, Name), FencedResource>,
}

/// A line of the journal.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) at: Duration,
    /// The number of the scenario; `None` for all of them.
    pub(super) scenario: Option<usize>,
    pub(super) who: ProcessId,
    pub(super) event: Event,
}

/// A time in which a process did not run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    /// The client; `None` for the process that watches.
    pub(super) client: Option<(usize, ProcessId)>,
    pub(super) span: Span,
}

/// A time span, measured from the start of the run.
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

    /// Records an event that a client reports.
    pub(super) fn client_says(&self, scenario: usize, who: ProcessId, at: Duration, event: Event) {
        self.lock().entries.push(Entry { at, scenario: Some(scenario), who, event });
    }

    /// Records an event that happens to a client now.
    pub(super) fn client(&self, scenario: usize, who: ProcessId, event: impl Into<Event>) {
        self.client_says(scenario, who, self.clock.now(), event.into());
    }

    /// Records a fault of one client.
    pub(super) fn client_fault(
        &self,
        scenario: usize,
        who: ProcessId,
        kind: &'static str,
        text: String,
    ) {
        self.client(scenario, who, Event::Fault { text });
        self.count(kind);
    }

    /// Records an event that happens to all clients now.
    pub(super) fn world(&self, event: Event) {
        let at = self.clock.now();
        self.lock().entries.push(Entry { at, scenario: None, who: ProcessId::World, event });
    }

    /// Records a fault of all clients.
    pub(super) fn fault(&self, kind: &'static str, text: String) {
        self.world(Event::Fault { text });
        self.count(kind);
    }

    pub(super) fn stall(&self, client: Option<(usize, ProcessId)>, span: Span) {
        self.lock().stalls.push(Stall { client, span });
    }

    /// Records that servers did not run since `from`, and run now.
    pub(super) fn outage(&self, from: Duration) {
        let to = self.clock.now();
        self.lock().outages.push(Span { from, to });
    }

    /// Records a failure of a client.
    pub(super) fn fail(&self, scenario: usize, who: ProcessId, broken: &str) {
        self.violated(Some(scenario), "processes", format!("{who} {broken}"));
    }

    /// Records a violation by a scenario, or by all of them.
    pub(super) fn violated(&self, scenario: Option<usize>, promise: &'static str, broken: String) {
        self.lock().violations.push((scenario, Violation::new(promise, broken, Vec::new())));
    }

    /// Uses a resource of a scenario that is outside ZooKeeper.
    pub(super) fn use_resource(
        &self,
        scenario: usize,
        name: Name,
        mode: HoldMode,
        token: i64,
    ) -> UseOutcome {
        self.lock().resources.entry((scenario, name)).or_default().use_as(mode, token)
    }

    /// Takes all records.
    pub(super) fn take(&self) -> Entries {
        std::mem::take(&mut *self.lock())
    }

    fn count(&self, kind: &'static str) {
        *self.lock().faults.entry(kind).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}
