use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use zk_curator_client::path::PathError;
use zk_curator_client::{Error as RawError, ErrorCode};

use crate::value::Failure;

/// The result of an operation of the framework.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An operation failed: which one, on which path, and why.
///
/// It is printed with its reason: what is wrong with an argument, or why there is no connection
/// (`start: connection loss (connect zk1:2181: connection refused)`). The source has that as a value. For a connection that
/// was lost, or that there never was, it is the [`io::Error`] with which that happened
/// ([`CuratorFramework::last_failure`](crate::CuratorFramework::last_failure)).
///
/// ```
/// # fn handle(error: zk_curator::Error) {
/// if error.may_have_applied() {
///     // The request was sent and its answer lost: read before writing again.
/// } else if error.is_retryable() {
///     // Nothing has happened; try again later.
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Error {
    kind: ErrorKind,
    operation: &'static str,
    path: String,
    may_have_applied: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// Why an operation failed, grouped by what a caller can do about it.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    // Try again.
    /// The connection was lost, or there was none for the connection timeout.
    ConnectionLoss,
    /// There was no answer before the deadline of the call, or the server gave up on the operation.
    OperationTimeout,
    /// The session has moved to another server.
    SessionMoved,

    // Begin anew in the next session.
    /// The session has expired, and with it what belonged to it.
    SessionExpired,
    /// The node of a [fenced transaction](crate::Ownership::fenced) is gone; nothing was applied.
    OwnershipLost,

    // What was seen before is gone.
    /// No server has the last transaction that the earlier sessions of this framework have seen, as after a restore from a
    /// backup. The framework goes on without it, and reads may go back in time. Only in
    /// [`background_errors`](crate::CuratorFramework::background_errors).
    HistoryLost,

    // Another client was faster.
    /// The node does not exist.
    NoNode,
    /// The node exists already.
    NodeExists,
    /// The version is another one.
    BadVersion,
    /// The node has children.
    NotEmpty,
    /// The parent is ephemeral.
    NoChildrenForEphemerals,
    /// An operation of a transaction failed, so none was applied.
    TransactionFailed {
        /// Which operation, from zero.
        index: usize,
        /// Why.
        code: ErrorCode,
    },

    // Not allowed.
    /// The session lacks a permission.
    NoAuth,
    /// An ACL is not valid.
    InvalidAcl,
    /// The server refused the credentials.
    AuthFailed,
    /// The server is in read-only mode.
    ReadOnly,

    // A mistake of the caller.
    /// The path is not valid.
    InvalidPath,
    /// An argument is not valid.
    InvalidArgument,
    /// The request is larger than servers accept.
    TooLarge,
    /// A [schema](crate::schema) forbids it.
    SchemaViolation,
    /// The raw client, or the framework as it is configured, cannot do this.
    Unsupported,
    /// More requests wait for answers than allowed.
    Overloaded,
    /// The framework was not started.
    NotStarted,

    // Data of others.
    /// The data of a node are not what was asked for: not compressed, too large when decompressed, or not of the type.
    Undecodable,
    /// The answer is longer than [allowed](crate::CuratorFrameworkBuilder::max_answer), and was not kept. A write was applied.
    AnswerTooLarge,

    // The end.
    /// The framework was closed.
    Closed,
    /// [`close`](crate::CuratorFramework::close) could not clean up: [`Error::left_behind`] says what may be left.
    LeftBehind,

    // A peer that does not keep to the protocol, or that is newer than this crate.
    /// The answer could not be understood.
    Malformed,
    /// Another error of the server.
    Server(ErrorCode),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, operation: &'static str, path: impl Into<String>) -> Self {
        Self { kind, operation, path: path.into(), may_have_applied: false, source: None }
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into().into());
        self
    }

    pub(crate) fn with_shared_source(mut self, source: Arc<dyn StdError + Send + Sync>) -> Self {
        self.source = Some(source);
        self
    }

    /// Names the failure of the connection, which tells more than that there was one.
    pub(crate) fn because(mut self, failure: Arc<io::Error>) -> Self {
        self.source = Some(failure);
        self
    }

    /// `InvalidArgument` for a setting that makes no sense, before anything is sent. `why` is shown.
    #[must_use]
    pub fn invalid_argument(operation: &'static str, path: impl Into<String>, why: &'static str) -> Self {
        Self::raw(operation, path, RawError::InvalidArgument(why))
    }

    /// `Undecodable` for data that are no value of the type that was asked for, with the reason.
    #[must_use]
    pub fn undecodable(operation: &'static str, path: impl Into<String>, why: Failure) -> Self {
        Self::new(ErrorKind::Undecodable, operation, path).with_shared_source(why)
    }

    /// `Closed` for a handle of a recipe that is closed, or whose framework is.
    #[must_use]
    pub fn closed(operation: &'static str, path: impl Into<String>) -> Self {
        Self::new(ErrorKind::Closed, operation, path)
    }

    pub(crate) fn invalid_path(operation: &'static str, path: impl Into<String>, why: PathError) -> Self {
        Self::new(ErrorKind::InvalidPath, operation, path).with_source(why)
    }

    pub(crate) fn raw(operation: &'static str, path: impl Into<String>, error: RawError) -> Self {
        let mut wrapped = Self::new(kind_of(&error), operation, path);
        wrapped.may_have_applied = error.may_have_applied();
        // What the kind says already is not said again by a source.
        match error {
            RawError::Refused(_) | RawError::TransactionFailed { .. } | RawError::SessionExpired { .. } => {
                wrapped
            }
            error => wrapped.with_source(error),
        }
    }

    /// The error of a transaction that the caller of `operation` did not write, and whose parts mean nothing to it: the
    /// operation is named, and `TransactionFailed` becomes what the part at fault failed with, for example `NoAuth`.
    #[must_use]
    pub fn of_operation(mut self, operation: &'static str) -> Self {
        self.operation = operation;
        if let ErrorKind::TransactionFailed { code, .. } = self.kind {
            self.kind = kind_of(&RawError::Refused(code));
        }
        self
    }

    /// The paths that `close` could not clean up.
    pub(crate) fn of_left_behind(left: LeftBehind) -> Self {
        let path = left.paths.first().cloned().unwrap_or_default();
        Self::new(ErrorKind::LeftBehind, "close", path).with_source(left)
    }

    /// Of the kind [`LeftBehind`](ErrorKind::LeftBehind): which nodes may be left.
    #[must_use]
    pub fn left_behind(&self) -> Option<&LeftBehind> {
        self.source.as_deref()?.downcast_ref()
    }

    /// The source, if it tells more than the kind does.
    fn reason(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        let source = self.source.as_deref()?;
        let says_more = match source.downcast_ref::<RawError>() {
            None => true,
            Some(
                RawError::InvalidPath(_)
                | RawError::InvalidArgument(_)
                | RawError::Unsupported(_)
                | RawError::TooLarge { .. }
                | RawError::AnswerTooLarge { .. }
                | RawError::QueueFull { .. },
            ) => true,
            Some(_) => false,
        };
        says_more.then_some(source)
    }

    /// Marks the error as one of a read, which applies nothing.
    pub(crate) fn of_a_read(self) -> Self {
        self.not_applied()
    }

    /// Marks the operation as not applied.
    pub(crate) fn not_applied(mut self) -> Self {
        self.may_have_applied = false;
        self
    }

    /// Marks the outcome as unknown: the operation was sent.
    pub(crate) const fn of_unknown_outcome(mut self) -> Self {
        self.may_have_applied = true;
        self
    }

    /// Why.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The operation that failed, for example `create`.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// The path it was about, within the namespace; empty for an operation without one.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the same call may succeed later, without anything else changing.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::ConnectionLoss
                | ErrorKind::OperationTimeout
                | ErrorKind::SessionMoved
                | ErrorKind::Overloaded
        )
    }

    /// Whether the operation may have been applied although it failed here.
    #[must_use]
    pub const fn may_have_applied(&self) -> bool {
        self.may_have_applied
    }

    /// Whether the session is over.
    #[must_use]
    pub const fn is_session_lost(&self) -> bool {
        matches!(self.kind, ErrorKind::SessionExpired | ErrorKind::Closed)
    }

    /// The error code of the server, if it answered with one.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        Some(match self.kind {
            ErrorKind::ConnectionLoss => ErrorCode::ConnectionLoss,
            ErrorKind::OperationTimeout => ErrorCode::OperationTimeout,
            ErrorKind::SessionMoved => ErrorCode::SessionMoved,
            ErrorKind::SessionExpired => ErrorCode::SessionExpired,
            ErrorKind::NoNode => ErrorCode::NoNode,
            ErrorKind::NodeExists => ErrorCode::NodeExists,
            ErrorKind::BadVersion => ErrorCode::BadVersion,
            ErrorKind::NotEmpty => ErrorCode::NotEmpty,
            ErrorKind::NoChildrenForEphemerals => ErrorCode::NoChildrenForEphemerals,
            ErrorKind::NoAuth => ErrorCode::NoAuth,
            ErrorKind::InvalidAcl => ErrorCode::InvalidAcl,
            ErrorKind::AuthFailed => ErrorCode::AuthFailed,
            ErrorKind::ReadOnly => ErrorCode::NotReadOnly,
            ErrorKind::Unsupported => ErrorCode::Unimplemented,
            ErrorKind::TransactionFailed { code, .. } | ErrorKind::Server(code) => code,
            ErrorKind::OwnershipLost
            | ErrorKind::HistoryLost
            | ErrorKind::InvalidPath
            | ErrorKind::InvalidArgument
            | ErrorKind::TooLarge
            | ErrorKind::SchemaViolation
            | ErrorKind::Undecodable
            | ErrorKind::AnswerTooLarge
            | ErrorKind::Overloaded
            | ErrorKind::NotStarted
            | ErrorKind::Closed
            | ErrorKind::LeftBehind
            | ErrorKind::Malformed => return None,
        })
    }
}

/// Nodes that outlive their session, and that a closed framework owed the deletion of.
#[derive(Debug, Clone)]
pub struct LeftBehind {
    paths: Vec<String>,
    nodes: usize,
    pub(crate) session: Option<Box<Error>>,
}

impl LeftBehind {
    /// The longest list of paths.
    pub const MAX_PATHS: usize = 32;

    /// The first [`MAX_PATHS`](Self::MAX_PATHS) of them, on the server; of a node that has to be found first, its parent
    /// and how its name begins.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// The number of nodes that may be left.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes
    }

    /// Why the session could not be closed either, if so: its ephemeral nodes stay until it expires.
    #[must_use]
    pub fn session_failure(&self) -> Option<&Error> {
        self.session.as_deref()
    }

    /// These, and more whose paths are not known.
    pub(crate) fn new<'a>(mut paths: impl Iterator<Item = &'a String>, more: usize) -> Self {
        let listed: Vec<_> = paths.by_ref().take(Self::MAX_PATHS).cloned().collect();
        Self { nodes: listed.len() + paths.count() + more, paths: listed, session: None }
    }
}

impl fmt::Display for LeftBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.nodes == 1 { "node" } else { "nodes" };
        write!(f, "{} {noun} may be left: {}", self.nodes, self.paths.join(", "))?;
        if self.nodes > self.paths.len() {
            write!(f, ", and {} more", self.nodes - self.paths.len())?;
        }
        Ok(())
    }
}

impl StdError for LeftBehind {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.session.as_deref().map(|failure| failure as _)
    }
}

fn kind_of(error: &RawError) -> ErrorKind {
    match error {
        RawError::Refused(code) => match code {
            ErrorCode::ConnectionLoss => ErrorKind::ConnectionLoss,
            ErrorCode::OperationTimeout | ErrorCode::RequestTimeout => ErrorKind::OperationTimeout,
            ErrorCode::SessionMoved => ErrorKind::SessionMoved,
            ErrorCode::SessionExpired => ErrorKind::SessionExpired,
            ErrorCode::NoNode => ErrorKind::NoNode,
            ErrorCode::NodeExists => ErrorKind::NodeExists,
            ErrorCode::BadVersion => ErrorKind::BadVersion,
            ErrorCode::NotEmpty => ErrorKind::NotEmpty,
            ErrorCode::NoChildrenForEphemerals => ErrorKind::NoChildrenForEphemerals,
            ErrorCode::NoAuth => ErrorKind::NoAuth,
            ErrorCode::InvalidAcl => ErrorKind::InvalidAcl,
            ErrorCode::AuthFailed => ErrorKind::AuthFailed,
            ErrorCode::NotReadOnly => ErrorKind::ReadOnly,
            ErrorCode::BadArguments => ErrorKind::InvalidArgument,
            ErrorCode::Unimplemented => ErrorKind::Unsupported,
            code => ErrorKind::Server(*code),
        },
        RawError::TransactionFailed { index, code } => {
            ErrorKind::TransactionFailed { index: *index, code: *code }
        }
        RawError::ConnectionLoss { .. } | RawError::NotConnected => ErrorKind::ConnectionLoss,
        RawError::DeadlineExceeded { .. } => ErrorKind::OperationTimeout,
        RawError::SessionExpired { .. } => ErrorKind::SessionExpired,
        RawError::AuthFailed { .. } => ErrorKind::AuthFailed,
        RawError::Closed { .. } => ErrorKind::Closed,
        RawError::QueueFull { .. } => ErrorKind::Overloaded,
        RawError::InvalidPath(_) => ErrorKind::InvalidPath,
        RawError::InvalidArgument(_) => ErrorKind::InvalidArgument,
        RawError::Unsupported(_) => ErrorKind::Unsupported,
        RawError::TooLarge { .. } => ErrorKind::TooLarge,
        RawError::AnswerTooLarge { .. } => ErrorKind::AnswerTooLarge,
        // `Malformed`, `UnexpectedAnswer`, and whatever is added to that enum.
        _ => ErrorKind::Malformed,
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConnectionLoss => "connection loss",
            Self::OperationTimeout => "operation timeout",
            Self::SessionMoved => "session moved to another server",
            Self::SessionExpired => "session expired",
            Self::OwnershipLost => "ownership lost",
            Self::HistoryLost => "history lost",
            Self::NoNode => "no node",
            Self::NodeExists => "node exists",
            Self::BadVersion => "bad version",
            Self::NotEmpty => "node has children",
            Self::NoChildrenForEphemerals => "ephemeral nodes may not have children",
            Self::TransactionFailed { index, code } => {
                return write!(f, "operation {index} of the transaction failed with {code}");
            }
            Self::NoAuth => "not authorised",
            Self::InvalidAcl => "invalid ACL",
            Self::AuthFailed => "authentication failed",
            Self::ReadOnly => "server is in read-only mode",
            Self::InvalidPath => "invalid path",
            Self::InvalidArgument => "invalid argument",
            Self::TooLarge => "request too large",
            Self::SchemaViolation => "forbidden by a schema",
            Self::Unsupported => "not supported",
            Self::Undecodable => "data cannot be decoded",
            Self::AnswerTooLarge => "answer too large",
            Self::Overloaded => "too many requests wait for answers",
            Self::NotStarted => "framework not started",
            Self::Closed => "framework closed",
            Self::LeftBehind => "closed without cleaning up",
            Self::Malformed => "malformed answer",
            Self::Server(code) => return fmt::Display::fmt(code, f),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if !self.path.is_empty() {
            write!(f, " {:?}", self.path)?;
        }
        write!(f, ": {}", self.kind)?;
        if let Some(reason) = self.reason() {
            write!(f, " ({reason})")?;
        }
        if self.may_have_applied {
            f.write_str(", may have been applied")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_operation_path_reason_and_outcome() {
        let error = Error::raw("create", "/a", RawError::ConnectionLoss { sent: true });
        assert_eq!(error.to_string(), "create \"/a\": connection loss, may have been applied");
        assert!(error.is_retryable() && error.may_have_applied());
        assert_eq!(error.source().unwrap().to_string(), "connection loss, request sent without an answer");
        let failed = Error::raw(
            "transaction",
            "/a",
            RawError::TransactionFailed { index: 1, code: ErrorCode::NoAuth },
        );
        assert_eq!(failed.of_operation("set_data").to_string(), "set_data \"/a\": not authorised");
        let error = Error::raw("start", "", RawError::NotConnected);
        assert_eq!(error.to_string(), "start: connection loss");
        assert!(!error.may_have_applied());
        let failure = Arc::new(io::Error::other("connect zk1:2181: name not known"));
        let error = Error::raw("create", "/a", RawError::ConnectionLoss { sent: true }).because(failure);
        let told = "create \"/a\": connection loss (connect zk1:2181: name not known), may have been applied";
        assert_eq!(error.to_string(), told);
        let error = Error::raw("create", "/a", RawError::InvalidArgument("it is too late"));
        assert_eq!(error.to_string(), "create \"/a\": invalid argument (it is too late)");
    }
}
