//! A node as it was.

use std::sync::Arc;

use askama::Template;
use axum::response::Response;
use zk_curator_ops::history::At;
use zk_curator_ops::node::hex;
use zk_curator_ops::text::rfc3339_millis;

use super::frame::{Frame, render};
use super::head::{Head, View};
use super::history_rows::{UndeleteForm, damaged_field, history_url, undelete_form};
use super::paging::{from_field, range};
use crate::api::past_json;
use crate::history::{PastNode, PastRead, PastValue, read_past, skips_damaged};
use crate::paths::{child_of, parent_of};
use crate::problem::RequestResult;
use crate::reads::{PAGE, next_of};
use crate::show::{AclLine, DataView, acl_lines, data_view, visible};
use crate::state::Web;
use crate::visit::{Format, Visit};

#[derive(Template)]
#[template(path = "past.html", whitespace = "minimize")]
struct PastPage {
    frame: Frame,
    head: Head,
    full_path: String,
    zxid: String,
    time: String,
    notes: Vec<String>,
    parent_url: String,
    exists: bool,
    /// The data, unless they are hidden.
    shown: Option<DataView>,
    hidden: &'static str,
    children: Vec<PastChild>,
    range: String,
    previous_url: String,
    next_url: String,
    facts: Vec<PastFact>,
    acl: Vec<AclLine>,
    undelete: Option<UndeleteForm>,
}

struct PastChild {
    name: String,
    url: String,
}

struct PastFact {
    name: &'static str,
    value: String,
}

/// Returns the node at a moment, as a page or in JSON.
pub(super) async fn past(web: &Web, visit: &Visit, path: &str, at: At) -> RequestResult<Response> {
    let source = Arc::clone(web.history()?);
    let skips_damaged = skips_damaged(&visit.query);
    let (view, wanted) = (web.past_view(), path.to_owned());
    let read = source.read(web.transfers_of(&visit.viewer), move |files, budget| {
        read_past(files, budget, &view, &wanted, (at, skips_damaged)).map_err(Into::into)
    });
    let read = read.await?;
    let from = visit.query.number("from");
    if visit.format == Format::Json {
        return Ok(past_json(path, &read, from));
    }
    let mut frame = Frame::new(web, Some(&visit.viewer), "").await;
    path.clone_into(&mut frame.path);
    Ok(render(&page(web, frame, path, &read, from, skips_damaged)))
}

fn page(
    web: &Web,
    frame: Frame,
    path: &str,
    read: &PastRead,
    from: usize,
    skips_damaged: bool,
) -> PastPage {
    let (zxid, damaged) = (hex(read.zxid), damaged_field(skips_damaged));
    // All links lead to this moment. An age, such as 10m, would be another moment later.
    let at = |path: &str, from: usize| {
        let from = from_field(from);
        let fields = [("at", &*zxid), ("damaged", damaged), ("from", &*from)];
        history_url(web, path, &fields)
    };
    let node = read.node.as_ref();
    let names = node.map(|node| &node.children[..]).unwrap_or_default();
    let child = |name: &String| PastChild {
        name: visible(name).into_owned(),
        url: at(&child_of(path, name), 0),
    };
    let children: Vec<_> = names.iter().skip(from).take(PAGE).map(child).collect();
    let (shown, hidden) = node.map(shown_value).unwrap_or_default();
    PastPage {
        frame,
        head: Head::of_view(web, path, View::History),
        full_path: visible(path).into_owned(),
        time: read.time_ms.map(rfc3339_millis).unwrap_or_default(),
        notes: read.notes.clone(),
        parent_url: parent_of(path).map(|parent| at(parent, 0)).unwrap_or_default(),
        exists: node.is_some(),
        shown,
        hidden,
        range: range(from, children.len(), names.len()),
        previous_url: match from {
            0 => String::new(),
            from => at(path, from.saturating_sub(PAGE)),
        },
        next_url: next_of(from, children.len(), names.len())
            .map(|from| at(path, from))
            .unwrap_or_default(),
        children,
        facts: node.map(facts).unwrap_or_default(),
        acl: node.and_then(|node| node.acl.as_deref()).map(acl_lines).unwrap_or_default(),
        undelete: node.and_then(|_| undelete_form(web, read.zxid, skips_damaged)),
        zxid,
    }
}

/// Returns the view of the data, or the reason why they are not shown.
fn shown_value(node: &PastNode) -> (Option<DataView>, &'static str) {
    match &node.value {
        PastValue::Data { data, is_null } => {
            let mut view = data_view(data, *is_null, false);
            if !view.cut.is_empty() {
                "Only the beginning of the data is shown.".clone_into(&mut view.cut);
            }
            (Some(view), "")
        }
        PastValue::Hidden(reason) => (None, reason.sentence()),
        PastValue::Absent | PastValue::NotRequested | PastValue::Unknown => {
            (None, "The files do not tell the data.")
        }
    }
}

fn facts(node: &PastNode) -> Vec<PastFact> {
    let stat = &node.stat;
    let fact = |name, value: String| PastFact { name, value };
    let mut facts = vec![fact("Kind", node.owner.kind().to_owned())];
    if stat.is_ephemeral() {
        facts.push(fact("Owner session", hex(stat.ephemeral_owner)));
    }
    facts.extend([
        fact("Size", format!("{} bytes", stat.data_length)),
        fact("Changed", rfc3339_millis(stat.mtime)),
        fact("Created", rfc3339_millis(stat.ctime)),
        fact("Data version", stat.version.to_string()),
        fact("Children version", stat.cversion.to_string()),
        fact("Rights version", stat.aversion.to_string()),
        fact("Created by zxid", hex(stat.czxid)),
        fact("Changed by zxid", hex(stat.mzxid)),
        fact("Children changed by zxid", hex(stat.pzxid)),
    ]);
    facts
}
