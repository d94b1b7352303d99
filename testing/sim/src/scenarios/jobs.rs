//! [`jobs`](zk_curator_recipes::queue::jobs): every client submits jobs, withdraws some, and is a worker. Workers complete
//! jobs, fail, give back and die. When there are no more faults every client works off what is left.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::queue::Error;
use zk_curator_recipes::queue::jobs::{Job, JobInfo, JobState, Jobs};

use super::Scenario;
use super::holding::Attempt;
use super::locking_queue::{begin, done, too_late, use_it};
use super::queue::{bucket_size, item_of, name_of, put_all, queue, withdraw};
use crate::checkers::{Delivery, Exclusion};
use crate::history::{Event, Mode, Name, Outcome};
use crate::{Client, Failure};

const JOBS: &str = "/jobs";
/// After that it has failed.
const MOST_ATTEMPTS: u32 = 6;

pub(super) const SCENARIO: Scenario =
    Scenario::new("jobs", "Jobs: done once, by nobody who has lost its lease", |client| {
        Box::pin(work(client))
    })
    .checked_by(|| {
        let jobs = Delivery::exactly_once().in_order().counted().one_at_a_time();
        vec![Arc::new(jobs), Arc::new(Exclusion::mutual())]
    })
    .leaves(&["/jobs", "/jobs/*", "/jobs/pending/b-*", "/jobs/*/b|*", "/jobs/ids/*"])
    .operator(&["/jobs/leases/*"])
    .crowd();

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let jobs = Jobs::new(&zk, JOBS).max_attempts(MOST_ATTEMPTS).bucket_size(bucket_size(&mut rng));
    let clock = client.clone();
    let jobs = jobs.clock(move || clock.time_of_day());
    let mut worker = jobs.worker(client.who().to_string());
    // A job that was claimed for a call that is over is handed out by the next one.
    let (mut attempt, mut last) = (None, None);
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        match rng.u8(..8) {
            0..=3 => {
                let id = client.id();
                match submit(&client, &jobs, &id).await {
                    Outcome::Sure => last = Some(id),
                    // There is one with this id, perhaps for no more than its result: then it makes room.
                    _ if client.has_few_ids() => {
                        let is_free = matches!(forget(&client, &jobs, &id).await, Ok(true));
                        if is_free && submit(&client, &jobs, &id).await == Outcome::Sure {
                            last = Some(id);
                        }
                    }
                    _ => {}
                }
            }
            4 => {
                if let Some(id) = last.take() {
                    let cancel = async {
                        let is_cancelled = jobs.cancel(&id).await?;
                        if is_cancelled {
                            vacant(&client, &id);
                        }
                        Ok(u32::from(is_cancelled))
                    };
                    withdraw(&client, &id, 1, cancel).await;
                }
            }
            _ => {
                attempt.get_or_insert_with(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
                let next = timeout(client.session_timeout(), worker.next());
                if let Some(Ok(Ok(job))) = client.maybe_cancel(next).await
                    && let Some(attempt) = attempt.take()
                {
                    Box::pin(settle(&client, attempt, job)).await?;
                }
            }
        }
    }
    client.faults_are_over().await;
    loop {
        let at = attempt.take().unwrap_or_else(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
        match timeout(client.session_timeout(), worker.next()).await {
            Ok(Ok(job)) => Box::pin(settle(&client, at, job)).await?,
            Ok(Err(_)) => at.missed(),
            Err(_) if is_all_done(&client, &zk, &jobs).await? => break,
            Err(_) => at.missed(),
        }
    }
    jobs.flush().await?;
    Ok(())
}

/// Submits a job under this id.
async fn submit(client: &Client, jobs: &Jobs, id: &str) -> Outcome {
    let job = item_of(client, id);
    let name = Name::from(job.as_str());
    let submit = async { jobs.submit_as(id, job).await.map(|()| true) };
    put_all(client, &[name], 0, submit).await
}

/// Deletes what is kept of jobs that have come to their end: whether there are no others.
async fn is_all_done(client: &Client, zk: &CuratorFramework, jobs: &Jobs) -> Result<bool, Failure> {
    let infos = jobs.inspect().await?;
    // One that has come back meanwhile may be missing there.
    let ids = match zk.children(format!("{JOBS}/all")).await {
        Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
        ids => ids?,
    };
    let mut others = ids.iter().any(|id| infos.iter().all(|info| info.id != *id));
    for job in infos {
        match job.state {
            JobState::Failed { .. } => {
                if let Some(item) = failed(zk, jobs, &job.id).await? {
                    client.record(Event::Dead { queue: queue(), item });
                }
            }
            JobState::Done { .. } => {}
            _ => {
                others = true;
                continue;
            }
        }
        forget(client, jobs, &job.id).await?;
    }
    Ok(!others)
}

/// The job with this id, if it has failed for good.
async fn failed(zk: &CuratorFramework, jobs: &Jobs, id: &str) -> Result<Option<Name>, Failure> {
    let path = format!("{JOBS}/all/{id}");
    let (data, job) = match zk.get_data(&path).with_stat().await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
        read => read?,
    };
    let has_failed = |info: &JobInfo| info.id == id && matches!(info.state, JobState::Failed { .. });
    // What is seen between two looks at the same job is about that one, and not about another one with its id.
    let is_it = jobs.inspect().await?.iter().any(has_failed)
        && zk.exists(path).await?.is_some_and(|now| now.czxid == job.czxid);
    Ok(is_it.then(|| name_of(&data)))
}

/// Deletes what is kept of a job: whether there was something. Where ids are used again, nobody knows of which one.
async fn forget(client: &Client, jobs: &Jobs, id: &str) -> Result<bool, Error> {
    client.record(Event::Withdrawing { queue: queue(), id: id.into() });
    let forgotten = jobs.forget(id).await;
    if matches!(forgotten, Ok(true)) {
        vacant(client, id);
    }
    let count = u32::from(client.has_few_ids() && !matches!(forgotten, Ok(false)));
    client.record(Event::Withdrawn { queue: queue(), id: id.into(), count, outcome: Outcome::Unknown });
    forgotten
}

/// The id of a job is free again.
fn vacant(client: &Client, id: &str) {
    client.record(Event::Vacant { queue: queue(), id: id.into() });
}

async fn settle(client: &Client, attempt: Attempt, job: Job) -> Result<(), Failure> {
    let (mut rng, name) = (client.rng(), name_of(job.data()));
    let holding = begin(client, attempt, &name, job.attempt(), job.fencing_token());
    if !use_it(client, &holding, job.lost()).await {
        return too_late(job.complete()).await;
    }
    holding.releasing();
    match rng.u8(..8) {
        0 => drop(job),
        1 if rng.bool() => {
            let pause = client.moment(Duration::from_secs(2));
            drop(client.maybe_cancel(job.retry_after("bad luck", pause)).await);
        }
        1 => drop(client.maybe_cancel(job.fail("bad luck")).await),
        2 => drop(client.maybe_cancel(job.reject("never")).await),
        3..=5 => {
            let id = job.id().to_owned();
            // Without a result nothing is kept of it.
            let complete = Box::pin(async {
                job.complete().await?;
                vacant(client, &id);
                Ok(())
            });
            done(client, &holding, name, complete).await;
        }
        _ => done(client, &holding, name, job.complete_with("result")).await,
    }
    Ok(())
}
