use std::path::PathBuf;

use clap::Args;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, TextReport};

/// The arguments of `zkc man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write the pages of all commands into this folder [default: print the page of `zkc`]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Man {
    #[expect(clippy::unused_async, reason = "the signature of all commands")]
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        if let Some(folder) = self.folder {
            std::fs::create_dir_all(&folder)?;
            clap_mangen::generate_to(app.grammar().command(), &folder)?;
            return Ok(CommandOutput::nothing());
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(app.grammar().command()).render(&mut page)?;
        let text = String::from_utf8_lossy(&page).into_owned();
        Ok(TextReport::new(text.as_str(), text.as_str()).into())
    }
}
