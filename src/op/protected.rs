//! Creates whose node is deleted if the caller gives up, and found again if the response is lost.

use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::{Created, Error as RawError};

use crate::core::{Authorship, Cleanup, Core, PendingCleanup, Protection, Session, new_prefix};
use crate::path::{join, split};
use crate::raw::RevocableFuture;

/// A create that may have left a node behind. If it is dropped before it is settled, the node is
/// deleted.
pub(crate) struct TrackedCreate<'a> {
    core: &'a Core,
    /// The requested path.
    path: &'a str,
    protection: Option<Protection>,
    author: Option<&'a Authorship>,
    /// `true` if the node ends with the session.
    bound: bool,
    /// `true` if other clients create nodes of the same name.
    shared: bool,
    /// The pending cleanup; `None` for a plain create without protection, which leaves its node.
    pending: Option<PendingCleanup<'a>>,
    /// The response that a create waits for, if no cleanup is pending.
    answer: Option<RevocableFuture<Created>>,
}

impl<'a> TrackedCreate<'a> {
    pub(crate) fn new(
        core: &'a Core,
        path: &'a str,
        protection: Option<Protection>,
        author: Option<&'a Authorship>,
        bound: bool,
        owes: bool,
        shared: bool,
    ) -> Self {
        let pending = owes.then(|| PendingCleanup::new(core, path, !bound));
        Self { core, path, protection, author, bound, shared, pending, answer: None }
    }

    /// Returns the prefix and the parent, for a protected create.
    pub(crate) const fn protection(&self) -> Option<&Protection> {
        self.protection.as_ref()
    }

    /// Returns the path of the node to create, with the prefix if its name has one.
    pub(crate) fn node_path(&self) -> String {
        match &self.protection {
            Some(Protection { parent, prefix, data: None }) => {
                join(parent, &format!("{prefix}{}", split(self.path).1))
            }
            _ => self.path.to_owned(),
        }
    }

    /// Chooses a new prefix.
    pub(crate) fn renew(&mut self) -> Result<(), RawError> {
        self.settle()?;
        if let Some(protection) = &mut self.protection
            && protection.data.is_none()
        {
            protection.prefix = new_prefix(&self.core.random);
        }
        Ok(())
    }

    /// Queues a create, unless the framework is closing and has taken over the cleanup.
    pub(crate) fn create(
        &mut self,
        session: &Arc<Session>,
        send: impl FnOnce() -> RevocableFuture<Created>,
    ) -> Result<(), RawError> {
        let Some(pending) = &self.pending else {
            self.answer = Some(send());
            return Ok(());
        };
        let (session, path, protection) =
            (Arc::clone(session), self.path.to_owned(), self.protection.clone());
        let (author, bound, shared) = (self.author.cloned(), self.bound, self.shared);
        pending.change(|owed| {
            let answer = send();
            let create = Cleanup::AbandonedCreate {
                session,
                path,
                answer,
                protection,
                author,
                bound,
                shared,
            };
            *owed = Some(create);
        })
    }

    /// Waits for the response for the time that is left. Settles the create, unless its outcome is
    /// unknown.
    pub(crate) async fn response(&mut self, left: Option<Duration>) -> Result<Created, RawError> {
        let Some(left) = left else { return self.unlimited().await };
        match timeout(left, self.unlimited()).await {
            Ok(result) => result,
            Err(_) => Err(RawError::DeadlineExceeded { sent: !self.cancel() }),
        }
    }

    async fn unlimited(&mut self) -> Result<Created, RawError> {
        let Some(pending) = &self.pending else {
            let answer = self.answer.as_mut().ok_or(RawError::UnexpectedResponse)?;
            return answer.as_mut().await;
        };
        pending
            .wait(|owed, cx| {
                let Some(Cleanup::AbandonedCreate { session, answer, protection, bound, .. }) =
                    owed
                else {
                    return Poll::Ready(Err(RawError::UnexpectedResponse));
                };
                let result = ready!(answer.as_mut().poll(cx));
                *owed = match &result {
                    // The author, if there is one, tracks the node. The node of another unprotected
                    // create cannot be told from a foreign one.
                    Err(error) if error.may_have_applied() => {
                        protection.take().map(|protection| Cleanup::FindAndDelete {
                            session: Arc::clone(session),
                            protection,
                            bound: *bound,
                        })
                    }
                    _ => None,
                };
                Poll::Ready(result)
            })
            .await
    }

    /// Cancels the create if it was not sent.
    fn cancel(&mut self) -> bool {
        let Some(pending) = &self.pending else {
            return self.answer.as_mut().is_some_and(|answer| answer.as_mut().withdraw());
        };
        let withdrawn = pending.change(|owed| owed.take_if(Cleanup::cancel).is_some());
        withdrawn.unwrap_or(false)
    }

    /// Ends the cleanup, because the outcome is known: there is no node, or a guard takes it.
    ///
    /// # Errors
    /// `Closed` if the framework is closing, and the janitor has the node.
    pub(crate) fn settle(&self) -> Result<(), RawError> {
        self.pending.as_ref().map_or(Ok(()), PendingCleanup::settle)
    }
}
