//! Calls of a shared object, written down with their answers.

use std::error::Error;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::{ConnectionState, ConnectionStatus, CuratorFramework};
use zk_curator_recipes::counter::{self, DistributedAtomicLong};

use crate::Client;
use crate::deadline::may_be_of_a_deadline;
use crate::history::{Answer, Doubt, Event, Name, Operation};

/// The distance of values that are set: sums do not meet.
const APART: i64 = 1_000_000;
/// The time in which a client hears of the end of its session after an operation that has failed with it.
const SOON: Duration = Duration::from_secs(1);

/// Starts a shared object, again after every failure, each of which uses up a round; `None` when there are no more.
pub(super) async fn started<T, E, F>(client: &Client, start: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<T, E>>,
{
    loop {
        if let Some(Ok(object)) = client.maybe_cancel(start()).await {
            return Some(object);
        }
        client.next_round()?;
        sleep(client.moment(Duration::from_millis(100))).await;
    }
}

/// One who calls an object.
pub(super) struct Caller {
    client: Client,
    zk: CuratorFramework,
    object: Name,
    /// Whether an unknown answer needs a reason.
    is_proven: bool,
}

impl Caller {
    pub(super) fn new(client: &Client, zk: &CuratorFramework, object: &str) -> Self {
        Self { client: client.clone(), zk: zk.clone(), object: object.into(), is_proven: true }
    }

    pub(super) const fn proven(mut self, is_proven: bool) -> Self {
        self.is_proven = is_proven;
        self
    }

    /// Calls, and records the answer. It is unknown if the error says that the operation may have been applied.
    pub(super) async fn call<E: Error + 'static>(
        &self,
        operation: Operation,
        answer: impl Future<Output = Result<Answer, E>>,
        may_have_applied: impl Fn(&E) -> bool,
    ) -> Answer {
        let id = self.client.unique();
        let session = self.zk.session();
        self.client.record(Event::Call { id, object: self.object.clone(), operation });
        let (answer, why) = match self.client.maybe_cancel(answer).await {
            Some(Ok(answer)) => (answer, None),
            Some(Err(error)) if !may_have_applied(&error) => (Answer::Failed, None),
            None => (Answer::Unknown, Some(Doubt::Cancelled)),
            Some(Err(_)) if !self.is_proven => (Answer::Unknown, Some(Doubt::Unproven)),
            Some(Err(error)) if self.client.has_deadline() && may_be_of_a_deadline(&error) => {
                (Answer::Unknown, Some(Doubt::Deadline))
            }
            Some(Err(_)) => {
                let has_ended = |status: &ConnectionStatus| {
                    status.state == ConnectionState::Lost || status.session != session
                };
                let ended = timeout(SOON, self.zk.states().until(has_ended)).await;
                let why = ended.map_or(Doubt::Unexplained, |_| Doubt::SessionEnded);
                (Answer::Unknown, Some(why))
            }
        };
        if let Some(why) = why {
            self.client.record(Event::Doubtful { id, why });
        }
        self.client.record(Event::Return { id, answer });
        answer
    }
}

/// One who calls a counter.
pub(super) struct Counting {
    caller: Caller,
    counter: DistributedAtomicLong,
    /// The numbers that it adds: a sum tells how many of each.
    deltas: &'static [i64],
    /// The last value that it has seen.
    seen: AtomicI64,
}

impl Counting {
    pub(super) const fn new(caller: Caller, counter: DistributedAtomicLong) -> Self {
        Self { caller, counter, deltas: &[1, 1, 1, 1_000], seen: AtomicI64::new(0) }
    }

    /// Subtracts as well as adds. Only for few concurrent operations: with many, a value that returns has too many possible
    /// explanations for the checker.
    pub(super) const fn subtracting(mut self) -> Self {
        self.deltas = &[1, 1, 1_000, -1];
        self
    }

    /// Asks for something. Values that are set are unlike all others, so that answers tell which of them came before.
    pub(super) async fn ask(&self) {
        let mut rng = self.caller.client.rng();
        let new = || {
            i64::try_from(self.caller.client.unique()).map_or(i64::MAX, |number| number.saturating_mul(APART))
        };
        let operation = match rng.u8(..10) {
            0 => Operation::Get,
            1 if rng.bool() => Operation::Set(new()),
            1 | 2 => Operation::CompareAndSet { expected: self.seen.load(Ordering::Relaxed), new: new() },
            _ => Operation::Add(self.deltas[rng.usize(..self.deltas.len())]),
        };
        self.call(operation).await;
    }

    pub(super) async fn call(&self, operation: Operation) {
        let answer =
            self.caller.call(operation, self.perform(operation), counter::Error::may_have_applied).await;
        match (answer, operation) {
            (Answer::Value(value), _) | (Answer::Done, Operation::Set(value)) => {
                self.seen.store(value, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    async fn perform(&self, operation: Operation) -> Result<Answer, counter::Error> {
        Ok(match operation {
            Operation::Get => Answer::Value(self.counter.get().await?),
            Operation::Set(value) => self.counter.set(value).await.map(|_| Answer::Done)?,
            Operation::Add(delta) => {
                let change = self.counter.add(delta).await?;
                assert_eq!(change.post, change.pre + delta, "the slice of one operation");
                Answer::Value(change.post)
            }
            Operation::CompareAndSet { expected, new } => {
                match self.counter.compare_and_set(expected, new).await? {
                    Ok(change) => {
                        assert_eq!((change.pre, change.post), (expected, new));
                        Answer::Done
                    }
                    Err(found) => {
                        self.seen.store(found, Ordering::Relaxed);
                        Answer::Differs
                    }
                }
            }
        })
    }
}
