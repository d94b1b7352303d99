use std::path::PathBuf;

use clap::Args;
use globset::GlobMatcher;
use serde_json::{Value, json};
use zk_curator::{ConnectionState, ConnectionStatus, CuratorFramework};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport, printable};
use crate::path;
use crate::progress::ProgressLine;
use crate::transfer::arguments::{Low, glob};
use crate::transfer::file::BackupSource;
use crate::transfer::plan::{Acls, EphemeralsMode, OnExisting, TransferCounts, TransferRules};
use crate::transfer::restore::{RestoreOptions, RestorePlan, RestoreRun as Restoring};
use crate::unreadable;

/// The arguments of `zkc restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreCommand {
    /// Backup file; `-` is standard input
    file: PathBuf,
    /// Root of the restored nodes [default: the root of the backup]
    #[arg(long, value_name = "PATH", value_parser = path::parse)]
    root: Option<String>,
    /// Restore only nodes whose paths in the file match, and their parents
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    only: Option<GlobMatcher>,
    /// Create persistent nodes as containers if their paths in the file match. Servers do not tell
    /// which nodes are containers, so the file cannot
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    containers: Option<GlobMatcher>,
    /// Treatment of ephemeral nodes in the file
    #[arg(long, value_enum, value_name = "WAY", default_value = "skip")]
    ephemerals: EphemeralsMode,
    /// With `--ephemerals persistent`, also create the nodes of locks, elections, leases, groups
    /// and other recipes. No session will ever remove them: nobody obtains the lock until they
    /// are deleted
    #[arg(long)]
    persist_contenders: bool,
    /// Treatment of nodes that exist and differ
    #[arg(long, value_enum, value_name = "WAY", default_value = "fail")]
    on_conflict: OnExisting,
    /// Source of the ACLs
    #[arg(long, value_enum, value_name = "WAY", default_value = "keep")]
    acl: Acls,
    /// Delete the nodes below the root that the file does not have, except ephemeral ones
    #[arg(long)]
    delete_extra: bool,
    #[command(flatten)]
    low: Low,
    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl RestoreCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = if self.dry_run { app.zk().await? } else { app.zk_to_change().await? };
        let source = BackupSource::of(&self.file).await?;
        let rules = TransferRules {
            on_conflict: self.on_conflict,
            ephemerals: self.ephemerals,
            acls: self.acl,
        };
        let options = RestoreOptions {
            file: source.path(),
            root: self.root.as_deref(),
            only: self.only.as_ref(),
            containers: self.containers.as_ref(),
            rules,
            persist_contenders: self.persist_contenders,
            delete_extra: self.delete_extra,
            on_low: self.low.policy(),
        };
        let mut restore = Restoring::open(zk, options).await?;
        if let Some(warning) = restore.warning() {
            app.out().warn(warning);
        }
        let progress = ProgressLine::start(app.out(), "compare", Some(restore.nodes()));
        let plan = restore.plan(&progress).await?;
        drop(progress);
        if self.dry_run {
            Low::warn(app, &plan.hazards);
            warn_of_contenders(app, &plan);
            let is_refused = !plan.contenders.is_empty() || self.low.refuses(&plan.hazards);
            let exit = match plan.counts.conflict {
                0 if is_refused => Exit::USAGE,
                0 => Exit::DONE,
                _ => Exit::CONFLICT,
            };
            let text = format!("{}\n{}", plan.counts, way(&plan));
            let answer =
                CommandOutput::from(TextReport::new(text, value(&plan, None))).with_exit(exit);
            return Ok(plan.unreadable.complete(app.out(), answer));
        }
        app.out().say(plan.counts.to_string());
        self.agree(app, &restore.to, &plan).await?;
        let session = zk.status().session_epoch;
        let progress = ProgressLine::start(app.out(), "restore", Some(plan.counts.nodes()));
        let transactions = restore.apply(&plan, &progress).await?;
        drop(progress);
        app.out().detail(format!("{transactions} transactions"));
        if self.ephemerals == EphemeralsMode::Own {
            hold(app, zk, session).await?;
        }
        let text = if plan.counts.is_nothing() { "nothing to do" } else { "restored" };
        let report = TextReport::new(text, value(&plan, Some(transactions)));
        Ok(plan.unreadable.complete(app.out(), report))
    }

    /// Refuses a plan, or asks where it is dangerous.
    async fn agree(&self, app: &App, root: &str, plan: &RestorePlan) -> Result<(), CommandFailure> {
        let TransferCounts { conflict, delete, .. } = plan.counts;
        if conflict > 0 {
            for path in &plan.conflicts {
                app.out().warn(format!("differs: {}", printable(path)));
            }
            let text = format!("conflict: {conflict} nodes exist and differ; nothing was changed");
            return Err(CommandFailure::new(Exit::CONFLICT, text).hint("see --on-conflict"));
        }
        let contenders = plan.contenders.len();
        if contenders > 0 {
            warn_of_contenders(app, plan);
            let text = format!(
                "refused: {contenders} contenders of recipes would become persistent, and no session \
                 would ever remove them; nothing was changed"
            );
            let hint = "--ephemerals skip leaves them out; --persist-contenders accepts it";
            return Err(CommandFailure::usage(text).hint(hint));
        }
        self.low.check(app, &plan.hazards).await?;
        if delete > 0 {
            app.agree(&format!("delete {delete} nodes below {root}?")).await?;
        }
        if !plan.is_atomic() && !plan.counts.is_nothing() {
            app.out().say(way(plan));
        }
        Ok(())
    }
}

fn warn_of_contenders(app: &App, plan: &RestorePlan) {
    let paths = plan.contenders.iter().map(String::as_str);
    unreadable::name(app.out(), "contender of a recipe: ", paths);
}

/// Says if the changes are applied together.
const fn way(plan: &RestorePlan) -> &'static str {
    if plan.is_atomic() {
        "one transaction: all changes or none"
    } else {
        "several transactions: if it is interrupted, run it again"
    }
}

fn value(plan: &RestorePlan, transactions: Option<u64>) -> Value {
    let TransferCounts { create, replace, same, keep, delete, skip, conflict, burn } = plan.counts;
    json!({
        "create": create,
        "replace": replace,
        "same": same,
        "keep": keep,
        "delete": delete,
        "ephemerals_skipped": skip,
        "conflict": conflict,
        "conflicts": plan.conflicts,
        "contenders": plan.contenders,
        "sequence_numbers": burn,
        "low_counters": plan.hazards.iter().map(|low| &low.parent).collect::<Vec<_>>(),
        "atomic": plan.is_atomic(),
        "transactions": transactions,
    })
}

/// Keeps the session, and so its ephemeral nodes, until Ctrl-C.
async fn hold(app: &App, zk: &CuratorFramework, session: u64) -> Result<(), CommandFailure> {
    let is_lost = |status: &ConnectionStatus| {
        status.state == ConnectionState::Lost || status.session_epoch != session
    };
    let lost = async {
        app.out().say("holding the ephemeral nodes until Ctrl-C");
        zk.states().until(is_lost).await
    };
    tokio::select! {
        // Polled first, so that it is true when it is said.
        biased;
        interrupted = crate::stop::requested() => Ok(interrupted?),
        _ = lost => {
            let text = "the session was lost, and the ephemeral nodes with it";
            Err(CommandFailure::new(Exit::NO_CONNECTION, text))
        }
    }
}
