//! The errors of requests.

use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tracing::warn;
use zk_curator::{Error, ErrorKind};

use crate::json::{Fault, WriteError};

pub(super) type RestResult<T, E = Problem> = Result<T, E>;

/// An error of a request, see the [module](super).
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    error: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<usize>,
}

impl Problem {
    fn new(status: StatusCode, error: &'static str, reason: impl Into<String>) -> Self {
        Self { status, error, reason: reason.into(), byte: None }
    }

    pub(super) fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "missing", "there is no such instance")
    }

    pub(super) fn path() -> Self {
        let reason = "name and id of the instance are not those of the path";
        Self::new(StatusCode::BAD_REQUEST, "path", reason)
    }

    pub(super) fn dynamic() -> Self {
        let reason = "the instance is dynamic: it has to be STATIC or PERMANENT";
        Self::new(StatusCode::BAD_REQUEST, "dynamic", reason)
    }

    pub(super) fn class() -> Self {
        let reason = "@class of the payload is not that of the present instance";
        Self::new(StatusCode::BAD_REQUEST, "class", reason)
    }

    pub(super) fn registered() -> Self {
        let reason = "a process has registered a dynamic instance with this id";
        Self::new(StatusCode::CONFLICT, "registered", reason)
    }

    pub(super) fn media() -> Self {
        let reason = "the body has to be application/json";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media", reason)
    }

    pub(super) fn contended() -> Self {
        let reason = "other writers were faster";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", reason)
    }

    pub(super) fn payload(error: &serde_json::Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "node", error.to_string())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        let (status, name) = match kind {
            ErrorKind::InvalidArgument => (StatusCode::BAD_REQUEST, "name"),
            ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "size"),
            ErrorKind::NotEmpty => (StatusCode::CONFLICT, "children"),
            ErrorKind::Undecodable => (StatusCode::INTERNAL_SERVER_ERROR, "node"),
            ErrorKind::SessionExpired
            | ErrorKind::ReadOnly
            | ErrorKind::Overloaded
            | ErrorKind::NotStarted
            | ErrorKind::Closed => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            _ if error.is_transient() => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "zookeeper"),
        };
        if status.is_server_error() {
            warn!(%error, "a request of the REST interface has failed");
        }
        Self::new(status, name, format!("{kind:?}"))
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        let byte = Some(fault.offset);
        Self { byte, ..Self::new(StatusCode::BAD_REQUEST, "record", fault.reason) }
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::TooLarge(_) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "size", error.to_string())
            }
            _ => Self::new(StatusCode::BAD_REQUEST, "record", error.to_string()),
        }
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "name", rejection.body_text())
    }
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Self {
        let status = rejection.status();
        let error = if status == StatusCode::PAYLOAD_TOO_LARGE { "size" } else { "record" };
        Self::new(status, error, rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}
