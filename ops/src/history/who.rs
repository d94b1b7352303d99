//! The authors of deletions.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use zk_curator::SessionId;

use super::change::{Change, Moment, Operation};
use super::changes::Changes;
use super::error::{Error, Result};
use super::files::SnapshotFile;
use super::index::Index;
use super::recipe_names::RecipeNode;
use super::records::{Record, Txn};
use super::replay::At;
use super::scope::{Scope, canonical};
use super::selection::Selection;
use super::sessions::SessionHistory;
use super::snapshot::Snapshot;
use super::stat::Owner;

/// The longest pause between two deletions of one run, in milliseconds.
const PAUSE_MS: i64 = 10_000;
/// The maximum number of other changes of an author that are listed.
const LISTED: usize = 1000;

/// The deletion of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deletion {
    /// The deletion, with its reason and, if data was requested, the last data.
    pub change: Change,
    /// The first transaction of the run of deletions that this one ends. A node can be deleted only
    /// after its children: the run are the deletions below the node by one session, with pauses of
    /// at most ten seconds and no other change below the node between them.
    pub first: Moment,
    /// The number of nodes that the run deleted, including this one.
    pub nodes: u64,
    /// The recipe that the name of the node belongs to.
    pub recipe: Option<RecipeNode>,
}

/// A session, and what it did at the time of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Author {
    /// The session.
    pub session: SessionHistory,
    /// The ephemeral nodes that it created, by path. Their data often tells which service it was.
    pub ephemerals: Vec<EphemeralHistory>,
    /// Its changes near the requested time: the first 1000.
    pub nearby: Vec<Change>,
    /// The number of its changes near the requested time.
    pub nearby_count: u64,
}

/// An ephemeral node of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EphemeralHistory {
    /// The node.
    pub path: String,
    /// Its last data; `None` for Java's `null`.
    pub data: Option<Bytes>,
    /// Its creation; `None` if it was created before the logs.
    pub created: Option<Moment>,
    /// Its deletion; `None` if it was not deleted within the logs.
    pub deleted: Option<Moment>,
}

impl Deletion {
    /// Returns the moment before the run of deletions, for a [`Replay`](super::Replay).
    #[must_use]
    pub const fn before(&self) -> At {
        At::Zxid(self.first.zxid.saturating_sub(1))
    }
}

impl EphemeralHistory {
    /// Returns `true` if the node was created before and was not deleted yet. A node of a snapshot
    /// can be younger than a transaction: the transaction concerns an earlier node, then.
    fn exists_at(&self, at: Moment) -> bool {
        self.created.is_none_or(|created| created.zxid <= at.zxid) && self.deleted.is_none()
    }
}

impl Index {
    /// Returns the deletions of a node, the oldest first. The paths, the session and the operations
    /// of the index have no effect; [`with_data`](Index::with_data), times and transactions have.
    ///
    /// # Errors
    /// The errors of reading the files.
    pub fn deletions(&self, path: &str) -> Result<Vec<Deletion>> {
        let (mut deletions, mut run) = (Vec::new(), None::<Run>);
        for change in self.of_subtree(path)? {
            let change = change?;
            if change.operation != Operation::Delete {
                run = None;
                continue;
            }
            let mut current = match run.take() {
                Some(run) if run.includes(&change) => run,
                _ => Run { session: change.session, first: change.at, last: change.at, nodes: 0 },
            };
            current.last = change.at;
            current.nodes += 1;
            if change.path.as_deref() == Some(canonical(path)) {
                let recipe = RecipeNode::of(path);
                let Run { first, nodes, .. } = current;
                deletions.push(Deletion { change, first, nodes, recipe });
            } else {
                run = Some(current);
            }
        }
        Ok(deletions)
    }

    /// Returns the session of a change, its ephemeral nodes, and its changes within `within_ms`
    /// milliseconds before and after the change. Filters of the index have no effect.
    ///
    /// # Errors
    /// The errors of reading the files.
    pub fn author(&self, session: SessionId, at: Moment, within_ms: u32) -> Result<Author> {
        let within = i64::from(within_ms);
        let times = (at.time_ms.saturating_sub(within), at.time_ms.saturating_add(within));
        let near = Selection { session: Some(session), times, ..Selection::default() };
        let mut history = SessionHistory::new(session);
        let timeouts = self.snapshot_sessions()?;
        history.timeout_ms = timeouts.iter().find(|(id, _)| *id == session).map(|found| found.1);
        let (mut ephemerals, mut ready) = (BTreeMap::new(), VecDeque::new());
        let (mut nearby, mut nearby_count) = (Vec::new(), 0);
        let mut logs = self.logs();
        while let Some(record) = logs.next_record()? {
            if record.header.session == session {
                history.add(&record);
            }
            follow_ephemerals(session, &record, &mut ephemerals);
            near.collect(&record, None, &mut ready);
            for change in ready.drain(..) {
                nearby_count += 1;
                if nearby.len() < LISTED {
                    nearby.push(change);
                }
            }
        }
        if history.begun.is_none() {
            // Some of its nodes are older than the logs.
            ephemerals = self.ephemerals_in_snapshots(session, at)?;
            let mut logs = self.logs();
            while let Some(record) = logs.next_record()? {
                follow_ephemerals(session, &record, &mut ephemerals);
            }
        }
        let ephemerals = ephemerals.into_values().collect();
        Ok(Author { session: history, ephemerals, nearby, nearby_count })
    }

    /// Returns the changes of a node and of the nodes below it.
    fn of_subtree(&self, path: &str) -> Result<Changes> {
        let mut index = self.clone();
        index.settings.scope = Scope::default();
        index.selection.session = None;
        index.selection.operations = None;
        index.below(path).with_states(true).changes()
    }

    /// Returns the ephemeral nodes of a session in the last complete snapshot before a moment.
    fn ephemerals_in_snapshots(
        &self,
        session: SessionId,
        at: Moment,
    ) -> Result<BTreeMap<String, EphemeralHistory>> {
        for file in self.files.snapshots.iter().rev().filter(|file| file.zxid <= at.zxid) {
            match self.ephemerals_in(file, session) {
                Ok(ephemerals) => return Ok(ephemerals),
                Err(error) if error.is_truncated() => {}
                Err(Error::Damaged { .. }) if self.settings.skips_damaged => {}
                Err(error) => return Err(error),
            }
        }
        Ok(BTreeMap::new())
    }

    fn ephemerals_in(
        &self,
        file: &SnapshotFile,
        session: SessionId,
    ) -> Result<BTreeMap<String, EphemeralHistory>> {
        let mut ephemerals = BTreeMap::new();
        let mut snapshot = Snapshot::open(&file.path)?.max_record(self.settings.max_record);
        while let Some(node) = snapshot.next_node()? {
            if node.stat.owner() == Owner::Session(session) {
                let created = Moment { zxid: node.stat.czxid, time_ms: node.stat.ctime };
                add_ephemeral(&mut ephemerals, node.path, node.data, created);
            }
        }
        Ok(ephemerals)
    }
}

/// Deletions of one session, one after another.
#[derive(Debug)]
struct Run {
    session: SessionId,
    first: Moment,
    last: Moment,
    nodes: u64,
}

impl Run {
    fn includes(&self, change: &Change) -> bool {
        let pause = change.at.time_ms.saturating_sub(self.last.time_ms);
        change.session == self.session && pause <= PAUSE_MS
    }
}

/// Follows the ephemeral nodes of a session through a transaction.
fn follow_ephemerals(
    session: SessionId,
    record: &Record<'_>,
    ephemerals: &mut BTreeMap<String, EphemeralHistory>,
) {
    let header = &record.header;
    let at = Moment::of(header);
    for (_, txn) in record.applied() {
        match txn {
            Txn::Create(create) if create.owner(header.session) == Owner::Session(session) => {
                add_ephemeral(ephemerals, create.path, create.data, at);
            }
            Txn::SetData(set) => {
                if let Some(node) = ephemerals.get_mut(set.path)
                    && node.exists_at(at)
                {
                    node.data = set.data.map(Bytes::copy_from_slice);
                }
            }
            Txn::Delete { path } => {
                if let Some(node) = ephemerals.get_mut(path)
                    && node.exists_at(at)
                {
                    node.deleted = Some(at);
                }
            }
            Txn::CloseSession(_) if header.session == session => {
                for node in ephemerals.values_mut() {
                    node.deleted = node.deleted.or(Some(at));
                }
            }
            _ => {}
        }
    }
}

fn add_ephemeral(
    ephemerals: &mut BTreeMap<String, EphemeralHistory>,
    path: &str,
    data: Option<&[u8]>,
    created: Moment,
) {
    let (path, created) = (path.to_owned(), Some(created));
    let data = data.map(Bytes::copy_from_slice);
    let history = EphemeralHistory { path: path.clone(), data, created, deleted: None };
    ephemerals.insert(path, history);
}
