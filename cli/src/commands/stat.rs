use clap::Args;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, TextReport};
use crate::{node, path};

/// The arguments of `zkc stat`.
#[derive(Debug, Args)]
pub(crate) struct StatCommand {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
}

impl StatCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        let Some(stat) = zk.exists(&self.path).await? else {
            return Err(CommandFailure::no_node(&self.path));
        };
        let (text, value) =
            (node::stat_text(&self.path, &stat), node::stat_value(&self.path, &stat));
        Ok(TextReport::new(text, value).names([self.path]).into())
    }
}
