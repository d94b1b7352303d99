//! Who is in a queue.

use bytes::Bytes;
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::{CuratorFramework, Error, ErrorKind, FencingToken};

use crate::contender::child;
use crate::order;

/// Holds or waits for a lock; leads, or waits to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its node.
    pub path: String,
    /// What it says of itself, such as the id of a candidate: the data of its node. Java's Curator writes its
    /// address by default.
    pub label: Bytes,
    /// The transaction that created its node: the fencing token it has, or will have when its turn comes. Only a
    /// [reader that was a writer](crate::lock::WriteGuard::downgrade) has a lower one.
    pub fencing_token: FencingToken,
}

/// Who is in a queue, in their order.
pub(crate) async fn participants(
    zk: &CuratorFramework,
    parent: &ZPath,
    tag: &str,
) -> Result<Vec<Participant>, Error> {
    first_participants(zk, parent, tag, usize::MAX).await
}

/// Who is the first in a queue.
pub(crate) async fn first_participant(
    zk: &CuratorFramework,
    parent: &ZPath,
    tag: &str,
) -> Result<Option<Participant>, Error> {
    Ok(first_participants(zk, parent, tag, 1).await?.pop())
}

async fn first_participants(
    zk: &CuratorFramework,
    parent: &ZPath,
    tag: &str,
    limit: usize,
) -> Result<Vec<Participant>, Error> {
    let mut participants = Vec::new();
    for name in in_order(zk, parent, tag).await? {
        let path = child(parent, &name);
        match zk.get_data(path.as_str()).undecompressed().with_stat().await {
            Ok((label, stat)) => {
                let fencing_token = FencingToken::new(stat.czxid);
                participants.push(Participant { path, label, fencing_token });
            }
            // Gone since it was listed.
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            Err(error) => return Err(error),
        }
        if participants.len() == limit {
            break;
        }
    }
    Ok(participants)
}

/// The names of the children with a tag, in their order; none if there is no such parent.
pub(crate) async fn in_order(zk: &CuratorFramework, parent: &ZPath, tag: &str) -> Result<Vec<String>, Error> {
    let children = match zk.children(parent.as_str()).await {
        Ok(children) => children,
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let numbered = |name: String| Some((i64::from(SequenceSuffix::after(&name, tag)?.get()), name));
    let mut placed: Vec<_> = children.into_iter().filter_map(numbered).collect();
    if !placed.iter().all(|(number, _)| order::is_in_order(*number)) {
        let numbered = std::mem::take(&mut placed);
        for (_, name) in numbered {
            if let Some(stat) = zk.exists(child(parent, &name)).await? {
                placed.push((stat.czxid, name));
            }
        }
    }
    placed.sort_unstable();
    Ok(placed.into_iter().map(|(_, name)| name).collect())
}
