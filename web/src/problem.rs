//! Failed requests, in the form of RFC 9457 and with the kinds of the exit codes of `zkc`.

use std::fmt;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tracing::{debug, warn};
use zk_curator::{Error, ErrorKind};

use crate::fields::FieldsError;
use crate::paths::UrlError;

/// The result of a request.
pub(crate) type RequestResult<T> = Result<T, Problem>;

/// The media type of a problem.
pub(crate) const MEDIA: &str = "application/problem+json";

/// The kind of a failure. Each is an exit code of `zkc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    /// Invalid arguments or data, or another failure.
    Usage,
    /// No connection to a server, or no response in time.
    NoConnection,
    /// The node does not exist.
    NoNode,
    /// No permission, or read-only.
    NoPermission,
    /// Another version, an existing node, or children.
    Conflict,
    /// The change may have been applied.
    Unknown,
}

impl ProblemKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::NoConnection => "no-connection",
            Self::NoNode => "no-node",
            Self::NoPermission => "no-permission",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown-outcome",
        }
    }

    const fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::NoConnection => 3,
            Self::NoNode => 4,
            Self::NoPermission => 5,
            Self::Conflict => 6,
            Self::Unknown => 7,
        }
    }
}

/// A failed request. As a response it is JSON; the outermost layer makes a page of it for browsers.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) kind: ProblemKind,
    /// A short text, the same for all problems of its sort.
    pub(crate) title: &'static str,
    /// A sentence about this problem.
    pub(crate) detail: String,
    /// A header that belongs to the status, such as `Retry-After`.
    header: Option<(HeaderName, HeaderValue)>,
    /// `true` if the history can be read without its damaged parts, with `damaged=skip`.
    pub(crate) can_be_skipped: bool,
}

/// The members of RFC 9457, and extensions.
#[derive(Serialize)]
struct ProblemBody<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    kind: &'a str,
    exit_code: u8,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        kind: ProblemKind,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self { status, kind, title, detail: detail.into(), header: None, can_be_skipped: false }
    }

    pub(crate) fn usage(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ProblemKind::Usage, "Invalid request", detail)
    }

    pub(crate) fn forbidden(title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, ProblemKind::NoPermission, title, detail)
    }

    /// The data of a node that the settings hide.
    pub(crate) fn hidden_data() -> Self {
        let detail = "The settings of this explorer treat the data of this node as a secret.";
        Self::forbidden("Hidden data", detail)
    }

    /// A limit of the explorer: there is no place for another request, stream or file now.
    pub(crate) fn no_place(title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ProblemKind::NoPermission, title, detail)
    }

    /// Something that ZooKeeper does not provide now.
    pub(crate) fn unavailable(title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ProblemKind::NoConnection, title, detail)
    }

    /// A failure of the explorer or of its host.
    pub(crate) fn internal(title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ProblemKind::Usage, title, detail)
    }

    /// Damage in the history, which a read can leave out.
    pub(crate) fn damaged(title: &'static str, detail: impl Into<String>) -> Self {
        Self { can_be_skipped: true, ..Self::internal(title, detail) }
    }

    pub(crate) fn no_page() -> Self {
        let detail = "There is no page at this address.";
        Self::new(StatusCode::NOT_FOUND, ProblemKind::Usage, "No such page", detail)
    }

    pub(crate) fn method() -> Self {
        let detail = "This address does not support the method.";
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, ProblemKind::Usage, "Method not allowed", detail)
    }

    pub(crate) fn too_large(limit: impl fmt::Display) -> Self {
        let detail = format!("The request has more than {limit} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, ProblemKind::Usage, "Request too large", detail)
    }

    /// A client that sends too much. `seconds` is the time after which the request may succeed.
    pub(crate) fn too_many(detail: impl Into<String>, seconds: u64) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, ProblemKind::NoPermission, "Too many requests", detail)
            .retry_after(seconds)
    }

    /// A read of many nodes that takes too long.
    pub(crate) fn too_slow(path: &str) -> Self {
        let detail =
            format!("The nodes below {path} cannot be read in time. Try one further down.");
        Self::unavailable("The read takes too long", detail).retry_after(5)
    }

    pub(crate) fn not_signed_in() -> Self {
        Self::unauthorised("Sign in, or send a token in the header Authorization.")
    }

    pub(crate) fn unknown_token() -> Self {
        Self::unauthorised("No user has this token.")
    }

    fn unauthorised(detail: &str) -> Self {
        let status = StatusCode::UNAUTHORIZED;
        Self {
            header: Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            ..Self::new(status, ProblemKind::NoPermission, "Not signed in", detail)
        }
    }

    pub(crate) fn no_precondition(detail: impl Into<String>) -> Self {
        let status = StatusCode::PRECONDITION_REQUIRED;
        Self::new(status, ProblemKind::Usage, "Precondition required", detail)
    }

    fn retry_after(self, seconds: u64) -> Self {
        Self { header: Some((header::RETRY_AFTER, HeaderValue::from(seconds))), ..self }
    }

    fn body(&self) -> Vec<u8> {
        let body = ProblemBody {
            r#type: format!("urn:zk-curator:problem:{}", self.kind.name()),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            kind: self.kind.name(),
            exit_code: self.kind.exit_code(),
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    /// Adds the header that belongs to the status.
    pub(crate) fn add_header(&self, response: &mut Response) {
        if let Some((name, value)) = &self.header {
            response.headers_mut().insert(name.clone(), value.clone());
        }
    }
}

/// For logs.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.title, self.detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let media = [(header::CONTENT_TYPE, MEDIA)];
        let mut response = (self.status, media, self.body()).into_response();
        self.add_header(&mut response);
        response.extensions_mut().insert(self);
        response
    }
}

impl From<UrlError> for Problem {
    fn from(error: UrlError) -> Self {
        Self::usage(format!("The address is not that of a node: {error}."))
    }
}

impl From<FieldsError> for Problem {
    fn from(error: FieldsError) -> Self {
        Self::usage(format!("The query or the form cannot be read: {error}."))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let problem = of_zookeeper(&error);
        if problem.status.is_server_error() {
            warn!(%error, "a request of the web explorer has failed");
        } else {
            debug!(%error, "a request of the web explorer was refused");
        }
        problem
    }
}

fn of_zookeeper(error: &Error) -> Problem {
    let detail = format!("{error}.");
    if error.may_have_applied() {
        let title = "The change may have been applied";
        return Problem::new(StatusCode::GATEWAY_TIMEOUT, ProblemKind::Unknown, title, detail);
    }
    let (status, kind, title) = match error.kind() {
        ErrorKind::ConnectionLoss
        | ErrorKind::OperationTimeout
        | ErrorKind::SessionMoved
        | ErrorKind::SessionExpired
        | ErrorKind::Throttled
        | ErrorKind::Overloaded
        | ErrorKind::NotStarted
        | ErrorKind::Closed => {
            return Problem::unavailable("No connection to ZooKeeper", detail).retry_after(1);
        }
        ErrorKind::NoNode => (StatusCode::NOT_FOUND, ProblemKind::NoNode, "No such node"),
        ErrorKind::NoAuth | ErrorKind::AuthFailed => {
            (StatusCode::FORBIDDEN, ProblemKind::NoPermission, "ZooKeeper refuses permission")
        }
        ErrorKind::ReadOnly => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            (status, ProblemKind::NoPermission, "The ZooKeeper server is read-only")
        }
        ErrorKind::BadVersion => {
            (StatusCode::PRECONDITION_FAILED, ProblemKind::Conflict, "The node has changed")
        }
        ErrorKind::NodeExists => {
            (StatusCode::PRECONDITION_FAILED, ProblemKind::Conflict, "The node exists")
        }
        ErrorKind::NotEmpty => {
            (StatusCode::CONFLICT, ProblemKind::Conflict, "The node has children")
        }
        ErrorKind::NoChildrenForEphemerals => {
            (StatusCode::CONFLICT, ProblemKind::Conflict, "Ephemeral nodes have no children")
        }
        ErrorKind::InvalidPath
        | ErrorKind::InvalidArgument
        | ErrorKind::InvalidAcl
        | ErrorKind::SchemaViolation => {
            (StatusCode::BAD_REQUEST, ProblemKind::Usage, "Invalid request")
        }
        ErrorKind::TooLarge => {
            (StatusCode::PAYLOAD_TOO_LARGE, ProblemKind::Usage, "Request too large")
        }
        ErrorKind::ResponseTooLarge => {
            (StatusCode::BAD_GATEWAY, ProblemKind::Usage, "The response of ZooKeeper is too large")
        }
        _ => (StatusCode::BAD_GATEWAY, ProblemKind::Usage, "ZooKeeper refuses the operation"),
    };
    Problem::new(status, kind, title, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_members_of_its_standard() {
        let problem = Problem::no_precondition("Send If-Match.");
        let body: serde_json::Value = serde_json::from_slice(&problem.body()).unwrap();
        assert_eq!(body["type"], "urn:zk-curator:problem:usage");
        assert_eq!(body["status"], 428);
        assert_eq!(body["exit_code"], 2);
        let response = Problem::too_many("Wait.", 7).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "7");
        assert_eq!(response.headers()[header::CONTENT_TYPE], MEDIA);
    }

    #[test]
    fn errors_of_zookeeper_have_the_kinds_of_exit_codes() {
        let closed = Error::closed("get_data", "/a");
        let problem = Problem::from(closed.clone());
        assert_eq!((problem.status.as_u16(), problem.kind), (503, ProblemKind::NoConnection));
        let problem = Problem::from(closed.of_unknown_outcome());
        assert_eq!((problem.status.as_u16(), problem.kind), (504, ProblemKind::Unknown));
        let problem = Problem::from(Error::invalid_argument("create", "/a", "because"));
        assert_eq!((problem.status.as_u16(), problem.kind), (400, ProblemKind::Usage));
    }
}
