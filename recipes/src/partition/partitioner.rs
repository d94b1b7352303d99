use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tracing::debug;
use zk_curator::certain::is_receipt;
use zk_curator::internal::{OnDrop, Signal};
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorKind};

use super::Error;
use super::held::Partition;
use super::machine::{Method, PartitionMachine, PartitionTimes};
use super::part::{Part, collect};
use super::record::{HEAVIEST, MemberRecord, Parts};
use super::run::{Care, Condition, run};
use super::site::{List, LocalParts, PartitionSite};
use super::view::PartitionView;
use crate::health::{Health, HealthReporter, HealthWatch};
use crate::node::PersistentNode;
use crate::path::child;
use crate::run::Run;
use crate::shutdown::Shutdown;

/// The default of [`SetPartitioner::settle`].
const SETTLE: Duration = Duration::from_secs(2);
/// The default of [`SetPartitioner::drain`].
const DRAIN: Duration = Duration::from_secs(10);
/// The default of [`SetPartitioner::restart`].
const RESTART: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A member of a group that divides a set of parts. Cheap to clone. See the [module](super).
#[derive(Clone)]
pub struct SetPartitioner {
    zk: CuratorFramework,
    path: String,
    parts: Arc<Signal<LocalParts>>,
    id: String,
    method: Method,
    member: MemberRecord,
    pace: PartitionTimes,
    /// `None` if it is as long as `settle`.
    leave_delay: Option<Duration>,
    care: Care,
    is_shared: bool,
    health: Arc<HealthReporter>,
}

impl SetPartitioner {
    /// The set at a path, with these parts. Nothing is sent; invalid paths, names and settings are
    /// refused when it runs.
    ///
    /// Every member computes the assignment at every change. The memory and the time for it grow
    /// with the number of parts times the number of members: about 40 bytes for each pair, so 40 MB
    /// for 10,000 parts and 100 members. Keep the product at a million or less, and let a part be a
    /// range of keys where there are more. [`with_kazoo`](Self::with_kazoo) does not have this
    /// cost.
    pub fn new<P: Into<Part>>(
        zk: &CuratorFramework,
        path: impl Into<String>,
        parts: impl IntoIterator<Item = P>,
    ) -> Self {
        let local = LocalParts { parts: collect(parts), changes: 0 };
        Self {
            zk: zk.clone(),
            path: path.into(),
            parts: Arc::new(Signal::new(local)),
            id: zk.new_guid(),
            method: Method::BoundedRendezvous,
            member: MemberRecord::default(),
            pace: PartitionTimes { settle: SETTLE, leave_delay: SETTLE, drain: DRAIN },
            leave_delay: None,
            care: Care { pauses: RESTART, ends_on_error: false, stops_when_suspended: false },
            is_shared: false,
            health: Arc::default(),
        }
    }

    /// Sets the id of this member, which names its node; a different one for every member. A member
    /// that comes back with its id gets its parts back. Default: a random one.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        // A clone may be another member.
        self.health = Arc::default();
        self
    }

    /// Sets the share of this member, in relation to those of the others: from 1 to 1000. Default:
    /// 1.
    #[must_use]
    pub const fn weight(mut self, weight: u32) -> Self {
        self.member.weight = weight;
        self
    }

    /// Sets the zone of this member, for parts that [prefer](Part::zone) one. It has no line
    /// breaks. Default: none.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.member.zone = Some(zone.into());
        self
    }

    /// Sets the time from a change until the parts are assigned again, so that several changes are
    /// one. It is also the shortest time between two assignments. Zero assigns at every change;
    /// with [`Duration::MAX`] no part is ever assigned. Default: 2 s.
    #[must_use]
    pub const fn settle(mut self, time: Duration) -> Self {
        self.pace.settle = time;
        self
    }

    /// Sets for how long a member that has left still counts, so that nothing moves if it comes
    /// back within this time, for example in a rolling restart. Its parts wait. Zero moves them
    /// when the leave is seen, but not sooner than [`settle`](Self::settle) after the last
    /// assignment; with [`Duration::MAX`] parts of members that have left wait for their return.
    /// Default: as long as `settle`.
    #[must_use]
    pub const fn leave_delay(mut self, time: Duration) -> Self {
        self.leave_delay = Some(time);
        self
    }

    /// Sets the time for which a body may continue when its part is
    /// [revoked](Partition::revoked). Then it is dropped. Zero drops it when the part is revoked;
    /// [`Duration::MAX`] lets it finish. Default: 10 s.
    #[must_use]
    pub const fn drain(mut self, time: Duration) -> Self {
        self.pace.drain = time;
        self
    }

    /// Sets the pauses before a body that has failed runs again: `first`, then twice as long after
    /// each failure, `longest` at most; of that between a half and all, by chance. The part stays
    /// ours. The pause is `first` again after a body that ran for more than `longest`. No pause is
    /// shorter than 10 ms. Default: 1 s and 60 s.
    #[must_use]
    pub const fn restart(mut self, first: Duration, longest: Duration) -> Self {
        self.care.pauses = (first, longest);
        self
    }

    /// Ends this member with [`Error::Body`] when a body has failed: the other parts are revoked,
    /// and their bodies may continue for the time to [drain](Self::drain). The error is that of the
    /// first body that has failed. Default: the body [runs again](Self::restart).
    #[must_use]
    pub const fn end_on_error(mut self) -> Self {
        self.care.ends_on_error = true;
        self
    }

    /// Drops bodies when the connection is suspended, for bodies whose writes are not fenced, and
    /// acquires their parts again. A suspension that is over before this member runs again counts
    /// too. Default: a part is kept until the session is lost.
    #[must_use]
    pub const fn stop_when_suspended(mut self) -> Self {
        self.care.stops_when_suspended = true;
        self
    }

    /// Keeps the list of parts in a node, so that all members have the same: the first member
    /// creates it with its parts, and later members ignore theirs. The same in all members.
    /// Default: every member has the parts that it was given.
    #[must_use]
    pub const fn shared_parts(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Divides the set with kazoo's `SetPartitioner`, in its layout and by its assignment: every
    /// n-th of the sorted parts goes to the n-th of the sorted ids. All Rust members have to set
    /// it. Then weights and zones have no effect, and most parts move at every change. Kazoo's
    /// members release all parts at every change.
    ///
    /// Set [`settle`](Self::settle) to about the `time_boundary` of the kazoo members, which is 30
    /// s by default. The `partition_func` of the kazoo members has to be their default.
    ///
    /// Kazoo sorts the parts as objects of Python, and this member sorts their names. So the parts
    /// of the kazoo members have to be of the type `str`. Numbers are sorted otherwise: write them
    /// as texts of one length, such as `"007"`.
    #[must_use]
    pub const fn with_kazoo(mut self) -> Self {
        self.method = Method::EveryNth;
        self
    }

    /// Follows the health of this member while it [runs](Self::run), for all clones of it:
    ///
    /// * [`Working`](crate::health::Health::Working) while it is in the group, and owns all parts
    ///   that are assigned to it. Bodies that fail make no difference.
    /// * [`Waiting`](crate::health::Health::Waiting) before it runs, without a connection, before
    ///   the first assignment, while another member still owns one of its parts, while nobody works
    ///   on one of them because its body has returned `Ok`, and at its end.
    /// * [`Failed`](crate::health::Health::Failed) if it cannot be in the group, and when a run has
    ///   failed with [`Error::Framework`].
    ///
    /// The watch ends with the last clone.
    pub fn health(&self) -> HealthWatch {
        self.health.watch()
    }

    /// The path of the set.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Runs `body` for every part that this member owns, forever and through every outage that
    /// passes. Bodies run concurrently, within this future.
    ///
    /// When its part is [revoked](Partition::revoked), a body should return within the time to
    /// [drain](Self::drain). It is dropped then, or when the part is lost; the lock of the part is
    /// released after that. A body that returns an error [runs again](Self::restart).
    ///
    /// A body that returns `Ok` although its part is neither revoked nor lost gives the part up
    /// until the next assignment, which the next change brings. Until then nobody works on the
    /// part, and the [health](Self::health) is `Waiting`: a body whose work is not done once and
    /// for all must not return `Ok`.
    ///
    /// [Until a stop](Run::until): then all parts are revoked, bodies may continue for the time to
    /// drain, and the member leaves the group after it has released the last part. The run returns
    /// when the nodes of this member are deleted; if the servers do not respond within the time
    /// that the retry policy allows, they are deleted in the background.
    ///
    /// # Errors
    /// * [`Error::InvalidSetting`].
    /// * [`Error::Body`] with [`end_on_error`](Self::end_on_error). The other bodies have drained,
    ///   and the member has left the group.
    /// * [`Error::NotAList`] if the shared list of parts was overwritten; [`Error::Framework`] with
    ///   `InvalidPath`, `Closed`, and errors that do not pass, such as `NoAuth`. Then all bodies
    ///   are dropped, and everything is released in the background.
    ///
    /// # Panics
    /// Panics if `body` panics. Outside a tokio runtime, if the framework has no spawner.
    ///
    /// # Cancel safety
    /// Dropping the future drops the bodies, releases the parts and leaves the group in the
    /// background.
    pub fn run<F, Fut, E>(&self, body: F) -> Run<impl Future<Output = Result<(), Error>>>
    where
        F: Fn(Partition) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        Run::new(|stop| async move {
            // Dropped with the run, it reports that the member waits to run again.
            let running = OnDrop::new(|| self.health.report(Health::Waiting));
            let ended = self.take_part(stop.shutdown(), body).await;
            drop(running);
            if let Err(Error::Framework(error)) = &ended {
                self.health.report(Health::Failed(error.clone()));
            }
            ended
        })
    }

    async fn take_part<F, Fut, E>(&self, shutdown: Shutdown, body: F) -> Result<(), Error>
    where
        F: Fn(Partition) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let ending = shutdown.ending();
        let site = Arc::new(self.site("run")?);
        // Joins only when the parts are known, and does not hold anything up before that.
        let node = tokio::select! {
            biased;
            () = ending.begun() => return Ok(()),
            prepared = self.prepared(&site) => prepared.map(|()| site.join(&self.member))?,
        };
        tokio::select! {
            biased;
            () = ending.begun() => {
                self.leave(node).await;
                return Ok(());
            }
            joined = self.joined(&node) => joined?,
        }
        let list = if self.is_shared { List::shared(&site) } else { List::local(&self.parts) };
        let machine = PartitionMachine::new(site.node.clone(), self.method, self.pace());
        let follows = (site.roster(), list);
        let condition = Condition::new(&self.health, node.health());
        let member = run(Arc::clone(&site), machine, follows, self.care, &ending, condition, &body);
        let ended = Box::pin(member).await;
        // Last: no other member waits for locks of a member that has left.
        if let Ok(()) | Err(Error::Body { .. }) = ended {
            self.leave(node).await;
        }
        ended
    }

    async fn leave(&self, node: PersistentNode) {
        if let Err(error) = node.close().await {
            debug!(path = self.path, %error, "leaves the group in the background");
        }
    }

    /// Replaces the parts of all members, if they are [shared](Self::shared_parts), and otherwise
    /// those of this member and its clones. Concurrent calls replace each other's parts.
    ///
    /// Parts that stay keep their owners as far as possible.
    ///
    /// # Errors
    /// * [`Error::InvalidSetting`].
    /// * [`Error::Framework`] as a write, if they are shared. With an
    ///   [unknown outcome](Error::may_have_applied) they may be replaced.
    ///
    /// # Cancel safety
    /// The parts are replaced or not.
    pub async fn set_parts<P: Into<Part>>(
        &self,
        parts: impl IntoIterator<Item = P>,
    ) -> Result<(), Error> {
        let parts = collect(parts);
        let site = self.site("set_parts")?;
        self.check_parts(&parts)?;
        if self.is_shared {
            return site.set_list(&parts).await;
        }
        self.parts.modify(|local| {
            local.parts = parts;
            local.changes += 1;
        });
        Ok(())
    }

    /// Reads the present members, and the owners of the parts: a request for the members and one
    /// for each part, and one for each owner and each waiting member.
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework; [`Error::NotAList`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn view(&self) -> Result<PartitionView, Error> {
        let site = self.site("view")?;
        let parts = if self.is_shared {
            match site.read_list().await {
                Err(Error::Framework(error)) if error.kind() == ErrorKind::NoNode => Parts::new(),
                parts => parts?,
            }
        } else {
            self.parts.look(|local| local.parts.clone())
        };
        PartitionView::read(&site, parts).await
    }

    /// Waits until the shared list of parts exists, and what kazoo needs.
    async fn prepared(&self, site: &PartitionSite) -> Result<(), Error> {
        loop {
            match self.prepare(site).await {
                Err(Error::Framework(error)) => self.zk.wait_for_recovery(error).await?,
                prepared => return prepared,
            }
        }
    }

    /// Waits until this member is in the group.
    async fn joined(&self, node: &PersistentNode) -> Result<(), Error> {
        while let Err(error) = node.created().await {
            self.zk.wait_for_recovery(error).await?;
        }
        Ok(())
    }

    async fn prepare(&self, site: &PartitionSite) -> Result<(), Error> {
        site.prepare().await?;
        if self.is_shared {
            site.share(&self.parts.look(|local| local.parts.clone())).await?;
        }
        Ok(())
    }

    /// Returns the same member, whose health is known until it is dropped.
    pub(super) fn with_own_health(mut self) -> Self {
        self.health = Arc::default();
        self
    }

    pub(super) const fn framework(&self) -> &CuratorFramework {
        &self.zk
    }

    /// The time to drain.
    pub(super) const fn drain_time(&self) -> Duration {
        self.pace.drain
    }

    fn pace(&self) -> PartitionTimes {
        PartitionTimes { leave_delay: self.leave_delay.unwrap_or(self.pace.settle), ..self.pace }
    }

    /// Checks the settings.
    fn site(&self, operation: &'static str) -> Result<PartitionSite, Error> {
        ZPath::for_operation(operation, self.path.as_str())?;
        if !is_name(&self.id) || is_receipt(&self.id) {
            return Err(self.invalid("id of a member", "a name for a node"));
        }
        if !(1..=HEAVIEST).contains(&self.member.weight) {
            return Err(self.invalid("weight", "from 1 to 1000"));
        }
        if self.member.zone.as_deref().is_some_and(|zone| !is_zone(zone)) {
            return Err(self.invalid("zone", "a text without control characters"));
        }
        self.parts.look(|local| self.check_parts(&local.parts))?;
        Ok(PartitionSite::new(&self.zk, &self.path, &self.id, self.method))
    }

    fn check_parts(&self, parts: &Parts) -> Result<(), Error> {
        if !parts.keys().all(|name| is_name(name)) {
            return Err(self.invalid("name of a part", "a name for a node"));
        }
        if !parts.values().flatten().all(|zone| is_zone(zone)) {
            return Err(self.invalid("zone of a part", "a text without control characters"));
        }
        Ok(())
    }

    fn invalid(&self, setting: &'static str, expected: &'static str) -> Error {
        Error::InvalidSetting { path: self.path.clone(), setting, expected }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && ZPath::parse(child("/", name)).is_ok()
}

fn is_zone(zone: &str) -> bool {
    !zone.chars().any(char::is_control)
}

impl fmt::Debug for SetPartitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetPartitioner")
            .field("path", &self.path)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
