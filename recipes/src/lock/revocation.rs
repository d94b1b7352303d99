//! Asking a holder to let go.

use zk_curator::{CuratorFramework, ErrorKind, Ownership};

use super::Error;

/// The data that Curator's `Revoker` writes to a lock node.
const REVOKE: &[u8] = b"__REVOKE__";
/// The data that the revocable locks of ZooKeeper's recipes write to it.
pub(super) const UNLOCK: &[u8] = b"unlock";
/// The response of our holders.
pub(super) const UNLOCKING: &[u8] = b"unlocking";

/// Asks the holder of a lock, or a client that waits for it, to let go: Curator's
/// `Revoker.attemptRevoke`. `node` is the path of its node, see
/// [`Participant`](super::Participant); the data of the node are replaced by `__REVOKE__`. The
/// holder decides if it does so: see [`Guard::revoked`](super::Guard::revoked). Java's Curator
/// understands it too, where the lock was made revocable.
///
/// Returns whether the node was there.
///
/// # Errors
/// As a write of the framework. Asking twice does no harm.
///
/// # Cancel safety
/// Once polled, it may be asked.
pub async fn attempt_revoke(
    zk: &CuratorFramework,
    node: impl Into<String>,
) -> Result<bool, zk_curator::Error> {
    match zk.set_data(node, REVOKE).uncompressed().await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns `true` if the data of a node ask its owner to let go.
pub(crate) fn is_request(data: &[u8]) -> bool {
    data == REVOKE || data == UNLOCK
}

/// Resolves when another client has asked the owner to release its node, or when that is lost.
pub(super) async fn revoked(ownership: &Ownership) {
    ownership.lost_or(is_request).await;
}

/// Responds to a request, if there is one, even if that was done before.
pub(super) async fn acknowledge(zk: &CuratorFramework, node: &str) -> Result<(), Error> {
    loop {
        let read = zk.get_data(node).with_stat().await;
        let (data, stat) = read.map_err(|error| Error::lost_without_node(node, error))?;
        if !is_request(&data) && data != UNLOCKING {
            return Ok(());
        }
        match zk.set_data(node, UNLOCKING).version(stat.version).await {
            // Asked again in between, or the response to our own write was lost.
            Err(error) if error.kind() == ErrorKind::BadVersion => {}
            written => {
                return written.map(drop).map_err(|error| Error::lost_without_node(node, error));
            }
        }
    }
}
