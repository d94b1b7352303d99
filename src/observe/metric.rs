//! Metrics as data.

use std::fmt;

/// The kind of a [`Metric`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// The distribution of times, in seconds.
    Histogram,
}

/// The name of a metric, and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// The labels.
    pub labels: &'static [&'static str],
    /// The quantity that it measures.
    pub help: &'static str,
}

impl Metric {
    /// Creates a metric, for crates that add metrics of their own.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: MetricKind,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind, labels, help }
    }

    /// Passes the unit and the help to the recorder of the crate `metrics`.
    #[cfg(feature = "metrics")]
    pub fn describe(&self) {
        let unit = if self.name.ends_with("_seconds") {
            metrics::Unit::Seconds
        } else {
            metrics::Unit::Count
        };
        match self.kind {
            MetricKind::Counter => metrics::describe_counter!(self.name, unit, self.help),
            MetricKind::Gauge => metrics::describe_gauge!(self.name, unit, self.help),
            MetricKind::Histogram => metrics::describe_histogram!(self.name, unit, self.help),
        }
    }
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

const FRAMEWORK: &[&str] = &["framework"];

/// The metrics of the framework.
pub const METRICS: &[Metric] = &[
    Metric::new(
        "zk_curator_connected",
        MetricKind::Gauge,
        FRAMEWORK,
        "1 while a server serves the session, 0 while none does",
    ),
    Metric::new(
        "zk_curator_session_start_time_seconds",
        MetricKind::Gauge,
        FRAMEWORK,
        "When the present session began, in seconds since 1970; 0 without one",
    ),
    Metric::new(
        "zk_curator_operations_in_progress",
        MetricKind::Gauge,
        FRAMEWORK,
        "Operations that wait for a response, or for a connection",
    ),
    Metric::new(
        "zk_curator_owned_nodes",
        MetricKind::Gauge,
        FRAMEWORK,
        "Nodes of guards: locks that are held or waited for, leases, claims, receipts",
    ),
    Metric::new("zk_curator_watches", MetricKind::Gauge, FRAMEWORK, "Watches that callers wait on"),
    Metric::new(
        "zk_curator_operations_total",
        MetricKind::Counter,
        &["framework", "operation", "result"],
        "Operations that have ended, by their result",
    ),
    Metric::new(
        "zk_curator_operation_errors_total",
        MetricKind::Counter,
        &["framework", "kind"],
        "Operations that have ended with an error, by its kind",
    ),
    Metric::new(
        "zk_curator_operation_duration_seconds",
        MetricKind::Histogram,
        &["framework", "operation"],
        "Duration of the operations, with their retries and pauses",
    ),
    Metric::new(
        "zk_curator_retries_total",
        MetricKind::Counter,
        &["framework", "operation"],
        "Attempts after the first",
    ),
    Metric::new(
        "zk_curator_state_changes_total",
        MetricKind::Counter,
        &["framework", "state"],
        "Changes of the state of the connection",
    ),
    Metric::new(
        "zk_curator_sessions_lost_total",
        MetricKind::Counter,
        FRAMEWORK,
        "Sessions that ended before the framework was closed",
    ),
    Metric::new("zk_curator_janitor_backlog", MetricKind::Gauge, FRAMEWORK, "Pending deletions"),
];

/// Passes the units and the help of the [`METRICS`] to the recorder of the crate `metrics`. Call it
/// once, after the recorder is installed.
#[cfg(feature = "metrics")]
pub fn describe() {
    METRICS.iter().for_each(Metric::describe);
}
