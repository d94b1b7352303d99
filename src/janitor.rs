//! Cleanup that `Drop` owes: performed by the framework's task, across reconnects, drained by `close`.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};
use zk_curator_client::{Created, Error as RawError, ErrorCode, Version};

use crate::error::Error;
use crate::framework::{Core, Session};
use crate::observe::tell;
use crate::op::protected::{Found, find};
use crate::op::{FAN_OUT, RACE_ROUNDS, delete_children, delete_created_by};
use crate::path::join;
use crate::raw::{RawFuture, RevocableFuture};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// A debt. Paths are the server's. What is `bound` ends with its session.
pub(crate) enum Chore {
    /// A node must go.
    Delete(Deletion),
    /// A create was abandoned before its answer: the node, if there is one, must go.
    AbandonedCreate {
        session: Arc<Session>,
        /// The path that was asked for.
        path: String,
        answer: RevocableFuture<Created>,
        /// How to find the node if the answer is lost.
        protection: Option<Protection>,
        bound: bool,
        /// Whether others create nodes of the same name.
        shared: bool,
    },
    /// A create has an unknown outcome: the node, if there is one, must go.
    FindAndDelete { session: Arc<Session>, protection: Protection, bound: bool },
}

impl Chore {
    /// The node, or its parent and how its name begins.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Delete(deletion) => deletion.path.clone(),
            Self::AbandonedCreate { protection: Some(protection), .. }
            | Self::FindAndDelete { protection, .. } => join(&protection.parent, &protection.prefix),
            Self::AbandonedCreate { path, .. } => path.clone(),
        }
    }

    /// Makes a start with it, without waiting: a delete by path is queued ahead of everything that the session sends later.
    /// Whether there is anything to do at all.
    pub(crate) fn begin(&mut self) -> bool {
        match self {
            Self::Delete(deletion) if deletion.bound && deletion.session.lost.is_cancelled() => false,
            Self::Delete(deletion) => {
                if deletion.czxid.is_none() && deletion.first.is_none() {
                    deletion.first = Some(deletion.session.raw.delete(&deletion.path, deletion.version));
                }
                true
            }
            Self::AbandonedCreate { .. } => !self.withdraw(),
            Self::FindAndDelete { .. } => true,
        }
    }

    /// Takes back a create that was not sent: it leaves nothing.
    pub(crate) fn withdraw(&mut self) -> bool {
        match self {
            Self::AbandonedCreate { answer, .. } => answer.as_mut().withdraw(),
            Self::Delete(_) | Self::FindAndDelete { .. } => false,
        }
    }

    /// Whether it ends with its session.
    pub(crate) const fn is_bound(&self) -> bool {
        match self {
            Self::Delete(deletion) => deletion.bound,
            Self::AbandonedCreate { bound, .. } | Self::FindAndDelete { bound, .. } => *bound,
        }
    }
}

pub(crate) struct Deletion {
    pub(crate) session: Arc<Session>,
    pub(crate) path: String,
    pub(crate) version: Version,
    /// The request that has been queued already.
    pub(crate) first: Option<RawFuture<()>>,
    pub(crate) bound: bool,
    /// Whether its descendants go first.
    pub(crate) with_children: bool,
    /// The transaction that created the node, where others create nodes of the same name: the node is looked at before
    /// every delete but the `first`.
    pub(crate) czxid: Option<i64>,
}

impl Deletion {
    /// Of a node alone, at any version.
    pub(crate) const fn of(session: Arc<Session>, path: String, bound: bool) -> Self {
        Self { session, path, version: Version::Any, first: None, bound, with_children: false, czxid: None }
    }
}

/// Where a protected node is, and how its name begins.
#[derive(Debug, Clone)]
pub(crate) struct Protection {
    pub(crate) parent: String,
    /// The whole name, if the data say whose node it is.
    pub(crate) prefix: String,
    /// What only our node has for data.
    pub(crate) data: Option<Bytes>,
}

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
                    // Nobody can tell whose node it would be.
                    core.report(Error::raw("create", path, error));
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
            (None, Some(czxid)) => delete_created_by(core, raw, &path, czxid, version).await.map(drop),
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
            self.core.report(Error::raw("cleanup", self.path, error.clone()));
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
