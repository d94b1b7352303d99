use std::borrow::Cow;

use clap::Args;
use serde_json::{Value, json};
use zk_curator_ops::history::{At, Difference, NodeRef};

use super::arguments::{self, FileArguments};
use super::replay::replay;
use super::show;
use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::stream::Document;
use crate::output::{CommandOutput, data};
use crate::path;

/// The arguments of `zkc history diff`.
#[derive(Debug, Args)]
pub(crate) struct HistoryDiff {
    #[command(flatten)]
    files: FileArguments,
    /// Root of the subtree, by its path on the servers
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// First moment: a transaction such as 0x100000012, a time in UTC such as
    /// 2026-11-30T14:02:00Z, or ago such as 10m
    #[arg(long, value_name = "MOMENT", value_parser = arguments::moment)]
    from: At,
    /// Second moment [default: the end of the logs]
    #[arg(long, value_name = "MOMENT", value_parser = arguments::moment)]
    to: Option<At>,
}

impl HistoryDiff {
    /// Prints a line for each node that differs or may differ. Exits with 1 if there is one, and
    /// with 8 if the files do not tell something.
    pub(super) fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let (before, first) = replay(app, &self.files, &self.path, self.from)?;
        let to = self.to.unwrap_or(At::Latest);
        let (after, second) = replay(app, &self.files, &self.path, to)?;
        let mut stream = app.out().list();
        let mut has_unknown = false;
        for difference in before.tree.diff(&after.tree, &self.path) {
            let row = document(&difference, app.global().verbose);
            has_unknown |= !row.unknown.is_empty();
            if !stream.print(&row)? {
                break;
            }
        }
        let differs = stream.count() > 0;
        stream.finish()?;
        Ok(match (differs, first, second) {
            (_, Exit::PARTLY, _) | (_, _, Exit::PARTLY) => Exit::PARTLY,
            _ if has_unknown => Exit::PARTLY,
            (true, _, _) => Exit::NO,
            (false, _, _) => Exit::DONE,
        }
        .into())
    }
}

/// A node that differs, as a document.
#[derive(Debug)]
struct DifferenceDocument<'t> {
    sign: &'static str,
    before: Option<NodeRef<'t>>,
    after: Option<NodeRef<'t>>,
    /// The parts of the node that differ.
    what: Vec<&'static str>,
    /// The parts of the node that may differ: the files do not tell them.
    unknown: Vec<&'static str>,
    with_data: bool,
}

fn document<'t>(difference: &Difference<'t>, with_data: bool) -> DifferenceDocument<'t> {
    let (mut what, mut unknown) = (Vec::new(), Vec::new());
    let (sign, before, after) = match difference {
        Difference::Added(node) => ("+", None, Some(*node)),
        Difference::Removed(node) => ("-", Some(*node), None),
        Difference::Changed { before, after, data, acl, recreated, .. } => {
            let parts = [("data", Some(*data)), ("acl", *acl), ("recreated", Some(*recreated))];
            for (name, differs) in parts {
                match differs {
                    Some(true) => what.push(name),
                    Some(false) => {}
                    None => unknown.push(name),
                }
            }
            (if what.is_empty() { "?" } else { "~" }, Some(*before), Some(*after))
        }
        _ => ("?", None, None),
    };
    DifferenceDocument { sign, before, after, what, unknown, with_data }
}

impl<'t> DifferenceDocument<'t> {
    fn path(&self) -> String {
        self.after.or(self.before).map(|node| node.path()).unwrap_or_default()
    }

    /// Returns the data before and after.
    fn data(&self) -> (Option<&'t [u8]>, Option<&'t [u8]>) {
        let data = |node: Option<NodeRef<'t>>| node.and_then(|node| node.data());
        (data(self.before), data(self.after))
    }
}

impl Document for DifferenceDocument<'_> {
    fn text(&self) -> Cow<'_, str> {
        let mut text = format!("{}  {}", self.sign, self.path());
        let unknown = self.unknown.iter().map(|name| format!("{name} unknown"));
        let parts = self.what.iter().map(|name| (*name).to_owned()).chain(unknown);
        let parts: Vec<_> = parts.collect();
        if !parts.is_empty() {
            text.push_str("  ");
            text.push_str(&parts.join(", "));
        }
        if self.with_data {
            let (before, after) = self.data();
            for line in show::data_lines(before, after) {
                text.push_str("\n    ");
                text.push_str(&line);
            }
        }
        text.into()
    }

    fn value(&self) -> Value {
        let mut value = json!({
            "change": self.sign,
            "path": self.path(),
            "what": self.what,
            "unknown": self.unknown,
        });
        if self.with_data {
            let (before, after) = self.data();
            value["before"] = json!(before.map(data::value));
            value["after"] = json!(after.map(data::value));
        }
        value
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        Some(self.path().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parts_are_told_apart() {
        let mut row = DifferenceDocument {
            sign: "~",
            before: None,
            after: None,
            what: vec!["data"],
            unknown: vec!["acl"],
            with_data: false,
        };
        assert_eq!(row.text(), "~    data, acl unknown");
        assert_eq!(row.value()["what"], json!(["data"]));
        assert_eq!(row.value()["unknown"], json!(["acl"]));
        (row.sign, row.what) = ("?", Vec::new());
        assert_eq!(row.text(), "?    acl unknown");
    }
}
