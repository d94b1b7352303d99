//! `zkc`: ZooKeeper on the command line.
//!
//! A command is a file in `commands`: it parses its arguments, calls the libraries, and returns a
//! [`CommandOutput`], which `output` prints in the requested format. `app` connects, and
//! refuses writes where they are not allowed; `exit` has the exit codes, and `help` the examples.
//! `supervise` runs a command under a lock.

mod app;
mod args;
#[cfg(unix)]
mod captured;
mod commands;
mod complete;
mod context;
#[cfg(all(test, unix, feature = "serve", feature = "shell", feature = "tui", feature = "web"))]
mod documented;
mod exit;
mod help;
mod merge;
mod node;
mod output;
mod path;
mod private;
mod probe;
mod program;
mod progress;
#[cfg(unix)]
mod restart_command;
#[cfg(feature = "shell")]
mod shell;
mod stdin;
mod stop;
#[cfg(unix)]
mod supervise;
mod transfer;
#[cfg(feature = "tui")]
mod tui;
mod unreadable;
#[cfg(feature = "web")]
mod web_server;
mod who;
mod words;

use std::ffi::OsString;
#[cfg(any(feature = "shell", feature = "tui"))]
use std::pin::Pin;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::app::{App, Grammar};
use crate::args::Global;
use crate::commands::Command;
use crate::exit::{CommandFailure, Exit};
#[cfg(any(feature = "shell", feature = "tui"))]
use crate::output::CommandOutput;

/// ZooKeeper on the command line.
#[derive(Debug, Parser)]
#[command(name = "zkc", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(code) = supervise::run_exec() {
        return code.into();
    }
    complete::answer_shell(&WholeTree);
    let words: Vec<_> = std::env::args_os().collect();
    let parsed = parse(&words);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let failed = error.use_stderr();
            // Nothing can be done about a terminal that is gone.
            drop(error.print());
            return if failed { Exit::USAGE } else { Exit::DONE }.into();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(CommandFailure::from).and_then(|runtime| {
        let outcome = runtime.block_on(run(cli));
        // A thread that waits for input of a terminal ends with the process.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::warn(&failure.to_string());
            failure.exit().into()
        }
    }
}

/// Parses a command line. Only one that asks for help needs the groups and the examples.
fn parse(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    args::parse(Cli::command(), words).or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            args::parse(WholeTree.command(), words)
        }
        _ => Err(error),
    })
}

async fn run(cli: Cli) -> Result<Exit, CommandFailure> {
    let app = App::new(cli.global, &WholeTree)?;
    let outcome = match cli.command.run(&app).await {
        Err(failure) => Err(app.explain(failure).await),
        Ok(answer) => match app.out().print(&answer) {
            Ok(()) => answer.printed().await,
            Err(failure) => Err(failure),
        },
    };
    let closed = app.close().await;
    let exit = outcome?;
    closed.map(|()| exit)
}

/// The tree of all commands.
#[derive(Debug)]
struct WholeTree;

impl Grammar for WholeTree {
    fn command(&self) -> clap::Command {
        help::complete(Cli::command())
    }

    #[cfg(any(feature = "shell", feature = "tui"))]
    fn run<'a>(
        &self,
        app: &'a App,
        matches: &ArgMatches,
    ) -> Pin<Box<dyn Future<Output = Result<CommandOutput, CommandFailure>> + 'a>> {
        let cli = Cli::from_arg_matches(matches);
        Box::pin(async move {
            let cli = cli.map_err(|error| CommandFailure::usage(error.to_string()))?;
            cli.command.run(app).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_tree_is_consistent() {
        WholeTree.command().debug_assert();
    }
}
