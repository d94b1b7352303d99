//! The completion of paths.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use zk_curator::ErrorKind;
use zk_curator::path::ZPath;

use super::node::json_response;
use crate::paths::{UrlError, child_of};
use crate::problem::RequestResult;
use crate::reads::names_from;
use crate::state::Web;
use crate::visit::Visit;

/// The maximum number of completions.
const MOST: usize = 50;

/// `GET /api/v1/names?path=/a/b`: the paths of the children of `/a` whose names begin with `b`.
pub(crate) async fn names(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let text = visit.query.get("path").unwrap_or("/");
    let (parent, beginning) = text.rsplit_once('/').unwrap_or(("", text));
    let parent = ZPath::parse(if parent.is_empty() { "/" } else { parent });
    let parent = parent.map_err(UrlError::from)?;
    let names = match names_from(&web.zk, parent.as_str(), beginning, MOST).await {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let paths: Vec<_> = names.iter().map(|name| child_of(parent.as_str(), name)).collect();
    Ok(json_response(&json!({ "paths": paths }), None))
}
