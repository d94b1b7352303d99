use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use zk_curator_client::Error as RawError;

use super::chore::Chore;

/// The chore, which the future and `close` both reach.
#[derive(Default)]
pub(crate) struct Slot(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) chore: Option<Chore>,
    /// The future, if it waits for an answer that the chore has.
    pub(super) waiter: Option<Waker>,
    /// `close` has taken the chore: what the future ends with.
    pub(super) taken: Option<RawError>,
}

impl Slot {
    /// Takes the chore away from its future, which ends with `Closed`.
    pub(crate) fn take(&self) -> Option<Chore> {
        let mut state = self.lock();
        let mut chore = state.chore.take();
        drop(chore.take_if(|chore| !chore.begin()));
        state.taken.get_or_insert_with(|| RawError::Closed { sent: chore.is_some() });
        let waiter = state.waiter.take();
        drop(state);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        chore
    }

    /// Whether anything is owed now.
    pub(crate) fn is_owed(&self) -> bool {
        self.lock().chore.is_some()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Whole, whatever panicked: every change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
