use std::task::Waker;

use zk_curator_client::Error as RawError;
use zk_curator_client::internal::{Locked, LockedGuard};

use super::Cleanup;

/// A cleanup that both the future and `close` can reach.
#[derive(Default)]
pub(crate) struct CleanupSlot(Locked<CleanupState>);

#[derive(Default)]
pub(super) struct CleanupState {
    pub(super) cleanup: Option<Cleanup>,
    /// The waker of the future, if it waits for a response that the cleanup has.
    pub(super) waiter: Option<Waker>,
    /// The error of the future after `close` has taken the cleanup.
    pub(super) taken: Option<RawError>,
}

impl CleanupSlot {
    /// Takes the cleanup from its future, which ends with `Closed`.
    pub(crate) fn take(&self) -> Option<Cleanup> {
        let mut state = self.lock();
        let mut cleanup = state.cleanup.take();
        drop(cleanup.take_if(|cleanup| !cleanup.begin()));
        state.taken.get_or_insert_with(|| RawError::Closed { sent: cleanup.is_some() });
        let waiter = state.waiter.take();
        drop(state);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        cleanup
    }

    /// Returns `true` if a cleanup is pending now.
    pub(crate) fn is_owed(&self) -> bool {
        self.lock().cleanup.is_some()
    }

    pub(super) fn lock(&self) -> LockedGuard<'_, CleanupState> {
        self.0.lock()
    }
}
