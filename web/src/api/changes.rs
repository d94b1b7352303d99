//! The changes below a path, as server-sent events.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::watch::event_stream;
use crate::journal::{NoJournal, events};
use crate::problem::{Problem, RequestResult};
use crate::state::Web;
use crate::visit::Visit;

/// `GET /api/v1/changes/…`: the news of the journal, and the changes after those that the client
/// names, or from now on. With `news=only` there are no changes: a page loads itself again.
pub(crate) async fn changes(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/api/v1/changes"])?;
    let seat = web.streams.take(&visit.viewer.counted_as).ok_or_else(full)?;
    let view = web.journals.view(&path).map_err(|NoJournal| full())?;
    // After a lost connection, a browser names the last event that it has got.
    let last = visit.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = visit.query.get("after").and_then(|number| number.parse().ok());
    let seen = last.map_or_else(|| view.seen_by_number(after), |id| view.seen_by_id(id));
    let with_changes = visit.query.get("news") != Some("only");
    Ok(event_stream(events(view, seat, seen, with_changes)))
}

fn full() -> Problem {
    let detail = "Too many paths are followed, or too many pages are live. Try again later.";
    Problem::no_place("No changes", detail)
}
