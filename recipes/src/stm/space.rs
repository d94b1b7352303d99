//! The paths of a transaction, and what protects its reads.

use zk_curator::Error as ZkError;
use zk_curator::path::ZPath;

use super::error::Error;
use crate::path::child;

/// The name of the node of a space that has the receipts as children.
const RECEIPTS: &str = "_receipts";

/// The protection of the reads of a transaction.
#[derive(Debug)]
pub(super) enum SpaceScope {
    /// The roots of spaces. The version of a root counts the creates and deletes in its space.
    Spaces(Vec<String>),
    /// Only the versions of the nodes.
    Loose,
}

impl SpaceScope {
    /// Checks the roots.
    pub(super) fn check(&self) -> Result<(), ZkError> {
        let Self::Spaces(roots) = self else { return Ok(()) };
        let invalid = |root: &String, why| ZkError::invalid_argument("transaction", root, why);
        for (index, root) in roots.iter().enumerate() {
            ZPath::for_operation("transaction", root.as_str())?;
            let others = roots.iter().enumerate().filter(|(other, _)| *other != index);
            if others.map(|(_, other)| other).any(|other| is_in(root, other)) {
                return Err(invalid(root, "no space can be within another one"));
            }
        }
        Ok(())
    }

    /// Returns the root of the space of a path, or `None` without spaces.
    pub(super) fn root_of(&self, path: &str) -> Result<Option<&str>, Error> {
        let Self::Spaces(roots) = self else { return Ok(None) };
        let Some(root) = roots.iter().find(|root| is_in(path, root)) else {
            return Err(Error::OutsideSpaces { path: path.to_owned() });
        };
        if is_in(path, &receipts(root)) {
            let why = "the node belongs to the receipts of the space";
            return Err(ZkError::invalid_argument("transaction", path, why).into());
        }
        Ok(Some(root))
    }

    /// Returns the roots.
    pub(super) fn roots(&self) -> &[String] {
        match self {
            Self::Spaces(roots) => roots,
            Self::Loose => &[],
        }
    }

    /// Removes the name of the node of the receipts from the children of a root.
    pub(super) fn hide(&self, path: &str, names: &mut Vec<String>) {
        if self.roots().iter().any(|root| root == path) {
            names.retain(|name| name != RECEIPTS);
        }
    }
}

/// Returns the node of the space with this root that has the receipts as children.
pub(super) fn receipts(root: &str) -> String {
    child(root, RECEIPTS)
}

/// Returns `true` if the path is the root or below it.
pub(super) fn is_in(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the parent of a path, and the name.
pub(super) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => ("", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaces(roots: &[&str]) -> SpaceScope {
        SpaceScope::Spaces(roots.iter().map(|root| (*root).to_owned()).collect())
    }

    #[test]
    fn path_belongs_to_the_space_above_it() {
        let scope = spaces(&["/acc", "/log"]);
        for (path, root) in
            [("/acc", "/acc"), ("/acc/1", "/acc"), ("/acc/1/x", "/acc"), ("/log/", "/log")]
        {
            assert_eq!(scope.root_of(path).unwrap(), Some(root), "{path}");
        }
        for path in ["/accounts", "/", "/other/acc", "/acc/_receipts", "/acc/_receipts/_r_1"] {
            assert!(scope.root_of(path).is_err(), "{path}");
        }
        assert_eq!(spaces(&["/"]).root_of("/a/b").unwrap(), Some("/"));
        assert_eq!(SpaceScope::Loose.root_of("/a").unwrap(), None);
    }

    #[test]
    fn spaces_do_not_overlap() {
        assert!(spaces(&["/a", "/b", "/ab"]).check().is_ok());
        assert!(spaces(&["/a", "/a/b"]).check().is_err());
        assert!(spaces(&["/a", "/a"]).check().is_err());
        assert!(spaces(&["/", "/a"]).check().is_err());
        assert!(spaces(&["a"]).check().is_err());
    }

    #[test]
    fn receipts_are_no_children_of_a_space() {
        let (scope, mut names) = (spaces(&["/a"]), vec!["_receipts".to_owned(), "x".to_owned()]);
        scope.hide("/a/b", &mut names);
        assert_eq!(names.len(), 2);
        scope.hide("/a", &mut names);
        assert_eq!(names, ["x"]);
    }
}
