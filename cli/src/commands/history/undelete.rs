use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use zk_curator_ops::files::TemporaryFile;
use zk_curator_ops::history::{At, Deletion, Recovered, RecoveredCounts, Undelete};
use zk_curator_ops::path::is_within;

use super::arguments::{self, FileArguments};
use super::show;
use crate::app::App;
use crate::commands::restore::{ConflictWay, RestoreCommand};
use crate::exit::{CommandFailure, Exit};
use crate::node::hex;
use crate::output::{CommandOutput, TextReport, printable, time};
use crate::path;
use crate::transfer::Low;

const AFTER_HELP: &str = "\
Without --into and --apply, nothing is written, and no server is asked. With --apply, the nodes are \
compared with the servers as by `zkc restore`: ephemeral nodes are left out, nodes that exist and \
differ refuse it, and so do sequence counters that are too low. The servers of the context are \
changed, not the files.";

/// The arguments of `zkc history undelete`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct HistoryUndelete {
    #[command(flatten)]
    files: FileArguments,
    /// Node, by its path on the servers: with the chroot and the namespace
    #[arg(value_parser = path::parse)]
    path: String,
    /// Recover the nodes as they were at this moment, even if they were not deleted: a transaction
    /// such as 0x100000012, a time in UTC such as 2026-11-30T14:02:00Z, or ago such as 10m
    /// [default: before the last deletion]
    #[arg(long, value_name = "MOMENT", value_parser = arguments::moment)]
    at: Option<At>,
    /// Write the nodes to this backup file
    #[arg(long, value_name = "FILE", conflicts_with = "apply")]
    into: Option<PathBuf>,
    /// Create the nodes again
    #[arg(long)]
    apply: bool,
    /// Print what --apply would do, and change nothing. It needs --apply
    #[arg(long, requires = "apply")]
    dry_run: bool,
    /// Treatment of nodes that exist and differ
    #[arg(long, value_enum, value_name = "WAY", default_value = "fail", requires = "apply")]
    on_conflict: ConflictWay,
    #[command(flatten)]
    low: Low,
}

impl HistoryUndelete {
    pub(super) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let recovered = self.files.read(|files| {
            let undelete = Undelete::new(files, &self.path).skip_damaged(self.files.skip_damaged);
            match self.at {
                Some(at) => undelete.at(at).find(),
                None => undelete.find(),
            }
        })?;
        let exit = if name_missing(app, &recovered) { Exit::PARTLY } else { Exit::DONE };
        let counts = recovered.counts();
        let text = self.text(&recovered, counts);
        if self.apply {
            app.out().say(&text);
            return self.restore(app, &recovered, exit).await;
        }
        let mut report = text;
        if let Some(file) = &self.into {
            let trailer = recovered.write(file)?;
            report.push_str(&format!("\nwrote {} nodes to {}", trailer.nodes(), file.display()));
        } else {
            report.push_str("\npass --into FILE to write a backup, or --apply to create the nodes");
        }
        let value = self.value(&recovered, counts);
        let paths = recovered.replayed.tree.walk(&self.path).map(|node| node.path());
        let report = TextReport::new(report, value).names(paths.collect::<Vec<_>>());
        Ok(CommandOutput::from(report).with_exit(exit))
    }

    /// Creates the nodes by a restore from a file that is removed in the end.
    async fn restore(
        self,
        app: &App,
        recovered: &Recovered,
        exit: Exit,
    ) -> Result<CommandOutput, CommandFailure> {
        let zk = if self.dry_run { app.zk().await? } else { app.zk_to_change().await? };
        let top = zk.server_path("/");
        if !is_within(&self.path, &top) {
            let text = format!("{} is not below {top}, the chroot and namespace", self.path);
            return Err(CommandFailure::usage(text));
        }
        let root = path::moved(&self.path, &top, "/");
        let (part, _) = TemporaryFile::create("zkc-undelete-")?;
        recovered.write(part.path())?;
        let file = part.path().to_owned();
        let restore =
            RestoreCommand::of_recovered(file, root, self.on_conflict, self.low, self.dry_run);
        let output = Box::pin(restore.run(app)).await?;
        Ok(if exit == Exit::PARTLY { output.with_exit(exit) } else { output })
    }

    fn text(&self, recovered: &Recovered, counts: RecoveredCounts) -> String {
        let RecoveredCounts { nodes, ephemerals, containers, ttls, bytes, .. } = counts;
        let (zxid, time_ms) = recovered.moment();
        let when = time_ms.map(|ms| format!(" at {}", time::exact(ms))).unwrap_or_default();
        let path = printable(&self.path);
        let mut lines = Vec::new();
        if let Some(deletion) = &recovered.deletion {
            lines.push(format!("deleted: {}", deletion.change.line()));
            lines.extend(others(deletion));
        }
        lines.push(format!("{path} after transaction {}{when}:", hex(zxid)));
        lines.push(format!("{nodes} nodes, {} of data", time::size(bytes)));
        for (count, what) in [
            (ephemerals, "ephemeral, not restored: they belong to sessions"),
            (containers, "containers"),
            (ttls, "with a time to live"),
        ] {
            if count > 0 {
                lines.push(format!("of these, {count} {what}"));
            }
        }
        if !recovered.is_exact() {
            lines.push("not exact: the files do not tell all changes up to this moment".to_owned());
        }
        lines.join("\n")
    }

    fn value(&self, recovered: &Recovered, counts: RecoveredCounts) -> Value {
        let RecoveredCounts { nodes, ephemerals, containers, ttls, bytes, .. } = counts;
        let (zxid, time_ms) = recovered.moment();
        json!({
            "path": self.path,
            "zxid": hex(zxid),
            "time": time_ms.map(time::exact),
            "exact": recovered.is_exact(),
            "nodes": nodes,
            "ephemerals": ephemerals,
            "containers": containers,
            "ttls": ttls,
            "bytes": bytes,
            "deletion": recovered.deletion.as_ref().map(|one| show::value(&one.change, false)),
            "other_changes": recovered.deletion.as_ref().map(|one| one.other_changes),
            "file": self.into.as_ref().map(|file| file.display().to_string()),
        })
    }
}

/// Names what was missing for the nodes, and what else was missing for the search of the deletion.
/// Returns `true` if there is anything.
fn name_missing(app: &App, recovered: &Recovered) -> bool {
    let replayed = &recovered.replayed;
    let mut gaps = replayed.gaps.clone();
    gaps.extend(recovered.gaps.iter().filter(|gap| !replayed.gaps.contains(gap)).cloned());
    let skipped = recovered.skipped.iter().filter(|range| !replayed.skipped.contains(range));
    show::name_missing(app, &gaps, replayed.skipped.iter().chain(skipped))
}

/// Returns the line about changes that the recovered nodes do not contain.
fn others(deletion: &Deletion) -> Option<String> {
    let (first, last) = (hex(deletion.first.zxid), hex(deletion.change.at.zxid));
    let count = deletion.other_changes;
    (count > 0).then(|| {
        format!(
            "{count} changes of other sessions between {first} and {last} are left out: \
             see zkc history log --below --zxid"
        )
    })
}
