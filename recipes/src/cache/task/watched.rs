//! [`Watched`]: contents that one task changes, and that others read and wait for.

use std::sync::PoisonError;

use zk_curator::internal::{RwLock, RwLockReadGuard, RwLockWriteGuard, Signal};

/// Contents behind a lock, with a count of their changes for callers that wait.
#[derive(Debug)]
pub(super) struct Watched<T> {
    contents: RwLock<T>,
    changes: Signal<u64>,
}

impl<T> Watched<T> {
    pub(super) fn new(contents: T) -> Self {
        Self { contents: RwLock::new(contents), changes: Signal::new(0) }
    }

    pub(super) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.read())
    }

    /// Changes the contents, and wakes the callers that wait for a change.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.write());
        self.changes.modify(|changes| *changes += 1);
        result
    }

    /// Changes what no caller waits for.
    pub(super) fn arrange<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.write())
    }

    /// Waits until `look` finds something. Cancel safe.
    pub(super) async fn find<R>(&self, mut look: impl FnMut(&T) -> Option<R>) -> R {
        self.after_changes(|| look(&self.read())).await
    }

    /// Waits until `look` takes something out of the contents. Cancel safe.
    pub(super) async fn find_mut<R>(&self, mut look: impl FnMut(&mut T) -> Option<R>) -> R {
        self.after_changes(|| look(&mut self.write())).await
    }

    /// Checks now and after every change, until there is a result.
    async fn after_changes<R>(&self, mut look: impl FnMut() -> Option<R>) -> R {
        loop {
            let seen = self.changes.look(|changes| *changes);
            if let Some(found) = look() {
                return found;
            }
            self.changes.until(|changes| *changes != seen).await;
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, T> {
        // A panic under the lock comes from a closure of the user: a closure that only reads, or a
        // filter, whose panic ends the cache.
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, zk_threads))]
mod threads {
    use std::sync::Arc;

    use shuttle::{future, thread};

    use super::Watched;

    /// Readers see both parts of every change, and a caller that waits sees the last one: shuttle
    /// finds a wake-up that is missed.
    #[test]
    fn readers_see_whole_changes_and_miss_none() {
        shuttle::check_random(
            || {
                let watched = Arc::new(Watched::new((0, 0)));
                let (changes, reads) = (Arc::clone(&watched), Arc::clone(&watched));
                let changing = thread::spawn(move || {
                    changes.change(|(one, _)| *one = 1);
                    changes.change(|contents| *contents = (2, 2));
                });
                let reading = thread::spawn(move || {
                    assert!([(0, 0), (1, 0), (2, 2)].contains(&reads.look(|contents| *contents)));
                });
                future::block_on(watched.find(|(one, two)| (one + two == 4).then_some(())));
                changing.join().expect("no panic");
                reading.join().expect("no panic");
            },
            2_000,
        );
    }

    /// Two callers wait for one thing that only one of them can take.
    #[test]
    fn one_caller_takes_what_two_wait_for() {
        shuttle::check_random(
            || {
                let watched = Arc::new(Watched::new(Vec::new()));
                let takers = [(); 2].map(|()| {
                    let watched = Arc::clone(&watched);
                    thread::spawn(move || future::block_on(watched.find_mut(Vec::pop)))
                });
                watched.change(|items| items.push(1));
                watched.change(|items| items.push(2));
                let mut taken = takers.map(|taker| taker.join().expect("no panic"));
                taken.sort_unstable();
                assert_eq!(taken, [1, 2]);
            },
            2_000,
        );
    }
}
