use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};
use zk_curator::certain::{Applied, Receipt};
use zk_curator::internal::suspended;
use zk_curator::op::{ReadResult, Transaction};
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind, FencingToken, Stat, Version};

use super::error::Error;
use super::held::{HOLDER, HeldLease, IDENTITY, LeaseDeadline};
use super::record::LeaseRecord;
use super::rules::{self, LeaseStanding};
use super::takes::Takes;
use crate::lock::{InterProcessMutex, MutexGuard};
use crate::path::child;
use crate::race::{RACE_ROUNDS, is_conflict};
use crate::server_clock::ServerClock;

/// The default margin.
const MARGIN: Duration = Duration::from_secs(1);
/// The number of reads of one request: those of whole leases, so that each is read in one state.
const READS: usize = 255;

/// The leases of a holder, and its nodes next to them. Clones share these.
#[derive(Clone)]
pub(super) struct LeaseSite {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    /// The paths of the leases. One of them is taken.
    pub(super) slots: Vec<String>,
    pub(super) id: String,
    pub(super) margin: Duration,
    pub(super) is_shared_with_kazoo: bool,
    clock: Arc<Mutex<ServerClock>>,
    receipt: Receipt,
    pub(super) takes: Arc<Takes>,
}

/// The leader's time, read between two instants.
#[derive(Debug, Clone, Copy)]
struct Now {
    /// When the request was sent, or earlier.
    asked: Instant,
    /// The time for which the machine had been suspended before that.
    suspended: Duration,
    millis: i64,
}

/// The result of a read of a lease.
#[derive(Debug)]
enum LeaseLook {
    /// The node does not exist.
    Missing,
    Lease(ReadLease),
    /// The data are not those of a lease, or this client may not read them.
    Unreadable(Error),
}

/// The result of an attempt to take a lease.
enum Taken {
    Lease(HeldLease),
    /// Another client holds it.
    Nothing,
    /// Other clients have changed it: everything is to be read again.
    Changed,
}

/// A lease as it was read.
#[derive(Debug)]
struct ReadLease {
    /// The parent, whose version counts the changes of the lease. Its data are kept.
    data: Bytes,
    version: i32,
    /// The path of a node that exists only in this lease, not in a later one of the same path.
    identity: Option<String>,
    holder: Option<(LeaseRecord, Stat)>,
}

impl LeaseSite {
    pub(super) fn new(zk: &CuratorFramework, path: String, slots: Vec<String>, id: String) -> Self {
        let zk = zk.uncompressed();
        let clock = ServerClock::new(&zk, &path, Bytes::from(id.clone())).with_persistent_parent();
        let (clock, receipt) = (Arc::new(Mutex::new(clock)), Receipt::new(&zk, path.as_str()));
        let (margin, is_shared_with_kazoo, takes) = (MARGIN, false, Arc::new(Takes::new()));
        Self { zk, path, slots, id, margin, is_shared_with_kazoo, clock, receipt, takes }
    }

    /// Takes a lease for a time; `None` if other clients hold all of them. A lease that this client
    /// may not take counts as held, unless it may take none.
    pub(super) async fn try_take(&self, duration: Duration) -> Result<Option<HeldLease>, Error> {
        self.check(duration)?;
        let _turn = self.takes.turn().await;
        let mut rounds = 0..RACE_ROUNDS;
        let mut refused = BTreeMap::new();
        loop {
            let is_last = rounds.next().is_none();
            // 1
            let (now, seen) = join(self.now(), self.read(&self.slots)).await;
            let (now, mut seen) = (now?, Self::usable(seen?)?);
            let judge = |(index, seen)| match refused.get(&index) {
                Some(_) => LeaseStanding::Held,
                None => self.judge(seen, now),
            };
            let standings: Vec<_> = seen.iter().enumerate().map(judge).collect();
            // 2
            let Some(index) = rules::choose(&standings) else {
                let is_held = |(index, seen)| {
                    matches!(seen, &LeaseLook::Lease(_)) && !refused.contains_key(&index)
                };
                let is_held = seen.iter().enumerate().any(is_held);
                return match refused.into_values().next() {
                    Some(error) if !is_held => Err(error),
                    _ => Ok(None),
                };
            };
            match self.surrender(rules::surplus(&standings, index), &seen).await {
                Err(Error::Framework(error)) if is_changed(&error) && !is_last => continue,
                surrendered => surrendered?,
            }
            match self.try_one(index, seen.swap_remove(index), now, duration, is_last).await {
                Ok(Taken::Lease(held)) => return Ok(Some(held)),
                Ok(Taken::Nothing) => return Ok(None),
                Ok(Taken::Changed) => {}
                Err(Error::Framework(error)) if error.code() == Some(ErrorCode::NoAuth) => {
                    warn!(%error, "a lease that cannot be taken counts as held");
                    refused.insert(index, Error::Framework(error));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a lease that was free.
    async fn try_one(
        &self,
        index: usize,
        mut seen: LeaseLook,
        mut now: Now,
        duration: Duration,
        is_last: bool,
    ) -> Result<Taken, Error> {
        let path = &self.slots[index];
        let lock = self.lock(path).await?;
        if lock.is_some() {
            // kazoo changes leases under the lock only, so they are read again under it.
            let again = join(self.now(), self.read_one(path)).await;
            (now, seen) = (again.0?, again.1?);
            if self.judge(&seen, now) == LeaseStanding::Held {
                let is_over = is_last || self.slots.len() == 1;
                return Ok(if is_over { Taken::Nothing } else { Taken::Changed });
            }
        }
        let slot = match seen {
            LeaseLook::Lease(slot) => slot,
            LeaseLook::Missing => {
                self.create(path).await?;
                return Ok(Taken::Changed);
            }
            LeaseLook::Unreadable(error) => return Err(error),
        };
        // 3
        let end = rules::end(now.millis, duration);
        let (identity, written) = self.write(path, &slot, end, lock.as_ref());
        // Others may see the end of this take from here on, also if the response is lost.
        let number = self.takes.take(&self.zk, path, end, Self::deadline(now, end));
        match written.certain(&self.receipt).commit().await {
            Ok(applied) => {
                self.takes.taken(number);
                let held = Self::held(path, slot, identity, end, now, number, &applied);
                // If the response took longer than the lease, it is taken again.
                let is_over = !is_last && held.deadline.is_over(&self.zk);
                Ok(if is_over { Taken::Changed } else { Taken::Lease(held) })
            }
            Err(error) => {
                self.ended(number, &error);
                if is_changed(&error) && !is_last { Ok(Taken::Changed) } else { Err(error.into()) }
            }
        }
    }

    /// A write of a take has failed.
    fn ended(&self, number: u64, error: &zk_curator::Error) {
        if is_changed(error) || !error.may_have_applied() {
            self.takes.refused(number);
        }
    }

    /// Moves the end of a held lease.
    pub(super) async fn renew(
        &self,
        held: &mut HeldLease,
        duration: Duration,
    ) -> Result<(), Error> {
        self.check(duration)?;
        self.check_current(held)?;
        let lock = self.lock(&held.path).await?;
        let read = self.now().await?;
        let end = rules::end(read.millis, duration);
        let deadline = Self::deadline(read, end);
        if deadline.left(&self.zk) < held.deadline.left(&self.zk) {
            // From here on others may see the earlier end, whatever becomes of the response.
            (held.end, held.deadline) = (end, deadline);
        }
        self.change(held, lock, Some(end), |held, transaction| {
            let record = self.record(end).encode();
            transaction.set_data_if(held.holder(), record, held.holder_version)
        })
        .await?;
        held.holder_version = held.holder_version.wrapping_add(1);
        (held.end, held.deadline) = (end, deadline);
        // A take may have succeeded while the response was under way.
        self.check_current(held)
    }

    /// Fails if a later take of this id has succeeded.
    fn check_current(&self, held: &HeldLease) -> Result<(), Error> {
        if self.takes.is_current(held) {
            return Ok(());
        }
        Err(Error::Lost { path: held.path.clone() })
    }

    /// The time left of a held lease.
    pub(super) fn left(&self, held: &HeldLease) -> Duration {
        self.takes.left(&self.zk, held)
    }

    /// Ends a held lease.
    pub(super) async fn release(&self, held: &mut HeldLease) -> Result<(), Error> {
        let lock = self.lock(&held.path).await?;
        self.change(held, lock, None, |held, transaction| {
            transaction.delete_if(held.holder(), held.holder_version)
        })
        .await
    }

    /// Reads the holders: the index of each lease that has one, and its record.
    pub(super) async fn holders(&self) -> Result<Vec<(usize, LeaseRecord)>, Error> {
        ZPath::for_operation("holder", self.path.as_str())?;
        let seen = Self::usable(self.read(&self.slots).await?)?.into_iter().enumerate();
        let record = |(index, seen)| match seen {
            LeaseLook::Lease(slot) => Some((index, slot.holder?.0)),
            LeaseLook::Missing | LeaseLook::Unreadable(_) => None,
        };
        Ok(seen.filter_map(record).collect())
    }

    /// Ends the surplus leases of this id.
    async fn surrender(
        &self,
        surplus: impl Iterator<Item = usize>,
        seen: &[LeaseLook],
    ) -> Result<(), Error> {
        for index in surplus {
            let path = &self.slots[index];
            let lock = self.lock(path).await?;
            let again;
            let mut seen = &seen[index];
            if lock.is_some() {
                again = self.read_one(path).await?;
                seen = &again;
            }
            let LeaseLook::Lease(slot) = seen else { continue };
            let Some((record, stat)) = &slot.holder else { continue };
            if record.holder != self.id {
                continue;
            }
            let ended = self.begin(lock.as_ref());
            let ended = ended.set_data_if(path, slot.data.clone(), slot.version);
            let ended = match &slot.identity {
                Some(identity) => ended.check(identity, Version::Any),
                None => ended,
            };
            let ended = ended.delete_if(child(path, HOLDER), stat.version);
            // Others may take the lease from here on, also if the response is lost.
            let number = self.takes.surrender(&self.zk, path);
            if let Err(error) = ended.certain(&self.receipt).commit().await {
                self.ended(number, &error);
                return Err(error.into());
            }
            info!(id = self.id, path, "ended a second lease of this id");
        }
        Ok(())
    }

    /// Applies a change to a lease that is held, or fails with [`Error::Lost`]. `end` is the end
    /// that it writes; a release has none, and is the last change of a guard.
    async fn change(
        &self,
        held: &mut HeldLease,
        mut lock: Option<MutexGuard>,
        end: Option<i64>,
        change: impl Fn(&HeldLease, Transaction) -> Transaction,
    ) -> Result<(), Error> {
        loop {
            let transaction =
                self.begin(lock.as_ref()).set_data_if(&held.path, held.data.clone(), held.version);
            let transaction = transaction.check(&held.identity, Version::Any);
            let transaction = change(held, transaction).certain(&self.receipt);
            let unknown = held.unknown.len();
            let begun = self.takes.begun();
            // Until the outcome is known, also if this is dropped.
            held.unknown.extend(end);
            match transaction.commit().await {
                Ok(_) => {
                    held.unknown.clear();
                    held.version = held.version.wrapping_add(1);
                    self.takes.renewed(&held.path, begun);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::OwnershipLost => {
                    // The lock that kazoo shares was lost, and nothing was applied.
                    held.unknown.truncate(unknown);
                    drop(lock.take());
                    lock = self.lock(&held.path).await?;
                }
                Err(error) if is_changed(&error) => {
                    held.unknown.truncate(unknown);
                    if !self.adopt(held).await? {
                        return Err(Error::Lost { path: held.path.clone() });
                    }
                }
                Err(error) => {
                    if !error.may_have_applied() {
                        held.unknown.truncate(unknown);
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Learns of earlier renewals whose outcome is unknown. Returns `false` if the lease was
    /// changed by another client.
    async fn adopt(&self, held: &mut HeldLease) -> Result<bool, Error> {
        if held.unknown.is_empty() {
            return Ok(false);
        }
        let LeaseLook::Lease(slot) = self.read_one(&held.path).await? else { return Ok(false) };
        let ReadLease { version, identity, holder: Some((record, stat)), .. } = slot else {
            return Ok(false);
        };
        let changes = version.wrapping_sub(held.version);
        // Ends are whole seconds, so that of a later take of the same id may be equal.
        let is_ours = record.holder == self.id
            && held.unknown.contains(&record.end)
            && !self.takes.may_have_written(held, record.end)
            && identity.as_deref() == Some(&held.identity)
            && usize::try_from(changes).is_ok_and(|n| (1..=held.unknown.len()).contains(&n));
        if is_ours {
            (held.version, held.holder_version) = (version, stat.version);
            held.unknown.clear();
        }
        Ok(is_ours)
    }

    /// Writes the holder of a lease in the state of the read. Returns the path of its identity,
    /// too.
    fn write(
        &self,
        path: &str,
        slot: &ReadLease,
        end: i64,
        lock: Option<&MutexGuard>,
    ) -> (String, Transaction) {
        let (holder, record) = (child(path, HOLDER), self.record(end).encode());
        let begun = self.begin(lock).set_data_if(path, slot.data.clone(), slot.version);
        let (identity, begun) = match &slot.identity {
            Some(identity) => (identity.clone(), begun.check(identity, Version::Any)),
            None => {
                let identity = child(path, &format!("{IDENTITY}{}", self.zk.new_guid()));
                (identity.clone(), begun.create(identity, Bytes::new()))
            }
        };
        let written = match &slot.holder {
            Some((_, stat)) => begun.set_data_if(holder, record, stat.version),
            // kazoo's nodes have the version 0, so a check of ours never passes on them.
            None => begun.create(&holder, record.clone()).set_data_if(holder, record, 0),
        };
        (identity, written)
    }

    fn begin(&self, lock: Option<&MutexGuard>) -> Transaction {
        match lock {
            Some(lock) => lock.fenced().uncompressed(),
            None => self.zk.transaction(),
        }
    }

    fn record(&self, end: i64) -> LeaseRecord {
        LeaseRecord { holder: self.id.clone(), end }
    }

    fn held(
        path: &str,
        slot: ReadLease,
        identity: String,
        end: i64,
        now: Now,
        number: u64,
        applied: &Applied,
    ) -> HeldLease {
        HeldLease {
            path: path.to_owned(),
            identity,
            data: slot.data,
            version: slot.version.wrapping_add(1),
            holder_version: slot.holder.map_or(1, |(_, stat)| stat.version.wrapping_add(1)),
            unknown: Vec::new(),
            number,
            token: FencingToken::new(applied.zxid()),
            end,
            deadline: Self::deadline(now, end),
        }
    }

    const fn deadline(now: Now, end: i64) -> LeaseDeadline {
        let lasts = rules::left(now.millis, end);
        LeaseDeadline { since: now.asked, suspended: now.suspended, lasts }
    }

    /// The lock that kazoo holds while it changes a lease.
    async fn lock(&self, path: &str) -> Result<Option<MutexGuard>, Error> {
        if !self.is_shared_with_kazoo {
            return Ok(None);
        }
        let lock = InterProcessMutex::within(&self.zk, path, "timed_lease_lock").with_kazoo();
        let lock = lock.label(self.id.clone());
        Ok(Some(lock.shared_in_session().acquire().await?))
    }

    async fn now(&self) -> Result<Now, Error> {
        let mut clock = self.clock.lock().await;
        let (asked, suspended) = (Instant::now(), suspended(&self.zk).unwrap_or_default());
        let millis = clock.now().await?;
        Ok(Now { asked, suspended, millis })
    }

    /// Reads leases: one request for every 85 of them, all in one round trip.
    async fn read(&self, paths: &[String]) -> Result<Vec<LeaseLook>, Error> {
        let mut reads = self.zk.multi_read().per_request(READS);
        for path in paths {
            reads = reads.get_data(path).get_data(child(path, HOLDER)).children(path);
        }
        let mut results = reads.await?.into_iter().map(|result| match result {
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            result => result.map(Some),
        });
        let mut next = || results.next().unwrap_or(Ok(None));
        let seen = paths.iter().map(|path| Self::seen(path, next(), next(), next()));
        Ok(seen.map(|seen| seen.unwrap_or_else(LeaseLook::Unreadable)).collect())
    }

    async fn read_one(&self, path: &String) -> Result<LeaseLook, Error> {
        Ok(self.read(std::slice::from_ref(path)).await?.pop().unwrap_or(LeaseLook::Missing))
    }

    fn seen(
        path: &str,
        parent: zk_curator::Result<Option<ReadResult>>,
        holder: zk_curator::Result<Option<ReadResult>>,
        children: zk_curator::Result<Option<ReadResult>>,
    ) -> Result<LeaseLook, Error> {
        let Some((data, stat)) = parent?.and_then(ReadResult::into_data) else {
            return Ok(LeaseLook::Missing);
        };
        let holder = match holder?.and_then(ReadResult::into_data) {
            None => None,
            Some((data, stat)) => {
                let node = || Error::NotALease { path: child(path, HOLDER) };
                Some((LeaseRecord::parse(&data).ok_or_else(node)?, stat))
            }
        };
        let children = children?.and_then(ReadResult::into_children).unwrap_or_default();
        let identity = children.into_iter().filter(|name| name.starts_with(IDENTITY)).min();
        let identity = identity.map(|name| child(path, &name));
        Ok(LeaseLook::Lease(ReadLease { data, version: stat.version, identity, holder }))
    }

    /// Returns the error of the first lease, if this client can read none of them.
    fn usable(seen: Vec<LeaseLook>) -> Result<Vec<LeaseLook>, Error> {
        let mut unreadable = None;
        for seen in &seen {
            let LeaseLook::Unreadable(error) = seen else { continue };
            warn!(%error, "a lease that cannot be read counts as held");
            unreadable.get_or_insert(error);
        }
        match unreadable {
            Some(error) if seen.iter().all(|seen| matches!(seen, LeaseLook::Unreadable(_))) => {
                Err(error.clone())
            }
            _ => Ok(seen),
        }
    }

    fn judge(&self, seen: &LeaseLook, now: Now) -> LeaseStanding {
        let record = match seen {
            LeaseLook::Missing => None,
            LeaseLook::Lease(slot) => slot.holder.as_ref().map(|(record, _)| record),
            LeaseLook::Unreadable(_) => return LeaseStanding::Held,
        };
        rules::judge(record, &self.id, now.millis, self.margin)
    }

    /// Creates the node of a lease, which stays, as that of kazoo does.
    async fn create(&self, path: &str) -> Result<(), Error> {
        match self.zk.create(path).creating_parents().data(Bytes::new()).idempotent().await {
            Err(error) if error.kind() != ErrorKind::NodeExists => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn check(&self, duration: Duration) -> Result<(), Error> {
        let invalid = |setting, expected| {
            Err(Error::InvalidSetting { path: self.path.clone(), setting, expected })
        };
        ZPath::for_operation("try_take", self.path.as_str())?;
        if duration.is_zero() {
            return invalid("duration", "longer than zero");
        }
        if self.slots.is_empty() {
            return invalid("number of holders", "at least one");
        }
        Ok(())
    }
}

impl fmt::Debug for LeaseSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, slots, id, margin, is_shared_with_kazoo, .. } = self;
        f.debug_struct("LeaseSite")
            .field("path", path)
            .field("slots", slots)
            .field("id", id)
            .field("margin", margin)
            .field("is_shared_with_kazoo", is_shared_with_kazoo)
            .finish_non_exhaustive()
    }
}

/// Returns `true` if a transaction was refused because the lease has changed since it was read, or
/// the lock that kazoo shares was lost.
fn is_changed(error: &zk_curator::Error) -> bool {
    error.code().is_some_and(is_conflict) || error.kind() == ErrorKind::OwnershipLost
}
