use std::error::Error as StdError;
use std::sync::Arc;

use zk_curator::ErrorKind;
use zk_curator::value::Failure;

/// The reason why a transaction was not applied, or may not have been.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Other clients changed the nodes before each attempt was committed. Nothing was written.
    #[error("{attempts} attempts were in conflict with other clients, most often at {path}")]
    Conflict {
        /// The path with the most conflicts.
        path: String,
        /// The number of attempts.
        attempts: u32,
        /// The last write of that node, as a read after the last attempt has shown it. `None` if
        /// the node does not exist, or could not be read.
        mzxid: Option<i64>,
    },
    /// The transaction was sent, and its outcome cannot be determined: the session ended first, the
    /// deadline of the handle passed, the framework was closed, another client deleted the receipt,
    /// or there are [no receipts](super::Stm::receipts_at). It was applied once, or not at all.
    #[error("unknown whether the transaction was applied: {why}")]
    Unknown {
        /// The error of the request whose response was lost.
        why: zk_curator::Error,
    },
    /// The attempt is over: a node has changed, or the body has ended. The body should return this
    /// error; the transaction then runs it again. Never returned by the transaction itself.
    #[error("the attempt is over and will be repeated")]
    Interrupted,
    /// The body has given up, with this reason: see [`Error::abort`]. Nothing was written.
    #[error("the body has aborted the transaction: {0}")]
    Aborted(Arc<dyn StdError + Send + Sync>),
    /// The node that the body creates exists already. Nothing was written.
    #[error("{path} already exists")]
    Exists {
        /// The path of the node.
        path: String,
    },
    /// No transaction of ZooKeeper can protect this read: the absence of a node, or the children of
    /// a node, outside a [space](super::Stm::space). Nothing was written.
    #[error("{path} is outside every space, so no transaction can protect this read")]
    Unprotected {
        /// The path of the node.
        path: String,
    },
    /// The path is in none of the spaces of the transaction. Nothing was written.
    #[error("{path} is outside every space of the transaction")]
    OutsideSpaces {
        /// The path of the node.
        path: String,
    },
    /// The value cannot be encoded. Nothing was written.
    #[error("the value for {path} cannot be encoded: {why}")]
    Unencodable {
        /// The path of the node.
        path: String,
        /// The reason.
        why: Failure,
    },
    /// The lock of [`then_lock`](super::Transaction::then_lock) was not acquired in time. Nothing
    /// was written.
    #[error("the lock {path} was not acquired in time")]
    LockTimeout {
        /// The path of the lock.
        path: String,
    },
    /// An operation of the framework has failed. Nothing was written.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

impl Error {
    /// Returns the error with which a body gives the transaction up, with its reason.
    pub fn abort(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Aborted(reason.into().into())
    }

    /// Returns `true` if the reason may be a node that the attempt has read.
    pub(super) fn depends_on_reads(&self) -> bool {
        match self {
            Self::Aborted(_) | Self::Exists { .. } | Self::Unprotected { .. } => true,
            Self::Framework(error) => error.kind() == ErrorKind::Undecodable,
            _ => false,
        }
    }

    /// Returns `true` if a response exceeds the limit of the client.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self, Self::Framework(error) if error.kind() == ErrorKind::ResponseTooLarge)
    }

    /// Returns `true` if the transaction may have been applied.
    #[must_use]
    pub const fn may_have_applied(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Returns `true` if the same call may succeed later and applies nothing twice. `false` for
    /// [`Unknown`](Self::Unknown).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict { .. } | Self::LockTimeout { .. } => true,
            Self::Framework(error) => error.is_transient(),
            _ => false,
        }
    }
}

crate::failure::recoverable!(Error);
