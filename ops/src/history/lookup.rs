//! A hash table from a parent and a name to a node. It stores the numbers of nodes only: four bytes
//! for each slot.

use std::hash::{BuildHasher, RandomState};

use super::arena::{Arena, NONE, NodeId};

/// The number of slots of the first table.
const FIRST: usize = 64;

/// The table. At most three quarters of its slots are used.
#[derive(Debug)]
pub(super) struct Lookup {
    slots: Vec<NodeId>,
    used: usize,
    hasher: RandomState,
}

impl Lookup {
    pub(super) fn new() -> Self {
        Self { slots: vec![NONE; FIRST], used: 0, hasher: RandomState::new() }
    }

    pub(super) fn find(&self, nodes: &Arena, parent: NodeId, name: &str) -> Option<NodeId> {
        let mut slot = self.home(parent, name.as_bytes());
        loop {
            let id = self.slots[slot];
            if id == NONE {
                return None;
            }
            if nodes[id].parent == parent && nodes[id].name() == name.as_bytes() {
                return Some(id);
            }
            slot = self.next(slot);
        }
    }

    /// Adds a node that the table does not contain.
    pub(super) fn insert(&mut self, nodes: &Arena, id: NodeId) {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            let slots = vec![NONE; self.slots.len() * 2];
            let before = std::mem::replace(&mut self.slots, slots);
            for id in before.into_iter().filter(|id| *id != NONE) {
                self.put(nodes, id);
            }
        }
        self.put(nodes, id);
        self.used += 1;
    }

    /// Removes a node that the table contains.
    pub(super) fn remove(&mut self, nodes: &Arena, id: NodeId) {
        let mut hole = self.home_of(nodes, id);
        while self.slots[hole] != id {
            if self.slots[hole] == NONE {
                return;
            }
            hole = self.next(hole);
        }
        // Moves later nodes into the hole, so that a search finds them from their home.
        let mask = self.slots.len() - 1;
        let mut slot = self.next(hole);
        while self.slots[slot] != NONE {
            let home = self.home_of(nodes, self.slots[slot]);
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[slot];
                hole = slot;
            }
            slot = self.next(slot);
        }
        self.slots[hole] = NONE;
        self.used -= 1;
    }

    fn put(&mut self, nodes: &Arena, id: NodeId) {
        let mut slot = self.home_of(nodes, id);
        while self.slots[slot] != NONE {
            slot = self.next(slot);
        }
        self.slots[slot] = id;
    }

    fn home_of(&self, nodes: &Arena, id: NodeId) -> usize {
        self.home(nodes[id].parent, nodes[id].name())
    }

    /// Returns the slot at which a search begins. The number of slots is a power of two.
    fn home(&self, parent: NodeId, name: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        usize::try_from(self.hasher.hash_one((parent, name)) & mask as u64).unwrap_or(0)
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::arena::ArenaNode;
    use super::super::stat::StoredStat;
    use super::*;

    proptest! {
        #[test]
        fn the_table_finds_exactly_the_nodes_in_it(
            steps in vec((any::<bool>(), 0..200_u32), 0..600),
        ) {
            let (mut nodes, mut lookup) = (Arena::new(), Lookup::new());
            let root = nodes.insert(ArenaNode::new(NONE, "", None, 0, StoredStat::default()));
            let mut expected = std::collections::BTreeMap::new();
            for (adds, number) in steps {
                let name = number.to_string();
                let is_new = !expected.contains_key(&name);
                if adds && is_new {
                    let node = ArenaNode::new(root, &name, None, 0, StoredStat::default());
                    let id = nodes.insert(node);
                    lookup.insert(&nodes, id);
                    expected.insert(name, id);
                } else if let Some(id) = expected.remove(&name) {
                    lookup.remove(&nodes, id);
                    nodes.remove(id);
                }
            }
            for number in 0..200_u32 {
                let name = number.to_string();
                prop_assert_eq!(lookup.find(&nodes, root, &name), expected.get(&name).copied());
            }
        }
    }
}
