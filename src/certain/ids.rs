use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join3;
use tokio::time::Instant;
use tracing::debug;
use zk_curator_client::internal::Locked;
use zk_curator_client::internal::atomic::{AtomicU64, Ordering};
use zk_curator_client::{CreateMode, ErrorCode, OpResult, Stat};

use crate::core::Setbacks;
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::op::{Transaction, fan_out};
use crate::owned_node::OwnedNode;
use crate::path::{ZPath, join};

/// The end of the name of an owner among its ids, before its number.
const OWNER: &str = "producer-";
/// The most ids that are deleted along with one transaction.
const AT_ONCE: usize = 64;
/// The interval of the search for unneeded ids, and their minimum age. An owner whose session is
/// over has this time to determine the outcome of its transaction.
const COLLECTED_AFTER: Duration = Duration::from_secs(600);

/// Persistent ids below a parent. A transaction creates its id, which shows after a lost response
/// if the transaction was applied: also after the session, which a [receipt](super::Receipt) does
/// not outlive.
///
/// ```text
/// <path>                                   persistent, made on first use
///   ├─ _c_<uuid>-producer-0000000000       ephemeral, sequential: an owner of ids
///   └─ put-<count>-<producer>              persistent: a transaction under way
/// ```
///
/// Ids that are no longer needed are deleted along with the next transaction. Those of owners that
/// crash are collected by other owners.
#[derive(Debug)]
pub struct Ids {
    zk: CuratorFramework,
    path: ZPath,
    present: tokio::sync::Mutex<Option<Arc<Presence>>>,
    count: AtomicU64,
    /// The names of ids that are no longer needed.
    done: Locked<Vec<String>>,
    /// The time of the last search for ids of dead owners.
    looked: Locked<Option<Instant>>,
    /// Failures to collect them.
    uncollected: Locked<Setbacks>,
}

/// An ephemeral node of the owner among its ids, which fences each of its transactions. Once it is
/// gone, none of them can be applied any more, and the ids with its number belong to no living
/// owner.
#[derive(Debug)]
struct Presence {
    node: OwnedNode,
    since: Instant,
    /// The parent when the node was there already. Its version counts the ids that were collected.
    parent: Stat,
}

/// The id of one transaction. When it is dropped, the id is no longer needed, regardless of the
/// outcome of the transaction.
#[derive(Debug)]
pub struct Id<'a> {
    ids: &'a Ids,
    name: String,
    presence: Arc<Presence>,
}

impl Id<'_> {
    /// Applies a transaction once, or fails. `build` adds its operations to one that creates the
    /// id, which is operation 0. After an error without `may_have_applied`, nothing has changed,
    /// and the next transaction can have the same id. If the owner is gone before anything was
    /// applied, the transaction is sent again with another id.
    ///
    /// Returns the results of the operations after the id; none if the id has proven that the
    /// transaction was applied.
    ///
    /// # Errors
    /// The errors of a [`Transaction`]. With `may_have_applied`, the id could not be read, or ids
    /// were collected between the end of the session and the look at the id.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction may or may not be applied.
    pub async fn commit(
        &mut self,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Result<Vec<OpResult>> {
        let ids = self.ids;
        loop {
            let once = self.commit_once(&build);
            let (deleted, once, ()) =
                join3(ids.delete_done(), once, ids.collect(&self.presence)).await;
            if let Err(error) = deleted {
                // The deletion continues in the background; its failure does not concern the
                // transaction.
                debug!(path = %ids.path, %error, "an id that is not needed any more is not deleted yet");
            }
            if let Some(results) = once? {
                return Ok(results);
            }
            ids.leave(&self.presence).await;
            *self = ids.next().await?;
        }
    }

    /// Applies the transaction; `None` if nothing was applied, because the owner is gone.
    async fn commit_once(
        &self,
        build: impl Fn(Transaction) -> Transaction,
    ) -> Result<Option<Vec<OpResult>>> {
        let zk = &self.ids.zk;
        let mut unknown = None;
        loop {
            let fenced = self.presence.node.ownership().fenced().uncompressed();
            let error = match build(fenced.create(self.path(), "")).commit().await {
                Ok(results) => return Ok(Some(results.into_iter().skip(1).collect())),
                Err(error) => error,
            };
            match (error.kind(), unknown.take()) {
                _ if error.may_have_applied() => {
                    // With the same id it cannot be applied twice. The reads wait for a connection.
                    match zk.exists(self.path()).await {
                        Ok(None) => unknown = Some(error),
                        Ok(Some(_)) => return Ok(Some(Vec::new())),
                        Err(_) => return Err(error),
                    }
                }
                // An earlier attempt was applied.
                (
                    ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NodeExists },
                    Some(_),
                ) => {
                    return Ok(Some(Vec::new()));
                }
                (ErrorKind::OwnershipLost, None) => return Ok(None),
                (ErrorKind::OwnershipLost, Some(unknown)) => {
                    return match self.was_applied().await.ok().flatten() {
                        Some(applied) => Ok(applied.then(Vec::new)),
                        None => Err(unknown),
                    };
                }
                // No earlier attempt was applied, or this one would have failed with `NodeExists`.
                (ErrorKind::TransactionFailed { .. }, _) | (_, None) => return Err(error),
                // This one was not sent, an earlier one was.
                (_, Some(unknown)) => return Err(unknown),
            }
        }
    }

    /// Returns `true` if the transaction was applied, after the node of the owner is gone; `None`
    /// if this is unknown, because ids were collected in between.
    async fn was_applied(&self) -> Result<Option<bool>> {
        let (zk, presence) = (&self.ids.zk, &self.presence);
        // From here on it can no longer be applied. The server may learn of the end of the session
        // later than we do. A read after our own write is at least as new as that write.
        zk.delete(presence.node.path()).quietly().await?;
        if zk.exists(self.path()).await?.is_some() {
            return Ok(Some(true));
        }
        let (then, now) = (&presence.parent, zk.exists(self.ids.path.as_str()).await?);
        let same = now.is_some_and(|now| (now.czxid, now.version) == (then.czxid, then.version));
        Ok(same.then_some(false))
    }

    fn path(&self) -> String {
        self.ids.child(&self.name)
    }
}

impl Drop for Id<'_> {
    fn drop(&mut self) {
        self.ids.done.lock().push(std::mem::take(&mut self.name));
    }
}

impl Ids {
    /// Creates ids below a node, which is created on first use.
    pub fn below(zk: &CuratorFramework, path: ZPath) -> Self {
        Self {
            zk: zk.uncompressed(),
            path,
            present: tokio::sync::Mutex::default(),
            count: AtomicU64::new(0),
            done: Locked::default(),
            looked: Locked::default(),
            uncollected: Locked::default(),
        }
    }

    /// Returns the id of the next transaction. Creates the node of the owner, if there is none.
    ///
    /// # Errors
    /// As a protected create, and a read.
    ///
    /// # Cancel safety
    /// The node may be there, and is used by the next call.
    pub async fn next(&self) -> Result<Id<'_>> {
        let presence = self.presence().await?;
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        Ok(Id { ids: self, name: id_of(count, presence.node.name()), presence })
    }

    async fn presence(&self) -> Result<Arc<Presence>> {
        let (zk, path) = (&self.zk, self.path.as_str());
        let mut present = self.present.lock().await;
        loop {
            if let Some(present) = present.as_ref().filter(|present| present.node.is_ours()) {
                return Ok(Arc::clone(present));
            }
            *present = None;
            let create = zk.create(self.child(OWNER)).mode(CreateMode::EphemeralSequential);
            let node = match create.protected().data("-").owned().await {
                Ok(node) => node,
                // This node must stay. If it were a container that is deleted when it is empty, it
                // would not be known which ids it had contained.
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    let parent = zk.create(path).creating_parents_as_containers().idempotent();
                    match parent.await {
                        Err(error) if error.kind() != ErrorKind::NodeExists => return Err(error),
                        _ => continue,
                    }
                }
                Err(error) => return Err(error),
            };
            // Unless another client has deleted it with all its children.
            if let Some(parent) = zk.exists(path).await? {
                *present = Some(Arc::new(Presence { node, since: Instant::now(), parent }));
            }
        }
    }

    /// Forgets the owner's node, which was deleted, or whose session is over.
    async fn leave(&self, left: &Arc<Presence>) {
        let mut present = self.present.lock().await;
        if present.as_ref().is_some_and(|present| Arc::ptr_eq(present, left)) {
            *present = None;
        }
    }

    /// Adds the operations that come with an id, with other names of the same length, so that the
    /// size of the transaction can be checked in advance.
    pub fn as_long(&self, transaction: Transaction) -> Transaction {
        let owner = protected_name(OWNER);
        let id = id_of(self.count.load(Ordering::Relaxed), &owner);
        transaction.check(self.child(&owner), None).create(self.child(&id), "")
    }

    /// Deletes all ids that are no longer needed.
    ///
    /// # Errors
    /// As a delete, which goes on in the background.
    ///
    /// # Cancel safety
    /// The deletes go on in the background.
    pub async fn flush(&self) -> Result<()> {
        while !self.done.lock().is_empty() {
            self.delete_done().await?;
        }
        Ok(())
    }

    /// Deletes ids that are no longer needed.
    async fn delete_done(&self) -> Result<()> {
        let names: Vec<String> = {
            let mut done = self.done.lock();
            let rest = done.len().saturating_sub(AT_ONCE);
            done.split_off(rest)
        };
        // An id that is dropped on the way is deleted in any case.
        let delete = |name: &String| self.zk.delete(self.child(name)).guaranteed().quietly();
        let deletes: Vec<_> = names.iter().map(delete).collect();
        fan_out(AT_ONCE, deletes).await.into_iter().collect::<Result<Vec<()>>>()?;
        Ok(())
    }

    /// Collects the ids of dead owners, at intervals.
    async fn collect(&self, presence: &Presence) {
        {
            let mut looked = self.looked.lock();
            if looked.is_some_and(|looked| looked.elapsed() < COLLECTED_AFTER) {
                return;
            }
            *looked = Some(Instant::now());
        }
        let collected = self.collect_all(presence).await;
        self.uncollected.lock().cleaned(&self.zk, &collected);
        match collected {
            Ok(0) => {}
            Ok(count) => debug!(path = %self.path, count, "collected the ids of dead producers"),
            // Next time.
            Err(error) => debug!(path = %self.path, %error, "did not collect ids"),
        }
    }

    async fn collect_all(&self, presence: &Presence) -> Result<usize> {
        let (zk, path) = (&self.zk, self.path.as_str());
        let names = zk.children(path).await?;
        let orphans: Vec<String> = orphans(&names).map(|name| self.child(name)).collect();
        // The clock is the servers'. If it jumps, some owners may be unable to determine the
        // outcome of a transaction.
        let age =
            i64::try_from(COLLECTED_AFTER.saturating_sub(presence.since.elapsed()).as_millis());
        let before = presence.node.stat().ctime.saturating_sub(age.unwrap_or(i64::MAX));
        let mut count = 0;
        let looks: Vec<_> = orphans.iter().map(|path| zk.exists(path)).collect();
        for (stat, orphan) in fan_out(AT_ONCE, looks).await.into_iter().zip(&orphans) {
            let Ok(Some(stat)) = stat else { continue };
            if stat.ctime <= before {
                // An owner that reads its id can see that ids were collected.
                match zk.transaction().set_data(path, "").delete(orphan).await {
                    Ok(_) => count += 1,
                    // Another producer has collected it.
                    Err(error) if is_collected(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(count)
    }

    fn child(&self, name: &str) -> String {
        join(self.path.as_str(), name)
    }
}

/// Returns `true` if the node that was to be deleted last does not exist.
fn is_collected(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TransactionFailed { index: 1, code: ErrorCode::NoNode })
}

/// Returns a name as long as the name of a protected sequential node with this prefix.
#[must_use]
pub fn protected_name(name: &str) -> String {
    format!("_c_{:036}-{name}{:010}", 0, 0)
}

/// The name of an id of the owner with this name, which is the name of one node only.
fn id_of(count: u64, owner: &str) -> String {
    format!("put-{count}-{owner}")
}

/// The ids whose owners are not there: they are listed together.
fn orphans(names: &[String]) -> impl Iterator<Item = &str> {
    let present: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let is_orphan = move |name: &&str| {
        let owner = name.strip_prefix("put-").and_then(|name| name.split_once('-'));
        owner.is_some_and(|(_, owner)| !present.contains(owner))
    };
    names.iter().map(String::as_str).filter(is_orphan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_orphans_without_their_owner_and_nothing_else_is() {
        let (alive, dead) = ("_c_1-producer-0000000001", "_c_2-producer-0000000002");
        let names = [
            alive.to_owned(),
            id_of(7, alive),
            id_of(8, dead),
            "put-x".to_owned(),
            "foreign".to_owned(),
        ];
        assert_eq!(orphans(&names).collect::<Vec<_>>(), [id_of(8, dead)]);
    }
}
