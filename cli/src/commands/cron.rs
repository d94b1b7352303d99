use std::ffi::OsString;
use std::pin::pin;
use std::time::Duration;

use clap::Subcommand;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::schedule::{OncePer, Schedule, SlotState};

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, OutputColumn, Rows, number, text, time};
use crate::path;
use crate::program::{self, Program};

/// The arguments of `zkc cron`.
#[derive(Debug, Subcommand)]
pub(crate) enum CronVerb {
    /// List the recorded periods, and what became of them
    Ls {
        /// Node of the schedule
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Run a command once per period on one of all hosts that run this, until Ctrl-C. A command
    /// that runs then gets TERM, and KILL after the grace time or at the second Ctrl-C, with all
    /// processes of its process group
    Run {
        /// Node of the schedule; created if it does not exist
        #[arg(value_parser = path::parse)]
        path: String,
        /// Period, in whole seconds: `1h`
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        every: Duration,
        /// Name of this host in the records
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Time between TERM and KILL
        #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
        grace: Duration,
        /// Command, without a shell and without standard input
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

const COLUMNS: &[OutputColumn] =
    &[text("period"), text("state"), text("by"), text("since"), number("attempt"), text("why")];

impl CronVerb {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        match self {
            Self::Ls { path } => list(app, path).await,
            Self::Run { path, every, id, grace, command } => {
                let zk = app.zk_to_change().await?;
                let mut member = OncePer::new(zk, path, Schedule::every(every));
                if let Some(id) = id {
                    member = member.id(id);
                }
                run(&member, grace, &command).await?;
                Ok(CommandOutput::nothing())
            }
        }
    }
}

/// Runs the command of each period until a signal asks for the end.
async fn run(
    member: &OncePer,
    grace: Duration,
    command: &[OsString],
) -> Result<(), CommandFailure> {
    let stop = Shutdown::new();
    let shutdown = stop.clone().drain(grace);
    let mut work = pin!(member.run(|_slot| execute(command, stop.clone())).until(shutdown));
    tokio::select! {
        ended = &mut work => return Ok(ended?),
        interrupted = crate::stop::requested() => interrupted?,
    }
    stop.begin();
    tokio::select! {
        biased;
        ended = work => Ok(ended?),
        again = crate::stop::requested() => Ok(again?),
    }
}

async fn list(app: &App, path: String) -> Result<CommandOutput, CommandFailure> {
    // The records do not have the period, and are listed with any.
    let schedule = Schedule::every(Duration::from_secs(1));
    let mut rows = Rows::new(COLUMNS);
    for slot in OncePer::new(app.zk().await?, path, schedule).slots().await? {
        let (state, why) = match slot.state {
            SlotState::Running => ("running", None),
            SlotState::Abandoned => ("abandoned", None),
            SlotState::Done => ("done", None),
            SlotState::Failed { why, .. } => ("failed", Some(why)),
            SlotState::GaveUp { why, .. } => ("gave up", Some(why)),
            _ => ("unknown", None),
        };
        rows.push(vec![
            slot.name.into(),
            state.into(),
            slot.claimed_by.into(),
            time::of(slot.changed_at),
            slot.attempt.into(),
            why.into(),
        ]);
    }
    Ok(rows.into())
}

/// Runs the command of a period. It is asked to end when `stop` is cancelled, and killed with its
/// process group if the future is dropped.
async fn execute(command: &[OsString], stop: Shutdown) -> Result<(), String> {
    if stop.has_begun() {
        return Err("stopped before it began".to_owned());
    }
    let program = Program { command, environment: &[], input: None };
    match program.run(stop.begun()).await {
        Ok(0) => Ok(()),
        Ok(code) => Err(program::explain(code)),
        Err(error) => Err(error.to_string()),
    }
}
