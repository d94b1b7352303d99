use clap::{Args, ValueEnum};
use clap_complete::env::Shells;

use crate::app::App;
use crate::complete::VARIABLE;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, TextReport};

const AFTER_HELP: &str = "\
For bash: source <(zkc completions bash)
Paths are completed at the servers of ZK_CONNECT, or of the current context.";

/// The arguments of `zkc completions`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Completions {
    /// Shell
    #[arg(value_enum)]
    shell: CompletionShell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompletionShell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
    /// PowerShell
    Powershell,
    /// Elvish
    Elvish,
}

impl Completions {
    #[expect(clippy::unused_async, reason = "the signature of all commands")]
    pub(crate) async fn run(self, _app: &App) -> Result<CommandOutput, CommandFailure> {
        let name = self.shell.to_possible_value();
        let name = name.as_ref().map_or("", |value| value.get_name());
        let shells = Shells::builtins();
        let shell = shells.completer(name);
        let shell =
            shell.ok_or_else(|| CommandFailure::usage(format!("no completions for {name}")))?;
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, "zkc", "zkc", "zkc", &mut script)?;
        let text = String::from_utf8_lossy(&script).into_owned();
        Ok(TextReport::new(text.as_str(), text.as_str()).into())
    }
}
