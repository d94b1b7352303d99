use clap::Subcommand;
use zk_curator_recipes::barrier::{DistributedBarrier, DistributedDoubleBarrier};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport};
use crate::path;

/// The arguments of `zkc barrier`.
#[derive(Debug, Subcommand)]
pub(crate) enum BarrierVerb {
    /// Set a barrier, which blocks all waiters
    Set {
        /// Node
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Remove a barrier, so that all waiters continue
    Rm {
        /// Node
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Check that a barrier is set, by the exit code
    Show {
        /// Node
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Wait until a barrier is removed
    Wait {
        /// Node
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Enter a double barrier, wait for all members, print a line, and leave at Ctrl-C or at the
    /// end of standard input together with the others
    Enter {
        /// Node
        #[arg(value_parser = path::parse)]
        path: String,
        /// Number of members
        members: usize,
    },
}

impl BarrierVerb {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        match self {
            Self::Set { path } => {
                DistributedBarrier::new(app.zk_to_change().await?, path).set().await?;
            }
            Self::Rm { path } => {
                DistributedBarrier::new(app.zk_to_change().await?, path).remove().await?;
            }
            Self::Show { path } => {
                let is_set = DistributedBarrier::new(app.zk().await?, path).is_set().await?;
                let exit = if is_set { Exit::DONE } else { Exit::NO };
                let text = if is_set { "set" } else { "not set" };
                return Ok(CommandOutput::from(TextReport::new(text, is_set)).with_exit(exit));
            }
            Self::Wait { path } => {
                DistributedBarrier::new(app.zk().await?, path).wait().await?;
            }
            Self::Enter { path, members } => enter(app, path, members).await?,
        }
        Ok(CommandOutput::nothing())
    }
}

async fn enter(app: &App, path: String, members: usize) -> Result<(), CommandFailure> {
    let barrier = DistributedDoubleBarrier::new(app.zk_to_change().await?, path, members);
    let stop = crate::stop::requested();
    tokio::pin!(stop);
    let round = tokio::select! {
        round = barrier.enter() => round?,
        interrupted = &mut stop => {
            interrupted?;
            return Err(CommandFailure::new(Exit::INTERRUPTED, "interrupted"));
        }
    };
    app.out().print(&TextReport::new("entered", "entered").names(["entered".to_owned()]).into())?;
    tokio::select! {
        ended = crate::stdin::end() => ended?,
        interrupted = &mut stop => interrupted?,
    }
    Ok(round.leave().await?)
}
