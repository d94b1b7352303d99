//! The state that the task of a cache and its handles share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use zk_curator::{CuratorFramework, Error, Signal};

use super::freshness::{Freshness, StaleCause};
use super::subscriber::Subscriber;
use super::tree_state::{Change, TreeState};
use crate::health::HealthWatch;

/// Ends the task with the last handle.
#[derive(Debug, Clone)]
pub(super) struct Alive {
    _guard: Arc<DropGuard>,
}

impl Alive {
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self { _guard: Arc::new(stop.drop_guard()) }
    }
}

/// A request of a handle to the task.
#[derive(Debug)]
pub(super) enum Command {
    /// Look whether the contents are newer than is published.
    Check,
    /// Find out of which transaction the contents are.
    Prove,
    /// Catch up with everything that is committed.
    Sync(oneshot::Sender<Result<i64, Error>>),
}

pub(super) struct Shared {
    pub(super) zk: CuratorFramework,
    pub(super) root: String,
    pub(super) stop: CancellationToken,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) health: HealthWatch,
    inner: RwLock<Inner>,
    /// Counts the changes of `inner`.
    changes: Signal<u64>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) state: TreeState,
    pub(super) freshness: Freshness,
    pub(super) is_loaded: bool,
    /// Why the cache cannot load or catch up, unless it is the connection.
    pub(super) failed: Option<Error>,
    pub(super) ended: bool,
    /// The number of times that it became stale.
    pub(super) outages: u64,
    /// The last transaction of the server, if it is known that the contents are those of the server after it.
    pub(super) exact: Option<i64>,
    pub(super) subscribers: BTreeMap<u64, Subscriber>,
    pub(super) last_subscriber: u64,
}

impl Shared {
    pub(super) fn new(
        zk: CuratorFramework,
        state: TreeState,
        stop: CancellationToken,
        commands: mpsc::UnboundedSender<Command>,
        health: HealthWatch,
    ) -> Self {
        let root = state.tree().root().to_owned();
        let inner = Inner {
            state,
            freshness: Freshness::Loading,
            is_loaded: false,
            failed: None,
            ended: false,
            outages: 0,
            exact: None,
            subscribers: BTreeMap::new(),
            last_subscriber: 0,
        };
        Self { zk, root, stop, commands, health, inner: RwLock::new(inner), changes: Signal::new(0) }
    }

    pub(super) fn look<R>(&self, look: impl FnOnce(&Inner) -> R) -> R {
        look(&self.read())
    }

    /// Changes the state, and wakes those who wait for a change.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        let result = change(&mut self.write());
        self.changes.modify(|changes| *changes += 1);
        result
    }

    /// Changes what nobody waits for.
    pub(super) fn arrange<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        change(&mut self.write())
    }

    /// Waits until there is what `look` looks for. Cancel safe.
    pub(super) async fn find<R>(&self, mut look: impl FnMut(&Inner) -> Option<R>) -> R {
        self.after_changes(|| look(&self.read())).await
    }

    /// Waits until there is what `look` takes out of the state. Cancel safe.
    pub(super) async fn find_mut<R>(&self, mut look: impl FnMut(&mut Inner) -> Option<R>) -> R {
        self.after_changes(|| look(&mut self.write())).await
    }

    /// Looks now and after every change, until there is something.
    async fn after_changes<R>(&self, mut look: impl FnMut() -> Option<R>) -> R {
        loop {
            let seen = self.changes.look(|changes| *changes);
            if let Some(found) = look() {
                return found;
            }
            self.changes.until(|changes| *changes != seen).await;
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        // A panic under the lock is one of a closure of the user: one that only reads, or the filter, which ends the cache.
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.read();
        f.debug_struct("CuratorCache")
            .field("root", &self.root)
            .field("nodes", &inner.state.tree().len())
            .field("freshness", &inner.freshness)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Tells the subscribers of changes.
    pub(super) fn tell(&mut self, changes: Vec<Change>) {
        for subscriber in self.subscribers.values_mut() {
            subscriber.record(&changes);
        }
    }

    /// The freshness has changed.
    pub(super) fn set_freshness(&mut self, freshness: Freshness) {
        if matches!(freshness, Freshness::Stale { .. }) && !matches!(self.freshness, Freshness::Stale { .. })
        {
            self.outages += 1;
        }
        self.freshness = freshness;
        if freshness.is_fresh() && !self.is_loaded {
            self.is_loaded = true;
            for subscriber in self.subscribers.values_mut() {
                subscriber.loaded();
            }
        }
    }

    /// The cache could not be loaded or may have missed changes.
    pub(super) fn becomes_stale(&mut self, cause: StaleCause) {
        let (since, zxid) = match self.freshness {
            Freshness::Loading => return,
            Freshness::Fresh { zxid } => (Instant::now(), zxid),
            Freshness::Stale { since, zxid, .. } => (since, zxid),
        };
        self.set_freshness(Freshness::Stale { since, zxid, cause });
    }
}
