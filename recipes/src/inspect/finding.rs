use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use zk_curator::{FencingToken, SessionId, Stat};

use super::details::Details;

/// A recipe found at a node.
///
/// Every child of the node is in exactly one place: the first component of the name of a
/// [holder](Self::holders) or a [waiter](Self::waiting), one of the [parts](Self::parts), or
/// [ignored](Self::ignored). The same holds for the children of the parts that contain contenders.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The path of the recipe.
    pub path: String,
    /// The kind of the recipe.
    pub kind: RecipeKind,
    /// The library whose layout this is.
    pub library: Library,
    /// `true` if the names and data fit this recipe, but also other uses.
    pub is_guess: bool,
    /// `true` if a part of the recipe was not read, because it is too large.
    pub is_partial: bool,
    /// The metadata of the node, if they were read.
    pub stat: Option<Stat>,
    /// The contenders that hold the lock, lead, are members, or have claimed something, in their
    /// order.
    pub holders: Vec<Contender>,
    /// The contenders that wait, and the items of a queue that no consumer has claimed, in their
    /// order.
    pub waiting: Vec<Contender>,
    /// The nodes that belong to the layout but do not contend, such as `ready` and `leases`: their
    /// names relative to the path.
    pub parts: Vec<String>,
    /// The nodes that do not belong to the layout: their names relative to the path.
    pub ignored: Vec<String>,
    /// The facts that only recipes of this kind have.
    pub details: Details,
}

/// A node that takes part in a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The path of its node.
    pub path: String,
    /// Its name relative to the path of the recipe: the name of the node, or for example
    /// `leases/<name>`.
    pub name: String,
    /// The sequence number in its name.
    pub sequence: Option<i32>,
    /// The data of its node. Java's Curator writes the address of the client by default.
    pub label: Bytes,
    /// The session that it belongs to; `None` for a persistent node, and for a node that was not
    /// read.
    pub session: Option<SessionId>,
    /// `true` if its node is persistent, although clients create such nodes for their session: no
    /// session will ever remove it, and those that wait for it wait until it is deleted by hand. A
    /// restored backup may have created it.
    pub is_persistent: bool,
    /// The function of the node in the recipe.
    pub role: Role,
    /// The metadata of its node, if they were read.
    pub stat: Option<Stat>,
    /// The path of the node that it waits for next. Several nodes may be in front of it.
    pub waits_on: Option<String>,
    /// `true` if its data ask it to let go: `__REVOKE__`, or `unlock`.
    pub is_revoked: bool,
    /// The session that waits for its end, if its label ends with a
    /// [mark](super::within_mark): that of a `zkc lock` or `zkc elect` whose command it is.
    pub within: Option<SessionId>,
}

impl Contender {
    /// Returns the label as text; invalid UTF-8 is replaced.
    #[must_use]
    pub fn label_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.label)
    }

    /// Returns the time at which the node was created, in milliseconds since 1970, by the clock of
    /// the server that led.
    #[must_use]
    pub fn created_ms(&self) -> Option<i64> {
        self.stat.map(|stat| stat.ctime)
    }

    /// Returns the fencing token: the transaction that created the node.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.stat.map(|stat| FencingToken::new(stat.czxid))
    }
}

/// The function of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Holds a lock alone, or waits to.
    Exclusive,
    /// Reads under a lock, or waits to.
    Reader,
    /// Writes under a lock, or waits to.
    Writer,
    /// Holds a permit of a semaphore.
    Permit,
    /// Holds a lease with an end.
    Lease,
    /// Waits for its turn to acquire a permit of a semaphore.
    Acquirer,
    /// Leads, or waits to.
    Candidate,
    /// Is a member of a group or a barrier, or an instance of a service.
    Member,
    /// Is an item of a queue that is not claimed.
    Item,
    /// Is a claim of a consumer to an item, or of a worker to a job.
    Claim,
    /// Is a job: pending or delayed if it waits, executing if it holds.
    Job,
    /// Is a consumer or a worker that waits for an item.
    Consumer,
    /// Is a site of a two-phase commit: has voted if it holds.
    Site,
}

impl Role {
    /// Returns `true` if clients create such a node for their session.
    pub(super) const fn is_of_session(self) -> bool {
        !matches!(self, Self::Item | Self::Job | Self::Site)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Permit => "permit",
            Self::Lease => "lease",
            Self::Acquirer => "acquirer",
            Self::Candidate => "candidate",
            Self::Member => "member",
            Self::Item => "item",
            Self::Claim => "claim",
            Self::Job => "job",
            Self::Consumer => "consumer",
            Self::Site => "site",
        })
    }
}

/// The kind of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecipeKind {
    /// A mutex. Curator's `LeaderSelector` and kazoo's `Election` have the same nodes.
    Mutex,
    /// A read/write lock.
    ReadWriteLock,
    /// A semaphore.
    Semaphore,
    /// A lease with an end, kazoo's `NonBlockingLease`.
    TimedLease,
    /// A leader election: `LeaderLatch`, or our `Election`.
    LeaderLatch,
    /// A barrier.
    Barrier,
    /// A double barrier.
    DoubleBarrier,
    /// A queue without claims: `DistributedQueue`, or kazoo's `Queue`.
    Queue,
    /// A `SimpleDistributedQueue`, or the queue of ZooKeeper's recipes.
    SimpleQueue,
    /// A `DistributedPriorityQueue`.
    PriorityQueue,
    /// A `DistributedDelayQueue`.
    DelayQueue,
    /// A `DistributedIdQueue`.
    IdQueue,
    /// The lock path of one of Curator's queues.
    QueueLocks,
    /// The queues of a `QueueSharder`.
    ShardedQueue,
    /// Our `FifoQueue`.
    FifoQueue,
    /// A queue with claims: our `LockingQueue`, or kazoo's.
    LockingQueue,
    /// Our jobs.
    Jobs,
    /// A two-phase commit.
    TwoPhaseCommit,
    /// A configuration store.
    ConfigStore,
    /// Work that runs once per period.
    Schedule,
    /// A group of members: `GroupMember`, or kazoo's `Party`.
    Group,
    /// A service of Curator's service discovery.
    Service,
    /// Parts that are divided among members: our `SetPartitioner`, or kazoo's.
    Partitioner,
    /// A counter that records operations by their ids.
    Counter,
    /// The metadata of a set of migrations, Curator's `MigrationManager`.
    Migrations,
    /// No recipe that is known here.
    Unknown,
}

impl fmt::Display for RecipeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::ReadWriteLock => "read/write lock",
            Self::Semaphore => "semaphore",
            Self::TimedLease => "lease with an end",
            Self::LeaderLatch => "leader election",
            Self::Barrier => "barrier",
            Self::DoubleBarrier => "double barrier",
            Self::Queue => "queue",
            Self::SimpleQueue => "simple queue",
            Self::PriorityQueue => "priority queue",
            Self::DelayQueue => "delay queue",
            Self::IdQueue => "queue with ids",
            Self::QueueLocks => "locks of a queue",
            Self::ShardedQueue => "sharded queue",
            Self::FifoQueue => "FIFO queue",
            Self::LockingQueue => "queue with claims",
            Self::Jobs => "jobs",
            Self::TwoPhaseCommit => "two-phase commit",
            Self::ConfigStore => "configuration store",
            Self::Schedule => "schedule",
            Self::Group => "group",
            Self::Service => "service",
            Self::Partitioner => "partitioner",
            Self::Counter => "counter",
            Self::Migrations => "migration set",
            Self::Unknown => "unknown",
        })
    }
}

/// The origin of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Library {
    /// Apache Curator, and this crate, where they have the same layout.
    Curator,
    /// kazoo.
    Kazoo,
    /// This crate.
    ZkCurator,
    /// The recipes of ZooKeeper's documentation.
    ZooKeeper,
    /// Several of these, in one place.
    Mixed,
    /// None of these.
    Unknown,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Curator => "Curator",
            Self::Kazoo => "kazoo",
            Self::ZkCurator => "zk-curator",
            Self::ZooKeeper => "ZooKeeper's recipes",
            Self::Mixed => "several libraries",
            Self::Unknown => "unknown",
        })
    }
}
