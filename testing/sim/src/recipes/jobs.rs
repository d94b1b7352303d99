//! [`jobs`](zk_curator_recipes::queue::jobs): every client submits jobs, withdraws some, and is a worker. Workers complete
//! jobs, fail, give back and die. When there are no more faults every client works off what is left.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator_recipes::queue::jobs::{Job, JobState, Jobs};

use super::Recipe;
use super::holding::Attempt;
use super::locking_queue::{begin, checkers, done, too_late, use_it};
use super::queue::{bucket_size, put, queue};
use crate::history::{Event, Mode, Name, Outcome};
use crate::{Client, Failure};

const JOBS: &str = "/jobs";
/// After that it has failed.
const MOST_ATTEMPTS: u32 = 6;

pub(super) const RECIPE: Recipe =
    Recipe::new("jobs", "Jobs: done once, by nobody who has lost its lease", |client| Box::pin(work(client)))
        .checked_by(checkers)
        .leaves(&["/jobs", "/jobs/*", "/jobs/pending/b-*", "/jobs/ids/*"]);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let jobs = Jobs::new(&zk, JOBS)?.max_attempts(MOST_ATTEMPTS)?.bucket_size(bucket_size(&mut rng))?;
    let mut worker = jobs.worker(client.who().to_string());
    // A job that was claimed for a call that is over is handed out by the next one.
    let (mut attempt, mut last) = (None, None);
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        match rng.u8(..8) {
            0..=3 => {
                let mut submitted = None;
                let submit = |id: String| {
                    submitted = Some(id.clone());
                    let jobs = &jobs;
                    async move { jobs.submit_as(&id, id.clone()).await }
                };
                if put(&client, submit).await == Outcome::Sure {
                    last = submitted;
                }
            }
            4 => {
                if let Some(id) = last.take() {
                    withdraw(&client, &jobs, &id).await;
                }
            }
            _ => {
                attempt.get_or_insert_with(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
                let next = timeout(client.session_timeout(), worker.next());
                if let Some(Ok(Ok(job))) = client.maybe_cancel(next).await
                    && let Some(attempt) = attempt.take()
                {
                    settle(&client, attempt, job).await?;
                }
            }
        }
    }
    client.faults_are_over().await;
    loop {
        let at = attempt.take().unwrap_or_else(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
        match timeout(client.session_timeout(), worker.next()).await {
            Ok(Ok(job)) => settle(&client, at, job).await?,
            Ok(Err(_)) => at.missed(),
            Err(_) if is_all_done(&client, &jobs).await? => break,
            Err(_) => at.missed(),
        }
    }
    jobs.flush().await?;
    Ok(())
}

/// Deletes what is kept of jobs that have come to their end: whether there are no others.
async fn is_all_done(client: &Client, jobs: &Jobs) -> Result<bool, Failure> {
    let mut others = false;
    for job in jobs.inspect().await? {
        match job.state {
            JobState::Failed { .. } => {
                client.record(Event::Dead { queue: queue(), item: job.id.as_str().into() });
                jobs.forget(&job.id).await?;
            }
            JobState::Done { .. } => drop(jobs.forget(&job.id).await?),
            _ => others = true,
        }
    }
    Ok(!others)
}

async fn withdraw(client: &Client, jobs: &Jobs, id: &str) {
    client.record(Event::Finishing { queue: queue(), item: id.into() });
    let outcome = match client.maybe_cancel(jobs.cancel(id)).await {
        Some(Ok(true)) => Outcome::Sure,
        Some(Ok(false)) => Outcome::Failed,
        _ => Outcome::Unknown,
    };
    client.record(Event::Done { queue: queue(), item: id.into(), outcome });
}

async fn settle(client: &Client, attempt: Attempt, job: Job) -> Result<(), Failure> {
    let (mut rng, name) = (client.rng(), Name::from(job.id()));
    let holding = begin(client, attempt, &name, job.attempt(), job.fencing_token());
    if !use_it(client, &holding, job.lost()).await {
        return too_late(job.complete()).await;
    }
    holding.releasing();
    match rng.u8(..8) {
        0 => drop(job),
        1 => drop(client.maybe_cancel(job.fail("bad luck")).await),
        2 => drop(client.maybe_cancel(job.reject("never")).await),
        3..=5 => done(client, &holding, name, job.complete()).await,
        _ => done(client, &holding, name, job.complete_with("result")).await,
    }
    Ok(())
}
