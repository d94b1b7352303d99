//! Decides about the nodes of a restore.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use zk_curator::{Acl, CreateMode, Stat};

use super::record::{Kind, Record};
use crate::node;
use crate::path;

/// The treatment of nodes that exist with other data or another ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnConflict {
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
pub(crate) enum Ephemerals {
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
pub(crate) struct Rules {
    pub(crate) on_conflict: OnConflict,
    pub(crate) ephemerals: Ephemerals,
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
pub(crate) enum Step {
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

impl Rules {
    /// Returns `true` if the ACLs of existing nodes matter.
    pub(crate) const fn compares_acls(&self) -> bool {
        !matches!(self.acls, Acls::Default)
    }

    /// Returns the ACL of a node of the file.
    fn acl_of(&self, record: &Record) -> Vec<Acl> {
        match self.acls {
            Acls::Keep => record.acl_to_create(),
            Acls::Default | Acls::Drop => Acl::open_unsafe(),
        }
    }

    /// Returns `true` if the node cannot be restored with its ACL.
    pub(crate) fn refuses_acl(&self, record: &Record) -> bool {
        self.acls == Acls::Keep && record.has_masked_acl() && !self.skips(record)
    }

    fn skips(&self, record: &Record) -> bool {
        record.kind.is_ephemeral() && self.ephemerals == Ephemerals::Skip
    }

    /// Decides about a node of the file.
    pub(crate) fn decide(&self, record: &Record, existing: Option<&Existing>) -> Step {
        if self.skips(record) {
            return Step::Skip;
        }
        let acl = self.acl_of(record);
        let Some(existing) = existing else {
            let (mode, ttl) = match record.kind {
                Kind::Container => (CreateMode::Container, None),
                Kind::Ttl(ms) => (CreateMode::PersistentWithTtl, Some(Duration::from_millis(ms))),
                Kind::Ephemeral(_) if self.ephemerals == Ephemerals::Own => {
                    (CreateMode::Ephemeral, None)
                }
                Kind::Persistent | Kind::Ephemeral(_) => (CreateMode::Persistent, None),
            };
            return Step::Create { mode, ttl, acl };
        };
        let is_ephemeral = existing.stat.is_ephemeral();
        let version = (existing.data != record.data).then_some(existing.stat.version);
        let acl = existing.acl.as_ref().filter(|present| **present != acl).is_some().then_some(acl);
        if version.is_none() && acl.is_none() && !is_ephemeral {
            return Step::Same;
        }
        match self.on_conflict {
            OnConflict::Fail => Step::Conflict,
            // An ephemeral node belongs to a live session.
            _ if is_ephemeral => Step::Keep,
            OnConflict::Keep => Step::Keep,
            OnConflict::IfOlder if existing.stat.mtime >= record.mtime => Step::Keep,
            OnConflict::Replace | OnConflict::IfOlder => {
                Step::Replace { version, acl: acl.map(|acl| (acl, existing.stat.aversion)) }
            }
        }
    }
}

/// The numbers of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
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

impl Counts {
    pub(crate) const fn add(&mut self, step: &Step) {
        let count = match step {
            Step::Create { .. } => &mut self.create,
            Step::Replace { .. } => &mut self.replace,
            Step::Same => &mut self.same,
            Step::Keep => &mut self.keep,
            Step::Conflict => &mut self.conflict,
            Step::Skip => &mut self.skip,
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

impl fmt::Display for Counts {
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
    pub(crate) fn add(&mut self, path: &str, step: &Step) {
        let (parent, name) = path::split(path);
        let is_there = !matches!(step, Step::Skip);
        if let Some(number) = node::sequence(name).filter(|_| is_there) {
            let sequence = self.of(parent);
            sequence.highest = sequence.highest.max(number);
            sequence.creates |= matches!(step, Step::Create { .. });
        }
        // Children without a number count too, wherever they are in the file.
        if matches!(step, Step::Create { .. }) {
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
