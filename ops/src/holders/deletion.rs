//! Why a node cannot be deleted: its children, its parent's ACL, or a client that creates it again.

use zk_curator::{Acl, CuratorFramework, ErrorKind, Permissions, SessionId};
use zk_curator_recipes::inspect::{Finding, RecipeKind};

use crate::acls;
use crate::exit::CommandFailure;
use crate::path;
use crate::who::SessionFacts;

/// Returns the obstacles to the deletion of a node that belongs to no recipe, a line each.
pub(crate) async fn explain(
    zk: &CuratorFramework,
    node: &str,
    finding: &Finding,
    facts: &SessionFacts,
) -> Result<Vec<String>, CommandFailure> {
    if finding.kind != RecipeKind::Unknown || finding.path != node || node == "/" {
        return Ok(Vec::new());
    }
    let mut lines = Vec::new();
    if let Some(stat) = finding.stat {
        lines.extend(children(stat.num_children));
        if stat.is_ephemeral() {
            lines.push(facts.owner(SessionId::new(stat.ephemeral_owner)));
        }
    }
    lines.extend(permission(zk, node).await?);
    Ok(lines)
}

/// Explains the children of a node, if it has any.
pub(crate) fn children(number: i32) -> Option<String> {
    match number {
        0 => None,
        1 => Some("not possible while it has 1 child: zkc rm -r deletes both".to_owned()),
        many => Some(format!("not possible while it has {many} children: zkc rm -r deletes all")),
    }
}

/// Returns who may delete a node. That is decided by its parent.
pub(crate) async fn permission(
    zk: &CuratorFramework,
    node: &str,
) -> Result<Option<String>, CommandFailure> {
    let (parent, _) = path::split(node);
    let acl = match zk.get_acl(parent).await {
        Ok(acl) => acl,
        Err(error) if error.kind() == ErrorKind::NoAuth => {
            return Ok(Some(format!("needs DELETE on {parent}, whose ACL may not be read")));
        }
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let deletes = |entry: &&Acl| entry.permissions.contains(Permissions::DELETE);
    let may: Vec<_> = acl.iter().filter(deletes).collect();
    if may.iter().any(|entry| (entry.scheme.as_str(), entry.id.as_str()) == ("world", "anyone")) {
        return Ok(None);
    }
    let may: Vec<_> = may.into_iter().map(acls::text).collect();
    let who =
        if may.is_empty() { "the ACL grants it to no one".to_owned() } else { may.join(", ") };
    Ok(Some(format!("needs DELETE on {parent}: {who}")))
}
