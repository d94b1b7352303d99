mod mutex;
mod rules;

use std::future::{Future, IntoFuture, pending};

use bytes::Bytes;
use futures_util::future::{join, try_join};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use zk_curator::path::ZPath;
use zk_curator::watch::{DataWatch, Watch};
use zk_curator::{CreateMode, CuratorFramework, ErrorKind, OwnedNode, Ownership};

use super::guard::with_guard;
use super::kazoo_semaphore::KazooSemaphore;
use super::{Error, Guard, tag};
use crate::advice::LongWait;
use crate::contender::Contender;
use crate::measure::{self, WaitMeasure};
use crate::order::OrderRule;
use crate::participant::{Participant, participants, participants_at};
use crate::path::child;

pub use mutex::InterProcessSemaphoreMutex;

/// The name in metrics.
const RECIPE: &str = "semaphore";
/// The number of permits that are created at a time.
const CREATES_AT_ONCE: usize = 64;

/// A counting semaphore: at most `permits` at a time, granted in the order of arrival.
///
/// # Layout
/// ```text
/// /locks/printers                              container, made on first use
///   ├─ locks                                   container: an InterProcessMutex, held while permits are acquired
///   │    └─ _c_<uuid>-lock-0000000009          ephemeral, sequential
///   └─ leases                                  container
///        ├─ _c_<uuid>-lease-0000000004         ephemeral, sequential: a permit; data: its label
///        └─ _c_<uuid>-lease-0000000007
/// ```
/// The layout of Apache Curator's `InterProcessSemaphoreV2`. Children with other names are ignored.
///
/// # Protocol
/// 1. Acquire the mutex `locks`: clients are served in the order of arrival, and only one waits for
///    permits to end.
/// 2. Create the permits, and list all of them, in one round trip.
/// 3. They are granted when the number of permits, up to the last of ours, does not exceed the
///    limit.
/// 4. Otherwise watch the children of `leases`, and list them again at every change.
/// 5. Release the mutex.
///
/// Without contention this takes six requests, including the release, and two round trips. Several
/// permits are created together, while the mutex is held, so two clients that want several permits
/// cannot block each other, each with half of its permits.
///
/// # Guarantees
/// * The number of granted permits never exceeds the limit at the time of the last grant. This does
///   not depend on the mutex.
/// * A grant needs nodes that belong to the present session (CURATOR-604).
/// * First come, first served: a client that wants many permits is not overtaken by clients that
///   want few.
///
/// # Assumptions
/// If Java clients share the semaphore, no client should request several permits at a time without
/// a time limit: Curator acquires them one by one, with a turn at the mutex for each, so it may
/// keep some and wait for its next turn behind a [`acquire_many`](Self::acquire_many), which waits
/// for those permits. A time limit on either side ends that.
///
/// All clients of the semaphore should have the same limit. If clients have different limits, each
/// compares its own limit with the permits of all. A client with a low limit waits until few enough
/// permits are held, and all later clients wait behind it. A client with a high limit acquires
/// permits beyond the limits of other clients. Keep a limit that may change in a
/// [shared count](Self::with_shared_count). The holder stops when [`lost`](Guard::lost) resolves,
/// or fences its writes.
///
/// # Connection loss
/// * SUSPENDED: waiters keep waiting; a permit is kept until its session is lost.
/// * LOST: `lost()` of the permit resolves; waiters enter the queue again, at its end, in
///   the next session.
///
/// # Cancel safety
/// Every future may be dropped at any point: no node stays behind.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::lock::InterProcessSemaphore;
///
/// let printers = InterProcessSemaphore::new(&zk, "/locks/printers", 2);
/// let one = printers.acquire().await?;
/// let two = printers.acquire().await?;
/// assert!(printers.try_acquire().await?.is_none());
/// one.release().await?;
/// assert!(printers.try_acquire().await?.is_some());
/// # drop(two);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessSemaphore {
    zk: CuratorFramework,
    path: String,
    label: Bytes,
    limit: PermitLimit,
    rule: OrderRule,
    /// The name in metrics.
    recipe: &'static str,
}

#[derive(Debug, Clone)]
enum PermitLimit {
    Constant(u32),
    /// The path of a shared count.
    Shared(String),
    /// In the layout of kazoo.
    Kazoo(u32),
}

/// A permit of an [`InterProcessSemaphore`], or the lock of an [`InterProcessSemaphoreMutex`].
pub type Permit = Guard<PermitKind>;

/// The kind of a [`Permit`].
#[derive(Debug)]
pub struct PermitKind {
    /// A watch that did not fire while the permit was waited for: the next change ends it, at the
    /// latest our own, while to remove it would cost a request.
    _watch: Option<Watch>,
}

/// All permits there are and their limit, and watches for when that changes.
struct PermitListing {
    names: Vec<String>,
    limit: u32,
    leases_watch: Option<Watch>,
    /// Of a shared count.
    limit_watch: Option<DataWatch>,
}

impl InterProcessSemaphore {
    /// The semaphore at a path, with a constant limit. Nothing is sent; a path that is not valid is
    /// refused when it is used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>, permits: u32) -> Self {
        Self::limited(zk, path.into(), PermitLimit::Constant(permits), RECIPE)
    }

    /// The semaphore at a path, whose limit is the shared count at another: the four bytes of a
    /// big-endian `i32`, as Curator's `SharedCount` writes them; below zero counts as none. It may
    /// change at any time. When it grows, more permits are granted immediately; when it shrinks, no
    /// permit is taken away.
    pub fn with_shared_count(
        zk: &CuratorFramework,
        path: impl Into<String>,
        count_path: impl Into<String>,
    ) -> Self {
        Self::limited(zk, path.into(), PermitLimit::Shared(count_path.into()), RECIPE)
    }

    /// The semaphore at a path, with a constant limit, that is shared with kazoo's `Semaphore`,
    /// which needs no settings for it.
    ///
    /// ```text
    /// /locks/printers                      persistent; data: the limit as text
    ///   └─ <32hex>                         ephemeral: a permit; data: its label
    /// /locks/printers-__lock__             persistent: a lock of kazoo, held while a permit is acquired
    ///   └─ _c_<uuid>-__lock__0000000009    ephemeral, sequential
    /// ```
    /// The number of permits is limited only as long as the lock excludes: an acquirer whose
    /// session ends between the count and the create may exceed it, as with kazoo. Permits are
    /// counted whatever their names are, so no other node may be below the path. The first acquirer
    /// stores the limit; others with another limit are refused with [`Error::OtherLimit`].
    ///
    /// Semaphores in Java and of [`new`](Self::new) have another layout.
    pub fn with_kazoo(zk: &CuratorFramework, path: impl Into<String>, permits: u32) -> Self {
        Self::limited(zk, path.into(), PermitLimit::Kazoo(permits), RECIPE)
    }

    fn limited(
        zk: &CuratorFramework,
        path: String,
        limit: PermitLimit,
        recipe: &'static str,
    ) -> Self {
        // Listing in advance would cost more requests than it saves, because the permits are
        // created immediately in any case. The permits decide who has one, so a lost turn does no
        // harm.
        let rule = OrderRule {
            looks_ahead: false,
            watches_itself: false,
            ..OrderRule::exclusive(tag::LOCK)
        };
        measure::lock(zk, recipe);
        Self { zk: zk.uncompressed(), path, label: Bytes::new(), limit, rule, recipe }
    }

    /// The data of our permits, for people who look who holds them. Default: none.
    #[must_use]
    pub fn label(mut self, label: impl Into<Bytes>) -> Self {
        self.label = label.into();
        self
    }

    /// The path of the semaphore.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Acquires a permit, however long it takes. Compose with `tokio::time::timeout`.
    ///
    /// # Errors
    /// * [`Error::Framework`] when a path is not valid, or an operation fails for longer than the
    ///   retry policy allows; `NoNode` when there is no shared count. Nothing stays behind.
    /// * [`Error::NotACount`] when the data of the shared count are not one.
    /// * [`Error::OverLimit`] when the constant limit is zero.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn acquire(&self) -> Result<Permit, Error> {
        let permit = self.acquire_many(1).await?.pop();
        permit.ok_or_else(|| Error::Lost { path: self.path.clone() })
    }

    /// Acquires several permits, all or none, however long it takes.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); [`Error::OverLimit`] when the constant limit is lower.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn acquire_many(&self, count: u32) -> Result<Vec<Permit>, Error> {
        let paths = self.paths("acquire", count)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (waiting, mut long) = (WaitMeasure::begin(), LongWait::begin());
        if let Some(kazoo) = self.of_kazoo("acquire")? {
            let leases = Box::pin(kazoo.acquire(count, true)).await?.unwrap_or_default();
            waiting.over(&self.zk, self.recipe);
            return Ok(self.kazoo_leases(leases));
        }
        let mut turn = Contender::enter(&self.zk, &paths.locks, &self.rule, &self.label).await?; // 1
        // If other clients wait, we will probably wait as well.
        let watched = !turn.is_turn().await?;
        loop {
            let (leases, listing) = if turn.step().await? {
                self.create(&paths, count, watched).await? // 2
            } else {
                // It is probably our turn: check this and continue, in one round trip.
                let (looked, created) =
                    join(turn.refresh(), self.create(&paths, count, watched)).await;
                looked?;
                if !turn.is_turn().await? {
                    continue;
                }
                created?
            };
            if !turn.node().is_ours() {
                // The permits are of the next session. Waiting with these permits, but without the
                // turn, would block the client that has the turn.
                continue;
            }
            if let Some(leases) = self.granted(&paths, leases, listing, &mut long).await? {
                waiting.over(&self.zk, self.recipe);
                return Ok(leases);
            }
        }
    }

    /// Acquires a permit if one is free, without waiting for other clients; `None` if none is free,
    /// or another client waits for one. Two round trips.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<Permit>, Error> {
        Ok(self.try_acquire_many(1).await?.and_then(|mut leases| leases.pop()))
    }

    /// Acquires several permits, all or none, if they are free, without waiting for other clients.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire_many(&self, count: u32) -> Result<Option<Vec<Permit>>, Error> {
        let paths = self.paths("try_acquire", count)?;
        if let Some(kazoo) = self.of_kazoo("try_acquire")? {
            let leases = Box::pin(kazoo.acquire(count, false)).await?;
            return Ok(leases.map(|leases| self.kazoo_leases(leases)));
        }
        let turn = Contender::enter(&self.zk, &paths.locks, &self.rule, &self.label).await?;
        if !turn.is_turn().await? {
            return Ok(None);
        }
        let (leases, listing) = self.create(&paths, count, false).await?;
        Ok(listing.grants(&leases).then(|| self.leases(leases, listing)))
    }

    /// Acquires a permit, runs `body`, and releases the permit on every way out: as
    /// [`InterProcessMutex::with`](super::InterProcessMutex::with).
    ///
    /// # Errors
    /// * [`Error::Lost`] when the permit was lost before `body` was done, or before it was
    ///   released.
    /// * As [`acquire`](Self::acquire); then `body` did not run.
    ///
    /// # Panics
    /// Panics if `body` panics; the permit is released.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body` and releases the permit in the background.
    pub async fn with<F, Fut>(&self, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Ownership) -> Fut,
        Fut: Future,
    {
        with_guard(self.acquire().await?, body).await
    }

    /// Returns the holders of permits, and the next waiter, in the order of the creates, including
    /// those of Java's Curator.
    ///
    /// # Errors
    /// As every read of the framework. A semaphore that does not exist yet has no participants.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let paths = self.paths("participants", 0)?;
        if let Some(kazoo) = self.of_kazoo("participants")? {
            return Ok(participants_at(&self.zk, kazoo.leases().await?).await?);
        }
        Ok(participants(&self.zk, &paths.leases, tag::LEASE).await?)
    }

    /// Waits until the permits are granted, under our turn; `None` if they are gone.
    async fn granted(
        &self,
        paths: &SemaphorePaths,
        leases: Vec<OwnedNode>,
        mut listing: PermitListing,
        long: &mut LongWait,
    ) -> Result<Option<Vec<Permit>>, Error> {
        while !listing.grants(&leases) {
            if !listing.has(&leases) || leases.iter().any(|lease| !lease.is_ours()) {
                return Ok(None);
            }
            let Some(first) = leases.first() else { return Ok(None) };
            let session_lost = first.ownership().session_lost();
            let Some(leases_watch) = &mut listing.leases_watch else {
                listing = self.list(paths, true).await?;
                continue;
            };
            // 4
            tokio::select! {
                biased;
                () = session_lost => return Ok(None),
                _ = leases_watch => {
                    (listing.names, listing.leases_watch) = self.list_leases(paths, true).await?;
                }
                limit = self.next_limit(&mut listing.limit_watch) => listing.limit = limit?,
                () = long.look(&self.zk, "acquire", &paths.leases, &listing.names) => {}
            }
        }
        Ok(Some(self.leases(leases, listing))) // 3, and 5 when the turn is dropped
    }

    /// Creates permits, and lists all there are, in one round trip.
    async fn create(
        &self,
        paths: &SemaphorePaths,
        count: u32,
        watched: bool,
    ) -> Result<(Vec<OwnedNode>, PermitListing), Error> {
        let create = || {
            self.zk
                .create(child(&paths.leases, tag::LEASE))
                .mode(CreateMode::EphemeralSequential)
                .creating_parents_as_containers()
                .protected()
                .data(self.label.clone())
                .owned()
        };
        let creates = (0..count).map(|_| create().into_future());
        let creates = stream::iter(creates).buffered(CREATES_AT_ONCE).try_collect();
        let (leases, listing) = join(creates, self.list(paths, watched)).await;
        let (leases, listing): (Vec<_>, _) = (leases?, listing?);
        // Something went wrong on the way, and the listing was made before the last create.
        let listing =
            if listing.has(&leases) { listing } else { self.list(paths, watched).await? };
        Ok((leases, listing))
    }

    async fn list(&self, paths: &SemaphorePaths, watched: bool) -> Result<PermitListing, Error> {
        // A followed read waits for an outage to end, the other one fails.
        let read = try_join(self.list_leases(paths, watched), self.read_limit(watched)).await?;
        let ((names, leases_watch), (limit, limit_watch)) = read;
        Ok(PermitListing { names, limit, leases_watch, limit_watch })
    }

    async fn list_leases(
        &self,
        paths: &SemaphorePaths,
        watched: bool,
    ) -> Result<(Vec<String>, Option<Watch>), Error> {
        let children = self.zk.children(paths.leases.as_str());
        let listed = if watched {
            children.watched().await.map(|watched| (watched.value.0, Some(watched.watch)))
        } else {
            children.await.map(|names| (names, None))
        };
        match listed {
            Err(error) if error.kind() == ErrorKind::NoNode => Ok((Vec::new(), None)),
            listed => Ok(listed?),
        }
    }

    async fn read_limit(&self, watched: bool) -> Result<(u32, Option<DataWatch>), Error> {
        match &self.limit {
            PermitLimit::Constant(limit) | PermitLimit::Kazoo(limit) => Ok((*limit, None)),
            PermitLimit::Shared(path) if watched => {
                let mut watch = Some(self.zk.watch_data(path));
                Ok((self.next_limit(&mut watch).await?, watch))
            }
            PermitLimit::Shared(path) => {
                Ok((self.limit_of(path, self.zk.get_data(path).await?)?, None))
            }
        }
    }

    /// Waits until the limit is another one, if that can be.
    async fn next_limit(&self, watch: &mut Option<DataWatch>) -> Result<u32, Error> {
        let Some(watch) = watch else { return pending().await };
        let data = match watch.next().await? {
            Some((data, _)) => data,
            // Fails, unless the count has arrived in between.
            None => self.zk.get_data(watch.path()).await?,
        };
        self.limit_of(watch.path(), data)
    }

    fn limit_of(&self, path: &str, data: Bytes) -> Result<u32, Error> {
        // Users write it, with a framework that may compress: four bytes are never compressed data.
        let data =
            if data.len() == 4 { data } else { self.zk.decompress(path, data).unwrap_or_default() };
        let count = data[..].try_into().map(i32::from_be_bytes);
        let count = count.map_err(|_| Error::NotACount { path: path.to_owned() })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn of_kazoo(&self, operation: &'static str) -> Result<Option<KazooSemaphore<'_>>, Error> {
        let PermitLimit::Kazoo(limit) = self.limit else { return Ok(None) };
        KazooSemaphore::new(&self.zk, operation, &self.path, limit, &self.label).map(Some)
    }

    fn kazoo_leases(&self, nodes: Vec<OwnedNode>) -> Vec<Permit> {
        let lease = |node| Guard::new(&self.zk, node, PermitKind { _watch: None }, self.recipe);
        nodes.into_iter().map(lease).collect()
    }

    fn leases(&self, nodes: Vec<OwnedNode>, mut listing: PermitListing) -> Vec<Permit> {
        let lease = |node| {
            Guard::new(
                &self.zk,
                node,
                PermitKind { _watch: listing.leases_watch.take() },
                self.recipe,
            )
        };
        nodes.into_iter().map(lease).collect()
    }

    fn paths(&self, operation: &'static str, count: u32) -> Result<SemaphorePaths, Error> {
        if let PermitLimit::Constant(limit) | PermitLimit::Kazoo(limit) = self.limit
            && count > limit
        {
            return Err(Error::OverLimit { path: self.path.clone(), asked: count, limit });
        }
        let parent = ZPath::for_operation(operation, self.path.as_str())?;
        let path = |name| ZPath::for_operation(operation, child(&parent, name));
        Ok(SemaphorePaths { locks: path(tag::LOCK_PARENT)?, leases: path(tag::LEASE_PARENT)? })
    }
}

struct SemaphorePaths {
    locks: ZPath,
    leases: ZPath,
}

impl PermitListing {
    /// Returns `true` if these permits are granted, and are ours.
    fn grants(&self, leases: &[OwnedNode]) -> bool {
        let ours: Vec<_> = leases.iter().map(OwnedNode::name).collect();
        rules::grants(&self.names, &ours, self.limit) && leases.iter().all(OwnedNode::is_ours)
    }

    fn has(&self, leases: &[OwnedNode]) -> bool {
        rules::has(&self.names, leases.iter().map(OwnedNode::name))
    }
}
