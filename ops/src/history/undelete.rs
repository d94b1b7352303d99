//! Deleted nodes, and nodes of an earlier time, as a backup.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::budget::ReadBudget;
use super::continuity::Gap;
use super::error::{Error, Result};
use super::files::Files;
use super::index::Index;
use super::log::Skipped;
use super::moment::At;
use super::replay::{Replay, Replayed};
use super::scope::canonical;
use super::stat::Owner;
use super::view::NodeRef;
use super::who::{Deletion, Fate};
use crate::error::Error as OperationError;
use crate::node::hex;
use crate::path;
use crate::text::{now_ms, rfc3339};
use crate::transfer::file::BackupPart;
use crate::transfer::format::{BackupConsistency, BackupHeader, BackupTrailer};
use crate::transfer::record::{RecordKind, TransferRecord};

/// Recovers a node and the nodes below it: as they were before the node was last deleted, or at a
/// moment.
///
/// The memory is that of the recovered nodes. Nothing is written before [`Recovered::write`] is
/// called, and no server is asked. To create the nodes again, [restore](crate::transfer::Restore)
/// the backup file.
///
/// ```no_run
/// use zk_curator_ops::Progress;
/// use zk_curator_ops::history::{Files, Undelete};
/// use zk_curator_ops::transfer::Restore;
///
/// # async fn undelete(zk: zk_curator::CuratorFramework) -> Result<(), zk_curator_ops::Error> {
/// let files = Files::find(["/var/lib/zookeeper"])?;
/// let recovered = Undelete::new(&files, "/config").find()?;
/// recovered.write("config.zkb")?;
///
/// let restore = Restore::new("config.zkb").open(&zk).await?;
/// let plan = restore.plan(Progress::none()).await?;
/// restore.apply(&plan, Progress::none()).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is read before `find`"]
pub struct Undelete {
    files: Files,
    path: String,
    at: Option<At>,
    skips_damaged: bool,
    max_record: usize,
    budget: ReadBudget,
}

/// Nodes that were recovered from the files of a server.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// The root of the nodes.
    pub path: String,
    /// The deletion; `None` if a moment was requested.
    pub deletion: Option<Deletion>,
    /// The gaps in the logs, if the deletion was searched. A later deletion may be in one of them.
    pub gaps: Vec<Gap>,
    /// The damaged ranges, if the deletion was searched and they were
    /// [skipped](Undelete::skip_damaged), and snapshots that were passed over. A later deletion may
    /// be in one of the ranges.
    pub skipped: Vec<Skipped>,
    /// The tree with the nodes.
    pub replayed: Replayed,
    /// The directory of the newest log or snapshot.
    source: PathBuf,
}

/// The number of nodes that were recovered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RecoveredCounts {
    /// All nodes.
    pub nodes: u64,
    /// The ephemeral nodes, which a restore leaves out.
    pub ephemerals: u64,
    /// The containers.
    pub containers: u64,
    /// The nodes with a time to live.
    pub ttls: u64,
    /// The bytes of their data.
    pub bytes: u64,
}

impl Undelete {
    /// Recovers a node as it was before its last deletion.
    pub fn new(files: &Files, path: &str) -> Self {
        Self {
            files: files.clone(),
            path: path::normal(path),
            at: None,
            skips_damaged: false,
            max_record: super::DEFAULT_MAX_RECORD,
            budget: ReadBudget::unlimited(),
        }
    }

    /// Recovers the node as it was at this moment, even if it was not deleted. Default: before the
    /// first deletion of the [run](Deletion::first) that has deleted it and the nodes below it.
    pub const fn at(mut self, at: At) -> Self {
        self.at = Some(at);
        self
    }

    /// Continues after damaged ranges and after missing transactions. The backup is then
    /// [fuzzy](BackupConsistency::Fuzzy). Default: off, both are errors.
    pub const fn skip_damaged(mut self, skip: bool) -> Self {
        self.skips_damaged = skip;
        self
    }

    /// Sets the maximum length of a record, in bytes. Default:
    /// [`DEFAULT_MAX_RECORD`](super::DEFAULT_MAX_RECORD).
    pub const fn max_record(mut self, bytes: usize) -> Self {
        self.max_record = bytes;
        self
    }

    /// Sets the limits of the reads. Default: none.
    pub fn budget(mut self, budget: &ReadBudget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// Reads the files, and rebuilds the nodes.
    ///
    /// # Errors
    /// [`Error::NotDeleted`] if the logs contain no deletion of the node and no moment was
    /// requested, [`Error::NoSuchNode`] if it did not exist at the moment, and the errors of
    /// [`Replay::run`].
    pub fn find(&self) -> Result<Recovered> {
        let mut fate = match self.at {
            None => self.fate()?,
            Some(_) => Fate::default(),
        };
        let deletion = fate.deletions.pop();
        if deletion.is_none() && self.at.is_none() {
            return Err(Error::NotDeleted { path: self.path.clone() });
        }
        let before = deletion.as_ref().map(Deletion::before);
        let at = self.at.or(before).unwrap_or(At::Latest);
        let replay = Replay::new(&self.files).below(&self.path).max_record(self.max_record);
        let replay = replay.skip_damaged(self.skips_damaged).budget(&self.budget);
        let replayed = replay.run(at)?;
        if replayed.tree.get(&self.path).is_none() {
            return Err(Error::NoSuchNode { path: self.path.clone(), zxid: replayed.zxid });
        }
        let logs = self.files.logs.last().map(|file| &file.path);
        let newest = logs.or_else(|| self.files.snapshots.last().map(|file| &file.path));
        let source = newest.and_then(|file| file.parent()).unwrap_or_else(|| Path::new(""));
        let (path, source) = (self.path.clone(), source.to_owned());
        let Fate { gaps, skipped, .. } = fate;
        Ok(Recovered { path, deletion, gaps, skipped, replayed, source })
    }

    /// Returns the deletions of the node.
    fn fate(&self) -> Result<Fate> {
        let index = Index::new(&self.files).max_record(self.max_record).budget(&self.budget);
        index.skip_damaged(self.skips_damaged).fate(&self.path)
    }
}

impl Recovered {
    /// Returns the nodes as records of a backup, parents before their children. The nodes of the
    /// servers below `/zookeeper` are left out.
    ///
    /// # Errors
    /// An item is [`Error::UnknownAcl`] if the files do not tell the ACL of a node, because a
    /// restored node would otherwise be open to everyone, and [`Error::InvalidAcl`] if its ACL is
    /// not text.
    pub fn records(&self) -> impl Iterator<Item = Result<TransferRecord>> {
        self.nodes().map(record)
    }

    /// Counts the nodes.
    #[must_use]
    pub fn counts(&self) -> RecoveredCounts {
        let mut counts = RecoveredCounts::default();
        for node in self.nodes() {
            counts.nodes += 1;
            counts.bytes += node.data().map_or(0, |data| data.len() as u64);
            match node.owner() {
                Owner::None => {}
                Owner::Session(_) => counts.ephemerals += 1,
                Owner::Container => counts.containers += 1,
                Owner::Ttl { .. } => counts.ttls += 1,
            }
        }
        counts
    }

    /// Returns `true` if the nodes are exactly those of the moment, as far as the files tell: no
    /// transaction was missing or damaged, and the snapshot was not fuzzy.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let Replayed { is_settled, gaps, skipped, .. } = &self.replayed;
        // An incomplete snapshot that was passed over has the length zero. An older one and the
        // logs take its place.
        *is_settled && gaps.is_empty() && skipped.iter().all(|skipped| skipped.length == 0)
    }

    /// Returns the moment of the nodes; the time is `None` if no transaction was applied after the
    /// snapshot.
    #[must_use]
    pub const fn moment(&self) -> (i64, Option<i64>) {
        (self.replayed.zxid, self.replayed.time_ms)
    }

    /// Writes the nodes to a backup file, which is replaced when the backup is complete. Only its
    /// owner may read it.
    ///
    /// # Errors
    /// [`OperationError::File`], and [`OperationError::History`] with the errors of
    /// [`records`](Self::records).
    pub fn write(&self, file: impl AsRef<Path>) -> Result<BackupTrailer, OperationError> {
        let file = file.as_ref();
        let (zxid, time_ms) = self.moment();
        let taken = rfc3339(time_ms.unwrap_or_else(now_ms)).unwrap_or_default();
        let header = BackupHeader::new(&self.path, taken, &self.source.display().to_string());
        let mut part = BackupPart::create(file, &header, false)?;
        for record in self.records() {
            part.write(&record?)?;
        }
        let (consistency, changed) = match self.is_exact() {
            true => (BackupConsistency::Exact, Some(Vec::new())),
            false => (BackupConsistency::Fuzzy, None),
        };
        let mut trailer = BackupTrailer::new(consistency, changed);
        trailer.zxid = Some(hex(zxid));
        let trailer = part.finish(trailer)?;
        part.publish(file)?;
        Ok(trailer)
    }

    fn nodes(&self) -> impl Iterator<Item = NodeRef<'_>> {
        let with_system = path::is_within(&self.path, path::SYSTEM);
        let nodes = self.replayed.tree.walk(canonical(&self.path));
        nodes.filter(move |node| with_system || !path::is_within(&node.path(), path::SYSTEM))
    }
}

fn record(node: NodeRef<'_>) -> Result<TransferRecord> {
    let (path, stat) = (node.path(), node.stored_stat());
    let acl = match node.acl() {
        Ok(Some(acl)) => acl,
        Ok(None) => return Err(Error::UnknownAcl { path }),
        Err(source) => return Err(Error::InvalidAcl { path, source }),
    };
    let kind = match node.owner() {
        Owner::None => RecordKind::Persistent,
        Owner::Session(session) => RecordKind::Ephemeral(session.get()),
        Owner::Container => RecordKind::Container,
        Owner::Ttl { ttl_ms } => RecordKind::Ttl(ttl_ms.unsigned_abs()),
    };
    Ok(TransferRecord {
        path,
        data: node.data().map(Bytes::copy_from_slice),
        kind,
        acl,
        version: stat.version,
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        ctime: stat.ctime,
        mtime: stat.mtime,
    })
}
