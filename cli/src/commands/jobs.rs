use clap::{Args, Subcommand};
use serde_json::json;
use zk_curator_recipes::queue::jobs::{JobInfo, JobState, Jobs as Store};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, OutputColumn, Rows, TextReport, data, number, text, time};
use crate::path;

/// The arguments of `zkc jobs`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsVerb {
    /// List the jobs, with their states and workers
    Ls {
        /// Node of the jobs
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Count the jobs in each state
    Count {
        /// Node of the jobs
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Show the data of a job
    Show(One),
    /// Submit a job, and print its id
    Submit {
        /// Node of the jobs; created if it does not exist
        #[arg(value_parser = path::parse)]
        path: String,
        /// Job: text, `@FILE`, or `-` for standard input
        #[arg(allow_hyphen_values = true)]
        job: String,
        /// Id; a second job with the same id is refused [default: a UUID]
        #[arg(long)]
        id: Option<String>,
    },
    /// Cancel a pending or delayed job
    Cancel(One),
    /// Make a failed job pending again
    Retry(One),
    /// Forget a job that is done or has failed
    Forget(One),
    /// Print the result of a job that is done
    Result(One),
}

/// One job.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// Node of the jobs
    #[arg(value_parser = path::parse)]
    path: String,
    /// Id of the job
    id: String,
}

const COLUMNS: &[OutputColumn] =
    &[text("id"), text("state"), text("worker"), number("attempts"), text("since"), text("why")];

impl JobsVerb {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        match self {
            Self::Ls { path } => {
                let mut rows = Rows::new(COLUMNS);
                for job in Store::new(app.zk().await?, path).list().all().await? {
                    rows.push(row(&job));
                }
                Ok(rows.into())
            }
            Self::Count { path } => count(&Store::new(app.zk().await?, path)).await,
            Self::Show(One { path, id }) => {
                let job = Store::new(app.zk().await?, &path).get(&id).await?;
                let job = job.ok_or_else(|| no_job(&path, &id))?;
                let payload = job.payload()?.cloned().unwrap_or_default();
                Ok(TextReport::new(data::show(&payload), data::value(&payload)).raw(payload).into())
            }
            Self::Submit { path, job, id } => {
                let jobs = Store::new(app.zk_to_change().await?, path);
                let mut submission = jobs.submit(data::argument(&job).await?);
                if let Some(id) = id {
                    submission = submission.id(id);
                }
                let id = submission.await?;
                Ok(TextReport::new(id.as_str(), json!({ "id": id })).names([id]).into())
            }
            Self::Cancel(One { path, id }) => {
                yes(Store::new(app.zk_to_change().await?, path).cancel(id).await?)
            }
            Self::Retry(One { path, id }) => {
                yes(Store::new(app.zk_to_change().await?, path).retry(id).await?)
            }
            Self::Forget(One { path, id }) => {
                yes(Store::new(app.zk_to_change().await?, path).forget(id).await?)
            }
            Self::Result(One { path, id }) => {
                let result = Store::new(app.zk().await?, path).result(id).await?;
                Ok(result.map_or_else(
                    || Exit::NO.into(),
                    |result| {
                        TextReport::new(data::show(&result), data::value(&result))
                            .raw(result)
                            .into()
                    },
                ))
            }
        }
    }
}

/// The answer to a change that found the job in the required state, or did not.
#[expect(clippy::unnecessary_wraps, reason = "the result of a command")]
fn yes(done: bool) -> Result<CommandOutput, CommandFailure> {
    Ok(if done { Exit::DONE } else { Exit::NO }.into())
}

fn no_job(path: &str, id: &str) -> CommandFailure {
    CommandFailure::new(Exit::NO_NODE, format!("no job: {id} in {path}"))
}

async fn count(jobs: &Store) -> Result<CommandOutput, CommandFailure> {
    let counts = jobs.counts().await?;
    let mut rows = Rows::new(const { &[text("state"), number("jobs")] });
    for (state, jobs) in [
        ("pending", counts.pending),
        ("executing", counts.executing),
        ("delayed", counts.delayed),
        ("done", counts.done),
        ("failed", counts.failed),
    ] {
        rows.push(vec![state.into(), jobs.into()]);
    }
    Ok(rows.into())
}

fn row(job: &JobInfo) -> Vec<crate::output::Cell> {
    let (state, worker, since, why) = match &job.state {
        JobState::Pending => ("pending", None, job.submitted_at, None),
        JobState::Executing { worker, since, is_alive: true, .. } => {
            ("executing", Some(worker), Some(*since), None)
        }
        JobState::Executing { worker, since, .. } => {
            ("abandoned", Some(worker), Some(*since), None)
        }
        JobState::Delayed { why, until, .. } => ("delayed until", None, Some(*until), Some(why)),
        JobState::Done { since, .. } => ("done", None, Some(*since), None),
        JobState::Failed { why, since, .. } => ("failed", None, Some(*since), Some(why)),
        _ => ("unknown", None, None, None),
    };
    vec![
        job.id.as_str().into(),
        state.into(),
        worker.cloned().into(),
        job.attempts.into(),
        since.map(time::of).into(),
        why.cloned().into(),
    ]
}
