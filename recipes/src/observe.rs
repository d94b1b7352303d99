//! The metrics of recipes, with the feature `metrics`: see [`zk_curator::observe`] for those of the
//! framework. [`METRICS`] is their table, with the labels.
//!
//! `framework` is the [name](zk_curator::CuratorFrameworkBuilder::name) of the framework, empty by
//! default. `recipe` is `mutex`, `read_lock`, `write_lock`, `semaphore`, `timed_lease` or
//! `session_lease` of locks and leases; `latch`, `selector` or `election` of leaders; `simple`,
//! `queue`, `priority_queue`, `delay_queue`, `id_queue`, `fifo`, `locking_queue` or `jobs` of
//! queues. A lock or an election that is a part of another recipe has the name of that recipe:
//! `reentrant_mutex`, `semaphore_mutex`, `multi_lock`, `partition` (the lock of a part),
//! `migration`, `counter` and `stm` (the lock after too many conflicts) and `timed_lease_lock` (the
//! lock that is shared with kazoo) of locks; `jobs` (the election of the cleaner) and `sharder` of
//! leaders. `path` is a path within the namespace: of queues that are consumed, of caches, of
//! schedules and of partitioned sets. A process measures 1,000 different paths at most.
//!
//! Counters exist, with the value 0, as soon as the recipe that they count for was constructed: a
//! lock, a counter, a queue's consumer, a candidate, a member of a schedule or of a set. So an
//! increase from the first event on is seen by a rule like `increase(…) > 0`. Install the recorder
//! before.

pub use zk_curator::observe::{Metric, MetricKind};

zk_curator::internal::metrics_table! {
    /// The metrics of recipes.
    METRICS;

    /// The time that `acquire` took until the lock was held.
    LOCK_ACQUIRE_DURATION: Histogram("recipe") = "zk_curator_lock_acquire_duration_seconds";
    /// The time for which locks were held.
    LOCK_HOLD_DURATION: Histogram("recipe") = "zk_curator_lock_hold_duration_seconds";
    /// Locks and leases that are held; timed leases as long as they have a guard.
    LOCKS_HELD: Gauge("recipe") = "zk_curator_locks_held";
    /// Locks and leases that were lost while they were held, timed leases also when they end before
    /// their guard does.
    LOCKS_LOST: Counter("recipe") = "zk_curator_locks_lost_total";
    /// Times that a `HandoverMutex` was passed on within the process.
    LOCK_HANDOVERS: Counter() = "zk_curator_lock_handovers_total";
    /// Elections that this process takes part in, as the leader or as a candidate.
    LEADER_CANDIDATES: Gauge("recipe") = "zk_curator_leader_candidates";
    /// Elections that this process leads.
    LEADER: Gauge("recipe") = "zk_curator_leader";
    /// Terms of leadership that have begun.
    LEADER_TERMS: Counter("recipe") = "zk_curator_leader_terms_total";
    /// Terms that were lost, and not given up.
    LEADER_TERMS_LOST: Counter("recipe") = "zk_curator_leader_terms_lost_total";
    /// The time for which terms lasted.
    LEADER_TERM_DURATION: Histogram("recipe") = "zk_curator_leader_term_duration_seconds";
    /// Items that a consumer in this process has found when it listed the queue last. Of buckets
    /// that it did not list, those before the last of their priority count as full, and 16 others
    /// are counted by a request each.
    QUEUE_DEPTH: Gauge("path") = "zk_curator_queue_depth";
    /// Items that were delivered.
    QUEUE_DELIVERIES: Counter("recipe") = "zk_curator_queue_deliveries_total";
    /// Items that were delivered again, where deliveries are counted.
    QUEUE_REDELIVERIES: Counter("recipe") = "zk_curator_queue_redeliveries_total";
    /// Items that became dead letters, and jobs that failed permanently.
    QUEUE_DEAD_LETTERS: Counter("recipe") = "zk_curator_queue_dead_letters_total";
    /// Writes of counters and atomic values.
    COUNTER_WRITES: Counter() = "zk_curator_counter_writes_total";
    /// Operations that have shared the write of another one.
    COUNTER_MERGED: Counter() = "zk_curator_counter_merged_total";
    /// Writes that were refused because another process was faster.
    COUNTER_CONFLICTS: Counter() = "zk_curator_counter_conflicts_total";
    /// Operations that have asked for the lock.
    COUNTER_PROMOTIONS: Counter() = "zk_curator_counter_promotions_total";
    /// Operations with an unknown outcome.
    COUNTER_UNKNOWN: Counter() = "zk_curator_counter_unknown_total";
    /// Caches that follow their roots, including those of shared values.
    CACHES: Gauge() = "zk_curator_caches";
    /// Caches that are loading or may have missed changes.
    CACHES_STALE: Gauge() = "zk_curator_caches_stale";
    /// The time at which the cache of this root began to load, or became stale, in seconds since
    /// 1970; 0 while it is fresh. NaN after its end.
    CACHE_STALE_SINCE: Gauge("path") = "zk_curator_cache_stale_since_seconds";
    /// The start of the next slot that this member waits for, in seconds since 1970. In the past,
    /// the slot is due, and this member has neither claimed it nor seen it claimed. NaN while no
    /// member runs here.
    SCHEDULE_NEXT_SLOT: Gauge("path") = "zk_curator_schedule_next_slot_time_seconds";
    /// Runs of slots that have ended in this process. `result` is `done`, `failed`, or `lost` if
    /// another member may have taken the slot over.
    SCHEDULE_RUNS: Counter("result") = "zk_curator_schedule_runs_total";
    /// Slots that no member has claimed, counted by the member that claims the next one.
    SCHEDULE_MISSED_SLOTS: Counter() = "zk_curator_schedule_missed_slots_total";
    /// Parts of this set that are assigned to the member in this process. NaN while no member runs
    /// here.
    PARTITIONS_ASSIGNED: Gauge("path") = "zk_curator_partitions_assigned";
    /// Parts of this set that the member owns, including those that it gives up. If there are fewer
    /// than assigned ones for long, another member does not give up a part. NaN while no member
    /// runs here.
    PARTITIONS_OWNED: Gauge("path") = "zk_curator_partitions_owned";
    /// Parts that were acquired.
    PARTITIONS_ACQUIRED: Counter() = "zk_curator_partitions_acquired_total";
    /// Parts that were lost, and not given up.
    PARTITIONS_LOST: Counter() = "zk_curator_partitions_lost_total";
}

/// Gives units and help of all metrics, of the framework too, to the recorder of the crate
/// `metrics`: call it once, after the recorder is installed.
#[cfg(feature = "metrics")]
pub fn describe() {
    zk_curator::observe::describe();
    METRICS.iter().for_each(Metric::describe);
}
