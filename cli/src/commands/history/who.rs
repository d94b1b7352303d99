use clap::Args;
use serde_json::{Value, json};
use zk_curator_ops::history::{
    self, At, Author, Change, Deletion, DeletionCause, EphemeralHistory, Fate, Files, Gap, Index,
    RecipeNode, Skipped,
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

/// The result of reading the files.
struct FoundChange {
    explained: Option<Explained>,
    /// `None` if the leader requested the change.
    author: Option<Author>,
    gaps: Vec<Gap>,
    skipped: Vec<Skipped>,
}

/// The change to explain.
struct Explained {
    change: Change,
    deletion: Option<Deletion>,
    /// The later change of the node, if it was deleted before and exists again.
    again: Option<Change>,
    /// The number of its deletions in the logs.
    deletions: u64,
}

impl HistoryWho {
    /// Prints the author of a change, the cause, and the other changes of the author.
    pub(super) fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let found = self.files.read(|files| self.find(files))?;
        let is_partial = show::name_missing(app, &found.gaps, &found.skipped);
        let Some(explained) = found.explained else {
            let text = format!("the logs contain no change of {}", printable(&self.path));
            return Err(CommandFailure::new(Exit::NO_NODE, text)
                .hint("zkc history check tells how far back they go"));
        };
        let (change, author) = (&explained.change, found.author);
        let exit = if is_partial { Exit::PARTLY } else { Exit::DONE };
        let mut lines = self.headlines(&explained);
        if let Some(author) = &author {
            lines.extend(session_lines(author));
            lines.extend(self.ephemeral_lines(author));
            lines.extend(self.nearby_lines(author, change));
        }
        lines.extend(titled("NEXT", &self.next(&explained)));
        let value = self.value(&explained, author.as_ref());
        let report = TextReport::new(lines.join("\n"), value);
        let report = report.names([show::author(change.session)]);
        Ok(CommandOutput::from(report).with_exit(exit))
    }

    /// Finds the change, and its author.
    fn find(&self, files: &Files) -> history::Result<FoundChange> {
        let index = Index::new(files).skip_damaged(self.files.skip_damaged).with_data(true);
        let selected = match self.at {
            Some(At::Zxid(zxid)) => index.clone().zxids(i64::MIN..=zxid),
            Some(At::Time(time)) => index.clone().until_ms(time),
            _ => index.clone(),
        };
        let mut fate = selected.fate(&self.path)?;
        let (gaps, skipped) = (std::mem::take(&mut fate.gaps), std::mem::take(&mut fate.skipped));
        let explained = self.explain(fate);
        let change = explained.as_ref().map(|explained| &explained.change);
        let author = match change.filter(|change| change.session.get() != 0) {
            Some(change) => {
                let within = self.within.saturating_mul(1000);
                Some(index.author(change.session, change.at, within)?)
            }
            None => None,
        };
        Ok(FoundChange { explained, author, gaps, skipped })
    }

    /// Chooses the change to explain.
    fn explain(&self, mut fate: Fate) -> Option<Explained> {
        let (last, deletions) = (fate.last?, fate.deletion_count);
        Some(match fate.deletions.pop() {
            Some(deletion) if last.deletion.is_some() => {
                Explained { change: last, deletion: Some(deletion), again: None, deletions }
            }
            Some(deletion) if self.at.is_none() => {
                let change = deletion.change.clone();
                Explained { change, deletion: Some(deletion), again: Some(last), deletions }
            }
            _ => Explained { change: last, deletion: None, again: None, deletions },
        })
    }

    fn headlines(&self, explained: &Explained) -> Vec<String> {
        let Explained { change, deletion, again, deletions } = explained;
        let verb = if deletion.is_some() { "deleted" } else { change.operation.name() };
        let mut lines = vec![format!("{}   {verb}", printable(&self.path)), String::new()];
        let ago = time::duration(time::since(change.at.time_ms, time::now_ms()));
        lines.push(format!("{:<9} {}  ({ago} ago)", "WHEN", show::moment(change.at)));
        let by = match (change.session.get(), change.deletion) {
            (0, _) => "the leader".to_owned(),
            (_, Some(DeletionCause::SessionEnd(_))) => {
                format!("the end of session {}", change.session)
            }
            _ => format!("session {}, request {}", change.session, change.cxid),
        };
        lines.push(format!("{:<9} {by}", "BY"));
        lines.extend(titled("CAUSE", &causes(explained)));
        if let Some(deletion) = deletion.as_ref().filter(|deletion| deletion.nodes > 1) {
            lines.extend(titled("RUN", &run(deletion)));
        }
        lines.extend(titled("DATA", &show::data_lines(before(change), after(change))));
        if let Some(again) = again {
            let again = show::line(again);
            lines.push(format!("{:<9} a later change: {again}", "NOTE"));
        }
        if deletion.is_some() && *deletions > 1 {
            let text = format!("the logs contain {deletions} deletions of it; this is the last");
            lines.push(format!("{:<9} {text}", "NOTE"));
        }
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
        let others = author.nearby.iter().filter(|other| !is_same(other, change));
        let mut lines: Vec<_> = others.take(self.shown()).map(show::line).collect();
        let count = usize::try_from(author.nearby_count).unwrap_or(usize::MAX);
        let hidden = count.saturating_sub(lines.len() + 1);
        if hidden > 0 {
            lines.push(format!("and {hidden} more within {} s", self.within));
        }
        titled("ALSO", &lines)
    }

    const fn shown(&self) -> usize {
        if self.all { usize::MAX } else { SHOWN }
    }

    /// Returns the commands that may help.
    fn next(&self, explained: &Explained) -> Vec<String> {
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

    fn value(&self, explained: &Explained, author: Option<&Author>) -> Value {
        let Explained { change, deletion, again, deletions } = explained;
        json!({
            "path": self.path,
            "change": show::value(change, true),
            "recipe": RecipeNode::of(&self.path).map(RecipeNode::name),
            "clean_up_of_recipe": change.is_clean_up_of_recipe(),
            "run": deletion.as_ref().map(|deletion| json!({
                "first": show::moment_value(deletion.first),
                "nodes": deletion.nodes,
                "other_changes": deletion.other_changes,
            })),
            "deletions": deletions,
            "later_change": again.as_ref().map(|again| show::value(again, true)),
            "author": author.map(author_value),
        })
    }
}

/// Returns the reasons of a change.
fn causes(explained: &Explained) -> Vec<String> {
    let change = &explained.change;
    let mut causes: Vec<String> = change.deletion.iter().map(DeletionCause::to_string).collect();
    if let Some(place) = change.multi {
        let (part, count) = (place.index + 1, place.count);
        causes.push(format!("it was part {part} of {count} of a transaction"));
    }
    let recipe = change.path.as_deref().and_then(RecipeNode::of);
    if let Some(recipe) = recipe.filter(|_| change.is_clean_up_of_recipe()) {
        causes.push(format!("its session deleted its own node of a {recipe}: a usual clean-up"));
    }
    causes
}

fn run(deletion: &Deletion) -> Vec<String> {
    let (first, last) = (deletion.first, deletion.change.at);
    let took = time::duration(time::since(first.time_ms, last.time_ms));
    let nodes = deletion.nodes;
    let mut lines =
        vec![format!("it deleted {nodes} nodes in {took}, from {} on", show::moment(first))];
    if deletion.other_changes > 0 {
        lines.push(format!(
            "{} changes of other sessions in between; `undelete` does not contain them",
            deletion.other_changes
        ));
    }
    lines
}

fn before(change: &Change) -> Option<&[u8]> {
    change.before.as_ref().and_then(|state| state.data.as_deref())
}

fn after(change: &Change) -> Option<&[u8]> {
    change.after.as_ref().and_then(|state| state.data.as_deref())
}

fn is_same(one: &Change, other: &Change) -> bool {
    let key = |change: &Change| (change.at.zxid, change.operation, change.path.clone());
    key(one) == key(other)
}

fn session_lines(author: &Author) -> Vec<String> {
    let session = &author.session;
    let begun = session.begun.map_or_else(
        || "it began before the logs".to_owned(),
        |at| format!("it began {}", show::moment(at)),
    );
    let ended = session.ended.map_or_else(
        || "it did not end within the logs".to_owned(),
        |(at, end)| format!("it ended {}: {end}", show::moment(at)),
    );
    let timeout = session.timeout_ms.map(|ms| format!("timeout {}, ", show::duration(ms)));
    let count = session.transactions;
    let requests = format!("{}{count} requests in the logs", timeout.unwrap_or_default());
    let mut lines = titled("SESSION", &[begun, ended, requests]);
    let identity = author.identity();
    let mut client: Vec<_> = [identity.label, identity.address].into_iter().flatten().collect();
    // Some clients write only their address.
    client.dedup();
    if !client.is_empty() {
        let client = client.join("  ");
        lines.extend(titled("CLIENT", &[format!("{client}  (from its ephemeral nodes)")]));
    }
    lines
}

fn ephemeral_line(node: &EphemeralHistory) -> String {
    let bytes = node.data.as_deref().unwrap_or_default();
    let deleted = node.deleted.map(|at| format!("  deleted {}", time::exact(at.time_ms)));
    let (path, label) = (printable(&node.path), data::line(bytes, LABEL));
    format!("{path}  {label}{}", deleted.unwrap_or_default()).trim_end().to_owned()
}

fn author_value(author: &Author) -> Value {
    let (session, identity) = (&author.session, author.identity());
    let ephemerals = author.ephemerals.iter().map(|node| {
        json!({
            "path": node.path,
            "data": node.data.as_deref().map(data::value),
            "label": node.identity().label,
            "address": node.identity().address,
            "created": node.created.map(show::moment_value),
            "deleted": node.deleted.map(show::moment_value),
        })
    });
    let nearby = author.nearby.iter().map(|change| show::value(change, false));
    json!({
        "session": session.id.to_string(),
        "timeout_ms": session.timeout_ms,
        "begun": session.begun.map(show::moment_value),
        "ended": session.ended.map(|(at, _)| show::moment_value(at)),
        "ended_by": session.ended.map(|(_, end)| end.name()),
        "last": session.last.map(show::moment_value),
        "requests": session.transactions,
        "label": identity.label,
        "address": identity.address,
        "ephemerals": ephemerals.collect::<Vec<_>>(),
        "ephemeral_count": author.ephemeral_count,
        "nearby": nearby.collect::<Vec<_>>(),
        "nearby_count": author.nearby_count,
    })
}

/// Returns lines with a title before the first one.
fn titled(title: &str, lines: &[String]) -> Vec<String> {
    let title_of = |place| if place == 0 { title } else { "" };
    lines.iter().enumerate().map(|(place, line)| format!("{:<9} {line}", title_of(place))).collect()
}
