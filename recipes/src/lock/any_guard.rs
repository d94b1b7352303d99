use std::fmt;

use async_trait::async_trait;
use zk_curator::op::Transaction;
use zk_curator::{CuratorFramework, FencingToken, Ownership};

use super::{Error, revocation};

/// Holds a lock of any kind: see [`InterProcessLock`](super::InterProcessLock).
///
/// # Cancel safety
/// Dropping it releases the lock in the background, as the guard does that it was made from.
#[must_use = "dropping it releases the lock in the background"]
pub struct AnyGuard {
    zk: CuratorFramework,
    guard: Box<dyn Release>,
}

/// The operations that each kind of guard does in its own way.
#[async_trait]
pub(super) trait Release: Send + Sync {
    fn ownership(&self) -> &Ownership;
    async fn release(self: Box<Self>) -> Result<(), Error>;
}

impl AnyGuard {
    pub(super) fn new(zk: &CuratorFramework, guard: impl Release + 'static) -> Self {
        Self { zk: zk.clone(), guard: Box::new(guard) }
    }

    /// The path of our node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.ownership().path()
    }

    /// The fencing token of the lock.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.ownership().fencing_token()
    }

    /// The ownership of the lock, without the duty to release it; cheap to clone and to give to
    /// tasks.
    #[must_use]
    pub fn ownership(&self) -> &Ownership {
        self.guard.ownership()
    }

    /// Returns `true` if this client knows that it no longer holds the lock: see
    /// [`Ownership::is_over`].
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ownership().is_over()
    }

    /// Resolves when the lock can no longer be assumed to be held: see [`Ownership::lost`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.ownership().lost().await;
    }

    /// Resolves when another client has asked us to release the lock: see
    /// [`Guard::revoked`](super::Guard::revoked).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn revoked(&self) {
        revocation::revoked(self.ownership()).await;
    }

    /// Responds to a request to release the lock: see
    /// [`Guard::acknowledge`](super::Guard::acknowledge).
    ///
    /// # Errors
    /// As [`Guard::acknowledge`](super::Guard::acknowledge).
    ///
    /// # Cancel safety
    /// The response may be given or not.
    pub async fn acknowledge(&self) -> Result<(), Error> {
        revocation::acknowledge(&self.zk, self.path()).await
    }

    /// Begins a transaction that is only applied while the lock is held: see [`Ownership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.ownership().fenced()
    }

    /// Releases the lock and waits for the response, as the guard does that it was made from.
    ///
    /// # Errors
    /// As [`Guard::release`](super::Guard::release).
    ///
    /// # Cancel safety
    /// The lock is released in any case.
    pub async fn release(self) -> Result<(), Error> {
        self.guard.release().await
    }
}

impl fmt::Debug for AnyGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyGuard").field("ownership", self.ownership()).finish_non_exhaustive()
    }
}
