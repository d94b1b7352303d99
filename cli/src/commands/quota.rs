use std::collections::BTreeMap;

use clap::Args;
use zk_curator::ErrorKind;
use zk_curator_ops::quota;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, OutputColumn, Rows, number, text};
use crate::path;

/// The arguments of `zkc quota`.
#[derive(Debug, Args)]
pub(crate) struct Quota {
    /// Root of the subtree
    #[arg(value_parser = path::parse)]
    path: String,
    /// Limit of the number of nodes; above it, servers log a warning
    #[arg(long, value_name = "N")]
    nodes: Option<i64>,
    /// Limit of the bytes of data; above it, servers log a warning
    #[arg(long, value_name = "N")]
    bytes: Option<i64>,
    /// Limit of the number of nodes; above it, servers with enforceQuota refuse writes
    #[arg(long, value_name = "N")]
    hard_nodes: Option<i64>,
    /// Limit of the bytes of data; above it, servers with enforceQuota refuse writes
    #[arg(long, value_name = "N")]
    hard_bytes: Option<i64>,
    /// Remove all limits
    #[arg(long, conflicts_with_all = ["nodes", "bytes", "hard_nodes", "hard_bytes"])]
    remove: bool,
}

const COLUMNS: &[OutputColumn] =
    &[text("of"), number("used"), number("limit"), number("hard_limit")];

impl Quota {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        path::refuse_system(zk, &self.path)?;
        let root = quota::handle(zk)?.ok_or_else(|| {
            CommandFailure::usage("quotas are above the chroot: connect without it")
        })?;
        let path = zk.server_path(&self.path);
        let (limits, stats) = (quota::limits_node(&path), quota::stats_node(&path));
        let changes =
            [self.nodes, self.bytes, self.hard_nodes, self.hard_bytes].iter().any(Option::is_some);
        if self.remove {
            let zk = app.zk_to_change().await?.using_namespace("")?;
            zk.transaction().delete(&limits).delete(&stats).commit().await?;
            return Ok(CommandOutput::nothing());
        }
        if changes {
            self.change(app, &path, &limits, &stats).await?;
        }
        let limits = root.get_data(&limits).undecompressed().await?;
        let stats = root.get_data(&stats).undecompressed().await?;
        let mut rows = Rows::new(COLUMNS);
        for line in quota::lines(&limits, &stats) {
            rows.push(vec![
                line.of.into(),
                line.used.into(),
                line.limit.into(),
                line.hard_limit.into(),
            ]);
        }
        Ok(rows.into())
    }

    /// Writes the limits: those that are not given stay as they are.
    async fn change(
        &self,
        app: &App,
        path: &str,
        limits: &str,
        stats: &str,
    ) -> Result<(), CommandFailure> {
        let zk = app.zk_to_change().await?.using_namespace("")?;
        let (before, version) = match zk.get_data(limits).undecompressed().with_stat().await {
            Ok((data, stat)) => (quota::numbers(&data), Some(stat.version)),
            Err(error) if error.kind() == ErrorKind::NoNode => (BTreeMap::new(), None),
            Err(error) => return Err(error.into()),
        };
        let kept = |key: &str, new: Option<i64>| {
            new.unwrap_or_else(|| before.get(key).copied().unwrap_or(-1))
        };
        // The format of ZooKeeper's `StatsTrack`. Servers before 3.7 read what is before the `=`.
        let data = format!(
            "count={},bytes={}=;byteHardLimit={};countHardLimit={}",
            kept("count", self.nodes),
            kept("bytes", self.bytes),
            kept("byteHardLimit", self.hard_bytes),
            kept("countHardLimit", self.hard_nodes),
        );
        match version {
            Some(version) => {
                zk.set_data(limits, data).uncompressed().version(version).await?;
            }
            None => {
                zk.create(quota::node(path)).creating_parents().idempotent().await?;
                let transaction = zk.transaction().uncompressed().create(limits, data);
                transaction.create(stats, "count=0,bytes=0").commit().await?;
            }
        }
        Ok(())
    }
}
