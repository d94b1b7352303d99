use bytes::Bytes;
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::{CreateMode, CuratorFramework, OwnedNode};

use super::queue_lock::{QueueLock, queue_lock};
use super::{ConversionError, Error, Guard, tag};
use crate::measure;
use crate::order::{Blocker, OrderRule};
use crate::path::child;

/// The names in metrics.
const READ: &str = "read_lock";
const WRITE: &str = "write_lock";

/// From this sequence number on, a writer can no longer be downgraded: see
/// [`WriteGuard::downgrade`].
const LAST_DOWNGRADE: i32 = i32::MAX - (1 << 20);

/// A lock with many readers or one writer at a time, granted in the order of arrival: a reader
/// waits for the writers before it, a writer for all contenders before it.
///
/// # Layout
/// ```text
/// /locks/orders                                container, made on first use
///   ├─ _c_<uuid>-__READ__0000000007            ephemeral, sequential: a reader; data: its label
///   ├─ _c_<uuid>-__READ__0000000008            reads too
///   ├─ _c_<uuid>-__WRIT__0000000009            waits for the readers
///   └─ _c_<uuid>-__READ__0000000010            waits for …0009
/// ```
/// The layout of Apache Curator's `InterProcessReadWriteLock`. Children with other names are
/// ignored.
///
/// # Protocol
/// The protocol of [`InterProcessMutex`](super::InterProcessMutex), but a reader waits only for the
/// nearest writer before it (Curator's waits for the first, and wakes once for each). A writer that
/// waited for a writer lists the queue again, because that one may have
/// [become a reader](WriteGuard::downgrade) with its old number (CURATOR-621).
///
/// # Guarantees
/// Those of [`InterProcessMutex`](super::InterProcessMutex), between writers, and between writers
/// and readers. If a writer of Java's Curator before 5.5 is downgraded to a reader, the next writer
/// in any process gets the lock (CURATOR-621).
///
/// # Assumptions, connection loss, cancel safety
/// As of [`InterProcessMutex`](super::InterProcessMutex).
///
/// # Re-entrance
/// There is none: a task that reads and waits to write as well waits for itself, see
/// [`ReadGuard::try_upgrade`].
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::lock::InterProcessReadWriteLock;
///
/// let lock = InterProcessReadWriteLock::new(&zk, "/locks/catalogue");
/// let one = lock.read_lock().acquire().await?;
/// let other = lock.read_lock().acquire().await?;
/// assert!(lock.write_lock().try_acquire().await?.is_none());
///
/// other.release().await?;
/// let writer = one.try_upgrade().await?;
/// assert!(lock.read_lock().try_acquire().await?.is_none());
/// let reader = writer.downgrade().await?;
/// assert!(lock.read_lock().try_acquire().await?.is_some());
/// # drop(reader);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessReadWriteLock {
    zk: CuratorFramework,
    path: String,
    label: Bytes,
    tags: Tags,
}

/// The tags of the nodes of readers and writers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tags {
    read: &'static str,
    write: &'static str,
}

/// The reading side of an [`InterProcessReadWriteLock`].
#[derive(Clone)]
pub struct ReadLock {
    queue: QueueLock<Read>,
}

queue_lock!(ReadLock, ReadGuard);

/// The writing side of an [`InterProcessReadWriteLock`].
#[derive(Clone)]
pub struct WriteLock {
    queue: QueueLock<Write>,
}

queue_lock!(WriteLock, WriteGuard);

/// Holds a lock for reading.
pub type ReadGuard = Guard<Read>;

/// Holds a lock for writing.
pub type WriteGuard = Guard<Write>;

/// The kind of a [`ReadLock`].
#[derive(Debug, Clone)]
pub struct Read(InterProcessReadWriteLock);

/// The kind of a [`WriteLock`].
#[derive(Debug, Clone)]
pub struct Write(InterProcessReadWriteLock);

impl InterProcessReadWriteLock {
    /// The lock at a path. Nothing is sent; a path that is not valid is refused when the lock is
    /// used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        measure::lock(zk, READ);
        measure::lock(zk, WRITE);
        Self { zk: zk.uncompressed(), path: path.into(), label: Bytes::new(), tags: Tags::CURATOR }
    }

    /// The lock with the names of the revocable locks of ZooKeeper's recipes.
    pub(super) fn revocable(zk: &CuratorFramework, path: String) -> Self {
        Self { tags: Tags::of_revocable(), ..Self::new(zk, path) }
    }

    /// The data of our nodes, for people who look who holds and who waits. Default: none.
    #[must_use]
    pub fn label(mut self, label: impl Into<Bytes>) -> Self {
        self.label = label.into();
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The lock for reading, together with other readers.
    #[must_use]
    pub fn read_lock(&self) -> ReadLock {
        let waits_for = self.tags.before_reader();
        ReadLock { queue: self.side((self.tags.read, READ), waits_for, Read(self.clone())) }
    }

    /// The lock for writing, alone.
    #[must_use]
    pub fn write_lock(&self) -> WriteLock {
        let waits_for = self.tags.before_writer();
        WriteLock { queue: self.side((self.tags.write, WRITE), waits_for, Write(self.clone())) }
    }

    /// Returns `true` if this may be the path of a reader's or a writer's node.
    pub(super) fn is_node(&self, node: &str) -> bool {
        let tags = [self.tags.read, self.tags.write];
        node.rsplit_once('/').is_some_and(|(parent, name)| {
            parent == self.path.trim_end_matches('/')
                && tags.iter().any(|tag| SequenceSuffix::after(name, tag).is_some())
        })
    }

    fn side<K>(
        &self,
        (tag, recipe): (&'static str, &'static str),
        waits_for: Vec<Blocker>,
        kind: K,
    ) -> QueueLock<K> {
        QueueLock {
            zk: self.zk.clone(),
            path: self.path.clone(),
            label: self.label.clone(),
            rule: self.tags.rule(tag, waits_for),
            kind,
            recipe,
        }
    }
}

impl Tags {
    /// Curator's.
    pub(crate) const CURATOR: Self = Self { read: tag::READ, write: tag::WRITE };
    /// kazoo's.
    pub(crate) const KAZOO: Self = Self { read: tag::KAZOO_READ, write: tag::KAZOO };

    /// The tags of the revocable locks of ZooKeeper's recipes.
    pub(crate) fn of_revocable() -> Self {
        Self { read: tag::REVOCABLE_READ, write: tag::REVOCABLE_WRITE }
    }

    /// The rule of readers.
    pub(crate) fn reader(self) -> OrderRule {
        self.rule(self.read, self.before_reader())
    }

    /// The rule of writers.
    pub(crate) fn writer(self) -> OrderRule {
        self.rule(self.write, self.before_writer())
    }

    fn before_reader(self) -> Vec<Blocker> {
        // A downgraded writer no longer blocks it.
        vec![Blocker { tag: self.write.into(), can_be_replaced: false }]
    }

    fn before_writer(self) -> Vec<Blocker> {
        let blocker =
            |tag: &'static str, can_be_replaced| Blocker { tag: tag.into(), can_be_replaced };
        vec![blocker(self.write, true), blocker(self.read, false)]
    }

    fn rule(self, tag: &'static str, waits_for: Vec<Blocker>) -> OrderRule {
        OrderRule {
            tag: tag.into(),
            waits_for,
            // A release wakes only contenders that may continue.
            looks_ahead: false,
            watches_itself: true,
            parent_stays: false,
            warns_of_itself: true,
        }
    }
}

impl WriteGuard {
    /// Continues as a reader, without another writer in between: a read node with the number of the
    /// write node is created, then the write node is deleted in the background (Curator's layout,
    /// CURATOR-621).
    ///
    /// The new guard keeps the fencing token: a waiting writer has a higher one, but perhaps not a
    /// higher one than the new node. One flight.
    ///
    /// # Errors
    /// [`ConversionError`], with the guard, and
    /// * [`Error::Lost`] if the lock was no longer held,
    /// * [`Error::SequenceExhausted`] when the parent has given nearly 2^31 numbers: a reader that
    ///   overtakes the writers behind it by its number would not be safe there,
    /// * [`Error::Framework`] as a create.
    ///
    /// # Cancel safety
    /// Dropping the future releases the lock.
    pub async fn downgrade(self) -> Result<ReadGuard, ConversionError<Self>> {
        match self.read_node().await {
            // Dropping the guard deletes the write node.
            Ok(node) => Ok(Guard::new(&self.zk, node, Read(self.kind.0.clone()), READ)),
            Err(why) => Err(ConversionError { guard: self, why }),
        }
    }

    async fn read_node(&self) -> Result<OwnedNode, Error> {
        let lock = &self.kind.0;
        let number =
            SequenceSuffix::after(self.node.name(), lock.tags.write).map(SequenceSuffix::get);
        let Some(number) = number.filter(|number| (0..LAST_DOWNGRADE).contains(number)) else {
            return Err(Error::SequenceExhausted { path: lock.path.clone() });
        };
        let name = format!("{}{number:010}", lock.tags.read);
        let (mut node, siblings) = self
            .zk
            .create(child(&lock.parent("downgrade")?, &name))
            .mode(CreateMode::Ephemeral)
            .protected()
            .data(lock.label.clone())
            .owned_with_siblings()
            .await
            // Our own node keeps the parent in being.
            .map_err(|error| Error::lost_without_node(self.path(), error))?;
        self.still_held(&node, &siblings)?;
        node.keep_fencing_token(self.fencing_token());
        Ok(node)
    }
}

impl ReadGuard {
    /// Continues as the writer, if there is no other reader and no waiter. Never waits, because two
    /// readers that waited for each other to leave would wait forever. No other client writes in
    /// between.
    ///
    /// The new guard has a new, higher fencing token. One flight.
    ///
    /// # Errors
    /// [`ConversionError`], with the guard, and
    /// * [`Error::Busy`] if other clients hold the lock or wait for it,
    /// * [`Error::Lost`] if the lock was no longer held,
    /// * [`Error::Framework`] as a create.
    ///
    /// # Cancel safety
    /// Dropping the future releases the lock.
    pub async fn try_upgrade(self) -> Result<WriteGuard, ConversionError<Self>> {
        match self.write_node().await {
            // Dropping the guard deletes the read node.
            Ok(node) => Ok(Guard::new(&self.zk, node, Write(self.kind.0.clone()), WRITE)),
            Err(why) => Err(ConversionError { guard: self, why }),
        }
    }

    async fn write_node(&self) -> Result<OwnedNode, Error> {
        let lock = self.kind.0.write_lock().queue;
        let parent = self.kind.0.parent("try_upgrade")?;
        let me = lock.enter(&parent).await?;
        self.still_held(me.node(), me.siblings())?;
        let turn = me.turn_after(self.node.name()).await?;
        turn.ok_or_else(|| Error::Busy { path: self.kind.0.path.clone() })
    }
}

impl<K> Guard<K> {
    /// Returns `true` if our node existed when the siblings of the new node were listed, in the
    /// same session. Otherwise another client may have held the lock in between.
    fn still_held(&self, new: &OwnedNode, siblings: &[String]) -> Result<(), Error> {
        let same_session = self.ownership().session_epoch() == new.ownership().session_epoch();
        if same_session
            && !self.ownership().is_over()
            && siblings.iter().any(|name| name == self.node.name())
        {
            Ok(())
        } else {
            Err(Error::Lost { path: self.path().to_owned() })
        }
    }
}

impl InterProcessReadWriteLock {
    fn parent(&self, operation: &'static str) -> Result<ZPath, Error> {
        Ok(ZPath::for_operation(operation, self.path.as_str())?)
    }
}
