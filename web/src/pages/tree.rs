//! The children of a node.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{Redirect, Response};
use zk_curator::path::ZPath;

use super::done::done_sentence;
use super::frame::{Frame, render};
use super::head::{Head, View, address};
use super::paging::{from_field, range};
use crate::api::children_json;
use crate::fields::{Fields, query};
use crate::paths::{UrlError, child_of, url_of};
use crate::problem::RequestResult;
use crate::reads::{Listing, ListingQuery, PAGE, Row, SORTABLE, Sort};
use crate::show::{grouped, is_sequential, now_ms, size, visible, when};
use crate::state::Web;
use crate::visit::{Format, Visit};

/// The maximum length of a filter in characters.
const LONGEST_FILTER: usize = 256;

#[derive(Template)]
#[template(path = "tree.html", whitespace = "minimize")]
struct TreePage {
    frame: Frame,
    head: Head,
    filter: String,
    orders: Vec<Order>,
    summary: String,
    notice: String,
    empty: &'static str,
    rows: Vec<RowView>,
    range: String,
    has_pages: bool,
    first_url: String,
    previous_url: String,
    next_url: String,
    last_url: String,
}

struct Order {
    value: &'static str,
    label: &'static str,
    is_selected: bool,
}

struct RowView {
    url: String,
    name: String,
    twig: &'static str,
    icon: &'static str,
    kind: &'static str,
    is_sequential: bool,
    ago: String,
    absolute: String,
    datetime: String,
    size: String,
    children: String,
    version: String,
}

/// `GET /`
pub(crate) async fn root(State(web): State<Arc<Web>>) -> Redirect {
    Redirect::to(&format!("{}/tree", web.base))
}

/// `GET /go?path=…`: the path bar without script.
pub(crate) async fn go(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Redirect> {
    let path = visit.query.get("path").unwrap_or_default();
    let path = match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    let path = ZPath::parse(path).map_err(UrlError::from)?;
    Ok(Redirect::to(&address(&web, View::Tree, path.as_str())))
}

/// `GET /tree/…` and `GET /api/v1/children/…`
pub(crate) async fn tree(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/tree", "/api/v1/children"])?;
    let query = query_of(&visit.query);
    let listing = web.children(&path, &query).await?;
    if visit.format == Format::Json {
        return Ok(children_json(&path, &query, &listing));
    }
    let frame = Frame::new(&web, Some(&visit.viewer), "/tree").await;
    let mut frame = frame.of_node(&web, &path, &url_of(&path));
    frame.done = done_sentence(&web, &visit, View::Tree, &path, &listing.stat);
    Ok(render(&page(&web, frame, &path, &query, &listing)))
}

fn query_of(fields: &Fields) -> ListingQuery {
    let filter = fields.get("filter").unwrap_or_default();
    ListingQuery {
        filter: filter.chars().take(LONGEST_FILTER).collect(),
        sort: Sort::of(fields.get("sort").unwrap_or_default()),
        from: fields.number("from"),
    }
}

fn page(web: &Web, frame: Frame, path: &str, query: &ListingQuery, listing: &Listing) -> TreePage {
    let head = Head::new(web, path, i64::from(listing.stat.num_children), true);
    let at = |from: usize| page_url(&head.tree_url, query, from);
    let previous = query.from.saturating_sub(PAGE);
    let is_first = query.from == 0;
    let now = now_ms();
    TreePage {
        filter: query.filter.clone(),
        orders: Sort::ALL.into_iter().map(|sort| order(sort, query.sort)).collect(),
        summary: summary(query, listing),
        notice: notice(listing),
        empty: if query.filter.is_empty() && is_first {
            "The node has no children."
        } else {
            "No child matches, or there are fewer children than this page expects."
        },
        rows: listing.rows.iter().map(|row| row_view(web, path, row, now)).collect(),
        range: range(query.from, listing.rows.len(), listing.matching),
        has_pages: !is_first || listing.next.is_some(),
        first_url: if is_first { String::new() } else { at(0) },
        previous_url: if is_first { String::new() } else { at(previous) },
        next_url: listing.next.map(at).unwrap_or_default(),
        last_url: listing.next.map(|_| at(last_from(listing.matching))).unwrap_or_default(),
        head,
        frame,
    }
}

/// Returns the number of children before the last page. Long names may end that page early.
const fn last_from(matching: usize) -> usize {
    matching.saturating_sub(1) / PAGE * PAGE
}

fn page_url(tree: &str, of: &ListingQuery, from: usize) -> String {
    let sort = if of.sort == Sort::Name { "" } else { of.sort.name() };
    let from = from_field(from);
    format!("{tree}{}", query(&[("filter", &of.filter), ("sort", sort), ("from", &from)]))
}

fn order(sort: Sort, selected: Sort) -> Order {
    let label = match sort {
        Sort::Name => "name",
        Sort::Sequence => "sequence number",
        Sort::Time => "last change",
        Sort::Size => "size",
        Sort::Children => "number of children",
    };
    Order { value: sort.name(), label, is_selected: sort == selected }
}

fn summary(query: &ListingQuery, listing: &Listing) -> String {
    let children = match listing.total {
        0 => "No children".to_owned(),
        1 => "1 child".to_owned(),
        total => format!("{} children", grouped(total)),
    };
    if query.filter.is_empty() {
        return format!("{children}.");
    }
    format!("{children}, {} of which match the filter.", grouped(listing.matching))
}

fn notice(listing: &Listing) -> String {
    if listing.is_sorted {
        return String::new();
    }
    format!(
        "Sorted by name. Another order needs the stat of each child, and is available for at most \
         {} children. A filter reduces their number.",
        grouped(SORTABLE)
    )
}

fn row_view(web: &Web, parent: &str, row: &Row, now: i64) -> RowView {
    let url = address(web, View::Tree, &child_of(parent, &row.name));
    let dash = || "–".to_owned();
    let changed = row.stat.map(|stat| when(stat.mtime, now));
    let children = row.stat.map(|stat| stat.num_children);
    RowView {
        url,
        name: visible(&row.name).into_owned(),
        twig: if children.is_some_and(|children| children > 0) { "▸" } else { "·" },
        icon: row.kind.icon(),
        kind: row.kind.name(),
        is_sequential: is_sequential(&row.name),
        ago: changed.as_ref().map_or_else(dash, |changed| changed.ago.clone()),
        absolute: changed.as_ref().map(|changed| changed.absolute.clone()).unwrap_or_default(),
        datetime: changed.map(|changed| changed.rfc3339).unwrap_or_default(),
        size: row
            .stat
            .map_or_else(dash, |stat| size(u64::try_from(stat.data_length).unwrap_or_default())),
        children: children.map_or_else(dash, grouped),
        version: row.stat.map_or_else(dash, |stat| stat.version.to_string()),
    }
}
