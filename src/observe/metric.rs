//! The metrics as data.

use std::fmt;

/// The kind of a [`Metric`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// The distribution of times, in seconds.
    Histogram,
}

/// What a metric is called, and what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// The labels.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

impl Metric {
    /// For crates that add metrics of their own.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: MetricKind,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind, labels, help }
    }

    /// Gives the unit and the help to the recorder of the crate `metrics`.
    #[cfg(feature = "metrics")]
    pub fn describe(&self) {
        let unit =
            if self.name.ends_with("_seconds") { metrics::Unit::Seconds } else { metrics::Unit::Count };
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

/// The metrics of the framework.
pub const METRICS: &[Metric] = &[
    Metric::new(
        "zk_curator_connected",
        MetricKind::Gauge,
        &["framework"],
        "1 while a server serves the session, 0 while none does",
    ),
    Metric::new(
        "zk_curator_session_start_time_seconds",
        MetricKind::Gauge,
        &["framework"],
        "When the present session began, in seconds since 1970; 0 without one",
    ),
    Metric::new(
        "zk_curator_operations_in_progress",
        MetricKind::Gauge,
        &[],
        "Operations that wait for an answer, or for a connection",
    ),
    Metric::new(
        "zk_curator_owned_nodes",
        MetricKind::Gauge,
        &[],
        "Nodes that guards answer for: locks that are held or waited for, leases, claims, receipts",
    ),
    Metric::new("zk_curator_watches", MetricKind::Gauge, &[], "Watches that somebody waits on"),
    Metric::new(
        "zk_curator_operations_total",
        MetricKind::Counter,
        &["operation", "result"],
        "Operations that have ended, by their result",
    ),
    Metric::new(
        "zk_curator_operation_duration_seconds",
        MetricKind::Histogram,
        &["operation"],
        "How long operations took, with their retries and pauses",
    ),
    Metric::new("zk_curator_retries_total", MetricKind::Counter, &["operation"], "Attempts after the first"),
    Metric::new(
        "zk_curator_state_changes_total",
        MetricKind::Counter,
        &["state"],
        "Changes of the state of the connection",
    ),
    Metric::new(
        "zk_curator_sessions_lost_total",
        MetricKind::Counter,
        &[],
        "Sessions that ended before the framework was closed",
    ),
    Metric::new(
        "zk_curator_janitor_backlog",
        MetricKind::Gauge,
        &[],
        "Deletions that are owed and not yet done",
    ),
];

/// Gives units and help of the [`METRICS`] to the recorder of the crate `metrics`: call it once, after the recorder is installed.
#[cfg(feature = "metrics")]
pub fn describe() {
    METRICS.iter().for_each(Metric::describe);
}
