//! Paths on the command line.

use clap::{Arg, Command};
use zk_curator::CuratorFramework;

use crate::exit::CommandFailure;

/// Returns the path in ZooKeeper's form: a missing slash at the start is added, and those at the
/// end are removed.
pub(crate) fn normal(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    match trimmed {
        "" => "/".to_owned(),
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        relative => format!("/{relative}"),
    }
}

/// Parses an argument of the command line.
#[expect(clippy::unnecessary_wraps, reason = "the signature of a parser")]
pub(crate) fn parse(path: &str) -> Result<String, String> {
    Ok(normal(path))
}

/// The names of arguments that are paths of nodes.
const ARGUMENTS: [&str; 4] = ["path", "paths", "source", "target"];

/// Changes all arguments of a command tree that are paths.
pub(crate) fn map_arguments(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    let names: Vec<_> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| {
        let is_path = arg.is_positional() && ARGUMENTS.contains(&arg.get_id().as_str());
        if is_path { change(arg) } else { arg }
    });
    names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| map_arguments(command, change))
    })
}

/// Makes a command tree understand paths relative to a node, which is also the default of optional
/// paths.
#[cfg(feature = "shell")]
pub(crate) fn relative_to(command: Command, at: &str) -> Command {
    map_arguments(command, &|arg| {
        let from = at.to_owned();
        let has_default = !arg.get_default_values().is_empty();
        let arg = arg.value_parser(move |given: &str| Ok::<_, String>(absolute(&from, given)));
        if has_default { arg.default_value(at.to_owned()) } else { arg }
    })
}

/// Returns a path relative to a node, with `.` and `..`.
#[cfg(feature = "shell")]
pub(crate) fn absolute(at: &str, given: &str) -> String {
    let whole = if given.starts_with('/') { given.to_owned() } else { join(at, given) };
    let mut names: Vec<&str> = Vec::new();
    for name in whole.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Returns the path of a child.
pub(crate) fn join(parent: &str, name: &str) -> String {
    if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") }
}

/// Returns the path of the parent, and the name.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => ("/", path),
    }
}

/// Returns the ancestors of a path, from the root down, without the path itself.
pub(crate) fn ancestors(path: &str) -> Vec<String> {
    let ends = path.match_indices('/').map(|(end, _)| end);
    ends.map(|end| if end == 0 { "/".to_owned() } else { path[..end].to_owned() }).collect()
}

/// Returns `true` if `path` is `root` or below it.
pub(crate) fn is_within(path: &str, root: &str) -> bool {
    root == "/"
        || path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the path with another root.
pub(crate) fn moved(path: &str, from: &str, to: &str) -> String {
    let rest = if from == "/" { path } else { path.strip_prefix(from).unwrap_or(path) };
    match rest.trim_start_matches('/') {
        "" => to.to_owned(),
        rest => join(to, rest),
    }
}

/// The node of the servers.
const SYSTEM: &str = "/zookeeper";

/// Returns `true` if a node belongs to the servers: the chroot and the namespace are part of its
/// path.
pub(crate) fn is_system(zk: &CuratorFramework, path: &str) -> bool {
    is_within(&zk.server_path(path), SYSTEM)
}

/// Returns the path of the node of the servers below a root; `None` if it is not below it.
pub(crate) fn system_below(zk: &CuratorFramework, root: &str) -> Option<&'static str> {
    (root == "/" && zk.server_path(root) == "/").then_some(SYSTEM)
}

/// Refuses the nodes that no command changes recursively: the root, and those of the servers.
pub(crate) fn refuse_system(zk: &CuratorFramework, path: &str) -> Result<(), CommandFailure> {
    if is_system(zk, path) || zk.server_path(path) == "/" {
        return Err(CommandFailure::usage(format!("refused: {path} belongs to the servers")));
    }
    if path == "/" {
        return Err(CommandFailure::usage("refused: / is the root of the namespace or chroot"));
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

    #[cfg(feature = "shell")]
    #[test]
    fn relative_paths_are_resolved() {
        for (given, path) in
            [("b", "/a/b"), (".", "/a"), ("..", "/"), ("../..", "/"), ("/x/./y//", "/x/y")]
        {
            assert_eq!(absolute("/a", given), path);
        }
    }

    #[test]
    fn ancestors_go_down() {
        assert_eq!(ancestors("/a/b/c"), ["/", "/a", "/a/b"]);
        assert_eq!(ancestors("/a"), ["/"]);
        assert_eq!(split("/a"), ("/", "a"));
        assert_eq!(split("/a/b"), ("/a", "b"));
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && !is_within("/ab", "/a"));
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
