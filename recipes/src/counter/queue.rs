//! The operations of a counter that wait in this process.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use zk_curator::Error as ZkError;
use zk_curator::internal::{Locked, LockedGuard};

use super::batch::{CounterChange, Operation};
use super::error::Error;
use super::once::OnceRecord;

/// The response to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationAnswer {
    Done(CounterChange),
    /// It was done before.
    Before(CounterChange),
    /// Set: the number before, if it was one.
    Set(Option<i64>),
    Differs(i64),
    Exists,
}

/// An operation of a caller who waits.
#[derive(Debug)]
pub(super) struct OperationRequest {
    number: u64,
    pub(super) operation: Operation,
    /// Of an operation that is done once.
    pub(super) record: Option<OnceRecord>,
    /// Why it may have been applied by a write of an earlier session.
    pub(super) lost: Option<ZkError>,
    reply: oneshot::Sender<Result<OperationAnswer, Error>>,
}

impl OperationRequest {
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    pub(super) fn answer(self, answer: Result<OperationAnswer, Error>) {
        // Sending fails if the caller no longer waits.
        drop(self.reply.send(answer));
    }

    /// Returns an error to the callers; nothing was written since the last time that it may have
    /// been applied.
    pub(super) fn fail(self, path: &str, error: Error) {
        let error = match self.lost.clone() {
            Some(why) => Error::Unknown { path: path.to_owned(), why },
            None => error,
        };
        self.answer(Err(error));
    }
}

/// Operations in the order of their calls. A caller that gives up takes its own back.
#[derive(Debug, Default)]
pub(super) struct OperationQueue {
    state: Locked<OperationQueueState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct OperationQueueState {
    next: u64,
    waiting: BTreeMap<u64, OperationRequest>,
    /// Withdraws the write that is under way, unless it was sent.
    withdrawal: CancellationToken,
    /// `true` if a task executes them.
    is_served: bool,
    /// `true` if the last handle is gone.
    is_closed: bool,
}

impl OperationQueue {
    /// Adds an operation: its response, and whether there is no task that executes it.
    pub(super) fn push(
        self: &Arc<Self>,
        operation: Operation,
        record: Option<OnceRecord>,
    ) -> (OperationTicket, bool) {
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state
            .waiting
            .insert(number, OperationRequest { number, operation, record, lost: None, reply });
        let is_unserved = !std::mem::replace(&mut state.is_served, true);
        drop(state);
        self.changed.notify_one();
        (
            OperationTicket { queue: Arc::clone(self), number, answer, is_answered: false },
            is_unserved,
        )
    }

    /// Moves operations that belong together according to `fits`, in order, and checks at most
    /// `most`.
    pub(super) fn take(
        &self,
        most: usize,
        mut fits: impl FnMut(&OperationRequest) -> bool,
    ) -> Vec<OperationRequest> {
        let mut state = self.state();
        let fitting: Vec<u64> = state
            .waiting
            .values()
            .take(most)
            .filter(|request| fits(request))
            .map(|request| request.number)
            .collect();
        fitting.into_iter().filter_map(|number| state.waiting.remove(&number)).collect()
    }

    /// Puts an operation back to its place.
    pub(super) fn put_back(&self, request: OperationRequest) {
        if !request.is_abandoned() {
            self.state().waiting.insert(request.number, request);
        }
    }

    /// Waits for an operation; not `true` if there will be none.
    pub(super) async fn ready(&self) -> bool {
        loop {
            {
                let state = self.state();
                if !state.waiting.is_empty() || state.is_closed {
                    return !state.waiting.is_empty();
                }
            }
            self.changed.notified().await;
        }
    }

    /// Withdraws the next write when a caller gives up whose operation was taken.
    pub(super) fn withdrawal(&self) -> CancellationToken {
        let token = CancellationToken::new();
        self.state().withdrawal = token.clone();
        token
    }

    /// The last handle is gone.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }

    /// Marks the end of the task, and fails the waiting callers.
    pub(super) fn unserved(&self) {
        let mut state = self.state();
        state.is_served = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    fn state(&self) -> LockedGuard<'_, OperationQueueState> {
        self.state.lock()
    }
}

/// The response to come, `None` if the task has ended and has not sent the operation. Dropped
/// before it comes, the operation is withdrawn, unless it was sent.
#[derive(Debug)]
#[must_use = "dropping it withdraws the operation"]
pub(super) struct OperationTicket {
    queue: Arc<OperationQueue>,
    number: u64,
    answer: oneshot::Receiver<Result<OperationAnswer, Error>>,
    is_answered: bool,
}

impl Future for OperationTicket {
    type Output = Option<Result<OperationAnswer, Error>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(cx);
        self.is_answered = answer.is_ready();
        answer.map(Result::ok)
    }
}

impl Drop for OperationTicket {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        // Before the withdrawal: the callers that it wakes see it.
        self.answer.close();
        let mut state = self.queue.state();
        let waiting = state.waiting.remove(&self.number);
        let withdrawal = state.withdrawal.clone();
        drop(state);
        if waiting.is_none() {
            withdrawal.cancel();
        }
    }
}
