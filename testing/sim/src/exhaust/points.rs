//! [`PointRecorder`]: counts the decision points of a run, and tells which faults happen at them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
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
    /// Notified when a client begins to wait until there are no more faults.
    rests: Notify,
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
    /// The number of the futures of each client that wait until there are no more faults.
    resting: BTreeMap<u32, u32>,
    /// The time of the last request that was no ping, of the last poll, and of the last fault.
    active: Duration,
    struck: Duration,
    /// The first fault that cannot happen at its point.
    misfit: Option<(u32, PointFault)>,
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
    /// Both, one after the other.
    ProcessAndTask,
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
            resting: BTreeMap::new(),
            active: Duration::ZERO,
            struck: Duration::ZERO,
            misfit: None,
            is_over: false,
        };
        Self {
            began: Instant::now(),
            noted: Locked::new(noted),
            due: Notify::new(),
            rests: Notify::new(),
        }
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
        let (late, stops): (Vec<_>, Vec<_>) =
            struck.into_iter().partition(|struck| struck.fault == PointFault::Hesitate);
        let interruption = match (stops.is_empty(), late.is_empty()) {
            (false, false) => Interruption::ProcessAndTask,
            (false, true) => Interruption::Process,
            (true, false) => Interruption::Task,
            (true, true) => Interruption::None,
        };
        // The task is late when the process runs again.
        stops.into_iter().chain(late).for_each(|struck| self.perform(struck));
        interruption
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

    /// Counts a future that waits until there are no more faults, for as long as the guard exists.
    pub(crate) fn rest(self: &Arc<Self>, client: u32) -> Rest {
        *self.noted.lock().resting.entry(client).or_default() += 1;
        self.rests.notify_one();
        Rest { points: Arc::clone(self), client }
    }

    /// Completes when a client has begun to wait until there are no more faults.
    pub(crate) async fn rests(&self) {
        self.rests.notified().await;
    }

    /// Returns the clients that wait until there are no more faults.
    pub(crate) fn resting(&self) -> BTreeSet<u32> {
        self.noted.lock().resting.keys().copied().collect()
    }

    /// Returns the time at which a client was last active, or a fault began or ended.
    pub(crate) fn last_activity(&self) -> Duration {
        let noted = self.noted.lock();
        noted.active.max(noted.struck)
    }

    /// Returns the time at which the last fault began or ended.
    pub(crate) fn last_fault(&self) -> Duration {
        self.noted.lock().struck
    }

    /// Notes the end of a fault.
    pub(crate) fn fault_ends(&self) {
        self.noted.lock().struck = self.began.elapsed();
    }

    /// Returns the first fault of the plan that has not happened, because its point was not reached
    /// or is of another kind.
    pub(crate) fn unplayed(&self) -> Option<(u32, PointFault)> {
        let noted = self.noted.lock();
        noted.misfit.or_else(|| noted.plan.front().copied())
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
        if point.is_activity() {
            noted.active = point.at;
        }
        let number = noted.points.len() as u32;
        let mut struck = Vec::new();
        while let Some(&(at, fault)) = noted.plan.front()
            && at == number
        {
            noted.plan.pop_front();
            noted.struck = point.at;
            if PointFault::at(&point).contains(&fault) {
                struck.push(Struck { point: number, client, fault });
            } else {
                noted.misfit.get_or_insert((number, fault));
            }
        }
        noted.points.push(point);
        struck
    }
}

/// A future of a client that waits until there are no more faults.
#[derive(Debug)]
pub(crate) struct Rest {
    points: Arc<PointRecorder>,
    client: u32,
}

impl Drop for Rest {
    fn drop(&mut self) {
        let mut noted = self.points.noted.lock();
        if let Some(resting) = noted.resting.get_mut(&self.client) {
            *resting -= 1;
            if *resting == 0 {
                noted.resting.remove(&self.client);
            }
        }
    }
}
