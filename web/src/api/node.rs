//! A node in JSON, and its data as bytes.

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use zk_curator::{Acl, Stat};
use zk_curator_ops::data::value;

use crate::problem::{Problem, RequestResult};
use crate::reads::{DataRead, NodeRead};
use crate::show::{AclLine, acl_lines};

/// The media type of JSON.
pub(super) const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// Returns `true` if the client asks for the bytes of the data.
pub(crate) fn wants_raw(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.trim().eq_ignore_ascii_case(BYTES))
}

/// Returns the data as a download with a fixed name, so that no browser shows them.
pub(crate) fn raw_response(node: &NodeRead, is_redacted: bool) -> RequestResult<Response> {
    if is_redacted {
        return Err(Problem::hidden_data());
    }
    let data = match &node.data {
        DataRead::Read { data, .. } => data.clone(),
        DataRead::NoPermission => {
            let detail = "ZooKeeper does not permit this explorer to read the data.";
            return Err(Problem::forbidden("ZooKeeper refuses permission", detail));
        }
        DataRead::TooLarge => {
            return Err(Problem::usage("The data are larger than this explorer accepts."));
        }
    };
    let headers = [
        (header::CONTENT_TYPE, BYTES.to_owned()),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"node-data.bin\"".to_owned()),
        (header::ETAG, etag(node.stat.version)),
    ];
    Ok((headers, data).into_response())
}

/// Returns a node with its version as the tag. The data are `{"text":…}`, `{"base64":…}` or `null`.
pub(crate) fn node_json(path: &str, node: &NodeRead, is_redacted: bool) -> Response {
    let (data, hidden) = match &node.data {
        _ if is_redacted => (Value::Null, Some("redacted")),
        DataRead::Read { is_null: true, .. } => (Value::Null, None),
        DataRead::Read { data, .. } => (value(data), None),
        DataRead::NoPermission => (Value::Null, Some("no permission")),
        DataRead::TooLarge => (Value::Null, Some("too large")),
    };
    let body = json!({
        "path": path,
        "data": data,
        "data_hidden": hidden,
        "stat": stat_json(&node.stat),
        "acl": node.acl.as_deref().map(acl_json),
        "children": node.kinds.total,
    });
    json_response(&body, Some(etag(node.stat.version)))
}

/// The identities are those of the page: without hashes of passwords.
pub(super) fn acl_json(acl: &[Acl]) -> Value {
    let line = |(line, entry): (AclLine, &Acl)| json!({ "identity": line.identity, "permissions": entry.permissions.bits() });
    acl_lines(acl).into_iter().zip(acl).map(line).collect()
}

/// Returns the fields of a stat, with the names of ZooKeeper and ids in hexadecimal.
pub(super) fn stat_json(stat: &Stat) -> Value {
    json!({
        "czxid": format!("{:#x}", stat.czxid),
        "mzxid": format!("{:#x}", stat.mzxid),
        "pzxid": format!("{:#x}", stat.pzxid),
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": stat.is_ephemeral().then(|| format!("{:#x}", stat.ephemeral_owner)),
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    })
}

/// Returns the tag of a version.
pub(super) fn etag(version: i32) -> String {
    format!("\"{version}\"")
}

pub(super) fn json_response(body: &Value, tag: Option<String>) -> Response {
    let mut response = ([(header::CONTENT_TYPE, JSON)], body.to_string()).into_response();
    if let Some(tag) = tag.and_then(|tag| tag.parse().ok()) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_text_or_base64() {
        assert_eq!(value("ü".as_bytes()), json!({ "text": "ü" }));
        assert_eq!(value(&[0xff]), json!({ "base64": "/w==" }));
        assert_eq!(etag(-7), "\"-7\"");
    }
}
