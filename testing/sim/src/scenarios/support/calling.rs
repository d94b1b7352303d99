//! Calls of a shared object, recorded with their responses.

use std::error::Error;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::{ConnectionState, ConnectionStatus, CuratorFramework, SessionInfo};
use zk_curator_recipes::counter::{self, DistributedAtomicLong};

use super::patience::patiently;
use crate::Client;
use crate::deadline::{is_closed, may_be_of_a_deadline};
use crate::history::{Answer, Doubt, Name, Operation, Shared};

/// The distance between set values, so that sums cannot reach another one.
const APART: i64 = 1_000_000;
/// The time in which a client learns of the end of its session, after an operation failed with it.
const SOON: Duration = Duration::from_secs(1);
/// The time in which all ready tasks have run.
const MOMENT: Duration = Duration::from_millis(1);

/// Starts a shared object, and retries after each failure, which uses up a round. Returns `None`
/// after the last round.
pub(in crate::scenarios) async fn started<T, E, F>(
    client: &Client,
    start: impl Fn() -> F,
) -> Option<T>
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

/// A caller of an object.
pub(in crate::scenarios) struct Caller {
    client: Client,
    zk: CuratorFramework,
    object: Name,
    /// `true` if an unknown response needs a reason.
    is_proven: bool,
}

impl Caller {
    pub(in crate::scenarios) fn new(client: &Client, zk: &CuratorFramework, object: &str) -> Self {
        Self { client: client.clone(), zk: zk.clone(), object: object.into(), is_proven: true }
    }

    pub(in crate::scenarios) const fn proven(mut self, is_proven: bool) -> Self {
        self.is_proven = is_proven;
        self
    }

    /// Calls, and records the response. The response is unknown if the error says that the
    /// operation may have been applied. Without a connection, half of the callers give up soon. If
    /// the connection does not come back in between, the request was not sent, so the operation is
    /// not applied, neither now nor later.
    pub(in crate::scenarios) async fn call<E: Error + 'static>(
        &self,
        operation: Operation,
        answer: impl Future<Output = Result<Answer, E>>,
        may_have_applied: impl Fn(&E) -> bool,
    ) -> Answer {
        let id = self.client.unique();
        let session = self.zk.session();
        let status = self.zk.status();
        self.client.record(Shared::Call { id, object: self.object.clone(), operation });
        let answer = match self.outcome(session, status, answer, may_have_applied).await {
            Ok(answer) => answer,
            Err(None) => Answer::Failed,
            Err(Some(why)) => {
                self.client.record(Shared::Doubtful { id, why });
                Answer::Unknown
            }
        };
        self.client.record(Shared::Return { id, answer });
        answer
    }

    /// Awaits an operation that has begun with this session and in this state, or gives it up.
    /// Fails with the reason why its outcome is unknown, or without one if it had no effect.
    pub(in crate::scenarios) async fn outcome<T, E: Error + 'static>(
        &self,
        session: Option<SessionInfo>,
        status: ConnectionStatus,
        answer: impl Future<Output = Result<T, E>>,
        may_have_applied: impl Fn(&E) -> bool,
    ) -> Result<T, Option<Doubt>> {
        let answer = if status.state.is_connected() || self.client.rng().bool() {
            self.client.maybe_cancel(answer).await
        } else {
            timeout(self.client.moment(SOON / 2), answer).await.ok()
        };
        let error = match answer {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(error)) => error,
            None if self.was_cut_off_since(&status).await => return Err(None),
            None => return Err(Some(Doubt::Cancelled)),
        };
        Err(if !may_have_applied(&error) {
            None
        } else if !self.is_proven {
            Some(Doubt::Unproven)
        } else if self.client.has_deadline() && may_be_of_a_deadline(&error) {
            Some(Doubt::Deadline)
        } else if is_closed(&error) {
            // The session is closed when a server receives the close, which may take a while.
            Some(Doubt::SessionEnded)
        } else {
            let has_ended = |status: &ConnectionStatus| {
                status.state == ConnectionState::Lost || status.session != session
            };
            let ended = patiently(SOON, self.zk.states().until(has_ended)).await;
            Some(ended.map_or(Doubt::Unexplained, |_| Doubt::SessionEnded))
        })
    }
}

impl Caller {
    /// Returns `true` if there was no connection since this status, nor for a moment from now. A
    /// connection that begins at this moment could have been used.
    async fn was_cut_off_since(&self, status: &ConnectionStatus) -> bool {
        if status.state.is_connected() {
            return false;
        }
        sleep(MOMENT).await;
        let now = self.zk.status();
        now.epoch == status.epoch && now.state == status.state
    }
}

/// A caller of a counter.
pub(in crate::scenarios) struct Counting {
    caller: Caller,
    counter: DistributedAtomicLong,
    /// The numbers that it adds. A sum tells how many of each were added.
    deltas: &'static [i64],
    /// The last value that the caller has seen.
    seen: AtomicI64,
}

impl Counting {
    pub(in crate::scenarios) const fn new(caller: Caller, counter: DistributedAtomicLong) -> Self {
        Self { caller, counter, deltas: &[1, 1, 1, 1_000], seen: AtomicI64::new(0) }
    }

    /// Subtracts too. Only for few concurrent operations: with many, the checker finds too many
    /// possible explanations for a value that returns.
    pub(in crate::scenarios) const fn subtracting(mut self) -> Self {
        self.deltas = &[1, 1, 1_000, -1];
        self
    }

    /// Calls a random operation. Set values are unique, so responses tell which of them came
    /// before.
    pub(in crate::scenarios) async fn ask(&self) {
        let mut rng = self.caller.client.rng();
        let new = || {
            i64::try_from(self.caller.client.unique())
                .map_or(i64::MAX, |number| number.saturating_mul(APART))
        };
        let operation = match rng.u8(..10) {
            0 => Operation::Get,
            1 if rng.bool() => Operation::Set(new()),
            1 | 2 => {
                Operation::CompareAndSet { expected: self.seen.load(Ordering::Relaxed), new: new() }
            }
            _ => Operation::Add(self.deltas[rng.usize(..self.deltas.len())]),
        };
        self.call(operation).await;
    }

    pub(in crate::scenarios) async fn call(&self, operation: Operation) {
        let answer = self
            .caller
            .call(operation, self.perform(operation), counter::Error::may_have_applied)
            .await;
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
