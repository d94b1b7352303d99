//! The metrics, or nothing without the feature. The module above documents their names.

#[cfg(feature = "metrics")]
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind};

/// Measures one operation. If it is dropped before the end, the operation counts as cancelled.
#[derive(Debug)]
pub(crate) struct Measured {
    meter: Meter,
    operation: &'static str,
    since: Instant,
    over: bool,
}

impl Measured {
    pub(crate) fn new(meter: &Meter, operation: &'static str) -> Self {
        debug_assert!(OPERATIONS.contains(&operation), "{operation} is not among the operations");
        meter.begun(operation);
        Self { meter: meter.clone(), operation, since: Instant::now(), over: false }
    }

    pub(crate) fn over<T>(mut self, result: &Result<T, Error>) {
        self.over = true;
        let result = match result {
            Ok(_) => "ok",
            Err(error) => {
                self.meter.failed(label(error.kind()));
                result_of(error.kind())
            }
        };
        self.meter.ended(self.operation, result, self.since.elapsed());
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.meter.in_progress(-1.0);
        if !self.over {
            self.meter.ended(self.operation, "cancelled", self.since.elapsed());
        }
    }
}

/// The operations, by the names that errors use.
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

#[cfg(feature = "metrics")]
mod facade {
    use std::time::SystemTime;

    use super::{Arc, AtomicU32, Duration, KINDS, OPERATIONS, Ordering, RESULTS};
    use crate::state::{ConnectionState, ConnectionStatus};

    /// Measures one framework. Cheap to clone.
    #[derive(Debug, Clone)]
    pub(crate) struct Meter {
        framework: Arc<str>,
        /// The operations that were used, by a bit for each of [`OPERATIONS`].
        used: Arc<AtomicU32>,
    }

    impl Meter {
        pub(crate) fn new(framework: Option<&str>) -> Self {
            Self { framework: framework.unwrap_or_default().into(), used: Arc::default() }
        }

        fn framework(&self) -> metrics::SharedString {
            Arc::clone(&self.framework).into()
        }

        /// Creates the series of the framework with the value 0, because a counter shows an increase
        /// only from its second sample on. Those of an operation, which are many, begin when the
        /// operation is first used.
        pub(crate) fn begin(&self) {
            self.connected(0.0);
            self.session_start(0.0);
            self.in_progress(0.0);
            self.backlog(0.0);
            self.owned_nodes(0.0);
            self.watches(0.0);
            self.count_session_lost(0);
            for kind in KINDS {
                self.count_failed(kind, 0);
            }
            for state in ["connected", "suspended", "reconnected", "lost", "read_only", "closed"] {
                self.count_state(state, 0);
            }
        }

        /// An operation begins. Its first use creates all of its series, before any of them counts.
        pub(super) fn begun(&self, operation: &'static str) {
            self.in_progress(1.0);
            let Some(place) = OPERATIONS.iter().position(|known| *known == operation) else {
                return;
            };
            let bit = 1 << place;
            if self.used.load(Ordering::Relaxed) & bit != 0
                || self.used.fetch_or(bit, Ordering::Relaxed) & bit != 0
            {
                return;
            }
            self.count_retried(operation, 0);
            drop(self.duration(operation));
            for result in RESULTS {
                self.count_ended(operation, result, 0);
            }
        }

        pub(super) fn ended(&self, operation: &'static str, result: &'static str, took: Duration) {
            self.count_ended(operation, result, 1);
            self.duration(operation).record(took);
        }

        fn count_ended(&self, operation: &'static str, result: &'static str, number: u64) {
            let framework = self.framework();
            metrics::counter!(
                "zk_curator_operations_total",
                "framework" => framework, "operation" => operation, "result" => result
            )
            .increment(number);
        }

        fn duration(&self, operation: &'static str) -> metrics::Histogram {
            metrics::histogram!(
                "zk_curator_operation_duration_seconds",
                "framework" => self.framework(), "operation" => operation
            )
        }

        pub(super) fn failed(&self, kind: &'static str) {
            self.count_failed(kind, 1);
        }

        fn count_failed(&self, kind: &'static str, number: u64) {
            let framework = self.framework();
            metrics::counter!(
                "zk_curator_operation_errors_total", "framework" => framework, "kind" => kind
            )
            .increment(number);
        }

        pub(crate) fn retried(&self, operation: &'static str) {
            // Operations such as `start` have no series.
            if OPERATIONS.contains(&operation) {
                self.count_retried(operation, 1);
            }
        }

        fn count_retried(&self, operation: &'static str, number: u64) {
            let framework = self.framework();
            metrics::counter!(
                "zk_curator_retries_total", "framework" => framework, "operation" => operation
            )
            .increment(number);
        }

        pub(crate) fn state_changed(&self, state: ConnectionState) {
            self.count_state(state.name(), 1);
        }

        fn count_state(&self, state: &'static str, number: u64) {
            let framework = self.framework();
            metrics::counter!(
                "zk_curator_state_changes_total", "framework" => framework, "state" => state
            )
            .increment(number);
        }

        pub(crate) fn session_lost(&self) {
            self.count_session_lost(1);
        }

        fn count_session_lost(&self, number: u64) {
            metrics::counter!("zk_curator_sessions_lost_total", "framework" => self.framework())
                .increment(number);
        }

        pub(super) fn in_progress(&self, change: f64) {
            metrics::gauge!("zk_curator_operations_in_progress", "framework" => self.framework())
                .increment(change);
        }

        pub(crate) fn backlog(&self, change: f64) {
            metrics::gauge!("zk_curator_janitor_backlog", "framework" => self.framework())
                .increment(change);
        }

        pub(crate) fn owned_nodes(&self, change: f64) {
            metrics::gauge!("zk_curator_owned_nodes", "framework" => self.framework())
                .increment(change);
        }

        pub(crate) fn watches(&self, change: f64) {
            metrics::gauge!("zk_curator_watches", "framework" => self.framework())
                .increment(change);
        }

        fn connected(&self, value: f64) {
            metrics::gauge!("zk_curator_connected", "framework" => self.framework()).set(value);
        }

        fn session_start(&self, value: f64) {
            metrics::gauge!("zk_curator_session_start_time_seconds", "framework" => self.framework())
                .set(value);
        }

        /// Compares the previous status with the present one.
        pub(crate) fn status(&self, before: &ConnectionStatus, now: &ConnectionStatus) {
            self.connected(match now.state {
                ConnectionState::Closed => f64::NAN,
                state => f64::from(u8::from(state.is_connected())),
            });
            let id = |status: &ConnectionStatus| status.session.map(|session| session.id);
            if now.state == ConnectionState::Closed {
                self.session_start(f64::NAN);
            } else if id(before) != id(now) {
                let begun = now
                    .session
                    .and_then(|_| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok());
                self.session_start(begun.map_or(0.0, |begun| begun.as_secs_f64()));
            }
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    use super::Duration;
    use crate::state::{ConnectionState, ConnectionStatus};

    /// Measures nothing.
    #[derive(Debug, Clone)]
    pub(crate) struct Meter;

    impl Meter {
        pub(crate) const fn new(_framework: Option<&str>) -> Self {
            Self
        }

        pub(crate) const fn begin(&self) {}
        pub(super) const fn ended(
            &self,
            _operation: &'static str,
            _result: &'static str,
            _took: Duration,
        ) {
        }
        pub(super) const fn failed(&self, _kind: &'static str) {}
        pub(crate) const fn retried(&self, _operation: &'static str) {}
        pub(crate) const fn state_changed(&self, _state: ConnectionState) {}
        pub(crate) const fn session_lost(&self) {}
        pub(super) const fn begun(&self, _operation: &'static str) {}
        pub(super) const fn in_progress(&self, _change: f64) {}
        pub(crate) const fn backlog(&self, _change: f64) {}
        pub(crate) const fn owned_nodes(&self, _change: f64) {}
        pub(crate) const fn watches(&self, _change: f64) {}
        pub(crate) const fn status(&self, _before: &ConnectionStatus, _now: &ConnectionStatus) {}
    }
}

pub(crate) use facade::Meter;

/// The results of operations.
#[cfg(feature = "metrics")]
const RESULTS: [&str; 4] = ["ok", "refused", "failed", "cancelled"];

/// Returns the result for a kind of error: `refused` if the server refused the operation because of
/// the state of the node, which is normal.
const fn result_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NoNode
        | ErrorKind::NodeExists
        | ErrorKind::BadVersion
        | ErrorKind::NotEmpty
        | ErrorKind::TransactionFailed { .. } => "refused",
        _ => "failed",
    }
}

/// Defines the names of the kinds of errors.
macro_rules! kinds {
    ($($kind:pat => $name:literal,)*) => {
        #[cfg(feature = "metrics")]
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
