//! Paths on the command line.

use clap::{Arg, Command};
pub(crate) use zk_curator_ops::path::{ancestors, join, moved, normal, refuse_system, split};

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

#[cfg(all(test, feature = "shell"))]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_resolved() {
        for (given, path) in
            [("b", "/a/b"), (".", "/a"), ("..", "/"), ("../..", "/"), ("/x/./y//", "/x/y")]
        {
            assert_eq!(absolute("/a", given), path);
        }
    }
}
