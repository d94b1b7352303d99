//! [`PointRecorder`]: counts the decision points of a run, and tells which faults happen at them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use zk_curator_client::internal::Locked;

use super::fault::PointFault;
use super::plan::FaultPlan;
use super::point::{DecisionPoint, PointKind};

/// The decision points of a run.
#[derive(Debug)]
pub(crate) struct PointRecorder {
    began: Instant,
    noted: Locked<PointNotes>,
    /// Notified when a fault is due that the world has to perform.
    due: Notify,
}

#[derive(Debug)]
struct PointNotes {
    points: Vec<DecisionPoint>,
    plan: VecDeque<(u32, PointFault)>,
    /// The faults that the world has to perform.
    due: VecDeque<Struck>,
    /// The time of the last wake-up of each client, and of each of its tasks.
    awake: BTreeMap<u32, Duration>,
    turns: BTreeMap<(u32, u64), Duration>,
    /// The number of the last future of each client.
    futures: BTreeMap<u32, u64>,
    is_over: bool,
}

/// What a task does in place of running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    None,
    /// The process waits until the world has performed a fault.
    Process,
    /// The task runs late.
    Task,
}

/// A fault that has its point reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Struck {
    /// The number of the point.
    pub(crate) point: u32,
    /// The client of the point.
    pub(crate) client: u32,
    pub(crate) fault: PointFault,
}

impl PointRecorder {
    pub(crate) fn new(plan: &FaultPlan) -> Self {
        let noted = PointNotes {
            points: Vec::new(),
            plan: plan.faults().iter().copied().collect(),
            due: VecDeque::new(),
            awake: BTreeMap::new(),
            turns: BTreeMap::new(),
            futures: BTreeMap::new(),
            is_over: false,
        };
        Self { began: Instant::now(), noted: Locked::new(noted), due: Notify::new() }
    }

    /// Counts a task that is about to run, and its process.
    pub(crate) fn runs(&self, client: u32, task: u64) -> Interruption {
        let now = self.began.elapsed();
        let (is_awake, has_run) = {
            let mut noted = self.noted.lock();
            let is_awake = noted.awake.insert(client, now) == Some(now);
            (is_awake, noted.turns.insert((client, task), now) == Some(now))
        };
        if has_run {
            return Interruption::None;
        }
        let kind = if is_awake { PointKind::Turn { task } } else { PointKind::Wake };
        let struck = self.reach(client, kind);
        let waits = struck.iter().any(|struck| struck.fault != PointFault::Hesitate);
        let is_late = !waits && !struck.is_empty();
        struck.into_iter().for_each(|struck| self.perform(struck));
        match (waits, is_late) {
            (true, _) => Interruption::Process,
            (false, true) => Interruption::Task,
            (false, false) => Interruption::None,
        }
    }

    /// Returns the number of another future that a client may drop.
    pub(crate) fn next_future(&self, client: u32) -> u64 {
        let mut noted = self.noted.lock();
        let number = noted.futures.entry(client).or_default();
        *number += 1;
        *number
    }

    /// Counts a poll of a future. Returns `true` if the future is dropped in place of it.
    pub(crate) fn polls(&self, client: u32, future: u64, polls: u32) -> bool {
        !self.reach(client, PointKind::Poll { future, polls }).is_empty()
    }

    /// Lets the world perform a fault.
    pub(crate) fn perform(&self, struck: Struck) {
        self.noted.lock().due.push_back(struck);
        self.due.notify_one();
    }

    /// Waits for the next fault that the world has to perform.
    pub(crate) async fn next(&self) -> Struck {
        loop {
            if let Some(struck) = self.noted.lock().due.pop_front() {
                return struck;
            }
            self.due.notified().await;
        }
    }

    /// Returns `true` if the world has no fault to perform.
    pub(crate) fn is_idle(&self) -> bool {
        self.noted.lock().due.is_empty()
    }

    /// Counts no further points: there will be no more faults.
    pub(crate) fn end(&self) {
        self.noted.lock().is_over = true;
    }

    /// Returns the points.
    pub(crate) fn take(&self) -> Vec<DecisionPoint> {
        std::mem::take(&mut self.noted.lock().points)
    }

    /// Counts a point, and returns the faults at it.
    pub(crate) fn reach(&self, client: u32, kind: PointKind) -> Vec<Struck> {
        let mut noted = self.noted.lock();
        if noted.is_over {
            return Vec::new();
        }
        let point = DecisionPoint { at: self.began.elapsed(), client, kind };
        let number = noted.points.len() as u32;
        noted.points.push(point);
        let mut struck = Vec::new();
        while let Some(&(at, fault)) = noted.plan.front()
            && at == number
        {
            noted.plan.pop_front();
            struck.push(Struck { point: number, client, fault });
        }
        struck
    }
}
