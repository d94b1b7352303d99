//! The changes below a node since its page was opened.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::frame::{Frame, render};
use super::head::{Head, View, address};
use crate::journal::{
    ChangeKind, JournalPage, JournalValue, MOST_CHANGES, MOST_KNOWN, MOST_VALUE, NoJournal,
    RecordedChange,
};
use crate::live::Freshness;
use crate::paths::url_of;
use crate::problem::{Problem, RequestResult};
use crate::show::{SideRow, grouped, now_ms, sides, size_of, value_lines, visible, when};
use crate::state::Web;
use crate::visit::Visit;

/// The maximum number of changes on a page.
const SHOWN: usize = 50;

#[derive(Template)]
#[template(path = "changes.html", whitespace = "minimize")]
struct ChangesPage {
    frame: Frame,
    head: Head,
    full_path: String,
    summary: String,
    began: String,
    began_at: String,
    began_datetime: String,
    notices: Vec<String>,
    changes: Vec<ChangeView>,
    empty: &'static str,
    older: String,
    all_url: String,
    hide_url: String,
    limits: String,
}

struct ChangeView {
    number: u64,
    kind: &'static str,
    sign: char,
    path: String,
    url: String,
    ago: String,
    absolute: String,
    datetime: String,
    version: String,
    note: &'static str,
    rows: Vec<SideRow>,
}

/// `GET /changes/…`: the changes after the number in `after`, the newest first.
pub(crate) async fn journal(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/changes"])?;
    let after: u64 = visit.query.number("after");
    let view = web.journals.view(&path).map_err(|NoJournal| full())?;
    let state = view.page(after);
    // Without a connection, the page still shows the record.
    let stat = web.zk.exists(&path).await.ok().flatten();
    let children = stat.map(|stat| grouped(stat.num_children)).unwrap_or_default();
    let page_url = address(&web, View::Changes, &path);
    let mut frame = Frame::new(&web, Some(&visit.viewer), "").await;
    path.clone_into(&mut frame.path);
    if web.live {
        frame.live = format!("{}/api/v1/changes{}?news=only", web.base, url_of(&path));
    }
    let now = now_ms();
    let began = when(state.began, now);
    let counts = state.counts;
    let total = state.changes.len();
    let page = ChangesPage {
        frame,
        head: Head { children, ..Head::of_view(&web, &path, View::Changes) },
        full_path: visible(&path).into_owned(),
        summary: format!(
            "{} created, {} changed and {} deleted",
            grouped(counts.created),
            grouped(counts.changed),
            grouped(counts.deleted)
        ),
        began: began.ago,
        began_at: began.absolute,
        began_datetime: began.rfc3339,
        notices: notices(&state, total),
        changes: state.changes.iter().take(SHOWN).map(|one| change_view(&web, one, now)).collect(),
        empty: match (state.news.freshness, after) {
            (Freshness::Starting, _) => "The nodes are being read for the first time.",
            (_, 0) => "Nothing has changed yet.",
            _ => "Nothing has changed since.",
        },
        older: older(total),
        hide_url: format!("{page_url}?after={}", state.last),
        all_url: if after == 0 { String::new() } else { page_url },
        limits: format!(
            "The newest {MOST_CHANGES} changes are kept, and the first {} of a value. The old \
             value of a node is known for up to {} nodes.",
            size_of(MOST_VALUE),
            grouped(MOST_KNOWN)
        ),
    };
    Ok(render(&page))
}

fn notices(state: &JournalPage, kept: usize) -> Vec<String> {
    let mut notices = Vec::new();
    match state.news.freshness {
        Freshness::Stale { .. } => notices.push(
            "The connection to ZooKeeper is lost. Changes are found when it is back, with the time \
             at which they were found."
                .to_owned(),
        ),
        Freshness::Unsupported => notices.push(
            "The servers do not report changes below a node: they are older than 3.6, or do not \
             permit it."
                .to_owned(),
        ),
        Freshness::Starting | Freshness::Fresh => {}
    }
    if state.is_partial {
        notices.push(
            "Some of the nodes were not read: they are too many or too large, or ZooKeeper does not \
             permit it. Changes of these may be missing, and their old values are unknown."
                .to_owned(),
        );
    }
    if state.dropped > 0 {
        let dropped = grouped(state.dropped);
        notices.push(format!("{dropped} older changes were dropped: the newest {kept} are kept."));
    }
    notices
}

fn older(total: usize) -> String {
    match total.saturating_sub(SHOWN) {
        0 => String::new(),
        older => format!("{older} older changes are not shown here. The REST interface has them."),
    }
}

fn change_view(web: &Web, change: &RecordedChange, now: i64) -> ChangeView {
    let at = when(change.at, now);
    let is_there = !matches!(change.kind, ChangeKind::Deleted | ChangeKind::Passed);
    let (rows, note) = compared(&change.old, &change.new);
    ChangeView {
        number: change.number,
        kind: change.kind.name(),
        sign: match change.kind {
            ChangeKind::Created => '+',
            ChangeKind::Deleted => '−',
            ChangeKind::Changed => '~',
            ChangeKind::Replaced | ChangeKind::Passed => '±',
        },
        path: visible(&change.path).into_owned(),
        url: if is_there { address(web, View::Node, &change.path) } else { String::new() },
        ago: at.ago,
        absolute: at.absolute,
        datetime: at.rfc3339,
        version: change.version.map(|version| format!("version {version}")).unwrap_or_default(),
        note,
        rows,
    }
}

/// Returns two values side by side, or the reason why there is nothing to show.
fn compared(old: &JournalValue, new: &JournalValue) -> (Vec<SideRow>, &'static str) {
    let note = match (old, new) {
        (JournalValue::Hidden, _) | (_, JournalValue::Hidden) => {
            return (Vec::new(), "The data are hidden: the settings treat them as a secret.");
        }
        (JournalValue::Unknown, JournalValue::Absent) => {
            return (Vec::new(), "The deleted value is unknown: it was not read before.");
        }
        (_, JournalValue::Unknown) => "The new value is unknown: it cannot be read.",
        (JournalValue::Unknown, _) => "The old value is unknown: it was not read before.",
        (old, new) if is_cut(old) || is_cut(new) => {
            "Only the beginnings of the values are compared."
        }
        (JournalValue::Data { is_null: true, .. }, JournalValue::Data { is_null: false, .. }) => {
            "The old value was null."
        }
        (JournalValue::Data { is_null: false, .. }, JournalValue::Data { is_null: true, .. }) => {
            "The new value is null."
        }
        (old, new) if old == new && *old != JournalValue::Absent => "The values are equal.",
        _ => "",
    };
    (sides(&lines(old), &lines(new)), note)
}

fn is_cut(value: &JournalValue) -> bool {
    matches!(value, JournalValue::Data { data, length, .. } if data.len() < *length)
}

fn lines(value: &JournalValue) -> Vec<String> {
    match value {
        JournalValue::Data { data, .. } => value_lines(data, !is_cut(value)),
        JournalValue::Absent | JournalValue::Unknown | JournalValue::Hidden => Vec::new(),
    }
}

fn full() -> Problem {
    let detail = "The changes of too many paths are recorded. Try again when other users have \
                  closed their pages.";
    Problem::no_place("No place for a record", detail)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn data(text: &'static str) -> JournalValue {
        let (data, length) = (Bytes::from_static(text.as_bytes()), text.len());
        JournalValue::Data { data, length, is_null: false }
    }

    #[test]
    fn unknown_values_are_named() {
        let note = |old: &JournalValue, new: &JournalValue| compared(old, new).1;
        let (unknown, absent) = (JournalValue::Unknown, JournalValue::Absent);
        assert!(note(&unknown, &data("x")).contains("old value is unknown"));
        assert!(note(&data("x"), &unknown).contains("new value is unknown"));
        assert!(note(&unknown, &absent).contains("deleted value is unknown"));
        assert!(note(&data("x"), &data("x")).contains("equal"));
        assert_eq!(note(&data("x"), &absent), "");
        let (rows, note) = compared(&data("secret"), &JournalValue::Hidden);
        assert!(rows.is_empty() && note.contains("hidden"));
    }
}
