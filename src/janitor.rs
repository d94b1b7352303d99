//! Cleanup that `Drop` owes: one task per framework, across reconnects, drained by `close`.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tracing::{debug, warn};
use zk_curator_client::{Created, Error as RawError, ErrorCode};

use crate::framework::{Core, Session};
use crate::op::protected;
use crate::raw::RawFuture;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// A debt. Paths are the server's.
pub(crate) enum Chore {
    /// A node must go.
    Delete {
        session: Arc<Session>,
        path: String,
        version: Option<i32>,
        /// The request that the drop has queued already.
        first: Option<RawFuture<()>>,
        /// Whether the node ends with the session.
        bound: bool,
    },
    /// A create was abandoned before its answer: the node, if there is one, must go.
    AbandonedCreate {
        session: Arc<Session>,
        answer: RawFuture<Created>,
        /// How to find the node if the answer is lost.
        protection: Option<Protection>,
        bound: bool,
    },
    /// A create has an unknown outcome: the node, if there is one, must go.
    FindAndDelete { session: Arc<Session>, protection: Protection, bound: bool },
}

/// Where a protected node is, and how its name begins.
#[derive(Debug, Clone)]
pub(crate) struct Protection {
    pub(crate) parent: String,
    pub(crate) prefix: String,
}

/// Performs chores, concurrently, until told to drain and done.
pub(crate) async fn run(core: Arc<Core>) {
    let queue = core.chore_queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut queue) = queue else {
        return;
    };
    let mut running = FuturesUnordered::new();
    let mut open = true;
    let mut draining = false;
    while open || !running.is_empty() {
        tokio::select! {
            biased;
            () = core.drain.cancelled(), if !draining => {
                draining = true;
                queue.close();
            }
            chore = queue.recv(), if open => match chore {
                Some(chore) => running.push(perform(&core, chore)),
                None => open = false,
            },
            Some(()) = running.next(), if !running.is_empty() => {}
        }
    }
}

async fn perform(core: &Core, chore: Chore) {
    match chore {
        Chore::Delete { session, path, version, first, bound } => {
            delete(core, session, &path, version, first, bound).await;
        }
        Chore::AbandonedCreate { session, answer, protection, bound } => match (answer.await, protection) {
            (Ok(created), _) => delete(core, session, &created.path, None, None, bound).await,
            (Err(error), Some(protection)) if error.may_have_applied() => {
                find_and_delete(core, session, &protection, bound).await;
            }
            _ => {}
        },
        Chore::FindAndDelete { session, protection, bound } => {
            find_and_delete(core, session, &protection, bound).await;
        }
    }
}

async fn delete(
    core: &Core,
    session: Arc<Session>,
    path: &str,
    version: Option<i32>,
    first: Option<RawFuture<()>>,
    bound: bool,
) {
    let mut debt = Debt::new(core, session, path, bound);
    let mut first = first;
    loop {
        let answer = first.take().unwrap_or_else(|| debt.session.raw.delete(path, version)).await;
        match answer {
            Ok(()) | Err(RawError::Refused(ErrorCode::NoNode)) => return,
            Err(error) => {
                if !debt.try_again(&error).await {
                    return;
                }
            }
        }
    }
}

async fn find_and_delete(core: &Core, session: Arc<Session>, protection: &Protection, bound: bool) {
    let mut debt = Debt::new(core, session, &protection.parent, bound);
    loop {
        match protected::find(&*debt.session.raw, protection).await {
            Ok(None) => return,
            Ok(Some(path)) => {
                debug!(path, "deleting a node whose creator has gone");
                return delete(core, debt.session, &path, None, None, bound).await;
            }
            Err(error) => {
                if !debt.try_again(&error).await {
                    return;
                }
            }
        }
    }
}

/// One debt's patience.
struct Debt<'a> {
    core: &'a Core,
    session: Arc<Session>,
    path: &'a str,
    bound: bool,
    pause: Duration,
}

impl<'a> Debt<'a> {
    const fn new(core: &'a Core, session: Arc<Session>, path: &'a str, bound: bool) -> Self {
        Self { core, session, path, bound, pause: FIRST_PAUSE }
    }

    /// Whether to try again, after a pause; in the next session, if this one is over and the node is not.
    async fn try_again(&mut self, error: &RawError) -> bool {
        let session_over = self.session.lost.is_cancelled()
            || matches!(
                error,
                RawError::SessionExpired { .. } | RawError::AuthFailed { .. } | RawError::Closed { .. }
            );
        if session_over {
            return !self.bound && self.await_next_session().await;
        }
        let passing = matches!(
            error.code(),
            Some(
                ErrorCode::ConnectionLoss
                    | ErrorCode::OperationTimeout
                    | ErrorCode::RequestTimeout
                    | ErrorCode::SessionMoved
                    | ErrorCode::Throttled
            )
        ) || matches!(error, RawError::QueueFull { .. });
        if !passing {
            // No repetition mends it (CURATOR-42).
            warn!(path = self.path, %error, "cleanup is not possible");
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }

    async fn await_next_session(&mut self) -> bool {
        match self.core.session_after(self.session.epoch).await {
            Some(session) => {
                self.session = session;
                true
            }
            None => false,
        }
    }
}
