//! The metrics of service discovery, with the feature `metrics`: see [`zk_curator::observe`] for
//! those of the framework, and [`zk_curator_recipes::observe`] for the staleness of caches.
//! [`METRICS`] is their table, with the labels.
//!
//! `framework` is the [name](zk_curator::CuratorFrameworkBuilder::name) of the framework, empty by
//! default. `path` is the path of the service within the namespace, for the first 1,000 paths that
//! a process measures. Two caches, or two providers, of one service in one process share their
//! series.
//!
//! Counters exist, with the value 0, from the registration or the start of the provider on. Install
//! the recorder before that.

pub use zk_curator::observe::{Metric, MetricKind};

zk_curator::internal::metrics_table! {
    /// The metrics of service discovery.
    METRICS;

    /// Registrations that this process keeps, registered or not.
    REGISTRATIONS: Gauge() = "zk_curator_discovery_registrations";
    /// Registrations whose node exists, as far as this client knows, including those with a
    /// suspended connection.
    REGISTERED: Gauge() = "zk_curator_discovery_registered";
    /// Registrations that have ended because another process has registered the same id.
    SUPERSEDED: Counter() = "zk_curator_discovery_superseded_total";
    /// Instances in a cache that are not drained. NaN after its end.
    INSTANCES: Gauge("path") = "zk_curator_discovery_instances";
    /// Drained instances in a cache. NaN after its end.
    DRAINED: Gauge("path") = "zk_curator_discovery_drained";
    /// Nodes in a cache that are not readable instances. NaN after its end.
    UNDECODABLE: Gauge("path") = "zk_curator_discovery_undecodable";
    /// Calls of a provider. `result` is `ok` or `failed` as they were reported, or `unavailable` if
    /// no instance could be picked.
    CALLS: Counter("path", "result") = "zk_curator_discovery_calls_total";
    /// Instances that were down when the last call was made. NaN after the end of the provider.
    DOWN: Gauge("path") = "zk_curator_discovery_down";
}

/// Passes the units and the help of all metrics, including those of the framework and of recipes,
/// to the recorder of the crate `metrics`. Call it once, after the recorder is installed.
#[cfg(feature = "metrics")]
pub fn describe() {
    zk_curator_recipes::observe::describe();
    METRICS.iter().for_each(Metric::describe);
}
