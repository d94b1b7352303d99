//! Changes of the past as rows, and their values side by side.

use bytes::Bytes;
use zk_curator_ops::history::{Change, Operation};
use zk_curator_ops::node::hex;

use super::head::{View, address};
use super::restore::{ChoiceView, choice_views};
use crate::fields::{Fields, query};
use crate::history::{PastChange, PastValue};
use crate::journal::MOST_VALUE;
use crate::show::{SideRow, sides, value_lines, visible, when};
use crate::state::Web;
use crate::transfer::{ROOT, RestoreChoice};

/// A list of changes.
#[derive(Debug)]
pub(super) struct ChangeList {
    pub(super) label: &'static str,
    /// `true` if the changes are of several nodes.
    pub(super) has_paths: bool,
    pub(super) rows: Vec<ChangeRow>,
}

#[derive(Debug)]
pub(super) struct ChangeRow {
    pub(super) ago: String,
    pub(super) absolute: String,
    pub(super) datetime: String,
    pub(super) zxid: String,
    /// The address of the node after the transaction; empty for sessions.
    pub(super) past_url: String,
    pub(super) by: String,
    pub(super) operation: &'static str,
    /// The address of the values; empty without values.
    pub(super) values_url: String,
    pub(super) path: String,
    pub(super) url: String,
    pub(super) details: String,
}

/// The values before and after a change.
#[derive(Debug)]
pub(super) struct ComparedValues {
    pub(super) title: String,
    pub(super) note: &'static str,
    pub(super) rows: Vec<SideRow>,
}

/// The form that plans the restore of a moment.
#[derive(Debug)]
pub(super) struct UndeleteForm {
    pub(super) at: String,
    pub(super) damaged: &'static str,
    pub(super) choices: Vec<ChoiceView>,
}

/// Returns the field with which a page leaves out damaged parts of files.
pub(super) const fn damaged_field(skips_damaged: bool) -> &'static str {
    if skips_damaged { "skip" } else { "" }
}

/// Returns the address of a page of the past.
pub(super) fn history_url(web: &Web, path: &str, fields: &[(&str, &str)]) -> String {
    format!("{}{}", address(web, View::History, path), query(fields))
}

/// Returns the row of a change, whose path is one of this explorer.
pub(super) fn change_row(web: &Web, change: &Change, damaged: &str, now: i64) -> ChangeRow {
    let at = when(change.at.time_ms, now);
    let zxid = hex(change.at.zxid);
    let url = |fields: &[(&str, &str)]| {
        let path = change.path.as_deref();
        path.map(|path| history_url(web, path, fields)).unwrap_or_default()
    };
    let has_values = matches!(
        change.operation,
        Operation::Create | Operation::Delete | Operation::SetData | Operation::Reconfig
    );
    ChangeRow {
        ago: at.ago,
        absolute: at.absolute,
        datetime: at.rfc3339,
        past_url: url(&[("at", &*zxid), ("damaged", damaged)]),
        by: change.requested_by(),
        operation: change.operation.name(),
        values_url: if has_values {
            url(&[("change", &*zxid), ("damaged", damaged)])
        } else {
            String::new()
        },
        path: visible(change.path.as_deref().unwrap_or_default()).into_owned(),
        url: url(&[("damaged", damaged)]),
        details: change.details().join(", "),
        zxid,
    }
}

/// Returns the values of a change side by side, or the reason why there is nothing to show.
pub(super) fn compared(change: &PastChange) -> ComparedValues {
    let title = format!("{} in {}", change.change.operation, hex(change.change.at.zxid));
    let (old, new) = (&change.before, &change.after);
    let (note, is_shown) = match (old, new) {
        (PastValue::Hidden(reason), _) | (_, PastValue::Hidden(reason)) => {
            (reason.sentence(), false)
        }
        (PastValue::Unknown, _) => ("The old value is unknown: the files do not tell it.", true),
        (_, PastValue::Unknown) => ("The new value is unknown: the files do not tell it.", true),
        (old, new) if is_cut(old) || is_cut(new) => {
            ("Only the beginnings of the values are compared.", true)
        }
        (PastValue::Data { is_null: true, .. }, PastValue::Data { is_null: false, .. }) => {
            ("The old value was null.", true)
        }
        (PastValue::Data { is_null: false, .. }, PastValue::Data { is_null: true, .. }) => {
            ("The new value is null.", true)
        }
        (PastValue::Data { .. }, PastValue::Data { .. }) if old == new => {
            ("The values are equal.", true)
        }
        _ => ("", true),
    };
    let rows = if is_shown { sides(&lines(old), &lines(new)) } else { Vec::new() };
    ComparedValues { title, note, rows }
}

fn is_cut(value: &PastValue) -> bool {
    matches!(value, PastValue::Data { data, .. } if data.len() > MOST_VALUE)
}

fn lines(value: &PastValue) -> Vec<String> {
    match value {
        PastValue::Data { data, .. } => {
            let shown: Bytes = data.slice(..data.len().min(MOST_VALUE));
            value_lines(&shown, !is_cut(value))
        }
        _ => Vec::new(),
    }
}

/// Returns the form for the moment after a transaction; `None` in a read-only explorer. The place
/// is the node of the page: the paths of the files are those on the servers.
pub(super) fn undelete_form(web: &Web, zxid: i64, skips_damaged: bool) -> Option<UndeleteForm> {
    web.write.then(|| {
        let mut choices = choice_views(RestoreChoice::of(&Fields::default()));
        choices.retain(|choice| choice.name != ROOT.name);
        UndeleteForm { at: hex(zxid), damaged: damaged_field(skips_damaged), choices }
    })
}
