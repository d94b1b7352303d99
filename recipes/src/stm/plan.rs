//! The operations that commit an attempt. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use zk_curator::op::{CheckOp, CreateOp, DeleteOp, SetDataOp, TransactionOp};
use zk_curator::{CreateMode, Error as ZkError, Version};

use super::error::Error;
use super::read_set::{ReadAnswer, ReadSet};
use super::space::{SpaceScope, is_in};
use super::write_set::{PendingWrite, WriteSet};

/// An operation of the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommitStep {
    pub(super) path: String,
    pub(super) change: PlannedChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlannedChange {
    Check(i32),
    Set(i32, Bytes),
    Delete(i32),
    Create(Bytes),
    CreateSequential(Bytes),
    /// Creates a node and deletes it, which proves that it did not exist.
    AssertAbsent,
}

impl PlannedChange {
    const fn is_structural(&self) -> bool {
        matches!(self, Self::Delete(_) | Self::Create(_) | Self::CreateSequential(_))
    }

    /// Returns `true` if the operation is more than a check of reads.
    const fn writes(&self) -> bool {
        !matches!(self, Self::Check(_) | Self::AssertAbsent)
    }
}

/// The operations of a transaction, in their order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommitPlan {
    pub(super) steps: Vec<CommitStep>,
}

impl CommitPlan {
    /// Plans the commit of an attempt that has read every node that it writes.
    pub(super) fn new(
        reads: &ReadSet,
        writes: &WriteSet,
        scope: &SpaceScope,
    ) -> Result<Self, Error> {
        let mut steps = Steps::default();
        for (path, write) in writes.writes() {
            let is_asserted = writes.is_asserted_absent(path);
            steps.write(path, write, reads, scope, is_asserted)?;
        }
        for path in writes.absent() {
            steps.assert_absent(path, reads, scope)?;
        }
        for (prefix, data) in writes.sequential() {
            steps.sequential.push(step(prefix, PlannedChange::CreateSequential(data.clone())));
        }
        for query in reads.used() {
            let path = query.path();
            if let Some(stat) = reads.get(query).and_then(ReadAnswer::stat)
                && !writes.writes().contains_key(path)
                && !scope.roots().iter().any(|root| root == path)
            {
                steps.kept.push(step(path, PlannedChange::Check(stat.version)));
            }
        }
        let mut planned = steps.roots(reads, writes, scope)?;
        planned.append(&mut steps.kept);
        // The children of a node before the node.
        steps.deletes.reverse();
        planned.append(&mut steps.deletes);
        planned.append(&mut steps.creates);
        planned.append(&mut steps.asserts);
        planned.append(&mut steps.sequential);
        Ok(Self { steps: planned })
    }

    /// Returns `true` if the transaction is only checks of reads.
    pub(super) fn only_reads(&self) -> bool {
        !self.steps.iter().any(|step| step.change.writes())
    }

    /// Returns the operations, each after the path of the node that it may be in conflict about.
    pub(super) fn ops(&self) -> Vec<(String, TransactionOp, StepKind)> {
        let mut ops = Vec::with_capacity(self.steps.len());
        for CommitStep { path, change } in &self.steps {
            let mut add = |op: TransactionOp, kind| ops.push((path.clone(), op, kind));
            let exactly = |version: &i32| Version::Exactly(*version);
            match change {
                PlannedChange::Check(version) => {
                    add(CheckOp::new(path).version(exactly(version)).into(), StepKind::Other);
                }
                PlannedChange::Set(version, data) => {
                    let set = SetDataOp::new(path, data.clone()).version(exactly(version));
                    add(set.into(), StepKind::Other);
                }
                PlannedChange::Delete(version) => {
                    add(DeleteOp::new(path).version(exactly(version)).into(), StepKind::Other);
                }
                PlannedChange::Create(data) => {
                    add(CreateOp::new(path).data(data.clone()).into(), StepKind::Create);
                }
                PlannedChange::CreateSequential(data) => {
                    let create = CreateOp::new(path).mode(CreateMode::PersistentSequential);
                    add(create.data(data.clone()).into(), StepKind::Sequential);
                }
                PlannedChange::AssertAbsent => {
                    add(CreateOp::new(path).data(Bytes::new()).into(), StepKind::Create);
                    add(DeleteOp::new(path).version(exactly(&0)).into(), StepKind::Other);
                }
            }
        }
        ops
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    Create,
    Sequential,
    Other,
}

/// The operations by their kind.
#[derive(Debug, Default)]
struct Steps {
    /// Writes of nodes, and checks of nodes that are not written.
    kept: Vec<CommitStep>,
    deletes: Vec<CommitStep>,
    creates: Vec<CommitStep>,
    asserts: Vec<CommitStep>,
    sequential: Vec<CommitStep>,
}

impl Steps {
    fn write(
        &mut self,
        path: &str,
        write: &PendingWrite,
        reads: &ReadSet,
        scope: &SpaceScope,
        is_asserted_absent: bool,
    ) -> Result<(), Error> {
        let version = reads.data(path).and_then(ReadAnswer::stat).map(|stat| stat.version);
        if scope.roots().iter().any(|root| root == path) {
            return match write {
                // The version of the root is checked in any case.
                PendingWrite::Put(_) => Ok(()),
                _ => {
                    let why = "the root of a space can be neither created nor deleted";
                    Err(ZkError::invalid_argument("transaction", path, why).into())
                }
            };
        }
        match (write, version) {
            (PendingWrite::Create(_), Some(_)) => {
                return Err(Error::Exists { path: path.to_owned() });
            }
            (PendingWrite::Put(data), Some(version)) => {
                self.kept.push(step(path, PlannedChange::Set(version, data.clone())));
            }
            (PendingWrite::Delete, None) => {
                // Nothing is deleted. In a space, the root proves that, and otherwise an assertion.
                if matches!(scope, SpaceScope::Loose) && !is_asserted_absent {
                    return Err(Error::Unprotected { path: path.to_owned() });
                }
            }
            (PendingWrite::Delete, Some(version)) => {
                self.deletes.push(step(path, PlannedChange::Delete(version)));
            }
            (PendingWrite::Replace(data), Some(version)) => {
                self.deletes.push(step(path, PlannedChange::Delete(version)));
                self.creates.push(step(path, PlannedChange::Create(data.clone())));
            }
            (
                PendingWrite::Put(data) | PendingWrite::Create(data) | PendingWrite::Replace(data),
                None,
            ) => {
                self.creates.push(step(path, PlannedChange::Create(data.clone())));
            }
        }
        Ok(())
    }

    fn assert_absent(
        &mut self,
        path: &str,
        reads: &ReadSet,
        scope: &SpaceScope,
    ) -> Result<(), Error> {
        if reads.data(path).and_then(ReadAnswer::stat).is_some() {
            return Err(Error::Exists { path: path.to_owned() });
        }
        let is_created = self.creates.iter().any(|step| step.path == path);
        if matches!(scope, SpaceScope::Loose) && !is_created {
            self.asserts.push(step(path, PlannedChange::AssertAbsent));
        }
        Ok(())
    }

    /// Returns the operations on the roots of the spaces that the attempt has used. They come
    /// first, so a conflict of structures is reported as such.
    fn roots(
        &self,
        reads: &ReadSet,
        writes: &WriteSet,
        scope: &SpaceScope,
    ) -> Result<Vec<CommitStep>, Error> {
        let mut is_structural: BTreeMap<&str, bool> = BTreeMap::new();
        let all = [&self.kept, &self.deletes, &self.creates, &self.sequential];
        let changed = all.into_iter().flatten();
        let changed = changed.map(|step| (step.path.as_str(), step.change.is_structural()));
        let used = reads.used().map(|query| (query.path(), false));
        let written = writes.paths().map(|path| (path.as_str(), false));
        for (path, structural) in changed.chain(used).chain(written) {
            if let Some(root) = scope.roots().iter().find(|root| is_in(path, root)) {
                *is_structural.entry(root).or_default() |= structural;
            }
        }
        let step_of = |(root, structural): (&str, bool)| {
            let Some(ReadAnswer::Data { data, stat }) = reads.data(root) else {
                // Every read of a space includes its root.
                return Err(Error::Interrupted);
            };
            let change = match writes.writes().get(root) {
                Some(PendingWrite::Put(data)) => PlannedChange::Set(stat.version, data.clone()),
                _ if structural => PlannedChange::Set(stat.version, data.clone()),
                _ => PlannedChange::Check(stat.version),
            };
            Ok(step(root, change))
        };
        is_structural.into_iter().map(step_of).collect()
    }
}

fn step(path: &str, change: PlannedChange) -> CommitStep {
    CommitStep { path: path.to_owned(), change }
}

#[cfg(test)]
mod tests {
    use zk_curator::Stat;

    use super::super::read_set::{Query, ReadAnswers};
    use super::*;

    fn reads(nodes: &[(&str, Option<i32>)]) -> ReadSet {
        let answer = |version: &Option<i32>| match version {
            Some(version) => {
                let stat = Stat { version: *version, ..Stat::default() };
                ReadAnswer::Data { data: Bytes::from_static(b"old"), stat }
            }
            None => ReadAnswer::Absent,
        };
        let of = |path: &str| Query::Data(path.to_owned());
        let answers: ReadAnswers =
            nodes.iter().map(|(path, version)| (of(path), answer(version))).collect();
        let mut reads = ReadSet::of(answers, 0);
        nodes.iter().for_each(|(path, _)| reads.note_use(of(path)));
        reads
    }

    fn plan(
        nodes: &[(&str, Option<i32>)],
        write: impl FnOnce(&mut WriteSet),
        scope: &SpaceScope,
    ) -> Result<Vec<String>, Error> {
        let mut writes = WriteSet::default();
        write(&mut writes);
        let plan = CommitPlan::new(&reads(nodes), &writes, scope)?;
        let text = |data: &Bytes| String::from_utf8_lossy(data).into_owned();
        let steps = plan.steps.iter().map(|CommitStep { path, change }| match change {
            PlannedChange::Check(version) => format!("check {path} {version}"),
            PlannedChange::Set(version, data) => format!("set {path} {version} {}", text(data)),
            PlannedChange::Delete(version) => format!("delete {path} {version}"),
            PlannedChange::Create(data) => format!("create {path} {}", text(data)),
            PlannedChange::CreateSequential(data) => format!("create {path}# {}", text(data)),
            PlannedChange::AssertAbsent => format!("absent {path}"),
        });
        Ok(steps.collect())
    }

    fn space() -> SpaceScope {
        SpaceScope::Spaces(vec!["/s".to_owned()])
    }

    #[test]
    fn data_only_transaction_checks_the_root() {
        let nodes = [("/s", Some(7)), ("/s/a", Some(1)), ("/s/b", Some(2))];
        let steps = plan(&nodes, |writes| writes.put("/s/a", "new".into()), &space()).unwrap();
        assert_eq!(steps, ["check /s 7", "set /s/a 1 new", "check /s/b 2"]);
    }

    #[test]
    fn structural_transaction_writes_the_root() {
        let nodes = [
            ("/s", Some(7)),
            ("/s/a", Some(1)),
            ("/s/a/x", Some(4)),
            ("/s/b", None),
            ("/s/b/y", None),
        ];
        let write = |writes: &mut WriteSet| {
            writes.delete("/s/a");
            writes.delete("/s/a/x");
            writes.put("/s/b/y", "y".into());
            writes.create("/s/b", "b".into());
            writes.create_sequential("/s/b/n-", "n".into());
            writes.put("/s/a", "again".into());
        };
        let steps = plan(&nodes, write, &space()).unwrap();
        let expected = [
            "set /s 7 old",
            "delete /s/a/x 4",
            "delete /s/a 1",
            "create /s/a again",
            "create /s/b b",
            "create /s/b/y y",
            "create /s/b/n-# n",
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn reads_alone_are_no_writes() {
        let (reads, scope) = (reads(&[("/s", Some(7)), ("/s/a", Some(1))]), space());
        let plan = CommitPlan::new(&reads, &WriteSet::default(), &scope).unwrap();
        assert!(plan.only_reads());
        assert_eq!(plan.steps.len(), 2);
        let mut writes = WriteSet::default();
        writes.delete("/s/none");
        assert!(CommitPlan::new(&reads, &writes, &scope).unwrap().only_reads());
    }

    #[test]
    fn root_can_only_be_put() {
        let nodes = [("/s", Some(7))];
        let steps = plan(&nodes, |writes| writes.put("/s", "new".into()), &space()).unwrap();
        assert_eq!(steps, ["set /s 7 new"]);
        assert!(plan(&nodes, |writes| writes.delete("/s"), &space()).is_err());
    }

    #[test]
    fn existing_node_is_not_created() {
        let nodes = [("/s", Some(7)), ("/s/a", Some(1))];
        let write = |writes: &mut WriteSet| assert!(writes.create("/s/a", "".into()));
        assert!(matches!(plan(&nodes, write, &space()), Err(Error::Exists { .. })));
    }

    #[test]
    fn absence_is_asserted_by_a_create_without_a_space() {
        let nodes = [("/a", Some(1)), ("/b", None), ("/c", None)];
        let write = |writes: &mut WriteSet| {
            writes.assert_absent("/b");
            writes.assert_absent("/c");
            writes.put("/c", "c".into());
        };
        let steps = plan(&nodes, write, &SpaceScope::Loose).unwrap();
        assert_eq!(steps, ["check /a 1", "create /c c", "absent /b"]);
        let deleted = plan(&nodes, |writes| writes.delete("/b"), &SpaceScope::Loose);
        assert!(matches!(deleted, Err(Error::Unprotected { .. })));
    }

    #[test]
    fn asserted_absence_protects_a_delete_without_a_space() {
        let asserted = |writes: &mut WriteSet| {
            writes.assert_absent("/b");
            writes.delete("/b");
        };
        let created = |writes: &mut WriteSet| {
            assert!(writes.create("/b", "b".into()));
            writes.delete("/b");
        };
        for write in [asserted, created] {
            assert_eq!(plan(&[("/b", None)], write, &SpaceScope::Loose).unwrap(), ["absent /b"]);
            let exists = plan(&[("/b", Some(1))], write, &SpaceScope::Loose);
            assert!(matches!(exists, Err(Error::Exists { .. })), "{exists:?}");
        }
    }
}
