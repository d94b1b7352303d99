use bytes::Bytes;
use zk_curator::value::Failure;

/// Why an operation of a counter has failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sum is outside the range of the encoding. Nothing was written for this caller.
    #[error("{value} and {delta} overflow the counter {path}")]
    Overflow {
        /// The path of the counter.
        path: String,
        /// The value.
        value: i64,
        /// The number that was to be added.
        delta: i64,
    },
    /// Other processes have written before us, time after time. Nothing was written.
    #[error("the counter {path} was written by others {tries} times in a row")]
    Contended {
        /// The path of the counter.
        path: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The operation was sent, and its outcome could not be learned: the session ended first, or the receipt was deleted by
    /// somebody else. It was applied once, or not at all.
    #[error("it is not known whether the counter {path} was changed")]
    Unknown {
        /// The path of the counter.
        path: String,
        /// The error of the lost reply.
        #[source]
        why: zk_curator::Error,
    },
    /// The data of the node are not a number in the encoding of the counter, or not a value of the type. Nothing was written.
    #[error("the {length} bytes of {path} are not a number of this counter, or not a value of this type")]
    Undecodable {
        /// The path of the counter.
        path: String,
        /// The length of the data in bytes.
        length: usize,
        /// The first 16 bytes.
        first: Bytes,
    },
    /// The value has no data. Nothing was written.
    #[error("the value for {path} cannot be encoded")]
    Unencodable {
        /// The path of the node.
        path: String,
        /// Why.
        why: Failure,
    },
    /// There is no node, and the counter is to [fail](super::Missing::Fail) then.
    #[error("there is no counter {path}")]
    Missing {
        /// The path of the counter.
        path: String,
    },
    /// The lock of a [promoted](super::AtomicBuilder::promoted_to_lock) operation was not acquired in time. Nothing was written.
    #[error("the lock of the counter {path} was not acquired in time")]
    LockTimeout {
        /// The path of the counter.
        path: String,
    },
    /// The receipt cannot be created or written: see [`receipts_at`](super::AtomicBuilder::receipts_at) and
    /// [`without_receipts`](super::AtomicBuilder::without_receipts). Nothing was written.
    #[error("no receipt can be written below {parent}")]
    ReceiptDenied {
        /// The parent of the receipts.
        parent: String,
        /// Why.
        #[source]
        why: zk_curator::Error,
    },
    /// An operation of the framework has failed. Nothing was written.
    #[error("the counter could not be read or written")]
    Framework(#[from] zk_curator::Error),
}

impl Error {
    /// Whether the operation may have been applied.
    #[must_use]
    pub const fn may_have_applied(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Whether the same call may succeed later, and applies nothing twice: not after [`Unknown`](Self::Unknown).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Contended { .. } | Self::LockTimeout { .. } => true,
            Self::Framework(error) => error.is_transient(),
            _ => false,
        }
    }
}

impl Error {
    pub(super) fn undecodable(path: &str, data: &[u8]) -> Self {
        let first = Bytes::copy_from_slice(data.get(..16).unwrap_or(data));
        Self::Undecodable { path: path.to_owned(), length: data.len(), first }
    }
}
