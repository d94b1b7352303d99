use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::DropGuard;
use zk_curator::internal::Locked;
use zk_curator::op::Transaction;
use zk_curator::value::{FromData, ToData};
use zk_curator::{ErrorKind, Ownership};

use super::kept::KeptNode;
use super::later;
use super::places::{JobEnd, Places, is_gone};
use super::retention::Policy;
use crate::health::{HealthReporter, HealthWatch};
use crate::observe::QUEUE_DEAD_LETTERS;
use crate::queue::consume::claims::{ClaimedData, Claims};
use crate::queue::consume::consumer::Consumer;
use crate::queue::consume::delivery::Delivery;
use crate::queue::consume::kind::{Engine, QueueKind};
use crate::queue::consume::settle::{is_lost, settle, try_settle};
use crate::queue::error::Error;
use crate::queue::wire::name::NamingRules;
use crate::queue::wire::value::{decode, encode};

/// A claimed job, without the duty to settle it. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobTask {
    /// The job.
    pub data: Bytes,
    /// Its id.
    pub id: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The claim: [`Ownership::fenced`] transactions are only applied while it is held. Its fencing
    /// token is higher than the tokens of all earlier attempts.
    pub claim: Ownership,
    /// The pause that the body has requested if it fails.
    pause: Arc<Locked<Option<Duration>>>,
}

impl JobTask {
    pub(super) fn new(data: Bytes, id: String, attempt: u32, claim: Ownership) -> Self {
        Self { data, id, attempt, claim, pause: Arc::default() }
    }

    /// Sets the pause for a failure of the body of [`run`](crate::queue::Consumer::run): the job is
    /// then pending again after this time, as with [`Delivery::retry_after`], instead of after a
    /// [backoff](crate::queue::Consumer::redeliver_after). The last call counts.
    pub fn retry_after(&self, pause: Duration) {
        *self.pause.lock() = Some(pause);
    }

    pub(super) fn pause(&self) -> Option<Duration> {
        *self.pause.lock()
    }

    /// Decodes the job as a value of this type.
    ///
    /// # Errors
    /// [`Error::Undecodable`] if it cannot be decoded.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        decode(&self.id, &self.data)
    }
}

/// A [`Consumer`](crate::queue::Consumer) of this kind claims each job, and returns it as a
/// [`Delivery`]. See [the module](super).
///
/// # Cancel safety
/// Dropping the consumer releases the jobs that it has claimed but not delivered; the cleaner makes
/// them pending again, which counts as an [attempt](super::Jobs::max_attempts) at each.
#[derive(Debug)]
pub struct Claimed {
    pub(super) places: Places,
    pub(super) worker: String,
    pub(super) policy: Policy,
    /// Ends the candidacy for the cleaner.
    pub(super) cleaner: Option<DropGuard>,
    /// The reporter of the cleaner, until its task begins.
    pub(super) reporter: Option<HealthReporter>,
    pub(super) health: HealthWatch,
}

/// A worker of [`Jobs`](super::Jobs). It is also a candidate for the cleaner.
pub type JobWorker = Consumer<Claimed>;

/// A job that a [`JobWorker`] has claimed.
pub type JobDelivery = Delivery<Claimed>;

impl QueueKind for Claimed {
    type Delivery = Delivery<Self>;
    type Message = JobTask;
    type Done = Option<Bytes>;
}

impl Engine for Claimed {
    type Source = Claims<Self>;
    type Item = ClaimedJob;
}

impl ClaimedData<JobTask> for ClaimedJob {
    fn label<'a>(&'a self, _path: &'a str) -> &'a str {
        &self.task.id
    }

    fn messages(&self) -> Vec<JobTask> {
        vec![self.task.clone()]
    }
}

/// A claimed job.
pub(in crate::queue) struct ClaimedJob {
    pub(super) places: Places,
    pub(super) max_attempts: Option<u32>,
    pub(super) task: JobTask,
    /// Its name when it is pending again.
    pub(super) held: String,
}

impl Delivery<Claimed> {
    /// Returns the id of the job.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.item.task.id
    }

    /// The job.
    #[must_use]
    pub const fn data(&self) -> &Bytes {
        &self.item.task.data
    }

    /// Decodes the job as a value of this type: see [`JobTask::value`].
    ///
    /// # Errors
    /// [`Error::Undecodable`] if it cannot be decoded.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        self.item.task.value()
    }

    /// Returns the job and its properties, without the duty to settle it.
    #[must_use]
    pub fn task(&self) -> JobTask {
        self.item.task.clone()
    }

    /// Completes the job without a result: deletes it.
    ///
    /// # Errors
    /// * [`Error::Lost`] if the claim was lost: the job is executed again, or a later worker has
    ///   settled it.
    /// * [`Error::Framework`] with `NoAuth` and the path of a receipt, without
    ///   [permission](super#access-control) to create children of the jobs' path. The job is
    ///   released.
    /// * [`Error::Framework`] if the outcome is unknown, or the connection is lost for longer than
    ///   the retry policy allows: the job is done, or is executed again.
    ///
    /// # Cancel safety
    /// The job is done, or released.
    pub async fn complete(self) -> Result<(), Error> {
        let job = self.item.places.of("all", self.id());
        self.settle(|transaction| transaction.delete(&job)).await
    }

    /// Completes the job with a result, which is kept with the job until they are
    /// [forgotten](super::Jobs::forget).
    ///
    /// # Errors
    /// As [`complete`](Self::complete). `TooLarge` if servers would not accept the result: the job
    /// has then failed permanently, because the next attempt would have the same outcome. A result
    /// that is too large for a transaction with a receipt is kept without a receipt; after a lost
    /// response the error then has [`may_have_applied`](zk_curator::Error::may_have_applied).
    ///
    /// # Cancel safety
    /// The job is done, or released.
    pub async fn complete_with(self, result: impl ToData) -> Result<(), Error> {
        let result = encode(&self.item.places.path, &result)?;
        let result = self.item.places.pending.pack(result)?;
        let done = KeptNode::kept(&self.item.places, JobEnd::Done, self.id(), result);
        self.end(done).await
    }

    /// Fails the attempt: the job is pending again at its old place, or has failed permanently if
    /// that was its [last](super::Jobs::max_attempts) attempt.
    ///
    /// # Errors
    /// As [`complete_with`](Self::complete_with) with `why` as the result; the attempt has failed,
    /// or the job is released.
    ///
    /// # Cancel safety
    /// The attempt has failed, or the job is released.
    pub async fn fail(self, why: impl Into<String>) -> Result<(), Error> {
        let next = KeptNode::after_attempt(
            &self.item.places,
            &self.item.held,
            &why.into(),
            self.item.max_attempts,
        );
        self.end(next).await
    }

    /// Fails the attempt: the job is [delayed](super::JobState::Delayed) for this time, and then
    /// pending again at its old place. It has failed permanently if that was its
    /// [last](super::Jobs::max_attempts) attempt.
    ///
    /// The time is stored in ZooKeeper, so the job becomes pending even if this worker dies. The
    /// delay begins by the clock of this process, and ends by the clock of the
    /// [cleaner](super::Jobs::clean). Zero has the effect of [`fail`](Self::fail).
    ///
    /// # Errors
    /// As [`fail`](Self::fail).
    ///
    /// # Cancel safety
    /// As [`fail`](Self::fail).
    pub async fn retry_after(self, why: impl Into<String>, pause: Duration) -> Result<(), Error> {
        let is_last = self.item.max_attempts.is_some_and(|limit| self.attempt() >= limit);
        if is_last || pause.is_zero() {
            return self.fail(why).await;
        }
        let attempt = self.path.rsplit('/').next().unwrap_or_default();
        let later = later::node(&self.item.places, pause, attempt, &self.item.held, why.into());
        self.end(later).await
    }

    /// Fails the job permanently, regardless of the number of attempts.
    ///
    /// # Errors
    /// As [`fail`](Self::fail).
    ///
    /// # Cancel safety
    /// As [`fail`](Self::fail).
    pub async fn reject(self, why: impl Into<String>) -> Result<(), Error> {
        let next =
            KeptNode::after_attempt(&self.item.places, &self.item.held, &why.into(), Some(1));
        self.end(next).await
    }

    /// Ends the attempt, and creates a node.
    async fn end(self, mut next: KeptNode) -> Result<(), Error> {
        let claim = self.claim.path().to_owned();
        let mut too_large = None;
        loop {
            let ending =
                |fenced: Transaction| next.create(fenced.delete(&claim).delete(&self.path));
            let Err(error) = try_settle(&self.receipts, &self.claim, ending).await else {
                drop(self.claim.leak());
                if next.is_failure() {
                    QUEUE_DEAD_LETTERS.of(&self.item.places.zk, [NamingRules::Job.recipe()]).add(1);
                }
                return too_large.map_or(Ok(()), |error: zk_curator::Error| Err(error.into()));
            };
            let is_refused = !error.may_have_applied();
            if error.kind() == ErrorKind::TooLarge && is_refused && !next.is_failure() {
                let why = format!("it was executed, and its result cannot be kept: {error}");
                next = KeptNode::after_attempt(&self.item.places, &self.item.held, &why, Some(1));
                too_large = Some(error);
                continue;
            }
            // On the heap, so that the futures of callers stay small.
            if !Box::pin(next.correct(&self.item.places, &error)).await? {
                return Err(lost_or(error, self.item.places.of("all", &self.item.task.id)));
            }
        }
    }

    pub(super) async fn settle(
        self,
        changes: impl Fn(Transaction) -> Transaction,
    ) -> Result<(), Error> {
        let claim = self.claim.path().to_owned();
        let ending = |fenced: Transaction| changes(fenced.delete(&claim).delete(&self.path));
        let path = self.item.places.of("all", &self.item.task.id);
        settle(&self.receipts, self.claim, ending).await.map_err(|error| lost_or(error, path))
    }
}

/// Returns the error for a refused transaction that checks the claim of a job at a path, and then
/// deletes it and the attempt.
fn lost_or(error: zk_curator::Error, path: String) -> Error {
    match is_gone(&error, 0) || is_lost(&error, 1) {
        true => Error::Lost { path },
        false => error.into(),
    }
}
