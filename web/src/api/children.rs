//! A page of children in JSON.

use axum::response::Response;
use serde_json::{Value, json};

use super::node::{json_response, stat_json};
use crate::reads::{Listing, ListingQuery, Row};

/// Returns a page of children. `next` is the value of `from` for the next page, or `null`.
pub(crate) fn children_json(path: &str, query: &ListingQuery, listing: &Listing) -> Response {
    let child = |row: &Row| {
        json!({
            "name": row.name,
            "kind": row.kind.name(),
            "stat": row.stat.as_ref().map(stat_json),
        })
    };
    let children: Vec<Value> = listing.rows.iter().map(child).collect();
    let body = json!({
        "path": path,
        "total": listing.total,
        "matching": listing.matching,
        "sorted_by": if listing.is_sorted { query.sort.name() } else { "name" },
        "from": query.from,
        "next": listing.next,
        "children": children,
    });
    json_response(&body, None)
}
