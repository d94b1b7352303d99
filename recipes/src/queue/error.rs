use zk_curator::value::Failure;

use super::codec::CorruptItem;
use super::item::Item;

/// The fate of an item that its consumer has failed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ErrorMode {
    /// It goes back to the queue, to its end; with its priority, its time and its id.
    #[default]
    Requeue,
    /// It goes back to its place, and is handed out again soon. For consumers with [dead
    /// letters](super::Consumer::dead_letters): otherwise an item with which all fail comes again and again.
    Return,
    /// It is deleted.
    Delete,
}

/// Why an item could not be put, or was not handed out.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The data of a node are no items. It stays where it is, and is not looked at again.
    #[error("the item {path} is corrupt: {why}")]
    Corrupt {
        /// Its path.
        path: String,
        /// The reason.
        why: CorruptItem,
    },
    /// An item is not of the type that was asked for.
    #[error("the item {item} is no value of this type")]
    Undecodable {
        /// Its path, or its id.
        item: String,
        /// Why.
        source: Failure,
    },
    /// A value has no data. Nothing was sent.
    #[error("the value for {path} cannot be encoded")]
    Unencodable {
        /// The path of the queue.
        path: String,
        /// Why.
        source: Failure,
    },
    /// A node in the queue is no item, by its name; or it is below an item, which cannot be removed as long as it is there.
    /// It stays where it is, and so does the item.
    #[error("{path} is no item of the queue")]
    Foreign {
        /// Its path.
        path: String,
    },
    /// The answer to the removal of an item was lost, and it is gone since: either we have removed it, or somebody else
    /// has taken it. Who hands it on risks that it is consumed twice; who does not, that it is lost.
    #[error("the item {} was removed by us, or taken by somebody else", item.path)]
    Unknown {
        /// The item.
        item: Box<Item>,
        /// The lost answer.
        #[source]
        why: zk_curator::Error,
    },
    /// The claim to the item, or the lease of the job, was lost while it was consumed: its session is over, or somebody has deleted it.
    #[error("the claim to the item was lost")]
    Lost,
    /// More items at once than the queue may have.
    #[error("{asked} items cannot be put into a queue of {limit}")]
    OverLimit {
        /// The number of items.
        asked: u32,
        /// The limit of the queue.
        limit: u32,
    },
    /// The queue has as many items as it may have, and puts [do not wait](super::WhenFull::Refuse).
    #[error("the queue is full: {limit} items")]
    Full {
        /// The limit of the queue.
        limit: u32,
    },
    /// A setting is zero that has to be one at least.
    #[error("{setting} cannot be 0")]
    Zero {
        /// The name of the setting.
        setting: &'static str,
    },
    /// An item is longer than the format can say: 2^31 - 1 bytes.
    #[error("the item is too long for the format")]
    TooLong,
    /// There is a job with this id, in whatever state.
    #[error("there is a job with the id {id}")]
    Exists {
        /// The id.
        id: String,
    },
    /// This cannot be the id of a job.
    #[error("{id:?} cannot be the id of a job")]
    InvalidId {
        /// The id.
        id: String,
    },
    /// The election of a [`QueueSharder`](super::QueueSharder) is at the path of its queues, or below.
    #[error("the election of a queue sharder cannot be at {path}, among its queues")]
    LeaderPath {
        /// The path of the election.
        path: String,
    },
    /// There is no item.
    #[error("the queue is empty")]
    Empty,
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(Error, retryable: [Self::Full { .. }, Self::Empty], unknown: [Self::Unknown { .. }]);
