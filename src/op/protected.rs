//! Protection of creates: a name that only we can have chosen, to find the node after a lost answer.

use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::{Created, Error as RawError};

use crate::core::{Chore, Core, Debt, Protection, Session, new_prefix};
use crate::raw::RevocableFuture;

/// The node that a create may have left behind. Dropped before it is settled, it owes the deletion.
pub(crate) struct Claim<'a> {
    core: &'a Core,
    /// The path that was asked for.
    path: &'a str,
    protection: Option<Protection>,
    /// Whether the node ends with the session.
    bound: bool,
    /// Whether others create nodes of the same name.
    shared: bool,
    /// If anything is owed at all: not for a plain create without protection.
    debt: Option<Debt<'a>>,
    /// The answer that a create waits for, if nothing is owed.
    answer: Option<RevocableFuture<Created>>,
}

impl<'a> Claim<'a> {
    pub(crate) fn new(
        core: &'a Core,
        path: &'a str,
        protection: Option<Protection>,
        bound: bool,
        owes: bool,
        shared: bool,
    ) -> Self {
        let debt = owes.then(|| Debt::new(core, path, !bound));
        Self { core, path, protection, bound, shared, debt, answer: None }
    }

    /// The prefix and the parent, for a protected create.
    pub(crate) const fn protection(&self) -> Option<&Protection> {
        self.protection.as_ref()
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

    /// Queues a create, unless the framework is closing and has taken over what is owed.
    pub(crate) fn create(
        &mut self,
        session: &Arc<Session>,
        send: impl FnOnce() -> RevocableFuture<Created>,
    ) -> Result<(), RawError> {
        let Some(debt) = &self.debt else {
            self.answer = Some(send());
            return Ok(());
        };
        let (session, path, protection) =
            (Arc::clone(session), self.path.to_owned(), self.protection.clone());
        let (bound, shared) = (self.bound, self.shared);
        debt.change(|owed| {
            *owed = Some(Chore::AbandonedCreate { session, path, answer: send(), protection, bound, shared });
        })
    }

    /// Waits for its answer, for as long as there is time. Settles the claim, unless the outcome is unknown.
    pub(crate) async fn answer(&mut self, left: Option<Duration>) -> Result<Created, RawError> {
        let Some(left) = left else { return self.unlimited().await };
        match timeout(left, self.unlimited()).await {
            Ok(result) => result,
            // The answer that comes later says what has to be deleted.
            Err(_) => Err(RawError::DeadlineExceeded { sent: !self.withdraw() }),
        }
    }

    async fn unlimited(&mut self) -> Result<Created, RawError> {
        let Some(debt) = &self.debt else {
            let answer = self.answer.as_mut().ok_or(RawError::UnexpectedAnswer)?;
            return answer.as_mut().await;
        };
        debt.wait(|owed, cx| {
            let Some(Chore::AbandonedCreate { session, answer, protection, bound, .. }) = owed else {
                return Poll::Ready(Err(RawError::UnexpectedAnswer));
            };
            let result = ready!(answer.as_mut().poll(cx));
            *owed = match &result {
                // An unprotected node cannot be told from somebody else's.
                Err(error) if error.may_have_applied() => protection.take().map(|protection| {
                    Chore::FindAndDelete { session: Arc::clone(session), protection, bound: *bound }
                }),
                _ => None,
            };
            Poll::Ready(result)
        })
        .await
    }

    /// Takes the create back if it was not sent.
    fn withdraw(&mut self) -> bool {
        let Some(debt) = &self.debt else {
            return self.answer.as_mut().is_some_and(|answer| answer.as_mut().withdraw());
        };
        let withdrawn = debt.change(|owed| owed.take_if(Chore::withdraw).is_some());
        withdrawn.unwrap_or(false)
    }

    /// The outcome has become known: there is no node, or a guard is to have it.
    ///
    /// # Errors
    /// `Closed` when the framework is closing, and the janitor has the node.
    pub(crate) fn settle(&self) -> Result<(), RawError> {
        self.debt.as_ref().map_or(Ok(()), Debt::settle)
    }
}
