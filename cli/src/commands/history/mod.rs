//! `zkc history`: the past of a server, from its transaction logs and snapshots.
//!
//! Only `undelete --apply` connects to servers.

mod arguments;
mod check;
mod diff;
mod filter;
mod follow;
mod get;
mod log;
mod replay;
mod show;
mod tree;
mod undelete;
mod who;

use clap::Subcommand;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::CommandOutput;

/// The arguments of `zkc history`.
#[derive(Debug, Subcommand)]
pub(crate) enum HistoryVerb {
    /// List the changes in the logs, with their sessions; with --verbose, with the data before and
    /// after
    Log(log::HistoryLog),
    /// Explain which session deleted or changed a node, and why
    Who(who::HistoryWho),
    /// Show the tree as it was
    Tree(tree::HistoryTree),
    /// Show the data of a node as they were
    Get(get::HistoryGet),
    /// Compare the tree at two moments; with --verbose, with the data
    Diff(diff::HistoryDiff),
    /// Recover a deleted node and the nodes below it: show them, write a backup, or create them
    /// again
    Undelete(undelete::HistoryUndelete),
    /// Print changes while a server writes them, until Ctrl-C
    Follow(follow::HistoryFollow),
    /// Check the files: gaps, damage, digests, and how far back they go
    Check(check::HistoryCheck),
}

impl HistoryVerb {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        match self {
            Self::Log(log) => log.run(app),
            Self::Who(who) => who.run(app),
            Self::Tree(tree) => tree.run(app),
            Self::Get(get) => get.run(app),
            Self::Diff(diff) => diff.run(app),
            Self::Undelete(undelete) => Box::pin(undelete.run(app)).await,
            Self::Follow(follow) => follow.run(app).await,
            Self::Check(check) => check.run(),
        }
    }
}
