use clap::Args;

use crate::app::App;
use crate::commands::cp::CopyArguments;
use crate::exit::CommandFailure;
use crate::output::CommandOutput;

/// The arguments of `zkc mv`.
#[derive(Debug, Args)]
pub(crate) struct Mv {
    #[command(flatten)]
    paths: CopyArguments,
}

impl Mv {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        self.paths.run(app, true).await
    }
}
