use std::fmt;
use std::time::{Duration, SystemTime};

use zk_curator::internal::sleep;
use zk_curator::op::Transaction;
use zk_curator::{FencingToken, Version};

use super::error::Error;
use super::held::HeldLease;
use super::site::LeaseSite;
use crate::measure::MeasuredHold;
use crate::schedule::plan;

/// The name in metrics.
pub(super) const RECIPE: &str = "timed_lease";

/// The longest sleep between two looks at the time for which the machine was suspended.
const LOOK: Duration = Duration::from_secs(1);

/// Holds a [`TimedLease`](super::TimedLease), or one of a [`MultiLease`](super::MultiLease), until
/// its end.
///
/// # Cancel safety
/// Dropping it keeps the lease: it is held until its end, for the process that runs next under the
/// same id. [`release`](Self::release) ends it.
#[must_use = "the lease is held until its end, whether or not this is dropped"]
pub struct TimedLeaseGuard {
    site: LeaseSite,
    held: HeldLease,
    measured: MeasuredHold,
}

impl TimedLeaseGuard {
    pub(super) fn new(site: LeaseSite, held: HeldLease) -> Self {
        let measured = MeasuredHold::of_lock(&site.zk, RECIPE);
        Self { site, held, measured }
    }

    /// The path of the lease.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.held.path
    }

    /// The id of the holder.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.site.id
    }

    /// Returns the fencing token, which is higher than the tokens of all earlier guards of this
    /// lease, those of the same holder included. Renewals do not change it.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.held.token
    }

    /// Returns the end that this guard has written, by the leader's clock. Other clients see it,
    /// unless a later take of this id has changed it.
    #[must_use]
    pub fn end(&self) -> SystemTime {
        plan::time_of(self.held.end)
    }

    /// Returns the time left, by the clock of this process: zero if the lease is over. Counted from
    /// before the request that took or renewed the lease, with the time for which the machine was
    /// suspended. Sends nothing.
    ///
    /// A [`try_take`](super::TimedLease::try_take) by the same handle or a clone of it shortens
    /// this time if its lease would end sooner, from before it is sent. It makes it zero when it
    /// succeeds, because its guard holds the lease then.
    #[must_use]
    pub fn expires_in(&self) -> Duration {
        self.site.left(&self.held)
    }

    /// Returns `true` if the lease is over, by the clock of this process. Sends nothing.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.expires_in().is_zero()
    }

    /// Resolves when the lease is over, by the clock of this process. Suspensions of the machine
    /// are noticed within one second after it continues.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn expired(&self) {
        loop {
            let seen = self.site.takes.seen();
            let left = self.expires_in();
            if left.is_zero() {
                return;
            }
            tokio::select! {
                biased;
                () = self.site.takes.changed(seen) => {}
                () = sleep(left.min(LOOK)) => {}
            }
        }
    }

    /// Holds the lease for this time from now on, however long it would have lasted. Two requests
    /// and two round trips. It also succeeds after the end of the lease, unless another holder has
    /// taken it.
    ///
    /// During an outage it may wait for longer than the lease lasts. A caller that goes on
    /// with its work limits it: `timeout(guard.expires_in(), guard.renew(duration))`.
    ///
    /// `duration` is longer than zero, and rounded up to a whole second of the leader's clock;
    /// [`Duration::MAX`] lasts until the year 9999.
    ///
    /// # Errors
    /// * [`Error::Lost`] if another client has taken or deleted the lease, or this id has taken it
    ///   again. This guard does not hold it, whatever [`expires_in`](Self::expires_in) says.
    /// * [`Error::InvalidSetting`] for a duration of zero.
    /// * [`Error::Framework`]; with [`may_have_applied`](Error::may_have_applied), others may see
    ///   the new end, and the guard keeps the earlier of both. Call it again, also before the next
    ///   [`fence`](Self::fence), which fails until a renewal has succeeded.
    ///
    /// # Cancel safety
    /// Others may see the new end, and the guard keeps the earlier of both. It can be called again.
    pub async fn renew(&mut self, duration: Duration) -> Result<(), Error> {
        let renewed = self.site.renew(&mut self.held, duration).await;
        if let Err(Error::Lost { .. }) = renewed {
            self.measured.end(true);
        }
        renewed
    }

    /// Ends the lease, so other clients can take it immediately. One request.
    ///
    /// # Errors
    /// * [`Error::Lost`] if another client has taken or deleted the lease.
    /// * [`Error::Framework`]: the lease may be held until its end.
    ///
    /// # Cancel safety
    /// The lease may be held until its end.
    pub async fn release(mut self) -> Result<(), Error> {
        let released = self.site.release(&mut self.held).await;
        self.measured.end(matches!(released, Err(Error::Lost { .. })));
        released
    }

    /// Adds three checks to the end of a transaction: it is applied only if the lease is still the
    /// one of this guard, as it was taken or renewed last. Otherwise it fails with
    /// `TransactionFailed` and the path of the lease or of a node below it.
    ///
    /// The checks do not compare times: the transaction is also applied after the end of the lease,
    /// if no other client has taken it. They tell a lease that was deleted and taken again from the
    /// one of this guard.
    pub fn fence(&self, transaction: Transaction) -> Transaction {
        transaction
            .check(&self.held.path, self.held.version)
            .check(self.held.holder(), self.held.holder_version)
            .check(&self.held.identity, Version::Any)
    }
}

impl Drop for TimedLeaseGuard {
    fn drop(&mut self) {
        if self.held.deadline.is_over(&self.site.zk) {
            self.measured.end(true);
        }
    }
}

impl fmt::Debug for TimedLeaseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedLeaseGuard")
            .field("held", &self.held)
            .field("id", &self.site.id)
            .finish_non_exhaustive()
    }
}
