use std::fmt;

/// Calls a function when it is dropped.
#[must_use = "dropping it calls the function"]
pub struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    /// Calls `call` when the result is dropped.
    pub const fn new(call: F) -> Self {
        Self(Some(call))
    }

    /// Drops it without a call.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

impl<F: FnOnce()> fmt::Debug for OnDrop<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDrop").finish_non_exhaustive()
    }
}
