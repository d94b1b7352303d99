use clap::Args;
use zk_curator_ops::ensemble::doctor::{self, DoctorFinding, FindingSeverity};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, OutputColumn, Rows, text};
use crate::path;
use crate::probe::{self, ProbeArguments};
use crate::unreadable::{NameUnreadable, UnreadableNodes};

const AFTER_HELP: &str = "\
Servers report how long writes to the disk take, and how large their logs and snapshots are. They \
report neither the free space of a disk nor which directories share one. `jute.maxbuffer` and \
`autopurge.purgeInterval` are known only with --admin; otherwise the default of `jute.maxbuffer` is \
assumed, and the other is not judged.";

/// The arguments of `zkc doctor`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Doctor {
    /// Also look at the nodes below this one: their sizes, children and sequence numbers, the
    /// ACLs of locks, and contenders that no session will ever remove
    #[arg(long, value_name = "PATH", value_parser = path::parse, num_args = 0..=1, default_missing_value = "/")]
    tree: Option<String>,
    #[command(flatten)]
    options: ProbeArguments,
}

const COLUMNS: &[OutputColumn] =
    &[text("severity"), text("subject"), text("finding"), text("advice"), text("line")];

impl Doctor {
    /// Exits with 1 if there is an error.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let servers = doctor::examine(&self.options.of(app)?).await?;
        for note in &servers.notes {
            app.out().say(format!("note: {}", probe::note(note)));
        }
        let (mut findings, mut unreadable) = (servers.findings, UnreadableNodes::default());
        if let Some(root) = &self.tree {
            let zk = app.zk().await?;
            let nodes = doctor::examine_tree(zk, root, servers.max_packet).await?;
            nodes.notes.iter().for_each(|note| app.out().say(format!("note: {note}")));
            findings.extend(nodes.findings);
            unreadable = nodes.unreadable;
        }
        if findings.is_empty() {
            app.out().say("no findings");
        }
        let failed = findings.iter().any(|finding| finding.severity == FindingSeverity::Error);
        let mut rows = Rows::new(COLUMNS);
        for DoctorFinding { severity, subject, text, advice, line, .. } in findings {
            rows.push(vec![
                severity.name().into(),
                subject.into(),
                text.into(),
                advice.into(),
                line.into(),
            ]);
        }
        if failed {
            unreadable.complete(app.out(), CommandOutput::nothing());
            return Ok(CommandOutput::from(rows).with_exit(Exit::NO));
        }
        Ok(unreadable.complete(app.out(), rows))
    }
}
