use clap::Args;
use serde_json::{Value, json};
use zk_curator_ops::history::{
    At, Author, Change, Deletion, EphemeralHistory, Explanation, Index, RecipeNode,
};

use super::arguments::{self, FileArguments};
use super::show;
use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport, data, printable, shell_word, time};
use crate::path;

/// The most ephemeral nodes and changes that are shown without --all.
const SHOWN: usize = 10;
/// The most characters of the data of an ephemeral node.
const LABEL: usize = 60;

/// The arguments of `zkc history who`.
#[derive(Debug, Args)]
pub(crate) struct HistoryWho {
    #[command(flatten)]
    files: FileArguments,
    /// Node, by its path on the servers: with the chroot and the namespace
    #[arg(value_parser = path::parse)]
    path: String,
    /// Explain the last change up to this moment: a transaction such as 0x100000012, a time in UTC
    /// such as 2026-11-30T14:02:00Z, or ago such as 10m [default: the last deletion, or else the
    /// last change]
    #[arg(long, value_name = "MOMENT", value_parser = arguments::moment)]
    at: Option<At>,
    /// Also list the other changes of the session within this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    within: u32,
    /// Show all of its ephemeral nodes and changes
    #[arg(short, long)]
    all: bool,
}

impl HistoryWho {
    /// Prints the author of a change, the cause, and the other changes of the author.
    pub(super) fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let found = self.files.read(|files| {
            let index = Index::new(files).skip_damaged(self.files.skip_damaged).with_data(true);
            index.explain(&self.path, self.at, self.within.saturating_mul(1000))
        })?;
        let is_partial = show::name_missing(app, &found.gaps, &found.skipped);
        let Some(explained) = found.explanation else {
            let text = format!("the logs contain no change of {}", printable(&self.path));
            return Err(CommandFailure::new(Exit::NO_NODE, text)
                .hint("zkc history check tells how far back they go"));
        };
        let change = &explained.change;
        let exit = if is_partial { Exit::PARTLY } else { Exit::DONE };
        let mut lines = self.headlines(&explained);
        if let Some(author) = &explained.author {
            lines.extend(session_lines(author));
            lines.extend(self.ephemeral_lines(author));
            lines.extend(self.nearby_lines(author, change));
        }
        lines.extend(titled("NEXT", &self.next(&explained)));
        let value = self.value(&explained);
        let report = TextReport::new(lines.join("\n"), value);
        let report = report.names([change.requested_by()]);
        Ok(CommandOutput::from(report).with_exit(exit))
    }

    fn headlines(&self, explained: &Explanation) -> Vec<String> {
        let change = &explained.change;
        let verb = explained.verb();
        let mut lines = vec![format!("{}   {verb}", printable(&self.path)), String::new()];
        let ago = time::duration(time::since(change.at.time_ms, time::now_ms()));
        lines.push(format!("{:<9} {}  ({ago} ago)", "WHEN", change.at));
        lines.push(format!("{:<9} {}", "BY", explained.by()));
        lines.extend(titled("CAUSE", &explained.causes()));
        lines.extend(titled("RUN", &explained.run()));
        lines.extend(titled("DATA", &show::data_lines(before(change), after(change))));
        lines.extend(explained.notes().iter().map(|note| format!("{:<9} {note}", "NOTE")));
        lines
    }

    fn ephemeral_lines(&self, author: &Author) -> Vec<String> {
        let shown = self.shown();
        let mut lines: Vec<_> = author.ephemerals.iter().take(shown).map(ephemeral_line).collect();
        let count = usize::try_from(author.ephemeral_count).unwrap_or(usize::MAX);
        let hidden = count.saturating_sub(lines.len());
        if hidden > 0 {
            lines.push(format!("and {hidden} more"));
        }
        titled("EPHEMERAL", &lines)
    }

    fn nearby_lines(&self, author: &Author, change: &Change) -> Vec<String> {
        let others = author.others(change).take(self.shown());
        let mut lines: Vec<_> = others.map(Change::line).collect();
        let count = usize::try_from(author.others_count(change)).unwrap_or(usize::MAX);
        let hidden = count.saturating_sub(lines.len());
        if hidden > 0 {
            lines.push(format!("and {hidden} more within {} s", self.within));
        }
        titled("ALSO", &lines)
    }

    const fn shown(&self) -> usize {
        if self.all { usize::MAX } else { SHOWN }
    }

    /// Returns the commands that may help.
    fn next(&self, explained: &Explanation) -> Vec<String> {
        let (files, path) = (self.files.words(), printable(&self.path));
        let path = shell_word(&path);
        let mut next = Vec::new();
        if explained.deletion.is_some() {
            next.push(format!("zkc history undelete {files} {path}  (shows what comes back)"));
        }
        let change = &explained.change;
        if change.session.get() != 0 {
            let session = change.session;
            next.push(format!("zkc history log {files} --session {session}  (all of its changes)"));
        }
        next
    }

    fn value(&self, explained: &Explanation) -> Value {
        let Explanation { change, deletion, later, deletions, author, .. } = explained;
        json!({
            "path": self.path,
            "change": show::value(change, true),
            "recipe": RecipeNode::of(&self.path).map(RecipeNode::name),
            "clean_up_of_recipe": change.is_clean_up_of_recipe(),
            "run": deletion.as_ref().map(Deletion::value),
            "deletions": deletions,
            "later_change": later.as_ref().map(|later| show::value(later, true)),
            "author": author.as_ref().map(author_value),
        })
    }
}

fn before(change: &Change) -> Option<&[u8]> {
    change.before.as_ref().and_then(|state| state.data.as_deref())
}

fn after(change: &Change) -> Option<&[u8]> {
    change.after.as_ref().and_then(|state| state.data.as_deref())
}

fn session_lines(author: &Author) -> Vec<String> {
    let mut lines = titled("SESSION", &author.session_facts());
    lines.extend(author.client().map(|client| format!("{:<9} {client}", "CLIENT")));
    lines
}

fn ephemeral_line(node: &EphemeralHistory) -> String {
    let bytes = node.data.as_deref().unwrap_or_default();
    let deleted = node.deleted.map(|at| format!("  deleted {}", time::exact(at.time_ms)));
    let (path, label) = (printable(&node.path), data::line(bytes, LABEL));
    format!("{path}  {label}{}", deleted.unwrap_or_default()).trim_end().to_owned()
}

fn author_value(author: &Author) -> Value {
    let mut value = author.value();
    let ephemerals = author.ephemerals.iter().map(|node| {
        let mut value = node.value();
        value["data"] = json!(node.data.as_deref().map(data::value));
        value
    });
    value["ephemerals"] = ephemerals.collect();
    value["nearby"] = author.nearby.iter().map(|change| show::value(change, false)).collect();
    value
}

/// Returns lines with a title before the first one.
fn titled(title: &str, lines: &[String]) -> Vec<String> {
    let title_of = |place| if place == 0 { title } else { "" };
    lines.iter().enumerate().map(|(place, line)| format!("{:<9} {line}", title_of(place))).collect()
}
