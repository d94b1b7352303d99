//! The measurements of recipes; none without the feature: see [`observe`](crate::observe).
//!
//! A counter is created, with the value 0, together with the recipe that it counts for: the
//! increase of a counter is only known from its second sample on.

use tokio::time::Instant;
use zk_curator::internal::{Counter, Gauge, Histogram, Metered, Series};
use zk_curator::{CuratorFramework, Ownership};

use crate::observe as table;

/// A lock of this kind was made.
pub(crate) fn lock(zk: &CuratorFramework, recipe: &'static str) {
    table::LOCK_ACQUIRE_DURATION.of(zk, [recipe]).begin();
    lease(zk, recipe);
}

/// A lease of this kind was made.
pub(crate) fn lease(zk: &CuratorFramework, recipe: &'static str) {
    table::LOCKS_HELD.of(zk, [recipe]).begin();
    table::LOCKS_LOST.of(zk, [recipe]).begin();
    table::LOCK_HOLD_DURATION.of(zk, [recipe]).begin();
}

/// Waits for a lock.
pub(crate) struct WaitMeasure(Metered<Instant>);

impl WaitMeasure {
    pub(crate) fn begin() -> Self {
        Self(Metered::new(Instant::now))
    }

    pub(crate) fn over(self, zk: &CuratorFramework, recipe: &'static str) {
        table::LOCK_ACQUIRE_DURATION.of(zk, [recipe]).record(&self.0);
    }
}

/// Holds a lock or a lease, or leads. If it is only dropped, it was not lost.
#[derive(Debug)]
pub(crate) struct MeasuredHold {
    held: Series<Gauge>,
    duration: Series<Histogram>,
    lost: Series<Counter>,
    since: Metered<Instant>,
    has_ended: bool,
}

impl MeasuredHold {
    /// Holds a lock or a lease.
    pub(crate) fn of_lock(zk: &CuratorFramework, recipe: &'static str) -> Self {
        Self::begin(
            table::LOCKS_HELD.of(zk, [recipe]),
            table::LOCK_HOLD_DURATION.of(zk, [recipe]),
            table::LOCKS_LOST.of(zk, [recipe]),
        )
    }

    /// Begins a term of leadership.
    pub(crate) fn of_leader(zk: &CuratorFramework, recipe: &'static str) -> Self {
        table::LEADER_TERMS.of(zk, [recipe]).add(1);
        Self::begin(
            table::LEADER.of(zk, [recipe]),
            table::LEADER_TERM_DURATION.of(zk, [recipe]),
            table::LEADER_TERMS_LOST.of(zk, [recipe]),
        )
    }

    fn begin(held: Series<Gauge>, duration: Series<Histogram>, lost: Series<Counter>) -> Self {
        held.add(1.0);
        Self { held, duration, lost, since: Metered::new(Instant::now), has_ended: false }
    }

    /// Ends, unless it has ended before.
    pub(crate) fn end(&mut self, is_lost: bool) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.held.add(-1.0);
            self.duration.record(&self.since);
            if is_lost {
                self.lost.add(1);
            }
        }
    }
}

impl Drop for MeasuredHold {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// Holds a lock. Dropped before the node of the lock, whose end is its loss otherwise.
pub(crate) struct Holding {
    measured: MeasuredHold,
    ownership: Metered<Ownership>,
    /// `true` if it was lost, if that is known.
    is_lost: Option<bool>,
}

impl Holding {
    pub(crate) fn begin(recipe: &'static str, ownership: &Ownership) -> Self {
        Self {
            measured: MeasuredHold::of_lock(ownership.framework(), recipe),
            ownership: Metered::new(|| ownership.clone()),
            is_lost: None,
        }
    }

    /// The lock goes to another holder in this process.
    pub(crate) fn renew(&mut self, ownership: &Ownership) {
        self.ownership = Metered::new(|| ownership.clone());
    }

    /// The holder lets go.
    pub(crate) fn releasing(mut self) -> Self {
        self.is_lost = self.ownership.get().map(Ownership::is_over);
        self
    }

    pub(crate) fn end(mut self, is_lost: bool) {
        self.is_lost = Some(is_lost);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let is_over = || self.ownership.get().is_some_and(Ownership::is_over);
        self.measured.end(self.is_lost.unwrap_or_else(is_over));
    }
}

/// Takes part in an election, until it is dropped.
#[must_use = "the process is counted as a candidate as long as this lives"]
#[derive(Debug)]
pub(crate) struct Candidacy(Series<Gauge>);

impl Candidacy {
    pub(crate) fn begin(zk: &CuratorFramework, recipe: &'static str) -> Self {
        let candidates = table::LEADER_CANDIDATES.of(zk, [recipe]);
        candidates.add(1.0);
        table::LEADER.of(zk, [recipe]).begin();
        table::LEADER_TERMS.of(zk, [recipe]).begin();
        table::LEADER_TERMS_LOST.of(zk, [recipe]).begin();
        table::LEADER_TERM_DURATION.of(zk, [recipe]).begin();
        Self(candidates)
    }
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        self.0.add(-1.0);
    }
}

/// A consumer of a queue was made.
pub(crate) fn consumer(zk: &CuratorFramework, recipe: &'static str) {
    table::QUEUE_DELIVERIES.of(zk, [recipe]).begin();
    table::QUEUE_REDELIVERIES.of(zk, [recipe]).begin();
    table::QUEUE_DEAD_LETTERS.of(zk, [recipe]).begin();
}

/// Counts a first or repeated delivery of an item.
pub(crate) fn delivered(zk: &CuratorFramework, recipe: &'static str, attempt: u32) {
    table::QUEUE_DELIVERIES.of(zk, [recipe]).add(1);
    if attempt > 1 {
        table::QUEUE_REDELIVERIES.of(zk, [recipe]).add(1);
    }
}

/// A counter or an atomic value was made.
pub(crate) fn counter(zk: &CuratorFramework) {
    for counter in [
        table::COUNTER_WRITES,
        table::COUNTER_MERGED,
        table::COUNTER_CONFLICTS,
        table::COUNTER_PROMOTIONS,
        table::COUNTER_UNKNOWN,
    ] {
        counter.of(zk, []).begin();
    }
}

/// A cache, until it is dropped.
#[derive(Debug)]
pub(crate) struct Caching {
    caches: Series<Gauge>,
    stale: Series<Gauge>,
    stale_since: Series<Gauge>,
    is_fresh: bool,
    has_ended: bool,
}

impl Caching {
    /// It begins to load.
    pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
        let this = Self {
            caches: table::CACHES.of(zk, []),
            stale: table::CACHES_STALE.of(zk, []),
            stale_since: table::CACHE_STALE_SINCE.of(zk, [path]),
            is_fresh: false,
            has_ended: false,
        };
        this.caches.add(1.0);
        this.stale.add(1.0);
        this.stale_since.set_now();
        this
    }

    /// Records whether the contents are known to equal those of the server.
    pub(crate) fn is_fresh(&mut self, is_fresh: bool) {
        if self.has_ended || self.is_fresh == is_fresh {
            return;
        }
        self.is_fresh = is_fresh;
        if is_fresh {
            self.stale.add(-1.0);
            self.stale_since.set(0.0);
        } else {
            self.stale.add(1.0);
            self.stale_since.set_now();
        }
    }

    /// It follows its root no longer.
    pub(crate) fn end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.caches.add(-1.0);
            if !self.is_fresh {
                self.stale.add(-1.0);
            }
            self.stale_since.set(f64::NAN);
        }
    }
}

impl Drop for Caching {
    fn drop(&mut self) {
        self.end();
    }
}

/// A member of a schedule, until it is dropped.
#[derive(Debug)]
pub(crate) struct Scheduled(Series<Gauge>);

impl Scheduled {
    pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
        for result in ["done", "failed", "lost"] {
            table::SCHEDULE_RUNS.of(zk, [result]).begin();
        }
        table::SCHEDULE_MISSED_SLOTS.of(zk, []).begin();
        Self(table::SCHEDULE_NEXT_SLOT.of(zk, [path]))
    }

    /// The next slot that this member waits for, by its start in seconds since 1970.
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 seconds")]
    pub(crate) fn waits_for(&self, start: i64) {
        self.0.set(start as f64);
    }
}

impl Drop for Scheduled {
    fn drop(&mut self) {
        self.0.set(f64::NAN);
    }
}

/// A member of a partitioned set, until it is dropped.
#[derive(Debug)]
pub(crate) struct Partitioning {
    assigned: Series<Gauge>,
    owned: Series<Gauge>,
    acquired: Series<Counter>,
    lost: Series<Counter>,
}

impl Partitioning {
    pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
        let this = Self {
            assigned: table::PARTITIONS_ASSIGNED.of(zk, [path]),
            owned: table::PARTITIONS_OWNED.of(zk, [path]),
            acquired: table::PARTITIONS_ACQUIRED.of(zk, []),
            lost: table::PARTITIONS_LOST.of(zk, []),
        };
        this.acquired.begin();
        this.lost.begin();
        this.owned.set(0.0);
        this.assigned.set(0.0);
        this
    }

    /// The number of parts that are assigned to this member.
    pub(crate) fn assigned(&self, parts: usize) {
        self.assigned.set_number(parts);
    }

    pub(crate) fn acquired(&self) {
        self.acquired.add(1);
        self.owned.add(1.0);
    }

    pub(crate) fn released(&self) {
        self.owned.add(-1.0);
    }

    pub(crate) fn lost(&self) {
        self.lost.add(1);
        self.owned.add(-1.0);
    }
}

impl Drop for Partitioning {
    fn drop(&mut self) {
        self.owned.set(f64::NAN);
        self.assigned.set(f64::NAN);
    }
}
