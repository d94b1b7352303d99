use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tracing::debug;
use zk_curator::certain::Receipt;
use zk_curator::internal::sleep;
use zk_curator::op::{CreateOp, SetDataOp};
use zk_curator::value::{FromData, ToData};
use zk_curator::{
    ConnectionState, CuratorFramework, Error as ZkError, ErrorCode, ErrorKind, Version,
};

use super::Error;
use crate::cache::{CacheEvent, CacheEvents, CachedNode, CuratorCache, Freshness, Lookup};
use crate::path::create_parents;

/// The pause before a write that has met a node neither there nor gone.
const PAUSE: Duration = Duration::from_millis(1);

/// An in-memory copy of a shared value: see the [module](super). Cheap to clone; the last handle
/// stops it.
#[doc(alias = "SharedValueReader")]
pub struct SharedValue<T> {
    zk: CuratorFramework,
    cache: CuratorCache,
    receipt: Receipt,
    value: PhantomData<fn(T) -> T>,
}

/// A value, and which one it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// The transaction that has written it: a newer value has a greater one.
    pub revision: i64,
    /// The version of the node.
    pub version: i32,
    /// The transaction that has created the node.
    czxid: i64,
}

/// A change of a shared value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ValueEvent<T> {
    /// The present value, or a new one.
    Value(Versioned<T>),
    /// The node does not exist.
    Absent,
    /// The data are not a value of the type.
    Undecodable(Error),
    /// The node may exist, and cannot be read: [`Error::Unreadable`]. Another event follows when
    /// more is known.
    Unreadable(Error),
    /// Changes may have been missed.
    Stale,
    /// All missed changes are reported.
    Fresh,
}

impl<T> Versioned<T> {
    pub(super) fn map<U>(self, function: impl FnOnce(T) -> U) -> Versioned<U> {
        let Self { value, revision, version, czxid } = self;
        Versioned { value: function(value), revision, version, czxid }
    }
}

impl<T: ToData + FromData> SharedValue<T> {
    /// Creates the node with a value if there is none, and follows it; missing parents are created
    /// as containers.
    ///
    /// # Errors
    /// As a create; [`Error::Unfollowed`] with an error of [`CuratorCache::loaded`];
    /// [`Error::Unencodable`] of the seed.
    ///
    /// # Cancel safety
    /// Once polled, the node may be created.
    pub async fn open(
        zk: &CuratorFramework,
        path: impl Into<String>,
        seed: &T,
    ) -> Result<Self, Error> {
        let (zk, path) = (zk.uncompressed(), path.into());
        let data = seed.to_data().map_err(|why| Error::Unencodable { path: path.clone(), why })?;
        match zk.create(&path).creating_parents_as_containers().data(data).idempotent().await {
            Err(error) if error.kind() != ErrorKind::NodeExists => return Err(error.into()),
            _ => {}
        }
        let cache = CuratorCache::node(&zk, path.as_str()).start();
        if let Err(why) = cache.loaded().await {
            return Err(Error::Unfollowed { path, why });
        }
        let receipt = Receipt::new(&zk, path);
        Ok(Self { zk, cache, receipt, value: PhantomData })
    }

    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.cache.path()
    }

    /// Returns how fresh the value in memory is.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        self.cache.freshness()
    }

    /// The cache that the value is in, to wait with it: [`synced`](CuratorCache::synced),
    /// [`reflects`](CuratorCache::reflects).
    pub const fn cache(&self) -> &CuratorCache {
        &self.cache
    }

    /// Returns the value, from memory; `None` if there is no node.
    ///
    /// # Errors
    /// [`Error::Undecodable`]; [`Error::Unreadable`].
    pub fn get(&self) -> Result<Option<Versioned<T>>, Error> {
        match self.cache.get(self.path()) {
            Lookup::Present(node) => decode(&node).map(Some),
            Lookup::Absent => Ok(None),
            Lookup::Unknown => Err(Error::Unreadable { path: self.path().to_owned() }),
        }
    }

    /// Replaces the value, whatever it is; the node is created if it was deleted. Afterwards this
    /// handle returns the new value, or a newer one, if it is [fresh](Self::freshness).
    ///
    /// # Errors
    /// * [`Error::Unencodable`].
    /// * [`Error::Framework`]: with [`may_have_applied`](zk_curator::Error::may_have_applied) only
    ///   if the session ended before the outcome could be determined, or another client has deleted
    ///   the receipt.
    ///
    /// # Cancel safety
    /// Once polled, the value may be replaced.
    pub async fn set(&self, value: &T) -> Result<(), Error> {
        let data = self.encode(value)?;
        loop {
            let write = SetDataOp::new(self.path(), data.clone());
            match self.zk.transaction().uncompressed().with(write).certain(&self.receipt).await {
                Ok(applied) => {
                    self.written(applied.zxid()).await;
                    return Ok(());
                }
                Err(error) if !is_refused(&error, ErrorCode::NoNode) => return Err(error.into()),
                Err(_) => {}
            }
            let create = CreateOp::new(self.path()).data(data.clone());
            match self.zk.transaction().uncompressed().with(create).certain(&self.receipt).await {
                Ok(applied) => {
                    self.written(applied.zxid()).await;
                    return Ok(());
                }
                Err(error) if is_refused(&error, ErrorCode::NodeExists) => {}
                Err(error) if is_refused(&error, ErrorCode::NoNode) => {
                    create_parents(&self.zk, self.path()).await?;
                }
                Err(error) => return Err(error.into()),
            }
            // Other clients delete and create it.
            sleep(PAUSE).await;
        }
    }

    /// Waits until the value in memory is the written one, or a newer one, unless the
    /// session ends. The write is applied, whatever becomes of that.
    async fn written(&self, zxid: i64) {
        let mut states = self.zk.states();
        let followed = tokio::select! {
            biased;
            reflected = self.cache.reflects(zxid) => reflected.is_ok(),
            _ = states.until(|status| status.state == ConnectionState::Lost) => false,
        };
        if !followed {
            debug!(path = self.path(), zxid, "the value was replaced, and is not followed");
        }
    }

    /// Replaces the value if it is the expected one. Returns `false` if it is not. Of two clients
    /// that have seen the same value, only one gets `true`, even if responses are lost.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    /// Once polled, the value may be replaced.
    #[doc(alias = "trySetValue")]
    pub async fn try_set(&self, seen: &Versioned<T>, value: &T) -> Result<bool, Error> {
        let data = self.encode(value)?;
        // A newer value is known already; or another node, whose versions begin again.
        let is_old = match self.cache.get(self.path()) {
            Lookup::Present(node) => {
                node.stat.mzxid > seen.revision || node.stat.czxid > seen.czxid
            }
            Lookup::Absent | Lookup::Unknown => false,
        };
        if is_old {
            return Ok(false);
        }
        let write = SetDataOp::new(self.path(), data).version(Version::Exactly(seen.version));
        match self.zk.transaction().uncompressed().with(write).certain(&self.receipt).await {
            Ok(applied) => {
                self.written(applied.zxid()).await;
                Ok(true)
            }
            Err(error)
                if is_refused(&error, ErrorCode::BadVersion)
                    || is_refused(&error, ErrorCode::NoNode) =>
            {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Follows the value: the present one first, then each newer one that differs.
    pub fn follow(&self) -> ValueWatch<T> {
        ValueWatch { events: self.cache.events(), value: PhantomData }
    }

    fn encode(&self, value: &T) -> Result<bytes::Bytes, Error> {
        value.to_data().map_err(|why| Error::Unencodable { path: self.path().to_owned(), why })
    }
}

/// Returns `true` if the operation itself was refused, and not its receipt; a receipt below a node
/// that is gone is refused with it.
fn is_refused(error: &ZkError, code: ErrorCode) -> bool {
    !error.may_have_applied()
        && (matches!(error.kind(), ErrorKind::TransactionFailed { index: 0, code: refused } if refused == code)
            || (code == ErrorCode::NoNode && error.kind() == ErrorKind::NoNode))
}

fn decode<T: FromData>(node: &Arc<CachedNode>) -> Result<Versioned<T>, Error> {
    let value = T::from_data(&node.data).map_err(|why| Error::Undecodable {
        path: node.path.to_string(),
        length: node.data.len(),
        why,
    })?;
    Ok(Versioned {
        value,
        revision: node.stat.mzxid,
        version: node.stat.version,
        czxid: node.stat.czxid,
    })
}

impl<T> Clone for SharedValue<T> {
    fn clone(&self) -> Self {
        Self {
            zk: self.zk.clone(),
            cache: self.cache.clone(),
            receipt: self.receipt.clone(),
            value: PhantomData,
        }
    }
}

impl<T> fmt::Debug for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValue").field("cache", &self.cache).finish_non_exhaustive()
    }
}

/// Follows a [`SharedValue`]. It reports states, not steps: see [`CacheEvents`].
///
/// # Cancel safety
/// Nothing is lost.
#[derive(Debug)]
pub struct ValueWatch<T> {
    events: CacheEvents,
    value: PhantomData<fn() -> T>,
}

impl<T: FromData> ValueWatch<T> {
    /// Waits for the next event; `None` when the value is no longer followed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<ValueEvent<T>> {
        let of = |node: &Arc<CachedNode>| {
            decode(node).map_or_else(ValueEvent::Undecodable, ValueEvent::Value)
        };
        Some(match self.events.next().await? {
            CacheEvent::Loaded(snapshot) => match snapshot.nodes.first() {
                Some(node) => of(node),
                None if snapshot.unreadable.is_empty() => ValueEvent::Absent,
                None => self.unreadable(),
            },
            CacheEvent::Created(node) => of(&node),
            CacheEvent::Changed { new, .. } | CacheEvent::Replaced { new, .. } => of(&new),
            CacheEvent::Deleted(_) => ValueEvent::Absent,
            CacheEvent::Unreadable { .. } => self.unreadable(),
            CacheEvent::Stale { .. } => ValueEvent::Stale,
            CacheEvent::Fresh { .. } => ValueEvent::Fresh,
        })
    }

    fn unreadable(&self) -> ValueEvent<T> {
        ValueEvent::Unreadable(Error::Unreadable { path: self.events.root().to_owned() })
    }
}
