use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use zk_curator::op::CreateOp;
use zk_curator::path::ZPath;
use zk_curator::value::ToData;
use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind, OpResult};

use super::inspect::{self, JobInfo};
use super::places::{End, Flat, Places, is_gone};
use super::record::Failed;
use super::retention::{Policy, Retention};
use super::worker::Worker;
use super::{cleaner, kept, later};
use crate::health::HealthReporter;
use crate::path::child;
use crate::queue::buckets::{self, Buckets};
use crate::queue::core::name::{ItemMeta, Kind};
use crate::queue::error::Error;
use crate::queue::layout::{QueueLayout, at_least_one};
use crate::queue::put::Producer;
use crate::queue::value::encode;

/// The number of attempts when something changes in between.
const ROUNDS: usize = 50;

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
    /// The jobs at a path. Nothing is sent. An invalid path is refused by the first operation.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let path = path.into();
        let mut pending = QueueLayout::below(zk, &path, child(&path, "pending"), Kind::Job);
        let line = pending.valid_path("queue", child(&path, "line"));
        let buckets = Arc::new(Buckets::new(pending.clone()));
        let mut producer = Producer::in_buckets(&buckets);
        producer.with_ids(child(&path, "ids"));
        let places = Places { zk: pending.zk.clone(), pending, line, path, flat: Flat::default() };
        Self { places, buckets, producer, policy: Policy::default(), refresh_after: u32::MAX }
    }

    /// Sets the most attempts at a job, from 1; after that it has failed. Attempts count that failed, that were
    /// given back, and whose worker has died. All that use these jobs should have the same limit. Default: 20.
    #[must_use]
    pub fn max_attempts(mut self, limit: u32) -> Self {
        self.places.pending.note(at_least_one("max_attempts", limit));
        self.policy.max_attempts = Some(limit);
        self
    }

    /// The number of pending jobs that are put into a bucket, from 1: as of a
    /// [`LockingQueue`](crate::queue::LockingQueue::bucket_size). With ids longer than 200 bytes, it should be smaller than the
    /// default, so that a listing remains below the 1 MB that servers commonly allow. Default: 4,096.
    #[must_use]
    pub fn bucket_size(mut self, jobs: u32) -> Self {
        self.places.pending.set_bucket_size(jobs);
        self
    }

    /// Puts pending jobs, results and failures into buckets also where an earlier version of this crate has put them without: as
    /// of a [`LockingQueue`](crate::queue::LockingQueue::upgrade_layout).
    #[must_use]
    pub fn upgrade_layout(self) -> Self {
        self.places.pending.upgrade_layout();
        self
    }

    /// Jobs are tried however often it takes: none fails for good but what is [rejected](super::Job::reject).
    #[must_use]
    pub const fn unlimited_attempts(mut self) -> Self {
        self.policy.max_attempts = None;
        self
    }

    /// Workers look for jobs that were submitted with a [priority](Submission::priority) meanwhile, and come before those that
    /// they have listed: with every job that they take, which costs one request more and no flight. Default: they look when they
    /// have worked through their list, of 10,000 jobs at most. Jobs that are claimed already are not given back for better ones.
    #[must_use]
    pub const fn prioritized(mut self) -> Self {
        self.refresh_after = 1;
        self
    }

    /// Sets which jobs are kept that are done, with their results: a number from 1, a time, or both. The
    /// [cleaner](Self::clean) deletes the others, once a minute: each costs two requests. All that use these jobs should agree.
    /// Default: the newest 10,000.
    ///
    /// Zero is refused by every operation. To keep nothing, complete jobs [without a result](super::Job::complete).
    #[must_use]
    pub fn keep_done(mut self, kept: impl Into<Retention>) -> Self {
        self.policy.done = kept.into();
        self.check_retention("keep_done", self.policy.done);
        self
    }

    /// Sets which jobs are kept that have failed for good, as [`keep_done`](Self::keep_done). Default: the newest 10,000.
    #[must_use]
    pub fn keep_failed(mut self, kept: impl Into<Retention>) -> Self {
        self.policy.failed = kept.into();
        self.check_retention("keep_failed", self.policy.failed);
        self
    }

    /// Sets the source of the time, which decides when [delayed](super::JobState::Delayed) jobs are pending again and which jobs
    /// are kept. Default: the clock of the system.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.places.pending.clock = Arc::new(clock);
        self
    }

    fn check_retention(&mut self, setting: &'static str, kept: Retention) {
        self.places.pending.note(at_least_one(setting, u8::from(!kept.has_zero())));
    }

    /// Submits a job, once, and returns its id, a UUID.
    ///
    /// # Errors
    /// [`Error::Framework`]; `TooLarge` when servers would not accept it, before anything is sent;
    /// [`may_have_applied`](zk_curator::Error::may_have_applied) when nobody could tell for longer than the retry policy
    /// allows.
    ///
    /// # Cancel safety
    /// Once polled, the job may be submitted.
    pub async fn submit(&self, job: impl ToData) -> Result<String, Error> {
        self.job(job).submit().await
    }

    /// Submits a job under an id of yours, unless there is one with that id, in whatever state.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    /// * [`Error::Exists`] when there is a job with this id.
    /// * [`Error::InvalidId`] for an id that is empty, or has a `/`, a `|`, or what else cannot be in a name.
    ///
    /// # Cancel safety
    /// Once polled, the job may be submitted.
    pub async fn submit_as(&self, id: &str, job: impl ToData) -> Result<(), Error> {
        self.job(job).id(id).submit().await.map(drop)
    }

    /// Begins to submit a job with an id or a priority. Nothing is sent until it is [submitted](Submission::submit).
    pub fn job(&self, job: impl ToData) -> Submission {
        Submission { jobs: self.clone(), job: encode(&self.places.path, &job), id: None, priority: 0 }
    }

    async fn submit_with(&self, id: &str, job: Bytes, priority: i32) -> Result<(), Error> {
        self.check_id(id)?;
        let job = self.places.pending.pack(job)?;
        let place = format!("{}{}", Kind::Job.tag(), ItemMeta { priority, id, times: 0 });
        let items = [(place, Bytes::new())];
        for round in 1.. {
            let all = CreateOp::new(self.places.of("all", id)).data(job.clone());
            let Err(error) = self.producer.put_with(&items, all).await else { break };
            let Error::Framework(failed) = &error else { return Err(error) };
            match failed.kind() {
                ErrorKind::TransactionFailed { code: ErrorCode::NodeExists, .. } => {
                    return Err(Error::Exists { id: id.to_owned() });
                }
                ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. } if round < ROUNDS => {
                    self.places.prepare().await?;
                }
                _ => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until all submissions are answered, and deletes the ids of them that are not needed any more.
    ///
    /// # Errors
    /// [`Error::Framework`] when an id cannot be deleted; that goes on in the background.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn flush(&self) -> Result<(), Error> {
        self.places.pending.check()?;
        self.producer.flush().await
    }

    /// Withdraws a job that is pending or delayed: whether it was, and is gone. The pending jobs are listed for that, and the
    /// delayed ones read.
    ///
    /// # Errors
    /// [`Error::Framework`]; [`may_have_applied`](zk_curator::Error::may_have_applied) when it may be withdrawn.
    ///
    /// # Cancel safety
    /// Once polled, the job may be withdrawn.
    pub async fn cancel(&self, id: &str) -> Result<bool, Error> {
        self.check_id(id)?;
        let zk = &self.places.zk;
        for _ in 0..ROUNDS {
            // It may have just been submitted through another server.
            zk.exists(self.places.pending.path.as_str()).linearizable().await?;
            // In this order: a delayed job becomes pending.
            let delayed = later::find(&self.places, id).await?;
            let names = buckets::names(&self.places.pending).await?;
            let is_it = |name: &&String| Kind::Job.meta(name).is_some_and(|meta| meta.id == id);
            let pending = names.iter().find(is_it).map(|name| self.places.of("pending", name));
            let delayed = delayed.map(|delayed| later::place(&self.places, &delayed));
            let Some(place) = pending.or(delayed) else { return Ok(false) };
            match zk.transaction().delete(place).delete(self.places.of("all", id)).await {
                Ok(_) => return Ok(true),
                // Somewhere else by now.
                Err(error) if is_gone(&error, 0) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Makes a job pending again that has failed for good, at the end of its priority and with its attempts counted from zero:
    /// whether it had.
    ///
    /// # Errors
    /// [`Error::Framework`]; [`may_have_applied`](zk_curator::Error::may_have_applied) when it may be pending.
    ///
    /// # Cancel safety
    /// Once polled, the job may be pending.
    pub async fn retry(&self, id: &str) -> Result<bool, Error> {
        self.check_id(id)?;
        for failed in kept::paths(&self.places, End::Failed, id) {
            if self.retry_at(id, &failed).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the state of a job whose result is kept in this node.
    async fn retry_at(&self, id: &str, failed: &str) -> Result<bool, Error> {
        // It may have just failed at another server.
        let priority = match self.places.zk.get_data(failed).linearizable().await {
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(false),
            data => Failed::parse(&data?).map_or(0, |failed| failed.priority),
        };
        let place = format!("{}{}", Kind::Job.tag(), ItemMeta { priority, id, times: 0 });
        let buckets = &self.buckets;
        loop {
            let target = buckets.target(priority, 1).await?;
            let create = CreateOp::new(target.item(&place)).data("").mode(CreateMode::PersistentSequential);
            let retried = self.places.zk.transaction().delete(failed);
            match target.check(retried).with(create).await {
                Err(error) if target.is_stale(&error) => buckets.gone(priority, &target).await,
                retried => {
                    let results = retried.as_deref().unwrap_or_default();
                    buckets.put(priority, &target, results.iter().filter_map(OpResult::created_path)).await;
                    return found(retried.map(drop));
                }
            }
        }
    }

    /// Deletes what is kept of a job that is done, or has failed for good: whether there was one.
    ///
    /// # Errors
    /// [`Error::Framework`]; [`may_have_applied`](zk_curator::Error::may_have_applied) when it may be deleted.
    ///
    /// # Cancel safety
    /// Once polled, it may be deleted.
    pub async fn forget(&self, id: &str) -> Result<bool, Error> {
        self.check_id(id)?;
        let [done, failed] = End::ALL.map(|end| kept::paths(&self.places, end, id));
        let [done, flat_done] = done;
        let [failed, flat_failed] = failed;
        for kept in [done, failed, flat_done, flat_failed] {
            let forget = self.places.zk.transaction().delete(kept);
            if found(forget.delete(self.places.of("all", id)).await.map(drop))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The result of a job that is done, if it was kept and is not [forgotten](Self::forget).
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn result(&self, id: &str) -> Result<Option<Bytes>, Error> {
        self.check_id(id)?;
        for path in kept::paths(&self.places, End::Done, id) {
            match self.places.zk.get_data(&path).await {
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                result => {
                    let corrupt = |why| Error::Corrupt { path, why };
                    return Ok(Some(self.places.pending.unpack(result?).map_err(corrupt)?));
                }
            }
        }
        Ok(None)
    }

    /// All that is known, by the ids of the jobs: which state they are in, and who executes what. Two requests for each job
    /// at most, none for those that are pending.
    ///
    /// A job that changes meanwhile may be seen before or after; a job that comes back in this moment, not at all.
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn inspect(&self) -> Result<Vec<JobInfo>, Error> {
        self.places.pending.check()?;
        inspect::inspect(&self.places).await
    }

    /// A worker with this name, which is for people. Nothing is sent yet. With the first job that is asked for it also
    /// becomes a candidate for the [cleaner](Self::clean), in a background task that ends when it is dropped or the
    /// framework is closed. What [`clean`](Self::clean) fails with is told by
    /// [`background_errors`](CuratorFramework::background_errors); the candidate comes back after a pause of a second to a
    /// minute.
    pub fn worker(&self, name: impl Into<String>) -> Worker {
        Worker::new(self.places.clone(), self.policy, self.refresh_after, name.into())
    }

    /// Takes part in the election of the cleaner. While elected, it gives jobs of workers that have died to others, makes delayed
    /// jobs pending when their time has come, and deletes what is not [kept](Self::keep_done). Every [`Worker`] does so; this is
    /// for processes that have none.
    ///
    /// # Errors
    /// [`Error::Framework`] with `Closed`, and what else no repetition mends. An attempt whose end is refused, for example
    /// by an ACL, is no such error: it is told by
    /// [`background_errors`](CuratorFramework::background_errors), once, and tried again every minute.
    ///
    /// # Cancel safety
    /// Dropping it leaves the election.
    pub async fn clean(&self) -> Result<(), Error> {
        self.places.pending.check()?;
        cleaner::run(&self.places, self.policy, &HealthReporter::default()).await
    }

    fn check_id(&self, id: &str) -> Result<(), Error> {
        self.places.pending.check()?;
        let path = ZPath::for_operation("job", self.places.of("all", id));
        let is_name = !id.is_empty() && !id.contains(['/', '|']) && path.is_ok();
        if is_name { Ok(()) } else { Err(Error::InvalidId { id: id.to_owned() }) }
    }
}

/// A job that is to be submitted: see [`Jobs::job`].
#[derive(Debug)]
#[must_use = "nothing is sent until it is submitted"]
pub struct Submission {
    jobs: Jobs,
    job: Result<Bytes, Error>,
    id: Option<String>,
    priority: i32,
}

impl Submission {
    /// Sets the id. Default: a UUID.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the priority: jobs with a lower number come first, as in Curator's `DistributedPriorityQueue`. See
    /// [`Jobs::prioritized`]. Default: zero.
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Submits the job, once, and returns its id.
    ///
    /// # Errors
    /// As [`Jobs::submit_as`].
    ///
    /// # Cancel safety
    /// Once polled, the job may be submitted.
    pub async fn submit(self) -> Result<String, Error> {
        let Self { jobs, job, id, priority } = self;
        let id = id.unwrap_or_else(|| jobs.places.zk.new_guid());
        jobs.submit_with(&id, job?, priority).await?;
        Ok(id)
    }
}

/// Whether there was what a transaction was about, with its first operation.
fn found(result: zk_curator::Result<()>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if is_gone(&error, 0) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
