use super::Revision;
use zk_curator::value::Failure;

/// Why something could not be read or changed.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A value is not the one that the update expected. Nothing was changed.
    #[error("{path} has {}, but the update expects {}", revision(found), revision(expected))]
    Conflict {
        /// The path of the value.
        path: String,
        /// The expected revision; `None` for no value.
        expected: Option<Revision>,
        /// The present revision.
        found: Option<Revision>,
    },
    /// The store is not as an update has expected it. Nothing was changed.
    #[error("{path} has revision {found}, but the update expects {expected}")]
    Changed {
        /// The path of the store.
        path: String,
        /// The expected revision.
        expected: Revision,
        /// The present revision.
        found: Revision,
    },
    /// A setting is zero that has to be one at least.
    #[error("{path}: {setting} cannot be 0")]
    Zero {
        /// The path of the store.
        path: String,
        /// The name of the setting.
        setting: &'static str,
    },
    /// An update without changes.
    #[error("the update of {path} has no changes")]
    NoChanges {
        /// The path of the store.
        path: String,
    },
    /// It cannot be the name of a node, or has an empty part.
    #[error("{key:?} is not a valid key in {path}")]
    InvalidKey {
        /// The path of the store.
        path: String,
        /// The key.
        key: String,
    },
    /// Other clients were faster, many times in a row. Nothing was changed.
    #[error("gave up on {path}: other clients were faster every time")]
    Busy {
        /// The path of the store.
        path: String,
    },
    /// The revision is not, or no longer, in the history.
    #[error("revision {revision} of {path} is no longer in the history")]
    NotKept {
        /// The path of the store.
        path: String,
        /// The revision.
        revision: Revision,
    },
    /// There is something else at the path of the store.
    #[error("{path} is not a configuration store")]
    NotAStore {
        /// The path.
        path: String,
    },
    /// A value was written by hand, not by an update.
    #[error("{path} was not written by an update")]
    Foreign {
        /// The path of the value.
        path: String,
    },
    /// A value is not of the type that was asked for.
    #[error("the data of {path} cannot be decoded as this type")]
    Undecodable {
        /// The path of the value.
        path: String,
        /// Why.
        source: Failure,
    },
    /// A value that was to be set cannot be written.
    #[error("{path} cannot be set to this value")]
    Unencodable {
        /// The path of the value.
        path: String,
        /// Why.
        source: Failure,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(Error, retryable: [Self::Busy { .. }], unknown: []);

fn revision(of: &Option<Revision>) -> String {
    of.map_or_else(|| "no value".to_owned(), |revision| format!("revision {revision}"))
}
