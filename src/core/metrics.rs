//! The metrics, or nothing without the feature. Their names are in the documentation of the module above.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::state::ConnectionState;

/// Measures one operation. Dropped before it is over, the operation was cancelled.
#[derive(Debug)]
pub(crate) struct Measured {
    operation: &'static str,
    since: Instant,
    over: bool,
}

impl Measured {
    pub(crate) fn new(operation: &'static str) -> Self {
        Self { operation, since: Instant::now(), over: false }
    }

    pub(crate) fn over<T>(mut self, result: &Result<T, Error>) {
        self.over = true;
        let result = match result {
            Ok(_) => "ok",
            Err(error) => label(error.kind()),
        };
        ended(self.operation, result, self.since.elapsed());
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        if !self.over {
            ended(self.operation, "cancelled", self.since.elapsed());
        }
    }
}

#[cfg(feature = "metrics")]
mod facade {
    use super::Duration;

    pub(super) fn ended(operation: &'static str, result: &'static str, took: Duration) {
        metrics::counter!("zk_curator_operations_total", "operation" => operation, "result" => result)
            .increment(1);
        metrics::histogram!("zk_curator_operation_duration_seconds", "operation" => operation).record(took);
    }

    pub(crate) fn retried(operation: &'static str) {
        metrics::counter!("zk_curator_retries_total", "operation" => operation).increment(1);
    }

    pub(super) fn state(state: &'static str) {
        metrics::counter!("zk_curator_state_changes_total", "state" => state).increment(1);
    }

    pub(crate) fn session_lost() {
        metrics::counter!("zk_curator_sessions_lost_total").increment(1);
    }

    pub(crate) fn backlog(change: f64) {
        metrics::gauge!("zk_curator_janitor_backlog").increment(change);
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    use super::Duration;

    pub(super) const fn ended(_operation: &'static str, _result: &'static str, _took: Duration) {}
    pub(crate) const fn retried(_operation: &'static str) {}
    pub(super) const fn state(_state: &'static str) {}
    pub(crate) const fn session_lost() {}
    pub(crate) const fn backlog(_change: f64) {}
}

use facade::ended;
pub(crate) use facade::{backlog, retried, session_lost};

pub(crate) fn state_changed(state: ConnectionState) {
    facade::state(match state {
        ConnectionState::Connecting => "connecting",
        ConnectionState::Connected => "connected",
        ConnectionState::Suspended => "suspended",
        ConnectionState::Reconnected { .. } => "reconnected",
        ConnectionState::Lost => "lost",
        ConnectionState::ReadOnly => "read_only",
        ConnectionState::Closed => "closed",
    });
}

const fn label(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ConnectionLoss => "connection_loss",
        ErrorKind::OperationTimeout => "operation_timeout",
        ErrorKind::SessionMoved => "session_moved",
        ErrorKind::SessionExpired => "session_expired",
        ErrorKind::OwnershipLost => "ownership_lost",
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
        ErrorKind::AnswerTooLarge => "answer_too_large",
        ErrorKind::Closed => "closed",
        ErrorKind::LeftBehind => "left_behind",
        ErrorKind::Malformed => "malformed",
        ErrorKind::Server(_) => "server",
    }
}
