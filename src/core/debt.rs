//! The cleanup that a future owes if it is dropped now. Its drop hands the chore to the janitor, or `close` does, if that comes
//! first and nobody polls the future any more.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use zk_curator_client::Error as RawError;

use super::chore::Chore;
use super::held::Ticket;
use super::shared::Core;
use super::slot::Slot;

/// The cleanup that an unfinished future owes. A lasting one outlives its session: `close` waits for it.
pub(crate) struct Debt<'a> {
    core: &'a Core,
    slot: Arc<Slot>,
    _ticket: Option<Ticket>,
}

impl<'a> Debt<'a> {
    /// None yet. `path` is the server's.
    pub(crate) fn new(core: &'a Core, path: &str, lasting: bool) -> Self {
        let slot = Arc::new(Slot::default());
        let ticket = lasting.then(|| core.held.debt(path, &slot));
        Self { core, slot, _ticket: ticket }
    }

    /// Changes what is owed. A request that is part of it is made here, so that it is never sent after `close` has taken
    /// over.
    ///
    /// # Errors
    /// `Closed` when `close` has.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Option<Chore>) -> T) -> Result<T, RawError> {
        let mut state = self.slot.lock();
        match &state.taken {
            Some(taken) => Err(taken.clone()),
            None => Ok(change(&mut state.chore)),
        }
    }

    /// Nothing is owed any more.
    ///
    /// # Errors
    /// `Closed` when `close` has taken over: what was owed will be done.
    pub(crate) fn settle(&self) -> Result<(), RawError> {
        self.change(|chore| drop(chore.take()))
    }

    /// Waits for what is owed to come to something.
    pub(crate) async fn wait<T>(
        &self,
        mut poll: impl FnMut(&mut Option<Chore>, &mut Context<'_>) -> Poll<Result<T, RawError>>,
    ) -> Result<T, RawError> {
        poll_fn(|cx| {
            let mut state = self.slot.lock();
            if let Some(taken) = &state.taken {
                return Poll::Ready(Err(taken.clone()));
            }
            let answer = poll(&mut state.chore, cx);
            if answer.is_pending() {
                state.waiter.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
            }
            answer
        })
        .await
    }
}

impl Drop for Debt<'_> {
    fn drop(&mut self) {
        let chore = self.slot.lock().chore.take();
        if let Some(mut chore) = chore
            && chore.begin()
        {
            self.core.owe(chore);
        }
    }
}
