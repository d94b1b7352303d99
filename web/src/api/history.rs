//! The past in JSON.

use axum::response::Response;
use serde_json::{Value, json};
use zk_curator_ops::data::value;
use zk_curator_ops::history::{Author, Change, Deletion, EphemeralHistory, NodeState, RecipeNode};
use zk_curator_ops::node::hex;
use zk_curator_ops::text::rfc3339_millis;

use super::node::{acl_json, json_response, stat_json};
use crate::history::{
    HiddenReason, HistoryQuery, PastChange, PastNode, PastRead, PastValue, PastWho, ShownHistory,
};
use crate::reads::{PAGE, next_of};

/// Longer data are left out, in bytes.
const LONGEST: usize = 1 << 20;

/// Returns the changes, the newest first, and who made the last one.
pub(crate) fn history_json(path: &str, query: &HistoryQuery, shown: &ShownHistory) -> Response {
    let changes = shown.changes.iter().map(change_json);
    let body = json!({
        "path": path,
        "below": query.is_below,
        "changes": changes.collect::<Vec<_>>(),
        "who": shown.who.as_ref().map(who_json),
        "notes": shown.notes,
    });
    json_response(&body, None)
}

/// Returns a node as it was, with the names of its children from a place on.
pub(crate) fn past_json(path: &str, read: &PastRead, from: usize) -> Response {
    let names = read.node.as_ref().map(|node| &node.children[..]).unwrap_or_default();
    let shown: Vec<_> = names.iter().skip(from).take(PAGE).collect();
    let body = json!({
        "path": path,
        "zxid": hex(read.zxid),
        "time": read.time_ms.map(rfc3339_millis),
        "node": read.node.as_ref().map(node_json),
        "children": shown,
        "children_total": names.len(),
        "next": next_of(from, shown.len(), names.len()),
        "notes": read.notes,
    });
    json_response(&body, None)
}

fn node_json(node: &PastNode) -> Value {
    let (data, hidden) = data_json(&node.value);
    json!({
        "kind": node.owner.kind(),
        "stat": stat_json(&node.stat),
        "acl": node.acl.as_deref().map(acl_json),
        "data": data,
        "data_hidden": hidden,
    })
}

fn change_json(past: &PastChange) -> Value {
    let Change { before, after, .. } = &past.change;
    let mut value = plain_change(&past.change);
    value["before"] = json!(before.as_ref().map(|state| state_json(state, &past.before)));
    value["after"] = json!(after.as_ref().map(|state| state_json(state, &past.after)));
    value
}

/// Returns a change without the states of its node.
fn plain_change(change: &Change) -> Value {
    let mut value = change.value();
    value["details"] = json!(change.details());
    value
}

fn state_json(state: &NodeState, past: &PastValue) -> Value {
    let (data, hidden) = data_json(past);
    let mut value = state.value();
    value["data"] = data;
    value["data_hidden"] = json!(hidden);
    value
}

/// Returns data, or the reason why they are not there.
fn data_json(past: &PastValue) -> (Value, Option<&'static str>) {
    match past {
        PastValue::Data { is_null: true, .. } => (Value::Null, None),
        PastValue::Data { data, .. } if data.len() > LONGEST => (Value::Null, Some("too large")),
        PastValue::Data { data, .. } => (value(data), None),
        PastValue::Hidden(HiddenReason::Redacted) => (Value::Null, Some("redacted")),
        PastValue::Hidden(HiddenReason::Rights) => (Value::Null, Some("rights")),
        PastValue::Hidden(HiddenReason::UnknownRights) => (Value::Null, Some("unknown rights")),
        PastValue::NotRequested => (Value::Null, Some("not requested")),
        PastValue::Absent | PastValue::Unknown => (Value::Null, Some("unknown")),
    }
}

fn who_json(who: &PastWho) -> Value {
    let explanation = &who.explanation;
    let path = &who.change.path;
    json!({
        "verb": explanation.verb(),
        "by": explanation.by(),
        "causes": explanation.causes(),
        "run": explanation.deletion.as_ref().map(Deletion::value),
        "notes": explanation.notes(),
        "change": change_json(&who.change),
        "recipe": RecipeNode::of(path).map(RecipeNode::name),
        "deletions": explanation.deletions,
        "later_change": explanation.later.as_ref().map(plain_change),
        "author": explanation.author.as_ref().map(author_json),
    })
}

fn author_json(author: &Author) -> Value {
    let mut value = author.value();
    value["ephemerals"] = author.ephemerals.iter().map(EphemeralHistory::value).collect();
    value["nearby"] = author.nearby.iter().map(plain_change).collect();
    value
}
