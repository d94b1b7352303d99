//! The metrics of service discovery, with the feature `metrics`: see [`zk_curator::observe`] for
//! those of the framework, and [`zk_curator_recipes::observe`] for the staleness of caches.
//!
//! | name | kind | labels | counts |
//! |---|---|---|---|
//! | `zk_curator_discovery_registrations` | gauge | `framework` | registrations that this process keeps, registered or not |
//! | `zk_curator_discovery_registered` | gauge | `framework` | of these, the ones whose node exists, as far as this client knows; includes registrations with a suspended connection |
//! | `zk_curator_discovery_superseded_total` | counter | `framework` | registrations that have ended because another process has registered the same id |
//! | `zk_curator_discovery_instances` | gauge | `framework`, `path` | instances in a cache that are not drained. NaN after its end |
//! | `zk_curator_discovery_drained` | gauge | `framework`, `path` | drained instances in a cache. NaN after its end |
//! | `zk_curator_discovery_undecodable` | gauge | `framework`, `path` | nodes in a cache that are not readable instances. NaN after its end |
//! | `zk_curator_discovery_calls_total` | counter | `framework`, `path`, `result` | calls of a provider. `result` is `ok` or `failed` as they were reported, or `unavailable` if no instance could be picked |
//! | `zk_curator_discovery_down` | gauge | `framework`, `path` | instances that were down when the last call was made. NaN after the end of the provider |
//!
//! `framework` is the [name](zk_curator::CuratorFrameworkBuilder::name) of the framework, empty by
//! default. `path` is the path of the service within the namespace, for the first 1,000 paths that
//! a process measures. Two caches, or two providers, of one service in one process share their
//! series.
//!
//! Counters exist, with the value 0, from the registration or the start of the provider on. Install
//! the recorder before that.

pub use zk_curator::observe::{Metric, MetricKind};

use MetricKind::{Counter, Gauge};

const FRAMEWORK: &[&str] = &["framework"];
const PATH: &[&str] = &["framework", "path"];
const RESULT: &[&str] = &["framework", "path", "result"];

/// The metrics of service discovery.
pub const METRICS: &[Metric] = &[
    Metric::new(
        "zk_curator_discovery_registrations",
        Gauge,
        FRAMEWORK,
        "Registrations that this process keeps",
    ),
    Metric::new(
        "zk_curator_discovery_registered",
        Gauge,
        FRAMEWORK,
        "Registrations whose node is there",
    ),
    Metric::new(
        "zk_curator_discovery_superseded_total",
        Counter,
        FRAMEWORK,
        "Registrations that have ended because another process has registered the same id",
    ),
    Metric::new(
        "zk_curator_discovery_instances",
        Gauge,
        PATH,
        "Instances in a cache that are not drained",
    ),
    Metric::new("zk_curator_discovery_drained", Gauge, PATH, "Drained instances in a cache"),
    Metric::new(
        "zk_curator_discovery_undecodable",
        Gauge,
        PATH,
        "Nodes in a cache that are not readable instances",
    ),
    Metric::new(
        "zk_curator_discovery_calls_total",
        Counter,
        RESULT,
        "Calls of a provider, by their result",
    ),
    Metric::new(
        "zk_curator_discovery_down",
        Gauge,
        PATH,
        "Instances that were down when the last call was made",
    ),
];

/// Passes the units and the help of all metrics, including those of the framework and of recipes,
/// to the recorder of the crate `metrics`. Call it once, after the recorder is installed.
#[cfg(feature = "metrics")]
pub fn describe() {
    zk_curator_recipes::observe::describe();
    METRICS.iter().for_each(Metric::describe);
}
