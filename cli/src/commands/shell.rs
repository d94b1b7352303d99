use std::path::PathBuf;

use clap::Args;

use crate::app::App;
use crate::exit::{Exit, Failure};
use crate::output::Answer;
use crate::shell;

/// The arguments of `zkc shell`.
///
/// Every command of `zkc` works in the shell, in one session. Paths may be relative to the current
/// node. `cd`, `pwd`, `exit` and `!COMMAND` are added, and `| COMMAND` passes the output to a
/// program.
#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Run the lines of this file instead of those of the terminal; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Continue after a line that has failed
    #[arg(short, long, requires = "file")]
    keep_going: bool,
}

impl Shell {
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        let exit = match self.file {
            Some(file) => shell::run_script(app, &file, self.keep_going).await?,
            None => shell::run_terminal(app).await?,
        };
        Ok(if exit == Exit::DONE { Answer::nothing() } else { exit.into() })
    }
}
