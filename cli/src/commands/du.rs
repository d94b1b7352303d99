use std::collections::BTreeMap;

use clap::Args;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, number, text, time};
use crate::{path, walk};

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

#[derive(Debug, Default)]
struct Usage {
    bytes: usize,
    nodes: usize,
    largest: usize,
}

impl Du {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        super::tree::ask(app, &self.path).await?;
        let nodes = walk::list(zk, &self.path, usize::MAX, |_| true).await?;
        let mut unreadable = walk::hidden(&nodes);
        let paths: Vec<_> = nodes.into_iter().map(|node| node.path).collect();
        let depth = if self.summary { 0 } else { self.depth };
        let root_depth = steps(&self.path);
        let mut usages = BTreeMap::<String, Usage>::new();
        let unread = walk::read(zk, &paths, |node| {
            let size = node.data.len();
            let mut above = path::ancestors(&node.path);
            above.push(node.path);
            let counted = above.into_iter().filter(|path| path::is_within(path, &self.path));
            for path in counted.filter(|path| steps(path) <= root_depth + depth) {
                let usage = usages.entry(path).or_default();
                usage.bytes += size;
                usage.nodes += 1;
                usage.largest = usage.largest.max(size);
            }
        });
        unreadable.extend(unread.await?);
        let mut usages: Vec<_> = usages.into_iter().collect();
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
        Ok(unreadable.complete(app.out(), rows))
    }
}

/// Returns the number of steps from the root.
fn steps(path: &str) -> usize {
    if path == "/" { 0 } else { path.matches('/').count() }
}
