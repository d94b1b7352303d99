//! [`Versioned`]: a value with the number of its changes, which readers look at without a lock.

use zk_curator::internal::Signal;
use zk_curator::internal::atomic::{AtomicU64, Ordering};

/// A value that one task changes. Readers that keep something derived from it compare versions.
///
/// A value derived from a [versioned look](Self::versioned) is at least as new as its version, and
/// is derived again after the next change.
pub(crate) struct Versioned<T> {
    value: Signal<T>,
    version: AtomicU64,
}

impl<T> Versioned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Signal::new(value), version: AtomicU64::new(0) }
    }

    /// Changes the value. `change` runs under a lock.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        self.value.modify(|value| {
            let result = change(value);
            self.version.fetch_add(1, Ordering::Release);
            result
        })
    }

    /// Reads the value. `look` runs under a lock.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        self.value.look(look)
    }

    /// Reads the value, with a version that is not later.
    pub(crate) fn versioned<R>(&self, look: impl FnOnce(&T) -> R) -> (u64, R) {
        // In this order. A change between the two is seen as one that is still to come.
        let version = self.version();
        (version, self.look(look))
    }

    /// Returns the number of changes, without a lock.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Waits until the value satisfies a condition.
    pub(crate) async fn until(&self, condition: impl Fn(&T) -> bool) {
        self.value.until(condition).await;
    }

    /// Waits until `look` finds something in the value.
    pub(crate) async fn find<R>(&self, look: impl Fn(&T) -> Option<R>) -> R {
        self.value.find(look).await
    }
}

#[cfg(all(test, zk_threads))]
mod threads {
    use std::sync::Arc;

    use shuttle::thread;
    use zk_curator::internal::Locked;

    use super::Versioned;

    /// What providers do: they keep a choice, and choose again when there is a later version. No
    /// thread keeps an old choice after the last change.
    #[test]
    fn what_is_kept_is_not_older_than_its_version() {
        shuttle::check_dfs(
            || {
                let value = Arc::new(Versioned::new(0));
                let kept = Arc::new(Locked::new(None));
                let choose = |value: &Versioned<u64>, kept: &Locked<Option<(u64, u64)>>| {
                    let mut kept = kept.lock();
                    let version = value.version();
                    let present = kept.filter(|(of, _)| *of == version);
                    kept.insert(present.unwrap_or_else(|| value.versioned(|value| *value))).1
                };
                let choosing = {
                    let (value, kept) = (Arc::clone(&value), Arc::clone(&kept));
                    thread::spawn(move || choose(&value, &kept))
                };
                value.change(|value| *value = 1);
                assert_eq!(choose(&value, &kept), 1, "the change was before");
                assert!(choosing.join().expect("no panic") <= 1);
                assert_eq!(choose(&value, &kept), 1);
            },
            None,
        );
    }
}
