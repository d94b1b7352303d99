//! The participants of a queue.

use std::borrow::Cow;

use bytes::Bytes;
use zk_curator::internal::ReadFreshness;
use zk_curator::op::fan_out;
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::{CuratorFramework, Error, ErrorKind, FencingToken, Stat};

use crate::order::{self, Placed};
use crate::path::child;

/// The number of nodes that are read at a time.
const READS_AT_ONCE: usize = 64;

/// Holds or waits for a lock, leads or waits to lead, or is in a barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its node.
    pub path: String,
    /// The data of its node, such as the id of a candidate. Java's Curator writes its
    /// address by default.
    pub label: Bytes,
    /// The transaction that created its node: the fencing token it has, or will have when its turn
    /// comes. Only a [reader that was a writer](crate::lock::WriteGuard::downgrade) has a lower
    /// one.
    pub fencing_token: FencingToken,
    /// `true` if its node is persistent: no session will ever remove it, so the participants behind
    /// it wait until it is deleted by hand. A restored backup may have created it.
    pub is_persistent: bool,
}

impl Participant {
    pub(crate) fn new(path: String, label: Bytes, stat: &Stat) -> Self {
        let (fencing_token, is_persistent) = (FencingToken::new(stat.czxid), !stat.is_ephemeral());
        Self { path, label, fencing_token, is_persistent }
    }

    /// The label as text; invalid UTF-8 is replaced. Java's Curator writes text.
    #[must_use]
    pub fn label_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.label)
    }
}

/// Returns the participants of a queue, in their order.
pub(crate) async fn participants(
    zk: &CuratorFramework,
    parent: &ZPath,
    tag: &str,
) -> Result<Vec<Participant>, Error> {
    first_participants(zk, parent, tag, usize::MAX).await
}

/// Returns the first participant of a queue.
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
    let names = in_order(zk, parent, tag, ReadFreshness::AsIs).await?;
    // Reads no more than requested, unless some no longer exist since they were listed.
    for names in names.chunks(limit.clamp(1, READS_AT_ONCE)) {
        let paths: Vec<_> = names.iter().map(|name| child(parent, name)).collect();
        let reads =
            paths.iter().map(|path| zk.get_data(path.as_str()).undecompressed().with_stat());
        for (path, read) in paths.iter().zip(fan_out(READS_AT_ONCE, reads).await) {
            match read {
                Ok((label, stat)) => {
                    participants.push(Participant::new(path.clone(), label, &stat));
                }
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error),
            }
        }
        if participants.len() >= limit {
            participants.truncate(limit);
            break;
        }
    }
    Ok(participants)
}

/// Returns the participants with nodes at these paths, in the order of their creation.
pub(crate) async fn participants_at(
    zk: &CuratorFramework,
    paths: Vec<String>,
) -> Result<Vec<Participant>, Error> {
    let reads = paths.iter().map(|path| zk.get_data(path.as_str()).undecompressed().with_stat());
    let reads = fan_out(READS_AT_ONCE, reads).await;
    let mut participants = Vec::new();
    for (path, read) in paths.into_iter().zip(reads) {
        match read {
            Ok((label, stat)) => participants.push(Participant::new(path, label, &stat)),
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            Err(error) => return Err(error),
        }
    }
    participants.sort_by_key(|participant| participant.fencing_token);
    Ok(participants)
}

/// The names of the present ones, each with the transaction that created it; read many at a
/// time.
pub(crate) async fn by_creation<'n>(
    zk: &CuratorFramework,
    parent: &ZPath,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<Vec<Placed<'n>>, Error> {
    let reads: Vec<_> = names.clone().map(|name| zk.exists(child(parent, name))).collect();
    let mut placed = Vec::with_capacity(reads.len());
    for (name, stat) in names.zip(fan_out(READS_AT_ONCE, reads).await) {
        // A node that has gone since it was listed does not count.
        placed.extend(stat?.map(|stat| (stat.czxid, name)));
    }
    Ok(placed)
}

/// The names of the children with a tag, in their order; none if there is no such parent.
pub(crate) async fn in_order(
    zk: &CuratorFramework,
    parent: &ZPath,
    tag: &str,
    freshness: ReadFreshness,
) -> Result<Vec<String>, Error> {
    let children = zk.children(parent.as_str());
    let is_newest = freshness == ReadFreshness::Linearizable;
    let children = if is_newest { children.linearizable() } else { children };
    let children = match children.await {
        Ok(children) => children,
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let numbered = |name: String| Some((i64::from(SequenceSuffix::after(&name, tag)?.get()), name));
    let mut placed: Vec<_> = children.into_iter().filter_map(numbered).collect();
    placed.sort_unstable();
    if !order::numbers_tell(placed.iter().map(|(number, _)| *number)) {
        let names: Vec<_> = placed.into_iter().map(|(_, name)| name).collect();
        let ages = by_creation(zk, parent, names.iter().map(String::as_str)).await?;
        placed = ages.into_iter().map(|(czxid, name)| (czxid, name.to_owned())).collect();
        placed.sort_unstable();
    }
    Ok(placed.into_iter().map(|(_, name)| name).collect())
}
