//! The results of a search in JSON: as one value, or line by line.

use std::convert::Infallible;
use std::pin::pin;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt};
use serde_json::{Value, json};

use super::node::json_response;
use crate::fields::Fields;
use crate::problem::{Problem, RequestResult};
use crate::search::{NamedPaths, SearchEnd, SearchHit, SearchIn, SearchPart, SearchSummary};

/// The media type of JSON values, one in each line.
const LINES: &str = "application/x-ndjson";

/// The fields of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchQuery {
    /// The pattern; empty for none.
    pub(crate) pattern: String,
    pub(crate) part: SearchIn,
}

impl SearchQuery {
    pub(crate) fn of(fields: &Fields) -> RequestResult<Self> {
        let part = match fields.get("in").unwrap_or_default() {
            "" => Some(SearchIn::default()),
            name => SearchIn::of(name),
        };
        let part = part.ok_or_else(|| {
            Problem::usage("The field in is not one of name, path, text and regex.")
        })?;
        Ok(Self { pattern: fields.get("for").unwrap_or_default().to_owned(), part })
    }
}

/// Returns `true` if the client asks for a value in each line.
pub(crate) fn wants_lines(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.to_ascii_lowercase().contains(LINES))
}

/// Returns all results. `truncated` is `true` if a limit has ended the search.
pub(crate) async fn search_json(
    path: &str,
    query: &SearchQuery,
    parts: impl Stream<Item = SearchPart> + Send,
) -> RequestResult<Response> {
    let mut parts = pin!(parts);
    let (mut hits, mut end) = (Vec::new(), None);
    while let Some(part) = parts.next().await {
        match part {
            SearchPart::Hits(found) => hits.extend(found.iter().map(hit_json)),
            SearchPart::End(summary) => end = Some(summary),
        }
    }
    let summary = end.ok_or_else(Problem::no_page)?;
    if let SearchEnd::Failed(why) = &summary.end {
        let detail = format!("{why}.");
        let title = "The search has failed";
        return Err(Problem::unavailable(title, detail));
    }
    let mut body = summary_json(&summary);
    body["path"] = path.into();
    body["for"] = query.pattern.as_str().into();
    body["in"] = query.part.name().into();
    body["hits"] = Value::Array(hits);
    Ok(json_response(&body, None))
}

/// Returns each result in a line while the search runs, and `{"summary": …}` in the last line.
/// Closing the connection ends the search.
pub(crate) fn search_lines(parts: impl Stream<Item = SearchPart> + Send + 'static) -> Response {
    let lines = parts.map(|part| Ok::<_, Infallible>(Bytes::from(lines_of(&part))));
    ([(header::CONTENT_TYPE, LINES)], Body::from_stream(lines)).into_response()
}

fn lines_of(part: &SearchPart) -> String {
    let mut lines = String::new();
    let mut line = |value: Value| {
        lines.push_str(&value.to_string());
        lines.push('\n');
    };
    match part {
        SearchPart::Hits(hits) => hits.iter().map(hit_json).for_each(line),
        SearchPart::End(summary) => line(json!({ "summary": summary_json(summary) })),
    }
    lines
}

fn hit_json(hit: &SearchHit) -> Value {
    json!({ "path": hit.path, "line": hit.line })
}

fn summary_json(summary: &SearchSummary) -> Value {
    let paths = |paths: &NamedPaths| json!({ "total": paths.total, "first": paths.first });
    let sentences = [summary.headline(), summary.reason()].into_iter();
    let sentences = sentences.filter(|text| !text.is_empty()).chain(summary.gaps());
    json!({
        "truncated": summary.is_truncated(),
        "ended_by": summary.end.name(),
        "nodes": summary.nodes,
        "compared": summary.compared,
        "bytes": summary.bytes,
        "not_searched": {
            "not_compared": paths(&summary.left),
            "not_listed": paths(&summary.unlisted),
            "partly_listed": paths(&summary.partly_listed),
            "redacted": paths(&summary.redacted),
            "unreadable": paths(&summary.unreadable),
            "compared_in_part": paths(&summary.cut),
        },
        "sentences": sentences.collect::<Vec<_>>(),
    })
}
