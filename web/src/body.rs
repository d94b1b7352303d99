//! The bodies of requests, up to a limit.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::fields::Fields;
use crate::problem::{Problem, ProblemKind, RequestResult};

/// The media type of forms.
const FORM: &str = "application/x-www-form-urlencoded";
/// The bytes of a form for fields other than the data.
const OTHER_FIELDS: usize = 16 << 10;
/// The longest time without a part of a body.
pub(crate) const STALLED: Duration = Duration::from_secs(30);
/// The maximum number of bytes that stand for one in a form.
const ENCODED: usize = 3;

/// Reads a body of at most `limit` bytes. A longer one is refused before it is in memory.
pub(crate) async fn read(body: Body, headers: &HeaderMap, limit: usize) -> RequestResult<Bytes> {
    let is_larger = |length: u64| usize::try_from(length).map_or(true, |length| length > limit);
    if announced(headers).is_some_and(is_larger) {
        return Err(Problem::too_large(limit));
    }
    let mut parts = body.into_data_stream();
    let mut whole = BytesMut::new();
    while let Some(part) = timeout(STALLED, parts.next()).await.map_err(|_| stalled())? {
        let part = part.map_err(|_| Problem::usage("The body of the request has ended early."))?;
        if whole.len() + part.len() > limit {
            return Err(Problem::too_large(limit));
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// Returns the length that a request announces for its body.
pub(crate) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the media type of a body, with its parameters; empty without one.
pub(crate) fn media_of(headers: &HeaderMap) -> &str {
    let media = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    media.unwrap_or_default()
}

/// Returns `true` if a body has a media type, with any parameters.
pub(crate) fn is_of(headers: &HeaderMap, media: &str) -> bool {
    let own = media_of(headers).split(';').next().unwrap_or_default();
    own.trim().eq_ignore_ascii_case(media)
}

/// Returns the problem of a body of another media type.
pub(crate) fn other_media(wanted: &str) -> Problem {
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let detail = format!("The body has to be {wanted}.");
    Problem::new(status, ProblemKind::Usage, "Unsupported media type", detail)
}

/// Returns the problem of a client that sends its body too slowly.
pub(crate) fn stalled() -> Problem {
    let status = StatusCode::REQUEST_TIMEOUT;
    let detail = format!("No part of the body has arrived for {} s.", STALLED.as_secs());
    Problem::new(status, ProblemKind::Usage, "Request too slow", detail)
}

/// Reads the fields of a form whose data have at most `limit` bytes.
pub(crate) async fn read_form(
    body: Body,
    headers: &HeaderMap,
    limit: usize,
) -> RequestResult<Fields> {
    if !is_of(headers, FORM) {
        return Err(other_media(FORM));
    }
    let limit = limit.saturating_mul(ENCODED).saturating_add(OTHER_FIELDS);
    Ok(Fields::parse(&read(body, headers, limit).await?)?)
}
