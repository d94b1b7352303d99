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
        facade::in_progress(1.0);
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
        facade::in_progress(-1.0);
        if !self.over {
            ended(self.operation, "cancelled", self.since.elapsed());
        }
    }
}

#[cfg(feature = "metrics")]
mod facade {
    use std::time::SystemTime;

    use super::Duration;
    use crate::state::{ConnectionState, ConnectionStatus};

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

    pub(super) fn in_progress(change: f64) {
        metrics::gauge!("zk_curator_operations_in_progress").increment(change);
    }

    pub(crate) fn backlog(change: f64) {
        metrics::gauge!("zk_curator_janitor_backlog").increment(change);
    }

    pub(crate) fn owned_nodes(change: f64) {
        metrics::gauge!("zk_curator_owned_nodes").increment(change);
    }

    pub(crate) fn watches(change: f64) {
        metrics::gauge!("zk_curator_watches").increment(change);
    }

    /// Compares what was with what is.
    pub(crate) fn status(framework: Option<&str>, before: &ConnectionStatus, now: &ConnectionStatus) {
        let framework = || framework.unwrap_or_default().to_owned();
        metrics::gauge!("zk_curator_connected", "framework" => framework()).set(match now.state {
            ConnectionState::Closed => f64::NAN,
            state => f64::from(u8::from(state.is_connected())),
        });
        let id = |status: &ConnectionStatus| status.session.map(|session| session.id);
        if id(before) != id(now) {
            let begun =
                now.session.and_then(|_| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok());
            metrics::gauge!("zk_curator_session_start_time_seconds", "framework" => framework())
                .set(begun.map_or(0.0, |begun| begun.as_secs_f64()));
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    use super::Duration;
    use crate::state::ConnectionStatus;

    pub(super) const fn ended(_operation: &'static str, _result: &'static str, _took: Duration) {}
    pub(crate) const fn retried(_operation: &'static str) {}
    pub(super) const fn state(_state: &'static str) {}
    pub(crate) const fn session_lost() {}
    pub(super) const fn in_progress(_change: f64) {}
    pub(crate) const fn backlog(_change: f64) {}
    pub(crate) const fn owned_nodes(_change: f64) {}
    pub(crate) const fn watches(_change: f64) {}
    pub(crate) const fn status(
        _framework: Option<&str>,
        _before: &ConnectionStatus,
        _now: &ConnectionStatus,
    ) {
    }
}

use facade::ended;
pub(crate) use facade::{backlog, owned_nodes, retried, session_lost, status, watches};

pub(crate) fn state_changed(state: ConnectionState) {
    facade::state(state.name());
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
