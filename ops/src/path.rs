//! Paths of nodes.
//!
//! ```
//! use zk_curator_ops::path;
//!
//! assert_eq!(path::normal("config/"), "/config");
//! assert_eq!(path::join("/config", "a"), "/config/a");
//! assert_eq!(path::split("/config/a"), ("/config", "a"));
//! assert_eq!(path::ancestors("/config/a"), ["/", "/config"]);
//! assert_eq!(path::moved("/config/a", "/config", "/copy"), "/copy/a");
//! ```

use zk_curator::CuratorFramework;

use crate::error::Error;

/// Returns the path in ZooKeeper's form: a missing slash at the start is added, and those at the
/// end are removed.
#[must_use]
pub fn normal(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    match trimmed {
        "" => "/".to_owned(),
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        relative => format!("/{relative}"),
    }
}

/// Returns the path of a child.
#[must_use]
pub fn join(parent: &str, name: &str) -> String {
    if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") }
}

/// Returns the path of the parent, and the name.
#[must_use]
pub fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => ("/", path),
    }
}

/// Returns the ancestors of a path, from the root down, without the path itself.
#[must_use]
pub fn ancestors(path: &str) -> Vec<String> {
    let ends = path.match_indices('/').map(|(end, _)| end);
    ends.map(|end| if end == 0 { "/".to_owned() } else { path[..end].to_owned() }).collect()
}

/// Returns `true` if `path` is `root` or below it.
#[must_use]
pub fn is_within(path: &str, root: &str) -> bool {
    root == "/"
        || path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the path with another root.
#[must_use]
pub fn moved(path: &str, from: &str, to: &str) -> String {
    let rest = if from == "/" { path } else { path.strip_prefix(from).unwrap_or(path) };
    match rest.trim_start_matches('/') {
        "" => to.to_owned(),
        rest => join(to, rest),
    }
}

/// The node of the servers, by its path on them.
pub const SYSTEM: &str = "/zookeeper";

/// Returns `true` for the nodes that every server has: the root, and those of the servers. The
/// path is that on the servers: with the chroot and the namespace.
#[must_use]
pub fn is_built_in(on_server: &str) -> bool {
    on_server == "/" || is_within(on_server, SYSTEM)
}

/// Returns `true` if a node belongs to the servers: the chroot and the namespace are part of its
/// path.
#[must_use]
pub fn is_system(zk: &CuratorFramework, path: &str) -> bool {
    is_within(&zk.server_path(path), SYSTEM)
}

/// Returns the path of the node of the servers below a root; `None` if it is not below it.
pub(crate) fn system_below(zk: &CuratorFramework, root: &str) -> Option<&'static str> {
    (root == "/" && zk.server_path(root) == "/").then_some(SYSTEM)
}

/// Refuses the nodes that no operation changes recursively: the root, and those of the servers.
///
/// # Errors
/// [`BelongsToServers`](Error::BelongsToServers) and [`IsRoot`](Error::IsRoot).
pub fn refuse_system(zk: &CuratorFramework, path: &str) -> Result<(), Error> {
    if is_built_in(&zk.server_path(path)) {
        return Err(Error::BelongsToServers { path: path.to_owned() });
    }
    if path == "/" {
        return Err(Error::IsRoot);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normal() {
        for (given, path) in [("/", "/"), ("", "/"), ("/a/", "/a"), ("a/b", "/a/b"), ("/a", "/a")] {
            assert_eq!(normal(given), path);
        }
    }

    #[test]
    fn ancestors_go_down() {
        assert_eq!(ancestors("/a/b/c"), ["/", "/a", "/a/b"]);
        assert_eq!(ancestors("/a"), ["/"]);
        assert_eq!(split("/a"), ("/", "a"));
        assert_eq!(split("/a/b"), ("/a", "b"));
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && !is_within("/ab", "/a"));
        assert!(is_built_in("/") && is_built_in("/zookeeper/quota") && !is_built_in("/zookeepers"));
    }

    #[test]
    fn paths_move_with_their_root() {
        for (path, from, to, expected) in [
            ("/a/b", "/a", "/c", "/c/b"),
            ("/a", "/a", "/c", "/c"),
            ("/a/b", "/", "/c", "/c/a/b"),
            ("/a/b", "/a", "/", "/b"),
            ("/", "/", "/c", "/c"),
            ("/a/b", "/", "/", "/a/b"),
        ] {
            assert_eq!(moved(path, from, to), expected);
        }
    }
}
