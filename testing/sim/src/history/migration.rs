//! Events of migrations.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// An event of a process that applies a set of migrations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Migration {
    /// A call begins.
    Calling {
        /// The number of the call, unique in the history.
        call: u64,
        /// The id of the set.
        set: Name,
        /// The number of migrations in the set of the caller.
        known: u32,
        /// `true` if a migration of the caller differs from the applied one. The call then begins
        /// after the last migration was applied.
        altered: bool,
    },
    /// The call has succeeded: all migrations of its set are applied.
    Migrated {
        /// The number of the call.
        call: u64,
        /// The migrations that this call has applied, by their places in the set.
        applied: Vec<u32>,
    },
    /// The call has failed after it had applied migrations.
    Incomplete {
        /// The number of the call.
        call: u64,
        /// The migrations that this call has applied, by their places in the set.
        applied: Vec<u32>,
    },
    /// The call has found more migrations than it knows.
    Ahead {
        /// The number of the call.
        call: u64,
    },
    /// The call has found another migration than its own.
    Mismatch {
        /// The number of the call.
        call: u64,
    },
}

names! { Migration:
    Calling "calling", Migrated "migrated", Incomplete "incomplete", Ahead "ahead",
    Mismatch "mismatch",
}

impl fmt::Display for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calling { call, set, known, altered } => {
                let kind = if *altered { " altered" } else { "" };
                write!(f, "migrates {set} by {known}{kind} migrations, @{call}")
            }
            Self::Migrated { call, applied } => write!(f, "has applied {applied:?}, @{call}"),
            Self::Incomplete { call, applied } => {
                write!(f, "has applied {applied:?}, and failed then, @{call}")
            }
            Self::Ahead { call } => write!(f, "finds more migrations, @{call}"),
            Self::Mismatch { call } => write!(f, "finds another migration, @{call}"),
        }
    }
}
