//! [`Signal`]: a value that tasks wait on.

use crate::locked::{Locked, LockedGuard};
use crate::primitives::Notify;

/// A value that tasks wait on, like tokio's `watch`. `watch` wakes the tasks in random order; this
/// type wakes them in the order in which they began to wait, so that a simulation can be replayed.
///
/// Waiting tasks see the latest value, and may miss earlier ones.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::sync::Arc;
/// use zk_curator_client::internal::Signal;
///
/// let done = Arc::new(Signal::new(0));
/// let waiting = tokio::spawn({
///     let done = Arc::clone(&done);
///     async move { done.find(|n| (*n > 1).then_some(*n)).await }
/// });
/// done.modify(|n| *n += 2);
/// assert_eq!(waiting.await.unwrap(), 2);
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Signal<T> {
    value: Locked<T>,
    changed: Notify,
}

impl<T> Signal<T> {
    /// Returns a signal with this value.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { value: Locked::new(value), changed: Notify::const_new() }
    }

    /// Changes the value, and wakes the waiters. `change` runs under a lock: it must not block,
    /// nor use the signal.
    pub fn modify<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_waiters();
        result
    }

    /// Replaces the value, and wakes the waiters.
    pub fn set(&self, value: T) {
        // The old value is dropped without the lock.
        drop(self.modify(|present| std::mem::replace(present, value)));
    }

    /// Reads the value. `look` runs under a lock: it must not block, nor use the signal.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Waits until the value satisfies a condition.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn until(&self, condition: impl Fn(&T) -> bool) {
        self.find(|value| condition(value).then_some(())).await;
    }

    /// Waits until `look` finds something in the value, and returns it.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn find<R>(&self, look: impl Fn(&T) -> Option<R>) -> R {
        loop {
            // Created before the value is read, so it notices a change after the read.
            let changed = self.changed.notified();
            if let Some(found) = self.look(&look) {
                return found;
            }
            changed.await;
        }
    }

    fn lock(&self) -> LockedGuard<'_, T> {
        self.value.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::Signal;

    #[tokio::test]
    async fn waiters_are_woken_in_order() {
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
        signal.set(true);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }
}

#[cfg(all(test, zk_threads))]
mod threads {
    use std::sync::Arc;

    use shuttle::{future, thread};

    use super::Signal;

    /// A change between the look at the value and the wait is not missed: shuttle finds the
    /// deadlock.
    #[test]
    fn no_change_is_missed() {
        shuttle::check_dfs(
            || {
                let signal = Arc::new(Signal::new(0));
                let changes = Arc::clone(&signal);
                let changing = thread::spawn(move || {
                    changes.set(1);
                    changes.set(2);
                });
                future::block_on(signal.until(|value| *value == 2));
                changing.join().expect("no panic");
            },
            None,
        );
    }

    /// Two waiters, one of which stops waiting after its first look.
    #[test]
    fn a_waiter_that_leaves_takes_no_change_away() {
        shuttle::check_random(
            || {
                let signal = Arc::new(Signal::new(false));
                let (waits, leaves, changes) =
                    (Arc::clone(&signal), Arc::clone(&signal), Arc::clone(&signal));
                let waiting =
                    thread::spawn(move || future::block_on(waits.until(|is_set| *is_set)));
                let leaving = thread::spawn(move || {
                    future::block_on(async {
                        tokio::select! {
                            biased;
                            () = leaves.until(|is_set| *is_set) => {}
                            () = future::yield_now() => {}
                        }
                    });
                });
                changes.set(true);
                waiting.join().expect("no panic");
                leaving.join().expect("no panic");
            },
            1_000,
        );
    }
}
