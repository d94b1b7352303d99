//! The metrics of the framework, and their measurement; without the feature `metrics`, nothing is
//! measured. See [`observe`](crate::observe).

mod metric;
mod series;
mod table;

use std::sync::OnceLock;

use tokio::time::Instant;

pub use metric::{Metric, MetricKind};
pub(crate) use series::Meter;
pub use series::{Counter, Gauge, Histogram, Metered, MetricHandle, Series};

use crate::error::{Error, ErrorKind};
use crate::state::{ConnectionState, ConnectionStatus};

crate::metrics_table! {
    /// The metrics of the framework.
    METRICS;

    /// 1 while a server serves the session, 0 while none does. NaN after the close.
    CONNECTED: Gauge() = "zk_curator_connected";
    /// The start of the present session, in seconds since 1970; 0 without one. NaN after the close.
    SESSION_START: Gauge() = "zk_curator_session_start_time_seconds";
    /// Operations that wait for a response, or for a connection.
    IN_PROGRESS: Gauge() = "zk_curator_operations_in_progress";
    /// Nodes of guards: locks that are held or waited for, leases, claims, receipts.
    OWNED_NODES: Gauge() = "zk_curator_owned_nodes";
    /// Watches that callers wait on.
    WATCHES: Gauge() = "zk_curator_watches";
    /// Operations that have ended. `result` is `ok`, `refused` because of the state of a node (the
    /// kinds `no_node`, `node_exists`, `bad_version`, `not_empty` and `transaction_failed`),
    /// `failed` with any other error, or `cancelled` if the future was dropped.
    OPERATIONS_ENDED: Counter("operation", "result") = "zk_curator_operations_total";
    /// Operations that have ended with an error, by the name of its `ErrorKind`, such as
    /// `connection_loss`.
    OPERATION_ERRORS: Counter("kind") = "zk_curator_operation_errors_total";
    /// The duration of each operation, with retries and pauses.
    OPERATION_DURATION: Histogram("operation") = "zk_curator_operation_duration_seconds";
    /// Attempts after the first.
    RETRIES: Counter("operation") = "zk_curator_retries_total";
    /// Changes of the state of the connection. `state` is the new one: `connected`, `suspended`,
    /// `reconnected`, `lost`, `read_only` or `closed`.
    STATE_CHANGES: Counter("state") = "zk_curator_state_changes_total";
    /// Sessions that ended before the framework was closed.
    SESSIONS_LOST: Counter() = "zk_curator_sessions_lost_total";
    /// Pending deletions.
    JANITOR_BACKLOG: Gauge() = "zk_curator_janitor_backlog";
}

/// Passes the units and the help of the [`METRICS`] to the recorder of the crate `metrics`. Call it
/// once, after the recorder is installed.
#[cfg(feature = "metrics")]
pub fn describe() {
    METRICS.iter().for_each(Metric::describe);
}

/// The operations, by the names that errors use, in alphabetical order.
const OPERATIONS: [&str; 28] = [
    "add_watch",
    "changes_since",
    "children",
    "children_of_each",
    "children_with_data",
    "create",
    "create_containers",
    "delete",
    "exists",
    "get_acl",
    "get_all_children_number",
    "get_config",
    "get_data",
    "get_ephemerals",
    "multi_read",
    "reconfig",
    "remove_watches",
    "set_acl",
    "set_data",
    "sync",
    "transaction",
    "tree",
    "wait_data",
    "wait_exists",
    "wait_gone",
    "watch_children",
    "watch_data",
    "who_am_i",
];

impl Meter {
    /// Creates the series of the framework with the value 0, because a counter shows an increase
    /// only from its second sample on. Those of an operation, which are many, begin when the
    /// operation is first used.
    pub(crate) fn begin(&self) {
        CONNECTED.series(self, []).set(0.0);
        SESSION_START.series(self, []).set(0.0);
        for gauge in [IN_PROGRESS, JANITOR_BACKLOG, OWNED_NODES, WATCHES] {
            gauge.series(self, []).begin();
        }
        SESSIONS_LOST.series(self, []).begin();
        for kind in KINDS {
            OPERATION_ERRORS.series(self, [kind]).begin();
        }
        for state in ["connected", "suspended", "reconnected", "lost", "read_only", "closed"] {
            STATE_CHANGES.series(self, [state]).begin();
        }
    }

    /// Compares the previous status with the present one.
    pub(crate) fn status(&self, before: &ConnectionStatus, now: &ConnectionStatus) {
        let (connected, start) = (CONNECTED.series(self, []), SESSION_START.series(self, []));
        let id = |status: &ConnectionStatus| status.session.map(|session| session.id);
        if now.state == ConnectionState::Closed {
            connected.set(f64::NAN);
            start.set(f64::NAN);
            return;
        }
        connected.set(f64::from(u8::from(now.state.is_connected())));
        match (id(before), id(now)) {
            (before, now) if before == now => {}
            (_, Some(_)) => start.set_now(),
            (_, None) => start.set(0.0),
        }
    }
}

/// The operations of a framework. The series of an operation begin with its first use, before any
/// of them counts.
#[derive(Debug)]
pub(crate) struct OperationMetrics {
    meter: Meter,
    in_progress: Series<Gauge>,
    /// By their places in [`OPERATIONS`].
    used: [OnceLock<Box<OperationSeries>>; OPERATIONS.len()],
}

/// The series of one operation, one for each result.
#[derive(Debug)]
struct OperationSeries {
    ok: Series<Counter>,
    refused: Series<Counter>,
    failed: Series<Counter>,
    cancelled: Series<Counter>,
    duration: Series<Histogram>,
    retries: Series<Counter>,
}

impl OperationMetrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        Self {
            meter: meter.clone(),
            in_progress: IN_PROGRESS.series(meter, []),
            used: [const { OnceLock::new() }; OPERATIONS.len()],
        }
    }

    /// Counts an attempt after the first. Operations such as `start` have no series.
    pub(crate) fn retried(&self, operation: &'static str) {
        if let Some(series) = self.series(operation) {
            series.retries.add(1);
        }
    }

    fn series(&self, operation: &'static str) -> Option<&OperationSeries> {
        let place = OPERATIONS.binary_search(&operation).ok()?;
        let begin = || Box::new(OperationSeries::begin(&self.meter, operation));
        Some(self.used[place].get_or_init(begin))
    }
}

impl OperationSeries {
    fn begin(meter: &Meter, operation: &str) -> Self {
        let ended = |result| OPERATIONS_ENDED.series(meter, [operation, result]);
        let series = Self {
            ok: ended("ok"),
            refused: ended("refused"),
            failed: ended("failed"),
            cancelled: ended("cancelled"),
            duration: OPERATION_DURATION.series(meter, [operation]),
            retries: RETRIES.series(meter, [operation]),
        };
        let Self { ok, refused, failed, cancelled, duration, retries } = &series;
        for counter in [ok, refused, failed, cancelled, retries] {
            counter.begin();
        }
        duration.begin();
        series
    }

    /// Returns the series of a failure: `refused` if the server refused the operation because of
    /// the state of the node, which is normal.
    const fn failure(&self, kind: ErrorKind) -> &Series<Counter> {
        match kind {
            ErrorKind::NoNode
            | ErrorKind::NodeExists
            | ErrorKind::BadVersion
            | ErrorKind::NotEmpty
            | ErrorKind::TransactionFailed { .. } => &self.refused,
            _ => &self.failed,
        }
    }
}

/// Measures one operation. If it is dropped before the end, the operation counts as cancelled.
#[derive(Debug)]
pub(crate) struct MeasuredOperation<'a>(Metered<Option<OpenOperation<'a>>>);

/// An operation until its end.
#[derive(Debug)]
struct OpenOperation<'a> {
    operations: &'a OperationMetrics,
    series: &'a OperationSeries,
    since: Metered<Instant>,
    /// The series of the result.
    result: &'a Series<Counter>,
}

impl<'a> MeasuredOperation<'a> {
    pub(crate) fn new(operations: &'a Metered<OperationMetrics>, operation: &'static str) -> Self {
        debug_assert!(
            OPERATIONS.binary_search(&operation).is_ok(),
            "{operation} is not among the operations"
        );
        Self(Metered::new(|| {
            let operations = operations.get()?;
            let series = operations.series(operation)?;
            operations.in_progress.add(1.0);
            let since = Metered::new(Instant::now);
            Some(OpenOperation { operations, series, since, result: &series.cancelled })
        }))
    }

    pub(crate) fn over<T>(mut self, result: &Result<T, Error>) {
        if let Some(Some(running)) = self.0.get_mut() {
            running.over(result.as_ref().err());
        }
    }
}

impl OpenOperation<'_> {
    fn over(&mut self, error: Option<&Error>) {
        self.result = match error.map(Error::kind) {
            None => &self.series.ok,
            Some(kind) => {
                OPERATION_ERRORS.series(&self.operations.meter, [label(kind)]).add(1);
                self.series.failure(kind)
            }
        };
    }
}

impl Drop for OpenOperation<'_> {
    fn drop(&mut self) {
        self.operations.in_progress.add(-1.0);
        self.result.add(1);
        self.series.duration.record(&self.since);
    }
}

/// Defines the names of the kinds of errors.
macro_rules! kinds {
    ($($kind:pat => $name:literal,)*) => {
        const KINDS: &[&str] = &[$($name),*];

        const fn label(kind: ErrorKind) -> &'static str {
            match kind {
                $($kind => $name,)*
            }
        }
    };
}

kinds! {
    ErrorKind::ConnectionLoss => "connection_loss",
    ErrorKind::OperationTimeout => "operation_timeout",
    ErrorKind::SessionMoved => "session_moved",
    ErrorKind::Throttled => "throttled",
    ErrorKind::SessionExpired => "session_expired",
    ErrorKind::OwnershipLost => "ownership_lost",
    ErrorKind::Withdrawn => "withdrawn",
    ErrorKind::HistoryLost => "history_lost",
    ErrorKind::NoNode => "no_node",
    ErrorKind::NodeExists => "node_exists",
    ErrorKind::BadVersion => "bad_version",
    ErrorKind::NotEmpty => "not_empty",
    ErrorKind::NoChildrenForEphemerals => "no_children_for_ephemerals",
    ErrorKind::TransactionFailed { .. } => "transaction_failed",
    ErrorKind::NoAuth => "no_auth",
    ErrorKind::InvalidAcl => "invalid_acl",
    ErrorKind::AuthFailed => "auth_failed",
    ErrorKind::ReadOnly => "read_only",
    ErrorKind::InvalidPath => "invalid_path",
    ErrorKind::InvalidArgument => "invalid_argument",
    ErrorKind::TooLarge => "too_large",
    ErrorKind::SchemaViolation => "schema_violation",
    ErrorKind::Unsupported => "unsupported",
    ErrorKind::Overloaded => "overloaded",
    ErrorKind::NotStarted => "not_started",
    ErrorKind::Undecodable => "undecodable",
    ErrorKind::ResponseTooLarge => "response_too_large",
    ErrorKind::Closed => "closed",
    ErrorKind::LeftBehind => "left_behind",
    ErrorKind::BodyFailed => "body_failed",
    ErrorKind::Malformed => "malformed",
    ErrorKind::Server(_) => "server",
}
