use std::time::Duration;

use clap::{Args, ValueEnum};
use globset::Glob;
use regex::Regex;
use zk_curator::{SessionId, Stat};

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, OutputColumn, Rows, number, text, time};
use crate::walk::{self, ListedNode, WalkNode};
use crate::{node, path};

/// The arguments of `zkc find`.
#[derive(Debug, Args)]
pub(crate) struct Find {
    /// Root of the subtree
    #[arg(value_parser = path::parse)]
    path: String,
    /// Names that match this pattern, such as `lock-*`
    #[arg(long, value_name = "GLOB")]
    name: Option<Glob>,
    /// Paths that match this regular expression
    #[arg(long, value_name = "RE")]
    regex: Option<Regex>,
    /// Kind of node
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Option<FindKind>,
    /// Ephemeral nodes of this session, such as 0x100000a1b2c0001
    #[arg(long, value_name = "SESSION", value_parser = session)]
    owner: Option<SessionId>,
    /// Nodes that have not been changed for this time
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    older: Option<Duration>,
    /// Nodes that were changed within this time
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    newer: Option<Duration>,
    /// Nodes with more than this many bytes
    #[arg(long, value_name = "BYTES")]
    larger: Option<usize>,
    /// Nodes without children
    #[arg(long)]
    empty: bool,
    /// Greatest depth below the root
    #[arg(short, long, value_name = "N")]
    depth: Option<usize>,
    /// Do not visit nodes with these names, or anything below them
    #[arg(long, value_name = "GLOB")]
    prune: Vec<Glob>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FindKind {
    /// Persistent nodes, containers, and nodes with a time to live
    Persistent,
    /// Ephemeral nodes
    Ephemeral,
}

const COLUMNS: &[OutputColumn] = &[
    text("path"),
    text("kind").wide(),
    number("size").wide(),
    text("mtime").wide(),
    text("owner").wide(),
];

/// Parses a session in hexadecimal.
pub(crate) fn session(text: &str) -> Result<SessionId, String> {
    let digits = text.trim_start_matches("0x");
    let id = u64::from_str_radix(digits, 16).map_err(|_| format!("not a session: {text}"))?;
    Ok(SessionId::new(id.cast_signed()))
}

impl Find {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        let pruned: Vec<_> = self.prune.iter().map(Glob::compile_matcher).collect();
        let keep = |path: &str| {
            let name = path::split(path).1;
            !pruned.iter().any(|glob| glob.is_match(name))
        };
        let depth = self.depth.unwrap_or(usize::MAX);
        let nodes = walk::list(zk, &self.path, depth, keep).await?;
        // The children of the deepest nodes are not asked for, unless by `--empty`.
        let asked = |node: &&ListedNode| self.empty || node.depth < depth;
        let mut unreadable = walk::hidden(nodes.iter().filter(asked));
        let name = self.name.as_ref().map(Glob::compile_matcher);
        let mut paths: Vec<_> = nodes
            .into_iter()
            .filter(|node| !self.empty || node.hidden.is_none() && node.children.is_empty())
            .map(|node| node.path)
            .filter(|path| name.as_ref().is_none_or(|glob| glob.is_match(path::split(path).1)))
            .filter(|path| self.regex.as_ref().is_none_or(|regex| regex.is_match(path)))
            .collect();
        paths.sort_by(|a, b| node::compare(a, b));
        let mut rows = Rows::new(COLUMNS).plain();
        if !self.needs_stats(app) {
            for path in paths {
                let none = || None::<String>.into();
                rows.push(vec![path.into(), none(), none(), none(), none()]);
            }
            return Ok(unreadable.complete(app.out(), rows));
        }
        let now = time::now_ms();
        let unread = walk::read(zk, &paths, |node| {
            if self.selects(&node, now) {
                rows.push(row(node.path, &node.stat));
            }
        });
        unreadable.extend(unread.await?);
        Ok(unreadable.complete(app.out(), rows))
    }

    /// Returns `true` if the nodes must be read, and not only listed.
    fn needs_stats(&self, app: &App) -> bool {
        use crate::args::OutputFormat;
        self.kind.is_some()
            || self.owner.is_some()
            || self.older.is_some()
            || self.newer.is_some()
            || self.larger.is_some()
            || !matches!(
                app.out().format,
                OutputFormat::Table | OutputFormat::Name | OutputFormat::Raw
            )
    }

    fn selects(&self, node: &WalkNode, now: i64) -> bool {
        let stat = &node.stat;
        let age = time::since(stat.mtime, now);
        let is_kind = |kind| (kind == FindKind::Ephemeral) == stat.is_ephemeral();
        self.kind.is_none_or(is_kind)
            && self.owner.is_none_or(|owner| node::session(stat) == Some(owner))
            && self.older.is_none_or(|least| age >= least)
            && self.newer.is_none_or(|most| age <= most)
            && self.larger.is_none_or(|most| node.data.len() > most)
    }
}

fn row(path: String, stat: &Stat) -> Vec<crate::output::Cell> {
    vec![
        path.into(),
        node::kind(stat).into(),
        stat.data_length.into(),
        time::cell(stat.mtime),
        node::owner(stat).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_hexadecimal() {
        assert_eq!(session("0x1f"), Ok(SessionId::new(31)));
        assert_eq!(session("ffffffffffffffff"), Ok(SessionId::new(-1)));
        assert!(session("0xzz").is_err() && session("").is_err());
    }
}
