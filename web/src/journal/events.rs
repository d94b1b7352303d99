//! Changes as server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::response::sse::Event;
use futures_util::stream::Stream;
use serde_json::{Value, json};
use zk_curator_ops::data;

use super::book::RecordedChange;
use super::journals::{JournalView, SeenChanges};
use super::value::JournalValue;
use crate::live::{lasting, news_event};
use crate::security::StreamSeat;
use crate::show::{now_ms, when};

/// A client of a journal.
struct Reader {
    view: JournalView,
    /// Kept until the stream ends.
    _seat: StreamSeat,
    /// The number of the last change that was sent.
    sent: u64,
    /// The number of changes before those of this journal that are missing, at least.
    missed: u64,
    with_changes: bool,
    pending: VecDeque<Arc<RecordedChange>>,
}

/// Returns the news of a journal as events, and with `with_changes` the changes that the client has
/// not seen. A slow client gets the newest ones, and the number of dropped ones. Dropping the
/// stream ends the view and frees the seat.
pub(crate) fn events(
    view: JournalView,
    seat: StreamSeat,
    seen: SeenChanges,
    with_changes: bool,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    let (sent, missed) = (seen.last, u64::from(seen.are_of_another));
    let pending = VecDeque::new();
    let reader = Reader { view, _seat: seat, sent, missed, with_changes, pending };
    lasting(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((event, reader))
    })
}

impl Reader {
    async fn next(&mut self) -> Option<Event> {
        if let Some(change) = self.pending.pop_front() {
            let id = self.view.id_of(&change);
            return Some(Event::default().event("change").id(id).data(json_of(&change)));
        }
        let news = self.view.next().await?;
        let mut body = news.json();
        if self.with_changes {
            let (changes, dropped) = self.view.after(self.sent);
            self.sent = match changes.last() {
                Some(change) => change.number,
                None => self.sent.saturating_add(dropped),
            };
            self.pending = changes.into();
            let missed = std::mem::take(&mut self.missed);
            body["dropped"] = dropped.saturating_add(missed).into();
        }
        Some(news_event(&body))
    }
}

fn json_of(change: &RecordedChange) -> String {
    json!({
        "number": change.number,
        "change": change.kind.name(),
        "path": change.path,
        "old": value(&change.old),
        "new": value(&change.new),
        "version": change.version,
        // The time of arrival, by the clock of the explorer.
        "at": when(change.at, now_ms()).rfc3339,
    })
    .to_string()
}

/// Returns `null` for a node that does not exist or whose data are null, and otherwise an object.
fn value(value: &JournalValue) -> Value {
    match value {
        JournalValue::Absent | JournalValue::Data { is_null: true, .. } => Value::Null,
        JournalValue::Unknown => json!({ "hidden": "unknown" }),
        JournalValue::Hidden => json!({ "hidden": "redacted" }),
        JournalValue::Data { data: kept, length, .. } => {
            let mut shown = data::value(kept);
            shown["length"] = (*length).into();
            shown["cut"] = (kept.len() < *length).into();
            shown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_or_base64() {
        let text = JournalValue::of("ü".as_bytes(), false);
        assert_eq!(value(&text), json!({ "text": "ü", "length": 2, "cut": false }));
        let bytes = JournalValue::of(&[0xff], false);
        assert_eq!(value(&bytes), json!({ "base64": "/w==", "length": 1, "cut": false }));
        let long = JournalValue::of(&[b'x'; 20 << 10], false);
        assert_eq!(value(&long)["cut"], true);
        assert_eq!(value(&JournalValue::of(b"", true)), Value::Null);
        assert_eq!(value(&JournalValue::Absent), Value::Null);
        assert_eq!(value(&JournalValue::Hidden), json!({ "hidden": "redacted" }));
    }
}
