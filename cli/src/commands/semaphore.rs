use clap::Args;

use super::lock::LockCommand;
use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::CommandOutput;

/// The arguments of `zkc semaphore`: those of `zkc lock`, with `--permits`.
#[derive(Debug, Args)]
pub(crate) struct Semaphore {
    #[command(flatten)]
    lock: LockCommand,
}

impl Semaphore {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        if !self.lock.has_permits() {
            return Err(CommandFailure::usage(
                "how many permits does the semaphore have? pass --permits N",
            ));
        }
        self.lock.run(app).await
    }
}
