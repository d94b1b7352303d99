//! Events of service discovery.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// An event of a registration, or of the node of an instance. The member has begun to join a
/// [`Group`](super::Group), and leaves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Discovery {
    /// The client knows that its instance is registered. It stays registered until
    /// [`Ending`](Self::Ending) or the end of the process, as far as sessions live.
    Serving {
        /// The name of the member.
        member: Name,
        /// The node of the instance. No other client registers instances there.
        path: Name,
    },
    /// The client unregisters the instance, or drops the registration.
    Ending {
        /// The name of the member.
        member: Name,
    },
    /// A transaction of the servers has created or deleted the node of an instance. Recorded at
    /// the end of the run, in the order of the transactions.
    Written {
        /// The time of the transaction, since the start of the run.
        at: Duration,
        /// The transaction.
        zxid: i64,
        /// The node.
        path: Name,
        /// The transaction that created the node.
        czxid: i64,
        /// What the transaction did to the node.
        how: Written,
    },
}

/// What a transaction did to the node of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Written {
    /// It created the node.
    Created,
    /// It deleted the node.
    Deleted,
    /// It ended the session of the node.
    Expired,
}

names! { Discovery:
    Serving "serving", Ending "ending", Written "written",
}

impl fmt::Display for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serving { member, path } => write!(f, "serves as {member}, at {path}"),
            Self::Ending { member } => write!(f, "ends {member}"),
            Self::Written { at, zxid, path, czxid, how } => {
                let how = match how {
                    Written::Created => "created",
                    Written::Deleted => "deleted",
                    Written::Expired => "ended the session of",
                };
                write!(f, "{zxid:#x}, at {:.6}, {how} {path}, {czxid:#x}", at.as_secs_f64())
            }
        }
    }
}
