//! Events of double barriers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// An event of a member of a double barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Barrier {
    /// The member arrives at a barrier and waits for the others.
    Entering {
        /// The barrier.
        barrier: Name,
        /// The name of the member.
        member: Name,
        /// The ordinal use of the barrier.
        round: u32,
    },
    /// The member has passed the entrance.
    Entered {
        /// The barrier.
        barrier: Name,
        /// The name of the member.
        member: Name,
        /// The ordinal use of the barrier.
        round: u32,
    },
    /// The member arrives at the exit and waits for the others.
    Leaving {
        /// The barrier.
        barrier: Name,
        /// The name of the member.
        member: Name,
        /// The ordinal use of the barrier.
        round: u32,
    },
    /// The member has passed the exit.
    Left {
        /// The barrier.
        barrier: Name,
        /// The name of the member.
        member: Name,
        /// The ordinal use of the barrier.
        round: u32,
    },
    /// The member has given up, or was refused, at the entrance or at the exit.
    Withdrew {
        /// The barrier.
        barrier: Name,
        /// The name of the member.
        member: Name,
        /// The ordinal use of the barrier.
        round: u32,
    },
}

names! { Barrier:
    Entering "entering", Entered "entered", Leaving "leaving", Left "left", Withdrew "withdrew",
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entering { barrier, member, round } => {
                write!(f, "{member} arrives at the entrance of {barrier}, round {round}")
            }
            Self::Entered { barrier, member, round } => {
                write!(f, "{member} has entered {barrier}, round {round}")
            }
            Self::Leaving { barrier, member, round } => {
                write!(f, "{member} arrives at the exit of {barrier}, round {round}")
            }
            Self::Left { barrier, member, round } => {
                write!(f, "{member} has left {barrier}, round {round}")
            }
            Self::Withdrew { barrier, member, round } => {
                write!(f, "{member} gives up {barrier}, round {round}")
            }
        }
    }
}
