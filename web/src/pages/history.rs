//! The changes of a node in the logs of a server, and who made the last one.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use zk_curator_ops::data;
use zk_curator_ops::history::{Author, EphemeralHistory};

use super::frame::{Frame, HISTORY, render};
use super::head::{Head, View};
use super::history_past::past;
use super::history_rows::{
    ChangeList, ChangeRow, ComparedValues, UndeleteForm, change_row, compared, damaged_field,
    history_url, undelete_form,
};
use crate::api::history_json;
use crate::history::{HistoryQuery, PastChange, PastWho, ShownHistory, moment_of, read_history};
use crate::problem::RequestResult;
use crate::show::{grouped, now_ms, size, size_of, visible, when};
use crate::state::Web;
use crate::visit::{Format, Visit};

/// The maximum numbers of ephemeral nodes and of other changes of an author on a page.
const SHOWN: usize = 10;
/// The maximum number of characters of the data of an ephemeral node.
const LABEL: usize = 60;

#[derive(Template)]
#[template(path = "history.html", whitespace = "minimize")]
struct HistoryPage {
    frame: Frame,
    head: Head,
    full_path: String,
    notes: Vec<String>,
    who: Option<WhoView>,
    /// A sentence in place of the explanation.
    no_who: &'static str,
    compared: Vec<ComparedValues>,
    list: ChangeList,
    since: String,
    until: String,
    is_below: bool,
    damaged: &'static str,
    rights: &'static str,
    limits: String,
}

struct WhoView {
    facts: Vec<WhoFact>,
    value: Option<ComparedValues>,
    ephemerals: Vec<EphemeralRow>,
    more_ephemerals: String,
    nearby: Option<ChangeList>,
    more_nearby: String,
    undelete: Option<UndeleteForm>,
}

struct WhoFact {
    name: &'static str,
    lines: Vec<String>,
}

struct EphemeralRow {
    path: String,
    url: String,
    label: String,
    deleted: String,
}

/// `GET /history/…` and `GET /api/v1/history/…`. With the field `at`, the node as it was.
pub(crate) async fn history(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/history", "/api/v1/history"])?;
    let source = Arc::clone(web.history()?);
    if let Some(at) = moment_of(&visit.query)? {
        return past(&web, &visit, &path, at).await;
    }
    let query = HistoryQuery::of(&visit.query, &path, web.zk.server_path(&path))?;
    let wanted = query.clone();
    let read = source.read(web.transfers_of(&visit.viewer), move |files, budget| {
        read_history(files, budget, &wanted).map_err(Into::into)
    });
    let with_data = query.change.is_some();
    let shown = ShownHistory::of(read.await?, &web.past_view(), with_data);
    if visit.format == Format::Json {
        return Ok(history_json(&path, &query, &shown));
    }
    Ok(render(&page(&web, &visit, &path, &query, &shown).await))
}

async fn page(
    web: &Web,
    visit: &Visit,
    path: &str,
    query: &HistoryQuery,
    shown: &ShownHistory,
) -> HistoryPage {
    // Without a connection, the page still shows the past.
    let stat = web.zk.exists(path).await.ok().flatten();
    let children = stat.map(|stat| grouped(stat.num_children)).unwrap_or_default();
    let current = if path == "/" { HISTORY } else { "" };
    let mut frame = Frame::new(web, Some(&visit.viewer), current).await;
    path.clone_into(&mut frame.path);
    let (now, damaged) = (now_ms(), damaged_field(query.skips_damaged));
    let given = |name: &str| visit.query.get(name).unwrap_or_default().to_owned();
    let row = |change: &PastChange| change_row(web, &change.change, damaged, now);
    HistoryPage {
        frame,
        head: Head { children, ..Head::of_view(web, path, View::History) },
        full_path: visible(path).into_owned(),
        notes: shown.notes.clone(),
        who: shown.who.as_ref().map(|who| who_view(web, who, query, now)),
        no_who: if shown.has_no_change { "The logs contain no change of this node." } else { "" },
        compared: match query.change {
            Some(_) => shown.changes.iter().map(compared).collect(),
            None => Vec::new(),
        },
        list: ChangeList {
            label: "Changes, the newest first",
            has_paths: query.is_below,
            rows: shown.changes.iter().map(row).collect(),
        },
        since: given("since"),
        until: given("until"),
        is_below: query.is_below,
        damaged,
        rights: match web.past_view().shows_all() {
            true => "The operator lets all users see the values of the past.",
            false => "A value is shown if the rights of that time let everyone read it.",
        },
        limits: limits(web),
    }
}

fn limits(web: &Web) -> String {
    let Ok(source) = web.history() else { return String::new() };
    let limits = source.limits();
    format!(
        "A page reads at most {} in {} s, with {} of memory.",
        size(limits.bytes),
        limits.time.as_secs(),
        size_of(limits.memory)
    )
}

fn who_view(web: &Web, who: &PastWho, query: &HistoryQuery, now: i64) -> WhoView {
    let explanation = &who.explanation;
    let change = &explanation.change;
    let mut facts = vec![
        fact("Change", [explanation.verb().to_owned()]),
        fact("When", [format!("{} ({})", change.at, when(change.at.time_ms, now).ago)]),
        fact("By", [explanation.by()]),
        fact("Cause", explanation.causes()),
        fact("Run", explanation.run()),
        fact("Note", explanation.notes()),
    ];
    let author = explanation.author.as_ref();
    if let Some(author) = author {
        facts.push(fact("Session", author.session_facts()));
        facts.push(fact("Client", author.client()));
    }
    facts.retain(|fact| !fact.lines.is_empty());
    let damaged = damaged_field(query.skips_damaged);
    let row = |change| change_row(web, change, damaged, now);
    let nearby: Vec<ChangeRow> =
        author.into_iter().flat_map(|author| author.others(change)).take(SHOWN).map(row).collect();
    let before = explanation.deletion.as_ref().map(|deletion| deletion.first.zxid - 1);
    WhoView {
        facts,
        // A page of the same change shows its values below.
        value: (query.change != Some(change.at.zxid)).then(|| compared(&who.change)),
        ephemerals: author.map(|author| ephemerals(web, author)).unwrap_or_default(),
        more_ephemerals: more(author.map_or(0, |author| author.ephemeral_count), SHOWN),
        more_nearby: more(author.map_or(0, |author| author.others_count(change)), nearby.len()),
        nearby: (!nearby.is_empty()).then_some(ChangeList {
            label: "Other changes of the session",
            has_paths: true,
            rows: nearby,
        }),
        undelete: before.and_then(|zxid| undelete_form(web, zxid, query.skips_damaged)),
    }
}

fn fact(name: &'static str, lines: impl IntoIterator<Item = String>) -> WhoFact {
    let lines = lines.into_iter().map(|line| visible(&line).into_owned()).collect();
    WhoFact { name, lines }
}

fn ephemerals(web: &Web, author: &Author) -> Vec<EphemeralRow> {
    let row = |node: &EphemeralHistory| EphemeralRow {
        path: visible(&node.path).into_owned(),
        url: history_url(web, &node.path, &[]),
        label: node.data.as_deref().map(label).unwrap_or_default(),
        deleted: node.deleted.map(|at| at.to_string()).unwrap_or_default(),
    };
    author.ephemerals.iter().take(SHOWN).map(row).collect()
}

fn label(bytes: &[u8]) -> String {
    visible(&data::line(bytes, LABEL)).into_owned()
}

fn more(total: u64, shown: usize) -> String {
    match total.saturating_sub(u64::try_from(shown).unwrap_or(u64::MAX)) {
        0 => String::new(),
        more => format!("and {} more", grouped(more)),
    }
}
