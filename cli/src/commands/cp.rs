use clap::Args;
use serde_json::json;
use zk_curator_ops::Progress;
use zk_curator_ops::transfer::Copying;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport, printable};
use crate::path;
use crate::progress::ProgressLine;
use crate::transfer::Low;

/// The arguments of `zkc cp`.
#[derive(Debug, Args)]
pub(crate) struct Cp {
    #[command(flatten)]
    paths: CopyArguments,
}

/// The arguments of copies and moves.
#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// Node
    #[arg(value_parser = path::parse)]
    source: String,
    /// Path that the node gets, which must be free
    #[arg(value_parser = path::parse)]
    target: String,
    /// With everything below the node, except ephemeral nodes
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    low: Low,
    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Cp {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        self.paths.run(app, false).await
    }
}

impl CopyArguments {
    /// Copies the node, and then removes it if `removes`.
    pub(crate) async fn run(
        self,
        app: &App,
        removes: bool,
    ) -> Result<CommandOutput, CommandFailure> {
        let zk = if self.dry_run { app.zk().await? } else { app.zk_to_change().await? };
        let (from, to) = (&*self.source, &*self.target);
        let mut copying = Copying::new(zk, from, to).on_low_counter(self.low.policy());
        if self.recursive {
            copying = copying.recursive();
        }
        if removes {
            copying = copying.removing();
        }
        let progress = ProgressLine::start(app.out(), "read", None);
        let plan = copying.plan(Progress::new(&progress.counter())).await?;
        drop(progress);
        let (verb, done) = if removes { ("move", "moved") } else { ("copy", "copied") };
        let way = match (plan.is_atomic(), removes) {
            (true, _) => "in one transaction: all or none",
            (false, false) => "in several transactions",
            (false, true) => "copied in several transactions, compared, and then removed",
        };
        if !plan.ephemerals.is_empty() {
            app.out().warn("skipped, because they are ephemeral:");
            for path in &plan.ephemerals {
                app.out().warn(format!("  {}", printable(path)));
            }
        }
        let value = |transactions: Option<u64>| {
            json!({
                "from": from,
                "to": to,
                "nodes": plan.nodes,
                "ephemerals": plan.ephemerals,
                "atomic": plan.is_atomic(),
                "transactions": transactions,
            })
        };
        if self.dry_run {
            let text = format!("{verb} {} nodes {way}", plan.nodes);
            Low::warn(app, &plan.hazards);
            let refused = plan.check().err().map(CommandFailure::from);
            let exit = refused.map_or(Exit::DONE, |failure| failure.exit());
            return Ok(CommandOutput::from(TextReport::new(text, value(None))).with_exit(exit));
        }
        Low::warn(app, &plan.hazards);
        plan.check()?;
        self.low.agree(app, &plan.hazards).await?;
        if !plan.is_atomic() {
            app.out().say(format!("{} nodes: {way}", plan.nodes));
        }
        let changes = if removes { plan.nodes.saturating_mul(2) } else { plan.nodes };
        let progress = ProgressLine::start(app.out(), verb, Some(changes));
        let transactions = copying.apply(&plan, Progress::new(&progress.counter())).await?;
        drop(progress);
        let text = format!("{done} {} nodes", plan.nodes);
        Ok(TextReport::new(text, value(Some(transactions))).names([self.target.clone()]).into())
    }
}
