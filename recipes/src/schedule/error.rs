/// Why a schedule cannot be followed.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A setting is not valid. Nothing was sent.
    #[error("{path}: the {setting} must be {expected}")]
    InvalidSetting {
        /// The path of the schedule.
        path: String,
        /// The name of the setting.
        setting: &'static str,
        /// The values that are valid.
        expected: &'static str,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(Error, retryable: [], unknown: []);
