//! Decides about the nodes of a restore.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use zk_curator::{Acl, CreateMode, Stat};

use super::record::{RecordKind, TransferRecord};
use crate::node;
use crate::path;

/// The treatment of nodes that exist with other data or another ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnExisting {
    /// Changes nothing at all.
    Fail,
    /// Leaves the node.
    Keep,
    /// Replaces its data and its ACL.
    Replace,
    /// Replaces those of a node that was written before the one in the file.
    IfOlder,
}

/// The treatment of ephemeral nodes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EphemeralsMode {
    /// Leaves them out.
    Skip,
    /// Creates persistent nodes.
    Persistent,
    /// Creates ephemeral nodes of the session of the restore, which live as long as it.
    Own,
}

/// The source of ACLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AclPolicy {
    /// The file.
    Keep,
    /// New nodes are open to everyone; the ACLs of existing nodes stay.
    Default,
    /// All nodes are open to everyone.
    Drop,
}

/// The nodes that are named in a plan or an error, of one kind.
pub(crate) const NAMED: usize = 20;

/// The greatest number of a sequential child.
const LAST_SEQUENCE: i64 = 2_147_483_647;

/// The treatment of nodes whose new sequential children would sort before the ones that are
/// written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLowCounter {
    /// Refuses the plan.
    Refuse,
    /// Raises the counter, by creating and deleting a node for each number.
    Burn,
    /// Writes the nodes although the counter is too low.
    Ignore,
}

/// The rules of a restore.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferRules {
    pub(crate) on_conflict: OnExisting,
    pub(crate) ephemerals: EphemeralsMode,
    pub(crate) acls: AclPolicy,
}

/// The present state of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExistingNode {
    pub(crate) data: Option<Bytes>,
    pub(crate) stat: Stat,
    /// `None` if the rules do not compare it.
    pub(crate) acl: Option<Vec<Acl>>,
}

/// The step for a node of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TransferStep {
    Create {
        mode: CreateMode,
        ttl: Option<Duration>,
        acl: Vec<Acl>,
    },
    Replace {
        /// The version of the data to replace; `None` if they are equal.
        version: Option<i32>,
        /// The ACL to set, and the version of the one to replace.
        acl: Option<(Vec<Acl>, i32)>,
    },
    /// The node is as in the file.
    Same,
    /// The node differs, and stays.
    Keep,
    /// The node differs, which forbids the restore.
    Conflict,
    /// An ephemeral node, which is left out.
    Skip,
}

impl TransferRules {
    /// Returns `true` if the ACLs of existing nodes matter.
    pub(crate) const fn compares_acls(&self) -> bool {
        !matches!(self.acls, AclPolicy::Default)
    }

    /// Returns the ACL of a node of the file.
    fn acl_of(&self, record: &TransferRecord) -> Vec<Acl> {
        match self.acls {
            AclPolicy::Keep => record.acl_to_create(),
            AclPolicy::Default | AclPolicy::Drop => Acl::open_unsafe(),
        }
    }

    /// Returns `true` if the node cannot be restored with its ACL.
    pub(crate) fn refuses_acl(&self, record: &TransferRecord) -> bool {
        self.acls == AclPolicy::Keep && record.has_masked_acl() && !self.skips(record)
    }

    fn skips(&self, record: &TransferRecord) -> bool {
        record.kind.is_ephemeral() && self.ephemerals == EphemeralsMode::Skip
    }

    /// Decides about a node of the file.
    pub(crate) fn decide(
        &self,
        record: &TransferRecord,
        existing: Option<&ExistingNode>,
    ) -> TransferStep {
        if self.skips(record) {
            return TransferStep::Skip;
        }
        let acl = self.acl_of(record);
        let Some(existing) = existing else {
            let (mode, ttl) = match record.kind {
                RecordKind::Container => (CreateMode::Container, None),
                RecordKind::Ttl(ms) => {
                    (CreateMode::PersistentWithTtl, Some(Duration::from_millis(ms)))
                }
                RecordKind::Ephemeral(_) if self.ephemerals == EphemeralsMode::Own => {
                    (CreateMode::Ephemeral, None)
                }
                RecordKind::Persistent | RecordKind::Ephemeral(_) => (CreateMode::Persistent, None),
            };
            return TransferStep::Create { mode, ttl, acl };
        };
        let is_ephemeral = existing.stat.is_ephemeral();
        let version = (existing.data != record.data).then_some(existing.stat.version);
        let acl = existing.acl.as_ref().filter(|present| **present != acl).is_some().then_some(acl);
        if version.is_none() && acl.is_none() && !is_ephemeral {
            return TransferStep::Same;
        }
        match self.on_conflict {
            OnExisting::Fail => TransferStep::Conflict,
            // An ephemeral node belongs to a live session.
            _ if is_ephemeral => TransferStep::Keep,
            OnExisting::Keep => TransferStep::Keep,
            OnExisting::IfOlder if existing.stat.mtime >= record.mtime => TransferStep::Keep,
            OnExisting::Replace | OnExisting::IfOlder => {
                TransferStep::Replace { version, acl: acl.map(|acl| (acl, existing.stat.aversion)) }
            }
        }
    }
}

/// The numbers of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TransferCounts {
    /// The nodes to create.
    pub create: u64,
    /// The nodes whose data or ACLs to replace.
    pub replace: u64,
    /// The nodes that are as in the file.
    pub same: u64,
    /// The nodes that differ, and stay.
    pub keep: u64,
    /// The nodes to delete.
    pub delete: u64,
    /// The ephemeral nodes that are left out.
    pub skip: u64,
    /// The nodes that differ, which forbids the restore.
    pub conflict: u64,
    /// The sequence numbers to use up.
    pub burn: u64,
}

impl TransferCounts {
    pub(crate) const fn add(&mut self, step: &TransferStep) {
        let count = match step {
            TransferStep::Create { .. } => &mut self.create,
            TransferStep::Replace { .. } => &mut self.replace,
            TransferStep::Same => &mut self.same,
            TransferStep::Keep => &mut self.keep,
            TransferStep::Conflict => &mut self.conflict,
            TransferStep::Skip => &mut self.skip,
        };
        *count += 1;
    }

    /// Returns the number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> u64 {
        let Self { create, replace, same, keep, delete, skip, conflict, .. } = self;
        *create + *replace + *same + *keep + *delete + *skip + *conflict
    }

    /// Returns `true` if there is nothing to do.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.create + self.replace + self.delete + self.burn == 0
    }
}

impl fmt::Display for TransferCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { create, replace, same, delete, skip, .. } = self;
        write!(f, "+ {create}  ~ {replace}  = {same}  - {delete}  ! {skip} ephemeral")?;
        for (number, what) in [
            (self.keep, "kept"),
            (self.conflict, "in conflict"),
            (self.burn, "sequence numbers used up"),
        ] {
            if number > 0 {
                write!(f, "  {number} {what}")?;
            }
        }
        Ok(())
    }
}

/// Finds restored sequential names that new ones would sort before, or collide with. The counter of
/// a node is not restored: it counts the children that were created since the node exists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequences(BTreeMap<String, Sequence>);

#[derive(Debug, Clone, Default)]
struct Sequence {
    /// The highest number of a name.
    highest: i64,
    /// The number of the next sequential child.
    next: i64,
    /// `true` if a child with a number is created.
    creates: bool,
}

/// A node whose sequence counter is too low.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SequenceHazard {
    /// The path of the node.
    pub parent: String,
    /// The number that the next sequential child would have.
    pub next: i64,
    /// The highest number of a written child.
    pub highest: i64,
    /// `true` if a child with a number is created. Otherwise the hazard is there already.
    pub is_new: bool,
}

impl SequenceHazard {
    /// Returns the number of sequence numbers to use up.
    #[must_use]
    pub fn burn(&self) -> u64 {
        u64::try_from(self.highest + 1 - self.next).unwrap_or_default()
    }
}

impl Sequences {
    /// Notes a node of the file.
    pub(crate) fn add(&mut self, path: &str, step: &TransferStep) {
        let (parent, name) = path::split(path);
        let is_there = !matches!(step, TransferStep::Skip);
        // Greater numbers are not those of servers, and no counter gets there.
        let is_number = |number: &i64| is_there && *number <= LAST_SEQUENCE;
        if let Some(number) = node::sequence(name).filter(is_number) {
            let sequence = self.of(parent);
            sequence.highest = sequence.highest.max(number);
            sequence.creates |= matches!(step, TransferStep::Create { .. });
        }
        // Children without a number count too, wherever they are in the file.
        if matches!(step, TransferStep::Create { .. }) {
            self.of(parent).next += 1;
        }
    }

    /// Notes the present state of a parent.
    pub(crate) fn exists(&mut self, parent: &str, stat: &Stat) {
        self.of(parent).next += node::next_sequence(stat);
    }

    fn of(&mut self, parent: &str) -> &mut Sequence {
        self.0.entry(parent.to_owned()).or_insert_with(|| Sequence {
            highest: -1,
            next: 0,
            creates: false,
        })
    }

    /// Returns the nodes whose counters are too low.
    pub(crate) fn hazards(self) -> Vec<SequenceHazard> {
        let low = self.0.into_iter().filter(|(_, sequence)| sequence.next <= sequence.highest);
        low.map(|(parent, Sequence { highest, next, creates: is_new })| SequenceHazard {
            parent,
            next,
            highest,
            is_new,
        })
        .collect()
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
