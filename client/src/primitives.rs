//! The primitives that threads share. With `--cfg zk_threads` they are those of shuttle, whose
//! scheduler decides which thread comes next: `docs/decisions/threads.md`.

#[cfg(zk_threads)]
use shuttle::sync as primitives;
#[cfg(not(zk_threads))]
use std::sync as primitives;

pub(crate) use primitives::{Mutex, MutexGuard};
pub use primitives::{RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
