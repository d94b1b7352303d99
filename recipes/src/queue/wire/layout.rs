use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use zk_curator::internal::millis;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorKind};

use crate::path::child;
use crate::queue::error::Error;
use crate::queue::wire::codec::CorruptItem;
use crate::queue::wire::name::{LAYOUT, NamingRules};
use crate::queue::wire::rejection;

/// The default number of items in a bucket: with names of 70 bytes, a listing of 0.3 MB.
const BUCKET_SIZE: u32 = 4096;

/// The paths of a queue, and the format of its items.
#[derive(Clone)]
pub(in crate::queue) struct QueueLayout {
    /// Stores and returns data unchanged.
    pub(in crate::queue) zk: CuratorFramework,
    /// `true` if items are compressed.
    is_compressed: bool,
    /// The parent of the items.
    pub(in crate::queue) path: String,
    pub(in crate::queue) kind: NamingRules,
    /// The number of items that are put into a bucket.
    bucket_size: Arc<AtomicU32>,
    /// The clock, for items that are due at a time.
    pub(in crate::queue) clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// The first invalid setting. It makes every operation fail.
    invalid: Option<Error>,
}

impl QueueLayout {
    pub(in crate::queue) fn new(zk: &CuratorFramework, path: String, kind: NamingRules) -> Self {
        Self::below(zk, &path.clone(), path, kind)
    }

    /// Returns the layout of items at a path below the path of the queue.
    pub(in crate::queue) fn below(
        zk: &CuratorFramework,
        queue: &str,
        path: String,
        kind: NamingRules,
    ) -> Self {
        let mut layout = Self {
            zk: zk.uncompressed(),
            is_compressed: zk.is_compressing(),
            path,
            kind,
            bucket_size: Arc::new(AtomicU32::new(BUCKET_SIZE)),
            clock: Arc::new(SystemTime::now),
            invalid: None,
        };
        layout.valid_path("queue", queue);
        layout
    }

    /// Notes an invalid setting.
    pub(in crate::queue) fn note<T>(&mut self, setting: Result<T, Error>) {
        if let (Err(error), None) = (setting, &self.invalid) {
            self.invalid = Some(error);
        }
    }

    /// Notes a setting that must not be zero.
    pub(in crate::queue) fn note_at_least_one<T: Default + PartialEq>(
        &mut self,
        setting: &'static str,
        value: T,
    ) {
        let checked = at_least_one(&self.path, setting, value);
        self.note(checked);
    }

    /// Returns the path of other nodes that the queue uses, and notes if it is invalid, or if they
    /// would be among its items.
    pub(in crate::queue) fn other_path(
        &mut self,
        what: &'static str,
        path: impl Into<String>,
    ) -> ZPath {
        let path = self.valid_path(what, path);
        let is_within = path.as_str().strip_prefix(self.path.as_str());
        if is_within.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            let why = "this path is among the items of the queue";
            let refused = zk_curator::Error::invalid_argument(what, path.as_str(), why);
            self.note(Err::<(), _>(refused.into()));
        }
        path
    }

    /// Returns a path, and notes if it is invalid.
    pub(in crate::queue) fn valid_path(
        &mut self,
        what: &'static str,
        path: impl Into<String>,
    ) -> ZPath {
        ZPath::for_operation(what, path).unwrap_or_else(|error| {
            self.note(Err::<(), _>(error.into()));
            ZPath::root()
        })
    }

    /// Refuses an operation if a path or a setting is invalid.
    pub(in crate::queue) fn check(&self) -> Result<(), Error> {
        self.invalid.clone().map_or(Ok(()), Err)
    }

    /// Sets the number of items in a bucket, also for existing clones of this layout.
    pub(in crate::queue) fn set_bucket_size(&mut self, items: u32) {
        match at_least_one(&self.path, "bucket_size", items) {
            Ok(items) => self.bucket_size.store(items, Ordering::Relaxed),
            error => self.note(error),
        }
    }

    /// The path of the parent of the items' parent.
    pub(in crate::queue) fn parent(&self) -> &str {
        self.path
            .rsplit_once('/')
            .map_or("/", |(parent, _)| if parent.is_empty() { "/" } else { parent })
    }

    pub(in crate::queue) fn bucket_size(&self) -> u32 {
        self.bucket_size.load(Ordering::Relaxed)
    }

    /// Returns the stored form of an item.
    pub(in crate::queue) fn pack(&self, item: Bytes) -> zk_curator::Result<Bytes> {
        let packed =
            if self.is_compressed { self.zk.compress(self.path.as_str(), item)? } else { item };
        Ok(if self.kind == NamingRules::Locking { rejection::escape(packed) } else { packed })
    }

    /// Returns the item of a stored form.
    pub(in crate::queue) fn unpack(&self, data: Bytes) -> Result<Bytes, CorruptItem> {
        if !self.is_compressed {
            return Ok(data);
        }
        self.zk.decompress(self.path.as_str(), data).map_err(|_| CorruptItem::Compression)
    }

    /// Returns the path of an item with this name.
    pub(in crate::queue) fn item(&self, name: &str) -> String {
        child(&self.path, name)
    }

    /// Returns the name of the item at a path.
    pub(in crate::queue) fn name<'a>(&self, path: &'a str) -> &'a str {
        let name = path.strip_prefix(self.path.as_str().trim_end_matches('/')).unwrap_or(path);
        name.trim_start_matches('/')
    }

    /// Creates the parent of the items if it does not exist.
    pub(in crate::queue) async fn create_parent(&self) -> zk_curator::Result<()> {
        if self.kind.is_in_container() {
            return self.zk.create_containers(self.path.as_str()).await;
        }
        if self.kind.has_buckets() {
            let create =
                self.zk.create(self.path.as_str()).creating_parents_as_containers().data(LAYOUT);
            return unless_there(create.idempotent().await);
        }
        create_persistent(&self.zk, &self.path).await
    }

    /// Returns the path of a child of an item that does not belong to the queue, unlike the claim
    /// with this name; `None` if there is none. The item cannot be removed as long as such a child
    /// exists.
    pub(in crate::queue) async fn foreign_child(
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
    pub(in crate::queue) fn now(&self) -> i64 {
        let since = (self.clock)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        millis(since)
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

/// A setting of the queue at this path, which must not be zero.
pub(in crate::queue) fn at_least_one<T: Default + PartialEq>(
    path: &str,
    setting: &'static str,
    value: T,
) -> Result<T, Error> {
    if value == T::default() {
        return Err(Error::Zero { path: path.to_owned(), setting });
    }
    Ok(value)
}

/// Creates a persistent node if it does not exist.
pub(in crate::queue) async fn create_persistent(
    zk: &CuratorFramework,
    path: &str,
) -> zk_curator::Result<()> {
    unless_there(zk.create(path).creating_parents_as_containers().idempotent().await)
}

fn unless_there<T>(created: zk_curator::Result<T>) -> zk_curator::Result<()> {
    match created {
        Err(error) if error.kind() == ErrorKind::NodeExists => Ok(()),
        created => created.map(drop),
    }
}
