use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use zk_curator::{ConnectionState, ConnectionStatus, CuratorFramework};
use zk_curator_ops::pattern::PathPattern;
use zk_curator_ops::transfer::{
    AclPolicy, EphemeralsMode, OnExisting, Restore, RestorePlan, TransferCounts,
};
use zk_curator_ops::{Error, Progress};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport, printable};
use crate::path;
use crate::progress::ProgressLine;
use crate::transfer::{BackupInput, Low};
use crate::unreadable::{self, NameUnreadable};

/// The arguments of `zkc restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreCommand {
    /// Backup file; `-` is standard input
    file: PathBuf,
    /// Root of the restored nodes [default: the root of the backup]
    #[arg(long, value_name = "PATH", value_parser = path::parse)]
    root: Option<String>,
    /// Restore only nodes whose paths in the file match, and their parents
    #[arg(long, value_name = "GLOB")]
    only: Option<PathPattern>,
    /// Create persistent nodes as containers if their paths in the file match. Servers do not tell
    /// which nodes are containers, so the file cannot
    #[arg(long, value_name = "GLOB")]
    containers: Option<PathPattern>,
    /// Treatment of ephemeral nodes in the file
    #[arg(long, value_enum, value_name = "WAY", default_value = "skip")]
    ephemerals: EphemeralsWay,
    /// With `--ephemerals persistent`, also create the nodes of locks, elections, leases, groups
    /// and other recipes. No session will ever remove them: nobody obtains the lock until they
    /// are deleted
    #[arg(long)]
    persist_contenders: bool,
    /// Treatment of nodes that exist and differ
    #[arg(long, value_enum, value_name = "WAY", default_value = "fail")]
    on_conflict: ConflictWay,
    /// Source of the ACLs
    #[arg(long, value_enum, value_name = "WAY", default_value = "keep")]
    acl: AclSource,
    /// Delete the nodes below the root that the file does not have, except ephemeral ones
    #[arg(long)]
    delete_extra: bool,
    #[command(flatten)]
    low: Low,
    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// The treatment of nodes that exist with other data or another ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConflictWay {
    /// Change nothing at all
    Fail,
    /// Leave the node
    Keep,
    /// Replace its data and its ACL
    Replace,
    /// Replace those of a node that was written before the one in the file
    IfOlder,
}

impl From<ConflictWay> for OnExisting {
    fn from(way: ConflictWay) -> Self {
        match way {
            ConflictWay::Fail => Self::Fail,
            ConflictWay::Keep => Self::Keep,
            ConflictWay::Replace => Self::Replace,
            ConflictWay::IfOlder => Self::IfOlder,
        }
    }
}

/// The treatment of ephemeral nodes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EphemeralsWay {
    /// Leave them out
    Skip,
    /// Create persistent nodes
    Persistent,
    /// Create ephemeral nodes of this session, and hold them until Ctrl-C
    Own,
}

impl From<EphemeralsWay> for EphemeralsMode {
    fn from(way: EphemeralsWay) -> Self {
        match way {
            EphemeralsWay::Skip => Self::Skip,
            EphemeralsWay::Persistent => Self::Persistent,
            EphemeralsWay::Own => Self::Own,
        }
    }
}

/// The source of ACLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AclSource {
    /// The file
    Keep,
    /// New nodes are open to everyone; the ACLs of existing nodes stay
    Default,
    /// All nodes are open to everyone
    Drop,
}

impl From<AclSource> for AclPolicy {
    fn from(source: AclSource) -> Self {
        match source {
            AclSource::Keep => Self::Keep,
            AclSource::Default => Self::Default,
            AclSource::Drop => Self::Drop,
        }
    }
}

impl RestoreCommand {
    /// Returns the restore of a backup of recovered nodes to this root. It adds nodes, leaves
    /// ephemeral ones out, and keeps the ACLs.
    pub(crate) const fn of_recovered(
        file: PathBuf,
        root: String,
        on_conflict: ConflictWay,
        low: Low,
        dry_run: bool,
    ) -> Self {
        Self {
            file,
            root: Some(root),
            only: None,
            containers: None,
            ephemerals: EphemeralsWay::Skip,
            persist_contenders: false,
            on_conflict,
            acl: AclSource::Keep,
            delete_extra: false,
            low,
            dry_run,
        }
    }

    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = if self.dry_run { app.zk().await? } else { app.zk_to_change().await? };
        let input = BackupInput::of(&self.file).await?;
        let restore = self.options(&input).open(zk).await?;
        if let Some(warning) = restore.warning() {
            app.out().warn(warning);
        }
        let progress = ProgressLine::start(app.out(), "compare", Some(restore.nodes()));
        let plan = restore.plan(Progress::new(&progress.counter())).await?;
        drop(progress);
        if self.dry_run {
            Low::warn(app, &plan.hazards);
            warn_of_contenders(app, &plan);
            let refused = plan.check().err().map(CommandFailure::from);
            let exit = refused.map_or(Exit::DONE, |failure| failure.exit());
            let text = format!("{}\n{}", plan.counts, way(&plan));
            let answer =
                CommandOutput::from(TextReport::new(text, value(&plan, None))).with_exit(exit);
            return Ok(plan.unreadable.complete(app.out(), answer));
        }
        app.out().say(plan.counts.to_string());
        self.agree(app, restore.root(), &plan).await?;
        let session = zk.status().session_epoch;
        let progress = ProgressLine::start(app.out(), "restore", Some(plan.counts.nodes()));
        let transactions = restore.apply(&plan, Progress::new(&progress.counter())).await?;
        drop(progress);
        app.out().detail(format!("{transactions} transactions"));
        if self.ephemerals == EphemeralsWay::Own {
            hold(app, zk, session).await?;
        }
        let text = if plan.counts.is_nothing() { "nothing to do" } else { "restored" };
        let report = TextReport::new(text, value(&plan, Some(transactions)));
        Ok(plan.unreadable.complete(app.out(), report))
    }

    fn options(&self, input: &BackupInput) -> Restore {
        let mut restore = Restore::new(input.path())
            .on_existing(self.on_conflict.into())
            .ephemerals(self.ephemerals.into())
            .acls(self.acl.into())
            .on_low_counter(self.low.policy());
        if let Some(root) = &self.root {
            restore = restore.root(root);
        }
        if let Some(pattern) = &self.only {
            restore = restore.only(pattern.clone());
        }
        if let Some(pattern) = &self.containers {
            restore = restore.containers(pattern.clone());
        }
        if self.persist_contenders {
            restore = restore.persist_contenders();
        }
        if self.delete_extra {
            restore = restore.delete_extra();
        }
        restore
    }

    /// Refuses a plan, or asks where it is dangerous.
    async fn agree(&self, app: &App, root: &str, plan: &RestorePlan) -> Result<(), CommandFailure> {
        if let Err(refused) = plan.check() {
            match refused {
                Error::Conflicts { .. } => {
                    for path in &plan.conflicts {
                        app.out().warn(format!("differs: {}", printable(path)));
                    }
                }
                Error::Contenders { .. } => warn_of_contenders(app, plan),
                _ => Low::warn(app, &plan.hazards),
            }
            return Err(refused.into());
        }
        Low::warn(app, &plan.hazards);
        self.low.agree(app, &plan.hazards).await?;
        let delete = plan.counts.delete;
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
    let TransferCounts { create, replace, same, keep, delete, skip, conflict, burn, .. } =
        plan.counts;
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
