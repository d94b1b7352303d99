//! Deletes of nodes with shared names, which are identified by the transaction that created the
//! node.

use std::collections::BTreeMap;

use zk_curator_client::internal::{Locked, LockedGuard};
use zk_curator_client::{Error as RawError, ErrorCode, Version};

use super::quorum::read_behind_quorum;
use super::race::RACE_ROUNDS;
use crate::raw::RawClient;

/// The deletes of one framework that are between their read and their response, by path and
/// `czxid`.
///
/// Several deletes may concern one node, for example by a guard and by a
/// [`DeleteBuilder::czxid`](crate::op::DeleteBuilder::czxid). A read that was sent before another
/// delete does not show the state after it.
#[derive(Debug, Default)]
pub(crate) struct Deletes(Locked<BTreeMap<(String, i64), Going>>);

#[derive(Debug, Default)]
struct Going {
    deleting: usize,
    sent: u64,
}

impl Deletes {
    fn begin(&self, path: &str, czxid: i64) -> IdentityDelete<'_> {
        let key = (path.to_owned(), czxid);
        self.lock().entry(key.clone()).or_default().deleting += 1;
        IdentityDelete { deletes: self, key }
    }

    fn lock(&self) -> LockedGuard<'_, BTreeMap<(String, i64), Going>> {
        self.0.lock()
    }
}

/// One delete.
struct IdentityDelete<'a> {
    deletes: &'a Deletes,
    key: (String, i64),
}

impl IdentityDelete<'_> {
    /// Returns the number of deletes of this node that were sent.
    fn sent(&self) -> u64 {
        self.deletes.lock().get(&self.key).map_or(0, |going| going.sent)
    }

    /// Calls `send`, unless the number of sent deletes has grown since it was `seen`.
    fn send<T>(&self, seen: u64, send: impl FnOnce() -> T) -> Option<T> {
        let mut deletes = self.deletes.lock();
        let going = deletes.get_mut(&self.key).filter(|going| going.sent == seen)?;
        going.sent += 1;
        // The call queues the request, so the response to a later read comes later.
        Some(send())
    }
}

impl Drop for IdentityDelete<'_> {
    fn drop(&mut self) {
        let mut deletes = self.deletes.lock();
        if let Some(going) = deletes.get_mut(&self.key) {
            going.deleting -= 1;
            if going.deleting == 0 {
                deletes.remove(&self.key);
            }
        }
    }
}

/// Deletes the node that this transaction created, if it has this version. Returns `true` if it
/// existed. `path` is the server's.
///
/// ZooKeeper has no delete by identity. So the node is read first, and deleted at the version that
/// was read. In the remaining window, another client may replace the node by one of the same
/// version between the two requests, which requires a delete by path. No other delete of this
/// framework can come between.
///
/// A failed read has applied nothing, and its error says so.
pub(crate) async fn delete_created_by(
    deletes: &Deletes,
    raw: &dyn RawClient,
    path: &str,
    czxid: i64,
    version: Version,
) -> Result<bool, RawError> {
    let look = deletes.begin(path, czxid);
    let mut rounds = 0..RACE_ROUNDS;
    loop {
        let seen = look.sent();
        let there =
            read_behind_quorum(raw, path, |raw, path| raw.exists(path)).await.map_err(of_a_read)?;
        let Some(stat) = there.filter(|stat| stat.czxid == czxid) else { return Ok(false) };
        let at = if version.is_exact() { version } else { stat.version.into() };
        let Some(answer) = look.send(seen, || raw.delete(path, at)) else { continue };
        match answer.await {
            // The node was written or replaced since the read.
            Err(RawError::Refused(ErrorCode::BadVersion))
                if !version.is_exact() && rounds.next().is_some() => {}
            answer => return answer.map(|()| true),
        }
    }
}

fn of_a_read(error: RawError) -> RawError {
    match error {
        RawError::ConnectionLoss { .. } => RawError::ConnectionLoss { sent: false },
        RawError::SessionExpired { .. } => RawError::SessionExpired { sent: false },
        RawError::AuthFailed { .. } => RawError::AuthFailed { sent: false },
        RawError::Closed { .. } => RawError::Closed { sent: false },
        RawError::DeadlineExceeded { .. } => RawError::DeadlineExceeded { sent: false },
        error => error,
    }
}
