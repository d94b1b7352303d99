//! The nodes below a path, as they were read last, in bounded memory.

use std::collections::BTreeMap;

use super::value::JournalValue;

/// The maximum number of nodes.
pub(crate) const MOST_KNOWN: usize = 5_000;
/// The maximum number of bytes of all values and paths.
const MOST_BYTES: usize = 2 << 20;

/// A node as it was read last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownNode {
    /// The transaction that created it.
    pub(super) czxid: i64,
    /// The transaction that changed its data last.
    pub(super) mzxid: i64,
    pub(super) value: JournalValue,
}

/// The known nodes.
#[derive(Debug, Default)]
pub(super) struct KnownNodes {
    nodes: BTreeMap<String, KnownNode>,
    bytes: usize,
    /// `true` if every node below the path is known.
    is_complete: bool,
}

impl KnownNodes {
    pub(super) fn get(&self, path: &str) -> Option<&KnownNode> {
        self.nodes.get(path)
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) const fn set_complete(&mut self, is_complete: bool) {
        self.is_complete = is_complete;
    }

    /// Returns `true` if there is no room for another node.
    pub(super) fn is_full(&self) -> bool {
        self.nodes.len() >= MOST_KNOWN || self.bytes >= MOST_BYTES
    }

    /// Keeps a node as far as there is room: without its value, or not at all.
    pub(super) fn put(&mut self, path: &str, mut node: KnownNode) {
        self.remove(path);
        if self.is_full() || self.bytes + path.len() > MOST_BYTES {
            self.is_complete = false;
            return;
        }
        if self.bytes + path.len() + node.value.bytes() > MOST_BYTES {
            node.value = JournalValue::Unknown;
        }
        self.bytes += path.len() + node.value.bytes();
        self.nodes.insert(path.to_owned(), node);
    }

    pub(super) fn remove(&mut self, path: &str) {
        if let Some(node) = self.nodes.remove(path) {
            self.bytes -= path.len() + node.value.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(length: usize) -> KnownNode {
        KnownNode { czxid: 1, mzxid: 1, value: JournalValue::of(&vec![b'x'; length], false) }
    }

    #[test]
    fn the_number_of_nodes_is_bounded() {
        let mut known = KnownNodes::default();
        known.set_complete(true);
        for n in 0..2 * MOST_KNOWN {
            known.put(&format!("/{n}"), node(1));
        }
        assert_eq!(known.paths().len(), MOST_KNOWN);
        assert!(!known.is_complete());
        known.remove("/0");
        known.put("/new", node(1));
        assert!(known.get("/new").is_some());
    }

    #[test]
    fn the_number_of_bytes_is_bounded() {
        let mut known = KnownNodes::default();
        for n in 0..1_000 {
            known.put(&format!("/{n}"), node(1 << 20));
        }
        assert!(known.bytes <= MOST_BYTES, "{}", known.bytes);
        let unknown = known.nodes.values().filter(|node| node.value == JournalValue::Unknown);
        assert!(unknown.count() > 0);
        for path in known.paths() {
            known.put(&path, node(5));
        }
        for path in known.paths() {
            known.remove(&path);
        }
        assert_eq!(known.bytes, 0);
    }
}
