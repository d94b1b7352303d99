use clap::Args;

use crate::app::App;
use crate::commands::cp::Paths;
use crate::exit::Failure;
use crate::output::Answer;

/// The arguments of `zkc mv`.
#[derive(Debug, Args)]
pub(crate) struct Mv {
    #[command(flatten)]
    paths: Paths,
}

impl Mv {
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        self.paths.run(app, true).await
    }
}
