use std::fmt;
use std::future::{Future, IntoFuture, pending};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use futures_util::stream::Stream;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;
use zk_curator::op::Transaction;
use zk_curator::{CreateMode, ErrorCode, ErrorKind, OwnedNode};

use super::cleaner;
use super::job::{Job, Task};
use super::places::{Places, is_gone};
use super::record::Executing;
use super::retention::Policy;
use crate::health::{HealthReporter, HealthWatch};
use crate::queue::core::name::{ItemMeta, Kind};
use crate::queue::driver::{
    self, Claimed, Claimer, Claims, FeedDriver, Receipts, Returned, Source, Turn, log_unsettled, unless_lost,
};
use crate::queue::error::Error;
use crate::queue::layout::QueueLayout;
use crate::queue::redelivery::Backoff;

/// Claims jobs. See [the module](super).
///
/// # Cancel safety
/// Dropping it gives back the jobs that it has claimed and not handed out; the cleaner makes them pending again.
pub struct Worker {
    claims: Claims<Executed>,
    /// Ends the candidacy for the cleaner.
    cleaner: Option<DropGuard>,
    /// That of the cleaner, until its task begins.
    reporter: Option<HealthReporter>,
    health: HealthWatch,
    backoff: Backoff,
}

impl Worker {
    pub(super) fn new(places: Places, policy: Policy, refresh_after: u32, worker: String) -> Self {
        let feed = FeedDriver::new(places.pending.clone(), Some(places.line.clone()), refresh_after);
        let receipts = Receipts::below(&places.pending, places.path.as_str());
        let claims = Claims::new(feed, Executed { places, worker, policy, receipts });
        let reporter = HealthReporter::default();
        let health = reporter.watch();
        Self { claims, cleaner: None, reporter: Some(reporter), health, backoff: Backoff::default() }
    }

    /// Follows the health of the candidate for the [cleaner](super::Jobs::clean): [`Waiting`](crate::health::Health::Waiting)
    /// before it is elected, [`Working`](crate::health::Health::Working) while it cleans.
    pub fn health(&self) -> HealthWatch {
        self.health.restarted()
    }

    /// Sets the number of jobs that are claimed at a time, from 1. Claimed jobs are kept from others until they are handed out.
    /// Default: 1.
    #[must_use]
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.claims.prefetch(jobs);
        self
    }

    /// How long [`run`](Self::run) holds a job back that `body` has failed with, before it is pending again: `first` after the
    /// first attempt, twice as long after each one more, `longest` at most; of that between a half and all, by chance. Zero
    /// for not at all. Default: 100 ms and 30 s.
    ///
    /// The job is held back under its lease: so long it is [executing](super::JobState::Executing), and no worker gets it
    /// earlier, unless the session of this one is over. [`Task::retry_after`] keeps a time in ZooKeeper instead.
    #[must_use]
    pub const fn redeliver_after(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = Backoff { first, longest };
        self
    }

    /// The next job, however long it takes until there is one.
    ///
    /// # Errors
    /// None of them ends the worker: it may be called again.
    /// * [`Error::Foreign`] for a node that is no job, once; it stays where it is.
    /// * [`Error::Corrupt`] for a job that cannot be decompressed, where the framework compresses; it has failed.
    /// * [`Error::Framework`] when an operation fails for longer than the retry policy allows.
    ///
    /// # Cancel safety
    /// Nothing is lost: a job that was claimed meanwhile is the next.
    pub async fn next(&mut self) -> Result<Job, Error> {
        driver::next(self).await
    }

    /// The next job if there is one, `None` if not. Never waits for others.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub async fn try_next(&mut self) -> Result<Option<Job>, Error> {
        driver::try_next(self).await
    }

    /// The jobs as a stream, which does not end. An error is not the end either.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream is dropping the worker.
    pub fn into_stream(self) -> impl Stream<Item = Result<Job, Error>> + Send {
        driver::into_stream(self)
    }

    /// Hands every job to `body`, so many at a time at most, from 1. A job is completed when `body` is done with it, with
    /// the result that it returns, if any; else all of the job is deleted. When `body` fails, the job has
    /// [failed](Job::fail), after [a while](Self::redeliver_after) unless it was its last attempt, or after the time that it has
    /// [asked for](Task::retry_after). While 64 jobs are held back, no other is claimed. `body` is dropped when the lease is lost.
    ///
    /// # Errors
    /// `Closed`, and what else no repetition mends. What [`next`](Self::next) reports of single jobs, and jobs whose lease
    /// was lost, are logged as warnings.
    ///
    /// # Cancel safety
    /// The jobs of `body` are given back.
    pub async fn run<F, Fut, E>(self, limit: usize, body: F) -> Result<(), Error>
    where
        F: Fn(Task) -> Fut,
        Fut: Future<Output = Result<Option<Bytes>, E>>,
        E: fmt::Display,
    {
        self.run_until(limit, pending(), Duration::ZERO, body).await
    }

    /// As [`run`](Self::run), until `stop`: no job is claimed after that, and the jobs in hand may be done for as long as
    /// `drain`; an attempt that has failed is told of at once. Then the rest is dropped and given back, which counts as an attempt.
    /// Returns when the leases are given back, or the session is over. See
    /// [the graceful stop](crate::queue#a-graceful-stop).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until<F, Fut, E>(
        self,
        limit: usize,
        stop: impl Future<Output = ()>,
        drain: Duration,
        body: F,
    ) -> Result<(), Error>
    where
        F: Fn(Task) -> Fut,
        Fut: Future<Output = Result<Option<Bytes>, E>>,
        E: fmt::Display,
    {
        let backoff = self.backoff;
        let each = |job: Job| async {
            let (id, attempt) = (job.id().to_owned(), job.attempt());
            let done = unless_lost(&id, job.lost(), body(job.task())).await?;
            let settled = match (done, job.task().pause()) {
                (Ok(Some(result)), _) => job.complete_with(result).await,
                (Ok(None), _) => job.complete().await,
                (Err(error), Some(pause)) => {
                    warn!(id, attempt, ?pause, %error, "a job has failed, and is delayed");
                    job.retry_after(error.to_string(), pause).await
                }
                (Err(error), None) => {
                    let is_last = job.max_attempts.is_some_and(|limit| attempt >= limit);
                    let delay = if is_last { Duration::ZERO } else { backoff.after(attempt, &job.places.zk) };
                    warn!(id, attempt, is_last, ?delay, %error, "a job has failed");
                    let lease = job.ownership().clone();
                    let time = async move { drop(timeout(delay, lease.over()).await) };
                    return Some((time, fail(job, error.to_string())));
                }
            };
            log_unsettled(&id, settled);
            None
        };
        driver::run(self, limit, (stop, drain), each).await
    }
}

impl Source for Worker {
    type Delivery = Job;

    fn feed(&mut self) -> &mut FeedDriver {
        self.claims.feed()
    }

    fn attempt(delivery: &Job) -> u32 {
        delivery.attempt()
    }

    /// Makes sure of the directories, and of a candidate for the cleaner.
    async fn prepare(&mut self) -> Result<(), Error> {
        self.claims.prepare().await?;
        if self.reporter.is_some() {
            let Executed { places, policy, .. } = &self.claims.claimer;
            places.prepare().await?;
            let health = self.reporter.take().unwrap_or_default();
            let (stop, policy) = (CancellationToken::new(), *policy);
            let (stopped, cleaned) = (stop.clone(), places.clone());
            places.zk.spawn(async move {
                tokio::select! {
                    biased;
                    () = stopped.cancelled() => {}
                    () = cleaner::keep_running(&cleaned, policy, &health) => {}
                }
            });
            self.cleaner = Some(stop.drop_guard());
        }
        Ok(())
    }

    async fn of_list(&mut self, turn: &mut Turn) -> Result<Option<Job>, Error> {
        self.claims.of_list(turn).await
    }

    fn begin_poll(&mut self) {
        self.claims.begin_poll();
    }

    fn looks_again(&mut self, has_looked: bool) -> bool {
        self.claims.looks_again(has_looked)
    }

    fn listed(&mut self, was_first: bool, is_first: bool) {
        self.claims.listed(was_first, is_first);
    }
}

/// Says of a job that it has failed.
async fn fail(job: Job, why: String) {
    let id = job.id().to_owned();
    log_unsettled(&id, job.fail(why).await);
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("path", &self.claims.claimer.places.path).finish_non_exhaustive()
    }
}

/// Claims make attempts of pending jobs.
struct Executed {
    places: Places,
    worker: String,
    policy: Policy,
    receipts: Receipts,
}

impl Claimer for Executed {
    type Claim = Job;
    const GIVES_WAY: bool = false;

    fn attempt(claim: &Job) -> u32 {
        claim.attempt()
    }

    fn node(claim: &Job) -> &OwnedNode {
        &claim.lease
    }

    fn claimed_by(&self, _pending: &QueueLayout, _name: &str) -> Option<String> {
        None
    }

    fn claim(
        &self,
        _pending: QueueLayout,
        name: String,
        is_contended: bool,
        _returned: Returned,
    ) -> impl Future<Output = Result<Claimed<Job>, Error>> + Send + 'static {
        let (places, worker, receipts) = (self.places.clone(), self.worker.clone(), self.receipts.clone());
        claim(places, worker, self.policy.max_attempts, receipts, name, is_contended)
    }
}

/// Claims a job and reads it, in one flight unless others contend for it.
async fn claim(
    places: Places,
    worker: String,
    max_attempts: Option<u32>,
    receipts: Receipts,
    name: String,
    is_contended: bool,
) -> Result<Claimed<Job>, Error> {
    let zk = &places.zk;
    let (Some(ItemMeta { id, times, .. }), Some(held)) = (Kind::Job.meta(&name), Kind::Job.once_more(&name))
    else {
        return Ok(Claimed::Gone);
    };
    // These names are unique, so our changes cannot be mistaken for those of others.
    let attempt = zk.new_guid();
    let (lease_path, path) = (places.of("leases", &attempt), places.of("executing", &attempt));
    let session = zk.session().map_or(0, |session| session.id.get());
    let record = Executing { name: held.clone(), session, worker: worker.clone() }.encode();
    let execute = |transaction: Transaction| {
        transaction.delete(places.of("pending", &name)).create(&path, record.clone())
    };

    let lease = zk.create(&lease_path).mode(CreateMode::Ephemeral).creating_parents();
    // Without data nobody could tell whose it is after a lost answer.
    let lease = lease.data(if worker.is_empty() { "-".to_owned() } else { worker });
    let lease = lease.protected_by_data().unique_name().owned();
    let executed = execute(zk.transaction().check(&lease_path, None));
    let read = || zk.get_data(places.of("all", id)).into_future();
    let claimed = join(lease.into_future(), executed.into_future());
    let ((lease, mut executed), read_ahead) = if is_contended {
        (claimed.await, None)
    } else {
        let (claimed, read) = join(claimed, read()).await;
        (claimed, Some(read))
    };
    let lease = match lease {
        Ok(lease) => lease,
        // That of an earlier session: the cleaner sees to the attempt, if there is one.
        Err(error) if error.kind() == ErrorKind::NodeExists => return Ok(Claimed::Gone),
        Err(error) => return Err(error.into()),
    };
    // Which operation of the transaction deletes the place: the lease is made sure of before, at first in sight.
    let mut place = 1;
    while let Err(error) = executed {
        if error.may_have_applied() {
            if zk.exists(&path).linearizable().await.map_err(|_| error.clone())?.is_some() {
                break;
            }
            // Not applied, and it cannot be any more.
        } else if is_gone(&error, place) || error.kind() == ErrorKind::OwnershipLost {
            return Ok(Claimed::Gone);
        } else if let ErrorKind::TransactionFailed { code: ErrorCode::NotEmpty, .. } = error.kind() {
            // Only the place is deleted.
            return match places.pending.foreign_child(&places.of("pending", &name), None).await? {
                Some(path) => Err(Error::Foreign { path }),
                None => Ok(Claimed::Gone),
            };
        } else if is_gone(&error, place + 1) {
            places.prepare().await?;
        } else if !(place == 1 && is_gone(&error, 0)) {
            return Err(error.into());
        }
        place = 0;
        executed = execute(lease.ownership().fenced().uncompressed()).await;
    }
    let attempts = times.saturating_add(1);
    let read = match read_ahead {
        Some(read) => read,
        None => read().await,
    };
    let (is_there, data) = match read {
        Err(error) if error.kind() == ErrorKind::NoNode => (false, Bytes::new()),
        read => (true, read?),
    };
    let unpacked = places.pending.unpack(data);
    let (data, why) = match unpacked {
        Ok(data) => (data, None),
        Err(why) => (Bytes::new(), Some(why)),
    };
    let task = Task::new(data, id.to_owned(), attempts, lease.ownership().clone());
    let job = Job { task, path, held, lease, max_attempts, places: places.clone(), receipts };
    if let Some(why) = why {
        let path = places.of("all", id);
        job.reject(why.to_string()).await?;
        return Err(Error::Corrupt { path, why });
    }
    if is_there {
        return Ok(Claimed::Ours(Box::new(job)));
    }
    // The job was deleted by hand.
    warn!(id = job.id(), "there was a place for a job that does not exist");
    job.settle(|transaction| transaction).await?;
    Ok(Claimed::Gone)
}
