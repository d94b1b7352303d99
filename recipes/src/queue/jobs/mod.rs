//! Jobs that workers claim, execute and complete, each claim and each end of it a checked transaction.
//!
//! # Layout
//! ```text
//! /jobs                                                persistent, as all below that is not said to be otherwise
//!   ├─ all
//!   │    └─ <id>                                           data: the job; there as long as anything is known of it
//!   ├─ pending                                         data: `buckets 1`
//!   │    └─ b-100000000|0000000003                        sequential: a bucket, as of a LockingQueue
//!   │         └─ job-100000000|<id>|<attempts>|0000000007     sequential at first: its number is its place
//!   ├─ executing
//!   │    └─ <uuid>                                         an attempt: data: the job, the session, the worker
//!   ├─ leases
//!   │    └─ <uuid>                                         ephemeral: of the worker with that attempt; data: its name, or `-`
//!   ├─ done                                            data: `buckets 1`
//!   │    └─ b|<hash>                                       a bucket, one of 1,024, by the id
//!   │         └─ <id>                                          data: the result
//!   ├─ failed                                          the same
//!   │    └─ b|<hash>
//!   │         └─ <id>                                          data: how often it was tried, and why it failed at last
//!   ├─ ids                                             submissions under way, as of a FifoQueue
//!   ├─ _r_<uuid>                                       ephemeral: a receipt of a worker that settles jobs
//!   ├─ line                                            container: workers that wait for a job
//!   └─ cleaner                                         container: the election of the cleaner
//! ```
//!
//! Pending jobs, results and failures are found as well where an earlier version of this crate has put them, without buckets.
//!
//! # Protocol
//! 1. Submit: in one transaction, create the job, its place among the pending, and a node with an id, as of
//!    [`FifoQueue`](super::FifoQueue).
//! 2. Claim: create a lease of a name that nobody else has; in one transaction, make sure of the lease, delete the place
//!    among the pending, create the attempt; read the job. All three in one flight.
//! 3. Complete: in one [certain](zk_curator::certain) transaction, make sure of the lease, delete it, delete the attempt, and keep the result, or delete
//!    the job. Give back or fail: the same, and create it anew at its old place among the pending, or among the failed.
//! 4. Clean: of the workers, one is elected to look for attempts without a lease. In one transaction it creates and deletes
//!    the lease, which proves that there is none, deletes the attempt, and creates the job anew at its old place; or
//!    among the failed, if that was its last attempt.
//!
//! A job costs four requests and two flights, after its submission.
//!
//! # Guarantees
//! * A job that is submitted is pending, executing, done or failed, at any moment in one of these states; with its id
//!   it is there once.
//! * Whoever has lost its lease, with its session or because somebody took it away, can neither complete the job nor
//!   fail it ([`Error::Lost`]): however long it was paused, and whoever executes the job meanwhile. What it has done
//!   elsewhere is for the [fencing token](Job::fencing_token) to tell, which grows from attempt to attempt.
//! * A job is not taken from a worker whose session lives. It is claimed again at the latest when that session is over, the
//!   cleaner has found out, and another worker comes to it.
//! * Jobs are claimed in the order of their submission; what comes back has its old place, among those that a worker
//!   lists next: a worker works through its list, of 10,000 jobs at most.
//! * No name is given twice, also when somebody deletes all of it and it is made anew.
//!
//! # Assumptions
//! Only users of these jobs write here. The clock of the servers, by which it is said [since](JobState::Executing)
//! when a job is executed, is for people.
//!
//! # Access control
//! New nodes get the ACL of the framework's [provider](zk_curator::acl::AclProvider). Everybody who uses the jobs may read all of
//! it, and has these rights:
//!
//! | node | who submits | workers and cleaners |
//! |---|---|---|
//! | `/jobs` | – | create, delete: receipts |
//! | `all` | create; delete, to cancel and to forget | delete |
//! | `pending` | create, write: buckets | create, delete: buckets |
//! | a bucket of it | create, write; delete, to cancel | create, delete, write |
//! | `executing`, `leases` | – | create, delete |
//! | `done`, `failed` | delete, to forget and to retry | create: buckets; write, to upgrade the layout |
//! | a bucket of these | delete, to forget and to retry | create |
//! | `ids` | create, delete, write | – |
//! | `line`, `cleaner` | – | create, delete |
//!
//! Who uses the jobs first creates these, which takes the right to create children of `/jobs`. A worker looks whether they are
//! there by creating them; so workers need it in any case. A right that is missing is an [`Error::Framework`] with
//! `NoAuth` and a path: without that to create children of `/jobs`, the end of a job fails with the path of the
//! receipt, `/jobs/_r_<uuid>`, and the job is given back.
//!
//! # Connection loss
//! * SUSPENDED: workers hold on to their jobs.
//! * LOST: the leases are gone with the session, [`Job::lost`] resolves, and the cleaner gives the jobs to others.
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::queue::jobs::{JobState, Jobs};
//!
//! let jobs = Jobs::new(&zk, "/jobs")?.max_attempts(3)?;
//! let id = jobs.submit("resize cat.png").await?;
//!
//! let mut worker = jobs.worker("worker-1");
//! let job = worker.next().await?;
//! assert_eq!((job.data(), job.attempt()), (&"resize cat.png".into(), 1));
//! let listed = &jobs.inspect().await?[0];
//! assert!(matches!(&listed.state, JobState::Executing { worker, .. } if worker == "worker-1"));
//! job.complete_with("cat-small.png").await?;
//!
//! assert_eq!(jobs.result(&id).await?.unwrap(), "cat-small.png");
//! jobs.forget(&id).await?;
//! # drop(worker);
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod cleaner;
mod inspect;
mod kept;
mod record;
mod worker;

use bytes::Bytes;
use futures_util::future::try_join_all;
pub use inspect::{JobInfo, JobState};
pub use worker::{Job, Task, Worker};
use zk_curator::op::CreateOp;
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind, OpResult};

use super::Error;
use super::buckets;
use super::layout::{QueueLayout, at_least_one};
use super::name::{ItemMeta, Kind};
use super::put::Producer;
use super::redelivery::MOST_DELIVERIES;
use crate::path::child;
use kept::{End, Flat, Node};
use record::{Executing, Failed};

/// So often it is looked again when something has changed in between.
const ROUNDS: usize = 50;

/// Jobs at a path: see [the module](self). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Jobs {
    places: Places,
    producer: Producer,
    max_attempts: Option<u32>,
}

/// Where everything is.
#[derive(Debug, Clone)]
struct Places {
    zk: CuratorFramework,
    path: ZPath,
    pending: QueueLayout,
    line: ZPath,
    flat: Flat,
}

impl Places {
    fn below(&self, directory: &str) -> String {
        child(&self.path, directory)
    }

    fn of(&self, directory: &str, name: &str) -> String {
        format!("{}/{name}", self.below(directory))
    }

    /// Creates what is missing of the directories.
    async fn prepare(&self) -> zk_curator::Result<()> {
        let create = |directory| async move {
            let has_buckets = ["pending", "done", "failed"].contains(&directory);
            let data = if has_buckets { buckets::LAYOUT } else { "" };
            match self.zk.create(self.below(directory)).creating_parents().data(data).idempotent().await {
                Err(error) if error.kind() == ErrorKind::NodeExists => Ok(()),
                created => created.map(drop),
            }
        };
        try_join_all(["all", "pending", "executing", "leases", "done", "failed"].map(create)).await.map(drop)
    }

    /// What becomes of the job of an attempt that has ended without success.
    fn after_attempt(&self, name: &str, why: &str, max_attempts: Option<u32>) -> Node {
        let meta = Kind::Job.meta(name).filter(|meta| max_attempts.is_some_and(|max| meta.times >= max));
        let Some(ItemMeta { id, times, .. }) = meta else { return Node::pending(self, name) };
        let failed = Failed { attempts: times, why: why.to_owned() };
        Node::kept(self, End::Failed, id, failed.encode())
    }

    /// The paths at which something may be kept of a job: in a bucket, and where an earlier version has put it.
    fn kept(&self, end: End, id: &str) -> [String; 2] {
        [kept::name(id), id.to_owned()].map(|name| self.of(end.directory(), &name))
    }
}

impl Jobs {
    /// The jobs at a path. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Framework`] when the path is not valid.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Result<Self, Error> {
        let path = ZPath::for_operation("jobs", path)?;
        let below = |name| ZPath::for_operation("jobs", child(&path, name));
        let pending = QueueLayout::new(zk, below("pending")?, Kind::Job);
        let mut producer = Producer::new(pending.clone());
        producer.with_ids(below("ids")?);
        Ok(Self {
            places: Places {
                zk: pending.zk.clone(),
                pending,
                line: below("line")?,
                path,
                flat: Flat::default(),
            },
            producer,
            max_attempts: Some(MOST_DELIVERIES),
        })
    }

    /// How often a job is tried at most, from 1; after that it has failed. Attempts count that failed, that were
    /// given back, and whose worker has died. All that use these jobs should have the same limit. Default: 20.
    ///
    /// # Errors
    /// [`Error::Zero`].
    pub fn max_attempts(mut self, limit: u32) -> Result<Self, Error> {
        self.max_attempts = Some(at_least_one("max_attempts", limit)?);
        Ok(self)
    }

    /// The number of pending jobs that are put into a bucket, from 1: as of a
    /// [`LockingQueue`](super::LockingQueue::bucket_size). With ids longer than 200 bytes, it should be smaller than the
    /// default, so that a listing remains below the 1 MB that servers commonly allow. Default: 4,096.
    ///
    /// # Errors
    /// [`Error::Zero`].
    pub fn bucket_size(self, jobs: u32) -> Result<Self, Error> {
        self.places.pending.set_bucket_size(jobs)?;
        Ok(self)
    }

    /// Puts pending jobs, results and failures into buckets also where an earlier version of this crate has put them without: as
    /// of a [`LockingQueue`](super::LockingQueue::upgrade_layout).
    #[must_use]
    pub fn upgrade_layout(self) -> Self {
        self.places.pending.upgrade_layout();
        self
    }

    /// Jobs are tried however often it takes: none fails for good but what is [rejected](Job::reject).
    #[must_use]
    pub const fn unlimited_attempts(mut self) -> Self {
        self.max_attempts = None;
        self
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
    pub async fn submit(&self, job: impl Into<Bytes>) -> Result<String, Error> {
        let id = self.places.zk.new_guid();
        self.submit_as(&id, job).await?;
        Ok(id)
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
    pub async fn submit_as(&self, id: &str, job: impl Into<Bytes>) -> Result<(), Error> {
        self.check_id(id)?;
        let job = self.places.pending.pack(job.into())?;
        let place = format!("{}{}", Kind::Job.tag(), ItemMeta { priority: 0, id, times: 0 });
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
        self.producer.flush().await
    }

    /// Withdraws a job that is pending: whether it was, and is gone. The pending jobs are listed for that.
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
            let names = buckets::names(&self.places.pending).await?;
            let is_it = |name: &&String| Kind::Job.meta(name).is_some_and(|meta| meta.id == id);
            let Some(name) = names.iter().find(is_it) else { return Ok(false) };
            let delete = zk.transaction().delete(self.places.of("pending", name));
            match delete.delete(self.places.of("all", id)).await {
                Ok(_) => return Ok(true),
                Err(error) if is_gone(&error, 0) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Makes a job pending again that has failed for good, at the end and with its attempts counted anew: whether it had.
    ///
    /// # Errors
    /// [`Error::Framework`]; [`may_have_applied`](zk_curator::Error::may_have_applied) when it may be pending.
    ///
    /// # Cancel safety
    /// Once polled, the job may be pending.
    pub async fn retry(&self, id: &str) -> Result<bool, Error> {
        self.check_id(id)?;
        for failed in self.places.kept(End::Failed, id) {
            if self.retry_at(id, &failed).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same for a job of which this node is kept.
    async fn retry_at(&self, id: &str, failed: &str) -> Result<bool, Error> {
        let place = format!("{}{}", Kind::Job.tag(), ItemMeta { priority: 0, id, times: 0 });
        let pending = &self.places.pending;
        let Some(buckets) = &pending.buckets else { return Ok(false) };
        loop {
            let target = buckets.target(pending, 0, 1).await?;
            let create = CreateOp::new(target.item(&place)).data("").mode(CreateMode::PersistentSequential);
            let retried = self.places.zk.transaction().delete(failed);
            match target.check(retried).with(create).await {
                Err(error) if target.is_stale(&error) => buckets.gone(0, &target).await,
                retried => {
                    let results = retried.as_deref().unwrap_or_default();
                    buckets.put(0, &target, results.iter().filter_map(OpResult::created_path)).await;
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
        let [done, failed] = End::ALL.map(|end| self.places.kept(end, id));
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
        for path in self.places.kept(End::Done, id) {
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
    /// What changes meanwhile may be seen before or after; a job that comes back in this moment, not at all.
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn inspect(&self) -> Result<Vec<JobInfo>, Error> {
        inspect::inspect(&self.places).await
    }

    /// A worker with this name, which is for people. Nothing is sent yet. With the first job that is asked for it also
    /// becomes a candidate for the [cleaner](Self::clean), in a background task that ends when it is dropped or the
    /// framework is closed. What [`clean`](Self::clean) fails with is told by
    /// [`background_errors`](CuratorFramework::background_errors); the candidate comes back after a pause of a second to a
    /// minute.
    pub fn worker(&self, name: impl Into<String>) -> Worker {
        Worker::new(self.clone(), name.into())
    }

    /// Takes part in the election of the cleaner, and gives jobs of workers that have died to others while elected. Every
    /// [`Worker`] does so; this is for processes that have none.
    ///
    /// # Errors
    /// [`Error::Framework`] with `Closed`, and what else no repetition mends. An attempt whose end is refused, for example
    /// by an ACL, is no such error: it is told by
    /// [`background_errors`](CuratorFramework::background_errors), once, and tried again every minute.
    ///
    /// # Cancel safety
    /// Dropping it leaves the election.
    pub async fn clean(&self) -> Result<(), Error> {
        cleaner::run(&self.places, self.max_attempts).await
    }

    fn check_id(&self, id: &str) -> Result<(), Error> {
        let is_name = !id.is_empty() && !id.contains(['/', '|']) && self.places.path.join(id).is_ok();
        if is_name { Ok(()) } else { Err(Error::InvalidId { id: id.to_owned() }) }
    }
}

/// Whether a transaction failed because the node of one of its operations was not there.
fn is_gone(error: &zk_curator::Error, of: usize) -> bool {
    matches!(error.kind(), ErrorKind::TransactionFailed { index, code: ErrorCode::NoNode } if index == of)
}

/// Whether there was what a transaction was about, with its first operation.
fn found(result: zk_curator::Result<()>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if is_gone(&error, 0) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
