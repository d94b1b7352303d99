//! The differences of two subtrees in JSON.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use zk_curator::path::ZPath;

use super::node::json_response;
use crate::paths::UrlError;
use crate::problem::{Problem, RequestResult};
use crate::reads::{PAGE, next_of};
use crate::state::Web;
use crate::transfer::{CompareWith, DifferenceRow};
use crate::visit::Visit;

/// `GET /api/v1/diff?before=/a&after=/b`: the differences, a page at a time.
pub(crate) async fn diff(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = |name: &str| -> RequestResult<String> {
        let given = visit.query.get(name);
        let given = given.ok_or_else(|| Problem::usage(format!("The query has no {name}.")))?;
        Ok(ZPath::parse(given).map_err(UrlError::from)?.into())
    };
    let (before, after) = (path("before")?, path("after")?);
    let from = visit.query.number("from");
    let acls = visit.query.get("acls") != Some("false");
    let with = CompareWith::Path(after.clone());
    let compared = web.compared(&visit.viewer, &before, with, acls).await?;
    let total = compared.rows.len();
    let shown: Vec<Value> = compared.rows.iter().skip(from).take(PAGE).map(row).collect();
    let body = json!({
        "before": before,
        "after": after,
        "total": total,
        "from": from,
        "next": next_of(from, shown.len(), total),
        "differences": shown,
    });
    Ok(json_response(&body, None))
}

fn row(row: &DifferenceRow) -> Value {
    let change = match row.sign {
        '-' => "removed",
        '+' => "added",
        '~' => "changed",
        _ => "unknown",
    };
    json!({ "change": change, "path": row.path, "what": row.what })
}
