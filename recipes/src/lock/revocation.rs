//! Asking a holder to let go.

use zk_curator::{CuratorFramework, Error, ErrorKind};

/// The data that Curator's `Revoker` writes to a lock node.
const REVOKE: &[u8] = b"__REVOKE__";
/// The data that the revocable locks of ZooKeeper's recipes write to it.
pub(super) const UNLOCK: &[u8] = b"unlock";
/// The answer of our holders.
pub(super) const UNLOCKING: &[u8] = b"unlocking";

/// Asks the holder of a lock, or one that waits for it, to let go: Curator's `Revoker.attemptRevoke`. `node` is the
/// path of its node, see [`Participant`](super::Participant); the data of the node are replaced by `__REVOKE__`.
/// Whether it does so is up to it: see [`Guard::revoked`](super::Guard::revoked). Java's Curator understands it too,
/// where the lock was made revocable.
///
/// Returns whether the node was there.
///
/// # Errors
/// As a write of the framework. Asking twice does no harm.
///
/// # Cancel safety
/// Once polled, it may be asked.
pub async fn attempt_revoke(zk: &CuratorFramework, node: impl Into<String>) -> Result<bool, Error> {
    match zk.set_data(node, REVOKE).uncompressed().await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the data of a node ask its owner to let go.
pub(super) fn is_request(data: &[u8]) -> bool {
    data == REVOKE || data == UNLOCK
}

/// Answers a request, if there is one, and be it once more.
pub(super) async fn acknowledge(zk: &CuratorFramework, node: &str) -> Result<(), Error> {
    loop {
        let (data, stat) = zk.get_data(node).with_stat().await?;
        if !is_request(&data) && data != UNLOCKING {
            return Ok(());
        }
        match zk.set_data(node, UNLOCKING).version(stat.version).await {
            // Asked once more in between, or our own answer was lost.
            Err(error) if error.kind() == ErrorKind::BadVersion => {}
            answer => return answer.map(drop),
        }
    }
}
