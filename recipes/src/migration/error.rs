use std::time::Duration;

use zk_curator::ErrorCode;
use zk_curator::value::Failure;

use super::Difference;

/// The reason why a set was not built or not applied.
///
/// After an error other than [`Incomplete`](Self::Incomplete), and without
/// [`may_have_applied`](Self::may_have_applied), the call has applied nothing.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The id of the set cannot be the name of a node, or ends with `-info`.
    #[error("{id:?} is no id for a set of migrations")]
    InvalidId {
        /// The id.
        id: String,
    },
    /// Two migrations of a set have the same name.
    #[error("there are two migrations {name:?}")]
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
        "the migration {name:?} (number {index} from zero) is not the one that was applied: \
         {found} instead of {expected}"
    )]
    Mismatch {
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
    #[error("{found} migrations were applied, of which this version knows {known}")]
    Ahead {
        /// The number of migrations that were applied.
        found: usize,
        /// The number of migrations of the set.
        known: usize,
    },
    /// The migrations do not fit into a request. Apply them [one by
    /// one](super::MigrationManager::per_migration), or split this one. No lock was taken, unless
    /// the migration is computed.
    #[error("the migration {migration:?} does not fit into the request")]
    TooLarge {
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
    #[error("the migration {migration:?} could not be computed")]
    Computation {
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
    #[error("other clients interfere with the migrations {id}")]
    Busy {
        /// The id of the set.
        id: String,
    },
    /// The call has applied migrations, in earlier transactions, before it failed. They stay
    /// applied, and a later call continues after them.
    #[error("only {} migrations were applied", .applied.len())]
    Incomplete {
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

impl From<Difference> for Error {
    fn from(difference: Difference) -> Self {
        match difference {
            Difference::Mismatch { index, name, found, expected } => {
                Self::Mismatch { index, name, found, expected }
            }
            Difference::Ahead { found, known } => Self::Ahead { found, known },
        }
    }
}

crate::failure::classify!(
    Error,
    retryable: [Self::LockTimeout { .. }, Self::Busy { .. }],
    unknown: [Self::Incomplete { .. }],
    of_source: [Incomplete]
);
