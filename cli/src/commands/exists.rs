use clap::Args;
use serde_json::json;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport};
use crate::path;

/// The arguments of `zkc exists`.
#[derive(Debug, Args)]
pub(crate) struct Exists {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
}

impl Exists {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let exists = app.zk().await?.exists(&self.path).await?.is_some();
        let value = json!({ "path": self.path, "exists": exists });
        let exit = if exists { Exit::DONE } else { Exit::NO };
        Ok(CommandOutput::from(TextReport::new("", value)).with_exit(exit))
    }
}
