//! The writes of an attempt, and what the body sees of them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::space::split;

/// The change of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PendingWrite {
    /// It is replaced, or created.
    Put(Bytes),
    /// It is created, and must not have existed.
    Create(Bytes),
    /// It is deleted, if it existed.
    Delete,
    /// It is deleted, if it existed, and created again.
    Replace(Bytes),
}

/// The writes of an attempt: the last one of each node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WriteSet {
    writes: BTreeMap<String, PendingWrite>,
    /// The sequential nodes, in the order of the calls: their paths without the number.
    sequential: Vec<(String, Bytes)>,
    /// The nodes whose absence is asserted.
    absent: BTreeSet<String>,
}

impl WriteSet {
    pub(super) fn put(&mut self, path: &str, data: Bytes) {
        let write = match self.writes.get(path) {
            Some(PendingWrite::Create(_)) => PendingWrite::Create(data),
            Some(PendingWrite::Delete | PendingWrite::Replace(_)) => PendingWrite::Replace(data),
            Some(PendingWrite::Put(_)) | None => PendingWrite::Put(data),
        };
        self.writes.insert(path.to_owned(), write);
    }

    pub(super) fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Creates a node. Returns `false` if the attempt has already written it.
    pub(super) fn create(&mut self, path: &str, data: Bytes) -> bool {
        let write = match self.writes.get(path) {
            None => PendingWrite::Create(data),
            Some(PendingWrite::Delete) => PendingWrite::Replace(data),
            Some(PendingWrite::Put(_) | PendingWrite::Create(_) | PendingWrite::Replace(_)) => {
                return false;
            }
        };
        self.writes.insert(path.to_owned(), write);
        true
    }

    pub(super) fn create_sequential(&mut self, prefix: &str, data: Bytes) {
        self.sequential.push((prefix.to_owned(), data));
    }

    pub(super) fn delete(&mut self, path: &str) {
        // A node that was to be created must still not have existed.
        if let Some(PendingWrite::Create(_)) =
            self.writes.insert(path.to_owned(), PendingWrite::Delete)
        {
            self.absent.insert(path.to_owned());
        }
    }

    pub(super) fn assert_absent(&mut self, path: &str) {
        self.absent.insert(path.to_owned());
    }

    pub(super) fn is_asserted_absent(&self, path: &str) -> bool {
        self.absent.contains(path)
    }

    pub(super) const fn writes(&self) -> &BTreeMap<String, PendingWrite> {
        &self.writes
    }

    pub(super) fn sequential(&self) -> &[(String, Bytes)] {
        &self.sequential
    }

    pub(super) const fn absent(&self) -> &BTreeSet<String> {
        &self.absent
    }

    /// Returns the paths whose state decides how they are written.
    pub(super) fn paths(&self) -> impl Iterator<Item = &String> {
        self.writes.keys().chain(&self.absent)
    }

    /// Returns what the body sees of a node that it has written: its data, or `None` for a deleted
    /// node.
    pub(super) fn data(&self, path: &str) -> Option<Option<&Bytes>> {
        self.writes.get(path).map(|write| match write {
            PendingWrite::Put(data) | PendingWrite::Create(data) | PendingWrite::Replace(data) => {
                Some(data)
            }
            PendingWrite::Delete => None,
        })
    }

    /// Returns `true` if the attempt creates the node or deletes it, whatever was there before.
    pub(super) fn empties(&self, path: &str) -> bool {
        matches!(
            self.writes.get(path),
            Some(PendingWrite::Create(_) | PendingWrite::Delete | PendingWrite::Replace(_))
        )
    }

    /// Adds what the body sees of its writes to the children of a node. Sequential nodes have no
    /// name yet.
    pub(super) fn apply_to_children(&self, path: &str, names: &mut BTreeSet<String>) {
        for (child, write) in &self.writes {
            let (parent, name) = split(child);
            if parent != path || child == path {
                continue;
            }
            match write {
                PendingWrite::Delete => names.remove(name),
                PendingWrite::Put(_) | PendingWrite::Create(_) | PendingWrite::Replace(_) => {
                    names.insert(name.to_owned())
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn body_sees_its_own_writes() {
        let mut writes = WriteSet::default();
        assert_eq!(writes.data("/a"), None);
        writes.put("/a", bytes("1"));
        assert_eq!(writes.data("/a"), Some(Some(&bytes("1"))));
        writes.delete("/a");
        assert_eq!(writes.data("/a"), Some(None));
        writes.put("/a", bytes("2"));
        assert_eq!(writes.writes()["/a"], PendingWrite::Replace(bytes("2")));
        assert!(!writes.create("/a", bytes("3")));
        assert!(writes.create("/b", bytes("4")) && !writes.create("/b", bytes("5")));
        writes.put("/b", bytes("6"));
        assert_eq!(writes.writes()["/b"], PendingWrite::Create(bytes("6")));
        writes.delete("/b");
        assert!(writes.is_asserted_absent("/b"));
    }

    #[test]
    fn children_include_what_was_written() {
        let mut writes = WriteSet::default();
        writes.put("/a/new", bytes(""));
        writes.delete("/a/old");
        writes.put("/a/b/c", bytes(""));
        writes.create_sequential("/a/n-", bytes(""));
        let mut names = BTreeSet::from(["old".to_owned(), "kept".to_owned()]);
        writes.apply_to_children("/a", &mut names);
        assert_eq!(Vec::from_iter(names), ["kept", "new"]);
        let (mut writes, mut names) = (WriteSet::default(), BTreeSet::new());
        writes.put("/x", bytes(""));
        writes.put("/", bytes(""));
        writes.apply_to_children("/", &mut names);
        assert_eq!(Vec::from_iter(names), ["x"]);
    }
}
