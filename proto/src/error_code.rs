macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        /// The error of a response (`org.apache.zookeeper.KeeperException.Code`).
        ///
        /// Unknown codes are kept in [`ErrorCode::Unknown`].
        #[non_exhaustive]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
            /// A code that is not in the table.
            Unknown(i32),
        }

        impl ErrorCode {
            /// Every known code, in the order of the declaration.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the number on the wire.
            #[must_use]
            pub const fn code(self) -> i32 {
                match self {
                    $(Self::$name => $value,)*
                    Self::Unknown(code) => code,
                }
            }

            /// Returns the code with this number; `None` for zero, which is success.
            #[must_use]
            #[inline]
            pub const fn from_code(code: i32) -> Option<Self> {
                match code {
                    0 => None,
                    $($value => Some(Self::$name),)*
                    other => Some(Self::Unknown(other)),
                }
            }
        }

        impl std::fmt::Display for ErrorCode {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$name => f.write_str($text),)*
                    Self::Unknown(code) => write!(f, "unknown error code {code}"),
                }
            }
        }
    };
}

error_codes! {
    /// The server failed.
    SystemError = -1, "system error";
    /// A filler for the operations after the failed one in a multi.
    RuntimeInconsistency = -2, "runtime inconsistency";
    /// The server found its data inconsistent.
    DataInconsistency = -3, "data inconsistency";
    /// The connection was lost before the response.
    ConnectionLoss = -4, "connection loss";
    /// A record could not be read or written.
    MarshallingError = -5, "marshalling error";
    /// The server does not know the operation.
    Unimplemented = -6, "operation not implemented";
    /// The operation took too long.
    OperationTimeout = -7, "operation timeout";
    /// An argument is not valid.
    BadArguments = -8, "bad arguments";
    /// The new configuration has no quorum.
    NewConfigNoQuorum = -13, "no quorum of the new configuration";
    /// Another reconfiguration is in progress.
    ReconfigInProgress = -14, "reconfiguration in progress";
    /// The session does not exist.
    UnknownSession = -12, "unknown session";
    /// The server failed in an API call.
    ApiError = -100, "api error";
    /// The node does not exist.
    NoNode = -101, "no node";
    /// The session lacks a permission.
    NoAuth = -102, "not authorised";
    /// The version does not match.
    BadVersion = -103, "bad version";
    /// Ephemeral nodes have no children.
    NoChildrenForEphemerals = -108, "ephemeral nodes may not have children";
    /// The node exists already.
    NodeExists = -110, "node exists";
    /// The node has children.
    NotEmpty = -111, "node has children";
    /// The session has expired.
    SessionExpired = -112, "session expired";
    /// A watch callback could not be invoked.
    InvalidCallback = -113, "invalid callback";
    /// An ACL is not valid.
    InvalidAcl = -114, "invalid ACL";
    /// Authentication failed.
    AuthFailed = -115, "authentication failed";
    /// The client is closing.
    Closing = -116, "client is closing";
    /// The server had nothing to report; never an error of a request.
    Nothing = -117, "nothing";
    /// The session has moved to another server.
    SessionMoved = -118, "session moved to another server";
    /// The server is in read-only mode.
    NotReadOnly = -119, "server is in read-only mode";
    /// A local session cannot own ephemeral nodes.
    EphemeralOnLocalSession = -120, "ephemeral node on a local session";
    /// There is no such watch.
    NoWatcher = -121, "no such watcher";
    /// A request timed out inside the server.
    RequestTimeout = -122, "request timeout";
    /// Reconfiguration is disabled.
    ReconfigDisabled = -123, "reconfiguration disabled";
    /// The session was closed because SASL is required.
    SessionClosedRequireSaslAuth = -124, "session closed: SASL authentication required";
    /// A quota would be exceeded.
    QuotaExceeded = -125, "quota exceeded";
    /// The server is overloaded and has dropped the request. It was not applied.
    Throttled = -127, "request throttled";
}

/// The meaning of a response with a code for the request. Only these two functions decide it; the
/// retry policies, the watches, the recipes and the clean-up call them. The reasons are in
/// `docs/decisions/unknown-outcomes.md`.
impl ErrorCode {
    /// Returns `true` if the error is temporary: the same request may succeed later without a
    /// repair. It says nothing about the node of the request.
    ///
    /// | code | sent by |
    /// |---|---|
    /// | `Throttled` | Apache ZooKeeper, for a request that waited longer than `zookeeper.throttled_op_wait_time` |
    /// | `SessionMoved` | Apache ZooKeeper before 3.6, in the response to a transaction of a session that has changed servers; only a new connection helps. For other requests, and later, the server closes the connection instead |
    /// | `ReconfigInProgress` | Apache ZooKeeper, to a `reconfig` during another one |
    /// | `ConnectionLoss`, `OperationTimeout`, `SystemError` | servers built on Raft, if a request was not committed in time; never by Apache ZooKeeper |
    /// | `RequestTimeout` | Java's client, to itself |
    #[must_use]
    pub const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::ConnectionLoss
                | Self::OperationTimeout
                | Self::RequestTimeout
                | Self::SessionMoved
                | Self::SystemError
                | Self::ReconfigInProgress
                | Self::Throttled
        )
    }

    /// Returns `true` if a request with this code may still have been applied: the server gave up
    /// on it or failed, possibly after it was committed.
    ///
    /// A throttled request was not applied: the server removes it from its pipeline as a whole,
    /// including a transaction. An error *inside* the response to a transaction always means that
    /// none of its operations was applied, whatever the code is.
    #[must_use]
    pub const fn may_have_applied(self) -> bool {
        matches!(
            self,
            Self::ConnectionLoss
                | Self::OperationTimeout
                | Self::RequestTimeout
                | Self::SystemError
                | Self::DataInconsistency
                | Self::MarshallingError
                | Self::ApiError
                | Self::Unknown(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_fate() {
        let passing: Vec<_> = ErrorCode::ALL
            .iter()
            .filter(|code| code.is_passing())
            .map(|code| code.code())
            .collect();
        assert_eq!(passing, [-1, -4, -7, -14, -118, -122, -127]);
        let unknown = ErrorCode::ALL.iter().filter(|code| code.may_have_applied());
        assert_eq!(
            unknown.map(|code| code.code()).collect::<Vec<_>>(),
            [-1, -3, -4, -5, -7, -100, -122]
        );
        assert!(
            ErrorCode::Unknown(-9999).may_have_applied() && !ErrorCode::Unknown(-9999).is_passing()
        );
    }

    #[test]
    fn codes_round_trip_and_zero_is_success() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(code.code()), Some(*code));
        }
        assert_eq!(ErrorCode::from_code(0), None);
        assert_eq!(ErrorCode::from_code(-9999), Some(ErrorCode::Unknown(-9999)));
    }
}
