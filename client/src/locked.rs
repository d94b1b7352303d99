use std::sync::PoisonError;

use crate::primitives::{Mutex, MutexGuard};

/// The access to the value of a [`Locked`]. Dropping it unlocks.
pub type LockedGuard<'a, T> = MutexGuard<'a, T>;

/// A mutex that ignores poisoning. Use it for values that stay consistent wherever the code that
/// changes them can panic.
#[derive(Debug, Default)]
pub struct Locked<T>(Mutex<T>);

impl<T> Locked<T> {
    /// Returns a mutex with this value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks the mutex, waiting for its turn.
    pub fn lock(&self) -> LockedGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value, to which the caller has exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
