//! The paths to which a replay or an index is restricted.

/// Nodes by path. Without paths, all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// These nodes.
    exact: Vec<String>,
    /// These nodes and all nodes below them.
    below: Vec<String>,
    /// These nodes and their children.
    shallow: Vec<String>,
}

impl Scope {
    pub(super) fn add_exact(&mut self, path: &str) {
        self.exact.push(canonical(path).to_owned());
    }

    pub(super) fn add_below(&mut self, path: &str) {
        self.below.push(canonical(path).to_owned());
    }

    pub(super) fn add_shallow(&mut self, path: &str) {
        self.shallow.push(canonical(path).to_owned());
    }

    /// Returns `true` if all nodes are selected.
    pub(super) fn is_all(&self) -> bool {
        let is_root = |path: &String| path.is_empty();
        let is_empty = self.exact.is_empty() && self.below.is_empty() && self.shallow.is_empty();
        is_empty || self.below.iter().any(is_root)
    }

    /// Returns `true` if the node is selected.
    pub(super) fn contains(&self, path: &str) -> bool {
        let path = canonical(path);
        self.is_all()
            || self.exact.iter().any(|exact| exact == path)
            || self.below.iter().any(|top| is_within(path, top))
            || self.shallow.iter().any(|top| path == top || is_child(path, top))
    }

    /// Returns `true` if the node is selected, or is an ancestor of selected nodes.
    pub(super) fn keeps(&self, path: &str) -> bool {
        let selected = || self.exact.iter().chain(&self.below).chain(&self.shallow);
        self.contains(path) || selected().any(|top| is_within(top, canonical(path)))
    }
}

/// Returns the path without the slash at its end, which only the path of the root has. The root is
/// the empty path, as in snapshots.
pub(super) fn canonical(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

/// Returns `true` for a node and for all nodes below it. Both paths are canonical.
pub(super) fn is_within(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns `true` for a child of a node. Both paths are canonical.
fn is_child(path: &str, parent: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(above, _)| above == parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_are_kept_but_not_selected() {
        let mut scope = Scope::default();
        assert!(scope.is_all() && scope.contains("/x") && scope.keeps("/x"));
        scope.add_below("/a/b/");
        scope.add_exact("/c");
        for (path, contains, keeps) in [
            ("/", false, true),
            ("", false, true),
            ("/a", false, true),
            ("/a/b", true, true),
            ("/a/b/x/y", true, true),
            ("/a/bc", false, false),
            ("/c", true, true),
            ("/c/x", false, false),
            ("/d", false, false),
        ] {
            assert_eq!((scope.contains(path), scope.keeps(path)), (contains, keeps), "{path}");
        }
        scope.add_below("/");
        assert!(scope.is_all());
    }

    #[test]
    fn a_shallow_scope_ends_with_the_children() {
        for (top, selected, others) in [
            ("/a/b", ["/a/b", "/a/b/c"], ["/a", "/a/b/c/d", "/a/bc", "/"]),
            ("/", ["", "/c"], ["/a/b", "/c/d", "/c/d/e", "/a/b/c"]),
        ] {
            let mut scope = Scope::default();
            scope.add_shallow(top);
            assert!(!scope.is_all());
            assert!(selected.iter().all(|path| scope.contains(path)), "{top}");
            assert!(!others.iter().any(|path| scope.contains(path)), "{top}");
        }
    }
}
