//! The budget of reads of the files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::error::{Error, Result};
use super::limit::ReadLimit;

/// The bytes, the time and the memory that reads of the files may take. Clones share one budget,
/// also between several passes, and any of them can [stop](Self::stop) the others.
///
/// A pass that exceeds it fails with [`Error::Limit`]. Logs and snapshots check it for each
/// mebibyte that they read. [`Replay`](super::Replay) and [`Index`](super::Index) also check the
/// memory of the nodes that they keep.
///
/// ```no_run
/// use std::time::Duration;
///
/// use zk_curator_ops::history::{Error, Files, Index, ReadBudget, ReadLimit};
///
/// let files = Files::find(["/var/lib/zookeeper"])?;
/// let budget = ReadBudget::new(1 << 30, Duration::from_secs(30), 64 << 20);
/// match Index::new(&files).budget(&budget).fate("/config") {
///     Err(Error::Limit { limit: ReadLimit::Time }) => {}
///     fate => drop(fate?),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ReadBudget(Option<Arc<Spent>>);

#[derive(Debug)]
struct Spent {
    is_stopped: AtomicBool,
    /// The bytes that were read, and the most of them.
    read: AtomicU64,
    bytes: u64,
    /// `None` for a time beyond the range of the clock.
    ends: Option<Instant>,
    memory: usize,
}

impl ReadBudget {
    /// Returns a budget of these bytes of logs and of uncompressed snapshots, of this time from now
    /// on, and of this memory of the nodes in bytes.
    pub fn new(bytes: u64, time: Duration, memory: usize) -> Self {
        Self(Some(Arc::new(Spent {
            is_stopped: AtomicBool::new(false),
            read: AtomicU64::new(0),
            bytes,
            ends: Instant::now().checked_add(time),
            memory,
        })))
    }

    /// Returns a budget without limits, which cannot be stopped.
    pub const fn unlimited() -> Self {
        Self(None)
    }

    /// Ends all passes with this budget: each fails when it reads the next part of a file.
    pub fn stop(&self) {
        if let Some(spent) = &self.0 {
            spent.is_stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Takes bytes that are about to be read.
    pub(super) fn spend(&self, bytes: usize) -> io::Result<()> {
        let Some(spent) = &self.0 else { return Ok(()) };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let before = spent.read.fetch_add(bytes, Ordering::Relaxed);
        if spent.is_stopped.load(Ordering::Relaxed) {
            Err(io::Error::other(ReadLimit::Stopped))
        } else if spent.ends.is_some_and(|ends| Instant::now() >= ends) {
            Err(io::Error::other(ReadLimit::Time))
        } else if before.saturating_add(bytes) > spent.bytes {
            Err(io::Error::other(ReadLimit::Bytes))
        } else {
            Ok(())
        }
    }

    /// Compares the memory of the nodes of a pass with the limit.
    pub(super) fn hold(&self, bytes: usize) -> Result<()> {
        match &self.0 {
            Some(spent) if bytes > spent.memory => Err(Error::Limit { limit: ReadLimit::Memory }),
            _ => Ok(()),
        }
    }
}

/// Without limits.
impl Default for ReadBudget {
    fn default() -> Self {
        Self::unlimited()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(result: io::Result<()>) -> Option<ReadLimit> {
        let inner = result.err()?.into_inner()?;
        inner.downcast_ref::<ReadLimit>().copied()
    }

    #[test]
    fn clones_share_one_budget() {
        let hour = Duration::from_secs(3_600);
        let budget = ReadBudget::new(10, hour, 10);
        let other = budget.clone();
        assert!(budget.spend(6).is_ok());
        assert_eq!(limit(other.spend(6)), Some(ReadLimit::Bytes));
        assert!(budget.hold(10).is_ok() && budget.hold(11).is_err());
        other.stop();
        assert_eq!(limit(budget.spend(0)), Some(ReadLimit::Stopped));
        let over = ReadBudget::new(10, Duration::ZERO, 10);
        assert_eq!(limit(over.spend(1)), Some(ReadLimit::Time));
        assert!(ReadBudget::new(2, Duration::MAX, 0).spend(2).is_ok());
        assert!(ReadBudget::default().spend(usize::MAX).is_ok());
    }
}
