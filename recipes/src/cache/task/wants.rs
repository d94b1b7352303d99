//! The requests of the handles of a cache to its task.

use tokio::sync::{Notify, oneshot};
use zk_curator::Error;
use zk_curator::internal::{Locked, LockedGuard};

use crate::cache::told::{Caller, Questions, WaitingRefresh, push};

/// A caller that waits for a transaction.
pub(crate) type Waiter = oneshot::Sender<Result<i64, Error>>;

impl Caller for Waiter {
    fn has_given_up(&self) -> bool {
        self.is_closed()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Wants {
    asked: Locked<AskedReads>,
    news: Notify,
}

#[derive(Debug, Default)]
struct AskedReads {
    questions: Questions<Waiter>,
    /// The number of callers that wait for an exact state.
    provers: usize,
    has_ended: bool,
}

impl Wants {
    /// Notes that the contents may be newer than the published transaction.
    pub(crate) fn check(&self) {
        self.lock().questions.check = true;
        self.news.notify_one();
    }

    /// Catches up with everything that is committed. A waiter that is dropped here says that the
    /// task has ended.
    pub(crate) fn sync(&self, waiter: Waiter) {
        let mut asked = self.lock();
        if !asked.has_ended {
            push(&mut asked.questions.syncs, waiter);
            self.news.notify_one();
        }
    }

    /// Reads a node and everything below it again. A waiter that is dropped here says that the task
    /// has ended.
    pub(crate) fn refresh(&self, path: String, waiter: Waiter) {
        let mut asked = self.lock();
        if !asked.has_ended {
            push(&mut asked.questions.refreshes, WaitingRefresh { path, caller: waiter });
            self.news.notify_one();
        }
    }

    /// Waits until there is a request. Cancel safe.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    pub(crate) fn take(&self) -> Questions<Waiter> {
        std::mem::take(&mut self.lock().questions)
    }

    /// Returns `true` if a caller waits for an exact state.
    pub(crate) fn has_provers(&self) -> bool {
        self.lock().provers > 0
    }

    /// Notes that a caller waits for an exact state.
    pub(crate) fn add_prover(&self) {
        self.lock().provers += 1;
        self.news.notify_one();
    }

    pub(crate) fn remove_prover(&self) {
        self.lock().provers -= 1;
    }

    /// The task has ended.
    pub(crate) fn end(&self) {
        let questions = {
            let mut asked = self.lock();
            asked.has_ended = true;
            std::mem::take(&mut asked.questions)
        };
        drop(questions);
    }

    fn lock(&self) -> LockedGuard<'_, AskedReads> {
        self.asked.lock()
    }
}

/// Completes waiting calls.
pub(crate) fn answer(callers: Vec<Waiter>, answer: &Result<i64, Error>) {
    for caller in callers {
        // Sending fails if the caller no longer waits.
        drop(caller.send(answer.clone()));
    }
}
