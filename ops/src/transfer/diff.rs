//! Compares two trees.

use std::collections::BTreeMap;
use std::path::Path;

use hmac_sha256::Hash;
use zk_curator::CuratorFramework;

use super::file::BackupReader;
use super::record::TransferRecord;
use super::source::SourceWalk;
use crate::error::Error;
use crate::path;
use crate::tree::unreadable::{UnreadableNodes, UnreadableReason};

/// The nodes that are compared, and how.
#[derive(Debug, Clone, Copy)]
pub struct DiffScope {
    ephemerals: bool,
    acls: bool,
    most: usize,
}

impl Default for DiffScope {
    fn default() -> Self {
        Self { ephemerals: false, acls: true, most: usize::MAX }
    }
}

impl DiffScope {
    /// Compares the data and the ACLs of all nodes that are not ephemeral.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Compares ephemeral nodes too, if this is `true`. Default: `false`.
    #[must_use]
    pub const fn ephemerals(mut self, ephemerals: bool) -> Self {
        self.ephemerals = ephemerals;
        self
    }

    /// Compares only data if this is `false`, which takes fewer requests. Default: `true`.
    #[must_use]
    pub const fn acls(mut self, acls: bool) -> Self {
        self.acls = acls;
        self
    }

    /// Refuses trees with more nodes than this, which bounds the memory. Default: no limit.
    #[must_use]
    pub const fn at_most(mut self, nodes: usize) -> Self {
        self.most = nodes;
        self
    }
}

/// A tree, as far as it is compared. It has hashes instead of data. Its paths are relative to its
/// root.
#[derive(Debug, Default)]
pub struct DiffTree {
    nodes: BTreeMap<String, NodePrint>,
    /// `true` for an old file, in which null data are empty.
    blurs_null: bool,
    /// The nodes that could not be read, and below which nothing is known.
    pub unreadable: UnreadableNodes,
}

/// A node, as far as it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodePrint {
    /// `None` for null data.
    data: Option<[u8; 32]>,
    acl: [u8; 32],
    is_ephemeral: bool,
}

impl DiffTree {
    /// Reads a subtree.
    ///
    /// # Errors
    /// [`Framework`](Error::Framework) and [`TooManyNodes`](Error::TooManyNodes). A node that cannot
    /// be read is not an error, unless it is the root.
    pub async fn of_servers(
        zk: &CuratorFramework,
        root: &str,
        scope: DiffScope,
    ) -> Result<Self, Error> {
        let (mut tree, mut walk) = (Self::default(), SourceWalk::new(root, scope.acls));
        while let Some(found) = walk.next(zk).await? {
            for node in &found {
                tree.add(&node.record, root, scope);
            }
            tree.check(root, scope)?;
        }
        let relative = |(path, kind): (String, _)| (path::moved(&path, root, "/"), kind);
        tree.unreadable = walk.into_unreadable().into_iter().map(relative).collect();
        Ok(tree)
    }

    /// Reads a backup file. Returns its root too.
    ///
    /// # Errors
    /// [`File`](Error::File), [`Damaged`](Error::Damaged) and
    /// [`TooManyNodes`](Error::TooManyNodes).
    pub fn of_file(path: impl AsRef<Path>, scope: DiffScope) -> Result<(Self, String), Error> {
        let mut file = BackupReader::open(path)?;
        let (mut tree, root) = (Self::default(), file.header().root.clone());
        tree.blurs_null = !file.header().tells_null();
        while let Some(record) = file.next_record()? {
            tree.add(&record, &root, scope);
            tree.check(&root, scope)?;
        }
        let unreadable = file.trailer().into_iter().flat_map(|trailer| &trailer.unreadable);
        tree.unreadable = unreadable
            .map(|path| (path::moved(path, &root, "/"), UnreadableReason::NotInBackup))
            .collect();
        Ok((tree, root))
    }

    fn check(&self, root: &str, scope: DiffScope) -> Result<(), Error> {
        if self.nodes.len() > scope.most {
            return Err(Error::TooManyNodes { root: root.to_owned(), most: scope.most });
        }
        Ok(())
    }

    fn add(&mut self, record: &TransferRecord, root: &str, scope: DiffScope) {
        if record.kind.is_ephemeral() && !scope.ephemerals {
            return;
        }
        let mut acl = Hash::new();
        if scope.acls {
            for entry in &record.acl {
                for part in [entry.scheme.as_bytes(), entry.id.as_bytes()] {
                    acl.update(part.len().to_be_bytes());
                    acl.update(part);
                }
                acl.update(entry.permissions.bits().to_be_bytes());
            }
        }
        let print = NodePrint {
            data: record.data.as_deref().map(Hash::hash),
            acl: acl.finalize(),
            is_ephemeral: record.kind.is_ephemeral(),
        };
        self.nodes.insert(path::moved(&record.path, root, "/"), print);
    }
}

/// A difference between two trees. Paths are relative to their roots.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a node is on one side, on both, or unknown")]
pub enum NodeDifference {
    /// Only in the first tree.
    Removed(String),
    /// Only in the second tree.
    Added(String),
    /// In both, with differences: `data`, `data from null`, `data to null`, `acl` and `kind`.
    Changed(String, Vec<&'static str>),
    /// Unreadable on one side, for this reason. Nothing below it was compared.
    Unknown(String, UnreadableReason),
}

/// Returns the differences in the order of the paths.
#[must_use]
pub fn differences(before: &DiffTree, after: &DiffTree) -> Vec<NodeDifference> {
    let mut found = compared(before, after);
    let unreadable: BTreeMap<&str, UnreadableReason> =
        before.unreadable.iter().chain(after.unreadable.iter()).collect();
    if unreadable.is_empty() {
        return found;
    }
    found.retain(|difference| {
        let path = difference.path();
        let is_below =
            path::ancestors(path).iter().any(|path| unreadable.contains_key(path.as_str()));
        // Of a node whose children could not be listed, the data were read.
        let is_read = matches!(difference, NodeDifference::Changed(..));
        !is_below && (is_read || !unreadable.contains_key(path))
    });
    let unknown = unreadable.into_iter();
    found.extend(unknown.map(|(path, why)| NodeDifference::Unknown(path.to_owned(), why)));
    found.sort_by(|a, b| a.path().cmp(b.path()));
    found
}

impl NodeDifference {
    /// Returns the path, relative to the roots.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Removed(path)
            | Self::Added(path)
            | Self::Changed(path, _)
            | Self::Unknown(path, _) => path,
        }
    }
}

fn compared(before: &DiffTree, after: &DiffTree) -> Vec<NodeDifference> {
    let mut found = Vec::new();
    let blurs_null = before.blurs_null || after.blurs_null;
    let empty = blurs_null.then(|| Hash::hash(b""));
    let blurred = |print: &NodePrint| NodePrint { data: print.data.or(empty), ..*print };
    let (mut before, mut after) = (before.nodes.iter().peekable(), after.nodes.iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return found,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let old = before.next_if(|_| order.is_le());
        let new = after.next_if(|_| order.is_ge());
        match (old, new) {
            (Some((path, _)), None) => found.push(NodeDifference::Removed(path.clone())),
            (None, Some((path, _))) => found.push(NodeDifference::Added(path.clone())),
            (Some((path, old)), Some((_, new))) if blurred(old) != blurred(new) => {
                let (old, new) = (blurred(old), blurred(new));
                let data = match (old.data, new.data) {
                    (None, Some(_)) => "data from null",
                    (Some(_), None) => "data to null",
                    _ => "data",
                };
                let what = [
                    (data, old.data != new.data),
                    ("acl", old.acl != new.acl),
                    ("kind", old.is_ephemeral != new.is_ephemeral),
                ];
                let what = what.into_iter().filter(|(_, differs)| *differs);
                let what = what.map(|(name, _)| name).collect();
                found.push(NodeDifference::Changed(path.clone(), what));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zk_curator::{Acl, Stat};

    use super::*;

    const ALL: DiffScope = DiffScope { ephemerals: true, acls: true, most: usize::MAX };

    fn tree(nodes: &BTreeMap<u8, u8>) -> DiffTree {
        let mut tree = DiffTree::default();
        for (name, data) in nodes {
            let data = Some(vec![*data].into());
            let record =
                TransferRecord::new(format!("/r/{name}"), data, Vec::new(), &Stat::default());
            tree.add(&record, "/r", ALL);
        }
        tree
    }

    proptest! {
        #[test]
        fn all_differences_are_found(
            a in prop::collection::btree_map(0..20_u8, 0..3_u8, 0..20),
            b in prop::collection::btree_map(0..20_u8, 0..3_u8, 0..20),
        ) {
            let mut expected = Vec::new();
            for name in 0..20 {
                let path = format!("/{name}");
                match (a.get(&name), b.get(&name)) {
                    (Some(_), None) => expected.push(NodeDifference::Removed(path)),
                    (None, Some(_)) => expected.push(NodeDifference::Added(path)),
                    (a, b) if a != b => expected.push(NodeDifference::Changed(path, vec!["data"])),
                    _ => {}
                }
            }
            expected.sort_by_key(|one| one.path().to_owned());
            prop_assert_eq!(differences(&tree(&a), &tree(&b)), expected);
        }
    }

    #[test]
    fn large_trees_are_refused() {
        let tree = tree(&(0..5).map(|name| (name, 0)).collect());
        assert!(tree.check("/r", ALL.at_most(5)).is_ok());
        let refused = tree.check("/r", ALL.at_most(4)).unwrap_err();
        assert_eq!(refused.to_string(), "more than 4 nodes: /r");
    }

    #[test]
    fn acls_and_kinds_are_compared() {
        let one = |acl: Vec<Acl>, owner, scope| {
            let stat = Stat { ephemeral_owner: owner, ..Stat::default() };
            let mut tree = DiffTree::default();
            tree.add(
                &TransferRecord::new("/r".to_owned(), Some("x".into()), acl, &stat),
                "/r",
                scope,
            );
            tree
        };
        let (open, none) = (one(Acl::open_unsafe(), 0, ALL), one(Vec::new(), 5, ALL));
        let changed = NodeDifference::Changed("/".to_owned(), vec!["acl", "kind"]);
        assert_eq!(differences(&open, &none), [changed]);
        let data = ALL.acls(false);
        let (open, none) = (one(Acl::open_unsafe(), 0, data), one(Vec::new(), 0, data));
        assert_eq!(differences(&open, &none), []);
    }
}
