//! The reports of processes: panics, stray tasks, polls, and ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use zk_curator_client::internal::Locked;

use super::checkers::Violation;
use super::exhaust::Interruption;
use super::history::ProcessId;
use super::process::Supervisor;
use super::shared_run::Run;

/// The number of polls between two checks of the time.
const POLLS: u64 = 1 << 10;
/// The number of consecutive checks that may see the same time.
const PATIENCE: u32 = 500;

/// The reports of all processes of a run.
pub(crate) struct Watch {
    run: Run,
    polls: AtomicU64,
    /// The time at the last check, and the number of consecutive checks at that time.
    looked: Locked<(Duration, u32)>,
    finished: Locked<BTreeSet<u32>>,
    changed: Notify,
}

impl Watch {
    pub(crate) fn new(run: Run) -> Self {
        let (looked, finished) = (Locked::default(), Locked::default());
        Self { run, polls: AtomicU64::new(0), looked, finished, changed: Notify::new() }
    }

    /// Returns the number of times that a task was polled.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Reports that a client has done its work.
    pub(crate) fn finish(&self, client: u32) {
        self.finished.lock().insert(client);
        self.changed.notify_one();
    }

    /// Returns the clients that have done their work.
    pub(crate) fn finished(&self) -> BTreeSet<u32> {
        self.finished.lock().clone()
    }

    pub(crate) async fn all_finished(&self, clients: usize) {
        while self.finished.lock().len() < clients {
            self.changed.notified().await;
        }
    }

    fn may_run(&self) -> bool {
        if !self.polls.fetch_add(1, Ordering::Relaxed).is_multiple_of(POLLS) {
            return true;
        }
        let mut looked = self.looked.lock();
        let now = self.run.elapsed();
        *looked = (now, if looked.0 == now { looked.1 + 1 } else { 0 });
        if looked.1 < PATIENCE {
            return true;
        }
        let broken = "tasks wake each other without end, and time does not pass";
        self.run.fail(Violation::new("liveness", broken, Vec::new()));
        false
    }
}

/// The reports of one process.
pub(crate) struct ProcessWatch {
    pub(crate) watch: Arc<Watch>,
    /// The number of the client.
    pub(crate) number: u32,
    pub(crate) incarnation: Arc<AtomicU32>,
}

impl Supervisor for ProcessWatch {
    fn panicked(&self, message: String) {
        self.watch.run.fail(Violation::new("panic", message, Vec::new()));
    }

    fn strayed(&self, task: u64, strays: usize) {
        let run = &self.watch.run;
        let who = ProcessId::Client {
            number: self.number,
            incarnation: self.incarnation.load(Ordering::Relaxed),
        };
        let (history, now) = (run.history(), run.elapsed());
        let mut own = Vec::new();
        for (place, record) in
            history.records().iter().enumerate().filter(|(_, record)| record.who == who)
        {
            // Of the records before this moment, keeps only the last one.
            own.retain(|_| record.at == now);
            own.push(place);
        }
        let place = match task {
            0 => "in the future of its workload".to_owned(),
            task => format!("in task {task} of those that the process has started"),
        };
        let after = own.first().and_then(|place| history.records().get(*place));
        let after = after.map(|record| format!(", after \"{}\"", record.event)).unwrap_or_default();
        let broken = format!(
            "{who} has started {} at {now:?}, {place}{after}, that the simulation does not know: it cannot be \
             stopped or killed with its process. Use CuratorFramework::spawn_task or Client::spawn in place of \
             tokio::spawn",
            if strays == 1 { "a task".to_owned() } else { format!("{strays} tasks") },
        );
        run.fail(Violation::new("strays", broken, own));
    }

    fn may_run(&self) -> bool {
        self.watch.may_run()
    }

    fn interrupts(&self, task: u64) -> Interruption {
        if self.watch.finished.lock().contains(&self.number) {
            // The tasks that a finished client left in the background have no decision points.
            return Interruption::None;
        }
        let points = self.watch.run.shared.points.as_ref();
        points.map_or(Interruption::None, |points| points.runs(self.number, task))
    }
}
