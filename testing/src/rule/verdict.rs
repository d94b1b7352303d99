//! [`Verdict`]: the decision of a rule.

use std::time::Duration;

use zk_curator_proto::ErrorCode;

/// The fate of a request.
///
/// TCP does not lose single requests: a lost request or reply always ends the connection.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The request is handled normally.
    Pass,
    /// The request and everything after it on the same connection arrive this much later. The
    /// request is applied *after* the delay, even if the client has closed the connection before
    /// that, as bytes in flight are. It is not applied if the server has ended the connection or
    /// the session has moved to another one. Watch events still reach the connection during the
    /// delay, and other connections are not delayed. Dropping the guard of the rule does not
    /// shorten the delay; [`RuleGuard::end`](crate::RuleGuard::end) ends it.
    Delay(Duration),
    /// The response is this error, and the request is not applied.
    Refuse(ErrorCode),
    /// The request is not applied. Earlier responses and events are still sent, then the connection
    /// ends.
    LoseRequest,
    /// The request is applied. Earlier responses and events are still sent, then the connection
    /// ends: the response and the events for the same connection are lost. Events for other
    /// connections are sent.
    LoseReply,
    /// The request is not applied and the connection ends immediately. Responses and events not yet
    /// sent are lost too.
    Disconnect,
}
