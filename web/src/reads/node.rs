//! One node with everything that its page shows.

use bytes::Bytes;
use zk_curator::op::ReadResult;
use zk_curator::{Acl, CuratorFramework, Error, ErrorKind, Stat};
use zk_curator_ops::path::is_built_in;
use zk_curator_ops::quota;

use super::stats::{ChildStat, stats_at_once};
use crate::paths::child_of;
use crate::show::{NodeKind, is_sequential};

/// The maximum number of children whose kinds are counted.
const COUNTED: usize = 200;

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct NodeRead {
    pub(crate) data: DataRead,
    pub(crate) stat: Stat,
    /// The list; `None` if the client may not read it.
    pub(crate) acl: Option<Vec<Acl>>,
    pub(crate) kinds: Kinds,
    /// The data of the limits and of the statistics, if the node has a quota.
    pub(crate) quota: Option<(Bytes, Bytes)>,
}

/// The data of a node.
#[derive(Debug, Clone)]
pub(crate) enum DataRead {
    Read {
        data: Bytes,
        /// `true` for Java's `null`.
        is_null: bool,
    },
    /// The client may not read them.
    NoPermission,
    /// They are larger than the framework accepts.
    TooLarge,
}

/// The children by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds {
    pub(crate) total: usize,
    /// The number of children whose kinds were counted.
    pub(crate) counted: usize,
    pub(crate) ephemeral: usize,
    pub(crate) persistent: usize,
    pub(crate) hidden: usize,
    /// The number of counted children whose names end with a number of the server.
    pub(crate) sequential: usize,
}

/// Reads a node in two round trips; in one if it has no children.
pub(crate) async fn read_node(zk: &CuratorFramework, path: &str) -> Result<NodeRead, Error> {
    let node = zk.multi_read().get_data(path).children(path).undecompressed();
    let (results, acl, quota) = tokio::try_join!(
        node.into_future(),
        readable(zk.get_acl(path).into_future()),
        quota_of(zk, path)
    )?;
    let mut results = results.into_iter();
    let (data, stat) = match results.next() {
        Some(Ok(ReadResult::Data { data, is_null, stat })) => {
            (DataRead::Read { data, is_null }, stat)
        }
        Some(Err(error)) if error.kind() == ErrorKind::NoAuth => {
            (DataRead::NoPermission, stat_of(zk, path, error).await?)
        }
        Some(Err(error)) if error.kind() == ErrorKind::ResponseTooLarge => {
            (DataRead::TooLarge, stat_of(zk, path, error).await?)
        }
        Some(Err(error)) => return Err(error),
        _ => return Err(Error::invalid_argument("read", path, "the response has no data")),
    };
    let names = match results.next() {
        Some(Ok(ReadResult::Children { names })) => names,
        Some(Err(error)) if !error.is_of_one_node() => return Err(error),
        _ => Vec::new(),
    };
    let kinds = kinds_of(zk, path, &names).await?;
    Ok(NodeRead { data, stat, acl: acl.filter(|acl| !acl.is_empty()), kinds, quota })
}

/// Returns the stat of a node whose data cannot be read for this reason.
async fn stat_of(zk: &CuratorFramework, path: &str, reason: Error) -> Result<Stat, Error> {
    zk.exists(path).await?.ok_or(reason)
}

async fn kinds_of(zk: &CuratorFramework, path: &str, names: &[String]) -> Result<Kinds, Error> {
    let counted = &names[..names.len().min(COUNTED)];
    let paths: Vec<_> = counted.iter().map(|name| child_of(path, name)).collect();
    let mut kinds = Kinds { total: names.len(), ..Kinds::default() };
    for (name, stat) in counted.iter().zip(stats_at_once(zk, &paths).await?) {
        let kind = match stat {
            ChildStat::Present(stat) => NodeKind::of(&stat),
            ChildStat::Hidden => NodeKind::Hidden,
            ChildStat::Gone => continue,
        };
        kinds.counted += 1;
        kinds.sequential += usize::from(is_sequential(name));
        match kind {
            NodeKind::Ephemeral => kinds.ephemeral += 1,
            NodeKind::Persistent => kinds.persistent += 1,
            NodeKind::Hidden => kinds.hidden += 1,
        }
    }
    Ok(kinds)
}

/// Returns the data of the quota of a node, unless quotas are out of reach.
async fn quota_of(zk: &CuratorFramework, path: &str) -> Result<Option<(Bytes, Bytes)>, Error> {
    let on_server = zk.server_path(path);
    let Some(root) = quota::handle(zk)?.filter(|_| !is_built_in(&on_server)) else {
        return Ok(None);
    };
    let reads = root.multi_read().get_data(quota::limits_node(&on_server));
    let reads = reads.get_data(quota::stats_node(&on_server)).undecompressed();
    let results = reads.await?;
    let mut data = results.into_iter().map(|result| {
        // Most nodes have no quota.
        result.ok().and_then(ReadResult::into_data).map(|(data, _)| data)
    });
    let limits = data.next().flatten();
    Ok(limits.map(|limits| (limits, data.next().flatten().unwrap_or_default())))
}

/// Returns `None` if the client has no permission.
async fn readable<T>(read: impl Future<Output = Result<T, Error>>) -> Result<Option<T>, Error> {
    match read.await {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NoAuth => Ok(None),
        Err(error) => Err(error),
    }
}
