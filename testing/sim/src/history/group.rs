//! Events of groups.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// An event of a group and its members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Group {
    /// The client begins to join a group.
    Joining {
        /// The group.
        group: Name,
        /// The name of the member, unique in the history even if the client has left and joins
        /// again.
        member: Name,
    },
    /// The member has left a group. A server has confirmed it.
    Parted {
        /// The group.
        group: Name,
        /// The name of the member.
        member: Name,
    },
    /// The client has seen the members of a group.
    Viewed {
        /// The group.
        group: Name,
        /// The members that were seen.
        members: Vec<Name>,
        /// The maximum staleness: in a time without faults, a member that has been gone for longer
        /// cannot be among the seen ones.
        lag: Duration,
    },
}

names! { Group:
    Joining "joining", Parted "parted", Viewed "viewed",
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joining { group, member } => write!(f, "joins {group} as {member}"),
            Self::Parted { group, member } => write!(f, "has left {group}, as {member}"),
            Self::Viewed { group, members, lag } => {
                write!(
                    f,
                    "sees the members of {group}, at most {lag:?} old: {}",
                    members.join(", ")
                )
            }
        }
    }
}
