use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use zk_curator_client::Error as RawError;

use super::Cleanup;
use super::registry::ResourceRegistration;
use super::slot::CleanupSlot;
use crate::core::shared::Core;

/// The cleanup that is necessary if an unfinished future is dropped now. A persistent cleanup
/// outlives its session, and `close` waits for it.
pub(crate) struct PendingCleanup<'a> {
    core: &'a Core,
    slot: Arc<CleanupSlot>,
    _registration: Option<ResourceRegistration>,
}

impl<'a> PendingCleanup<'a> {
    /// Creates an empty one. `path` is the server's.
    pub(crate) fn new(core: &'a Core, path: &str, persistent: bool) -> Self {
        let slot = Arc::new(CleanupSlot::default());
        let registration = persistent.then(|| core.resources.pending(path, &slot));
        Self { core, slot, _registration: registration }
    }

    /// Changes the cleanup. `change` sends the request that belongs to the cleanup, so that it is
    /// never sent after `close` has taken over.
    ///
    /// # Errors
    /// `Closed` if `close` has taken over.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut Option<Cleanup>) -> T,
    ) -> Result<T, RawError> {
        let mut state = self.slot.lock();
        match &state.taken {
            Some(taken) => Err(taken.clone()),
            None => Ok(change(&mut state.cleanup)),
        }
    }

    /// Ends the cleanup: nothing is left to do.
    ///
    /// # Errors
    /// `Closed` if `close` has taken over. It will perform the cleanup.
    pub(crate) fn settle(&self) -> Result<(), RawError> {
        self.change(|cleanup| drop(cleanup.take()))
    }

    /// Polls the request that belongs to the cleanup.
    pub(crate) async fn wait<T>(
        &self,
        mut poll: impl FnMut(&mut Option<Cleanup>, &mut Context<'_>) -> Poll<Result<T, RawError>>,
    ) -> Result<T, RawError> {
        poll_fn(|cx| {
            let mut state = self.slot.lock();
            if let Some(taken) = &state.taken {
                return Poll::Ready(Err(taken.clone()));
            }
            let answer = poll(&mut state.cleanup, cx);
            if answer.is_pending() {
                state.waiter.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
            }
            answer
        })
        .await
    }
}

impl Drop for PendingCleanup<'_> {
    fn drop(&mut self) {
        let cleanup = self.slot.lock().cleanup.take();
        if let Some(mut cleanup) = cleanup
            && cleanup.begin()
        {
            self.core.owe(cleanup);
        }
    }
}
