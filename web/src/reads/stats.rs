//! The stats of many nodes.

use zk_curator::op::{ReadResult, fan_out};
use zk_curator::{CuratorFramework, Error, ErrorKind, Stat};

/// The maximum number of single requests in flight.
const IN_FLIGHT: usize = 64;

/// The result of a look at a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildStat {
    Present(Stat),
    /// It was deleted since it was listed.
    Gone,
    /// Servers since ZooKeeper 3.10 show a stat only to clients that may read the node.
    Hidden,
}

/// Returns the stats of nodes, in their order, in one request where the servers can do that.
///
/// ZooKeeper has no request for many stats, so the response contains the data as well. If that is
/// larger than the framework accepts, each stat is requested by itself.
pub(crate) async fn stats_at_once(
    zk: &CuratorFramework,
    paths: &[String],
) -> Result<Vec<ChildStat>, Error> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let reads = paths.iter().fold(zk.multi_read(), |reads, path| reads.get_data(path));
    let results = match reads.undecompressed().in_one_request().await {
        Ok(results) => results,
        Err(error) if is_for_single_requests(error.kind()) => return stats_each(zk, paths).await,
        Err(error) => return Err(error),
    };
    let mut stats = vec![ChildStat::Hidden; paths.len()];
    let mut left = Vec::new();
    for (place, result) in results.into_iter().enumerate().take(paths.len()) {
        match result {
            Ok(ReadResult::Data { stat, .. }) => stats[place] = ChildStat::Present(stat),
            Err(error) if error.kind() == ErrorKind::NoNode => stats[place] = ChildStat::Gone,
            // A client may see the stat of a node that it may not read.
            _ => left.push(place),
        }
    }
    let missing: Vec<String> = left.iter().map(|place| paths[*place].clone()).collect();
    for (place, stat) in left.into_iter().zip(stats_each(zk, &missing).await?) {
        stats[place] = stat;
    }
    Ok(stats)
}

/// Returns the stats of nodes, in their order, with a request for each. Their data are not sent.
pub(crate) async fn stats_each(
    zk: &CuratorFramework,
    paths: &[String],
) -> Result<Vec<ChildStat>, Error> {
    let results = fan_out(IN_FLIGHT, paths.iter().map(|path| zk.exists(path))).await;
    let stat = |result: Result<Option<Stat>, Error>| match result {
        Ok(Some(stat)) => Ok(ChildStat::Present(stat)),
        Ok(None) => Ok(ChildStat::Gone),
        Err(error) if error.kind() == ErrorKind::NoAuth => Ok(ChildStat::Hidden),
        Err(error) => Err(error),
    };
    results.into_iter().map(stat).collect()
}

const fn is_for_single_requests(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ResponseTooLarge | ErrorKind::TooLarge | ErrorKind::Unsupported)
}
