//! Names and sentences for people.

use std::fmt;

use super::change::{Change, DeletionCause, Operation, SessionEnd};
use super::recipe_names::RecipeNode;
use super::stat::Owner;

impl Operation {
    /// Returns the name, such as `set-data`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::SetData => "set-data",
            Self::SetAcl => "set-acl",
            Self::Reconfig => "reconfig",
            Self::CreateSession => "create-session",
            Self::CloseSession => "close-session",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl SessionEnd {
    /// Returns the name: `client` or `server`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "the client closed it",
            Self::Server => "the servers ended it: it expired, or an operator closed it",
        })
    }
}

impl DeletionCause {
    /// Returns the name, such as `session-expired`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::SessionEnd(SessionEnd::Client) => "session-closed",
            Self::SessionEnd(SessionEnd::Server) => "session-expired",
            Self::Container => "container",
            Self::Ttl => "ttl",
            Self::Reaped => "reaped",
        }
    }
}

impl fmt::Display for DeletionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Request => "a client deleted it",
            Self::SessionEnd(SessionEnd::Client) => {
                "it was ephemeral, and its client closed the session"
            }
            Self::SessionEnd(SessionEnd::Server) => {
                "it was ephemeral, and its session expired, or an operator closed it"
            }
            Self::Container => "the leader deleted a container without children",
            Self::Ttl => "the leader deleted a node whose time to live was over",
            Self::Reaped => {
                "the leader deleted a container without children, or a node whose time to live \
                 was over"
            }
        })
    }
}

impl RecipeNode {
    /// Returns the name, such as `lock`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::ReadLock => "read lock",
            Self::WriteLock => "write lock",
            Self::Lease => "lease",
            Self::LeaderLatch => "leader latch",
            Self::QueueItem => "queue item",
        }
    }
}

impl fmt::Display for RecipeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Owner {
    /// Returns the name of the kind of node, such as `ephemeral`.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::None => "persistent",
            Self::Session(_) => "ephemeral",
            Self::Container => "container",
            Self::Ttl { .. } => "ttl",
        }
    }
}

impl Change {
    /// Returns `true` if the session that owned the node deleted it by a request, and the name of
    /// the node is that of a recipe. This is usually the clean-up of the recipe: a lock is
    /// released, or a contender gives up. The end of the session is not: the lock may be lost.
    #[must_use]
    pub fn is_clean_up_of_recipe(&self) -> bool {
        let owner = self.before.as_ref().and_then(|before| before.owner);
        self.deletion == Some(DeletionCause::Request)
            && owner == Some(Owner::Session(self.session))
            && self.path.as_deref().and_then(RecipeNode::of).is_some()
    }
}

#[cfg(test)]
mod tests {
    use zk_curator::SessionId;

    use super::super::change::{Moment, NodeState};
    use super::*;

    #[test]
    fn a_contender_that_deletes_its_node_cleans_up() {
        let change = |path: &str, owner: i64| Change {
            at: Moment { zxid: 1, time_ms: 1 },
            session: SessionId::new(7),
            cxid: 3,
            operation: Operation::Delete,
            path: Some(path.to_owned()),
            multi: None,
            before: Some(NodeState {
                owner: Some(Owner::Session(SessionId::new(owner))),
                ..NodeState::default()
            }),
            after: None,
            deletion: Some(DeletionCause::Request),
            session_end: None,
            session_timeout_ms: None,
            error: None,
        };
        assert!(change("/l/lock-0000000001", 7).is_clean_up_of_recipe());
        assert!(!change("/l/lock-0000000001", 8).is_clean_up_of_recipe());
        assert!(!change("/l/worker", 7).is_clean_up_of_recipe());
        for end in [SessionEnd::Client, SessionEnd::Server] {
            let deletion = Some(DeletionCause::SessionEnd(end));
            let change = Change { deletion, ..change("/l/lock-0000000001", 7) };
            assert!(!change.is_clean_up_of_recipe(), "{end}");
        }
    }
}
