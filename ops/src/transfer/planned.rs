//! The first changes of a plan, for people, and a digest of all changes.

use std::fmt;

use hmac_sha256::Hash;

use super::plan::{ExistingNode, SequenceHazard, TransferStep};

/// The changes that a plan names.
const SHOWN: usize = 200;

/// A node of a plan that is not as in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PlannedChange {
    /// `+`: create. `~`: replace. `-`: delete. `!`: an ephemeral node, left out. `k`: the node
    /// differs, and stays. `x`: a conflict.
    pub sign: char,
    /// The path on the servers.
    pub path: String,
}

/// The first changes of a plan, and the digest of all of them.
#[derive(Clone)]
pub(crate) struct PlannedChanges {
    first: Vec<PlannedChange>,
    hash: Hash,
}

impl PlannedChanges {
    pub(crate) fn new() -> Self {
        Self { first: Vec::new(), hash: Hash::new() }
    }

    /// Notes a node of the file, with the state on which its step depends.
    pub(crate) fn add(&mut self, path: &str, step: &TransferStep, existing: Option<&ExistingNode>) {
        let sign = match step {
            TransferStep::Create { .. } => '+',
            TransferStep::Replace { .. } => '~',
            TransferStep::Same => '=',
            TransferStep::Keep => 'k',
            TransferStep::Conflict => 'x',
            TransferStep::Skip => '!',
        };
        let state = existing.map(|node| (node.stat.czxid, node.stat.mzxid, node.stat.aversion));
        let (czxid, mzxid, aversion) = state.unwrap_or_default();
        self.note(sign, path, &[czxid, mzxid, i64::from(aversion)]);
    }

    pub(crate) fn add_deletion(&mut self, path: &str, version: i32) {
        self.note('-', path, &[i64::from(version)]);
    }

    pub(crate) fn add_parent(&mut self, path: &str) {
        self.note('+', path, &[]);
    }

    pub(crate) fn add_hazard(&mut self, hazard: &SequenceHazard) {
        self.hash.update([b'#']);
        self.hash_of(&hazard.parent, &[hazard.next, hazard.highest]);
    }

    fn note(&mut self, sign: char, path: &str, numbers: &[i64]) {
        self.hash.update(u32::from(sign).to_be_bytes());
        self.hash_of(path, numbers);
        if sign != '=' && self.first.len() < SHOWN {
            self.first.push(PlannedChange { sign, path: path.to_owned() });
        }
    }

    fn hash_of(&mut self, path: &str, numbers: &[i64]) {
        self.hash.update(path.len().to_be_bytes());
        self.hash.update(path);
        for number in numbers {
            self.hash.update(number.to_be_bytes());
        }
    }

    pub(crate) fn first(&self) -> &[PlannedChange] {
        &self.first
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        self.hash.finalize()
    }
}

impl fmt::Debug for PlannedChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedChanges").field("first", &self.first.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use zk_curator::Stat;

    use super::*;

    #[test]
    fn plans_differ_by_every_state_they_depend_on() {
        let digest = |path: &str, step: &TransferStep, mzxid: Option<i64>| {
            let mut planned = PlannedChanges::new();
            let existing = mzxid.map(|mzxid| ExistingNode {
                data: None,
                stat: Stat { mzxid, ..Stat::default() },
                acl: None,
            });
            planned.add(path, step, existing.as_ref());
            (planned.digest(), planned.first().len())
        };
        let (keep, same) = (TransferStep::Keep, TransferStep::Same);
        let one = digest("/a", &keep, Some(1));
        assert_eq!(one, digest("/a", &keep, Some(1)));
        assert_eq!(one.1, 1);
        for other in [
            digest("/b", &keep, Some(1)),
            digest("/a", &keep, Some(2)),
            digest("/a", &same, Some(1)),
            digest("/a", &keep, None),
        ] {
            assert_ne!(one.0, other.0);
        }
        assert_eq!(digest("/a", &same, Some(1)).1, 0);
    }

    #[test]
    fn only_the_first_changes_are_named() {
        let mut planned = PlannedChanges::new();
        for n in 0..1_000 {
            planned.add_deletion(&format!("/{n}"), 0);
        }
        assert_eq!(planned.first().len(), SHOWN);
    }
}
