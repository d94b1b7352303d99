//! Completion of commands, options and paths: for shells, and for `zkc shell`.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::app::{App, Grammar};
use crate::args::Global;
use crate::path;

/// The variable with which a shell asks for completions.
pub(crate) const VARIABLE: &str = "COMPLETE";
/// A shell does not wait longer than this for names.
pub(crate) const WITHIN: Duration = Duration::from_millis(500);

/// Returns the names of the children of a node.
pub(crate) type ChildLister = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// Adds the completion of paths to a command tree.
pub(crate) fn with_paths(command: Command, children: &ChildLister) -> Command {
    path::map_arguments(command, &|arg| arg.add(completer(Arc::clone(children))))
}

fn completer(children: ChildLister) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| -> Vec<CompletionCandidate> {
        let current = current.to_string_lossy();
        let (parent, start) = match current.rsplit_once('/') {
            Some((parent, start)) => (path::normal(parent), start),
            None => ("/".to_owned(), current.as_ref()),
        };
        let mut names = children(&parent);
        names.retain(|name| name.starts_with(start));
        names.sort_unstable();
        names.iter().map(|name| CompletionCandidate::new(path::join(&parent, name))).collect()
    })
}

/// Answers a shell that asks for completions, and then does not return.
pub(crate) fn answer_shell(grammar: &'static dyn Grammar) {
    if std::env::var_os(VARIABLE).is_some() {
        let children: ChildLister = Arc::new(|parent| children_of_environment(grammar, parent));
        let tree = || with_paths(grammar.command(), &children);
        clap_complete::CompleteEnv::with_factory(tree).complete();
    }
}

/// Lists the children of a node, at the servers of the environment and the current context: a
/// shell does not say what the line has. Returns none after an error.
fn children_of_environment(grammar: &'static dyn Grammar, parent: &str) -> Vec<String> {
    let global = Global {
        servers: std::env::var("ZK_CONNECT").ok(),
        context: std::env::var("ZKC_CONTEXT").ok(),
        config: std::env::var_os("ZKC_CONFIG").map(Into::into),
        timeout: WITHIN,
        session_timeout: Duration::from_secs(10),
        ..Global::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(app)) = (runtime, App::new(global, grammar)) else { return Vec::new() };
    runtime.block_on(async {
        let listing = async {
            let names = app.zk().await.ok()?.children(parent).await.ok();
            drop(app.close().await);
            names
        };
        tokio::time::timeout(WITHIN, listing).await.ok().flatten().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Arg;

    use super::*;

    fn completions(line: &[&str]) -> Vec<String> {
        let children: ChildLister = Arc::new(|parent| match parent {
            "/" => vec!["locks".to_owned(), "queues".to_owned()],
            "/locks" => vec!["a".to_owned(), "b".to_owned()],
            _ => Vec::new(),
        });
        let tree = Command::new("zkc")
            .subcommand(Command::new("get").arg(Arg::new("path")))
            .subcommand(Command::new("rm").arg(Arg::new("paths").num_args(1..)));
        let words: Vec<OsString> = line.iter().map(Into::into).collect();
        let last = words.len() - 1;
        let mut tree = with_paths(tree, &children);
        let found = clap_complete::engine::complete(&mut tree, words, last, None);
        let found = found.expect("completions");
        found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn commands_and_paths_are_completed() {
        assert_eq!(completions(&["zkc", "ge"]), ["get"]);
        assert_eq!(completions(&["zkc", "get", "/l"]), ["/locks"]);
        assert_eq!(completions(&["zkc", "get", "/locks/"]), ["/locks/a", "/locks/b"]);
        assert_eq!(completions(&["zkc", "rm", "/locks/a", "/q"]), ["/queues"]);
    }
}
