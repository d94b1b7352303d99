use clap::{Args, ValueEnum};
use zk_curator::op::fan_out;
use zk_curator::{ErrorKind, Stat};
use zk_curator_ops::tree::walk;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::node::NodeSnapshot;
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, number, text, time};
use crate::unreadable::NameUnreadable;
use crate::{node, path};

/// The stats that are requested at a time.
const STATS_AT_ONCE: usize = 512;

/// The arguments of `zkc ls`.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Node
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// Also show kind, version, number of children, size, time of the last change and owner
    #[arg(short, long)]
    long: bool,
    /// Also list what is below the children
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Greatest depth below the node, with --recursive; 1 is the children
    #[arg(long, value_name = "N", default_value_t = 100, requires = "recursive", value_parser = clap::value_parser!(u16).range(1..))]
    depth: u16,
    /// Order
    #[arg(long, value_enum, value_name = "KEY", default_value = "name")]
    sort: ListingSort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListingSort {
    /// By name; sequential names by their numbers
    Name,
    /// Oldest first
    Ctime,
    /// Least recently changed first
    Mtime,
    /// Largest first
    Size,
    /// Most children first
    Children,
}

const LONG: &[OutputColumn] = &[
    text("name"),
    text("kind"),
    number("version"),
    number("children"),
    number("size"),
    text("mtime"),
    text("owner"),
    text("ctime").wide(),
    text("czxid").wide(),
];

impl Ls {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        // The node itself has depth 0, and its list has the children.
        let depth = if self.recursive { usize::from(self.depth) - 1 } else { 0 };
        let below = |path: &str| self.path == "/" || path != self.path;
        let nodes = walk::list(zk, &self.path, depth, below).await?;
        let mut unreadable = walk::hidden(&nodes);
        let mut paths: Vec<String> = nodes
            .iter()
            .flat_map(|node| node.children.iter().map(|name| path::join(&node.path, name)))
            .collect();
        paths.sort_by(|a, b| node::compare(a, b));
        let shown = |path: &str| {
            let relative = path.strip_prefix(self.path.as_str()).unwrap_or(path);
            relative.trim_start_matches('/').to_owned()
        };
        if !self.long && self.sort == ListingSort::Name {
            let mut rows = Rows::new(const { &[text("name")] }).plain();
            for path in &paths {
                rows.push(vec![shown(path).into()]);
            }
            return Ok(unreadable.complete(app.out(), rows));
        }
        let stats = fan_out(STATS_AT_ONCE, paths.iter().map(|path| zk.exists(path))).await;
        let (mut nodes, mut hidden) = (Vec::new(), Vec::new());
        for (path, stat) in paths.into_iter().zip(stats) {
            match NodeSnapshot::of(stat)? {
                NodeSnapshot::Present(stat) => nodes.push((path, stat)),
                NodeSnapshot::Hidden => hidden.push(path),
                // It was deleted after the list was read.
                NodeSnapshot::Missing => {}
            }
        }
        self.sort.order(&mut nodes);
        let mut rows = Rows::new(if self.long { LONG } else { &LONG[..1] });
        for (path, stat) in &nodes {
            let mut cells = vec![Cell::from(shown(path))];
            if self.long {
                cells.extend(long(stat));
            }
            rows.push(cells);
        }
        for path in &hidden {
            let mut cells = vec![Cell::from(shown(path))];
            if self.long {
                cells.resize(LONG.len(), None::<String>.into());
            }
            rows.push(cells);
        }
        unreadable.extend(hidden.into_iter().map(|path| (path, ErrorKind::NoAuth)));
        Ok(unreadable.complete(app.out(), rows))
    }
}

impl ListingSort {
    fn order(self, nodes: &mut [(String, Stat)]) {
        match self {
            Self::Name => {}
            Self::Ctime => nodes.sort_by_key(|(_, stat)| stat.ctime),
            Self::Mtime => nodes.sort_by_key(|(_, stat)| stat.mtime),
            Self::Size => nodes.sort_by_key(|(_, stat)| std::cmp::Reverse(stat.data_length)),
            Self::Children => nodes.sort_by_key(|(_, stat)| std::cmp::Reverse(stat.num_children)),
        }
    }
}

fn long(stat: &Stat) -> Vec<Cell> {
    vec![
        node::kind(stat).into(),
        stat.version.into(),
        stat.num_children.into(),
        stat.data_length.into(),
        time::cell(stat.mtime),
        node::owner(stat).into(),
        time::cell(stat.ctime),
        node::hex(stat.czxid).into(),
    ]
}
