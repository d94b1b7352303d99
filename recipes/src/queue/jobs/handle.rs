use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use zk_curator::internal::Setbacks;
use zk_curator::op::CreateOp;
use zk_curator::path::ZPath;
use zk_curator::value::ToData;
use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind, OpResult};

use super::inspect::{self, JobCounts, JobInfo};
use super::list::JobList;
use super::listing;
use super::places::{JobEnd, Places, is_gone};
use super::record::FailedJobRecord;
use super::retention::{Policy, Retention};
use super::{cleaner, kept, later};
use crate::health::HealthReporter;
use crate::path::child;
use crate::queue::consume::consumer::Consumer;
use crate::queue::error::Error;
use crate::queue::jobs::job::JobWorker;
use crate::queue::produce::buckets::Buckets;
use crate::queue::produce::producer::Producer;
use crate::queue::wire::layout::{QueueLayout, at_least_one};
use crate::queue::wire::name::{ItemMeta, NamingRules};
use crate::queue::wire::value::encode;
use crate::race::RACE_ROUNDS;

/// Jobs at a path: see [the module](super). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Jobs {
    places: Places,
    buckets: Arc<Buckets>,
    producer: Producer,
    policy: Policy,
    refresh_after: u32,
}

impl Jobs {
    /// Returns the jobs at a path. Nothing is sent. The first operation reports an invalid path.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let path = path.into();
        let mut pending = QueueLayout::below(zk, &path, child(&path, "pending"), NamingRules::Job);
        let line = pending.valid_path("queue", child(&path, "line"));
        let buckets = Arc::new(Buckets::new(pending.clone()));
        let mut producer = Producer::in_buckets(&buckets);
        producer.with_ids(child(&path, "ids"));
        let places = Places { zk: pending.zk.clone(), pending, line, path };
        Self { places, buckets, producer, policy: Policy::default(), refresh_after: u32::MAX }
    }

    /// Sets the maximum number of attempts at a job, from 1, after which it has failed. Every claim
    /// is an attempt, whatever its end: also if the worker died or lost its session, or was
    /// dropped, before the job was executed. So a job is executed at most this many times, and may
    /// fail permanently after fewer executions. All users of these jobs should set the same limit.
    /// Default: 20.
    #[must_use]
    pub fn max_attempts(mut self, limit: u32) -> Self {
        let limited = at_least_one(&self.places.path, "max_attempts", limit);
        self.places.pending.note(limited);
        self.policy.max_attempts = Some(limit);
        self
    }

    /// Sets the number of pending jobs that are put into a bucket, from 1, as for a
    /// [`LockingQueue`](crate::queue::LockingQueue::bucket_size). With ids longer than 200 bytes,
    /// it should be smaller than the default, so that a listing remains below the 1 MB that servers
    /// commonly allow. Default: 4,096.
    #[must_use]
    pub fn bucket_size(mut self, jobs: u32) -> Self {
        self.places.pending.set_bucket_size(jobs);
        self
    }

    /// Retries jobs without a limit: a job fails permanently only if it is
    /// [rejected](crate::queue::Delivery::reject).
    #[must_use]
    pub const fn unlimited_attempts(mut self) -> Self {
        self.policy.max_attempts = None;
        self
    }

    /// Makes workers check, before each job, whether a job with a better
    /// [priority](Submission::priority) has arrived since their last listing. This costs one more
    /// request per job, but no additional round trip. Default: they check at the end of their list,
    /// of at most 10,000 jobs. Claimed jobs are not released for better ones.
    #[must_use]
    pub const fn prioritized(mut self) -> Self {
        self.refresh_after = 1;
        self
    }

    /// Sets which done jobs are kept, with their results: a number from 1, a time, or both. Once a
    /// minute the [cleaner](Self::clean) deletes the other ones, at two requests each. All users of
    /// these jobs should set the same value. Default: the newest 10,000.
    ///
    /// Zero is refused by every operation. To keep nothing, complete jobs
    /// [without a result](crate::queue::Delivery::complete).
    #[must_use]
    pub fn keep_done(mut self, kept: impl Into<Retention>) -> Self {
        self.policy.done = kept.into();
        self.check_retention("keep_done", self.policy.done);
        self
    }

    /// Sets which jobs are kept that have failed permanently, as [`keep_done`](Self::keep_done).
    /// Default: the newest 10,000.
    #[must_use]
    pub fn keep_failed(mut self, kept: impl Into<Retention>) -> Self {
        self.policy.failed = kept.into();
        self.check_retention("keep_failed", self.policy.failed);
        self
    }

    /// Sets the clock that decides when [delayed](super::JobState::Delayed) jobs become pending
    /// again and which jobs are kept. Default: the clock of the system.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.places.pending.clock = Arc::new(clock);
        self
    }

    fn check_retention(&mut self, setting: &'static str, kept: Retention) {
        let checked = at_least_one(&self.places.path, setting, u8::from(!kept.has_zero()));
        self.places.pending.note(checked);
    }

    /// Submits a job exactly once. Nothing is sent until the result is awaited: see [`Submission`]
    /// for the id and the priority.
    ///
    /// **Awaiting returns** the id: a UUID, unless it was [set](Submission::id).
    ///
    /// # Errors
    /// * [`Error::Exists`] if a job with this id exists, in any state.
    /// * [`Error::InvalidId`] for an id that is empty, or contains `/`, `|`, or a character that is
    ///   not allowed in a node's name.
    /// * [`Error::Unencodable`].
    /// * [`Error::Framework`]: `TooLarge`, before anything is sent, if servers would not accept the
    ///   job; with [`may_have_applied`](zk_curator::Error::may_have_applied) if the outcome could
    ///   not be determined for as long as the retry policy allows.
    ///
    /// # Cancel safety
    /// Once polled, the job may be submitted.
    pub fn submit(&self, job: impl ToData) -> Submission {
        Submission {
            jobs: self.clone(),
            job: encode(&self.places.path, &job),
            id: None,
            priority: 0,
        }
    }

    async fn submit_with(&self, id: &str, job: Bytes, priority: i32) -> Result<(), Error> {
        self.check_id(id)?;
        let job = self.places.pending.pack(job)?;
        let place = format!("{}{}", NamingRules::Job.tag(), ItemMeta { priority, id, times: 0 });
        let items = [(place, Bytes::new())];
        for round in 1.. {
            let all = CreateOp::new(self.places.of("all", id)).data(job.clone());
            let Err(error) = self.producer.put_with(&items, all).await else { break };
            let Error::Framework(failed) = &error else { return Err(error) };
            match failed.kind() {
                ErrorKind::TransactionFailed { code: ErrorCode::NodeExists, .. } => {
                    return Err(Error::Exists {
                        path: self.places.path.clone(),
                        id: id.to_owned(),
                    });
                }
                ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. }
                    if round < RACE_ROUNDS =>
                {
                    self.places.prepare().await?;
                }
                _ => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until all submissions are complete, and deletes their ids, which are no longer needed.
    ///
    /// # Errors
    /// [`Error::Framework`] if an id cannot be deleted; the deletion continues in the background.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn flush(&self) -> Result<(), Error> {
        self.places.pending.check()?;
        self.producer.flush().await
    }

    /// Withdraws a pending or delayed job. Returns `true` if there was one and it was deleted.
    /// Lists the pending jobs and reads the delayed ones.
    ///
    /// # Errors
    /// [`Error::Framework`]; with [`may_have_applied`](zk_curator::Error::may_have_applied) if the
    /// job may have been withdrawn.
    ///
    /// # Cancel safety
    /// Once the future was polled, the job may have been withdrawn.
    pub async fn cancel(&self, id: impl Into<String>) -> Result<bool, Error> {
        let id = &*id.into();
        self.check_id(id)?;
        let zk = &self.places.zk;
        for _ in 0..RACE_ROUNDS {
            // The job may just have been submitted through another server.
            zk.exists(self.places.pending.path.as_str()).linearizable().await?;
            // In this order, because a delayed job becomes pending.
            let delayed = later::find(&self.places, id).await?;
            let pending = listing::find_pending(&self.places, id).await?;
            let pending = pending.map(|name| self.places.of("pending", &name));
            let Some(place) = pending.or(delayed) else { return Ok(false) };
            match zk.transaction().delete(place).delete(self.places.of("all", id)).await {
                Ok(_) => return Ok(true),
                // The job has moved since.
                Err(error) if is_gone(&error, 0) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Makes a permanently failed job pending again, behind all other jobs of its priority and
    /// without any counted attempts. Returns `true` if there was one.
    ///
    /// # Errors
    /// [`Error::Framework`]; with [`may_have_applied`](zk_curator::Error::may_have_applied) if the
    /// job may be pending.
    ///
    /// # Cancel safety
    /// Once polled, the job may be pending.
    pub async fn retry(&self, id: impl Into<String>) -> Result<bool, Error> {
        let id = &*id.into();
        self.check_id(id)?;
        let failed = kept::path(&self.places, JobEnd::Failed, id);
        // The job may just have failed through another server.
        let priority = match self.places.zk.get_data(&failed).linearizable().await {
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(false),
            data => FailedJobRecord::parse(&data?).map_or(0, |failed| failed.priority),
        };
        let place = format!("{}{}", NamingRules::Job.tag(), ItemMeta { priority, id, times: 0 });
        let buckets = &self.buckets;
        loop {
            let target = buckets.target(priority, 1).await?;
            let create =
                CreateOp::new(target.item(&place)).data("").mode(CreateMode::PersistentSequential);
            let retried = self.places.zk.transaction().delete(&failed);
            match target.check(retried).with(create).await {
                Err(error) if target.is_stale(&error) => buckets.gone(priority, &target).await,
                retried => {
                    let results = retried.as_deref().unwrap_or_default();
                    buckets
                        .put(priority, &target, results.iter().filter_map(OpResult::created_path))
                        .await;
                    return found(retried.map(drop));
                }
            }
        }
    }

    /// Deletes a job that is done or has failed permanently, with its result. Returns `true` if
    /// there was one.
    ///
    /// # Errors
    /// [`Error::Framework`]; with [`may_have_applied`](zk_curator::Error::may_have_applied) if the
    /// job may have been deleted.
    ///
    /// # Cancel safety
    /// Once polled, it may be deleted.
    pub async fn forget(&self, id: impl Into<String>) -> Result<bool, Error> {
        let id = &*id.into();
        self.check_id(id)?;
        for end in JobEnd::ALL {
            let forget = self.places.zk.transaction().delete(kept::path(&self.places, end, id));
            if found(forget.delete(self.places.of("all", id)).await.map(drop))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the result of a done job, unless it was not kept, or was [forgotten](Self::forget).
    ///
    /// # Errors
    /// [`Error::Framework`] as for a read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn result(&self, id: impl Into<String>) -> Result<Option<Bytes>, Error> {
        let id = &*id.into();
        self.check_id(id)?;
        let path = kept::path(&self.places, JobEnd::Done, id);
        match self.places.zk.get_data(&path).await {
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            result => {
                let corrupt = |why| Error::Corrupt { path, why };
                Ok(Some(self.places.pending.unpack(result?).map_err(corrupt)?))
            }
        }
    }

    /// Returns a job in any state, with its payload and its result, as far as the connected server
    /// knows. `None` if no job has this id, or an operator has deleted its place.
    ///
    /// One request finds a job that has ended. Otherwise all attempts and delayed jobs are read,
    /// 256 per request, and then the pending jobs are listed, 32,768 per request, until the job is
    /// found.
    ///
    /// # Errors
    /// * [`Error::InvalidId`].
    /// * [`Error::Framework`] as for a read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get(&self, id: impl Into<String>) -> Result<Option<JobInfo>, Error> {
        let id = id.into();
        self.check_id(&id)?;
        inspect::get(&self.places, &id).await
    }

    /// Counts the jobs in each state. A job that changes during the count may be counted in two
    /// states, or in none.
    ///
    /// Takes two round trips, and one request plus one for every 256 buckets. Pending jobs have a
    /// bucket for every 4,096 jobs of a priority; done and failed jobs have up to 1,024 buckets
    /// each. So a million pending jobs of one priority take at most nine requests. Servers before
    /// ZooKeeper 3.6 need one request for each bucket. No job is read.
    ///
    /// A node that other programs have created is not counted if its name is not that of a job in
    /// this state, except in the buckets of done and failed jobs, and in those of pending jobs if
    /// there are more than 16 of them.
    ///
    /// # Errors
    /// [`Error::Framework`] as for a read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    #[doc(alias = "count")]
    pub async fn counts(&self) -> Result<JobCounts, Error> {
        self.places.pending.check()?;
        inspect::count(&self.places).await
    }

    /// Lists jobs, a page at a time. Nothing is sent until the result is awaited: see [`JobList`]
    /// for the filter, the size of a page and payloads.
    ///
    /// **Awaiting returns** a [`JobPage`](super::JobPage). Jobs are listed by state: pending ones
    /// in the order of claims, then executing jobs, delayed jobs by the time when they are pending
    /// again, done jobs, and failed jobs. A job that changes its state during the listing may
    /// appear in the old or in the new state; a job that becomes pending again may be missed.
    ///
    /// The number of requests for a page does not depend on the number of jobs: at most 32, plus
    /// one for every seven jobs of its [limit](JobList::limit), and usually two to ten. If a
    /// response exceeds the [limit](zk_curator::CuratorFrameworkBuilder::max_response), its data
    /// are requested again in two halves.
    ///
    /// ```
    /// # use zk_curator_recipes::queue::jobs::{JobPhase, Jobs};
    /// # async fn show(jobs: &Jobs) -> Result<(), zk_curator_recipes::queue::Error> {
    /// let failed = jobs.list().only([JobPhase::Failed]).limit(20).with_payload();
    /// let mut page = failed.clone().await?;
    /// loop {
    ///     for job in &page.jobs {
    ///         println!("{} {:?} {:?}", job.id, job.state, job.payload()?);
    ///     }
    ///     let Some(next) = page.next else { break };
    ///     page = failed.clone().after(next).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// * [`Error::Zero`] for a limit of zero.
    /// * [`Error::Framework`] as every read of the framework; `InvalidArgument` for an invalid
    ///   [position](JobList::after).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub fn list(&self) -> JobList {
        JobList::new(self.places.clone())
    }

    /// Returns a worker with this name, which is only informative. Nothing is sent yet. When the
    /// first job is requested, the worker also becomes a candidate for the [cleaner](Self::clean),
    /// in a background task that ends when the worker is dropped or the framework is closed.
    /// [`background_errors`](CuratorFramework::background_errors) reports errors of
    /// [`clean`](Self::clean); after an error the candidate pauses for a second to a minute.
    pub fn worker(&self, name: impl Into<String>) -> JobWorker {
        Consumer::leasing(self.places.clone(), self.policy, self.refresh_after, name.into())
    }

    /// Takes part in the election of the cleaner. While elected, it makes jobs of dead workers and
    /// due delayed jobs pending again, and deletes jobs that are not [kept](Self::keep_done). Every
    /// [worker](Self::worker) does this; call it in processes without a worker.
    ///
    /// # Errors
    /// [`Error::Framework`] with `Closed`, or with another error that a retry cannot fix. If ending
    /// a single attempt is refused, for example by an ACL,
    /// [`background_errors`](CuratorFramework::background_errors) reports it once, and it is
    /// retried every minute.
    ///
    /// # Cancel safety
    /// Dropping it leaves the election.
    pub async fn clean(&self) -> Result<(), Error> {
        self.places.pending.check()?;
        let (health, mut setbacks) = (HealthReporter::default(), Setbacks::default());
        cleaner::run(&self.places, self.policy, &health, &mut setbacks).await
    }

    fn check_id(&self, id: &str) -> Result<(), Error> {
        self.places.pending.check()?;
        let path = ZPath::for_operation("job", self.places.of("all", id));
        let is_name = !id.is_empty() && !id.contains(['/', '|']) && path.is_ok();
        if is_name {
            Ok(())
        } else {
            Err(Error::InvalidId { path: self.places.path.clone(), id: id.to_owned() })
        }
    }
}

/// A job to submit: see [`Jobs::submit`]. Awaiting it submits the job.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct Submission {
    jobs: Jobs,
    job: Result<Bytes, Error>,
    id: Option<String>,
    priority: i32,
}

impl Submission {
    /// Sets the id. The job is not submitted if another job with this id exists, in any state. Ids
    /// longer than 200 bytes need a smaller [bucket size](Jobs::bucket_size). Default: a UUID.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the priority, any `i32`. Jobs with a lower number come first, as in Curator's
    /// `DistributedPriorityQueue`: [`i32::MIN`] is the first, [`i32::MAX`] the last. See
    /// [`Jobs::prioritized`]. Default: zero.
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    async fn run(self) -> Result<String, Error> {
        let Self { jobs, job, id, priority } = self;
        let id = id.unwrap_or_else(|| jobs.places.zk.new_guid());
        jobs.submit_with(&id, job?, priority).await?;
        Ok(id)
    }
}

impl IntoFuture for Submission {
    type Output = Result<String, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Returns `true` if the node of the first operation of a transaction existed.
fn found(result: zk_curator::Result<()>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if is_gone(&error, 0) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
