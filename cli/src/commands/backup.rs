use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use zk_curator_ops::Progress;
use zk_curator_ops::transfer::{Backup, BackupConsistency, BackupSummary};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport};
use crate::progress::ProgressLine;
use crate::stop::{Handled, Stops};
use crate::unreadable::{self, NameUnreadable};
use crate::{path, transfer};

/// The arguments of `zkc backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupCommand {
    /// Root of the nodes; with `/`, the nodes of the servers below /zookeeper are left out
    #[arg(value_parser = path::parse)]
    path: String,
    /// File to write, usually with the ending .zkb; replaced when the backup is complete. `-` is
    /// standard output, which gets only complete backups
    file: PathBuf,
    /// Write plain text instead of gzip
    #[arg(long)]
    plain: bool,
    /// After the nodes were read, look for a moment without a change for this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    within: Duration,
    /// Write no file, and end with 1, if nodes of one moment are not found
    #[arg(long)]
    require_exact: bool,
}

impl BackupCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let is_stdout = transfer::is_standard(&self.file);
        if is_stdout && !self.plain && io::stdout().is_terminal() {
            return Err(CommandFailure::usage("standard output is a terminal").hint("pass --plain"));
        }
        let zk = app.zk().await?;
        let progress = ProgressLine::of_subtree(app.out(), "backup", zk, &self.path).await;
        let count = progress.counter();
        let mut backup = Backup::new(self.path.as_str()).within(self.within);
        backup = backup.progress(Progress::new(&count));
        if self.plain {
            backup = backup.plain();
        }
        if self.require_exact {
            backup = backup.exact_only();
        }
        let (mut stops, handled) = (Stops::catch()?, Handled::begin());
        let mut stdout = io::stdout();
        let written = async {
            if is_stdout {
                backup.write_to(zk, &mut stdout).await
            } else {
                backup.write(zk, &self.file).await
            }
        };
        let summary = tokio::select! {
            biased;
            // Dropping the backup removes its part of a file, which has the data of the nodes.
            stop = stops.next() => return Ok(Exit::of_command(stop.code()).into()),
            written = written => written?,
        };
        drop(handled);
        drop(progress);
        warn(app, &summary);
        Ok(self.report(app, summary))
    }

    fn report(&self, app: &App, summary: BackupSummary) -> CommandOutput {
        let BackupSummary { trailer, unreadable, ephemerals, masked, published, .. } = summary;
        let exit = match (published, trailer.unreadable.is_empty()) {
            (false, _) => Exit::NO,
            (true, false) => Exit::PARTLY,
            (true, true) => Exit::DONE,
        };
        let (nodes, is_exact) = (trailer.nodes(), trailer.consistency == BackupConsistency::Exact);
        let consistency = if is_exact { "exact" } else { "fuzzy" };
        let mut text = format!("{nodes} nodes, {consistency}");
        if ephemerals > 0 {
            text.push_str(&format!(", {ephemerals} of them ephemeral"));
        }
        if !published {
            text.push_str("; no file was written");
        }
        if transfer::is_standard(&self.file) {
            app.out().say(text);
            return exit.into();
        }
        let value = json!({
            "file": self.file.display().to_string(),
            "written": published,
            "nodes": nodes,
            "ephemerals": ephemerals,
            "consistency": consistency,
            "zxid": trailer.zxid,
            "changed": trailer.changed,
            "unreadable": trailer.unreadable,
            "reasons": unreadable.iter().map(|(path, why)| (path, why.to_string())).collect::<BTreeMap<_, _>>(),
            "hidden_passwords": masked,
        });
        CommandOutput::from(TextReport::new(text, value)).with_exit(exit)
    }
}

fn warn(app: &App, summary: &BackupSummary) {
    let (out, trailer) = (app.out(), &summary.trailer);
    if trailer.consistency == BackupConsistency::Fuzzy {
        match (&trailer.changed, summary.gap) {
            (Some(changed), _) => {
                let number = changed.len();
                out.warn(format!(
                    "fuzzy: {number} nodes are not of the same moment as the others:"
                ));
                name(app, changed);
            }
            (None, why) => {
                let why = why.unwrap_or("the changes are not known");
                out.warn(format!("fuzzy: {why}, so the nodes may be of different moments"));
            }
        }
    }
    if !summary.unreadable.is_empty() {
        out.warn(format!(
            "incomplete: {} nodes are missing, with all nodes below them:",
            summary.unreadable.len()
        ));
        summary.unreadable.name(out, "  ");
    }
    if summary.masked > 0 {
        let nodes = summary.masked;
        out.warn(format!("{nodes} nodes: the ACL hides a password (ADMIN permission shows it)"));
    }
}

fn name(app: &App, paths: &[String]) {
    unreadable::name(app.out(), "  ", paths.iter().map(String::as_str));
}
