use std::collections::BTreeMap;

use clap::Args;
use zk_curator::ErrorKind;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, OutputColumn, Rows, number, text};
use crate::path;

const ROOT: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

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
        if app.servers().contains('/') {
            return Err(CommandFailure::usage("quotas are above the chroot: connect without it"));
        }
        // Quotas are nodes of the servers, outside of every namespace.
        let path = zk.server_path(&self.path);
        let (limits, stats) = (node(&path, LIMITS), node(&path, STATS));
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
        let zk = zk.using_namespace("")?;
        let limit = numbers(&zk.get_data(&limits).undecompressed().await?);
        let used = numbers(&zk.get_data(&stats).undecompressed().await?);
        let of =
            |numbers: &BTreeMap<String, i64>, key| numbers.get(key).copied().filter(|n| *n >= 0);
        let mut rows = Rows::new(COLUMNS);
        for (name, key, hard) in
            [("nodes", "count", "countHardLimit"), ("bytes", "bytes", "byteHardLimit")]
        {
            rows.push(vec![
                name.into(),
                of(&used, key).into(),
                of(&limit, key).into(),
                of(&limit, hard).into(),
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
            Ok((data, stat)) => (numbers(&data), Some(stat.version)),
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
                zk.create(format!("{ROOT}{path}")).creating_parents().idempotent().await?;
                let transaction = zk.transaction().uncompressed().create(limits, data);
                transaction.create(stats, "count=0,bytes=0").commit().await?;
            }
        }
        Ok(())
    }
}

fn node(path: &str, name: &str) -> String {
    format!("{ROOT}{path}/{name}")
}

/// Parses `count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=7`. Other parts are skipped.
fn numbers(data: &[u8]) -> BTreeMap<String, i64> {
    let text = String::from_utf8_lossy(data);
    let part = |part: &str| {
        let (key, number) = part.split_once('=')?;
        Some((key.trim().to_owned(), number.trim_end_matches('=').trim().parse().ok()?))
    };
    text.split([',', ';']).filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_quota() {
        let quota = numbers(b"count=5,bytes=-1=;countHardLimit=7;x;byteHardLimit=y");
        assert_eq!(quota.get("count"), Some(&5));
        assert_eq!(quota.get("bytes"), Some(&-1));
        assert_eq!(quota.get("countHardLimit"), Some(&7));
        assert_eq!(quota.get("byteHardLimit"), None);
    }
}
