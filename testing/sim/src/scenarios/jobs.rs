//! [`jobs`](zk_curator_recipes::queue::jobs): every client submits jobs, withdraws some, and is a
//! worker. Workers complete jobs, fail, release jobs and die. After the last fault, every client
//! processes the remaining jobs.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::queue::Error;
use zk_curator_recipes::queue::jobs::{
    Claimed, JobDelivery, JobInfo, JobPhase, JobState, JobTask, JobWorker, Jobs,
};

use super::Scenario;
use super::support::claimed::{ClaimedQueue, Taker, delivered, done, too_late, uses};
use super::support::driving::rejecting;
use super::support::holding::{Attempt, LostIfDropped, hold_on};
use super::support::items::{bucket_size, item_of, name_of, put_all, queue, withdraw};
use crate::checkers::{self, Exclusion, PutAside};
use crate::history::{Name, Outcome, Queue};
use crate::{Client, Failure};

const JOBS: &str = "/jobs";
/// The number of attempts after which a job has failed permanently.
const MOST_ATTEMPTS: u32 = 6;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "jobs",
    "Jobs: completed once, only by a worker with its claim",
    &["acquisitions", "dead letters", "items acknowledged", "items processed by bodies", "uses"],
    |sim| {
        sim.workload(work)
            .checker(checkers::Delivery::exactly_once().in_order().counted().one_at_a_time())
            .checker(Exclusion::mutual())
            .checker(PutAside::after(MOST_ATTEMPTS))
            .leaves(["/jobs", "/jobs/*", "/jobs/pending/b-*", "/jobs/*/b|*", "/jobs/ids/*"])
            .operator(["/jobs/leases/*"])
            .crowd()
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let jobs = Jobs::new(&zk, JOBS).max_attempts(MOST_ATTEMPTS).bucket_size(bucket_size(&mut rng));
    let clock = client.clone();
    let jobs = jobs.clock(move || clock.time_of_day());
    let site = Site { client: &client, zk: &zk, jobs };
    let mut taker = Taker::new(&client, &zk, &site, &mut rng);
    let mut last = None;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        match rng.u8(..8) {
            0..=3 => {
                let id = client.id();
                match site.submit(&id).await {
                    Outcome::Sure => last = Some(id),
                    // A job with this id exists, perhaps only its result. Forgetting it makes room.
                    _ if client.has_few_ids() => {
                        let is_free = matches!(site.forget(&id).await, Ok(true));
                        if is_free && site.submit(&id).await == Outcome::Sure {
                            last = Some(id);
                        }
                    }
                    _ => {}
                }
            }
            4 => {
                if let Some(id) = last.take() {
                    let cancel = async {
                        let is_cancelled = site.jobs.cancel(&id).await?;
                        if is_cancelled {
                            site.vacant(&id);
                        }
                        Ok(u32::from(is_cancelled))
                    };
                    withdraw(&client, &id, 1, cancel).await;
                }
            }
            _ => taker.round(&mut rng).await?,
        }
    }
    client.faults_are_over().await;
    taker.finish().await?;
    site.jobs.flush().await?;
    Ok(())
}

/// A client that submits jobs, and executes them.
struct Site<'a> {
    client: &'a Client,
    zk: &'a CuratorFramework,
    jobs: Jobs,
}

impl Site<'_> {
    /// Submits a job under this id.
    async fn submit(&self, id: &str) -> Outcome {
        let job = item_of(self.client, id);
        let name = Name::from(job.as_str());
        let submit = async { self.jobs.submit(job).id(id).await.map(|_| true) };
        put_all(self.client, &[name], 0, submit).await
    }

    /// Returns the job with this id, if it has failed permanently.
    async fn failed(&self, id: &str) -> Result<Option<Name>, Failure> {
        let path = format!("{JOBS}/all/{id}");
        let (data, job) = match self.zk.get_data(&path).with_stat().await {
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
            read => read?,
        };
        let has_failed = |info: JobInfo| info.state.phase() == JobPhase::Failed;
        // Two reads of the same node show that the state in between belongs to this job, not to
        // another one with its id.
        let is_it = self.jobs.get(id).await?.is_some_and(has_failed)
            && self.zk.exists(path).await?.is_some_and(|now| now.czxid == job.czxid);
        Ok(is_it.then(|| name_of(&data)))
    }

    /// Deletes the record of a job. Returns `true` if there was one. Where ids are used repeatedly,
    /// it is unknown which job it was.
    async fn forget(&self, id: &str) -> Result<bool, Error> {
        let client = self.client;
        client.record(Queue::Withdrawing { queue: queue(), id: id.into() });
        let forgotten = self.jobs.forget(id).await;
        if matches!(forgotten, Ok(true)) {
            self.vacant(id);
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
    fn vacant(&self, id: &str) {
        self.client.record(Queue::Vacant { queue: queue(), id: id.into() });
    }
}

impl ClaimedQueue for Site<'_> {
    type Kind = Claimed;

    fn consumer(&self) -> JobWorker {
        self.jobs.worker(self.client.who().to_string())
    }

    /// Deletes the records of jobs that have ended. Returns `true` if there are no other jobs.
    async fn is_empty(&self) -> Result<bool, Failure> {
        // Lists in pages of all sizes.
        let infos = self.jobs.list().limit(self.client.rng().u32(1..20)).all().await?;
        // The list may lack a job that became pending again while it was read.
        let ids = match self.zk.children(format!("{JOBS}/all")).await {
            Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
            ids => ids?,
        };
        let mut others = ids.iter().any(|id| infos.iter().all(|info| info.id != *id));
        for job in infos {
            match job.state {
                JobState::Failed { .. } => {
                    if let Some(item) = self.failed(&job.id).await? {
                        self.client.record(Queue::Dead { queue: queue(), item });
                    }
                }
                JobState::Done { .. } => {}
                _ => {
                    others = true;
                    continue;
                }
            }
            self.forget(&job.id).await?;
        }
        Ok(!others)
    }

    async fn settle(&self, attempt: Attempt<'_>, job: JobDelivery) -> Result<(), Failure> {
        let (client, mut rng, name) = (self.client, self.client.rng(), name_of(job.data()));
        let held = delivered(client, attempt, &name, job.attempt(), job.fencing_token());
        if !hold_on(&held, job.lost(), uses(client, &held)).await {
            return too_late(job.complete()).await;
        }
        held.releasing();
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
                    self.vacant(&id);
                    Ok(())
                });
                done(client, &held, name, complete).await;
            }
            _ => done(client, &held, name, job.complete_with("result")).await,
        }
        Ok(())
    }

    async fn work(
        &self,
        attempt: Attempt<'_>,
        task: JobTask,
    ) -> Result<Option<Bytes>, &'static str> {
        let (client, name) = (self.client, name_of(&task.data));
        let token = task.claim.fencing_token();
        let job = LostIfDropped(delivered(client, attempt, &name, task.attempt, token));
        uses(client, &job.0).await;
        let mut rng = client.rng();
        let has_failed = rng.u8(..4) == 0;
        if has_failed && rng.bool() {
            task.retry_after(client.moment(Duration::from_secs(2)));
        }
        job.0.releasing();
        if has_failed {
            return Err("bad luck");
        }
        client.record(Queue::Finishing { queue: queue(), item: name });
        Ok(rng.bool().then(|| Bytes::from("result")))
    }
}
