//! Why a node cannot be deleted: its children, its parent's ACL, or a client that creates it again.

use std::fmt;

use zk_curator::{Acl, CuratorFramework, Error, ErrorKind, Permissions, SessionId};
use zk_curator_recipes::inspect::{Finding, RecipeKind};

use crate::{acl, path};

/// A reason why a node cannot be deleted, or will not stay deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeletionObstacle {
    /// It has children.
    Children {
        /// Their number, from 1.
        number: i32,
    },
    /// It is ephemeral: its session is alive, and may create it again.
    Ephemeral {
        /// The session that owns it.
        session: SessionId,
    },
    /// Only some clients may delete it. The ACL of its parent decides that.
    Permission {
        /// The path of the parent.
        parent: String,
        /// The entries of the parent's ACL that allow it. `None` if the ACL may not be read.
        allowed: Option<Vec<Acl>>,
    },
}

impl fmt::Display for DeletionObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Children { number: 1 } => f.write_str("not possible while it has 1 child"),
            Self::Children { number } => write!(f, "not possible while it has {number} children"),
            Self::Ephemeral { session } => {
                write!(f, "ephemeral: session {session} may create it again")
            }
            Self::Permission { parent, allowed: None } => {
                write!(f, "needs DELETE on {parent}, whose ACL may not be read")
            }
            Self::Permission { parent, allowed: Some(allowed) } if allowed.is_empty() => {
                write!(f, "needs DELETE on {parent}: the ACL grants it to no one")
            }
            Self::Permission { parent, allowed: Some(allowed) } => {
                let allowed: Vec<_> = allowed.iter().map(acl::text).collect();
                write!(f, "needs DELETE on {parent}: {}", allowed.join(", "))
            }
        }
    }
}

/// Returns the obstacles to the deletion of a node that belongs to no recipe. `finding` is that of
/// the node.
///
/// # Errors
/// Those of the framework.
pub async fn deletion_obstacles(
    zk: &CuratorFramework,
    node: &str,
    finding: &Finding,
) -> Result<Vec<DeletionObstacle>, Error> {
    if finding.kind != RecipeKind::Unknown || finding.path != node || node == "/" {
        return Ok(Vec::new());
    }
    let mut obstacles = Vec::new();
    if let Some(stat) = finding.stat {
        if stat.num_children > 0 {
            obstacles.push(DeletionObstacle::Children { number: stat.num_children });
        }
        if stat.is_ephemeral() {
            let session = SessionId::new(stat.ephemeral_owner);
            obstacles.push(DeletionObstacle::Ephemeral { session });
        }
    }
    obstacles.extend(deletion_permission(zk, node).await?);
    Ok(obstacles)
}

/// Returns the obstacle of the parent's ACL. `None` if every client may delete the node, and if the
/// parent does not exist.
///
/// # Errors
/// Those of the framework.
pub async fn deletion_permission(
    zk: &CuratorFramework,
    node: &str,
) -> Result<Option<DeletionObstacle>, Error> {
    let parent = path::split(node).0.to_owned();
    let acl = match zk.get_acl(&parent).await {
        Ok(acl) => acl,
        Err(error) if error.kind() == ErrorKind::NoAuth => {
            return Ok(Some(DeletionObstacle::Permission { parent, allowed: None }));
        }
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
        Err(error) => return Err(error),
    };
    let deletes = |entry: &Acl| entry.permissions.contains(Permissions::DELETE);
    let may: Vec<_> = acl.into_iter().filter(deletes).collect();
    if may.iter().any(|entry| (entry.scheme.as_str(), entry.id.as_str()) == ("world", "anyone")) {
        return Ok(None);
    }
    Ok(Some(DeletionObstacle::Permission { parent, allowed: Some(may) }))
}
