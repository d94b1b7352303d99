use clap::Args;

use super::lock::Lock;
use crate::app::App;
use crate::exit::Failure;
use crate::output::Answer;

/// The arguments of `zkc semaphore`: those of `zkc lock`, with `--leases`.
#[derive(Debug, Args)]
pub(crate) struct Semaphore {
    #[command(flatten)]
    lock: Lock,
}

impl Semaphore {
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        if !self.lock.is_lease() {
            return Err(Failure::usage("how many leases does the semaphore have? pass --leases N"));
        }
        self.lock.run(app).await
    }
}
