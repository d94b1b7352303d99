//! Finds the contenders of recipes among the ephemeral nodes of a backup file.
//!
//! As persistent nodes they would hold their locks, or be members of their groups, until they are
//! deleted by hand. Two readings of the file are needed: a node may follow its siblings. Only the
//! siblings of ephemeral nodes are in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use zk_curator::Stat;
use zk_curator_recipes::inspect::{Node, recognise};

use super::file::BackupReader;
use super::record::{RecordKind, TransferRecord};
use crate::error::Error;
use crate::{node, path};

/// Larger data say nothing about a recipe.
const MAX_DATA: usize = 4 << 10;
/// The prefix of protected nodes.
const PROTECTED: &str = "_c_";

/// Returns the paths of the ephemeral nodes that recipes have, in the file.
pub(super) fn contenders(file: &Path) -> Result<BTreeSet<String>, Error> {
    let mut directories = BTreeMap::new();
    let mut first = BackupReader::open(file)?;
    while let Some(record) = first.next_record()? {
        if record.kind.is_ephemeral() {
            let directory = path::split(&record.path).0;
            directories.insert(directory.to_owned(), Node::new(directory));
        }
    }
    let mut second = BackupReader::open(file)?;
    while let Some(record) = second.next_record()?.filter(|_| !directories.is_empty()) {
        if let Some(directory) = directories.get_mut(&record.path) {
            directory.data = of(&record).data;
        }
        if record.path != "/"
            && let Some(directory) = directories.get_mut(path::split(&record.path).0)
        {
            directory.children.push(of(&record));
        }
    }
    Ok(directories.values().flat_map(in_directory).collect())
}

fn of(record: &TransferRecord) -> Node {
    let owner = match record.kind {
        RecordKind::Ephemeral(owner) => owner,
        RecordKind::Persistent | RecordKind::Container | RecordKind::Ttl(_) => 0,
    };
    let data = record.data.clone().filter(|data| data.len() <= MAX_DATA);
    let stat = Stat { ephemeral_owner: owner, czxid: record.czxid, ..Stat::default() };
    Node::new(record.path.as_str()).data(data.unwrap_or_default()).stat(stat)
}

/// Returns the contenders below a node: those of the recipe that is there, and all nodes that are
/// protected or have a number, as those of locks with a name of their own.
fn in_directory(directory: &Node) -> BTreeSet<String> {
    let finding = recognise(directory);
    let contenders = finding.holders.into_iter().chain(finding.waiting);
    let known: BTreeSet<_> = contenders.map(|contender| contender.path).collect();
    let is_contender = |child: &&Node| {
        let name = child.name();
        child.is_ephemeral()
            && (known.contains(&child.path)
                || name.starts_with(PROTECTED)
                || node::sequence(name).is_some())
    };
    directory.children.iter().filter(is_contender).map(|child| child.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(children: &[(&str, i64)]) -> Vec<String> {
        let child = |(name, owner): &(&str, i64)| {
            let stat = Stat { ephemeral_owner: *owner, ..Stat::default() };
            Node::new(format!("/d/{name}")).stat(stat)
        };
        let directory = Node::new("/d");
        let directory = children.iter().map(child).fold(directory, Node::with);
        in_directory(&directory).into_iter().collect()
    }

    #[test]
    fn contenders_are_recognised_by_their_names_and_siblings() {
        let protected = format!("_c_{}-own", "a".repeat(36));
        for (name, is_contender) in [
            ("lock-0000000001", true),
            ("latch-0000000001", true),
            ("lease-0000000001", true),
            ("__READ__0000000001", true),
            ("my-own-0000000001", true),
            (&protected, true),
            ("worker-1", false),
        ] {
            // A persistent sibling shows that the node is no group.
            let expected: Vec<_> = is_contender.then(|| format!("/d/{name}")).into_iter().collect();
            assert_eq!(found(&[(name, 7), ("config", 0)]), expected, "{name}");
            assert!(found(&[(name, 0), ("config", 0)]).is_empty(), "{name}");
        }
        assert_eq!(found(&[("worker-1", 7), ("worker-2", 8)]), ["/d/worker-1", "/d/worker-2"]);
    }
}
