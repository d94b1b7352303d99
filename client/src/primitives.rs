//! The primitives that threads share. With `--cfg zk_threads` they are those of shuttle, whose
//! scheduler decides which thread comes next: `docs/decisions/threads.md`.

#[cfg(zk_threads)]
use shuttle::sync as primitives;
#[cfg(not(zk_threads))]
use std::sync as primitives;

pub(crate) use primitives::{Mutex, MutexGuard};
pub use primitives::{RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(not(zk_threads))]
pub(crate) use tokio::sync::Notify;

/// tokio's `Notify`. The scheduler decides before each of its methods, too.
#[cfg(zk_threads)]
#[derive(Debug, Default)]
pub(crate) struct Notify(tokio::sync::Notify);

#[cfg(zk_threads)]
impl Notify {
    pub(crate) const fn const_new() -> Self {
        Self(tokio::sync::Notify::const_new())
    }

    pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        shuttle::thread::yield_now();
        self.0.notified()
    }

    pub(crate) fn notify_waiters(&self) {
        shuttle::thread::yield_now();
        self.0.notify_waiters();
    }
}
