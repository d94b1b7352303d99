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
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let announced = announced.and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > limit))
    {
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
    let media = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    let media = media.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case(FORM) {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let detail = format!("The body has to be {FORM}.");
        return Err(Problem::new(status, ProblemKind::Usage, "Unsupported media type", detail));
    }
    let limit = limit.saturating_mul(ENCODED).saturating_add(OTHER_FIELDS);
    Ok(Fields::parse(&read(body, headers, limit).await?)?)
}
