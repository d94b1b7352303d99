//! Finds the changes between the known nodes and the present ones. Pure.

use zk_curator::Stat;

use super::book::{ChangeKind, FoundChange};
use super::known::{KnownNode, KnownNodes};
use super::value::JournalValue;

/// The events of a node since it was read last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks {
    pub(super) created: bool,
    pub(super) deleted: bool,
    pub(super) changed: bool,
}

impl Marks {
    const fn is_any(self) -> bool {
        self.created || self.deleted || self.changed
    }
}

/// The result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SeenNode {
    Present { value: JournalValue, stat: Stat },
    Absent,
    Unreadable,
}

impl SeenNode {
    /// Returns the number of bytes of the value on the server.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Present { stat, .. } => usize::try_from(stat.data_length).unwrap_or_default(),
            Self::Absent | Self::Unreadable => 0,
        }
    }
}

impl KnownNodes {
    /// Notes a node that was read. Returns its change, if it has changed.
    pub(super) fn observe(
        &mut self,
        path: &str,
        marks: Marks,
        seen: SeenNode,
    ) -> Option<FoundChange> {
        let before = self.get(path).cloned();
        let is_new = marks.created || self.is_complete();
        let found = |kind, old, new, version| {
            Some(FoundChange { kind, path: path.to_owned(), old, new, version })
        };
        match (seen, before) {
            (SeenNode::Present { value, stat }, before) => {
                let node = KnownNode { czxid: stat.czxid, mzxid: stat.mzxid, value: value.clone() };
                let kind = match &before {
                    Some(before) if before.czxid != stat.czxid => ChangeKind::Replaced,
                    Some(before) if before.mzxid == stat.mzxid => return None,
                    None if is_new => ChangeKind::Created,
                    Some(_) | None => ChangeKind::Changed,
                };
                let old = match before {
                    Some(before) => before.value,
                    None if is_new => JournalValue::Absent,
                    None => JournalValue::Unknown,
                };
                self.put(path, node);
                found(kind, old, value, Some(stat.version))
            }
            (SeenNode::Absent, Some(before)) => {
                self.remove(path);
                found(ChangeKind::Deleted, before.value, JournalValue::Absent, None)
            }
            (SeenNode::Absent, None) if marks.created => {
                found(ChangeKind::Passed, JournalValue::Absent, JournalValue::Absent, None)
            }
            (SeenNode::Absent, None) if marks.deleted => {
                found(ChangeKind::Deleted, JournalValue::Unknown, JournalValue::Absent, None)
            }
            (SeenNode::Absent, None) => None,
            (SeenNode::Unreadable, before) => {
                self.remove(path);
                self.set_complete(false);
                if !marks.is_any() {
                    return None;
                }
                let (kind, absent) = match (&before, marks.created) {
                    (None, true) => (ChangeKind::Created, JournalValue::Absent),
                    (Some(_), true) => (ChangeKind::Replaced, JournalValue::Unknown),
                    (_, false) => (ChangeKind::Changed, JournalValue::Unknown),
                };
                let old = before.map_or(absent, |before| before.value);
                found(kind, old, JournalValue::Unknown, None)
            }
        }
    }

    /// Notes a node that was read before anything is recorded.
    pub(super) fn learn(&mut self, path: &str, value: JournalValue, stat: &Stat) {
        self.put(path, KnownNode { czxid: stat.czxid, mzxid: stat.mzxid, value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: Marks = Marks { created: true, deleted: false, changed: false };
    const DELETED: Marks = Marks { created: false, deleted: true, changed: false };
    const CHANGED: Marks = Marks { created: false, deleted: false, changed: true };

    fn present(text: &str, czxid: i64, mzxid: i64) -> SeenNode {
        let stat = Stat { czxid, mzxid, ..Stat::default() };
        SeenNode::Present { value: value(text), stat }
    }

    fn value(text: &str) -> JournalValue {
        JournalValue::of(text.as_bytes(), false)
    }

    fn summary(found: Option<FoundChange>) -> Option<(ChangeKind, JournalValue, JournalValue)> {
        found.map(|found| (found.kind, found.old, found.new))
    }

    #[test]
    fn old_values_are_those_that_were_known() {
        let mut known = KnownNodes::default();
        known.learn("/a", value("1"), &Stat { czxid: 1, mzxid: 1, ..Stat::default() });
        let mut observe = |path: &str, marks, seen| summary(known.observe(path, marks, seen));
        assert_eq!(observe("/a", CHANGED, present("1", 1, 1)), None, "an event of before");
        assert_eq!(
            observe("/a", CHANGED, present("2", 1, 5)),
            Some((ChangeKind::Changed, value("1"), value("2")))
        );
        assert_eq!(
            observe("/a", CREATED, present("3", 7, 7)),
            Some((ChangeKind::Replaced, value("2"), value("3")))
        );
        assert_eq!(
            observe("/a", DELETED, SeenNode::Absent),
            Some((ChangeKind::Deleted, value("3"), JournalValue::Absent))
        );
        assert_eq!(
            observe("/a", DELETED, SeenNode::Absent).map(|(kind, ..)| kind),
            Some(ChangeKind::Deleted)
        );
    }

    #[test]
    fn what_was_not_known_is_unknown() {
        let mut known = KnownNodes::default();
        let mut observe = |marks, seen| summary(known.observe("/b", marks, seen));
        let (unknown, absent) = (JournalValue::Unknown, JournalValue::Absent);
        assert_eq!(
            observe(CHANGED, present("x", 1, 2)),
            Some((ChangeKind::Changed, unknown.clone(), value("x")))
        );
        assert_eq!(
            observe(CHANGED, SeenNode::Unreadable),
            Some((ChangeKind::Changed, value("x"), unknown.clone()))
        );
        assert_eq!(
            observe(CREATED, SeenNode::Unreadable),
            Some((ChangeKind::Created, absent.clone(), unknown.clone()))
        );
        assert_eq!(
            observe(DELETED, SeenNode::Absent),
            Some((ChangeKind::Deleted, unknown, absent.clone()))
        );
        assert_eq!(
            observe(CREATED, SeenNode::Absent),
            Some((ChangeKind::Passed, absent.clone(), absent.clone()))
        );
        assert_eq!(
            observe(CREATED, present("y", 9, 9)),
            Some((ChangeKind::Created, absent, value("y")))
        );
        assert_eq!(observe(Marks::default(), present("y", 9, 9)), None);
    }

    #[test]
    fn a_node_of_a_complete_tree_is_new_without_an_event() {
        let mut known = KnownNodes::default();
        known.set_complete(true);
        let found = known.observe("/c", Marks::default(), present("z", 3, 3));
        assert_eq!(summary(found), Some((ChangeKind::Created, JournalValue::Absent, value("z"))));
    }
}
