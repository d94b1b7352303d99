use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use zk_curator_client::path::PathError;
use zk_curator_client::{Error as RawError, ErrorCode};

use crate::value::Failure;

/// The result of an operation of the framework.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of an operation. It names the operation, the path, and the reason.
///
/// The printed error includes its cause: the problem of an argument, or the reason why there is no
/// connection (`start: connection loss (connect zk1:2181: connection refused)`).
/// [`cause`](Self::cause) returns that as a value, and `source` returns only the source of the
/// cause. So printing an error with its sources repeats nothing.
///
/// ```
/// # fn handle(error: zk_curator::Error) {
/// if error.may_have_applied() {
///     // The request was sent and its response lost: read before writing again.
/// } else if error.is_retryable() {
///     // Nothing was applied; try again later.
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

/// The reason why an operation failed, grouped by the reaction of the caller.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    // Retry.
    /// The connection was lost, or there was none for the connection timeout.
    ConnectionLoss,
    /// There was no response before the deadline of the call, or the server gave up on the
    /// operation.
    OperationTimeout,
    /// The session has moved to another server.
    SessionMoved,
    /// The server is overloaded and has refused the request (`zookeeper.throttled_op_wait_time`).
    /// Nothing was applied.
    Throttled,

    // Begin again in a new session.
    /// The session has expired, with its ephemeral nodes.
    SessionExpired,
    /// The node of a [fenced transaction](crate::Ownership::fenced) is gone. Nothing was applied.
    OwnershipLost,
    /// A recipe has withdrawn the transaction before it was sent, because its callers have given
    /// up.
    #[doc(hidden)]
    Withdrawn,

    // An earlier state is lost.
    /// No server has the last transaction that the earlier sessions of this framework have seen, as
    /// after a restore from a backup. The framework continues, and reads may go back in time. Only
    /// in [`background_errors`](crate::CuratorFramework::background_errors).
    HistoryLost,

    // Another client was faster.
    /// The node does not exist.
    NoNode,
    /// The node exists already.
    NodeExists,
    /// The version of the node does not match the expected one.
    BadVersion,
    /// The node has children.
    NotEmpty,
    /// The parent is ephemeral.
    NoChildrenForEphemerals,
    /// An operation of a transaction failed, so none was applied.
    TransactionFailed {
        /// The index of the operation, from zero.
        index: usize,
        /// The reason.
        code: ErrorCode,
    },

    // The operation is not allowed.
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
    /// The request is larger than the [limit](crate::CuratorFrameworkBuilder::max_frame), and was
    /// not sent. Or, if it [may have been applied](Error::may_have_applied), servers have closed
    /// their connections on it, probably because it is larger than they accept.
    TooLarge,
    /// A [schema](crate::schema) forbids it.
    SchemaViolation,
    /// The raw client, the framework with its present settings, or the server does not support
    /// this. If it is the server, the error names the version of ZooKeeper that does.
    Unsupported,
    /// More requests wait for responses than allowed.
    Overloaded,
    /// The framework was not started.
    NotStarted,

    // Invalid data in a node.
    /// The data of a node cannot be returned as requested: they are not compressed, too large when
    /// decompressed, or not of the type.
    Undecodable,
    /// The response exceeds the [limit](crate::CuratorFrameworkBuilder::max_response), and was
    /// discarded. A write was applied.
    ResponseTooLarge,

    // The end of the framework.
    /// The framework was closed.
    Closed,
    /// [`close`](crate::CuratorFramework::close) could not complete the cleanup.
    /// [`Error::left_behind`] returns what may be left.
    LeftBehind,

    // A body of the service.
    /// The body that a recipe ran has failed, or its process is gone. A
    /// [`RetryPolicy`](crate::retry::RetryPolicy) of a recipe may retry it.
    BodyFailed,

    // A server that violates the protocol, or is newer than this crate.
    /// The response could not be understood.
    Malformed,
    /// Another error of the server.
    Server(ErrorCode),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, operation: &'static str, path: impl Into<String>) -> Self {
        Self { kind, operation, path: path.into(), may_have_applied: false, source: None }
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into().into());
        self
    }

    pub(crate) fn with_shared_source(mut self, source: Arc<dyn StdError + Send + Sync>) -> Self {
        self.source = Some(source);
        self
    }

    /// Adds the failure of the connection as the cause, which is more specific than the kind.
    pub(crate) fn because(mut self, failure: Arc<io::Error>) -> Self {
        self.source = Some(failure);
        self
    }

    /// Returns an `InvalidArgument` error for an invalid setting, before anything is sent. `why` is
    /// printed.
    #[must_use]
    pub fn invalid_argument(
        operation: &'static str,
        path: impl Into<String>,
        why: &'static str,
    ) -> Self {
        Self::raw(operation, path, RawError::InvalidArgument(why))
    }

    /// Returns an `Undecodable` error for data that are not a value of the requested type, with the
    /// reason.
    #[must_use]
    pub fn undecodable(operation: &'static str, path: impl Into<String>, why: Failure) -> Self {
        Self::new(ErrorKind::Undecodable, operation, path).with_shared_source(why)
    }

    /// Returns a `Closed` error for a handle of a recipe that is closed, or whose framework is.
    #[must_use]
    pub fn closed(operation: &'static str, path: impl Into<String>) -> Self {
        Self::new(ErrorKind::Closed, operation, path)
    }

    /// Returns a `BodyFailed` error for a body that a recipe ran, with the reason.
    #[must_use]
    pub fn body_failed(
        operation: &'static str,
        path: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::BodyFailed, operation, path).with_source(why.into())
    }

    pub(crate) fn invalid_path(
        operation: &'static str,
        path: impl Into<String>,
        why: PathError,
    ) -> Self {
        Self::new(ErrorKind::InvalidPath, operation, path).with_source(why)
    }

    pub(crate) fn raw(operation: &'static str, path: impl Into<String>, error: RawError) -> Self {
        let mut wrapped = Self::new(kind_of(&error), operation, path);
        wrapped.may_have_applied = error.may_have_applied();
        // The source must not repeat the text of the kind.
        match error {
            RawError::Refused(_)
            | RawError::TransactionFailed { .. }
            | RawError::SessionExpired { .. } => wrapped,
            error => wrapped.with_source(error),
        }
    }

    /// Translates the error of a transaction that the caller of `operation` did not write itself.
    /// The error names `operation`, and `TransactionFailed` becomes the error of the failed part,
    /// for example `NoAuth`.
    #[must_use]
    pub fn of_operation(mut self, operation: &'static str) -> Self {
        self.operation = operation;
        if let ErrorKind::TransactionFailed { code, .. } = self.kind {
            self.kind = kind_of(&RawError::Refused(code));
        }
        self
    }

    /// Replaces the path, for the error of one node of a request that concerns several.
    pub(crate) fn at(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Returns the error of a `close` that could not delete these paths.
    pub(crate) fn of_left_behind(left: LeftBehind) -> Self {
        let path = left.paths.first().cloned().unwrap_or_default();
        Self::new(ErrorKind::LeftBehind, "close", path).with_source(left)
    }

    /// Returns the nodes that may be left, if the kind is [`LeftBehind`](ErrorKind::LeftBehind).
    #[must_use]
    pub fn left_behind(&self) -> Option<&LeftBehind> {
        self.source.as_deref()?.downcast_ref()
    }

    /// Returns the cause of the error as a value, for example the [`io::Error`] of a failed
    /// connection ([`CuratorFramework::last_failure`](crate::CuratorFramework::last_failure)) or a
    /// [`SchemaViolation`](crate::schema::SchemaViolation). The printed error includes its text.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// Returns the cause, if it is more specific than the kind.
    fn reason(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        let source = self.source.as_deref()?;
        let says_more = match source.downcast_ref::<RawError>() {
            None => true,
            Some(
                RawError::InvalidPath(_)
                | RawError::InvalidArgument(_)
                | RawError::Unsupported(_)
                | RawError::Unimplemented { .. }
                | RawError::TooLarge { .. }
                | RawError::LargeRequestLost { .. }
                | RawError::ResponseTooLarge { .. }
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

    /// Marks the operation as one that [may have been applied](Self::may_have_applied), for a step
    /// that fails after another one has changed something.
    #[must_use]
    pub const fn of_unknown_outcome(mut self) -> Self {
        self.may_have_applied = true;
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the failed operation, for example `create`.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// Returns the path of the operation, within the namespace; empty for an operation without one.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns `true` if the same call may succeed later without other changes: there was no
    /// connection, the server responded with a [transient](ErrorCode::is_passing) code, or too many
    /// requests wait for a response (`Overloaded`).
    ///
    /// Retry policies are asked only about these errors and `SessionExpired`.
    /// [`is_transient`](Self::is_transient) also covers errors that end with the session.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match (self.kind, self.code()) {
            (ErrorKind::Overloaded, _) => true,
            (_, Some(code)) => code.is_passing(),
            (_, None) => false,
        }
    }

    /// Returns `true` if the error of a read concerns the node only, and says nothing about others:
    /// `NoAuth`, `TooLarge`, `ResponseTooLarge` and `Undecodable`.
    #[must_use]
    pub const fn is_of_one_node(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::NoAuth
                | ErrorKind::TooLarge
                | ErrorKind::ResponseTooLarge
                | ErrorKind::Undecodable
        )
    }

    /// Returns `true` if the operation may have been applied although it failed.
    #[must_use]
    pub const fn may_have_applied(&self) -> bool {
        self.may_have_applied
    }

    /// Returns `true` if the session is over.
    #[must_use]
    pub const fn is_session_lost(&self) -> bool {
        matches!(self.kind, ErrorKind::SessionExpired | ErrorKind::Closed)
    }

    /// Returns the error code of the server, if it responded with one.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        Some(match self.kind {
            ErrorKind::ConnectionLoss => ErrorCode::ConnectionLoss,
            ErrorKind::OperationTimeout => ErrorCode::OperationTimeout,
            ErrorKind::SessionMoved => ErrorCode::SessionMoved,
            ErrorKind::Throttled => ErrorCode::Throttled,
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
            | ErrorKind::Withdrawn
            | ErrorKind::InvalidPath
            | ErrorKind::InvalidArgument
            | ErrorKind::TooLarge
            | ErrorKind::SchemaViolation
            | ErrorKind::Undecodable
            | ErrorKind::ResponseTooLarge
            | ErrorKind::Overloaded
            | ErrorKind::NotStarted
            | ErrorKind::Closed
            | ErrorKind::LeftBehind
            | ErrorKind::BodyFailed
            | ErrorKind::Malformed => return None,
        })
    }
}

/// Persistent nodes whose deletion was pending when the framework was closed.
#[derive(Debug, Clone)]
pub struct LeftBehind {
    paths: Vec<String>,
    nodes: usize,
    pub(crate) session: Option<Box<Error>>,
}

impl LeftBehind {
    /// The maximum number of listed paths.
    pub const MAX_PATHS: usize = 32;

    /// Returns the first [`MAX_PATHS`](Self::MAX_PATHS) paths on the server. For a node that was
    /// not found yet, it returns the parent and the prefix of its name.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Returns the number of nodes that may be left.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the reason why the session could not be closed either, if it could not. Its
    /// ephemeral nodes then stay until it expires.
    #[must_use]
    pub fn session_failure(&self) -> Option<&Error> {
        self.session.as_deref()
    }

    /// Creates a list of these paths, and of `more` nodes with unknown paths.
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
            ErrorCode::Throttled => ErrorKind::Throttled,
            ErrorCode::SessionExpired | ErrorCode::UnknownSession => ErrorKind::SessionExpired,
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
        RawError::Unsupported(_) | RawError::Unimplemented { .. } => ErrorKind::Unsupported,
        RawError::TooLarge { .. } | RawError::LargeRequestLost { .. } => ErrorKind::TooLarge,
        RawError::ResponseTooLarge { .. } => ErrorKind::ResponseTooLarge,
        // `Malformed`, `UnexpectedResponse`, and later variants of that enum.
        _ => ErrorKind::Malformed,
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConnectionLoss => "connection loss",
            Self::OperationTimeout => "operation timeout",
            Self::SessionMoved => "session moved to another server",
            Self::Throttled => "request throttled by the server",
            Self::SessionExpired => "session expired",
            Self::OwnershipLost => "ownership lost",
            Self::HistoryLost => "history lost",
            Self::Withdrawn => "withdrawn before it was sent",
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
            Self::ResponseTooLarge => "response too large",
            Self::Overloaded => "too many requests in flight",
            Self::NotStarted => "framework not started",
            Self::Closed => "framework closed",
            Self::LeftBehind => "closed without cleaning up",
            Self::BodyFailed => "the body has failed",
            Self::Malformed => "malformed response",
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
    /// Returns the source of the cause, because the error prints the cause itself.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref()?.source()
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
        assert_eq!(
            error.cause().unwrap().to_string(),
            "connection loss, no response to a sent request"
        );
        assert!(error.source().is_none(), "the cause is already printed");
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
        let error =
            Error::raw("create", "/a", RawError::ConnectionLoss { sent: true }).because(failure);
        let told = "create \"/a\": connection loss (connect zk1:2181: name not known), may have been applied";
        assert_eq!(error.to_string(), told);
        let error = Error::raw("create", "/a", RawError::InvalidArgument("it is too late"));
        assert_eq!(error.to_string(), "create \"/a\": invalid argument (it is too late)");
    }
}
