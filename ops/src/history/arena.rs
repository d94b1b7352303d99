//! The nodes of a tree, in chunks of memory that never move.

use std::ops::{Index, IndexMut};

use super::acls::AclId;
use super::stat::StoredStat;

/// The number of a node.
pub(super) type NodeId = u32;
/// No node.
pub(super) const NONE: NodeId = NodeId::MAX;

/// The number of nodes in a chunk.
const CHUNK: usize = 4096;
/// The memory of a node without its name and its data, in bytes.
const NODE: usize = 120;
/// The bit of `name_length` for data that is Java's `null`.
const NULL_DATA: u32 = 1 << 31;

/// A node: 112 bytes, and its name and data in one allocation.
#[derive(Debug)]
pub(super) struct ArenaNode {
    pub(super) stat: StoredStat,
    /// The name and the data.
    content: Box<[u8]>,
    name_length: u32,
    pub(super) parent: NodeId,
    /// The children are a list. A new child becomes the first one.
    pub(super) first_child: NodeId,
    pub(super) next: NodeId,
    pub(super) previous: NodeId,
    pub(super) children: u32,
    pub(super) acl: AclId,
    /// The digest, if the tree computes digests.
    pub(super) digest: u32,
}

impl ArenaNode {
    pub(super) fn new(
        parent: NodeId,
        name: &str,
        data: Option<&[u8]>,
        acl: AclId,
        stat: StoredStat,
    ) -> Self {
        let mut node = Self {
            stat,
            content: Box::default(),
            name_length: 0,
            parent,
            first_child: NONE,
            next: NONE,
            previous: NONE,
            children: 0,
            acl,
            digest: 0,
        };
        node.fill(name.as_bytes(), data);
        node
    }

    /// Returns the memory in bytes, with that of its places in the tables.
    pub(super) fn memory(&self) -> usize {
        NODE + self.content.len()
    }

    pub(super) fn name(&self) -> &[u8] {
        self.content.get(..self.name_end()).unwrap_or_default()
    }

    /// Returns the data; `None` is Java's `null`.
    pub(super) fn data(&self) -> Option<&[u8]> {
        let data = self.content.get(self.name_end()..).unwrap_or_default();
        (self.name_length & NULL_DATA == 0).then_some(data)
    }

    pub(super) fn set_data(&mut self, data: Option<&[u8]>) {
        let before = std::mem::take(&mut self.content);
        let name = before.get(..self.name_end()).unwrap_or_default();
        self.fill(name, data);
    }

    fn fill(&mut self, name: &[u8], data: Option<&[u8]>) {
        let bytes = data.unwrap_or_default();
        let mut content = Vec::with_capacity(name.len() + bytes.len());
        content.extend_from_slice(name);
        content.extend_from_slice(bytes);
        self.content = content.into_boxed_slice();
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        // A name is shorter than a record, which is shorter than 2 GiB.
        self.name_length = length | if data.is_none() { NULL_DATA } else { 0 };
    }

    const fn name_end(&self) -> usize {
        (self.name_length & !NULL_DATA) as usize
    }
}

/// The nodes, by number. The numbers of removed nodes are used again.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: Vec<Vec<ArenaNode>>,
    /// The first removed node; the others follow by `next`.
    free: NodeId,
    used: usize,
}

impl Arena {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), free: NONE, used: 0 }
    }

    /// Returns the number of nodes.
    pub(super) const fn len(&self) -> usize {
        self.used
    }

    pub(super) fn insert(&mut self, node: ArenaNode) -> NodeId {
        self.used += 1;
        if self.free != NONE {
            let id = self.free;
            self.free = self[id].next;
            self[id] = node;
            return id;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let full = (self.chunks.len() - 1) * CHUNK;
        let Some(chunk) = self.chunks.last_mut() else { return NONE };
        chunk.push(node);
        let last = full + chunk.len() - 1;
        NodeId::try_from(last).expect("invariant: a tree has fewer than 2^32 nodes")
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        let free = self.free;
        self[id] = ArenaNode::new(NONE, "", None, 0, StoredStat::default());
        self[id].next = free;
        self.free = id;
        self.used -= 1;
    }
}

impl Index<NodeId> for Arena {
    type Output = ArenaNode;

    fn index(&self, id: NodeId) -> &ArenaNode {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

impl IndexMut<NodeId> for Arena {
    fn index_mut(&mut self, id: NodeId) -> &mut ArenaNode {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_take_112_bytes() {
        assert_eq!(size_of::<ArenaNode>(), 112);
    }

    #[test]
    fn null_data_differs_from_empty_data() {
        let mut node = ArenaNode::new(NONE, "ab", Some(b"cd"), 0, StoredStat::default());
        assert_eq!((node.name(), node.data()), (&b"ab"[..], Some(&b"cd"[..])));
        node.set_data(None);
        assert_eq!((node.name(), node.data()), (&b"ab"[..], None));
        node.set_data(Some(b""));
        assert_eq!((node.name(), node.data()), (&b"ab"[..], Some(&b""[..])));
    }

    #[test]
    fn numbers_of_removed_nodes_are_used_again() {
        let mut nodes = Arena::new();
        let node = |name| ArenaNode::new(NONE, name, None, 0, StoredStat::default());
        let ids = ["a", "b", "c"].map(|name| nodes.insert(node(name)));
        nodes.remove(ids[1]);
        nodes.remove(ids[0]);
        assert_eq!(nodes.len(), 1);
        let again = ["d", "e", "f"].map(|name| nodes.insert(node(name)));
        assert_eq!(again, [ids[0], ids[1], 3]);
        assert_eq!((nodes[ids[2]].name(), nodes[3].name()), (&b"c"[..], &b"f"[..]));
    }
}
