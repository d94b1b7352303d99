/// Why a member of a partitioned set has ended.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A setting is not valid. Nothing was sent.
    #[error("{path}: the {setting} must be {expected}")]
    InvalidSetting {
        /// The path of the set.
        path: String,
        /// The name of the setting.
        setting: &'static str,
        /// The values that are valid.
        expected: &'static str,
    },
    /// A body has failed, and the member was set to
    /// [end](super::SetPartitioner::end_on_error) then.
    #[error("the body of the part {part} of {path} has failed: {why}")]
    Body {
        /// The path of the set.
        path: String,
        /// The name of the part.
        part: String,
        /// The error of the body.
        why: String,
    },
    /// The node of the shared list of parts contains something else.
    #[error("{path} is not a list of parts")]
    NotAList {
        /// Its path.
        path: String,
    },
    /// The lock of a part cannot be acquired.
    #[error(transparent)]
    Lock(crate::lock::Error),
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(Error, retryable: [], unknown: [Self::Body { .. }]);
