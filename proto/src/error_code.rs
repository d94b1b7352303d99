macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        /// The error of an answer (`org.apache.zookeeper.KeeperException.Code`).
        ///
        /// Codes this crate does not know are kept in [`ErrorCode::Unknown`].
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

            /// The number on the wire.
            #[must_use]
            pub const fn code(self) -> i32 {
                match self {
                    $(Self::$name => $value,)*
                    Self::Unknown(code) => code,
                }
            }

            /// The code with this number; `None` for zero, which is success.
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
    /// Filler for the operations after the failed one in a multi.
    RuntimeInconsistency = -2, "runtime inconsistency";
    /// The server found its data inconsistent.
    DataInconsistency = -3, "data inconsistency";
    /// The connection was lost before the answer.
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
    /// Another reconfiguration is under way.
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
    /// The server had nothing to say; never an error of a request.
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
    /// Reconfiguration is switched off.
    ReconfigDisabled = -123, "reconfiguration disabled";
    /// The session was closed because SASL is required.
    SessionClosedRequireSaslAuth = -124, "session closed: SASL authentication required";
    /// A quota would be exceeded.
    QuotaExceeded = -125, "quota exceeded";
    /// The server is throttling.
    Throttled = -127, "request throttled";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_zero_is_success() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(code.code()), Some(*code));
        }
        assert_eq!(ErrorCode::from_code(0), None);
        assert_eq!(ErrorCode::from_code(-9999), Some(ErrorCode::Unknown(-9999)));
    }
}
