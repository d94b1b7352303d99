use zk_curator::value::Failure;

use super::wire::codec::CorruptItem;
use super::wire::item::Item;

/// What happens to an item after its consumer has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ErrorMode {
    /// It is put back at the end of the queue, with its priority, its time and its id, as a new
    /// item whose deliveries are counted from zero.
    #[default]
    Requeue,
    /// It returns to its place, and is delivered again soon. Use it only with
    /// [dead letters](super::Consumer::dead_letters): otherwise an item with which every consumer
    /// fails is redelivered forever.
    Return,
    /// It is deleted.
    Delete,
}

/// The reason why an item could not be put, or was not delivered.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The data of a node are not items. The node stays in place, and this consumer does not read
    /// it again.
    #[error("the item {path} is corrupt: {why}")]
    Corrupt {
        /// Its path.
        path: String,
        /// The reason.
        why: CorruptItem,
    },
    /// An item is not a value of the requested type.
    #[error("the item {item} cannot be decoded as this type")]
    Undecodable {
        /// Its path, or its id.
        item: String,
        /// The reason.
        source: Failure,
    },
    /// A value cannot be encoded. Nothing was sent.
    #[error("the value for {path} cannot be encoded")]
    Unencodable {
        /// The path of the queue.
        path: String,
        /// The reason.
        source: Failure,
    },
    /// The name of a node in the queue is not that of an item, or a node exists below an item,
    /// which cannot be removed as long as that node exists. Both stay in place.
    #[error("{path} is not an item of the queue")]
    Foreign {
        /// Its path.
        path: String,
    },
    /// The response to the removal of an item was lost, and the item no longer exists: either this
    /// client has removed it, or another client has taken it. If the caller processes it, it may be
    /// processed twice; if not, it may be lost.
    #[error("unknown whether this client or another one removed the item {}", item.path)]
    Unknown {
        /// The item.
        item: Box<Item>,
        /// The lost response.
        #[source]
        why: zk_curator::Error,
    },
    /// The claim to the item, or the lease of the job, was lost during its processing: its session
    /// is over, or another client has deleted it.
    #[error("the claim to {path} was lost: its session is over, or another client has deleted it")]
    Lost {
        /// The path of the item or the job.
        path: String,
    },
    /// Another client has taken a [`Peeked`](super::Peeked) item since it was read, or the session
    /// has ended in between, and it will be delivered again.
    #[error("the item {path} was taken by another client, or will be delivered again")]
    Taken {
        /// The path of the item.
        path: String,
    },
    /// One put has more items than the queue may contain.
    #[error("cannot put {asked} items: the queue {path} has room for {limit}")]
    OverLimit {
        /// The path of the items.
        path: String,
        /// The number of items.
        asked: u32,
        /// The limit of the queue.
        limit: u32,
    },
    /// The queue is full, and puts [do not wait](super::OnFull::Refuse).
    #[error("the queue {path} is full: {limit} items")]
    Full {
        /// The path of the items.
        path: String,
        /// The limit of the queue.
        limit: u32,
    },
    /// A setting is zero, but must be at least 1.
    #[error("{path}: {setting} cannot be 0")]
    Zero {
        /// The path of the items, the jobs or the queues.
        path: String,
        /// The name of the setting.
        setting: &'static str,
    },
    /// An item is longer than the format allows: 2^31 - 1 bytes.
    #[error("an item for the queue {path} is too long for the format")]
    TooLong {
        /// The path of the items.
        path: String,
    },
    /// A job with this id exists, in any state.
    #[error("there is a job with the id {id} at {path}")]
    Exists {
        /// The path of the jobs.
        path: String,
        /// The id.
        id: String,
    },
    /// This cannot be the id of a job.
    #[error(
        "{id:?} cannot be the id of a job at {path}: it is empty, too long, or has a '/', a '|' or a control character"
    )]
    InvalidId {
        /// The path of the jobs.
        path: String,
        /// The id.
        id: String,
    },
    /// The path of the election of a [`QueueSharder`](super::QueueSharder) is the path of its
    /// queues, or below it.
    #[error("the election of a queue sharder cannot be at {path}, among its queues")]
    LeaderPath {
        /// The path of the election.
        path: String,
    },
    /// There is no item.
    #[error("the queue {path} is empty")]
    Empty {
        /// The path of the items.
        path: String,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(
    Error,
    retryable: [Self::Full { .. }, Self::Empty { .. }],
    unknown: [Self::Unknown { .. }]
);
