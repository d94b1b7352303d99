//! Events of an operator who deletes nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// An event of an operator who deletes nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Operator {
    /// An operator has deleted a node and everything below it. From then on, the clients may have
    /// lost what they held by these nodes. They learn of it later.
    Removed {
        /// The node.
        path: Name,
        /// The transactions that created the nodes: the fencing tokens of the clients that held a
        /// resource by them.
        tokens: Vec<i64>,
    },
    /// A client has deleted the node of another client instead of its own, which an operator had
    /// deleted after the client read it. This is the documented window of nodes with shared names.
    /// Recorded at the end of the run.
    Overtaken {
        /// The transaction that created the node: the fencing token of its holder.
        token: i64,
    },
}

names! { Operator:
    Removed "removed", Overtaken "overtaken",
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed { path, tokens } => {
                write!(f, "AN OPERATOR DELETES {path}, with")?;
                tokens.iter().try_for_each(|token| write!(f, " {token:#x}"))
            }
            Self::Overtaken { token } => {
                write!(f, "WAS DELETED IN PLACE OF ANOTHER NODE: {token:#x}")
            }
        }
    }
}
