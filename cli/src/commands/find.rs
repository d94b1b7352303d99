use std::time::Duration;

use clap::{Args, ValueEnum};
use regex::Regex;
use zk_curator::{SessionId, Stat};
use zk_curator_ops::pattern::NamePattern;
use zk_curator_ops::tree::find::{self, FindCriteria};

use crate::app::App;
use crate::args::OutputFormat;
use crate::exit::CommandFailure;
use crate::output::{Cell, CommandOutput, OutputColumn, Rows, number, text, time};
use crate::unreadable::NameUnreadable;
use crate::{node, path};

/// The arguments of `zkc find`.
#[derive(Debug, Args)]
pub(crate) struct Find {
    /// Root of the subtree
    #[arg(value_parser = path::parse)]
    path: String,
    /// Names that match this pattern, such as `lock-*`
    #[arg(long, value_name = "GLOB")]
    name: Option<NamePattern>,
    /// Paths that match this regular expression
    #[arg(long, value_name = "RE")]
    regex: Option<Regex>,
    /// Kind of node
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Option<FindKind>,
    /// Ephemeral nodes of this session, such as 0x100000a1b2c0001
    #[arg(long, value_name = "SESSION", value_parser = node::parse_session)]
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
    prune: Vec<NamePattern>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FindKind {
    /// Persistent nodes, containers, and nodes with a time to live
    Persistent,
    /// Ephemeral nodes
    Ephemeral,
}

impl From<FindKind> for find::FindKind {
    fn from(kind: FindKind) -> Self {
        match kind {
            FindKind::Persistent => Self::Persistent,
            FindKind::Ephemeral => Self::Ephemeral,
        }
    }
}

const COLUMNS: &[OutputColumn] = &[
    text("path"),
    text("kind").wide(),
    number("size").wide(),
    text("mtime").wide(),
    text("owner").wide(),
];

impl Find {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        let path = self.path.clone();
        let found = self.criteria(app).find(zk, &path).await?;
        let mut rows = Rows::new(COLUMNS).plain();
        for node in found.nodes {
            rows.push(match node.stat {
                Some(stat) => row(node.path, &stat),
                None => {
                    let none = || None::<String>.into();
                    vec![node.path.into(), none(), none(), none(), none()]
                }
            });
        }
        Ok(found.unreadable.complete(app.out(), rows))
    }

    fn criteria(self, app: &App) -> FindCriteria {
        let mut criteria = FindCriteria::new();
        if let Some(name) = self.name {
            criteria = criteria.name(name);
        }
        if let Some(regex) = self.regex {
            criteria = criteria.regex(regex);
        }
        if let Some(kind) = self.kind {
            criteria = criteria.kind(kind.into());
        }
        if let Some(owner) = self.owner {
            criteria = criteria.owner(owner);
        }
        if let Some(least) = self.older {
            criteria = criteria.older(least);
        }
        if let Some(most) = self.newer {
            criteria = criteria.newer(most);
        }
        if let Some(bytes) = self.larger {
            criteria = criteria.larger(bytes);
        }
        if self.empty {
            criteria = criteria.empty();
        }
        if let Some(depth) = self.depth {
            criteria = criteria.depth(depth);
        }
        let shows_paths_only = matches!(
            app.out().format,
            OutputFormat::Table | OutputFormat::Name | OutputFormat::Raw
        );
        if !shows_paths_only {
            criteria = criteria.with_stats();
        }
        self.prune.into_iter().fold(criteria, FindCriteria::prune)
    }
}

fn row(path: String, stat: &Stat) -> Vec<Cell> {
    vec![
        path.into(),
        node::kind(stat).into(),
        stat.data_length.into(),
        time::cell(stat.mtime),
        node::owner(stat).into(),
    ]
}
