//! The guarantees of a cache, checked against the history of the server.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::model::{Checked, Model};
use super::server::BELOW;
use crate::cache::state::{Lookup, TreeChange, TreeState};
use crate::cache::told::CheckpointStanding;

impl Model {
    pub(super) fn tree(&self) -> BTreeMap<String, (i64, i64)> {
        let tree = self.state.tree();
        let nodes = tree.walk(tree.root());
        nodes.map(|node| (node.path.to_string(), (node.stat.czxid, node.stat.mzxid))).collect()
    }

    /// Changes the state. Checks that every change is reported with the earlier state, and that no
    /// path goes back in time.
    pub(super) fn change(
        &mut self,
        change: impl FnOnce(&mut TreeState, &mut Vec<TreeChange>),
    ) -> Checked {
        let before = self.tree();
        let mut changes = Vec::new();
        change(&mut self.state, &mut changes);
        let after = self.tree();
        let kept = after.keys().filter(|path| self.setup.keeps(path)).count();
        prop_assert_eq!(kept, self.state.tree().len());
        let mut told = BTreeSet::new();
        for (path, old) in changes {
            let old = old.map(|old| (old.stat.czxid, old.stat.mzxid));
            if told.insert(path.to_string()) {
                prop_assert_eq!(old, before.get(&*path).copied(), "{} was reported", path);
            }
        }
        for path in before.keys().chain(after.keys()) {
            let (old, new) = (before.get(path).copied(), after.get(path).copied());
            if old == new {
                continue;
            }
            prop_assert!(told.contains(path), "{path}: {old:?} became {new:?} silently");
            let Some(new) = new else {
                let is_removed = !self.state.unreadable().contains_key(path.as_str());
                self.shown.insert(path.clone(), (old.unwrap(), is_removed));
                continue;
            };
            if let Some((last, is_removed)) = self.shown.insert(path.clone(), (new, false)) {
                let goes_on = if is_removed { new.0 > last.0 } else { new >= last };
                prop_assert!(goes_on, "{path} goes back from {last:?} to {new:?}");
            }
        }
        Ok(())
    }

    /// Checks that the shown state existed at some time, and is the current one if no reads are
    /// pending.
    pub(super) fn check(&mut self) -> Checked {
        for (path, (czxid, mzxid)) in self.tree() {
            prop_assert!(
                self.server.real.contains(&(path.clone(), czxid, mzxid)),
                "{path} is invented"
            );
        }
        let is_current = self.standing() == CheckpointStanding::Current && !self.is_partial;
        if !is_current || !self.state.is_settled() {
            return Ok(());
        }
        prop_assert_eq!(self.state.refusal(), None);
        self.check_equal(self.handled)
    }

    /// Checks that the contents are the server's after this transaction.
    pub(super) fn check_equal(&self, zxid: i64) -> Checked {
        let there = &self.server.history[usize::try_from(zxid).unwrap()];
        for number in 0..BELOW.len() {
            let path = self.server.path(number);
            let is_open = self.is_open(&path);
            let is_shown = self.setup.covers(&path) && self.setup.keeps(&path);
            let there = there.get(&path).filter(|_| is_shown);
            match (self.state.lookup(&path, true), there) {
                (Lookup::Present(node), Some(there)) => {
                    prop_assert_eq!((node.stat.czxid, node.stat.mzxid), (there.czxid, there.mzxid));
                    prop_assert_eq!(&node.data, &there.mzxid.to_string());
                }
                (Lookup::Absent, None) => {
                    prop_assert!(self.setup.covers(&path), "{path} is not covered");
                }
                (Lookup::Unknown, _) => {
                    prop_assert!(is_open || !is_shown, "{path} is not known");
                }
                (told, there) => {
                    prop_assert!(false, "{path} is {told:?}, and there {there:?}");
                }
            }
        }
        Ok(())
    }

    /// Checks that no path shows a state from before this transaction.
    pub(super) fn check_not_older_than(&self, zxid: i64) -> Checked {
        let since = &self.server.history[usize::try_from(zxid).unwrap()..];
        for path in (0..BELOW.len()).map(|number| self.server.path(number)) {
            if self.is_open(&path) || !self.setup.covers(&path) || !self.setup.keeps(&path) {
                continue;
            }
            let states: BTreeSet<_> = since
                .iter()
                .map(|nodes| nodes.get(&path).map(|node| (node.czxid, node.mzxid)))
                .collect();
            let is_shown = match self.state.lookup(&path, true) {
                Lookup::Present(node) => states.contains(&Some((node.stat.czxid, node.stat.mzxid))),
                // Perhaps between the two parts of a transaction that replaces it.
                Lookup::Absent => {
                    states.iter().flatten().any(|(czxid, _)| *czxid > zxid)
                        || states.contains(&None)
                }
                // Nodes that existed all the time and have not changed are known.
                Lookup::Unknown => states.len() > 1 || states.contains(&None),
            };
            prop_assert!(is_shown, "{path} is older than {zxid}");
        }
        Ok(())
    }

    /// Returns `true` if a node, or one above it, could not be read.
    fn is_open(&self, path: &str) -> bool {
        self.state.unreadable().keys().any(|open| path.starts_with(&**open) || &**open == "/")
    }
}
