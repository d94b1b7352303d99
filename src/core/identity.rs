//! Deletes of nodes whose names others may use: by the transaction that created the node.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zk_curator_client::{Error as RawError, ErrorCode, Version};

use super::quorum::read_behind_quorum;
use super::race::RACE_ROUNDS;
use crate::raw::RawClient;

/// The deletes of one framework that are between their look and their answer, by path and `czxid`.
///
/// Several may delete one node: two guards of an ephemeral node that idempotent creates share, or a guard and a
/// [`DeleteBuilder::czxid`](crate::op::DeleteBuilder::czxid). A look that was sent before another delete says nothing of what
/// is there after it.
#[derive(Debug, Default)]
pub(crate) struct Deletes(Mutex<BTreeMap<(String, i64), Going>>);

#[derive(Debug, Default)]
struct Going {
    deleting: usize,
    sent: u64,
}

impl Deletes {
    fn begin(&self, path: &str, czxid: i64) -> Look<'_> {
        let key = (path.to_owned(), czxid);
        self.lock().entry(key.clone()).or_default().deleting += 1;
        Look { deletes: self, key }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, i64), Going>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One delete.
struct Look<'a> {
    deletes: &'a Deletes,
    key: (String, i64),
}

impl Look<'_> {
    /// The number of deletes of this node that have been sent.
    fn sent(&self) -> u64 {
        self.deletes.lock().get(&self.key).map_or(0, |going| going.sent)
    }

    /// Calls `send`, unless a delete was sent since there were `seen`.
    fn send<T>(&self, seen: u64, send: impl FnOnce() -> T) -> Option<T> {
        let mut deletes = self.deletes.lock();
        let going = deletes.get_mut(&self.key).filter(|going| going.sent == seen)?;
        going.sent += 1;
        // Queued by the call: a look that begins later is answered later.
        Some(send())
    }
}

impl Drop for Look<'_> {
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

/// Deletes the node that this transaction created, if it is there with this version: whether it was. `path` is the
/// server's.
///
/// ZooKeeper has no delete by identity, so the node is looked at first, and deleted at the version that was seen. What
/// remains is another client that puts a node of the same version in its place between the two, which takes somebody who
/// deletes ours by its path. No other delete of this framework can come between.
///
/// A failed look has applied nothing, and its error says so.
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
        let there = read_behind_quorum(raw, path, |raw, path| raw.exists(path)).await.map_err(of_a_read)?;
        let Some(stat) = there.filter(|stat| stat.czxid == czxid) else { return Ok(false) };
        let at = if version.is_exact() { version } else { stat.version.into() };
        let Some(answer) = look.send(seen, || raw.delete(path, at)) else { continue };
        match answer.await {
            // Written or replaced since it was looked at.
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
