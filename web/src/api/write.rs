//! Changes by the REST interface.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use zk_curator::{CreateMode, Stat};

use super::node::{etag, json_response, stat_json};
use super::precondition::{require_new, required_version};
use crate::body;
use crate::paths::url_of;
use crate::problem::{Problem, RequestResult};
use crate::security::ChangePermit;
use crate::state::{Web, read_only};
use crate::visit::Visit;

/// Returns the kind of node of a name. Ephemeral nodes are refused: they would belong to the
/// session of this program.
pub(crate) fn creatable(mode: &str) -> RequestResult<CreateMode> {
    match mode {
        "persistent" => Ok(CreateMode::Persistent),
        "persistent_sequential" => Ok(CreateMode::PersistentSequential),
        "container" => Ok(CreateMode::Container),
        _ => Err(Problem::usage(
            "The kind of the node has to be persistent, persistent_sequential or container.",
        )),
    }
}

/// `PUT /api/v1/node/…`: replaces the data by the body.
pub(crate) async fn put(
    State(web): State<Arc<Web>>,
    visit: Visit,
    headers: HeaderMap,
    body: Body,
) -> RequestResult<Response> {
    let (path, permit) = admitted(&web, &visit, &headers)?;
    let version = required_version(&headers)?;
    let data = body::read(body, &headers, web.max_body).await?;
    let stat = web.changes(&permit)?.set(&path, data, version).await?;
    Ok(changed(&path, &stat))
}

/// `POST /api/v1/node/…?mode=…`: creates the node, with the body as its data.
pub(crate) async fn post(
    State(web): State<Arc<Web>>,
    visit: Visit,
    headers: HeaderMap,
    body: Body,
) -> RequestResult<Response> {
    let (path, permit) = admitted(&web, &visit, &headers)?;
    require_new(&headers)?;
    let mode = creatable(visit.query.get("mode").unwrap_or("persistent"))?;
    let data = body::read(body, &headers, web.max_body).await?;
    let (path, stat) = web.changes(&permit)?.create(&path, data, mode).await?;
    let mut response = changed(&path, &stat);
    *response.status_mut() = StatusCode::CREATED;
    let location = format!("{}/api/v1/node{}", web.base, url_of(&path));
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `DELETE /api/v1/node/…`
pub(crate) async fn delete(
    State(web): State<Arc<Web>>,
    visit: Visit,
    headers: HeaderMap,
) -> RequestResult<Response> {
    let (path, permit) = admitted(&web, &visit, &headers)?;
    let version = required_version(&headers)?;
    web.changes(&permit)?.delete(&path, version).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn admitted(
    web: &Web,
    visit: &Visit,
    headers: &HeaderMap,
) -> RequestResult<(String, ChangePermit)> {
    if !web.write {
        return Err(read_only());
    }
    let permit = ChangePermit::of_request(&web.keys, &visit.viewer, headers, visit.origin)?;
    Ok((visit.node_below(&["/api/v1/node"])?, permit))
}

fn changed(path: &str, stat: &Stat) -> Response {
    let body = json!({ "path": path, "stat": stat_json(stat) });
    json_response(&body, Some(etag(stat.version)))
}
