use std::time::{Duration, SystemTime};

use zk_curator::CuratorFramework;

use super::error::Error;
use super::guard::{RECIPE, TimedLeaseGuard};
use super::record::LeaseRecord;
use super::site::LeaseSite;
use crate::measure;
use crate::path::child;
use crate::schedule::plan;

/// A lease that is held for a time, also if the process of its holder ends: kazoo's
/// `NonBlockingLease`. Cheap to clone.
///
/// # Layout
/// ```text
/// /leases/hourly                       persistent, made on first use; its version counts the changes
///   ├─ lease_holder                    persistent: {"version": 1, "holder": "host-1", "end": "2026-11-22T14:00:00"}
///   ├─ _i_<uuid>                       persistent: tells the lease from a later one at its path
///   ├─ _c_<uuid>-clock                 ephemeral: a client, to read the time of the leader
///   └─ _r_<uuid>                       ephemeral: the receipt of a client
/// ```
/// `lease_holder` is the node of kazoo, in its format; the end is in UTC. kazoo ignores the others.
///
/// # Protocol
/// 1. Write the own `clock` node, whose stat has the time of the leader, and read the lease, in one
///    round trip.
/// 2. If another client holds it, and its end and the [margin](Self::margin) are not over at that
///    time, the lease is not taken.
/// 3. Otherwise write the holder and its end, that time plus the duration, in one transaction. It
///    is applied only if the lease has not changed since it was read: it raises the version of the
///    parent, and checks that `_i_<uuid>` exists, or creates it. If it has changed, go to 1.
///
/// A take is three requests in two round trips; it is two requests in one round trip if the lease
/// is held. kazoo's takes eight requests, one after the other.
///
/// # Guarantees
/// * Two guards are never both unexpired, if the clocks of leaders differ by at most the margin.
///   Clients' clocks, lost replies and ended sessions make no difference.
/// * The holder is the id: a process that takes a lease which its id holds gets it again, with a
///   new end and a higher fencing token. The earlier guard is then over. Until the outcome is
///   known, and if it stays unknown, the earlier guard ends no later than the new take.
/// * [Fencing tokens](TimedLeaseGuard::fencing_token) grow from guard to guard.
/// * A lease that was deleted and taken again is another lease: the guard of the first lease can
///   neither renew nor fence, although the nodes may have the same versions.
/// * After a lost reply the outcome is determined as long as the session lives.
///
/// # Assumptions
/// * Every holder has an id of its own. Two processes with the same id both hold the lease.
/// * A process uses one handle for an id, and clones of it. A later take or release through another
///   handle with the same id may end the lease of an earlier guard. That guard does not notice it
///   before it [renews](TimedLeaseGuard::renew) or [fences](TimedLeaseGuard::fence).
/// * The clocks of the servers that may lead differ by at most the margin, also after a step. The
///   clock of a process runs at the speed of theirs.
/// * Only leases write here, and the clients have the same margin. With kazoo, see
///   [`with_kazoo`](Self::with_kazoo).
///
/// # Connection loss
/// The guard does not depend on a session: neither SUSPENDED nor LOST ends it. It ends by time.
///
/// # Cancel safety
/// A [`try_take`](Self::try_take) that is dropped may have taken the lease. It is then held until
/// its end; the next call under the same id gets it.
///
/// # Errors
/// [`Error`].
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use std::time::Duration;
/// use zk_curator_recipes::lease::TimedLease;
///
/// const MINUTE: Duration = Duration::from_secs(60);
/// let lease = TimedLease::new(&zk, "/leases/hourly", "host-1");
/// // Longer than the period of the job, so that the next run is on the same host.
/// let guard = lease.try_take(70 * MINUTE).await?.expect("no other host has it");
/// assert!(guard.expires_in() > 69 * MINUTE);
///
/// let other = TimedLease::new(&zk, "/leases/hourly", "host-2");
/// assert!(other.try_take(70 * MINUTE).await?.is_none());
/// assert_eq!(other.holder().await?.unwrap().id, "host-1");
///
/// // Ends it early. A guard that is dropped leaves the lease as it is.
/// guard.release().await?;
/// assert!(other.try_take(70 * MINUTE).await?.is_some());
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "NonBlockingLease")]
#[derive(Debug, Clone)]
pub struct TimedLease {
    site: LeaseSite,
}

/// The holder of a lease, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseHolder {
    /// The path of the lease.
    pub path: String,
    /// The id.
    pub id: String,
    /// The end, by the clock of the leader. It may be over: a lease without a successor stays.
    pub end: SystemTime,
}

/// Writes the settings that one lease and several leases share.
macro_rules! lease_settings {
    () => {
        /// Sets the largest difference between the clocks of two servers, zero or more; the same
        /// for all clients. A lease of another holder is taken this time after its end. Zero is for
        /// a single server whose clock is never set. [`Duration::MAX`] never takes over. Default:
        /// 1 s.
        #[must_use]
        pub const fn margin(mut self, margin: Duration) -> Self {
            self.site.margin = margin;
            self
        }

        /// Shares the leases with kazoo's `NonBlockingLease` or `MultiNonBlockingLease` of the same
        /// path. Every change is then made under kazoo's lock of the leases, and only while it is
        /// held: [`try_take`](Self::try_take) waits while another client has it, and takes three
        /// more requests. All clients have to set it.
        ///
        /// kazoo compares ends with the clock of its own machine, has no margin, and deletes the
        /// holder without a check: if its session ends or its machine is paused in that moment, or
        /// its clock is off, it takes the lease of another holder. Our guards notice this when they
        /// [renew](TimedLeaseGuard::renew) or [fence](TimedLeaseGuard::fence).
        #[must_use]
        pub const fn with_kazoo(mut self) -> Self {
            self.site.is_shared_with_kazoo = true;
            self
        }
    };
}

impl TimedLease {
    /// The lease at a path, for the holder with this id, such as the name of a host. Nothing is
    /// sent; a path that is not valid is refused when the lease is used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>, id: impl Into<String>) -> Self {
        let path = path.into();
        let slots = vec![path.trim_end_matches('/').to_owned()];
        measure::lease(zk, RECIPE);
        Self { site: LeaseSite::new(zk, path, slots, id.into()) }
    }

    lease_settings!();

    /// The path of the lease.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.site.path
    }

    /// Takes the lease for this time, if no other client holds it; `None` if one does. A lease that
    /// this id holds is taken again: it then lasts for this time from now on, even if it would have
    /// lasted longer. Does not wait for other clients. Calls on clones of a handle wait for each
    /// other, so poll each of them until it is done.
    ///
    /// `duration` is longer than zero, and rounded up to a whole second of the leader's clock;
    /// [`Duration::MAX`] lasts until the year 9999.
    ///
    /// # Errors
    /// * [`Error::NotALease`] if the node has other data.
    /// * [`Error::InvalidSetting`] for a duration of zero.
    /// * [`Error::Framework`]; with [`may_have_applied`](Error::may_have_applied), the lease may be
    ///   held until its end. Call it again.
    ///
    /// # Cancel safety
    /// The lease may be held until its end. Another call under this id gets it.
    pub async fn try_take(&self, duration: Duration) -> Result<Option<TimedLeaseGuard>, Error> {
        take(&self.site, duration).await
    }

    /// Reads who holds the lease, or held it last; `None` if it was released, or never taken. One
    /// request.
    ///
    /// # Errors
    /// [`Error::NotALease`]; [`Error::Framework`] as every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn holder(&self) -> Result<Option<LeaseHolder>, Error> {
        Ok(holders(&self.site).await?.pop())
    }
}

/// Several leases that are held for a time, each by one holder: kazoo's `MultiNonBlockingLease`.
/// For work that has to run on at most `n` hosts.
///
/// # Layout
/// ```text
/// /leases/hourly                       persistent, made on first use
///   ├─ 0                               a TimedLease
///   │    └─ lease_holder
///   ├─ 1                               another one
///   ├─ _c_<uuid>-clock                 ephemeral: a client, to read the time of the leader
///   └─ _r_<uuid>                       ephemeral: the receipt of a client
/// ```
/// A holder has one of them. If it holds a lease already, it renews that lease. Otherwise it takes
/// the lease that it held last, if no other client has it, or the first free one. A take ends the
/// other leases of its id and their guards, so it never leaves two. kazoo's holder takes the first
/// free lease, and may then hold two until its next take here.
///
/// If a node has foreign data, or this client may not read it, its lease counts as held, and a
/// warning is logged. The other leases stay usable. kazoo also skips data in another version of the
/// format, and fails at data that are not JSON.
///
/// All else is as for [`TimedLease`]; the leases are read in one round trip.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use std::time::Duration;
/// use zk_curator_recipes::lease::MultiLease;
///
/// const HOUR: Duration = Duration::from_secs(3600);
/// let on = |host: &str| MultiLease::new(&zk, "/leases/crawlers", 2, host);
/// assert_eq!(on("host-1").try_take(HOUR).await?.unwrap().path(), "/leases/crawlers/0");
/// assert_eq!(on("host-2").try_take(HOUR).await?.unwrap().path(), "/leases/crawlers/1");
/// assert!(on("host-3").try_take(HOUR).await?.is_none());
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "MultiNonBlockingLease")]
#[derive(Debug, Clone)]
pub struct MultiLease {
    site: LeaseSite,
}

impl MultiLease {
    /// `holders` leases below a path, from one, for the holder with this id. All clients have the
    /// same number of holders. Nothing is sent; an invalid path, and a number of zero, are refused
    /// when it is used.
    ///
    /// All leases are read at each call, 85 in one request: a hundred are fine, a hundred thousand
    /// are not.
    pub fn new(
        zk: &CuratorFramework,
        path: impl Into<String>,
        holders: u16,
        id: impl Into<String>,
    ) -> Self {
        let path = path.into();
        let slots = (0..holders).map(|number| child(&path, &number.to_string())).collect();
        measure::lease(zk, RECIPE);
        Self { site: LeaseSite::new(zk, path, slots, id.into()) }
    }

    lease_settings!();

    /// The path above the leases.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.site.path
    }

    /// Takes one of the leases for this time: see [`TimedLease::try_take`]. `None` if other clients
    /// hold all of them.
    ///
    /// # Errors
    /// As [`TimedLease::try_take`]; [`Error::InvalidSetting`] also for a number of zero.
    /// [`Error::NotALease`], and an error of a single node such as `NoAuth`, only if no lease can
    /// be read.
    ///
    /// # Cancel safety
    /// As [`TimedLease::try_take`].
    pub async fn try_take(&self, duration: Duration) -> Result<Option<TimedLeaseGuard>, Error> {
        take(&self.site, duration).await
    }

    /// Reads who holds the leases, or held them last, in their order, without leases that cannot be
    /// read. One request for every 85 leases.
    ///
    /// # Errors
    /// As [`TimedLease::holder`], if no lease can be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn holders(&self) -> Result<Vec<LeaseHolder>, Error> {
        holders(&self.site).await
    }
}

async fn take(site: &LeaseSite, duration: Duration) -> Result<Option<TimedLeaseGuard>, Error> {
    let held = Box::pin(site.try_take(duration)).await?;
    Ok(held.map(|held| TimedLeaseGuard::new(site.clone(), held)))
}

async fn holders(site: &LeaseSite) -> Result<Vec<LeaseHolder>, Error> {
    let holder = |(slot, LeaseRecord { holder, end }): (usize, LeaseRecord)| LeaseHolder {
        path: site.slots[slot].clone(),
        id: holder,
        end: plan::time_of(end),
    };
    Ok(site.holders().await?.into_iter().map(holder).collect())
}
