//! The state that the task of a cache and its handles share.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use zk_curator::{CuratorFramework, Error};

use super::options::CacheOptions;
use super::wants::Wants;
use super::watched::Watched;
use crate::cache::state::{StaleCause, TreeState};
use crate::cache::told::Contents;
use crate::health::HealthWatch;
use crate::measure::Caching;

/// Ends the task with the last handle.
#[derive(Debug, Clone)]
pub(crate) struct Alive {
    _guard: Arc<DropGuard>,
}

impl Alive {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self { _guard: Arc::new(stop.drop_guard()) }
    }
}

pub(crate) struct CacheShared {
    pub(crate) zk: CuratorFramework,
    pub(crate) root: String,
    pub(crate) stop: CancellationToken,
    pub(crate) wants: Wants,
    /// The settings that a read by a handle needs.
    pub(crate) keeps_data: bool,
    pub(crate) decompressed: Option<bool>,
    pub(crate) health: HealthWatch,
    inner: Watched<CacheInner>,
}

/// The contents behind the lock, and their figures.
#[derive(Debug)]
struct CacheInner {
    contents: Contents,
    caching: Caching,
}

impl CacheShared {
    pub(crate) fn new(
        zk: CuratorFramework,
        state: TreeState,
        options: &CacheOptions,
        stop: CancellationToken,
        health: HealthWatch,
    ) -> Self {
        let root = state.tree().root().to_owned();
        let caching = Caching::begin(&zk, &root);
        Self {
            zk,
            root,
            stop,
            wants: Wants::default(),
            keeps_data: options.keeps_data,
            decompressed: options.decompressed,
            health,
            inner: Watched::new(CacheInner { contents: Contents::new(state), caching }),
        }
    }

    pub(crate) fn look<R>(&self, look: impl FnOnce(&Contents) -> R) -> R {
        self.inner.look(|inner| look(&inner.contents))
    }

    /// Changes the state, and wakes the callers that wait for a change.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Contents) -> R) -> R {
        self.inner.change(|inner| {
            let result = change(&mut inner.contents);
            inner.caching.is_fresh(inner.contents.freshness.is_fresh());
            result
        })
    }

    /// Marks the end of the task, and the reason for an end that is not its own.
    pub(crate) fn end(&self, why: Option<Error>) {
        self.inner.change(|CacheInner { contents, caching }| {
            contents.failed = contents.failed.take().or(why);
            contents.becomes_stale(StaleCause::Closed, Instant::now());
            contents.ended = true;
            caching.is_fresh(contents.freshness.is_fresh());
            caching.end();
        });
        self.wants.end();
    }

    /// Changes state for which no caller waits.
    pub(crate) fn arrange<R>(&self, change: impl FnOnce(&mut Contents) -> R) -> R {
        self.inner.arrange(|inner| change(&mut inner.contents))
    }

    /// Waits until `look` finds something in the state. Cancel safe.
    pub(crate) async fn find<R>(&self, mut look: impl FnMut(&Contents) -> Option<R>) -> R {
        self.inner.find(|inner| look(&inner.contents)).await
    }

    /// Waits until `look` takes a value out of the state. Cancel safe.
    pub(crate) async fn find_mut<R>(&self, mut look: impl FnMut(&mut Contents) -> Option<R>) -> R {
        self.inner.find_mut(|inner| look(&mut inner.contents)).await
    }
}

/// A caller that waits for an exact state.
pub(crate) struct Prover(Arc<CacheShared>);

impl Prover {
    pub(crate) fn new(shared: Arc<CacheShared>) -> Self {
        shared.wants.add_prover();
        Self(shared)
    }
}

impl Drop for Prover {
    fn drop(&mut self) {
        self.0.wants.remove_prover();
    }
}

impl fmt::Debug for CacheShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, freshness) =
            self.look(|contents| (contents.state.tree().len(), contents.freshness));
        f.debug_struct("CuratorCache")
            .field("root", &self.root)
            .field("nodes", &nodes)
            .field("freshness", &freshness)
            .finish_non_exhaustive()
    }
}
