use zk_curator_client::{Error as RawError, Op, Version};

use crate::raw::{RawClient, RawFuture};

/// Reads what was committed before, also by requests of this session whose answers are lost.
///
/// A transaction of one check goes ahead of the read, in the same flight. It is proposed to the ensemble whether the check
/// holds or not, so it is answered only with a quorum. A `sync` is not enough: a leader that has been deposed and does not
/// know it answers one (ZOOKEEPER-2136). A raw client without transactions gets the `sync`.
pub(crate) async fn read_behind_quorum<T>(
    raw: &dyn RawClient,
    path: &str,
    read: impl Fn(&dyn RawClient, &str) -> RawFuture<T>,
) -> Result<T, RawError> {
    // Queued in this order by the calls.
    let check = raw.multi(&[Op::Check { path: path.to_owned(), version: Version::Any }]);
    let answer = read(raw, path);
    match check.await {
        Ok(_) => {}
        Err(error @ RawError::TransactionFailed { .. }) if !error.may_have_applied() => {}
        Err(RawError::Unsupported(_)) => return read_behind_sync(raw, path, read).await,
        Err(error) => return Err(error),
    }
    answer.await
}

/// Reads what the leader knows, in the same flight. No proof: see [`read_behind_quorum`].
pub(crate) async fn read_behind_sync<T>(
    raw: &dyn RawClient,
    path: &str,
    read: impl Fn(&dyn RawClient, &str) -> RawFuture<T>,
) -> Result<T, RawError> {
    // Sent first, so answered first.
    let (synced, answer) = (raw.sync(path), read(raw, path));
    synced.await?;
    answer.await
}
