//! The metrics of recipes, with the feature `metrics`: see [`zk_curator::observe`] for those of the
//! framework.
//!
//! | name | kind | labels | counts |
//! |---|---|---|---|
//! | `zk_curator_lock_acquire_duration_seconds` | histogram | `framework`, `recipe` | how long `acquire` took until the lock was held |
//! | `zk_curator_lock_hold_duration_seconds` | histogram | `framework`, `recipe` | how long locks were held |
//! | `zk_curator_locks_held` | gauge | `framework`, `recipe` | locks and leases that are held; timed leases as long as they have a guard |
//! | `zk_curator_locks_lost_total` | counter | `framework`, `recipe` | locks and leases that were lost while they were held, timed leases also when they end before their guard does |
//! | `zk_curator_lock_handovers_total` | counter | `framework` | times that a [`HandoverMutex`](crate::lock::HandoverMutex) was passed on within the process |
//! | `zk_curator_leader_candidates` | gauge | `framework`, `recipe` | elections that this process takes part in, as the leader or as a candidate |
//! | `zk_curator_leader` | gauge | `framework`, `recipe` | elections that this process leads |
//! | `zk_curator_leader_terms_total` | counter | `framework`, `recipe` | terms of leadership that have begun |
//! | `zk_curator_leader_terms_lost_total` | counter | `framework`, `recipe` | terms that were lost, and not given up |
//! | `zk_curator_leader_term_duration_seconds` | histogram | `framework`, `recipe` | how long terms lasted |
//! | `zk_curator_queue_depth` | gauge | `framework`, `path` | items that a consumer in this process has found when it listed the queue last. Of buckets that it did not list, those before the last of their priority count as full, and 16 others are counted by a request each |
//! | `zk_curator_queue_deliveries_total` | counter | `framework`, `recipe` | items that were delivered |
//! | `zk_curator_queue_redeliveries_total` | counter | `framework`, `recipe` | those that were delivered before, where that is counted |
//! | `zk_curator_queue_dead_letters_total` | counter | `framework`, `recipe` | items that were put aside, and jobs that failed permanently |
//! | `zk_curator_counter_writes_total` | counter | `framework` | writes of counters and atomic values |
//! | `zk_curator_counter_merged_total` | counter | `framework` | operations that have shared the write of another one |
//! | `zk_curator_counter_conflicts_total` | counter | `framework` | writes that were refused because another process was faster |
//! | `zk_curator_counter_promotions_total` | counter | `framework` | operations that have asked for the lock |
//! | `zk_curator_counter_unknown_total` | counter | `framework` | operations with an unknown outcome |
//! | `zk_curator_caches` | gauge | `framework` | caches that follow their roots, those of shared values included |
//! | `zk_curator_caches_stale` | gauge | `framework` | of these, caches that are loading or may have missed changes |
//! | `zk_curator_cache_stale_since_seconds` | gauge | `framework`, `path` | when the cache of this root began to load, or to be stale, in seconds since 1970; 0 while it is fresh. NaN after its end |
//! | `zk_curator_schedule_next_slot_time_seconds` | gauge | `framework`, `path` | the start of the next slot that this member waits for, in seconds since 1970: in the past, the slot is due and this member has neither claimed it nor seen it claimed. NaN while no member runs here |
//! | `zk_curator_schedule_runs_total` | counter | `framework`, `result` | runs of slots that have ended in this process. `result` is `done`, `failed`, or `lost` if another member may have taken the slot over |
//! | `zk_curator_schedule_missed_slots_total` | counter | `framework` | slots that no member has claimed, counted by the member that claims the next one |
//! | `zk_curator_partitions_assigned` | gauge | `framework`, `path` | parts of this set that are assigned to the member in this process. NaN while no member runs here |
//! | `zk_curator_partitions_owned` | gauge | `framework`, `path` | parts of this set that the member owns, including those that it gives up. For long below the assigned ones, another member does not give up a part. NaN while no member runs here |
//! | `zk_curator_partitions_acquired_total` | counter | `framework` | parts that were acquired |
//! | `zk_curator_partitions_lost_total` | counter | `framework` | parts that were lost, and not given up |
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

use MetricKind::{Counter, Gauge, Histogram};

const FRAMEWORK: &[&str] = &["framework"];
const RECIPE: &[&str] = &["framework", "recipe"];
const PATH: &[&str] = &["framework", "path"];
const RESULT: &[&str] = &["framework", "result"];

/// The metrics of recipes.
pub const METRICS: &[Metric] = &[
    Metric::new(
        "zk_curator_lock_acquire_duration_seconds",
        Histogram,
        RECIPE,
        "How long acquire took until the lock was held",
    ),
    Metric::new(
        "zk_curator_lock_hold_duration_seconds",
        Histogram,
        RECIPE,
        "How long locks were held",
    ),
    Metric::new("zk_curator_locks_held", Gauge, RECIPE, "Locks and leases that are held"),
    Metric::new(
        "zk_curator_locks_lost_total",
        Counter,
        RECIPE,
        "Locks that were lost while they were held",
    ),
    Metric::new(
        "zk_curator_lock_handovers_total",
        Counter,
        FRAMEWORK,
        "Times that a lock was passed on within the process",
    ),
    Metric::new(
        "zk_curator_leader_candidates",
        Gauge,
        RECIPE,
        "Elections that this process takes part in",
    ),
    Metric::new("zk_curator_leader", Gauge, RECIPE, "Elections that this process leads"),
    Metric::new(
        "zk_curator_leader_terms_total",
        Counter,
        RECIPE,
        "Terms of leadership that have begun",
    ),
    Metric::new(
        "zk_curator_leader_terms_lost_total",
        Counter,
        RECIPE,
        "Terms that were lost, and not given up",
    ),
    Metric::new(
        "zk_curator_leader_term_duration_seconds",
        Histogram,
        RECIPE,
        "How long terms lasted",
    ),
    Metric::new(
        "zk_curator_queue_depth",
        Gauge,
        PATH,
        "Items that a consumer in this process has found when it listed the queue last, in all buckets",
    ),
    Metric::new("zk_curator_queue_deliveries_total", Counter, RECIPE, "Items that were delivered"),
    Metric::new(
        "zk_curator_queue_redeliveries_total",
        Counter,
        RECIPE,
        "Items that were delivered before, where that is counted",
    ),
    Metric::new(
        "zk_curator_queue_dead_letters_total",
        Counter,
        RECIPE,
        "Items that were put aside, and jobs that failed permanently",
    ),
    Metric::new(
        "zk_curator_counter_writes_total",
        Counter,
        FRAMEWORK,
        "Writes of counters and atomic values",
    ),
    Metric::new(
        "zk_curator_counter_merged_total",
        Counter,
        FRAMEWORK,
        "Operations that have shared the write of another one",
    ),
    Metric::new(
        "zk_curator_counter_conflicts_total",
        Counter,
        FRAMEWORK,
        "Writes that were refused because another process was faster",
    ),
    Metric::new(
        "zk_curator_counter_promotions_total",
        Counter,
        FRAMEWORK,
        "Operations that have asked for the lock",
    ),
    Metric::new(
        "zk_curator_counter_unknown_total",
        Counter,
        FRAMEWORK,
        "Operations with an unknown outcome",
    ),
    Metric::new("zk_curator_caches", Gauge, FRAMEWORK, "Caches that follow their roots"),
    Metric::new(
        "zk_curator_caches_stale",
        Gauge,
        FRAMEWORK,
        "Caches that are loading or may have missed changes",
    ),
    Metric::new(
        "zk_curator_cache_stale_since_seconds",
        Gauge,
        PATH,
        "When a cache began to load, or to be stale, in seconds since 1970; 0 while it is fresh",
    ),
    Metric::new(
        "zk_curator_schedule_next_slot_time_seconds",
        Gauge,
        PATH,
        "The start of the next slot that this process waits for, in seconds since 1970",
    ),
    Metric::new(
        "zk_curator_schedule_runs_total",
        Counter,
        RESULT,
        "Runs of slots that have ended, by their result",
    ),
    Metric::new(
        "zk_curator_schedule_missed_slots_total",
        Counter,
        FRAMEWORK,
        "Slots that no member has claimed",
    ),
    Metric::new(
        "zk_curator_partitions_assigned",
        Gauge,
        PATH,
        "Parts of a set that are assigned to the member in this process",
    ),
    Metric::new(
        "zk_curator_partitions_owned",
        Gauge,
        PATH,
        "Parts of a set that the member in this process owns",
    ),
    Metric::new(
        "zk_curator_partitions_acquired_total",
        Counter,
        FRAMEWORK,
        "Parts that were acquired",
    ),
    Metric::new(
        "zk_curator_partitions_lost_total",
        Counter,
        FRAMEWORK,
        "Parts that were lost, and not given up",
    ),
];

/// Gives units and help of all metrics, of the framework too, to the recorder of the crate
/// `metrics`: call it once, after the recorder is installed.
#[cfg(feature = "metrics")]
pub fn describe() {
    zk_curator::observe::describe();
    METRICS.iter().for_each(Metric::describe);
}
