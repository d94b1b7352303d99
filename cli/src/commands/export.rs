use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use zk_curator_ops::Progress;
use zk_curator_ops::transfer::ExportedTree;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, TextReport};
use crate::progress::ProgressLine;
use crate::unreadable::NameUnreadable;
use crate::{path, transfer};

/// The arguments of `zkc export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Root of the nodes
    #[arg(value_parser = path::parse)]
    path: String,
    /// Write a directory for each node, with its data in the file _data, instead of one document;
    /// must not exist. `-` is standard output, which gets the document
    folder: Option<PathBuf>,
}

impl Export {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        let progress = ProgressLine::of_subtree(app.out(), "export", zk, &self.path).await;
        let tree = ExportedTree::read(zk, &self.path, Progress::new(&progress.counter())).await?;
        drop(progress);
        let report = match self.folder.filter(|folder| !transfer::is_standard(folder)) {
            None => {
                let document = tree.document();
                let text = format!("{document:#}");
                TextReport::new(text.as_str(), document).raw(text.into())
            }
            Some(folder) => {
                tree.write_directories(&folder)?;
                let nodes = tree.records.len();
                TextReport::new(format!("{nodes} nodes"), json!({ "nodes": nodes }))
            }
        };
        Ok(tree.unreadable.complete(app.out(), report))
    }
}
