//! Searches below a node.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use tracing::error;
use zk_curator::internal::sleep;

use super::frame::{Frame, render};
use super::head::{View, address};
use crate::api::{SearchQuery, search_json, search_lines, wants_lines};
use crate::paths::url_of;
use crate::problem::{Problem, RequestResult};
use crate::search::{
    LONGEST_LINE, LONGEST_PATTERN, MOST_OPENED, SearchHit, SearchIn, SearchPart, SearchPattern,
    SearchSummary, SearchWalk, search_parts,
};
use crate::security::StreamSeat;
use crate::show::{size, size_of, visible, visible_data};
use crate::state::Web;
use crate::visit::{Format, Visit};

/// The places of the results and of their summary in the page. No text of a user contains a tag.
const HITS: &str = "<!--hits-->";
const SUMMARY: &str = "<!--summary-->";
/// The attempts to begin a search while an earlier one of the same user ends, and their pause.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Template)]
#[template(path = "search.html", whitespace = "minimize")]
struct SearchPage {
    frame: Frame,
    root: String,
    tree_url: String,
    action: String,
    /// The address for the script.
    lines_url: String,
    longest: usize,
    pattern: String,
    parts: Vec<PartOption>,
    hint: String,
    is_running: bool,
}

struct PartOption {
    value: &'static str,
    label: &'static str,
    is_selected: bool,
}

#[derive(Template)]
#[template(path = "search_hits.html", whitespace = "minimize")]
struct HitRows {
    hits: Vec<HitRow>,
}

struct HitRow {
    url: String,
    path: String,
    line: String,
}

#[derive(Template)]
#[template(path = "search_end.html", whitespace = "minimize")]
struct SearchEnded {
    headline: String,
    reason: String,
    gaps: Vec<String>,
}

/// `GET /search/…` and `GET /api/v1/search/…`
pub(crate) async fn search(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let root = visit.node_below(&["/search", "/api/v1/search"])?;
    let query = SearchQuery::of(&visit.query)?;
    let is_page = visit.format == Format::Html;
    if is_page && query.pattern.is_empty() {
        return Ok(render(&page(&web, &visit, &root, &query, false).await));
    }
    let pattern = SearchPattern::new(query.part, &query.pattern);
    let pattern =
        pattern.map_err(|why| Problem::usage(format!("The search is refused: {why}.")))?;
    let seat = seat(&web, &visit).await?;
    let (zk, redaction) = (web.zk.clone(), web.redaction.clone());
    let pattern = (query.part, pattern);
    let mut walk = SearchWalk::new(zk, redaction, pattern, &root, web.search_limits);
    // A root that cannot be read is a problem, and not a result.
    let first = walk.step().await?.unwrap_or_default();
    let parts = search_parts(&web.zk, walk, seat, first);
    if !is_page && wants_lines(&visit.headers) {
        return Ok(search_lines(parts));
    }
    if !is_page {
        return search_json(&root, &query, parts).await;
    }
    let page = page(&web, &visit, &root, &query, true).await;
    Ok(match page.render() {
        Ok(text) => grown(&web, &text, parts),
        Err(_) => render(&page),
    })
}

/// Takes the place of a search. An earlier search of the same browser, whose page was left, may
/// need a moment to end.
async fn seat(web: &Web, visit: &Visit) -> RequestResult<StreamSeat> {
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            sleep(PAUSE).await;
        }
        if let Some(seat) = web.searches.take(&visit.viewer.counted_as) {
            return Ok(seat);
        }
    }
    let detail = "A user runs one search at a time, and this explorer a few of them. Try again \
                  when another search has ended.";
    Err(Problem::too_many(detail, 1))
}

async fn page(
    web: &Web,
    visit: &Visit,
    root: &str,
    query: &SearchQuery,
    is_running: bool,
) -> SearchPage {
    let url = url_of(root);
    let base = &web.base;
    SearchPage {
        frame: Frame::new(web, Some(&visit.viewer), "/search").await,
        root: visible(root).into_owned(),
        tree_url: address(web, View::Tree, root),
        action: format!("{base}/search{url}"),
        lines_url: format!("{base}/api/v1/search{url}"),
        longest: LONGEST_PATTERN,
        pattern: query.pattern.clone(),
        parts: SearchIn::ALL.into_iter().map(|part| part_option(part, query.part)).collect(),
        hint: hint(web),
        is_running,
    }
}

fn part_option(part: SearchIn, selected: SearchIn) -> PartOption {
    let label = match part {
        SearchIn::Name => "names: a part, or a pattern such as lock-*",
        SearchIn::Path => "paths: a regular expression",
        SearchIn::Text => "data: a part of a line",
        SearchIn::Regex => "data: a regular expression for a line",
    };
    PartOption { value: part.name(), label, is_selected: part == selected }
}

fn hint(web: &Web) -> String {
    let limits = web.search_limits;
    format!(
        "Upper and lower case differ; (?i) at the beginning of an expression ignores that. Gzip is \
         searched as plain data. A search ends after {} results, {} nodes, {} of data or {} s, and \
         says what it has not searched. It compares at most {} of decompressed content and {} of a \
         line.",
        limits.hits,
        limits.nodes,
        size(limits.bytes),
        limits.time.as_secs(),
        size_of(MOST_OPENED),
        size_of(LONGEST_LINE)
    )
}

/// Returns a page that grows while the search runs. It works without script, and the search ends
/// with the connection.
fn grown(
    web: &Web,
    page: &str,
    parts: impl Stream<Item = SearchPart> + Send + 'static,
) -> Response {
    let (head, rest) = page.split_once(HITS).unwrap_or((page, ""));
    let (between, tail) = rest.split_once(SUMMARY).unwrap_or((rest, ""));
    let base = web.base.clone();
    let (between, tail) = (between.to_owned(), tail.to_owned());
    let results = parts.map(move |part| match part {
        SearchPart::Hits(hits) => rows(&base, &hits),
        SearchPart::End(summary) => format!("{between}{}{tail}", ended(&summary)),
    });
    let first = head.to_owned();
    let texts = stream::once(async move { first }).chain(results);
    let body = Body::from_stream(texts.map(|text| Ok::<_, Infallible>(Bytes::from(text))));
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], body).into_response()
}

fn rows(base: &str, hits: &[SearchHit]) -> String {
    let row = |hit: &SearchHit| HitRow {
        url: format!("{base}/node{}", url_of(&hit.path)),
        path: visible(&hit.path).into_owned(),
        line: hit.line.as_deref().map(|line| visible_data(line).into_owned()).unwrap_or_default(),
    };
    text_of(&HitRows { hits: hits.iter().map(row).collect() })
}

fn ended(summary: &SearchSummary) -> String {
    text_of(&SearchEnded {
        headline: summary.headline(),
        reason: summary.reason(),
        gaps: summary.gaps(),
    })
}

/// Renders a part of a page.
fn text_of(part: &impl Template) -> String {
    part.render().unwrap_or_else(|why| {
        error!(%why, "a part of a page of the web explorer cannot be rendered");
        String::new()
    })
}
