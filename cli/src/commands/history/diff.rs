use clap::Args;
use serde_json::json;
use zk_curator_ops::history::{At, Difference, NodeRef};

use super::arguments::{self, FileArguments};
use super::replay::replay;
use super::show;
use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::stream::StreamItem;
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
    /// Prints a line for each node that differs. Exits with 1 if there is one.
    pub(super) fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let (before, first) = replay(app, &self.files, &self.path, self.from)?;
        let to = self.to.unwrap_or(At::Latest);
        let (after, second) = replay(app, &self.files, &self.path, to)?;
        let mut stream = app.out().list();
        for difference in before.tree.diff(&after.tree, &self.path) {
            if !stream.print(&item(&difference, app.global().verbose))? {
                break;
            }
        }
        let differs = stream.count() > 0;
        stream.finish()?;
        Ok(match (differs, first, second) {
            (_, Exit::PARTLY, _) | (_, _, Exit::PARTLY) => Exit::PARTLY,
            (true, _, _) => Exit::NO,
            (false, _, _) => Exit::DONE,
        }
        .into())
    }
}

fn item(difference: &Difference<'_>, with_data: bool) -> StreamItem {
    let (sign, before, after, what) = match difference {
        Difference::Added(node) => ("+", None, Some(node), Vec::new()),
        Difference::Removed(node) => ("-", Some(node), None, Vec::new()),
        Difference::Changed { before, after, data, acl, recreated, .. } => {
            let what = [("data", *data), ("acl", *acl), ("recreated", *recreated)];
            let what = what.into_iter().filter(|(_, differs)| *differs);
            ("~", Some(before), Some(after), what.map(|(name, _)| name).collect())
        }
        _ => ("?", None, None, Vec::new()),
    };
    let path = after.or(before).map(NodeRef::path).unwrap_or_default();
    let mut text = format!("{sign}  {path}");
    if !what.is_empty() {
        text.push_str("  ");
        text.push_str(&what.join(", "));
    }
    let mut value = json!({ "change": sign, "path": path, "what": what });
    if with_data {
        let (before, after) = (before.and_then(NodeRef::data), after.and_then(NodeRef::data));
        for line in show::data_lines(before, after) {
            text.push_str("\n    ");
            text.push_str(&line);
        }
        value["before"] = json!(before.map(data::value));
        value["after"] = json!(after.map(data::value));
    }
    StreamItem { text, value, name: Some(path) }
}
