//! The metrics of recipes, with the feature `metrics`: see [`zk_curator::observe`] for those of the framework.
//!
//! | name | kind | labels | counts |
//! |---|---|---|---|
//! | `zk_curator_lock_acquire_duration_seconds` | histogram | `recipe` | how long `acquire` took until the lock was held |
//! | `zk_curator_lock_hold_duration_seconds` | histogram | `recipe` | how long locks were held |
//! | `zk_curator_locks_held` | gauge | `recipe` | locks and leases that are held |
//! | `zk_curator_locks_lost_total` | counter | `recipe` | locks that were lost while they were held |
//! | `zk_curator_lock_handovers_total` | counter | – | times that a [`HandoverMutex`](crate::lock::HandoverMutex) was passed on within the process |
//! | `zk_curator_leader` | gauge | `recipe` | elections that this process leads |
//! | `zk_curator_leader_terms_total` | counter | `recipe` | terms of leadership that have begun |
//! | `zk_curator_leader_terms_lost_total` | counter | `recipe` | terms that were lost, and not given up |
//! | `zk_curator_leader_term_duration_seconds` | histogram | `recipe` | how long terms lasted |
//! | `zk_curator_queue_depth` | gauge | `path` | items that a consumer in this process has found when it listed the queue last; of a queue with buckets, no more than about one bucket |
//! | `zk_curator_queue_deliveries_total` | counter | `recipe` | items that were handed out |
//! | `zk_curator_queue_redeliveries_total` | counter | `recipe` | those that were handed out before, where that is counted |
//! | `zk_curator_queue_dead_letters_total` | counter | `recipe` | items that were put aside, and jobs that failed for good |
//! | `zk_curator_counter_writes_total` | counter | – | writes of counters and atomic values |
//! | `zk_curator_counter_merged_total` | counter | – | operations that have shared the write of another one |
//! | `zk_curator_counter_conflicts_total` | counter | – | writes that were refused because another process was faster |
//! | `zk_curator_counter_promotions_total` | counter | – | operations that have asked for the lock |
//! | `zk_curator_counter_unknown_total` | counter | – | operations with an unknown outcome |
//!
//! `recipe` is `mutex`, `read_lock`, `write_lock` or `semaphore` of locks; `latch`, `selector` or `election` of leaders; `simple`,
//! `queue`, `priority_queue`, `delay_queue`, `id_queue`, `fifo`, `locking_queue` or `jobs` of queues. `path` is a path within the
//! namespace: there are as many as the process consumes queues.

pub use zk_curator::observe::{Metric, MetricKind};

use MetricKind::{Counter, Gauge, Histogram};

const RECIPE: &[&str] = &["recipe"];

/// The metrics of recipes.
pub const METRICS: &[Metric] = &[
    Metric::new(
        "zk_curator_lock_acquire_duration_seconds",
        Histogram,
        RECIPE,
        "How long acquire took until the lock was held",
    ),
    Metric::new("zk_curator_lock_hold_duration_seconds", Histogram, RECIPE, "How long locks were held"),
    Metric::new("zk_curator_locks_held", Gauge, RECIPE, "Locks and leases that are held"),
    Metric::new("zk_curator_locks_lost_total", Counter, RECIPE, "Locks that were lost while they were held"),
    Metric::new(
        "zk_curator_lock_handovers_total",
        Counter,
        &[],
        "Times that a lock was passed on within the process",
    ),
    Metric::new("zk_curator_leader", Gauge, RECIPE, "Elections that this process leads"),
    Metric::new("zk_curator_leader_terms_total", Counter, RECIPE, "Terms of leadership that have begun"),
    Metric::new(
        "zk_curator_leader_terms_lost_total",
        Counter,
        RECIPE,
        "Terms that were lost, and not given up",
    ),
    Metric::new("zk_curator_leader_term_duration_seconds", Histogram, RECIPE, "How long terms lasted"),
    Metric::new(
        "zk_curator_queue_depth",
        Gauge,
        &["path"],
        "Items that a consumer in this process has found when it listed the queue last; of a queue with buckets, about one bucket at most",
    ),
    Metric::new("zk_curator_queue_deliveries_total", Counter, RECIPE, "Items that were handed out"),
    Metric::new(
        "zk_curator_queue_redeliveries_total",
        Counter,
        RECIPE,
        "Items that were handed out before, where that is counted",
    ),
    Metric::new(
        "zk_curator_queue_dead_letters_total",
        Counter,
        RECIPE,
        "Items that were put aside, and jobs that failed for good",
    ),
    Metric::new("zk_curator_counter_writes_total", Counter, &[], "Writes of counters and atomic values"),
    Metric::new(
        "zk_curator_counter_merged_total",
        Counter,
        &[],
        "Operations that have shared the write of another one",
    ),
    Metric::new(
        "zk_curator_counter_conflicts_total",
        Counter,
        &[],
        "Writes that were refused because another process was faster",
    ),
    Metric::new(
        "zk_curator_counter_promotions_total",
        Counter,
        &[],
        "Operations that have asked for the lock",
    ),
    Metric::new("zk_curator_counter_unknown_total", Counter, &[], "Operations with an unknown outcome"),
];

/// Gives units and help of all metrics, of the framework too, to the recorder of the crate `metrics`: call it once, after the
/// recorder is installed.
#[cfg(feature = "metrics")]
pub fn describe() {
    zk_curator::observe::describe();
    METRICS.iter().for_each(Metric::describe);
}
