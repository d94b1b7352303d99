use clap::Args;
use zk_curator_ops::holders::{SessionFacts, persistent};
use zk_curator_recipes::inspect;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, OutputColumn, Rows, data, number, text};
use crate::probe::{self, ProbeArguments};
use crate::unreadable::{self, NameUnreadable, UnreadableNodes};
use crate::{path, who};

/// The most characters of a label.
const SHOWN: usize = 40;

/// The arguments of `zkc inspect`.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Root of the subtree
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// Read at most this many nodes
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    limit: usize,
    #[command(flatten)]
    options: ProbeArguments,
}

const COLUMNS: &[OutputColumn] = &[
    text("path"),
    text("recipe"),
    number("holders"),
    number("waiting"),
    text("holder"),
    text("verdict").wide(),
    number("ignored").wide(),
    number("persistent").wide(),
];

impl Inspect {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        let probe = self.options.of(app)?;
        let (found, facts) = tokio::join!(
            inspect::find(zk, &self.path, self.limit),
            SessionFacts::gather(zk, &probe)
        );
        let found = found?;
        let mut rows = Rows::new(COLUMNS);
        let mut partial = 0;
        for finding in &found.findings {
            partial += usize::from(finding.is_partial);
            rows.push(vec![
                finding.path.as_str().into(),
                who::kind(finding).into(),
                finding.holders.len().into(),
                finding.waiting.len().into(),
                finding.holders.first().map(|first| data::line(&first.label, SHOWN)).into(),
                facts.verdicts(finding).into_iter().next().into(),
                finding.ignored.len().into(),
                persistent(finding).count().into(),
            ]);
        }
        let stuck: Vec<_> = found.findings.iter().flat_map(persistent).collect();
        let title = "persistent, no session will ever remove it (zkc why): ";
        unreadable::name(app.out(), title, stuck.iter().map(|one| one.path.as_str()));
        for note in facts.notes() {
            app.out().say(format!("note: {}", probe::note(note)));
        }
        let is_complete = found.is_complete && partial == 0;
        let exit = if is_complete { Exit::DONE } else { Exit::PARTLY };
        if partial > 0 {
            app.out().warn(format!("{partial} recipes were read in part"));
        }
        if !found.is_complete {
            app.out().warn(format!("only {} nodes were read: --limit", found.nodes));
        }
        let unreadable: UnreadableNodes = found.unreadable.into_iter().collect();
        Ok(unreadable.complete(app.out(), CommandOutput::from(rows).with_exit(exit)))
    }
}
