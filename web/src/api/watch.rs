//! The news of a path, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::Stream;

use crate::live::{NoRoom, Scope, events};
use crate::problem::{Problem, RequestResult};
use crate::state::Web;
use crate::visit::Visit;

/// The time between two signs of life of a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// `GET /api/v1/watch/…`
pub(crate) async fn watch(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/api/v1/watch"])?;
    let scope = visit.query.get("scope").map_or(Some(Scope::Node), Scope::of);
    let scope =
        scope.ok_or_else(|| Problem::usage("The scope has to be node, recipe or subtree."))?;
    let seat = web.streams.take(&visit.viewer.counted_as).ok_or_else(full)?;
    let viewing = web.hub.view(&path, scope).map_err(|NoRoom| full())?;
    Ok(event_stream(events(viewing, seat)))
}

/// Returns the response with these events.
pub(super) fn event_stream(
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

pub(super) fn full() -> Problem {
    let detail = "Too many pages are live. This page shows the state in which it was loaded.";
    Problem::no_place("No live page", detail)
}
