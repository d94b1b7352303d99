//! The authors of deletions.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use zk_curator::SessionId;

use super::change::{Change, DeletionCause, Moment, Operation};
use super::changes::Changes;
use super::continuity::Gap;
use super::error::Result;
use super::files::SnapshotFile;
use super::identity::ClientIdentity;
use super::index::Index;
use super::lists::AclList;
use super::log::Skipped;
use super::moment::At;
use super::recipe_names::RecipeNode;
use super::records::{Record, Txn};
use super::scope::{Scope, canonical};
use super::selection::Selection;
#[cfg(feature = "serde")]
use super::serial;
use super::sessions::SessionHistory;
use super::snapshot::Snapshot;
use super::stat::Owner;

/// The longest pause between two deletions of one run, in milliseconds.
const PAUSE_MS: i64 = 10_000;
/// The maximum number of deletions, of other changes of an author, and of its deleted ephemeral
/// nodes that are listed.
const LISTED: usize = 1000;
/// The number of sessions above which finished runs are forgotten.
const SESSIONS: usize = 1000;

/// The deletion of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Deletion {
    /// The deletion, with its reason and, if data was requested, the last data.
    pub change: Change,
    /// The first transaction of the run of deletions that this one ends. A node can be deleted only
    /// after its children: the run are the deletions below the node by one session, with pauses of
    /// at most ten seconds, and without another change by this session below the node.
    pub first: Moment,
    /// The number of nodes that the run deleted, including this one.
    pub nodes: u64,
    /// The number of changes of other sessions below the node during the run. The tree
    /// [before](Self::before) the run does not contain them.
    pub other_changes: u64,
    /// The recipe that the name of the node belongs to.
    pub recipe: Option<RecipeNode>,
}

/// The end of a node: see [`Index::fate`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Fate {
    /// The deletions of the node, the oldest first: the last 1000.
    pub deletions: Vec<Deletion>,
    /// The number of its deletions.
    pub deletion_count: u64,
    /// Its last change, which can be a deletion; `None` if the logs do not contain the node.
    pub last: Option<Change>,
    /// The gaps in the logs. A later change may be in one of them.
    pub gaps: Vec<Gap>,
    /// Damaged ranges, if they were [skipped](Index::skip_damaged), and snapshots that were passed
    /// over because they are incomplete or damaged.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub skipped: Vec<Skipped>,
}

/// A session, and its activity at the time of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Author {
    /// The session.
    pub session: SessionHistory,
    /// The ephemeral nodes that it created, by path: all existing ones, and the last 1000 deleted
    /// ones. Their data often tells which service it was.
    pub ephemerals: Vec<EphemeralHistory>,
    /// The number of its ephemeral nodes.
    pub ephemeral_count: u64,
    /// Its changes near the requested time: the first 1000, and the [explained](Index::explain)
    /// one.
    pub nearby: Vec<Change>,
    /// The number of its changes near the requested time.
    pub nearby_count: u64,
}

/// An ephemeral node of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct EphemeralHistory {
    /// The node.
    pub path: String,
    /// Its last data; `None` for Java's `null`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::bytes"))]
    pub data: Option<Bytes>,
    /// Its creation; `None` if it was created before the logs.
    pub created: Option<Moment>,
    /// Its deletion; `None` if it was not deleted within the logs.
    pub deleted: Option<Moment>,
    /// `true` if its last ACL lets every client read the data; `None` if the files do not tell it.
    pub anyone_reads: Option<bool>,
}

impl Deletion {
    /// Returns the moment before the run of deletions, for a [`Replay`](super::Replay).
    #[must_use]
    pub const fn before(&self) -> At {
        At::Zxid(self.first.zxid.saturating_sub(1))
    }
}

impl Author {
    /// Returns the label and the address that the client has written into its ephemeral nodes: of
    /// the first node with an address, or else of the first node with a label.
    #[must_use]
    pub fn identity(&self) -> ClientIdentity {
        let found: Vec<_> = self.ephemerals.iter().map(EphemeralHistory::identity).collect();
        let with_address = found.iter().find(|identity| identity.address.is_some());
        let with_label = || found.iter().find(|identity| identity.label.is_some());
        with_address.or_else(with_label).cloned().unwrap_or_default()
    }
}

impl EphemeralHistory {
    /// Returns the label and the address in the data of the node.
    #[must_use]
    pub fn identity(&self) -> ClientIdentity {
        self.data.as_deref().map(ClientIdentity::of).unwrap_or_default()
    }

    /// Returns `true` if the node was created before and was not deleted yet. A node of a snapshot
    /// can be younger than a transaction: the transaction concerns an earlier node, then.
    fn exists_at(&self, at: Moment) -> bool {
        self.created.is_none_or(|created| created.zxid <= at.zxid) && self.deleted.is_none()
    }
}

impl Index {
    /// Returns the deletions of a node, the oldest first: the last 1000. Otherwise as
    /// [`fate`](Self::fate).
    ///
    /// # Errors
    /// The errors of reading the files.
    pub fn deletions(&self, path: &str) -> Result<Vec<Deletion>> {
        Ok(self.fate(path)?.deletions)
    }

    /// Returns the last deletions of a node, and its last change. The paths, the session and the
    /// operations of the index have no effect; [`with_data`](Index::with_data), times and
    /// transactions have.
    ///
    /// # Errors
    /// The errors of reading the files.
    pub fn fate(&self, path: &str) -> Result<Fate> {
        let path = canonical(path);
        let (mut fate, mut runs) = (Fate::default(), Runs::default());
        let mut changes = self.of_subtree(path)?;
        for change in changes.by_ref() {
            let change = change?;
            // The root is `/` in transactions.
            let is_own = change.path.as_deref().is_some_and(|own| canonical(own) == path);
            if is_own {
                fate.last = Some(change.clone());
            }
            if change.operation != Operation::Delete {
                runs.add_other(change.session);
                continue;
            }
            let run = runs.add_deletion(&change);
            if is_own {
                let (Run { first, nodes, .. }, other_changes) = (run, runs.others(&run));
                let recipe = RecipeNode::of(path);
                fate.add(Deletion { change, first, nodes, other_changes, recipe });
                runs = Runs::default();
            }
        }
        fate.cut();
        fate.gaps = changes.gaps().to_vec();
        fate.skipped = changes.skipped().cloned().collect();
        Ok(fate)
    }

    /// Returns the session of a change, its ephemeral nodes, and its changes within `within_ms`
    /// milliseconds before and after the change. If the id was used again, the session at the time
    /// of the change. Filters of the index have no effect.
    ///
    /// # Errors
    /// The errors of reading the files.
    pub fn author(&self, session: SessionId, at: Moment, within_ms: u32) -> Result<Author> {
        self.author_of(session, at, within_ms, None)
    }

    /// Returns the author of a change, which is listed even if 1000 others precede it.
    pub(super) fn author_of(
        &self,
        session: SessionId,
        at: Moment,
        within_ms: u32,
        explained: Option<&Change>,
    ) -> Result<Author> {
        let within = i64::from(within_ms);
        let times = (at.time_ms.saturating_sub(within), at.time_ms.saturating_add(within));
        let near = Selection { session: Some(session), times, ..Selection::default() };
        let mut history = SessionHistory::new(session);
        let timeouts = self.snapshot_sessions()?;
        history.timeout_ms = timeouts.iter().find(|(id, _)| *id == session).map(|found| found.1);
        let (mut ephemerals, mut ready) = (Ephemerals::of(session), VecDeque::new());
        let (mut nearby, mut nearby_count) = (Vec::new(), 0);
        let mut next_session = i64::MAX;
        let mut logs = self.logs();
        while let Some(record) = logs.next_record()? {
            if record.header.session == session {
                if history.is_replaced_by(&record) {
                    if record.header.zxid > at.zxid {
                        next_session = record.header.zxid;
                        break;
                    }
                    ephemerals = Ephemerals::of(session);
                }
                history.add(&record);
            }
            ephemerals.follow(&record);
            near.collect(&record, None, &mut ready);
            for change in ready.drain(..) {
                nearby_count += 1;
                let is_explained = explained.is_some_and(|explained| change.is_same(explained));
                if nearby.len() < LISTED || is_explained {
                    nearby.push(change);
                }
            }
        }
        if history.begun.is_none() {
            // Some of its nodes are older than the logs.
            ephemerals = self.ephemerals_in_snapshots(session, at)?;
            let mut logs = self.logs();
            while let Some(record) = logs.next_record()? {
                if record.header.zxid >= next_session {
                    break;
                }
                ephemerals.follow(&record);
            }
        }
        let ephemeral_count = ephemerals.count;
        let ephemerals = ephemerals.by_path.into_values().collect();
        Ok(Author { session: history, ephemerals, ephemeral_count, nearby, nearby_count })
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
    fn ephemerals_in_snapshots(&self, session: SessionId, at: Moment) -> Result<Ephemerals> {
        for file in self.files.snapshots.iter().rev().filter(|file| file.zxid <= at.zxid) {
            match self.ephemerals_in(file, session) {
                Ok(ephemerals) => return Ok(ephemerals),
                Err(error) if self.settings.passes_over(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Ephemerals::of(session))
    }

    fn ephemerals_in(&self, file: &SnapshotFile, session: SessionId) -> Result<Ephemerals> {
        let mut ephemerals = Ephemerals::of(session);
        let snapshot = Snapshot::open(&file.path)?.max_record(self.settings.max_record);
        let mut snapshot = snapshot.within(self.settings.budget.clone());
        while let Some(node) = snapshot.next_node()? {
            if node.stat.owner() == Owner::Session(session) {
                let created = Moment { zxid: node.stat.czxid, time_ms: node.stat.ctime };
                let anyone_reads = node.acl.map(AclList::lets_anyone_read);
                ephemerals.add(node.path, node.data, created, anyone_reads);
            }
        }
        Ok(ephemerals)
    }
}

/// The deletions of each session below a node, one after another.
#[derive(Debug, Default)]
struct Runs {
    by_session: BTreeMap<SessionId, Run>,
    /// The number of changes so far. Deletions at the end of a session do not count: they are those
    /// of ephemeral nodes, which are never restored.
    changes: u64,
}

/// Deletions of one session.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: Moment,
    last: Moment,
    nodes: u64,
    /// The number of changes before the run, and in it.
    not_others: u64,
}

impl Runs {
    /// Adds a change that is not a deletion. It ends the run of its own session only: other clients
    /// write while a script deletes.
    fn add_other(&mut self, session: SessionId) {
        self.by_session.remove(&session);
        self.changes += 1;
    }

    /// Adds a deletion. Returns the run that it belongs to.
    fn add_deletion(&mut self, change: &Change) -> Run {
        let at = change.at;
        let pause = |run: &Run| at.time_ms.saturating_sub(run.last.time_ms);
        if self.by_session.len() > SESSIONS {
            self.by_session.retain(|_, run| pause(run) <= PAUSE_MS);
        }
        let new = Run { first: at, last: at, nodes: 0, not_others: self.changes };
        let run = self.by_session.entry(change.session).or_insert(new);
        if pause(run) > PAUSE_MS {
            *run = new;
        }
        let is_end = matches!(change.deletion, Some(DeletionCause::SessionEnd(_)));
        self.changes += u64::from(!is_end);
        run.not_others += u64::from(!is_end);
        run.last = at;
        run.nodes += 1;
        *run
    }

    /// Returns the number of changes of other sessions since the first deletion of a run.
    const fn others(&self, run: &Run) -> u64 {
        self.changes - run.not_others
    }
}

impl Fate {
    /// Adds a deletion. The oldest ones are removed many at a time: a lock may be deleted a million
    /// times.
    fn add(&mut self, deletion: Deletion) {
        if self.deletions.len() == 2 * LISTED {
            self.deletions.drain(..LISTED);
        }
        self.deletions.push(deletion);
        self.deletion_count += 1;
    }

    /// Removes all deletions but the last ones.
    fn cut(&mut self) {
        let more = self.deletions.len().saturating_sub(LISTED);
        self.deletions.drain(..more);
    }
}

/// The ephemeral nodes of a session.
#[derive(Debug)]
struct Ephemerals {
    session: SessionId,
    by_path: BTreeMap<String, EphemeralHistory>,
    /// The paths of deleted nodes, the oldest deletion first. A long-lived client of a lock creates
    /// and deletes millions of nodes.
    deleted: VecDeque<(String, Moment)>,
    count: u64,
}

impl Ephemerals {
    const fn of(session: SessionId) -> Self {
        Self { session, by_path: BTreeMap::new(), deleted: VecDeque::new(), count: 0 }
    }

    fn add(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        created: Moment,
        anyone_reads: Option<bool>,
    ) {
        let (path, created) = (path.to_owned(), Some(created));
        let data = data.map(Bytes::copy_from_slice);
        let history =
            EphemeralHistory { path: path.clone(), data, created, deleted: None, anyone_reads };
        let before = self.by_path.insert(path, history);
        // A node of a snapshot can be created again by the logs before it.
        self.count += u64::from(before.is_none_or(|before| before.created != created));
    }

    /// Follows the nodes through a transaction.
    fn follow(&mut self, record: &Record<'_>) {
        let header = &record.header;
        let at = Moment::of(header);
        for (_, txn) in record.applied() {
            match txn {
                Txn::Create(create)
                    if create.owner(header.session) == Owner::Session(self.session) =>
                {
                    let anyone_reads = Some(create.acl.lets_anyone_read());
                    self.add(create.path, create.data, at, anyone_reads);
                }
                Txn::SetData(set) => {
                    if let Some(node) = self.by_path.get_mut(set.path)
                        && node.exists_at(at)
                    {
                        node.data = set.data.map(Bytes::copy_from_slice);
                    }
                }
                Txn::SetAcl(set) => {
                    if let Some(node) = self.by_path.get_mut(set.path)
                        && node.exists_at(at)
                    {
                        node.anyone_reads = Some(set.acl.lets_anyone_read());
                    }
                }
                Txn::Delete { path } => self.delete(path, at),
                Txn::CloseSession(_) if header.session == self.session => {
                    for node in self.by_path.values_mut() {
                        node.deleted = node.deleted.or(Some(at));
                    }
                }
                _ => {}
            }
        }
    }

    fn delete(&mut self, path: &str, at: Moment) {
        let Some(node) = self.by_path.get_mut(path).filter(|node| node.exists_at(at)) else {
            return;
        };
        node.deleted = Some(at);
        self.deleted.push_back((path.to_owned(), at));
        if self.deleted.len() > LISTED
            && let Some((oldest, at)) = self.deleted.pop_front()
            // The node may have been created again.
            && self.by_path.get(&oldest).is_some_and(|node| node.deleted == Some(at))
        {
            self.by_path.remove(&oldest);
        }
    }
}
