/// Why a lock could not be acquired or kept.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The lock was lost while it was held: its session is over, or another client has deleted its
    /// node.
    #[error("the lock was lost")]
    Lost,
    /// Other clients hold the lock, or wait for it.
    #[error("others hold the lock or wait for it")]
    Busy,
    /// The parent has assigned nearly all of its 2^31 sequence numbers. Delete it while no client
    /// uses the lock.
    #[error("the sequence numbers of the lock are used up")]
    SequenceExhausted,
    /// More permits are asked for than there can be.
    #[error("{asked} permits cannot be had of {limit}")]
    OverLimit {
        /// The number of permits.
        asked: u32,
        /// The limit of the semaphore.
        limit: u32,
    },
    /// The data of a shared count are not the four bytes of a number.
    #[error("the node {path} is not a shared count")]
    NotACount {
        /// Its path.
        path: String,
    },
    /// A semaphore that is shared with kazoo has another limit, which is stored in its node.
    /// Delete the node to change it.
    #[error("the semaphore {path} is for {stored} permits, and not for {limit}")]
    OtherLimit {
        /// Its path.
        path: String,
        /// The stored limit.
        stored: i64,
        /// The limit that was asked for.
        limit: u32,
    },
    /// The name of the nodes of a lock has a slash in it.
    #[error("not a valid name for the nodes of a lock: {name:?}")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// The node at the path neither holds this lock nor waits for it.
    #[error("{node} is not a node of the lock {lock}")]
    NotOfThisLock {
        /// The path that was given.
        node: String,
        /// The path of the lock.
        lock: String,
    },
    /// A lock is given twice: it would wait for itself.
    #[error("the lock {path} is given twice")]
    Duplicate {
        /// Its path.
        path: String,
    },
    /// No lock is given.
    #[error("no lock is given")]
    NoLocks,
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(Error, retryable: [Self::Lost, Self::Busy], unknown: [Self::Lost]);
