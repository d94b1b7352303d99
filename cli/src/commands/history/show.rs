//! Changes and states as commands show them.

use std::borrow::Cow;

use serde_json::{Value, json};
use zk_curator_ops::history::{Change, Gap, NodeState, Operation, Skipped};

use crate::app::App;
use crate::merge;
use crate::node::hex;
use crate::output::data;
use crate::output::stream::Document;

/// A change as a document.
#[derive(Debug)]
pub(super) struct ChangeDocument<'a> {
    change: &'a Change,
    with_data: bool,
}

/// Returns a change as a document.
pub(super) const fn document(change: &Change, with_data: bool) -> ChangeDocument<'_> {
    ChangeDocument { change, with_data }
}

impl Document for ChangeDocument<'_> {
    fn text(&self) -> Cow<'_, str> {
        let mut text = self.change.line();
        if self.with_data {
            for line in changed_data(self.change) {
                text.push_str("\n    ");
                text.push_str(&line);
            }
        }
        text.into()
    }

    fn value(&self) -> Value {
        value(self.change, self.with_data)
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        self.change.path.as_deref().map(Cow::from)
    }
}

/// Returns the lines of the data that differ.
fn changed_data(change: &Change) -> Vec<String> {
    let of = |state: &Option<NodeState>| state.as_ref().and_then(|state| state.data.clone());
    match change.operation {
        Operation::Create | Operation::Delete | Operation::SetData | Operation::Reconfig => {
            data_lines(of(&change.before).as_deref(), of(&change.after).as_deref())
        }
        _ => Vec::new(),
    }
}

/// Returns the lines of data that differ: JSON with indentation, unchanged text, and everything else as
/// a dump.
pub(super) fn data_lines(before: Option<&[u8]>, after: Option<&[u8]>) -> Vec<String> {
    let (before, after) = (shown(before), shown(after));
    let lines = merge::changed_lines(&before, &after);
    lines.into_iter().map(|(sign, line)| format!("{sign} {line}")).collect()
}

fn shown(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return String::new() };
    let plain = data::plain(bytes);
    let json = serde_json::from_slice::<Value>(&plain).ok().filter(|json| !json.is_number());
    let pretty = json.and_then(|json| serde_json::to_string_pretty(&json).ok());
    pretty.unwrap_or_else(|| data::show(&plain))
}

/// Returns a change and the states of its node for programs.
pub(super) fn value(change: &Change, with_data: bool) -> Value {
    let state = |state: &Option<NodeState>| state.as_ref().map(|one| state_value(one, with_data));
    let mut value = change.value();
    value["before"] = json!(state(&change.before));
    value["after"] = json!(state(&change.after));
    value
}

fn state_value(state: &NodeState, with_data: bool) -> Value {
    let mut value = state.value();
    if with_data {
        value["data"] = json!(state.data.as_deref().map(data::value));
    }
    value
}

/// Names missing transactions and damaged ranges on stderr. Returns `true` if there are any.
pub(super) fn name_missing<'a>(
    app: &App,
    gaps: &[Gap],
    skipped: impl IntoIterator<Item = &'a Skipped>,
) -> bool {
    for gap in gaps {
        app.out().warn(format!("transactions are missing after {}: {gap}", hex(gap.after)));
    }
    let mut is_partial = !gaps.is_empty();
    for Skipped { path, offset, length, damage, .. } in skipped {
        let path = path.display();
        if *length == 0 {
            app.out().say(format!("note: passed over {path}: {damage}"));
        } else {
            let range = format!("skipped {length} bytes at byte {offset} of {path}");
            app.out().warn(format!("{range}: {damage}"));
            is_partial = true;
        }
    }
    is_partial
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_compared_as_people_read_them() {
        let json = data_lines(Some(br#"{"a":1,"b":2}"#), Some(br#"{"a":1,"b":3}"#));
        assert_eq!(json, [r#"-   "b": 2"#, r#"+   "b": 3"#]);
        assert_eq!(data_lines(Some(b"5"), None), ["- 5"]);
        assert_eq!(data_lines(None, Some(b"a\nb")), ["+ a", "+ b"]);
        assert!(data_lines(Some(b"x"), Some(b"x")).is_empty());
        let dump = data_lines(Some(&[0]), Some(&[1]));
        assert!(dump[0].starts_with("- 00000000  00"), "{dump:?}");
    }
}
