//! Items for the other crates of this workspace. They are not part of the API and may change in any
//! release.
//!
//! ```compile_fail,E0432
//! use zk_curator_client::Signal;
//! ```

#[cfg(feature = "signal")]
pub use crate::caught_signals::{CaughtSignals, HUP, INT, TERM, is_heeded};
pub use crate::ignored_signals::is_ignored;
pub use crate::locked::{Locked, LockedGuard};
pub use crate::on_drop::OnDrop;
pub use crate::primitives::{RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
pub use crate::signal::Signal;
pub use crate::timer::{sleep, sleep_until};
pub use zk_curator_proto::{bounded, millis};
