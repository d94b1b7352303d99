use std::path::PathBuf;

use clap::Args;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::CommandOutput;
use crate::shell;

const AFTER_HELP: &str = "\
Every command of `zkc` works in the shell, in one session. Paths may be relative to the current \
node. The shell adds these lines:
  cd [PATH]             changes the current node
  pwd                   prints the current node
  exit, quit            ends the shell
  !COMMAND              runs a command of the system
  ... | COMMAND         passes the output to a program";

/// The arguments of `zkc shell`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ShellCommand {
    /// Run the lines of this file instead of those of the terminal; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Continue after a line that has failed
    #[arg(short, long, requires = "file")]
    keep_going: bool,
}

impl ShellCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let exit = match self.file {
            Some(file) => shell::run_script(app, &file, self.keep_going).await?,
            None => shell::run_terminal(app).await?,
        };
        Ok(if exit == Exit::DONE { CommandOutput::nothing() } else { exit.into() })
    }
}
