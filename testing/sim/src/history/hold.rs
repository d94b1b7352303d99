//! Events of holds: of locks, leases and leadership.

use std::fmt;

use serde::{Deserialize, Serialize};
use zk_curator::observe::{HoldMode, UseOutcome};

use super::name::Name;

/// An event of a hold: a lock, a lease, or leadership.
///
/// The field `hold` is the number of one attempt to hold a resource, and of the hold that it leads
/// to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Hold {
    /// The client begins to acquire a resource.
    Acquiring {
        /// The resource.
        resource: Name,
        /// The mode of the hold.
        mode: HoldMode,
        /// The number of the attempt.
        hold: u64,
    },
    /// The client holds the resource, and believes so until [`Lost`](Self::Lost),
    /// [`Releasing`](Self::Releasing) or the end of the process.
    Acquired {
        /// The resource.
        resource: Name,
        /// The mode of the hold.
        mode: HoldMode,
        /// The number of the attempt.
        hold: u64,
        /// The fencing token.
        token: i64,
    },
    /// An attempt has ended without a hold: given up, cancelled, or failed.
    Missed {
        /// The number of the attempt.
        hold: u64,
    },
    /// The client has learnt that it no longer holds the resource.
    Lost {
        /// The number of the attempt.
        hold: u64,
    },
    /// The client releases or drops its hold.
    Releasing {
        /// The number of the attempt.
        hold: u64,
    },
    /// The server has confirmed that the resource was held until it was released.
    Released {
        /// The number of the attempt.
        hold: u64,
    },
    /// The hold is a node of this name, created before its fencing token was issued: a writer has
    /// become a reader.
    Node {
        /// The number of the attempt.
        hold: u64,
        /// The last component of its path, which is unique.
        name: Name,
    },
    /// A client begins to take a resource by force from a holder or a waiter.
    Seized {
        /// The number of the attempt.
        hold: u64,
    },
    /// The client has used the resource that the lock protects.
    Used {
        /// The resource.
        resource: Name,
        /// The number of the attempt.
        hold: u64,
        /// The token of the use.
        token: i64,
        /// The reaction of the resource.
        outcome: UseOutcome,
    },
}

names! { Hold:
    Acquiring "acquiring", Acquired "acquired", Missed "missed", Lost "lost", Releasing "releasing",
    Released "released", Node "node", Seized "seized", Used "used",
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquiring { resource, mode, hold } => {
                write!(f, "acquires {resource} ({mode}), #{hold}")
            }
            Self::Acquired { resource, mode, hold, token } => {
                write!(f, "holds {resource} ({mode}), #{hold}, token {token:#x}")
            }
            Self::Missed { hold } => write!(f, "has not acquired #{hold}"),
            Self::Lost { hold } => write!(f, "has lost #{hold}"),
            Self::Releasing { hold } => write!(f, "releases #{hold}"),
            Self::Released { hold } => write!(f, "has released #{hold}"),
            Self::Node { hold, name } => write!(f, "holds #{hold} by {name}"),
            Self::Seized { hold } => write!(f, "SEIZES #{hold}"),
            Self::Used { resource, hold, token, outcome } => {
                write!(f, "uses {resource}, #{hold}, token {token:#x}: {outcome}")
            }
        }
    }
}
