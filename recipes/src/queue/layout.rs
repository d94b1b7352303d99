use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorKind};

use super::CorruptItem;
use super::buckets::{Buckets, LAYOUT};
use super::name::Kind;
use super::redelivery;
use crate::path::child;

/// Tells the time, for items that are due at a time.
pub(super) type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Where the items of a queue are, and what they are like.
#[derive(Clone)]
pub(super) struct QueueLayout {
    /// Stores and returns data as they are.
    pub(super) zk: CuratorFramework,
    /// Whether items are compressed.
    is_compressed: bool,
    /// The parent of the items.
    pub(super) path: ZPath,
    pub(super) kind: Kind,
    /// Whether the parent is a container.
    pub(super) container: bool,
    /// The buckets of the items, in a queue that has some.
    pub(super) buckets: Option<Arc<Buckets>>,
    pub(super) clock: Clock,
}

impl QueueLayout {
    pub(super) fn new(zk: &CuratorFramework, path: ZPath, kind: Kind) -> Self {
        let container = kind == Kind::Simple;
        let (zk, is_compressed) = (zk.uncompressed(), zk.is_compressing());
        let buckets = kind.has_buckets().then(|| Arc::new(Buckets::default()));
        Self { zk, is_compressed, path, kind, container, buckets, clock: Arc::new(SystemTime::now) }
    }

    /// Sets the number of items in a bucket, also for layouts that were cloned before.
    pub(super) fn set_bucket_size(&self, items: u32) -> Result<(), super::Error> {
        let items = at_least_one("bucket_size", items)?;
        self.buckets.iter().for_each(|buckets| buckets.set_size(items));
        Ok(())
    }

    /// Puts items into buckets from now on, also for layouts that were cloned before.
    pub(super) fn upgrade_layout(&self) {
        self.buckets.iter().for_each(|buckets| buckets.upgrade());
    }

    /// Whether items are to be put into buckets where there are none yet.
    pub(super) fn upgrades_layout(&self) -> bool {
        self.buckets.as_ref().is_some_and(|buckets| buckets.upgrades())
    }

    /// An item as it is stored.
    pub(super) fn pack(&self, item: Bytes) -> Result<Bytes, Error> {
        let packed = if self.is_compressed { self.zk.compress(self.path.as_str(), item)? } else { item };
        Ok(if self.kind == Kind::Locking { redelivery::escape(packed) } else { packed })
    }

    /// An item as it was before it was stored.
    pub(super) fn unpack(&self, data: Bytes) -> Result<Bytes, CorruptItem> {
        if !self.is_compressed {
            return Ok(data);
        }
        self.zk.decompress(self.path.as_str(), data).map_err(|_| CorruptItem::Compression)
    }

    /// The path of an item, or of items to be, by the name.
    pub(super) fn item(&self, name: &str) -> String {
        child(&self.path, name)
    }

    /// The name of the item at a path.
    pub(super) fn name<'a>(&self, path: &'a str) -> &'a str {
        let name = path.strip_prefix(self.path.as_str().trim_end_matches('/')).unwrap_or(path);
        name.trim_start_matches('/')
    }

    /// Creates the parent of the items, unless it is there.
    pub(super) async fn create_parent(&self) -> Result<(), Error> {
        if self.container {
            return self.zk.create_containers(self.path.as_str()).await;
        }
        if self.buckets.is_some() {
            // An empty one may be of an earlier version, and its data say so.
            let create = self.zk.create(self.path.as_str()).creating_parents_as_containers().data(LAYOUT);
            return unless_there(create.idempotent().await);
        }
        create_persistent(&self.zk, &self.path).await
    }

    /// The path of a child of an item that is none of the queue's, as the claim with this name is; `None` if there is none.
    /// The item cannot be removed as long as there is one.
    pub(super) async fn foreign_child(
        &self,
        item: &str,
        claim: Option<&str>,
    ) -> Result<Option<String>, Error> {
        match self.zk.children(item).await {
            Ok(names) => {
                let foreign = names.iter().filter(|name| Some(name.as_str()) != claim).min();
                Ok(foreign.map(|name| format!("{item}/{name}")))
            }
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The time in milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        let since = (self.clock)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

impl fmt::Debug for QueueLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueLayout")
            .field("path", &self.path)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// A setting that must not be zero.
pub(super) fn at_least_one<T: Default + PartialEq>(
    setting: &'static str,
    value: T,
) -> Result<T, super::Error> {
    if value == T::default() { Err(super::Error::Zero { setting }) } else { Ok(value) }
}

/// Creates a persistent node, unless it is there.
pub(super) async fn create_persistent(zk: &CuratorFramework, path: &ZPath) -> Result<(), Error> {
    unless_there(zk.create(path.as_str()).creating_parents_as_containers().idempotent().await)
}

fn unless_there<T>(created: Result<T, Error>) -> Result<(), Error> {
    match created {
        Err(error) if error.kind() == ErrorKind::NodeExists => Ok(()),
        created => created.map(drop),
    }
}
