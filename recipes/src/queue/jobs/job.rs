use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use zk_curator::op::Transaction;
use zk_curator::value::{FromData, ToData};
use zk_curator::{ErrorKind, FencingToken, OwnedNode, Ownership};

use super::kept::Node;
use super::later;
use super::places::{End, Places, is_gone};
use crate::measure;
use crate::queue::core::name::Kind;
use crate::queue::driver::{Receipts, is_lost, settle, try_settle};
use crate::queue::error::Error;
use crate::queue::value::{decode, encode};

/// A job that was handed out, without the duty to settle it. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Task {
    /// The job.
    pub data: Bytes,
    /// Its id.
    pub id: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The lease: [`Ownership::fenced`] transactions are only applied while it is held. Its fencing token is higher than
    /// those of all attempts before.
    pub lease: Ownership,
    /// The pause that the body asks for if it fails.
    pause: Arc<Mutex<Option<Duration>>>,
}

impl Task {
    pub(super) fn new(data: Bytes, id: String, attempt: u32, lease: Ownership) -> Self {
        Self { data, id, attempt, lease, pause: Arc::default() }
    }

    /// If the body of [`run`](super::Worker::run) fails, the job is pending again after this time, as by
    /// [`Job::retry_after`], instead of after a [backoff](super::Worker::redeliver_after). The last call counts.
    pub fn retry_after(&self, pause: Duration) {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = Some(pause);
    }

    pub(super) fn pause(&self) -> Option<Duration> {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job as a value of this type.
    ///
    /// # Errors
    /// [`Error::Undecodable`] when it is none.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        decode(&self.id, &self.data)
    }
}

/// A job in the hands of its worker. Dropped, it is given back: the lease is deleted in the background, and the cleaner
/// makes it pending again, at its old place; which counts as an attempt.
#[must_use = "dropping it gives the job back"]
pub struct Job {
    pub(super) places: Places,
    pub(super) max_attempts: Option<u32>,
    pub(super) task: Task,
    /// The attempt.
    pub(super) path: String,
    /// Its name when it is pending again.
    pub(super) held: String,
    pub(super) lease: OwnedNode,
    pub(super) receipts: Receipts,
}

impl Job {
    /// The id of the job.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.task.id
    }

    /// The job.
    #[must_use]
    pub const fn data(&self) -> &Bytes {
        &self.task.data
    }

    /// The job as a value of this type: see [`Task::value`].
    ///
    /// # Errors
    /// [`Error::Undecodable`] when it is none.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        self.task.value()
    }

    /// The number of the attempt, from 1.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.task.attempt
    }

    /// All of that, without the duty to settle it.
    #[must_use]
    pub fn task(&self) -> Task {
        self.task.clone()
    }

    /// The lease: [`Ownership::fenced`] transactions are only applied while it is held.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        self.lease.ownership()
    }

    /// The fencing token of the lease: higher than those of all attempts at this job before.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.lease.ownership().fencing_token()
    }

    /// Resolves when the lease is lost: others get the job. To learn that somebody has deleted it, it leaves a watch,
    /// which costs one request.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.lease.ownership().lost().await;
    }

    /// The job is done: deletes all of it.
    ///
    /// # Errors
    /// * [`Error::Lost`] when the lease was lost: the job is executed again, or was settled by a worker that had it since.
    /// * [`Error::Framework`] with `NoAuth` and the path of a receipt, without the [right](super#access-control) to create
    ///   children of the jobs' path. The job is given back.
    /// * [`Error::Framework`] when it cannot be known, or the connection is lost for longer than the retry policy allows:
    ///   the job is done, or is executed again.
    ///
    /// # Cancel safety
    /// The job is done, or given back.
    pub async fn complete(self) -> Result<(), Error> {
        let job = self.places.of("all", self.id());
        self.settle(|transaction| transaction.delete(&job)).await
    }

    /// The job is done, and the result is kept, along with the job, until they are [forgotten](super::Jobs::forget).
    ///
    /// # Errors
    /// As [`complete`](Self::complete); `TooLarge` when servers would not accept the result: the job has failed for good then,
    /// for it is done, and the next attempt would end like this one. A result so large that servers accept no receipt beside it
    /// is kept without: after a lost answer the error says [`may_have_applied`](zk_curator::Error::may_have_applied).
    ///
    /// # Cancel safety
    /// The job is done, or given back.
    pub async fn complete_with(self, result: impl ToData) -> Result<(), Error> {
        let result = encode(&self.places.path, &result)?;
        let result = self.places.pending.pack(result)?;
        let done = Node::kept(&self.places, End::Done, self.id(), result);
        self.end(done).await
    }

    /// The attempt has failed: the job is pending again, at its old place; or it has failed for good, if that was its
    /// [last](super::Jobs::max_attempts) attempt.
    ///
    /// # Errors
    /// As [`complete_with`](Self::complete_with), where the result is `why`; the attempt has failed, or the job is given back.
    ///
    /// # Cancel safety
    /// The attempt has failed, or the job is given back.
    pub async fn fail(self, why: impl Into<String>) -> Result<(), Error> {
        let next = Node::after_attempt(&self.places, &self.held, &why.into(), self.max_attempts);
        self.end(next).await
    }

    /// The attempt has failed: the job is pending again after this time, at its old place; or it has failed for good, if that
    /// was its [last](super::Jobs::max_attempts) attempt. Until then it is [delayed](super::JobState::Delayed).
    ///
    /// The time is kept in ZooKeeper: the job comes back also when this worker has died meanwhile. It ends by the clock of the
    /// [cleaner](super::Jobs::clean), and begins by the clock of this process. A zero time is that of [`fail`](Self::fail).
    ///
    /// # Errors
    /// As [`fail`](Self::fail).
    ///
    /// # Cancel safety
    /// As [`fail`](Self::fail).
    pub async fn retry_after(self, why: impl Into<String>, pause: Duration) -> Result<(), Error> {
        let is_last = self.max_attempts.is_some_and(|limit| self.attempt() >= limit);
        if is_last || pause.is_zero() {
            return self.fail(why).await;
        }
        let attempt = self.path.rsplit('/').next().unwrap_or_default();
        let later = later::node(&self.places, pause, attempt, &self.held, why.into());
        self.end(later).await
    }

    /// The job has failed for good, whatever the number of attempts.
    ///
    /// # Errors
    /// As [`fail`](Self::fail).
    ///
    /// # Cancel safety
    /// As [`fail`](Self::fail).
    pub async fn reject(self, why: impl Into<String>) -> Result<(), Error> {
        let next = Node::after_attempt(&self.places, &self.held, &why.into(), Some(1));
        self.end(next).await
    }

    /// Ends the attempt, and creates a node.
    async fn end(self, mut next: Node) -> Result<(), Error> {
        let lease = self.lease.path().to_owned();
        let mut too_large = None;
        loop {
            let ending =
                |fenced: Transaction| next.create(&self.places, fenced.delete(&lease).delete(&self.path));
            let Err(error) = try_settle(&self.receipts, &self.lease, ending).await else {
                drop(self.lease.leak());
                if next.is_failure() {
                    measure::dead_letter(Kind::Job.recipe());
                }
                return too_large.map_or(Ok(()), |error: zk_curator::Error| Err(error.into()));
            };
            if error.kind() == ErrorKind::TooLarge && !next.is_failure() {
                let why = format!("it was executed, and its result cannot be kept: {error}");
                next = Node::after_attempt(&self.places, &self.held, &why, Some(1));
                too_large = Some(error);
                continue;
            }
            // On the heap, for futures of callers that are small.
            if !Box::pin(next.correct(&self.places, &error)).await? {
                return Err(lost_or(error));
            }
        }
    }

    pub(super) async fn settle(self, changes: impl Fn(Transaction) -> Transaction) -> Result<(), Error> {
        let lease = self.lease.path().to_owned();
        let ending = |fenced: Transaction| changes(fenced.delete(&lease).delete(&self.path));
        settle(&self.receipts, self.lease, ending).await.map_err(lost_or)
    }
}

/// Returns the error for a refused transaction that checks the lease, and then deletes it and the attempt.
fn lost_or(error: zk_curator::Error) -> Error {
    match is_gone(&error, 0) || is_lost(&error, 1) {
        true => Error::Lost,
        false => error.into(),
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Job");
        debug.field("id", &self.task.id).field("attempt", &self.task.attempt).field("lease", &self.lease);
        debug.finish()
    }
}
