//! Knows the nodes that changed since they were read, from the events of a persistent watch.

use std::collections::BTreeSet;

use zk_curator::PersistentEvent;

/// The changed nodes that are remembered. Beyond it a backup does not become exact.
const MOST: usize = 10_000;

/// The nodes to read again.
#[derive(Debug, Default)]
pub(crate) struct ChangedNodes {
    paths: BTreeSet<String>,
    /// The reason why other nodes may have changed too.
    gap: Option<&'static str>,
}

impl ChangedNodes {
    /// Without events, every node may have changed.
    pub(crate) fn unknown(why: &'static str) -> Self {
        Self { paths: BTreeSet::new(), gap: Some(why) }
    }

    pub(crate) fn note(&mut self, event: PersistentEvent) {
        match event {
            PersistentEvent::Changed(event) if self.gap.is_none() => {
                self.paths.insert(event.path);
                if self.paths.len() > MOST {
                    self.lose("more than 10,000 nodes changed");
                }
            }
            PersistentEvent::Rearmed { unchanged: false } => self.lose("the connection was lost"),
            PersistentEvent::Ended(_) => self.lose("the session was lost"),
            _ => {}
        }
    }

    fn lose(&mut self, why: &'static str) {
        self.gap = Some(why);
        self.paths.clear();
    }

    pub(crate) const fn gap(&self) -> Option<&'static str> {
        self.gap
    }

    /// Returns `true` if all nodes are as they were read.
    pub(crate) fn is_settled(&self) -> bool {
        self.gap.is_none() && self.paths.is_empty()
    }

    /// Removes and returns the nodes to read, sorted: parents before their children.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.paths).into_iter().collect()
    }

    /// Returns the nodes that changed after they were read, or `None` if not all are known.
    pub(crate) fn into_paths(self) -> Option<Vec<String>> {
        self.gap.is_none().then(|| self.paths.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use zk_curator::{EventType, WatchedEvent};

    use super::*;

    fn changed(path: &str) -> PersistentEvent {
        PersistentEvent::Changed(WatchedEvent::new(EventType::NodeDataChanged, path.to_owned()))
    }

    #[test]
    fn changed_nodes_are_read_again() {
        let mut seen = ChangedNodes::default();
        assert!(seen.is_settled());
        for path in ["/a/b", "/a", "/a/b"] {
            seen.note(changed(path));
        }
        seen.note(PersistentEvent::Disarmed);
        seen.note(PersistentEvent::Rearmed { unchanged: true });
        assert!(!seen.is_settled());
        assert_eq!(seen.take(), ["/a", "/a/b"]);
        assert!(seen.is_settled());
    }

    #[test]
    fn a_gap_stays() {
        let mut seen = ChangedNodes::default();
        seen.note(changed("/a"));
        seen.note(PersistentEvent::Rearmed { unchanged: false });
        seen.note(changed("/b"));
        assert!(seen.take().is_empty() && !seen.is_settled());
        assert_eq!(seen.into_paths(), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut seen = ChangedNodes::default();
        for n in 0..=MOST {
            seen.note(changed(&format!("/{n}")));
        }
        assert_eq!((seen.gap().is_some(), seen.into_paths()), (true, None));
    }
}
