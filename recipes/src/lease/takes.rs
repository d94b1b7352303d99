//! The takes of one holder in this process. They decide which of its guards counts.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use zk_curator::CuratorFramework;
use zk_curator::internal::Signal;

use super::held::{HeldLease, LeaseDeadline};

/// The takes of a [`LeaseSite`](super::site::LeaseSite). Its clones share them.
///
/// A take replaces the record of an earlier guard of the same id, perhaps by one that ends sooner.
/// The response may come late, or never. So the earlier guard ends no later than the take, from the
/// moment before the take is sent. It is over when the take has succeeded.
#[derive(Debug)]
pub(super) struct Takes {
    state: Signal<TakeState>,
    /// Held by a take: two at the same time may take two leases.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct TakeState {
    /// The number of writes that other guards than the present one have begun.
    begun: u64,
    /// The number of the take that made the guard that counts.
    current: u64,
    /// The writes that may be applied, or were. At most two for each lease.
    writes: Vec<TakeWrite>,
}

/// The changes that can shorten the time of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShorteningChanges {
    begun: u64,
    current: u64,
}

/// A write of a take that may have replaced the record of an earlier guard, or have deleted it.
#[derive(Debug)]
struct TakeWrite {
    number: u64,
    path: String,
    /// The first and the last end that it may have written. The first is greater if it has deleted
    /// the record.
    ends: (i64, i64),
    /// The end of the guard that counts, if this was applied.
    deadline: LeaseDeadline,
}

impl Takes {
    pub(super) fn new() -> Self {
        Self { state: Signal::new(TakeState::default()), turn: Mutex::new(()) }
    }

    /// Waits for the end of an earlier take.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Limits the earlier guard to the end of a take. Called before the take is sent; returns its
    /// number.
    pub(super) fn take(
        &self,
        zk: &CuratorFramework,
        path: &str,
        end: i64,
        deadline: LeaseDeadline,
    ) -> u64 {
        self.begin(zk, path, (end, end), deadline)
    }

    /// Ends the earlier guard of a lease. Called before the request is sent that deletes the
    /// record; returns its number.
    pub(super) fn surrender(&self, zk: &CuratorFramework, path: &str) -> u64 {
        self.begin(zk, path, (i64::MAX, i64::MIN), LeaseDeadline::over())
    }

    fn begin(
        &self,
        zk: &CuratorFramework,
        path: &str,
        ends: (i64, i64),
        deadline: LeaseDeadline,
    ) -> u64 {
        self.state.modify(|state| {
            state.begun += 1;
            state.merge(zk, path);
            let number = state.begun;
            state.writes.push(TakeWrite { number, path: path.to_owned(), ends, deadline });
            number
        })
    }

    /// The write was certainly not applied, and never will be.
    pub(super) fn refused(&self, number: u64) {
        self.state.modify(|state| state.writes.retain(|write| write.number != number));
    }

    /// The take has succeeded: its guard counts, and the earlier one is over.
    pub(super) fn taken(&self, number: u64) {
        self.state.modify(|state| {
            state.current = number;
            // Earlier takes expect an earlier version. No later one has begun.
            state.writes.clear();
        });
    }

    /// Returns the number of the last write that was begun.
    pub(super) fn begun(&self) -> u64 {
        self.state.look(|state| state.begun)
    }

    /// A guard has changed its lease. Writes that were begun before it sent the change expect an
    /// earlier version, so they have not been applied after it.
    pub(super) fn renewed(&self, path: &str, begun: u64) {
        self.state.modify(|state| {
            state.writes.retain(|write| write.number > begun || write.path != path);
        });
    }

    /// Returns `true` if no take has succeeded after that of this guard.
    pub(super) fn is_current(&self, held: &HeldLease) -> bool {
        self.state.look(|state| state.current == held.number)
    }

    /// Returns `true` if the record with this end can be that of another take than this guard's.
    pub(super) fn may_have_written(&self, held: &HeldLease, end: i64) -> bool {
        self.state.look(|state| {
            let mut writes = state.writes.iter().filter(|write| write.path == held.path);
            state.current != held.number
                || writes.any(|write| (write.ends.0..=write.ends.1).contains(&end))
        })
    }

    /// The time left of a guard.
    pub(super) fn left(&self, zk: &CuratorFramework, held: &HeldLease) -> Duration {
        self.state.look(|state| state.left(zk, held))
    }

    /// Returns what [`changed`](Self::changed) waits for another of.
    pub(super) fn seen(&self) -> ShorteningChanges {
        self.state.look(TakeState::seen)
    }

    /// Resolves when a write has begun or a take has succeeded since then: a guard may have less
    /// time left.
    pub(super) async fn changed(&self, since: ShorteningChanges) {
        self.state.until(|state| state.seen() != since).await;
    }
}

impl TakeState {
    const fn seen(&self) -> ShorteningChanges {
        ShorteningChanges { begun: self.begun, current: self.current }
    }

    fn left(&self, zk: &CuratorFramework, held: &HeldLease) -> Duration {
        if self.current != held.number {
            return Duration::ZERO;
        }
        let writes = self.writes.iter().filter(|write| write.path == held.path);
        writes.map(|write| write.deadline.left(zk)).fold(held.deadline.left(zk), Duration::min)
    }

    /// Makes one of the earlier writes to a lease: their takes have ended without an outcome. So
    /// the list does not grow in an outage.
    fn merge(&mut self, zk: &CuratorFramework, path: &str) {
        let (earlier, others) =
            std::mem::take(&mut self.writes).into_iter().partition(|write| write.path == path);
        self.writes = others;
        let merged = Vec::into_iter(earlier).reduce(|one: TakeWrite, other: TakeWrite| {
            let ends = (one.ends.0.min(other.ends.0), one.ends.1.max(other.ends.1));
            let deadline = one.deadline.earlier(other.deadline, zk);
            TakeWrite { number: one.number.max(other.number), path: one.path, ends, deadline }
        });
        self.writes.extend(merged);
    }
}
