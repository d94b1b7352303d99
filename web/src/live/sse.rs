//! News as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::Event;
use futures_util::stream::{Stream, unfold};
use serde_json::json;
use tokio::time::Instant;
use zk_curator::internal::sleep_until;

use super::hub::Viewing;
use crate::ensemble::EnsembleViewing;
use crate::security::StreamSeat;

/// The time after which a stream ends. The browser opens another one, for which the session of the
/// user is checked again.
const LASTING: Duration = Duration::from_secs(600);

/// Returns the news of a path as events, each with the newest state. Dropping the stream ends the
/// view and frees the seat.
pub(crate) fn events(
    viewing: Viewing,
    seat: StreamSeat,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    let ends = Instant::now() + LASTING;
    unfold((viewing, seat), move |(mut viewing, seat)| async move {
        let news = tokio::select! {
            news = viewing.next() => news?,
            () = sleep_until(ends) => return None,
        };
        let event = Event::default().event("news").data(news.json().to_string());
        Some((Ok(event), (viewing, seat)))
    })
}

/// Returns an event for each sample of the ensemble, as for a path that is always fresh. Dropping
/// the stream ends the view and frees the seat.
pub(crate) fn ensemble_events(
    viewing: EnsembleViewing,
    seat: StreamSeat,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    let ends = Instant::now() + LASTING;
    unfold((viewing, seat), move |(mut viewing, seat)| async move {
        let generation = tokio::select! {
            generation = viewing.next() => generation?,
            () = sleep_until(ends) => return None,
        };
        let news = json!({ "generation": generation, "state": "fresh", "stale_ms": null });
        let event = Event::default().event("news").data(news.to_string());
        Some((Ok(event), (viewing, seat)))
    })
}
