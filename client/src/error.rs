use zk_curator_proto::{DecodeError, ErrorCode, OpCode};

use crate::path::PathError;

/// The reason why a request failed.
///
/// `sent` says if the request may have left the client. A request that was sent without a response
/// may have been applied; a request that was never sent has not. It counts as sent as soon as it is
/// passed to a connection, even if the connection is lost before its bytes are written.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server responded with an error.
    #[error("{0}")]
    Refused(ErrorCode),
    /// The server does not know the request: it is too old, or configured without it. Nothing was
    /// applied.
    #[error("the server does not know the request {request:?}{}", needed(*.request))]
    Unimplemented {
        /// The request.
        request: OpCode,
    },
    /// A transaction was not applied because one of its operations failed.
    #[error("operation {index} of the transaction failed: {code}")]
    TransactionFailed {
        /// The index of that operation, from zero.
        index: usize,
        /// Its error.
        code: ErrorCode,
    },
    /// The connection was lost before the response.
    #[error("connection loss{}", unanswered(*.sent))]
    ConnectionLoss {
        /// `true` if the request may have left the client.
        sent: bool,
    },
    /// There was no connection for the time of [`crate::DisconnectedPolicy`]. The request was never
    /// sent.
    #[error("not connected")]
    NotConnected,
    /// The session has expired. This handle cannot be used any more.
    #[error("session expired{}", unanswered(*.sent))]
    SessionExpired {
        /// `true` if the request may have left the client.
        sent: bool,
    },
    /// The server refused the credentials of the connection. This handle cannot be used any more.
    #[error("authentication failed{}", unanswered(*.sent))]
    AuthFailed {
        /// `true` if the request may have left the client.
        sent: bool,
    },
    /// The client was closed.
    #[error("client closed{}", unanswered(*.sent))]
    Closed {
        /// `true` if the request may have left the client.
        sent: bool,
    },
    /// There was no response before the deadline of the request
    /// ([`crate::ZooKeeper::with_deadline`]).
    #[error("deadline exceeded{}", unanswered(*.sent))]
    DeadlineExceeded {
        /// `true` if the request may have left the client.
        sent: bool,
    },
    /// Too many requests already wait for a response. The request was never sent.
    #[error("{requests} requests of {bytes} bytes already wait for a response")]
    QueueFull {
        /// The number of waiting requests.
        requests: usize,
        /// Their size in bytes.
        bytes: usize,
    },
    /// The path is not valid. The request was never sent.
    #[error(transparent)]
    InvalidPath(#[from] PathError),
    /// An argument is not valid. The request was never sent.
    #[error("{0}")]
    InvalidArgument(&'static str),
    /// The client does not support this. The request was never sent. [`crate::ZooKeeper`] never
    /// fails with it; other raw clients do.
    #[error("{0} is not supported by this client")]
    Unsupported(&'static str),
    /// The request is larger than servers accept (`jute.maxbuffer`). It was never sent.
    #[error("request of {length} bytes is over the limit of {limit}")]
    TooLarge {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The server closed the connection while this request was the largest one without a response.
    /// It is larger than servers accept by default (`jute.maxbuffer`, 1 MiB - 1), or the server did
    /// so for the second time in a row with a request of this size, of 64 KiB at least. Servers do
    /// not respond to a request over their limit, and do not apply it. But the connection may also
    /// have ended for another reason, so the request may have been applied.
    #[error(
        "the server closed the connection on a request of {length} bytes, which may be over its limit (jute.maxbuffer)"
    )]
    LargeRequestLost {
        /// Its length in bytes.
        length: usize,
    },
    /// The server responded without an error, but with more than
    /// [`crate::ZooKeeperBuilder::max_response`] allows. A write was applied. The response was
    /// discarded, and the connection stays open.
    #[error("response of {length} bytes is over the limit of {limit}")]
    ResponseTooLarge {
        /// The node that was read; empty for a request that reads more or less than one node.
        path: String,
        /// The length of the response in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The response could not be decoded.
    #[error("malformed response")]
    Malformed(#[source] DecodeError),
    /// The response is valid but belongs to another kind of request.
    #[error("the response does not fit the request")]
    UnexpectedResponse,
}

impl Error {
    /// Returns `true` if the request may have changed something on the server although it failed.
    #[must_use]
    pub const fn may_have_applied(&self) -> bool {
        match self {
            Self::ConnectionLoss { sent }
            | Self::SessionExpired { sent }
            | Self::AuthFailed { sent }
            | Self::Closed { sent }
            | Self::DeadlineExceeded { sent } => *sent,
            Self::Malformed(_)
            | Self::UnexpectedResponse
            | Self::LargeRequestLost { .. }
            | Self::ResponseTooLarge { .. } => true,
            Self::Refused(code) => code.may_have_applied(),
            // Not applied, whatever the code of the failed operation is.
            Self::TransactionFailed { .. }
            | Self::NotConnected
            | Self::Unimplemented { .. }
            | Self::QueueFull { .. }
            | Self::InvalidPath(_)
            | Self::InvalidArgument(_)
            | Self::Unsupported(_)
            | Self::TooLarge { .. } => false,
        }
    }

    /// Returns the error code of the server, or the code that Java's client would return.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(code) | Self::TransactionFailed { code, .. } => Some(*code),
            Self::ConnectionLoss { .. } | Self::NotConnected | Self::LargeRequestLost { .. } => {
                Some(ErrorCode::ConnectionLoss)
            }
            Self::DeadlineExceeded { .. } => Some(ErrorCode::OperationTimeout),
            Self::SessionExpired { .. } => Some(ErrorCode::SessionExpired),
            Self::AuthFailed { .. } => Some(ErrorCode::AuthFailed),
            Self::InvalidPath(_) | Self::InvalidArgument(_) => Some(ErrorCode::BadArguments),
            Self::Malformed(_) | Self::UnexpectedResponse => Some(ErrorCode::MarshallingError),
            Self::Unsupported(_) | Self::Unimplemented { .. } => Some(ErrorCode::Unimplemented),
            Self::Closed { .. }
            | Self::QueueFull { .. }
            | Self::TooLarge { .. }
            | Self::ResponseTooLarge { .. } => None,
        }
    }
}

/// Returns the server version that a request needs, if not every server knows it.
const fn needed(request: OpCode) -> &'static str {
    match request {
        OpCode::Create2 | OpCode::Reconfig | OpCode::CheckWatches | OpCode::RemoveWatches => {
            ", which needs ZooKeeper 3.5"
        }
        OpCode::CreateContainer => ", which needs ZooKeeper 3.5.1",
        OpCode::CreateTtl => {
            ", which needs ZooKeeper 3.5.4 with zookeeper.extendedTypesEnabled=true on every server"
        }
        OpCode::MultiRead
        | OpCode::AddWatch
        | OpCode::SetWatches2
        | OpCode::GetEphemerals
        | OpCode::GetAllChildrenNumber => ", which needs ZooKeeper 3.6",
        OpCode::WhoAmI => ", which needs ZooKeeper 3.7",
        _ => "",
    }
}

const fn unanswered(sent: bool) -> &'static str {
    if sent { ", no response to a sent request" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_an_old_server_names_the_version_it_needs() {
        for (request, message) in [
            (OpCode::Create2, "Create2, which needs ZooKeeper 3.5"),
            (OpCode::CreateContainer, "CreateContainer, which needs ZooKeeper 3.5.1"),
            (
                OpCode::CreateTtl,
                "CreateTtl, which needs ZooKeeper 3.5.4 with zookeeper.extendedTypesEnabled=true on every server",
            ),
            (OpCode::AddWatch, "AddWatch, which needs ZooKeeper 3.6"),
            (OpCode::WhoAmI, "WhoAmI, which needs ZooKeeper 3.7"),
            (OpCode::GetData, "GetData"),
        ] {
            let error = Error::Unimplemented { request };
            assert_eq!(
                error.to_string(),
                format!("the server does not know the request {message}")
            );
            assert_eq!(error.code(), Some(ErrorCode::Unimplemented));
            assert!(!error.may_have_applied());
        }
    }
}
