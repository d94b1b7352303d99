//! The interface for the other crates of this workspace. It is not part of the public API, and may
//! change in any release.
//!
//! ```compile_fail,E0432
//! use zk_curator::Signal;
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[cfg(feature = "signal")]
pub use zk_curator_client::internal::CaughtSignals;
pub use zk_curator_client::internal::{
    Locked, LockedGuard, OnDrop, RwLock, RwLockReadGuard, RwLockWriteGuard, Signal, atomic,
    bounded, millis, sleep, sleep_until,
};
pub use zk_curator_client::path::ancestors;
pub use zk_curator_client::{ConnectString, Op};

pub use tokio_util::sync::CancellationToken;

pub use crate::certain::{Id, Ids, ResolvedOutcome, protected_name, resolve};
pub use crate::core::metrics::{Counter, Gauge, Histogram, Metered, MetricHandle, Series};
pub use crate::core::{RACE_ROUNDS, ReadFreshness, Setbacks, is_conflict};
pub use crate::metrics_table;
pub use crate::watch::stream::until_error;

use crate::error::{Error, ErrorKind};
use crate::framework::CuratorFramework;
use crate::op::{Transaction, TransactionOp};
use crate::path::{ZPath, split};

/// Returns an operation of a transaction with everything that this handle adds to it: the path on
/// the server without the chroot, the ACL, and the data before compression. Also returns `true` if
/// the data would be compressed. Checks nothing, and sends nothing.
#[must_use]
pub fn described(zk: &CuratorFramework, op: &TransactionOp) -> (Op, bool) {
    op.described(zk)
}

/// Withdraws the transaction if the token is cancelled before it is sent: it fails with
/// `Withdrawn`, and nothing was applied. A transaction that was sent, or may have been, is not
/// affected.
///
/// It is for a transaction on behalf of several callers, of which one may lose interest while the
/// transaction waits for a connection. A single caller just drops the future.
pub fn withdrawn_by(transaction: Transaction, token: CancellationToken) -> Transaction {
    transaction.withdrawn_by(token)
}

/// Returns `true` if the data of a create are the default data of the framework.
#[must_use]
pub const fn has_default_data(op: &TransactionOp) -> bool {
    op.has_default_data()
}

/// Returns the error of an operation whose background task has ended before it: `SessionExpired` if
/// the handle is bound to a session that is over, and otherwise `Closed`.
#[must_use]
pub fn task_has_ended(zk: &CuratorFramework, operation: &'static str, path: &str) -> Error {
    match zk.bound_to_session() {
        Err(error) if error.kind() == ErrorKind::SessionExpired => {
            Error::new(ErrorKind::SessionExpired, operation, path)
        }
        _ => Error::closed(operation, path),
    }
}

/// Calls code of the user in a background task, which must not end with a panic of it. `None` after
/// a panic.
pub fn unless_it_panics<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// Returns `true` if `is_due` does, but only the first time for this framework, through any handle.
/// It is for warnings that are given once. Later calls with the same `advice` do not call `is_due`,
/// which must not block.
pub fn is_first(
    zk: &CuratorFramework,
    advice: &'static str,
    is_due: impl FnOnce() -> bool,
) -> bool {
    zk.core().advice.is_first(advice, is_due)
}

/// Reports in the background that a recipe waits for a node that no session will ever remove. Once
/// for each node.
pub fn report_persistent(zk: &CuratorFramework, operation: &'static str, path: &str) {
    if zk.core().advice.is_first_of(zk.ns().apply(path)) {
        let error = Error::new(ErrorKind::NodeExists, operation, path);
        let why = "the node is persistent: no session will ever remove it";
        zk.report_background_error(error.with_source(why));
    }
}

/// Returns `true` if this framework has a guard of a child of `parent` that was created in the
/// session with this [epoch](crate::Ownership::session_epoch) and whose name matches. Sends
/// nothing.
pub fn holds_child(
    zk: &CuratorFramework,
    parent: &ZPath,
    session_epoch: u64,
    matches: impl Fn(&str) -> bool,
) -> bool {
    let parent = zk.ns().apply(parent.as_str());
    zk.core().resources.any_node(|node| {
        let (above, name) = split(&node.path);
        node.session_epoch == session_epoch && above == parent && matches(name)
    })
}

/// Returns the time for which the machine was suspended, counted from any fixed point in time;
/// `None` if it is not known, or there was no session yet. Also after the framework was closed.
/// Sends nothing.
pub fn suspended(zk: &CuratorFramework) -> Option<Duration> {
    zk.core().last_session()?.raw.suspended()
}
