use zk_curator_proto::{DecodeError, ErrorCode};

use crate::path::PathError;

/// Why a request failed.
///
/// `sent` tells whether the request may have left the client: one that was sent without an answer may have been
/// applied, one that was never sent has not. A request counts as sent from when it is handed to a connection,
/// even if that is lost before its bytes are written.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server answered with an error.
    #[error("{0}")]
    Refused(ErrorCode),
    /// A transaction was not applied because one of its operations failed.
    #[error("operation {index} of the transaction failed: {code}")]
    TransactionFailed {
        /// Which operation, from zero.
        index: usize,
        /// Why.
        code: ErrorCode,
    },
    /// The connection was lost before the answer.
    #[error("connection loss{}", unanswered(*.sent))]
    ConnectionLoss {
        /// Whether the request may have left the client.
        sent: bool,
    },
    /// There was no connection, for as long as [`crate::DisconnectedPolicy`] says. Never sent.
    #[error("not connected")]
    NotConnected,
    /// The session has expired. This handle is of no more use.
    #[error("session expired{}", unanswered(*.sent))]
    SessionExpired {
        /// Whether the request may have left the client.
        sent: bool,
    },
    /// The server refused the credentials of the connection. This handle is of no more use.
    #[error("authentication failed{}", unanswered(*.sent))]
    AuthFailed {
        /// Whether the request may have left the client.
        sent: bool,
    },
    /// The client was closed.
    #[error("client closed{}", unanswered(*.sent))]
    Closed {
        /// Whether the request may have left the client.
        sent: bool,
    },
    /// There was no answer before the deadline of the request ([`crate::ZooKeeper::with_deadline`]).
    #[error("deadline exceeded{}", unanswered(*.sent))]
    DeadlineExceeded {
        /// Whether the request may have left the client.
        sent: bool,
    },
    /// Too much waits for an answer already. Never sent.
    #[error("{requests} requests of {bytes} bytes wait for an answer already")]
    QueueFull {
        /// How many requests.
        requests: usize,
        /// Their size.
        bytes: usize,
    },
    /// The path is not valid. Never sent.
    #[error(transparent)]
    InvalidPath(#[from] PathError),
    /// An argument is not valid. Never sent.
    #[error("{0}")]
    InvalidArgument(&'static str),
    /// The client cannot do this. Never sent. [`crate::ZooKeeper`] does not fail with it; other raw clients do.
    #[error("{0} is not supported by this client")]
    Unsupported(&'static str),
    /// The request is larger than servers accept (`jute.maxbuffer`). Never sent.
    #[error("request of {length} bytes is over the limit of {limit}")]
    TooLarge {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The server answered without an error, and with more than [`crate::ZooKeeperBuilder::max_answer`] allows. A write was
    /// applied. The answer was not kept, and the connection goes on.
    #[error("answer of {length} bytes is over the limit of {limit}")]
    AnswerTooLarge {
        /// The node that was read; empty for a request that reads no single node.
        path: String,
        /// Length of the answer in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer could not be read.
    #[error("malformed answer")]
    Malformed(#[source] DecodeError),
    /// The answer is valid but belongs to another kind of request.
    #[error("the answer does not fit the request")]
    UnexpectedAnswer,
}

impl Error {
    /// Whether the request may have changed something on the server although it failed here.
    #[must_use]
    pub const fn may_have_applied(&self) -> bool {
        match self {
            Self::ConnectionLoss { sent }
            | Self::SessionExpired { sent }
            | Self::AuthFailed { sent }
            | Self::Closed { sent }
            | Self::DeadlineExceeded { sent } => *sent,
            Self::Malformed(_) | Self::UnexpectedAnswer | Self::AnswerTooLarge { .. } => true,
            Self::Refused(code) | Self::TransactionFailed { code, .. } => matches!(
                code,
                ErrorCode::ConnectionLoss | ErrorCode::OperationTimeout | ErrorCode::RequestTimeout
            ),
            Self::NotConnected
            | Self::QueueFull { .. }
            | Self::InvalidPath(_)
            | Self::InvalidArgument(_)
            | Self::Unsupported(_)
            | Self::TooLarge { .. } => false,
        }
    }

    /// The error code of the server, or the one that Java's client would give.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(code) | Self::TransactionFailed { code, .. } => Some(*code),
            Self::ConnectionLoss { .. } | Self::NotConnected => Some(ErrorCode::ConnectionLoss),
            Self::DeadlineExceeded { .. } => Some(ErrorCode::OperationTimeout),
            Self::SessionExpired { .. } => Some(ErrorCode::SessionExpired),
            Self::AuthFailed { .. } => Some(ErrorCode::AuthFailed),
            Self::InvalidPath(_) | Self::InvalidArgument(_) => Some(ErrorCode::BadArguments),
            Self::Malformed(_) | Self::UnexpectedAnswer => Some(ErrorCode::MarshallingError),
            Self::Unsupported(_) => Some(ErrorCode::Unimplemented),
            Self::Closed { .. }
            | Self::QueueFull { .. }
            | Self::TooLarge { .. }
            | Self::AnswerTooLarge { .. } => None,
        }
    }
}

const fn unanswered(sent: bool) -> &'static str {
    if sent { ", request sent without an answer" } else { "" }
}
