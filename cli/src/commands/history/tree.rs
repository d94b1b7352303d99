use std::borrow::Cow;

use clap::Args;
use serde_json::{Value, json};
use zk_curator_ops::history::{At, Error, NodeRef};

use super::arguments::{self, FileArguments};
use super::replay::replay;
use crate::app::App;
use crate::args::OutputFormat;
use crate::exit::CommandFailure;
use crate::node::hex;
use crate::output::stream::Document;
use crate::output::{CommandOutput, printable, time};
use crate::path;

/// The arguments of `zkc history tree`.
#[derive(Debug, Args)]
pub(crate) struct HistoryTree {
    #[command(flatten)]
    files: FileArguments,
    /// Root of the subtree, by its path on the servers
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// Moment: a transaction such as 0x100000012, a time in UTC such as 2026-11-30T14:02:00Z, or
    /// ago such as 10m [default: the end of the logs]
    #[arg(long, value_name = "MOMENT", value_parser = arguments::moment)]
    at: Option<At>,
    /// Greatest depth below the root
    #[arg(short, long, value_name = "N")]
    depth: Option<usize>,
}

impl HistoryTree {
    /// Draws the subtree. With `-o wide`, each node has its kind, version, size and time.
    pub(super) fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let at = self.at.unwrap_or(At::Latest);
        let (replayed, exit) = replay(app, &self.files, &self.path, at)?;
        if replayed.tree.get(&self.path).is_none() {
            return Err(Error::NoSuchNode { path: self.path, zxid: replayed.zxid }.into());
        }
        let is_wide = app.out().format == OutputFormat::Wide;
        let deepest = self.depth.unwrap_or(usize::MAX);
        let (mut stream, mut drawing) = (app.out().list(), Drawing::default());
        for node in replayed.tree.walk(&self.path) {
            let (depth, line) = drawing.line(&node);
            if depth > deepest {
                continue;
            }
            if !stream.print(&NodeDocument { node, line, is_wide })? {
                break;
            }
        }
        let count = stream.count();
        stream.finish()?;
        let when = replayed.time_ms.map(|ms| format!(" at {}", time::exact(ms)));
        let (zxid, when) = (hex(replayed.zxid), when.unwrap_or_default());
        app.out().say(format!("{count} nodes, after transaction {zxid}{when}"));
        Ok(exit.into())
    }
}

/// A node as a document.
#[derive(Debug)]
struct NodeDocument<'t> {
    node: NodeRef<'t>,
    line: String,
    is_wide: bool,
}

impl Document for NodeDocument<'_> {
    fn text(&self) -> Cow<'_, str> {
        if self.is_wide {
            return format!("{}  {}", self.line, facts(&self.node)).into();
        }
        self.line.as_str().into()
    }

    fn value(&self) -> Value {
        value(&self.node)
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        Some(self.node.path().into())
    }
}

/// Draws branches, node by node, parents before their children.
#[derive(Debug, Default)]
struct Drawing {
    /// The number of children that are left, of each node on the path.
    left: Vec<usize>,
}

impl Drawing {
    /// Returns the depth of the next node, and its line.
    fn line(&mut self, node: &NodeRef<'_>) -> (usize, String) {
        while self.left.last() == Some(&0) {
            self.left.pop();
        }
        if let Some(siblings) = self.left.last_mut() {
            *siblings -= 1;
        }
        let depth = self.left.len();
        let mut line = String::new();
        for (place, left) in self.left.iter().enumerate() {
            line.push_str(match (place + 1 == depth, *left == 0) {
                (true, true) => "└─ ",
                (true, false) => "├─ ",
                (false, true) => "   ",
                (false, false) => "│  ",
            });
        }
        let name = if depth == 0 { node.path() } else { node.name().to_owned() };
        line.push_str(&printable(&name));
        self.left.push(node.child_count());
        (depth, line)
    }
}

/// Returns the kind, the version, the size and the time of the last change of a node.
fn facts(node: &NodeRef<'_>) -> String {
    let stat = node.stored_stat();
    let size = time::size(node.data().map_or(0, |data| data.len() as u64));
    let (kind, version) = (node.owner().kind(), stat.version);
    format!("{kind}  v{version}  {size}  {}", time::exact(stat.mtime))
}

/// Returns a node for programs.
pub(super) fn value(node: &NodeRef<'_>) -> Value {
    let stat = node.stat();
    let owner = node.owner();
    json!({
        "path": node.path(),
        "kind": owner.kind(),
        "owner": owner.session().map(|session| session.to_string()),
        "ttl_ms": owner.ttl_ms(),
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "czxid": hex(stat.czxid),
        "mzxid": hex(stat.mzxid),
        "pzxid": hex(stat.pzxid),
        "ctime": time::exact(stat.ctime),
        "mtime": time::exact(stat.mtime),
        "size": stat.data_length,
        "children": stat.num_children,
    })
}
