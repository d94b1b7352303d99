use crate::lock;

/// Why a lease could not be taken or kept.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The lease is no longer that of the guard: another client has taken or deleted it.
    #[error("the lease {path} was lost")]
    Lost {
        /// The path of the lease.
        path: String,
    },
    /// The data of the node are not those of a lease, or of a later version of the format. It is
    /// left alone.
    #[error("the node {path} does not hold the data of a lease")]
    NotALease {
        /// The path of the node.
        path: String,
    },
    /// A setting is not valid. Nothing was sent.
    #[error("{path}: the {setting} must be {expected}")]
    InvalidSetting {
        /// The path of the lease.
        path: String,
        /// The name of the setting.
        setting: &'static str,
        /// The values that are valid.
        expected: &'static str,
    },
    /// The lock of a lease that is shared with kazoo could not be acquired.
    #[error(transparent)]
    Lock(lock::Error),
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(Error, retryable: [Self::Lost { .. }], unknown: []);

impl From<lock::Error> for Error {
    fn from(error: lock::Error) -> Self {
        match error {
            lock::Error::Framework(error) => Self::Framework(error),
            error => Self::Lock(error),
        }
    }
}
