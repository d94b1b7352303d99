use clap::Args;
use serde_json::json;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::data::{self, DataForm};
use crate::output::{CommandOutput, TextReport};
use crate::{node, path};

/// The arguments of `zkc get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
    /// Also show the metadata
    #[arg(long)]
    stat: bool,
    #[command(flatten)]
    form: DataForm,
}

impl Get {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        let (data, stat) = zk.get_data(&self.path).undecompressed().with_stat().await?;
        let mut text = self.form.text(&data)?;
        if self.stat {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&node::stat_text(&self.path, &stat));
        }
        let mut value = json!({ "path": self.path, "data": data::value(&data) });
        if self.stat {
            value["stat"] = node::stat_value(&self.path, &stat);
        }
        let report = TextReport::new(text, value).names([self.path]);
        Ok(self.form.with_bytes(report, data).into())
    }
}
