use clap::Args;
use zk_curator_ops::tree::du;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, number, text, time};
use crate::path;
use crate::unreadable::NameUnreadable;

/// The arguments of `zkc du`.
#[derive(Debug, Args)]
pub(crate) struct Du {
    /// Root of the subtree
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// Greatest depth of the nodes that are shown
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// Show only the root
    #[arg(long, conflicts_with = "depth")]
    summary: bool,
    /// Show only the largest subtrees
    #[arg(long, value_name = "N")]
    top: Option<usize>,
}

const COLUMNS: &[OutputColumn] =
    &[text("path"), number("size"), number("nodes"), number("largest")];

impl Du {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        super::tree::ask(app, &self.path).await?;
        let depth = if self.summary { 0 } else { self.depth };
        let found = du::usage(zk, &self.path, depth).await?;
        let mut usages: Vec<_> = found.subtrees.into_iter().collect();
        if let Some(top) = self.top {
            usages.sort_by_key(|(_, usage)| std::cmp::Reverse(usage.bytes));
            usages.truncate(top);
        }
        let mut rows = Rows::new(COLUMNS);
        for (path, usage) in usages {
            let size = |bytes: usize| Cell::new(time::size(bytes as u64), bytes);
            rows.push(vec![
                path.into(),
                size(usage.bytes),
                usage.nodes.into(),
                size(usage.largest),
            ]);
        }
        Ok(found.unreadable.complete(app.out(), rows))
    }
}
