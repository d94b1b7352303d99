//! Cleanup that `Drop` owes: performed by the framework's task, across reconnects, drained by `close`.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};
use zk_curator_client::{Error as RawError, ErrorCode, Version};

use crate::core::{
    Chore, Core, Deletion, FAN_OUT, Found, Protection, RACE_ROUNDS, Session, delete_children,
    delete_created_by, find, tell,
};
use crate::error::Error;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Performs chores, concurrently, until the framework is closing and none is left.
///
/// When it is closing, futures that may still owe something are waited for: they hear of it, and hand it over or have
/// their answer. What nobody polls is taken from them after a part of the close timeout. Guards stay what they are: who
/// holds one may still keep the node.
///
/// Returns when it began to close.
pub(crate) async fn run(core: &Core) -> Instant {
    let queue = core.chore_queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut queue) = queue else {
        return Instant::now();
    };
    let mut running = FuturesUnordered::new();
    let mut open = true;
    let mut closing = None;
    let mut waits = true;
    while open || !running.is_empty() {
        if !waits && running.is_empty() {
            queue.close();
        }
        let patience = closing.map_or(Duration::ZERO, |_| core.close_timeout() / 4);
        let until = closing.unwrap_or_else(Instant::now) + patience;
        tokio::select! {
            biased;
            () = core.shutdown.cancelled(), if closing.is_none() => closing = Some(Instant::now()),
            chore = queue.recv(), if open => match chore {
                Some((chore, ticket)) => running.push(async move { (perform(core, chore).await, ticket) }),
                None => open = false,
            },
            Some((done, ticket)) = running.next(), if !running.is_empty() => {
                // What is refused before has been told.
                if done || closing.is_none() {
                    ticket.settle();
                }
            }
            () = core.held.quiet(), if waits && closing.is_some() => waits = false,
            () = sleep_until(until), if waits && closing.is_some() => {
                waits = false;
                for chore in core.held.take_debts() {
                    core.owe(chore);
                }
            }
        }
    }
    closing.unwrap_or_else(Instant::now)
}

/// Whether nothing is left of it.
async fn perform(core: &Core, chore: Chore) -> bool {
    match chore {
        Chore::Delete(deletion) => delete(core, deletion).await,
        Chore::AbandonedCreate { session, path, answer, protection, bound, shared } => {
            match (answer.await, protection) {
                (Ok(created), _) => {
                    let czxid = shared.then_some(created.stat.czxid);
                    delete(core, Deletion { czxid, ..Deletion::of(session, created.path, bound) }).await
                }
                (Err(error), Some(protection)) if error.may_have_applied() => {
                    find_and_delete(core, session, &protection, bound).await
                }
                (Err(error), None) if error.may_have_applied() && !bound => {
                    // The owner of the node cannot be determined.
                    core.report_background_error(Error::raw("create", path, error));
                    false
                }
                (Err(_), _) => true,
            }
        }
        Chore::FindAndDelete { session, protection, bound } => {
            find_and_delete(core, session, &protection, bound).await
        }
    }
}

async fn delete(core: &Core, deletion: Deletion) -> bool {
    let Deletion { session, path, version, mut first, bound, with_children, czxid } = deletion;
    let mut debt = Patience::new(core, session, &path, bound);
    let mut sweeps = 0;
    loop {
        let raw = &*debt.session.raw;
        let mut answer = match (first.take(), czxid) {
            (Some(first), _) => first.await,
            (None, None) => raw.delete(&path, version).await,
            (None, Some(czxid)) => {
                delete_created_by(&core.deletes, raw, &path, czxid, version).await.map(drop)
            }
        };
        if matches!(answer, Err(RawError::Refused(ErrorCode::NotEmpty)))
            && with_children
            && sweeps < RACE_ROUNDS
        {
            sweeps += 1;
            answer = delete_children(&*debt.session.raw, &path, FAN_OUT).await;
            if answer.is_ok() {
                continue;
            }
        }
        match answer {
            Ok(()) | Err(RawError::Refused(ErrorCode::NoNode)) => return true,
            Err(error) => {
                if !debt.try_again(&error).await {
                    return false;
                }
            }
        }
    }
}

async fn find_and_delete(core: &Core, session: Arc<Session>, protection: &Protection, bound: bool) -> bool {
    let mut debt = Patience::new(core, session, &protection.parent, bound);
    let mut rounds = 0..RACE_ROUNDS;
    loop {
        let found = find(&*debt.session.raw, protection).await;
        let answer = match found {
            Ok(None) => return true,
            Ok(Some(Found { path, stat })) => {
                tell!(debug, core, core.status(), path, "deleting a node whose creator has gone");
                let version = stat.map_or(Version::Any, |stat| stat.version.into());
                debt.session.raw.delete(&path, version).await
            }
            Err(error) => Err(error),
        };
        match answer {
            Ok(()) | Err(RawError::Refused(ErrorCode::NoNode)) => return true,
            Err(RawError::Refused(ErrorCode::BadVersion)) if rounds.next().is_some() => {}
            // Look again: it may be gone, and another one in its place.
            Err(error) => {
                if !debt.try_again(&error).await {
                    return false;
                }
            }
        }
    }
}

/// One chore's patience.
struct Patience<'a> {
    core: &'a Core,
    session: Arc<Session>,
    path: &'a str,
    bound: bool,
    pause: Duration,
}

impl<'a> Patience<'a> {
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
        if session_over && self.bound {
            return false;
        }
        if session_over {
            self.await_next_session().await;
            return true;
        }
        // What each code means here: docs/decisions/unknown-outcomes.md.
        let passing = matches!(
            error.code(),
            Some(
                ErrorCode::ConnectionLoss
                    | ErrorCode::OperationTimeout
                    | ErrorCode::RequestTimeout
                    | ErrorCode::SessionMoved
                    | ErrorCode::Throttled
                    | ErrorCode::NotReadOnly
            )
        ) || matches!(error, RawError::QueueFull { .. });
        if !passing {
            // No repetition mends it (CURATOR-42).
            self.core.report_background_error(Error::raw("cleanup", self.path, error.clone()));
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }

    async fn await_next_session(&mut self) {
        self.session = self.core.session_after(self.session.epoch).await;
    }
}
