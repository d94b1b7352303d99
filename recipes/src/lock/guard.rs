use std::fmt;
use std::future::Future;

use async_trait::async_trait;
use tracing::debug;
use zk_curator::op::Transaction;
use zk_curator::{CuratorFramework, ErrorKind, FencingToken, OwnedNode, Ownership};

use super::any_guard::{AnyGuard, Release};
use super::{Error, revocation};
use crate::contender::KeptWatch;
use crate::measure::Holding;

/// Holds a lock.
///
/// # Cancel safety
/// Dropping it releases the lock in the background: the delete is queued immediately, ahead of all
/// later requests of the session.
#[must_use = "dropping it releases the lock in the background"]
pub struct Guard<K> {
    /// Ends before the node does.
    pub(super) held: Holding,
    pub(super) zk: CuratorFramework,
    pub(super) node: OwnedNode,
    /// The data that only this kind of lock needs.
    pub(super) kind: K,
    /// The watch on our node, if we have waited. Kept until it fires with the end of the node: to
    /// give it up would be a request.
    pub(super) kept: Option<Box<KeptWatch>>,
}

impl<K> Guard<K> {
    pub(super) fn new(
        zk: &CuratorFramework,
        node: OwnedNode,
        kind: K,
        recipe: &'static str,
    ) -> Self {
        let held = Holding::begin(recipe, node.ownership());
        Self { held, zk: zk.clone(), node, kind, kept: None }
    }

    /// The path of our node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Returns the fencing token, which is higher than the tokens of all earlier holders.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.node.ownership().fencing_token()
    }

    /// The ownership of the lock, without the duty to release it; cheap to clone and to give to
    /// tasks.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        self.node.ownership()
    }

    /// Returns `true` if this client knows that it no longer holds the lock: see
    /// [`Ownership::is_over`]. Sends nothing.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ownership().is_over()
    }

    /// Resolves when the lock can no longer be assumed to be held: see [`Ownership::lost`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.node.ownership().lost().await;
    }

    /// Resolves when another client has asked this one to release the lock, with the `__REVOKE__`
    /// of Curator's `Revoker` or the `unlock` of ZooKeeper's recipes. Resolves immediately after an
    /// earlier request. Also when the lock is [`lost`](Self::lost). It reads the node, and leaves a
    /// watch: one request.
    ///
    /// Every client with write access to the node can ask. Nothing is released unless the holder
    /// does it.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn revoked(&self) {
        revocation::revoked(self.ownership()).await;
    }

    /// Responds to a request to release the lock: it was heard, and will take a while. A client
    /// that waits in
    /// [`RevocableReadWriteLock::revoke`](super::RevocableReadWriteLock::revoke) gives us the grace
    /// time again, every time. Without a request nothing happens.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock is no longer held; [`Error::Framework`] as for a read or a write
    /// of the node.
    ///
    /// # Cancel safety
    /// The response may be given or not.
    pub async fn acknowledge(&self) -> Result<(), Error> {
        revocation::acknowledge(&self.zk, self.path()).await
    }

    /// Begins a transaction that is only applied while the lock is held: see [`Ownership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.node.ownership().fenced()
    }

    /// Releases the lock and waits for the response.
    ///
    /// # Errors
    /// * [`Error::Lost`] if the lock was no longer held.
    /// * [`Error::Framework`] when that cannot be known, for example after a connection loss for
    ///   longer than the retry policy allows. The release continues in the background.
    ///
    /// # Cancel safety
    /// The lock is released in any case.
    pub async fn release(self) -> Result<(), Error> {
        let held = self.held.releasing();
        let path = self.node.path().to_owned();
        let released = match self.node.delete().await {
            Ok(()) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::SessionExpired) => {
                Err(Error::Lost { path })
            }
            Err(error) => Err(error.into()),
        };
        held.end(matches!(released, Err(Error::Lost { .. })));
        released
    }
}

impl<K> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Runs `body` as long as the lock is held, and releases it on every way out.
pub(super) async fn with_guard<K, F, Fut>(guard: Guard<K>, body: F) -> Result<Fut::Output, Error>
where
    F: FnOnce(Ownership) -> Fut,
    Fut: Future,
{
    let output = while_held(loss_of(guard.ownership()), body(guard.ownership().clone())).await?;
    after_work(guard.release().await, output)
}

/// Waits for the loss of a lock, and returns the path of the node that held it.
pub(super) async fn loss_of(ownership: &Ownership) -> String {
    ownership.lost().await;
    ownership.path().to_owned()
}

/// Runs `body` as long as a lock is not `lost`, which returns the path of the node that held it.
pub(super) async fn while_held<T>(
    lost: impl Future<Output = String>,
    body: impl Future<Output = T>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        path = lost => Err(Error::Lost { path }),
        output = body => Ok(output),
    }
}

/// Returns the output of work under a lock, unless the lock was lost before the release.
pub(super) fn after_work<T>(released: Result<(), Error>, output: T) -> Result<T, Error> {
    match released {
        Err(error @ Error::Lost { .. }) => Err(error),
        Ok(()) => Ok(output),
        Err(error) => {
            // The work is done; the janitor continues to delete the node.
            debug!(%error, "the lock will be released in the background");
            Ok(output)
        }
    }
}

impl<K: Send + Sync + 'static> Guard<K> {
    /// The guard without what only its kind of lock can do.
    pub fn into_any(self) -> AnyGuard {
        AnyGuard::new(&self.zk.clone(), self)
    }
}

#[async_trait]
impl<K: Send + Sync> Release for Guard<K> {
    fn ownership(&self) -> &Ownership {
        self.ownership()
    }

    async fn release(self: Box<Self>) -> Result<(), Error> {
        Self::release(*self).await
    }
}

/// Still holds the lock that it held, because it could not be turned into another one.
#[derive(Debug, thiserror::Error)]
#[error("the lock is still held, in the mode that it had: {why}")]
#[non_exhaustive]
pub struct ConversionError<G: fmt::Debug> {
    /// The unchanged guard.
    pub guard: G,
    /// Why: [`Error::Busy`] if other clients prevent it.
    pub why: Error,
}
