//! Events of observers of an election.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// An event of an observer of an election.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Leader {
    /// The observer begins to observe the leader.
    Observing {
        /// The election.
        election: Name,
        /// The number of the observer, unique in the history.
        observer: u64,
    },
    /// The observer was notified of the leader.
    Observed {
        /// The election.
        election: Name,
        /// The observer.
        observer: u64,
        /// The token of the leader; `None` if there is no leader.
        leader: Option<i64>,
    },
}

names! { Leader:
    Observing "observing", Observed "observed",
}

impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observing { election, observer } => {
                write!(f, "observer {observer} begins to observe {election}")
            }
            Self::Observed { election, observer, leader: Some(leader) } => {
                write!(f, "observer {observer} is notified that {leader:#x} leads {election}")
            }
            Self::Observed { election, observer, leader: None } => {
                write!(f, "observer {observer} is notified that {election} has no leader")
            }
        }
    }
}
