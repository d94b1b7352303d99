use std::time::Duration;

use clap::Args;
use globset::Glob;
use zk_curator::op::fan_out;
use zk_curator::{CuratorFramework, ErrorKind, Stat};

use crate::app::App;
use crate::exit::{Exit, Failure};
use crate::output::{Answer, Rows, text, time};
use crate::{path, walk};

/// The deletions that are requested at a time.
const AT_ONCE: usize = 256;

/// The arguments of `zkc rm`.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Nodes
    #[arg(required = true, value_parser = path::parse)]
    paths: Vec<String>,
    /// Also delete what is below the nodes
    #[arg(short, long)]
    recursive: bool,
    /// Delete only children whose names match this pattern, such as `tmp-*`
    #[arg(long, value_name = "GLOB")]
    matching: Option<Glob>,
    /// Delete only children that have not been changed for this time
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,
    /// Delete only children without children
    #[arg(long)]
    empty: bool,
    /// Only if the node has this version
    #[arg(long, value_name = "N", conflicts_with_all = ["recursive", "matching", "older_than", "empty"])]
    version: Option<i32>,
    /// Succeed if a node does not exist
    #[arg(short, long)]
    force: bool,
    /// Print what would be deleted, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Rm {
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        for path in &self.paths {
            path::refuse_system(path)?;
        }
        let zk = app.zk().await?;
        let mut targets = Vec::new();
        for path in &self.paths {
            targets.extend(self.targets(zk, path).await?);
        }
        if self.dry_run {
            return Ok(listed(&targets));
        }
        if targets.len() > 1 {
            app.agree(&format!("delete {} nodes?", targets.len())).await?;
        }
        let zk = app.zk_to_change().await?;
        let failed = self.delete(zk, &targets).await?;
        match failed.as_slice() {
            [] => Ok(Answer::nothing()),
            [first, ..] => {
                let deleted = targets.len() - failed.len();
                let text = format!("deleted {deleted} nodes, not {}: {first}", failed.len());
                Err(Failure::new(Exit::PARTLY, text))
            }
        }
    }

    /// Returns `true` if the options select children of the nodes.
    const fn selects_children(&self) -> bool {
        self.matching.is_some() || self.older_than.is_some() || self.empty
    }

    /// Returns the nodes to delete at or below a path, deepest first.
    async fn targets(&self, zk: &CuratorFramework, path: &str) -> Result<Vec<String>, Failure> {
        let roots = if self.selects_children() {
            self.selected(zk, path).await?
        } else {
            vec![path.to_owned()]
        };
        if !self.recursive {
            return Ok(roots);
        }
        let mut all = Vec::new();
        for root in roots {
            match walk::list(zk, &root, usize::MAX, |_| true).await {
                Ok(nodes) => all.extend(nodes.into_iter().rev().map(|node| node.path)),
                Err(error) if error.kind() == ErrorKind::NoNode && self.force => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }

    /// Returns the children that the options select.
    async fn selected(&self, zk: &CuratorFramework, path: &str) -> Result<Vec<String>, Failure> {
        let matching = self.matching.as_ref().map(Glob::compile_matcher);
        let mut names = zk.children(path).await?;
        names.retain(|name| matching.as_ref().is_none_or(|glob| glob.is_match(name)));
        names.sort_unstable();
        let children: Vec<_> = names.iter().map(|name| path::join(path, name)).collect();
        let stats = fan_out(AT_ONCE, children.iter().map(|child| zk.exists(child))).await;
        let now = time::now_ms();
        let is_selected = |stat: &Stat| {
            let age = time::since(stat.mtime, now);
            self.older_than.is_none_or(|least| age >= least)
                && (!self.empty || stat.num_children == 0)
        };
        let mut selected = Vec::new();
        for (child, stat) in children.into_iter().zip(stats) {
            if stat?.as_ref().is_some_and(is_selected) {
                selected.push(child);
            }
        }
        Ok(selected)
    }

    /// Deletes the nodes, each level after the one below it. Returns those that got children.
    async fn delete(
        &self,
        zk: &CuratorFramework,
        targets: &[String],
    ) -> Result<Vec<String>, Failure> {
        let depth = |path: &String| path.matches('/').count();
        let mut failed = Vec::new();
        for level in targets.chunk_by(|a, b| depth(a) == depth(b)) {
            let deletes = level.iter().map(|path| match self.version {
                Some(version) => zk.delete(path).version(version),
                None => zk.delete(path),
            });
            for (path, outcome) in level.iter().zip(fan_out(AT_ONCE, deletes).await) {
                match outcome {
                    Ok(()) => {}
                    Err(error)
                        if error.kind() == ErrorKind::NoNode && (self.recursive || self.force) => {}
                    Err(error)
                        if targets.len() > 1
                            && matches!(error.kind(), ErrorKind::NotEmpty | ErrorKind::NoAuth) =>
                    {
                        failed.push(format!("{path}: {}", Failure::from(error)));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(failed)
    }
}

fn listed(paths: &[String]) -> Answer {
    let mut rows = Rows::new(const { &[text("path")] }).plain();
    for path in paths {
        rows.push(vec![path.as_str().into()]);
    }
    rows.into()
}
