//! Events of transactions over several nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;
use super::shared::Doubt;

/// The values of several nodes, each of which is unique in the history; `None` for a node that does
/// not exist.
pub type Values = Vec<(Name, Option<u64>)>;

/// An event of a transaction over several nodes, whose body may run several times.
///
/// The field `txn` is the number of one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Transact {
    /// The client begins a transaction.
    Begun {
        /// The number of the transaction.
        txn: u64,
        /// `true` if its reads must show the newest state even if it writes nothing.
        confirmed: bool,
    },
    /// The body has ended, and the transaction is about to be committed. An earlier attempt of the
    /// same transaction was not.
    Attempted {
        /// The number of the transaction.
        txn: u64,
        /// The values that the body has read.
        reads: Values,
        /// The values that the body writes.
        writes: Values,
    },
    /// The last attempt was committed.
    Committed {
        /// The number of the transaction.
        txn: u64,
    },
    /// The transaction has failed, and nothing was written.
    Failed {
        /// The number of the transaction.
        txn: u64,
    },
    /// The last attempt may have been committed, or may still be.
    Unknown {
        /// The number of the transaction.
        txn: u64,
        /// The reason.
        why: Doubt,
    },
}

names! { Transact:
    Begun "begun", Attempted "attempted", Committed "committed", Failed "failed",
    Unknown "unknown",
}

impl fmt::Display for Transact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun { txn, confirmed } => {
                write!(
                    f,
                    "begins a transaction{}, @{txn}",
                    if *confirmed { " (confirmed)" } else { "" }
                )
            }
            Self::Attempted { txn, reads, writes } => {
                write!(f, "has read {}, and writes {}, @{txn}", Shown(reads), Shown(writes))
            }
            Self::Committed { txn } => write!(f, "has committed @{txn}"),
            Self::Failed { txn } => write!(f, "has failed @{txn}"),
            Self::Unknown { txn, why } => write!(f, "cannot know the outcome: {why}, @{txn}"),
        }
    }
}

struct Shown<'v>(&'v Values);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            match value {
                Some(value) => write!(f, "{comma}{name}={value}")?,
                None => write!(f, "{comma}no {name}")?,
            }
        }
        Ok(())
    }
}
