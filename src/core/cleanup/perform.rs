use std::sync::Arc;
use std::time::Duration;

use zk_curator_client::internal::sleep;
use zk_curator_client::{Error as RawError, ErrorCode, Version};

use super::{Cleanup, OwedDeletion};
use crate::core::authorship::Orphan;
use crate::core::identity::delete_created_by;
use crate::core::protection::{ProtectedNode, Protection, find};
use crate::core::quorum::read_behind_quorum;
use crate::core::race::RACE_ROUNDS;
use crate::core::session::Session;
use crate::core::shared::Core;
use crate::core::sweep::{FAN_OUT, delete_children};
use crate::core::tell::tell;
use crate::error::Error;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Performs the cleanup, with retries. Returns `true` if nothing is left on the server.
pub(crate) async fn perform(core: &Core, cleanup: Cleanup) -> bool {
    match cleanup {
        Cleanup::Delete(deletion) => delete(core, deletion).await,
        Cleanup::AbandonedCreate { session, path, answer, protection, author, bound, shared } => {
            let answer = answer.await;
            if let Some(author) = &author {
                let is_left = match &answer {
                    Ok(created) => {
                        author.take_created(&core.authors, &path, created.stat.czxid, &session)
                    }
                    Err(error) => error.may_have_applied(),
                };
                if answer.is_ok() || !is_left {
                    author.refused();
                }
                if !is_left {
                    // A later create of the author has found the node, or the node does not exist.
                    return true;
                }
            }
            match (answer, protection) {
                (Ok(created), _) => {
                    let czxid = shared.then_some(created.stat.czxid);
                    delete(
                        core,
                        OwedDeletion { czxid, ..OwedDeletion::of(session, created.path, bound) },
                    )
                    .await
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
        Cleanup::FindAndDelete { session, protection, bound } => {
            find_and_delete(core, session, &protection, bound).await
        }
        Cleanup::Orphan(orphan) => delete_orphan(core, orphan).await,
    }
}

async fn delete(core: &Core, deletion: OwedDeletion) -> bool {
    let OwedDeletion { session, path, version, mut first, bound, with_children, czxid } = deletion;
    let mut backoff = CleanupBackoff::new(core, session, &path, bound);
    let mut sweeps = 0;
    loop {
        let raw = &*backoff.session.raw;
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
            answer = delete_children(&*backoff.session.raw, &path, FAN_OUT).await;
            if answer.is_ok() {
                continue;
            }
        }
        match answer {
            Ok(()) | Err(RawError::Refused(ErrorCode::NoNode)) => return true,
            Err(error) => {
                if !backoff.try_again(&error).await {
                    return false;
                }
            }
        }
    }
}

async fn find_and_delete(
    core: &Core,
    session: Arc<Session>,
    protection: &Protection,
    bound: bool,
) -> bool {
    let mut backoff = CleanupBackoff::new(core, session, &protection.parent, bound);
    let mut rounds = 0..RACE_ROUNDS;
    loop {
        let found = find(&*backoff.session.raw, protection).await;
        let answer = match found {
            Ok(None) => return true,
            Ok(Some(ProtectedNode { path, stat })) => {
                tell!(debug, core, core.status(), path, "deleting a node whose creator has gone");
                let version = stat.map_or(Version::Any, |stat| stat.version.into());
                backoff.session.raw.delete(&path, version).await
            }
            Err(error) => Err(error),
        };
        match answer {
            Ok(()) | Err(RawError::Refused(ErrorCode::NoNode)) => return true,
            Err(RawError::Refused(ErrorCode::BadVersion)) if rounds.next().is_some() => {}
            // Read again, because another node may have replaced it.
            Err(error) => {
                if !backoff.try_again(&error).await {
                    return false;
                }
            }
        }
    }
}

async fn delete_orphan(core: &Core, orphan: Orphan) -> bool {
    let mut backoff = CleanupBackoff::new(core, Arc::clone(&orphan.session), &orphan.path, true);
    loop {
        if core.authors.is_in_flight(&orphan.path) {
            // The node of the other create cannot be told from the orphan yet.
            backoff.pause().await;
            continue;
        }
        let raw = &*backoff.session.raw;
        let owner = raw.session().map(|session| session.id.get());
        let there = read_behind_quorum(raw, &orphan.path, |raw, path| raw.exists(path)).await;
        let stat = match there {
            Ok(stat) => stat.filter(|stat| Some(stat.ephemeral_owner) == owner),
            Err(error) if backoff.try_again(&error).await => continue,
            Err(_) => return false,
        };
        let Some(stat) = stat else { return true };
        match orphan.take(&core.authors, stat.czxid) {
            Some(true) => {}
            Some(false) => return true,
            None => continue,
        }
        tell!(
            debug,
            core,
            core.status(),
            path = orphan.path,
            "deleting a node whose creator has gone"
        );
        let (czxid, path) = (Some(stat.czxid), orphan.path.clone());
        return delete(
            core,
            OwedDeletion { czxid, ..OwedDeletion::of(backoff.session, path, true) },
        )
        .await;
    }
}

/// The pauses between the attempts of one cleanup.
struct CleanupBackoff<'a> {
    core: &'a Core,
    session: Arc<Session>,
    path: &'a str,
    bound: bool,
    pause: Duration,
}

impl<'a> CleanupBackoff<'a> {
    const fn new(core: &'a Core, session: Arc<Session>, path: &'a str, bound: bool) -> Self {
        Self { core, session, path, bound, pause: FIRST_PAUSE }
    }

    /// Pauses, and returns `true` if the cleanup should be tried again: in the next session, if
    /// this one is over and the node outlives it.
    async fn try_again(&mut self, error: &RawError) -> bool {
        let session_over = self.session.lost.is_cancelled()
            || matches!(
                error,
                RawError::SessionExpired { .. }
                    | RawError::AuthFailed { .. }
                    | RawError::Closed { .. }
            );
        if session_over && self.bound {
            return false;
        }
        if session_over {
            self.await_next_session().await;
            return true;
        }
        let error = Error::raw("cleanup", self.path, error.clone());
        if !error.is_transient() {
            // Retries cannot fix this error (CURATOR-42).
            self.core.report_background_error(error);
            return false;
        }
        self.pause().await;
        true
    }

    async fn pause(&mut self) {
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    async fn await_next_session(&mut self) {
        self.session = self.core.session_after(self.session.epoch).await;
    }
}
