use bytes::Bytes;
use zk_curator::value::Failure;

/// The reason why an operation of a counter has failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sum is outside the range of the encoding. Nothing was written for this caller.
    #[error("the counter {path} has {value}: adding {delta} overflows it")]
    Overflow {
        /// The path of the counter.
        path: String,
        /// The value.
        value: i64,
        /// The number to add.
        delta: i64,
    },
    /// Other processes have changed the counter before each attempt of this one. Nothing was
    /// written.
    #[error(
        "gave up on the counter {path}: other clients wrote it before each of {tries} attempts"
    )]
    Contended {
        /// The path of the counter.
        path: String,
        /// The number of attempts.
        tries: u32,
    },
    /// The operation was sent, and its outcome cannot be determined: the session ended first, or
    /// another client deleted the receipt. It was applied once, or not at all.
    #[error("unknown whether the counter {path} was changed: {why}")]
    Unknown {
        /// The path of the counter.
        path: String,
        /// The error of the request whose response was lost.
        why: zk_curator::Error,
    },
    /// The data of the node are not a number in the encoding of the counter, are outside the range
    /// of its type, or are not a value of its type. Nothing was written.
    /// [`set`](super::Counter::set) replaces them.
    #[error(
        "the {length} bytes of {path} are not a number of this counter, or not a value of this type"
    )]
    Undecodable {
        /// The path of the counter.
        path: String,
        /// The length of the data in bytes.
        length: usize,
        /// The first 16 bytes.
        first: Bytes,
    },
    /// The value cannot be encoded. Nothing was written.
    #[error("the value for {path} cannot be encoded: {why}")]
    Unencodable {
        /// The path of the node.
        path: String,
        /// The reason.
        why: Failure,
    },
    /// The node does not exist, and the counter is set to [fail](super::OnMissing::Fail) in this
    /// case.
    #[error("there is no counter {path}")]
    Missing {
        /// The path of the counter.
        path: String,
    },
    /// The lock of a [promoted](super::AtomicBuilder::then_lock) operation was not acquired
    /// in time. Nothing was written.
    #[error("the lock of the counter {path} was not acquired in time")]
    LockTimeout {
        /// The path of the counter.
        path: String,
    },
    /// The receipt cannot be created or written: see
    /// [`receipts_at`](super::AtomicBuilder::receipts_at) and
    /// [`without_receipts`](super::AtomicBuilder::without_receipts). Nothing was written.
    #[error("no receipt can be written below {parent}: {why}")]
    ReceiptDenied {
        /// The parent of the receipts.
        parent: String,
        /// The reason.
        why: zk_curator::Error,
    },
    /// An operation of the framework has failed. Nothing was written.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

impl Error {
    /// Returns `true` if the operation may have been applied.
    #[must_use]
    pub const fn may_have_applied(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Returns `true` if the same call may succeed later and applies nothing twice. `false` for
    /// [`Unknown`](Self::Unknown).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Contended { .. } | Self::LockTimeout { .. } => true,
            Self::Framework(error) => error.is_transient(),
            _ => false,
        }
    }
}

crate::failure::recoverable!(Error);

impl Error {
    pub(super) fn undecodable(path: &str, data: &[u8]) -> Self {
        let first = Bytes::copy_from_slice(data.get(..16).unwrap_or(data));
        Self::Undecodable { path: path.to_owned(), length: data.len(), first }
    }
}
