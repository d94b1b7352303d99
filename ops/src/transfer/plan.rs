//! Decides about the nodes of a restore.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use zk_curator::{Acl, CreateMode, Stat};

use super::record::{RecordKind, TransferRecord};
use crate::node;
use crate::path;

/// The treatment of nodes that exist with other data or another ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnExisting {
    /// Change nothing at all
    Fail,
    /// Leave the node
    Keep,
    /// Replace its data and its ACL
    Replace,
    /// Replace those of a node that was written before the one in the file
    IfOlder,
}

/// The treatment of ephemeral nodes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EphemeralsMode {
    /// Leave them out
    Skip,
    /// Create persistent nodes
    Persistent,
    /// Create ephemeral nodes of this session, and hold them until Ctrl-C
    Own,
}

/// The source of ACLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Acls {
    /// The file
    Keep,
    /// New nodes are open to everyone; the ACLs of existing nodes stay
    Default,
    /// All nodes are open to everyone
    Drop,
}

/// The nodes that are named on the terminal.
pub(crate) const NAMED: usize = 20;

/// The treatment of low sequence counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLow {
    Refuse,
    Burn,
    Ignore,
}

/// The rules of a restore.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferRules {
    pub(crate) on_conflict: OnExisting,
    pub(crate) ephemerals: EphemeralsMode,
    pub(crate) acls: Acls,
}

/// The present state of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Existing {
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
        !matches!(self.acls, Acls::Default)
    }

    /// Returns the ACL of a node of the file.
    fn acl_of(&self, record: &TransferRecord) -> Vec<Acl> {
        match self.acls {
            Acls::Keep => record.acl_to_create(),
            Acls::Default | Acls::Drop => Acl::open_unsafe(),
        }
    }

    /// Returns `true` if the node cannot be restored with its ACL.
    pub(crate) fn refuses_acl(&self, record: &TransferRecord) -> bool {
        self.acls == Acls::Keep && record.has_masked_acl() && !self.skips(record)
    }

    fn skips(&self, record: &TransferRecord) -> bool {
        record.kind.is_ephemeral() && self.ephemerals == EphemeralsMode::Skip
    }

    /// Decides about a node of the file.
    pub(crate) fn decide(
        &self,
        record: &TransferRecord,
        existing: Option<&Existing>,
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
pub(crate) struct TransferCounts {
    pub(crate) create: u64,
    pub(crate) replace: u64,
    pub(crate) same: u64,
    pub(crate) keep: u64,
    pub(crate) delete: u64,
    pub(crate) skip: u64,
    pub(crate) conflict: u64,
    /// The sequence numbers to use up.
    pub(crate) burn: u64,
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
    pub(crate) const fn nodes(&self) -> u64 {
        let Self { create, replace, same, keep, delete, skip, conflict, .. } = self;
        *create + *replace + *same + *keep + *delete + *skip + *conflict
    }

    /// Returns `true` if there is nothing to do.
    pub(crate) const fn is_nothing(&self) -> bool {
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
#[derive(Debug, Default)]
pub(crate) struct Sequences(BTreeMap<String, Sequence>);

#[derive(Debug, Default)]
struct Sequence {
    /// The highest number of a name.
    highest: i64,
    /// The number of the next sequential child.
    next: i64,
    /// `true` if a child with a number is created.
    creates: bool,
}

/// A node whose counter is too low.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hazard {
    pub(crate) parent: String,
    /// The number that the next sequential child would have.
    pub(crate) next: i64,
    /// The highest number of a restored child.
    pub(crate) highest: i64,
    /// `true` if this restore creates a child with a number. Otherwise the hazard is there already.
    pub(crate) is_new: bool,
}

impl Hazard {
    /// Returns the sequence numbers to use up.
    pub(crate) fn burn(&self) -> u64 {
        u64::try_from(self.highest + 1 - self.next).unwrap_or_default()
    }
}

impl Sequences {
    /// Notes a node of the file.
    pub(crate) fn add(&mut self, path: &str, step: &TransferStep) {
        let (parent, name) = path::split(path);
        let is_there = !matches!(step, TransferStep::Skip);
        if let Some(number) = node::sequence(name).filter(|_| is_there) {
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
        // The server reports twice the number of created children, less those that exist.
        let created = (i64::from(stat.cversion) + i64::from(stat.num_children)) / 2;
        self.of(parent).next += created;
    }

    fn of(&mut self, parent: &str) -> &mut Sequence {
        self.0.entry(parent.to_owned()).or_insert_with(|| Sequence {
            highest: -1,
            next: 0,
            creates: false,
        })
    }

    /// Returns the nodes whose counters are too low.
    pub(crate) fn hazards(self) -> Vec<Hazard> {
        let low = self.0.into_iter().filter(|(_, sequence)| sequence.next <= sequence.highest);
        low.map(|(parent, Sequence { highest, next, creates: is_new })| Hazard {
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
