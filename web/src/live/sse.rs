//! News as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::Event;
use futures_util::stream::{Stream, unfold};
use serde_json::{Value, json};
use tokio::time::Instant;
use zk_curator::internal::sleep_until;

use super::hub::Viewing;
use crate::ensemble::EnsembleViewing;
use crate::security::StreamSeat;

/// The time after which a stream ends. The client opens another one, for which the session of the
/// user is checked again.
const LASTING: Duration = Duration::from_secs(600);

/// Returns the events that `next` makes of a state, until it returns `None`, or for 10 minutes.
/// Dropping the stream drops the state.
pub(crate) fn lasting<S, F>(
    state: S,
    mut next: impl FnMut(S) -> F + Send + 'static,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static
where
    S: Send + 'static,
    F: Future<Output = Option<(Event, S)>> + Send + 'static,
{
    let ends = Instant::now() + LASTING;
    unfold(state, move |state| {
        let step = next(state);
        async move {
            tokio::select! {
                step = step => step.map(|(event, state)| (Ok(event), state)),
                () = sleep_until(ends) => None,
            }
        }
    })
}

/// Returns the event for news.
pub(crate) fn news_event(news: &Value) -> Event {
    Event::default().event("news").data(news.to_string())
}

/// Returns the news of a path as events, each with the newest state. Dropping the stream ends the
/// view and frees the seat.
pub(crate) fn events(
    viewing: Viewing,
    seat: StreamSeat,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    lasting((viewing, seat), |(mut viewing, seat)| async move {
        let news = viewing.next().await?;
        Some((news_event(&news.json()), (viewing, seat)))
    })
}

/// Returns an event for each sample of the ensemble, as for a path that is always fresh. Dropping
/// the stream ends the view and frees the seat.
pub(crate) fn ensemble_events(
    viewing: EnsembleViewing,
    seat: StreamSeat,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    lasting((viewing, seat), |(mut viewing, seat)| async move {
        let generation = viewing.next().await?;
        let news = json!({ "generation": generation, "state": "fresh", "stale_ms": null });
        Some((news_event(&news), (viewing, seat)))
    })
}
