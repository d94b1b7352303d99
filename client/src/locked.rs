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

#[cfg(all(test, zk_threads))]
mod threads {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use shuttle::thread;

    use super::Locked;

    #[test]
    fn changes_are_not_lost_even_if_a_thread_panics_under_the_lock() {
        shuttle::check_dfs(
            || {
                let count = Arc::new(Locked::new(0));
                let threads = [false, true].map(|panics| {
                    let count = Arc::clone(&count);
                    thread::spawn(move || {
                        drop(catch_unwind(AssertUnwindSafe(|| {
                            let mut count = count.lock();
                            *count += 1;
                            assert!(!panics, "under the lock");
                        })));
                    })
                });
                *count.lock() += 1;
                for thread in threads {
                    thread.join().expect("caught");
                }
                assert_eq!(*count.lock(), 3);
            },
            None,
        );
    }
}
