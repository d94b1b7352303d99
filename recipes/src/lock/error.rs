use zk_curator::ErrorKind;

/// Why a lock could not be acquired or kept.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The lock was lost while it was held: its session is over, or another client has deleted its
    /// node.
    #[error("the lock was lost: the node {path} is gone, or its session is over")]
    Lost {
        /// The path of the node with which this client held the lock.
        path: String,
    },
    /// Other clients hold the lock, or wait for it.
    #[error("other clients hold the lock {path}, or wait for it")]
    Busy {
        /// The path of the lock.
        path: String,
    },
    /// The parent has assigned nearly all of its 2^31 sequence numbers. Delete it while no client
    /// uses the lock.
    #[error("the sequence numbers of the lock {path} are used up")]
    SequenceExhausted {
        /// The path of the lock.
        path: String,
    },
    /// More permits are asked for than there can be.
    #[error("cannot acquire {asked} permits: the semaphore {path} has {limit}")]
    OverLimit {
        /// The path of the semaphore.
        path: String,
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
    #[error("{name:?} is not a valid name for the nodes of the lock {path}")]
    InvalidName {
        /// The path of the lock.
        path: String,
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
    /// No lock is given, so there is no path.
    #[error("no lock is given")]
    NoLocks,
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

impl Error {
    /// Returns the loss of the lock that this client holds with a node, if the error says that the
    /// node is gone; otherwise the error.
    pub(super) fn lost_without_node(node: &str, error: zk_curator::Error) -> Self {
        match error.kind() {
            ErrorKind::NoNode => Self::Lost { path: node.to_owned() },
            _ => error.into(),
        }
    }
}

crate::failure::classify!(
    Error,
    retryable: [Self::Lost { .. }, Self::Busy { .. }],
    unknown: [Self::Lost { .. }]
);
