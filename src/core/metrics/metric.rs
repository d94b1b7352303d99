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
