//! [`Signal`]: a value that tasks wait on.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A value that tasks wait on, like tokio's `watch`. That one wakes them in random order; this one in the order in
/// which they began to wait, so that a simulation replays.
#[derive(Debug, Default)]
pub(crate) struct Signal<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Signal<T> {
    /// Changes the value, and wakes those who wait.
    pub(crate) fn modify(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.lock());
        self.changed.notify_waiters();
    }

    /// Looks at the value.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Waits until the value satisfies a condition.
    pub(crate) async fn until(&self, condition: impl Fn(&T) -> bool) {
        while !self.look(&condition) {
            let mut changed = pin!(self.changed.notified());
            // Before it is looked at again: a change in between must not be missed.
            changed.as_mut().enable();
            if !self.look(&condition) {
                changed.await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::Signal;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_their_order() {
        let signal = Arc::new(Signal::<bool>::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..50)
            .map(|n| {
                let (signal, order) = (Arc::clone(&signal), Arc::clone(&order));
                tokio::spawn(async move {
                    signal.until(|open| *open).await;
                    order.lock().unwrap().push(n);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(order.lock().unwrap().is_empty());
        signal.modify(|open| *open = true);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }
}
