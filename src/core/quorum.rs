use zk_curator_client::{Error as RawError, Op, Version};

use crate::raw::{RawClient, RawFuture};

/// The minimum freshness of the response to a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadFreshness {
    /// The state of the server that responds.
    #[default]
    AsIs,
    /// The state of the leader: a `sync` is sent first.
    Synced,
    /// The state of a quorum. It is not older than the call.
    Linearizable,
}

/// Reads a state that includes all earlier commits, also of requests of this session whose
/// responses were lost.
///
/// A transaction of one check is sent before the read, in the same round trip. It is proposed to
/// the ensemble even if the check fails, so it has a response only with a quorum. A `sync` is not
/// enough: a deposed leader that does not know it still responds to one (ZOOKEEPER-2136). With a
/// raw client without transactions, a `sync` is sent.
pub(crate) async fn read_behind_quorum<T>(
    raw: &dyn RawClient,
    path: &str,
    read: impl Fn(&dyn RawClient, &str) -> RawFuture<T>,
) -> Result<T, RawError> {
    // The calls queue the requests in this order.
    let check = raw.multi(&[Op::Check { path: path.to_owned(), version: Version::Any }]);
    let answer = read(raw, path);
    match check.await {
        Ok(_) | Err(RawError::TransactionFailed { .. }) => {}
        Err(RawError::Unsupported(_)) => return read_behind_sync(raw, path, read).await,
        Err(error) => return Err(error),
    }
    answer.await
}

/// Reads at least the state of the leader, in the same round trip. This is no proof: see
/// [`read_behind_quorum`].
pub(crate) async fn read_behind_sync<T>(
    raw: &dyn RawClient,
    path: &str,
    read: impl Fn(&dyn RawClient, &str) -> RawFuture<T>,
) -> Result<T, RawError> {
    // The sync is sent first, so its response comes first.
    let (synced, answer) = (raw.sync(path), read(raw, path));
    synced.await?;
    answer.await
}
