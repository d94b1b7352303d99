use std::time::Duration;

use zk_curator::ErrorCode;
use zk_curator::value::Failure;

use super::Difference;

/// The reason why a set was not built or not applied.
///
/// A set is built before it is given paths, so the errors of
/// [`build`](super::MigrationSetBuilder::build) name the id of the set or the migration instead.
///
/// After an error other than [`Incomplete`](Self::Incomplete), and without
/// [`may_have_applied`](Self::may_have_applied), the call has applied nothing.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The id of the set cannot be the name of a node, or ends with `-info`.
    #[error("{id:?} is not a valid id for a set of migrations")]
    InvalidId {
        /// The id.
        id: String,
    },
    /// Two migrations of a set have the same name.
    #[error("two migrations of the set have the name {name:?}")]
    Duplicate {
        /// Their name.
        name: String,
    },
    /// The data of a create are not set. They would be the default data of the framework, which may
    /// differ from process to process.
    #[error("the migration {migration:?} creates {path} without data")]
    DefaultData {
        /// The name of the migration.
        migration: String,
        /// The path of the create.
        path: String,
    },
    /// Java could not apply or verify a migration of a
    /// [compatible](super::MigrationSetBuilder::compatible) set.
    #[error("the migration {migration:?} is not compatible with Java: {why}")]
    NotCompatible {
        /// The name of the migration.
        migration: String,
        /// The reason.
        why: &'static str,
    },
    /// A migration that was applied is not the one of the set: it was changed after its release, or
    /// the order was.
    #[error(
        "{path}: the migration {name:?} (number {index} from zero) differs from the applied one: \
         its checksum is {expected}, and that of the applied one {found}"
    )]
    Mismatch {
        /// The path of the metadata of the set.
        path: String,
        /// Its place in the set, from zero.
        index: usize,
        /// Its name in the set.
        name: String,
        /// The checksum that was found.
        found: String,
        /// The checksum of the migration of the set.
        expected: String,
    },
    /// A newer version of the service has applied further migrations. The caller decides if it can
    /// work with that, for example read-only.
    #[error("{path}: {found} migrations were applied, of which this version knows {known}")]
    Ahead {
        /// The path of the metadata of the set.
        path: String,
        /// The number of migrations that were applied.
        found: usize,
        /// The number of migrations of the set.
        known: usize,
    },
    /// The migrations do not fit into a request. Apply them [one by
    /// one](super::MigrationManager::per_migration), or split this one. No lock was taken, unless
    /// the migration is computed.
    #[error("{path}: the migration {migration:?} does not fit into the request")]
    TooLarge {
        /// The path of the metadata of the set.
        path: String,
        /// The first migration that does not fit.
        migration: String,
    },
    /// A server has refused an operation of a migration. Its transaction has changed nothing.
    #[error("operation {index} of the migration {migration:?} was refused ({path}): {code}")]
    Refused {
        /// The name of the migration.
        migration: String,
        /// The place of the operation in the migration, from zero.
        index: usize,
        /// The path of the operation.
        path: String,
        /// The reason.
        code: ErrorCode,
    },
    /// The function of a computed migration has failed. It has no operations, so nothing was
    /// applied.
    #[error("{path}: the migration {migration:?} could not be computed")]
    Computation {
        /// The path of the metadata of the set.
        path: String,
        /// The name of the migration.
        migration: String,
        /// The error of the function.
        source: Failure,
    },
    /// Another client has held the lock for longer than the [time](
    /// super::MigrationManager::lock_timeout) to wait.
    #[error("the lock {path} was not free within {timeout:?}")]
    LockTimeout {
        /// The path of the lock.
        path: String,
        /// The time.
        timeout: Duration,
    },
    /// Other clients have interfered many times in a row: the lock was lost, or nodes were written
    /// that a computed migration had read.
    #[error("gave up on the migrations {path}: other clients interfered every time")]
    Busy {
        /// The path of the metadata of the set.
        path: String,
    },
    /// The call has applied migrations, in earlier transactions, before it failed. They stay
    /// applied, and a later call continues after them.
    #[error("{path}: only {} migrations were applied", .applied.len())]
    Incomplete {
        /// The path of the metadata of the set.
        path: String,
        /// The names of the migrations that this call has applied, in their order. If `source`
        /// [`may_have_applied`](Self::may_have_applied), it may have applied the next ones too.
        applied: Vec<String>,
        /// The reason why the rest was not applied.
        source: Box<Self>,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

impl Error {
    /// Returns the names of the migrations that the call has applied before it failed, in their
    /// order.
    #[must_use]
    pub fn applied(&self) -> &[String] {
        match self {
            Self::Incomplete { applied, .. } => applied,
            _ => &[],
        }
    }

    /// Returns the reason why the migration that failed was not applied: the `source` of
    /// [`Incomplete`](Self::Incomplete), or else the error itself.
    #[must_use]
    pub fn reason(&self) -> &Self {
        match self {
            Self::Incomplete { source, .. } => source,
            error => error,
        }
    }
}

impl Error {
    /// The error for a set that differs from the migrations with the metadata at this path.
    pub(super) fn of_difference(path: &str, difference: Difference) -> Self {
        let path = path.to_owned();
        match difference {
            Difference::Mismatch { index, name, found, expected } => {
                Self::Mismatch { path, index, name, found, expected }
            }
            Difference::Ahead { found, known } => Self::Ahead { path, found, known },
        }
    }
}

crate::failure::classify!(
    Error,
    retryable: [Self::LockTimeout { .. }, Self::Busy { .. }],
    unknown: [Self::Incomplete { .. }],
    of_source: [Incomplete]
);
