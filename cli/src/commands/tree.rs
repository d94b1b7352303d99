use clap::Args;
use serde_json::{Map, Value, json};
use zk_curator_ops::tree::walk::{self, ListedNode};

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, TextReport, printable, time};
use crate::unreadable::{NameUnreadable, UnreadableReason};
use crate::{node, path};

/// Above this many nodes, `tree` asks before it reads them.
const MANY: u32 = 100_000;

/// The arguments of `zkc tree`.
#[derive(Debug, Args)]
pub(crate) struct TreeCommand {
    /// Root of the subtree
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// Greatest depth below the root
    #[arg(short, long, value_name = "N")]
    depth: Option<usize>,
    /// Show the size of the data, and how many nodes are below each node
    #[arg(long)]
    sizes: bool,
}

impl TreeCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        if self.depth.is_none() {
            ask(app, &self.path).await?;
        }
        let depth = self.depth.unwrap_or(usize::MAX);
        let nodes = walk::list(zk, &self.path, depth, |_| true).await?;
        let mut unreadable = walk::hidden(&nodes);
        let mut sizes = std::collections::HashMap::new();
        if self.sizes {
            let paths: Vec<_> = nodes.iter().map(|node| node.path.clone()).collect();
            let unread = walk::read(zk, &paths, |node| {
                sizes.insert(node.path, node.data.len());
            });
            unreadable.extend(unread.await?);
        }
        let drawing = TreeDrawing::new(&nodes, sizes);
        let mut text = String::new();
        drawing.draw(0, "", &mut text);
        text.push_str(&format!("\n{} nodes", nodes.len()));
        let report = TextReport::new(text, drawing.value(0))
            .names(nodes.iter().map(|node| node.path.clone()));
        Ok(unreadable.complete(app.out(), report))
    }
}

/// Asks before very many nodes are read.
pub(super) async fn ask(app: &App, path: &str) -> Result<(), CommandFailure> {
    // Servers before 3.6 cannot count.
    let Ok(count) = app.zk().await?.get_all_children_number(path).await else { return Ok(()) };
    if count > MANY {
        app.agree(&format!("{path} has {count} nodes. Continue?")).await
    } else {
        Ok(())
    }
}

/// A subtree, with the places of the children of each node.
struct TreeDrawing<'a> {
    nodes: &'a [ListedNode],
    children: Vec<Vec<usize>>,
    sizes: std::collections::HashMap<String, usize>,
}

impl<'a> TreeDrawing<'a> {
    fn new(nodes: &'a [ListedNode], sizes: std::collections::HashMap<String, usize>) -> Self {
        let places: std::collections::HashMap<_, _> =
            nodes.iter().enumerate().map(|(place, node)| (node.path.as_str(), place)).collect();
        let of = |node: &ListedNode| {
            let mut paths: Vec<_> =
                node.children.iter().map(|name| path::join(&node.path, name)).collect();
            paths.sort_by(|a, b| node::compare(a, b));
            paths.iter().filter_map(|path| places.get(path.as_str()).copied()).collect()
        };
        Self { nodes, children: nodes.iter().map(of).collect(), sizes }
    }

    fn draw(&self, place: usize, indent: &str, text: &mut String) {
        let node = &self.nodes[place];
        let name = if place == 0 { node.path.as_str() } else { path::split(&node.path).1 };
        text.push_str(&printable(name));
        if let Some(size) = self.sizes.get(&node.path) {
            text.push_str(&format!("  {}", time::size(*size as u64)));
        }
        if let Some(kind) = node.hidden {
            text.push_str(&format!("  ({})", UnreadableReason::from(kind)));
        }
        let hidden = node.children.len() - self.children[place].len();
        if hidden > 0 {
            text.push_str(&format!("  … {hidden} below"));
        }
        let last = self.children[place].len().saturating_sub(1);
        for (index, child) in self.children[place].iter().enumerate() {
            let (branch, below) =
                if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            text.push('\n');
            text.push_str(indent);
            text.push_str(branch);
            self.draw(*child, &format!("{indent}{below}"), text);
        }
    }

    fn value(&self, place: usize) -> Value {
        let node = &self.nodes[place];
        let children = self.children[place].iter().map(|child| {
            let name = path::split(&self.nodes[*child].path).1;
            (name.to_owned(), self.value(*child))
        });
        let children: Map<_, _> = children.collect();
        let mut value = json!({ "children": children });
        if let Some(size) = self.sizes.get(&node.path) {
            value["size"] = json!(size);
        }
        if node.hidden.is_some() {
            value["unreadable"] = json!(true);
        }
        value
    }
}
