//! PutIds of puts: after a lost answer they say whether the put was applied.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;
use zk_curator::op::{Transaction, fan_out};
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, Error, ErrorKind, OwnedNode, Stat};

use super::layout::create_persistent;
use crate::path::child;

/// The end of the name of a producer among the ids, before its number.
pub(super) const PRODUCER: &str = "producer-";
/// The most ids that are deleted with one put.
const AT_ONCE: usize = 64;
/// How often it is looked for ids that nobody needs any more; and how old these have to be, so that a producer whose session
/// is over has time to find out what has become of its put.
const COLLECTED_AFTER: Duration = Duration::from_secs(600);

/// The ids of the puts of a producer, and the producer itself among them.
#[derive(Debug)]
pub(super) struct PutIds {
    /// Their parent.
    path: ZPath,
    present: tokio::sync::Mutex<Option<Arc<Presence>>>,
    count: AtomicU64,
    /// The names of those that are not needed any more.
    done: Mutex<Vec<String>>,
    /// When it was last looked for those of others that are dead.
    looked: Mutex<Option<Instant>>,
}

/// An ephemeral node of a producer among the ids, which each of its transactions makes sure of. So when that is gone, none of
/// them can be applied any more, and the ids with its number are of nobody who is alive.
#[derive(Debug)]
pub(super) struct Presence {
    pub(super) node: OwnedNode,
    since: Instant,
    /// The parent when the node was there already. Its version counts the ids that were collected.
    parent: Stat,
}

/// An id, which is not needed any more when this is dropped, whatever has become of its put.
#[derive(Debug)]
pub(super) struct Id<'a> {
    ids: &'a PutIds,
    name: String,
}

impl Id<'_> {
    pub(super) fn path(&self) -> String {
        child(&self.ids.path, &self.name)
    }
}

impl Drop for Id<'_> {
    fn drop(&mut self) {
        self.ids.done().push(std::mem::take(&mut self.name));
    }
}

impl PutIds {
    pub(super) fn new(path: ZPath) -> Self {
        Self {
            path,
            present: tokio::sync::Mutex::default(),
            count: AtomicU64::new(0),
            done: Mutex::default(),
            looked: Mutex::default(),
        }
    }

    fn done(&self) -> MutexGuard<'_, Vec<String>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_done(&self) -> bool {
        !self.done().is_empty()
    }

    /// Our node among the ids.
    pub(super) async fn presence(&self, zk: &CuratorFramework) -> Result<Arc<Presence>, Error> {
        let mut present = self.present.lock().await;
        loop {
            if let Some(present) = present.as_ref().filter(|present| present.node.is_ours()) {
                return Ok(Arc::clone(present));
            }
            *present = None;
            let create = zk.create(child(&self.path, PRODUCER)).mode(CreateMode::EphemeralSequential);
            let node = match create.protected().data("-").owned().await {
                Ok(node) => node,
                // It is to stay: of a container that was empty and is gone nobody could tell what was in it.
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    create_persistent(zk, self.path.as_str()).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Unless somebody has removed it with all that is in it.
            if let Some(parent) = zk.exists(self.path.as_str()).await? {
                *present = Some(Arc::new(Presence { node, since: Instant::now(), parent }));
            }
        }
    }

    /// Our node was deleted, or our session is over.
    pub(super) async fn leave(&self, left: &Arc<Presence>) {
        let mut present = self.present.lock().await;
        if present.as_ref().is_some_and(|present| Arc::ptr_eq(present, left)) {
            *present = None;
        }
    }

    /// An id for a put.
    pub(super) fn next(&self, presence: &Presence) -> Id<'_> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        Id { ids: self, name: id_of(count, presence.node.name()) }
    }

    /// Adds to a transaction what it will have to have in a put: with other names, as long as those will be.
    pub(super) fn as_long(&self, transaction: Transaction) -> Transaction {
        let producer = protected(PRODUCER);
        let id = id_of(self.count.load(Ordering::Relaxed), &producer);
        transaction.check(child(&self.path, &producer), None).create(child(&self.path, &id), "")
    }

    /// Whether the transaction with this id was applied, now that the producer is not there any more; `None` if nobody can
    /// tell, because ids were collected meanwhile.
    pub(super) async fn was_applied(
        &self,
        zk: &CuratorFramework,
        presence: &Presence,
        id: &Id<'_>,
    ) -> Result<Option<bool>, Error> {
        // It cannot be any more from here on. The server may have heard of the end of the session later than we, and what
        // we read after our own write is at least as new.
        zk.delete(presence.node.path()).quietly().await?;
        if zk.exists(id.path()).await?.is_some() {
            return Ok(Some(true));
        }
        let (then, now) = (&presence.parent, zk.exists(self.path.as_str()).await?);
        let same = now.is_some_and(|now| (now.czxid, now.version) == (then.czxid, then.version));
        Ok(same.then_some(false))
    }

    /// Deletes ids that are not needed any more.
    pub(super) async fn delete_done(&self, zk: &CuratorFramework) -> Result<(), Error> {
        let names: Vec<String> = {
            let mut done = self.done();
            let rest = done.len().saturating_sub(AT_ONCE);
            done.split_off(rest)
        };
        // What is dropped on the way is deleted all the same.
        let delete = |name: &String| zk.delete(child(&self.path, name)).guaranteed().quietly();
        let deletes: Vec<_> = names.iter().map(delete).collect();
        fan_out(AT_ONCE, deletes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(())
    }

    /// Collects the ids of producers that are dead, now and then.
    pub(super) async fn collect(&self, zk: &CuratorFramework, presence: &Presence) {
        {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.is_some_and(|looked| looked.elapsed() < COLLECTED_AFTER) {
                return;
            }
            *looked = Some(Instant::now());
        }
        match self.collect_all(zk, presence).await {
            Ok(0) => {}
            Ok(count) => debug!(path = %self.path, count, "collected the ids of dead producers"),
            // Next time.
            Err(error) if error.is_transient() || error.kind() == ErrorKind::Closed => {
                debug!(path = %self.path, %error, "did not collect ids");
            }
            Err(error) => zk.report_background_error(error),
        }
    }

    async fn collect_all(&self, zk: &CuratorFramework, presence: &Presence) -> Result<usize, Error> {
        let names = zk.children(self.path.as_str()).await?;
        let orphans: Vec<String> = orphans(&names).map(|name| child(&self.path, name)).collect();
        // By the clock of the servers. If it jumps, some producers may not be able to tell what has become of a put.
        let age = i64::try_from(COLLECTED_AFTER.saturating_sub(presence.since.elapsed()).as_millis());
        let before = presence.node.stat().ctime.saturating_sub(age.unwrap_or(i64::MAX));
        let mut count = 0;
        let looks: Vec<_> = orphans.iter().map(|path| zk.exists(path)).collect();
        for (stat, path) in fan_out(AT_ONCE, looks).await.into_iter().zip(&orphans) {
            let Ok(Some(stat)) = stat else { continue };
            if stat.ctime <= before {
                // A producer that looks for its id can see that ids were collected.
                zk.transaction().set_data(self.path.as_str(), "").delete(path).await?;
                count += 1;
            }
        }
        Ok(count)
    }
}

/// A name as long as that of a protected sequential node whose name begins like this.
pub(super) fn protected(name: &str) -> String {
    format!("_c_{:036}-{name}{:010}", 0, 0)
}

/// The name of an id of the producer with this name, which is the name of one node only.
fn id_of(count: u64, producer: &str) -> String {
    format!("put-{count}-{producer}")
}

/// The ids whose producers are not there: they are listed together.
fn orphans(names: &[String]) -> impl Iterator<Item = &str> {
    let present: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let is_orphan = move |name: &&str| {
        let producer = name.strip_prefix("put-").and_then(|name| name.split_once('-'));
        producer.is_some_and(|(_, producer)| !present.contains(producer))
    };
    names.iter().map(String::as_str).filter(is_orphan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_orphans_without_their_producer_and_nothing_else_is() {
        let (alive, dead) = ("_c_1-producer-0000000001", "_c_2-producer-0000000002");
        let names =
            [alive.to_owned(), id_of(7, alive), id_of(8, dead), "put-x".to_owned(), "foreign".to_owned()];
        assert_eq!(orphans(&names).collect::<Vec<_>>(), [id_of(8, dead)]);
    }
}
