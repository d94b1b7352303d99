//! What the clients of a run share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::Locked;

use super::checkers::Violation;
use super::exhaust::PointRecorder;
use super::history::{Event, History, Name, ProcessId};
use super::remote::Remote;
use super::resource::FencedResource;

/// The time of day at the start of every run, since 1970: that of the servers and of the clients.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// The state that the clients of a run share: the history, the clock, and the phase of the faults.
///
/// Cheap to clone: clones are the same run.
#[derive(Clone)]
pub struct Run {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    /// The place of the history and the resources, if they are outside this process.
    pub(super) remote: Option<Arc<dyn Remote>>,
    pub(super) began: Instant,
    pub(super) history: Locked<History>,
    pub(super) violation: Locked<Option<Violation>>,
    pub(super) failed: CancellationToken,
    pub(super) faults_over: CancellationToken,
    /// One future in this many is cancelled; zero for none.
    pub(super) cancelling: AtomicU32,
    pub(super) cancelled: AtomicU64,
    pub(super) numbers: AtomicU64,
    pub(super) resources: Locked<BTreeMap<Name, FencedResource>>,
    /// The decision points, if faults happen at them.
    pub(super) points: Option<Arc<PointRecorder>>,
}

impl Default for Run {
    fn default() -> Self {
        Self::new()
    }
}

impl Run {
    /// Creates a run that begins now, with faults.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None, None)
    }

    /// Creates the part of a run that is in this process.
    #[must_use]
    pub fn remote(remote: Arc<dyn Remote>) -> Self {
        Self::with(Some(remote), None)
    }

    /// Creates a run whose faults happen at decision points.
    pub(crate) fn by_points(points: Arc<PointRecorder>) -> Self {
        Self::with(None, Some(points))
    }

    fn with(remote: Option<Arc<dyn Remote>>, points: Option<Arc<PointRecorder>>) -> Self {
        let shared = Shared {
            remote,
            began: Instant::now(),
            history: Locked::default(),
            violation: Locked::default(),
            failed: CancellationToken::new(),
            faults_over: CancellationToken::new(),
            cancelling: AtomicU32::new(0),
            cancelled: AtomicU64::new(0),
            numbers: AtomicU64::new(1),
            resources: Locked::default(),
            points,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Records an event at the present time.
    pub fn record(&self, who: ProcessId, event: impl Into<Event>) {
        match &self.shared.remote {
            Some(remote) => remote.record(who, event.into()),
            None => self.shared.history.lock().record(self.elapsed(), who, event),
        }
    }

    /// Returns the time since the run began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.began.elapsed()
    }

    /// Returns the events that were recorded so far.
    #[must_use]
    pub fn history(&self) -> History {
        self.shared.history.lock().clone()
    }

    /// Returns the place of the next record.
    pub(crate) fn place(&self) -> usize {
        self.shared.history.lock().records().len()
    }

    /// Returns a number that is unique in this run: for holds, calls and items.
    #[must_use]
    pub fn number(&self) -> u64 {
        match &self.shared.remote {
            Some(remote) => remote.number(),
            None => self.shared.numbers.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Declares that there will be no more faults:
    /// [`Client::faults_are_over`](super::Client::faults_are_over).
    pub fn end_faults(&self) {
        if !self.shared.faults_over.is_cancelled() {
            self.record(ProcessId::World, Event::FaultsOver);
            self.shared.faults_over.cancel();
        }
    }

    /// Makes [`Client::maybe_cancel`](super::Client::maybe_cancel) cancel one future in this many.
    /// Zero, the default, cancels none.
    pub fn set_cancelling(&self, one_in: u32) {
        self.shared.cancelling.store(one_in, Ordering::Relaxed);
    }

    /// Returns the number of futures that [`Client::maybe_cancel`](super::Client::maybe_cancel) has
    /// cancelled.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.shared.cancelled.load(Ordering::Relaxed)
    }

    /// Fails the run with a violation. Only the first violation counts.
    pub fn fail(&self, violation: Violation) {
        self.shared.violation.lock().get_or_insert(violation);
        self.shared.failed.cancel();
    }

    /// Returns the violation, if there is one.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        self.shared.violation.lock().clone()
    }

    /// Completes when the run has failed.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn failed(&self) {
        self.shared.failed.cancelled().await;
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}
