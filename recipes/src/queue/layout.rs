use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorKind};

use super::codec::CorruptItem;
use super::core::name::{Kind, LAYOUT};
use super::error::Error;
use super::redelivery;
use crate::path::child;

/// The number of items that are put into a bucket, unless a queue says otherwise: with names of 70 bytes, a listing of 0.3 MB.
const BUCKET_SIZE: u32 = 4096;

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
    pub(super) path: String,
    pub(super) kind: Kind,
    buckets: Arc<BucketSettings>,
    pub(super) clock: Clock,
    /// The first setting that is not valid. Every operation is refused because of it.
    invalid: Option<Error>,
}

/// How items are put into buckets, in a queue that has some.
struct BucketSettings {
    /// The number of items that are put into a bucket.
    size: AtomicU32,
    /// Whether the items of a queue without buckets are put into buckets from now on.
    upgrades: AtomicBool,
}

impl QueueLayout {
    pub(super) fn new(zk: &CuratorFramework, path: String, kind: Kind) -> Self {
        Self::below(zk, &path.clone(), path, kind)
    }

    /// The items at a path below that of the queue.
    pub(super) fn below(zk: &CuratorFramework, queue: &str, path: String, kind: Kind) -> Self {
        let settings = BucketSettings { size: AtomicU32::new(BUCKET_SIZE), upgrades: AtomicBool::new(false) };
        let mut layout = Self {
            zk: zk.uncompressed(),
            is_compressed: zk.is_compressing(),
            path,
            kind,
            buckets: Arc::new(settings),
            clock: Arc::new(SystemTime::now),
            invalid: None,
        };
        layout.valid_path("queue", queue);
        layout
    }

    /// Takes note of a setting that is not valid.
    pub(super) fn note<T>(&mut self, setting: Result<T, Error>) {
        if let (Err(error), None) = (setting, &self.invalid) {
            self.invalid = Some(error);
        }
    }

    /// Returns a path, and takes note if it is not valid.
    pub(super) fn valid_path(&mut self, what: &'static str, path: impl Into<String>) -> ZPath {
        ZPath::for_operation(what, path).unwrap_or_else(|error| {
            self.note(Err::<(), _>(error.into()));
            ZPath::root()
        })
    }

    /// Refuses an operation if a path or a setting is not valid.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.invalid.clone().map_or(Ok(()), Err)
    }

    /// Sets the number of items in a bucket, also for layouts that were cloned before.
    pub(super) fn set_bucket_size(&mut self, items: u32) {
        match at_least_one("bucket_size", items) {
            Ok(items) => self.buckets.size.store(items, Ordering::Relaxed),
            error => self.note(error),
        }
    }

    /// The path of the parent of the items' parent.
    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or("/", |(parent, _)| if parent.is_empty() { "/" } else { parent })
    }

    pub(super) fn bucket_size(&self) -> u32 {
        self.buckets.size.load(Ordering::Relaxed)
    }

    /// Puts items into buckets from now on, also for layouts that were cloned before.
    pub(super) fn upgrade_layout(&self) {
        self.buckets.upgrades.store(true, Ordering::Relaxed);
    }

    /// Whether items are to be put into buckets where there are none yet.
    pub(super) fn upgrades_layout(&self) -> bool {
        self.buckets.upgrades.load(Ordering::Relaxed)
    }

    /// An item as it is stored.
    pub(super) fn pack(&self, item: Bytes) -> zk_curator::Result<Bytes> {
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
    pub(super) async fn create_parent(&self) -> zk_curator::Result<()> {
        if self.kind.is_in_container() {
            return self.zk.create_containers(self.path.as_str()).await;
        }
        if self.kind.has_buckets() {
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
    ) -> zk_curator::Result<Option<String>> {
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
pub(super) fn at_least_one<T: Default + PartialEq>(setting: &'static str, value: T) -> Result<T, Error> {
    if value == T::default() { Err(Error::Zero { setting }) } else { Ok(value) }
}

/// Creates a persistent node, unless it is there.
pub(super) async fn create_persistent(zk: &CuratorFramework, path: &str) -> zk_curator::Result<()> {
    unless_there(zk.create(path).creating_parents_as_containers().idempotent().await)
}

fn unless_there<T>(created: zk_curator::Result<T>) -> zk_curator::Result<()> {
    match created {
        Err(error) if error.kind() == ErrorKind::NodeExists => Ok(()),
        created => created.map(drop),
    }
}
