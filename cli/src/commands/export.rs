use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, TextReport};
use crate::path;
use crate::progress::ProgressLine;
use crate::transfer::export::{directories, document};
use crate::transfer::source::SourceWalk;
use crate::unreadable::UnreadableNodes;

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
        let (mut records, mut walk) = (Vec::new(), SourceWalk::new(&self.path, false));
        let progress = ProgressLine::of_subtree(app.out(), "export", zk, &self.path).await;
        loop {
            let found = walk.next(zk).await?;
            if found.is_empty() {
                break;
            }
            progress.add(found.len());
            records.extend(found.into_iter().map(|node| node.record));
        }
        drop(progress);
        let unreadable: UnreadableNodes = walk.into_unreadable();
        let report = match self.folder.filter(|folder| folder != Path::new("-")) {
            None => {
                let document = document(records);
                let text = format!("{document:#}");
                TextReport::new(text.as_str(), document).raw(text.into())
            }
            Some(folder) => {
                directories(&records, &folder)?;
                let nodes = records.len();
                TextReport::new(format!("{nodes} nodes"), json!({ "nodes": nodes }))
            }
        };
        Ok(unreadable.complete(app.out(), report))
    }
}
