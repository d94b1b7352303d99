use std::time::Duration;

use clap::{Args, Subcommand};
use zk_curator_recipes::schedule::{OncePer, Schedule, SlotState};

use crate::app::App;
use crate::exit::Failure;
use crate::output::{Answer, Column, Rows, number, text, time};
use crate::path;

/// The arguments of `zkc cron`.
#[derive(Debug, Args)]
pub(crate) struct Cron {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the recorded periods, and what became of them
    Ls {
        /// Node of the schedule
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Run a command once per period on one of all hosts that run this, until Ctrl-C
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
        /// Command, without a shell
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
}

const COLUMNS: &[Column] =
    &[text("period"), text("state"), text("by"), text("since"), number("attempt"), text("why")];

impl Cron {
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        match self.verb {
            Verb::Ls { path } => list(app, path).await,
            Verb::Run { path, every, id, command } => {
                let zk = app.zk_to_change().await?;
                let mut member = OncePer::new(zk, path, Schedule::every(every));
                if let Some(id) = id {
                    member = member.id(id);
                }
                let work = member.run(|_slot| execute(command.clone()));
                tokio::select! {
                    ended = work => ended?,
                    interrupted = crate::stop::requested() => interrupted?,
                }
                Ok(Answer::nothing())
            }
        }
    }
}

async fn list(app: &App, path: String) -> Result<Answer, Failure> {
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

/// Runs a command, which is stopped if the future is dropped.
async fn execute(command: Vec<String>) -> Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let mut command = tokio::process::Command::new(program);
    let status = command.args(arguments).kill_on_drop(true).status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
