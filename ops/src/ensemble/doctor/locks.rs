//! Findings about the contenders of recipes, and about the access control lists of locks and
//! elections.

use std::collections::BTreeMap;

use zk_curator::{Acl, Permissions};
use zk_curator_recipes::inspect::{self, RecipeKind};

use super::finding::{DoctorFinding, FindingSeverity, finding};
use crate::{holders, path};

/// The nodes that are named in a finding.
const NAMED: usize = 3;

/// The access control lists of the contenders below a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LockAcls {
    pub(crate) path: String,
    pub(crate) acl: Vec<Acl>,
    /// The contenders, by name. `None` if our credentials do not allow to read the list: then not
    /// everybody may read the node.
    pub(crate) contenders: BTreeMap<String, Option<Vec<Acl>>>,
}

/// An identity of an access control list.
type AclIdentity<'a> = (&'a str, &'a str);

const ANYONE: AclIdentity<'_> = ("world", "anyone");

fn identity(acl: &Acl) -> AclIdentity<'_> {
    (&acl.scheme, &acl.id)
}

fn name((scheme, id): AclIdentity<'_>) -> String {
    format!("{scheme}:{id}")
}

/// Returns the permissions of an identity. Everybody's permissions are also those of each one.
fn granted(list: &[Acl], to: AclIdentity<'_>) -> Permissions {
    let entries = list.iter().filter(|acl| identity(acl) == to || identity(acl) == ANYONE);
    entries.fold(Permissions::default(), |all, acl| all | acl.permissions)
}

/// Returns the findings about all locks.
pub(crate) fn locks(locks: &[LockAcls]) -> Vec<DoctorFinding> {
    let mut findings: Vec<_> = locks.iter().flat_map(lock).collect();
    findings.extend(open(locks));
    findings
}

/// Finds the contenders of a recipe that no session will ever remove.
pub(crate) fn persistent(recipe: &inspect::Finding) -> Option<DoctorFinding> {
    let paths: Vec<_> = holders::persistent(recipe).map(|one| one.path.as_str()).collect();
    let named = paths.get(..NAMED.min(paths.len())).filter(|named| !named.is_empty())?;
    // The other members of a group do not wait for it.
    let severity = match recipe.kind {
        RecipeKind::Group | RecipeKind::Service => FindingSeverity::Warning,
        _ => FindingSeverity::Error,
    };
    let text = format!(
        "persistent contenders of a {}: {}, such as {}: no session will ever remove them",
        recipe.kind,
        paths.len(),
        named.join(", ")
    );
    let advice = "look who made them (zkc stat), and delete them: zkc why shows the commands";
    Some(finding(severity, &recipe.path, text, advice))
}

/// Compares the clients that may contend with the permissions that a contender needs: to list the
/// others, to read its predecessor, and to delete its own node.
fn lock(lock: &LockAcls) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let contend = lock.acl.iter().filter(|acl| acl.permissions.contains(Permissions::CREATE));
    for client in contend.map(identity) {
        let permissions = granted(&lock.acl, client);
        let mut warn = |text, advice| {
            findings.push(finding(FindingSeverity::Warning, &lock.path, text, advice));
        };
        let client_name = name(client);
        if !permissions.contains(Permissions::READ) {
            let text = format!("{client_name} may create contenders, but not list them");
            warn(text, "its clients fail to acquire: add the permission r");
        }
        if !permissions.contains(Permissions::DELETE) {
            let text = format!("{client_name} may create contenders, but not delete them");
            warn(text, "its locks are held until their sessions end: add the permission d");
        }
        let hidden = lock.contenders.iter().filter(|(_, acl)| match acl {
            Some(acl) => !granted(acl, client).contains(Permissions::READ),
            None => client == ANYONE,
        });
        let hidden: Vec<_> = hidden.map(|(name, _)| name.as_str()).collect();
        if !hidden.is_empty() {
            let named = &hidden[..NAMED.min(hidden.len())];
            let text = format!(
                "{client_name} may not read {} of {} contenders, such as {}",
                hidden.len(),
                lock.contenders.len(),
                named.join(", ")
            );
            warn(
                text,
                "clients that wait behind an unreadable node fail: let all contenders read it",
            );
        }
    }
    findings
}

/// Finds locks that everybody can take away.
fn open(locks: &[LockAcls]) -> Option<DoctorFinding> {
    let all: Vec<_> = locks
        .iter()
        .filter(|lock| granted(&lock.acl, ANYONE).contains(Permissions::DELETE))
        .map(|lock| lock.path.as_str())
        .collect();
    let (first, rest) = all.split_first()?;
    let others = match rest.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let text = format!("anyone may delete the contenders of {first}{others} (world:anyone)");
    let advice = "a client without credentials can take a lock away: see zkc acl";
    Some(finding(FindingSeverity::Note, "locks", text, advice))
}

/// Returns the directories of contenders, with their names, of paths of contenders.
pub(crate) fn directories<'a>(
    contenders: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, Vec<String>> {
    let mut directories: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for contender in contenders {
        let (directory, name) = path::split(contender);
        directories.entry(directory.to_owned()).or_default().push(name.to_owned());
    }
    directories
}
