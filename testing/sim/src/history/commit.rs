//! Events of two-phase commits.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// An event of a transaction that several sites vote on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Commit {
    /// A transaction begins that needs the votes of these sites.
    Proposed {
        /// The transaction.
        txn: Name,
        /// The sites that have to vote.
        sites: Vec<Name>,
    },
    /// A site has voted on a transaction. Recorded before other clients can see the vote.
    Voted {
        /// The transaction.
        txn: Name,
        /// The site.
        site: Name,
        /// `true` for a vote to commit.
        yes: bool,
    },
    /// A site, or the coordinator, has learnt the decision.
    Decided {
        /// The transaction.
        txn: Name,
        /// The site or the coordinator.
        site: Name,
        /// `true` to commit, `false` to abort.
        commit: bool,
    },
    /// The client begins to read a transaction, at a path that is used repeatedly. Its session has
    /// seen all earlier transactions there.
    Opening {
        /// The number of the read, unique in the history.
        visit: u64,
    },
    /// The client has read which transaction it is.
    Opened {
        /// The number of the read.
        visit: u64,
        /// The transaction.
        txn: Name,
    },
    /// The client begins to remove a transaction, or does not know if it has begun. In both cases
    /// any client may remove it.
    Removing {
        /// The transaction.
        txn: Name,
    },
    /// The client has removed a transaction that was decided, for certain.
    Ended {
        /// The transaction.
        txn: Name,
    },
    /// The client has learnt that a transaction that it had seen does not exist.
    Missing {
        /// The transaction.
        txn: Name,
    },
}

names! { Commit:
    Proposed "proposed", Voted "voted", Decided "decided", Opening "opening", Opened "opened",
    Removing "removing", Ended "ended", Missing "missing",
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proposed { txn, sites } => write!(f, "proposes {txn} to {}", sites.join(", ")),
            Self::Voted { txn, site, yes } => {
                write!(f, "{site} votes {} on {txn}", if *yes { "yes" } else { "no" })
            }
            Self::Decided { txn, site, commit } => {
                write!(f, "{site} sees {txn} {}", if *commit { "committed" } else { "aborted" })
            }
            Self::Opening { visit } => write!(f, "begins to read a transaction, @{visit}"),
            Self::Opened { visit, txn } => write!(f, "has read {txn}, @{visit}"),
            Self::Removing { txn } => write!(f, "is about to remove {txn}"),
            Self::Ended { txn } => write!(f, "has removed {txn}"),
            Self::Missing { txn } => write!(f, "finds no {txn}"),
        }
    }
}
