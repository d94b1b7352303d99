//! [`jobs`](zk_curator_recipes::queue::jobs): every client submits jobs, withdraws some, and is a
//! worker. Workers complete jobs, fail, release jobs and die. After the last fault, every client
//! processes the remaining jobs.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt};
use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::jobs::{JobInfo, JobPhase, JobState, Jobs, Leased, Task};
use zk_curator_recipes::queue::{self, Consumer, Error};

use super::Scenario;
use super::locking_queue::{Attempts, InHand, begin, done, too_late, use_it};
use super::support::driving::{Drive, Unseen, rejecting, stopped_by};
use super::support::holding::Attempt;
use super::support::items::{bucket_size, item_of, name_of, put_all, queue, withdraw};
use crate::checkers::{Delivery, Exclusion, PutAside};
use crate::history::{Mode, Name, Outcome, Queue};
use crate::{Client, Failure};

const JOBS: &str = "/jobs";
/// The number of attempts after which a job has failed permanently.
const MOST_ATTEMPTS: u32 = 6;

pub(super) const SCENARIO: Scenario =
    Scenario::new("jobs", "Jobs: completed once, only by a worker with its lease", |sim| {
        sim.workload(work)
            .checker(Delivery::exactly_once().in_order().counted().one_at_a_time())
            .checker(Exclusion::mutual())
            .checker(PutAside::after(MOST_ATTEMPTS))
            .leaves(["/jobs", "/jobs/*", "/jobs/pending/b-*", "/jobs/*/b|*", "/jobs/ids/*"])
            .operator(["/jobs/leases/*"])
            .crowd()
    });

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let jobs = Jobs::new(&zk, JOBS).max_attempts(MOST_ATTEMPTS).bucket_size(bucket_size(&mut rng));
    let clock = client.clone();
    let jobs = jobs.clock(move || clock.time_of_day());
    let drive = Drive::draw(&client, &mut rng);
    let unseen = Unseen::watch(&client, &zk);
    let worker = || jobs.worker(client.who().to_string());
    let mut source = Source::new(worker(), drive);
    // The next call returns a job that was claimed for a call that is over.
    let (mut attempt, mut last) = (None, None);
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        match rng.u8(..8) {
            0..=3 => {
                let id = client.id();
                match submit(&client, &jobs, &id).await {
                    Outcome::Sure => last = Some(id),
                    // A job with this id exists, perhaps only its result. Forgetting it makes room.
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
            _ if drive == Drive::Run => {
                let limit = rng.usize(1..5);
                let run =
                    Box::pin(unseen.during(|stop| run(&client, &unseen, worker(), stop, limit)));
                run.await.unwrap_or(Ok(()))?;
            }
            _ => {
                attempt.get_or_insert_with(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
                let next = timeout(client.session_timeout(), source.next(rng.u8(..4) == 0));
                let next = client.maybe_cancel(next).await;
                unseen.look();
                match next {
                    Some(Ok(Ok(Some(job)))) => {
                        if let Some(attempt) = attempt.take() {
                            Box::pin(settle(&client, attempt, job)).await?;
                        }
                    }
                    Some(Ok(Err(_))) => unseen.may_be(1),
                    _ => {}
                }
            }
        }
    }
    client.faults_are_over().await;
    if drive == Drive::Run {
        let is_empty = async {
            while !jobs.list().all().await.is_ok_and(|jobs| jobs.is_empty()) {
                if !is_all_done(&client, &zk, &jobs).await.is_ok_and(|is_all| is_all) {
                    sleep(client.session_timeout() / 4).await;
                }
            }
        };
        Box::pin(stopped_by(is_empty, |stop| run(&client, &unseen, worker(), stop, 2))).await?;
    }
    loop {
        let at =
            attempt.take().unwrap_or_else(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
        let next = timeout(client.session_timeout(), source.next(false)).await;
        unseen.look();
        match next {
            Ok(Ok(Some(job))) => Box::pin(settle(&client, at, job)).await?,
            Ok(Err(_)) => {
                unseen.may_be(1);
                at.missed();
            }
            Err(_) if is_all_done(&client, &zk, &jobs).await? => break,
            Ok(Ok(None)) | Err(_) => at.missed(),
        }
    }
    jobs.flush().await?;
    Ok(())
}

/// The source of jobs, except for runs.
enum Source {
    Worker(Box<Consumer<Leased>>),
    Stream(Pin<Box<dyn Stream<Item = Result<queue::Delivery<Leased>, Error>> + Send>>),
}

impl Source {
    fn new(worker: Consumer<Leased>, drive: Drive) -> Self {
        if drive == Drive::Stream {
            Self::Stream(Box::pin(worker.into_stream()))
        } else {
            Self::Worker(Box::new(worker))
        }
    }

    async fn next(&mut self, polls: bool) -> Result<Option<queue::Delivery<Leased>>, Error> {
        match self {
            Self::Worker(worker) if polls => worker.try_next().await,
            Self::Worker(worker) => worker.next().await.map(Some),
            Self::Stream(jobs) => jobs.next().await.transpose(),
        }
    }
}

/// Executes jobs by bodies. A body does not learn if its job is completed.
async fn run(
    client: &Client,
    unseen: &Unseen<'_>,
    worker: Consumer<Leased>,
    stop: Shutdown,
    limit: usize,
) -> Result<(), Failure> {
    let attempts = Attempts::begin(client);
    let body = async |task: Task| {
        unseen.look();
        let (name, token) = (name_of(&task.data), task.lease.fencing_token());
        let in_hand = InHand::new(begin(client, attempts.take(), &name, task.attempt, token));
        in_hand.work(client).await;
        let mut rng = client.rng();
        let has_failed = rng.u8(..4) == 0;
        if has_failed && rng.bool() {
            task.retry_after(client.moment(Duration::from_secs(2)));
        }
        in_hand.releasing();
        if has_failed {
            return Err("bad luck");
        }
        client.record(Queue::Finishing { queue: queue(), item: name });
        Ok(rng.bool().then(|| Bytes::from("result")))
    };
    Ok(worker.run(limit, body).until(stop).await?)
}

/// Submits a job under this id.
async fn submit(client: &Client, jobs: &Jobs, id: &str) -> Outcome {
    let job = item_of(client, id);
    let name = Name::from(job.as_str());
    let submit = async { jobs.submit(job).id(id).await.map(|_| true) };
    put_all(client, &[name], 0, submit).await
}

/// Deletes the records of jobs that have ended. Returns `true` if there are no other jobs.
async fn is_all_done(client: &Client, zk: &CuratorFramework, jobs: &Jobs) -> Result<bool, Failure> {
    // Lists in pages of all sizes.
    let infos = jobs.list().limit(client.rng().u32(1..20)).all().await?;
    // The list may lack a job that became pending again while it was read.
    let ids = match zk.children(format!("{JOBS}/all")).await {
        Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
        ids => ids?,
    };
    let mut others = ids.iter().any(|id| infos.iter().all(|info| info.id != *id));
    for job in infos {
        match job.state {
            JobState::Failed { .. } => {
                if let Some(item) = failed(zk, jobs, &job.id).await? {
                    client.record(Queue::Dead { queue: queue(), item });
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

/// Returns the job with this id, if it has failed permanently.
async fn failed(zk: &CuratorFramework, jobs: &Jobs, id: &str) -> Result<Option<Name>, Failure> {
    let path = format!("{JOBS}/all/{id}");
    let (data, job) = match zk.get_data(&path).with_stat().await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
        read => read?,
    };
    let has_failed = |info: JobInfo| info.state.phase() == JobPhase::Failed;
    // Two reads of the same node show that the state in between belongs to this job, not to another
    // one with its id.
    let is_it = jobs.get(id).await?.is_some_and(has_failed)
        && zk.exists(path).await?.is_some_and(|now| now.czxid == job.czxid);
    Ok(is_it.then(|| name_of(&data)))
}

/// Deletes the record of a job. Returns `true` if there was one. Where ids are used repeatedly, it
/// is unknown which job it was.
async fn forget(client: &Client, jobs: &Jobs, id: &str) -> Result<bool, Error> {
    client.record(Queue::Withdrawing { queue: queue(), id: id.into() });
    let forgotten = jobs.forget(id).await;
    if matches!(forgotten, Ok(true)) {
        vacant(client, id);
    }
    let count = u32::from(client.has_few_ids() && !matches!(forgotten, Ok(false)));
    client.record(Queue::Withdrawn {
        queue: queue(),
        id: id.into(),
        count,
        outcome: Outcome::Unknown,
    });
    forgotten
}

/// Records that the id of a job is free again.
fn vacant(client: &Client, id: &str) {
    client.record(Queue::Vacant { queue: queue(), id: id.into() });
}

async fn settle(
    client: &Client,
    attempt: Attempt,
    job: queue::Delivery<Leased>,
) -> Result<(), Failure> {
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
        2 => {
            rejecting(client, &name);
            drop(client.maybe_cancel(job.reject("never")).await);
        }
        3..=5 => {
            let id = job.id().to_owned();
            // A job that is completed without a result leaves no record.
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
