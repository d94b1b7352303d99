//! Removes the transactions that no coordinator cleans up, many at a time.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use futures_util::stream::{self, StreamExt};
use tokio::time::Instant;
use zk_curator::internal::sleep_until;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorKind};

use super::inspect::{look, remove};
use super::record::TransactionRecord;
use super::{Coordinator, Error};
use crate::path::child;

const OP: &str = "sweep";

/// Removes finished transactions: see [`sweep`].
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct Sweep {
    zk: CuratorFramework,
    parent: String,
    at_once: usize,
    decides: bool,
}

/// The state at the path of a transaction.
enum SweptState {
    /// It was finished, and is removed.
    Removed,
    /// It is undecided, and was read at this time.
    Undecided(Box<TransactionRecord>, Instant),
    /// It is decided and not acknowledged, or it is gone, or it is no transaction.
    Kept,
}

/// Removes the finished transactions among the children of a node: the decided ones, and
/// acknowledged by all of their sites. For transactions whose coordinators are gone.
///
/// **Awaiting returns** the sorted paths of the transactions that were removed. Other nodes stay.
///
/// Nothing sweeps in the background: call it regularly where coordinators may crash. Two kinds of
/// transactions stay:
/// * An undecided one, unless the sweep [decides](Sweep::deciding_overdue).
/// * A decided one with a site that does not acknowledge. [`inspect`](super::inspect()) shows it,
///   and [`Coordinator::discard`] removes it; no sweep does that, because the site might still come
///   back and ask.
///
/// # Cost
/// One listing of the parent; one read for each transaction that is undecided; for one with `n`
/// sites that is finished, `n + 3` reads, a listing and a write, in six round trips. To begin,
/// decide and acknowledge the transaction takes at least `5n + 4` requests. Several transactions
/// are processed [at the same time](Sweep::at_once), so one sweeper keeps up with many
/// coordinators: 32 at a time and 2 ms for a round trip are about 2,600 transactions per second.
/// The sweep begins at a random child, so that a sweep that is cut off again and again still gets
/// to all of them.
///
/// # Errors
/// * [`Error::Framework`] as a read or a delete. If it concerns one transaction (for example
///   `NoAuth`), all other transactions are processed before it is returned. If it is about all of
///   them (there is no connection), it is returned immediately.
///
/// In both cases some of the transactions may be removed.
///
/// # Cancel safety
/// Each transaction is removed or not, and decided or not.
pub fn sweep(zk: &CuratorFramework, parent: impl Into<String>) -> Sweep {
    Sweep { zk: zk.clone(), parent: parent.into(), at_once: Sweep::AT_ONCE, decides: false }
}

impl Sweep {
    /// Unless it is set.
    const AT_ONCE: usize = 32;

    /// Sets the number of transactions that are processed at the same time. Each has at most one
    /// request per site in flight. Zero counts as 1. Default: 32.
    pub fn at_once(mut self, transactions: usize) -> Self {
        self.at_once = transactions.max(1);
        self
    }

    /// Also decides every transaction that is still undecided when its deadline has passed, counted
    /// from when this sweep has read it: [`Committed`](super::Outcome::Committed) if all sites have
    /// voted to commit, else [`Aborted`](super::Outcome::Aborted). For coordinators and sites that
    /// crash before the decision. Awaiting the sweep then takes as long as the longest deadline,
    /// whatever the number of transactions. Default: undecided transactions stay unchanged.
    pub const fn deciding_overdue(mut self) -> Self {
        self.decides = true;
        self
    }

    async fn run(self) -> Result<Vec<String>, Error> {
        let parent = ZPath::for_operation(OP, self.parent.as_str())?;
        let mut names = match self.zk.children(parent.as_str()).await {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        names.sort_unstable();
        if let Some(count) = u64::try_from(names.len()).ok().filter(|count| *count > 0) {
            let first = usize::try_from(self.zk.random_u64() % count).unwrap_or_default();
            names.rotate_left(first);
        }
        let (mut removed, mut undecided, mut failed) = (Vec::new(), Vec::new(), Ok(()));
        let zk = &self.zk;
        let mut visits = stream::iter(names)
            .map(|name| {
                let path = child(&parent, &name);
                async move {
                    let path = ZPath::for_operation(OP, path)?;
                    Ok((visit(zk, &path).await?, path))
                }
            })
            .buffer_unordered(self.at_once);
        while let Some(visited) = visits.next().await {
            match visited {
                Ok((SweptState::Removed, path)) => removed.push(path.into()),
                Ok((SweptState::Undecided(record, at), path)) if self.decides => {
                    undecided.push((record.due_from(at), record, path));
                }
                Ok((SweptState::Undecided(..) | SweptState::Kept, _)) => {}
                Err(error) => failed = failed.and(go_on(error)?),
            }
        }
        // The earliest comes first: waiting for a deadline holds up no transaction that is due
        // before them.
        undecided.sort_unstable_by_key(|(due, ..)| *due);
        let mut decisions = stream::iter(undecided)
            .map(|(due, record, path)| async move {
                sleep_until(due).await;
                decide(zk, &path, &record).await
            })
            .buffer_unordered(self.at_once);
        while let Some(decided) = decisions.next().await {
            if let Err(error) = decided {
                failed = failed.and(go_on(error)?);
            }
        }
        removed.sort_unstable();
        failed.map(|()| removed)
    }
}

/// Reads a transaction, and removes it if it is finished.
async fn visit(zk: &CuratorFramework, path: &ZPath) -> Result<SweptState, Error> {
    let data = match zk.get_data(path.as_str()).undecompressed().await {
        Ok(data) => data,
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(SweptState::Kept),
        Err(error) => return Err(error.into()),
    };
    match TransactionRecord::parse(&data) {
        None => return Ok(SweptState::Kept),
        // It is not finished: the first site that acknowledges writes the decision, too.
        Some((record, None)) => return Ok(SweptState::Undecided(Box::new(record), Instant::now())),
        Some(_) => {}
    }
    match look(zk, path).await {
        Ok(Some((record, inspection))) if inspection.is_finished() => {
            remove(zk, path, &record).await?;
            Ok(SweptState::Removed)
        }
        Ok(_) | Err(Error::NotATransaction { .. }) => Ok(SweptState::Kept),
        Err(error) => Err(error),
    }
}

/// Decides a transaction that is overdue, unless another one has begun at its path.
async fn decide(
    zk: &CuratorFramework,
    path: &ZPath,
    record: &TransactionRecord,
) -> Result<(), Error> {
    let decided = match Coordinator::resume(zk, path.as_str()).await {
        Ok(mut coordinator) if coordinator.record() == record => {
            coordinator.abort().await.map(drop)
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    match decided {
        Err(Error::Gone { .. } | Error::NotATransaction { .. }) => Ok(()),
        decided => decided,
    }
}

/// Returns an error that concerns one transaction as a value to keep, so that the sweep continues,
/// and any other as an error.
fn go_on(error: Error) -> Result<Result<(), Error>, Error> {
    match &error {
        Error::Framework(of_all) if of_all.is_retryable() || of_all.is_session_lost() => Err(error),
        _ => Ok(Err(error)),
    }
}

impl IntoFuture for Sweep {
    type Output = Result<Vec<String>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
