//! Events of sets that members divide.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// An event of a set of parts that the members of a group divide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Division {
    /// From now on, the client is a member at most once, and until it finishes. Its bodies end only
    /// when their parts are revoked, and it does not change the parts.
    Calm,
    /// The client begins to join.
    Joining {
        /// The id of the member.
        member: Name,
    },
    /// The member has left, and has released all of its parts.
    Parted {
        /// The id of the member.
        member: Name,
    },
    /// A client has seen each part with the member that it is assigned to.
    Settled {
        /// The members that were seen, and their weights.
        members: Vec<(Name, u32)>,
        /// The parts, their owners, and the fencing tokens of the owners.
        parts: Vec<(Name, Name, i64)>,
    },
}

names! { Division:
    Calm "calm", Joining "joining", Parted "parted", Settled "settled",
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calm => f.write_str("changes nothing from now on, except for one membership"),
            Self::Joining { member } => write!(f, "joins the members as {member}"),
            Self::Parted { member } => write!(f, "has left the members, as {member}"),
            Self::Settled { members, parts } => {
                f.write_str("sees the members")?;
                for (member, weight) in members {
                    write!(f, " {member}*{weight}")?;
                }
                f.write_str(", and the parts")?;
                parts
                    .iter()
                    .try_for_each(|(part, owner, token)| write!(f, " {part}={owner}#{token}"))
            }
        }
    }
}
