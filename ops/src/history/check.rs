//! The state of the files of a server.

use std::path::PathBuf;

use super::base::{Base, PassSettings};
use super::change::Moment;
use super::comparison::DigestReport;
use super::continuity::{Gap, follows, is_first};
use super::error::{Error, Result};
use super::files::{Files, LogFile, SnapshotFile};
use super::log::{LogEnd, Skipped};
use super::player::{Order, Player, ZxidPlace};
use super::records::TreeDigest;
use super::snapshot::{Snapshot, SnapshotEnd};

/// Checks all files of a server: their checksums, the order of the transactions, and the digests.
///
/// Each file is read once, and a second time if digests are compared, which needs the memory of the
/// whole tree.
#[derive(Debug, Clone)]
#[must_use = "nothing is read before `run`"]
pub struct Check {
    files: Files,
    settings: PassSettings,
    retained: usize,
}

/// The result of a check.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckReport {
    /// The logs, in order.
    pub logs: Vec<LogReport>,
    /// The snapshots, the oldest first.
    pub snapshots: Vec<SnapshotReport>,
    /// The gaps in the logs. Transactions that are missing at the end of an epoch are not noticed.
    pub gaps: Vec<GapReport>,
    /// The number of transactions that are not newer than the one before. The logs may be of
    /// several servers.
    pub out_of_order: u64,
    /// The comparison of digests; `None` if it was not requested, or if no snapshot can be read.
    pub digests: Option<DigestReport>,
    /// The number of transactions that did not fit the tree: a node was missing, or existed
    /// already. Zero if digests are not compared.
    pub misfits: u64,
    /// The files that `autopurge` may remove at its next run: see [`Files::purgeable`].
    pub purgeable: Vec<PathBuf>,
    /// The first transaction in the logs.
    pub first_change: Option<Moment>,
    /// The last transaction in the logs.
    pub last_change: Option<Moment>,
    /// The first transaction whose tree can be rebuilt: zero if the logs begin with the first
    /// transaction, otherwise that of the oldest snapshot that the logs continue, or the end of its
    /// fuzzy range if the snapshot tells it. `None` if there is no such snapshot without damage.
    pub oldest_tree: Option<i64>,
}

/// The state of a log file.
#[derive(Debug)]
#[non_exhaustive]
pub struct LogReport {
    /// The file.
    pub path: PathBuf,
    /// The number of transactions that can be read.
    pub transactions: u64,
    /// The first transaction.
    pub first: Option<Moment>,
    /// The last transaction.
    pub last: Option<Moment>,
    /// False if the first transaction is not the one in the name of the file.
    pub is_well_named: bool,
    /// How the file ends; `None` if it could not be read to its end.
    pub end: Option<LogEnd>,
    /// The damaged ranges.
    pub damage: Vec<Skipped>,
    /// The reason why the file could not be read to its end.
    pub error: Option<Error>,
}

/// The state of a snapshot.
#[derive(Debug)]
#[non_exhaustive]
pub struct SnapshotReport {
    /// The file.
    pub path: PathBuf,
    /// The transaction in its name.
    pub zxid: i64,
    /// The number of nodes that can be read.
    pub nodes: u64,
    /// The number of sessions.
    pub sessions: usize,
    /// The entries at its end; `None` if it is damaged.
    pub end: Option<SnapshotEnd>,
    /// The reason why it cannot be used. The newest snapshot may be incomplete,
    /// [`Damage::Truncated`](super::Damage::Truncated): a server is writing it, or was killed then.
    pub error: Option<Error>,
}

/// A gap in the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GapReport {
    /// The gap.
    pub gap: Gap,
    /// The snapshot that contains the effect of the missing transactions. The tree after the gap
    /// can be rebuilt then, but the missing changes have no author.
    pub bridged_by: Option<PathBuf>,
}

impl Check {
    /// Returns a check of all files.
    pub fn new(files: &Files) -> Self {
        Self {
            files: files.clone(),
            settings: PassSettings {
                computes_digests: true,
                skips_damaged: true,
                ..PassSettings::default()
            },
            retained: 3,
        }
    }

    /// Replays the logs, and compares the digests of the tree. Default: on.
    pub fn digests(mut self, compares: bool) -> Self {
        self.settings.computes_digests = compares;
        self
    }

    /// Sets the number of snapshots that `autopurge` keeps. Default: 3, which is also the minimum.
    pub fn retained_snapshots(mut self, count: usize) -> Self {
        self.retained = count;
        self
    }

    /// Sets the maximum length of a record, in bytes. Default:
    /// [`DEFAULT_MAX_RECORD`](super::DEFAULT_MAX_RECORD).
    pub fn max_record(mut self, bytes: usize) -> Self {
        self.settings.max_record = bytes;
        self
    }

    /// Checks the files.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Removed`]. Damage is no error: the report contains it.
    pub fn run(&self) -> Result<CheckReport> {
        let mut sequence = Sequence { order: Order { last: None }, gaps: Vec::new(), old: 0 };
        let logs: Result<Vec<_>> =
            self.files.logs.iter().map(|file| self.check_log(file, &mut sequence)).collect();
        let snapshots: Result<Vec<_>> =
            self.files.snapshots.iter().map(|file| self.check_snapshot(file)).collect();
        let (logs, snapshots) = (logs?, snapshots?);
        let gaps = sequence.gaps.into_iter().map(|gap| bridged(gap, &snapshots)).collect();
        let (digests, misfits) = match self.settings.computes_digests {
            true => self.compare_digests(&snapshots)?,
            false => (None, 0),
        };
        Ok(CheckReport {
            first_change: logs.iter().find_map(|log| log.first),
            last_change: logs.iter().rev().find_map(|log| log.last),
            oldest_tree: oldest_tree(&logs, &snapshots),
            purgeable: self.files.purgeable(self.retained)?,
            out_of_order: sequence.old,
            logs,
            snapshots,
            gaps,
            digests,
            misfits,
        })
    }

    fn check_log(&self, file: &LogFile, sequence: &mut Sequence) -> Result<LogReport> {
        let mut report = LogReport {
            path: file.path.clone(),
            transactions: 0,
            first: None,
            last: None,
            is_well_named: true,
            end: None,
            damage: Vec::new(),
            error: None,
        };
        let read = self.read_log(file, &mut report, sequence);
        report.error = unusable(read)?;
        report.is_well_named = report.first.is_none_or(|first| first.zxid == file.zxid);
        Ok(report)
    }

    fn read_log(
        &self,
        file: &LogFile,
        report: &mut LogReport,
        sequence: &mut Sequence,
    ) -> Result<()> {
        let mut log = self.settings.log(file)?;
        while log.advance()? {
            let Some((zxid, time_ms)) = log.position() else { break };
            sequence.add(zxid, file);
            let at = Moment { zxid, time_ms };
            report.first = report.first.or(Some(at));
            report.last = Some(at);
            report.transactions += 1;
        }
        report.end = log.end();
        report.damage = log.skipped().to_vec();
        Ok(())
    }

    fn check_snapshot(&self, file: &SnapshotFile) -> Result<SnapshotReport> {
        let mut report = SnapshotReport {
            path: file.path.clone(),
            zxid: file.zxid,
            nodes: 0,
            sessions: 0,
            end: None,
            error: None,
        };
        let read = self.read_snapshot(file, &mut report);
        report.error = unusable(read)?;
        Ok(report)
    }

    fn read_snapshot(&self, file: &SnapshotFile, report: &mut SnapshotReport) -> Result<()> {
        let mut snapshot = Snapshot::open(&file.path)?.max_record(self.settings.max_record);
        report.sessions = snapshot.sessions().len();
        while snapshot.next_node()?.is_some() {
            report.nodes += 1;
        }
        report.end = snapshot.end();
        Ok(())
    }

    /// Replays all logs from the oldest tree on.
    fn compare_digests(&self, snapshots: &[SnapshotReport]) -> Result<(Option<DigestReport>, u64)> {
        // The reports of the files contain the errors of unusable files.
        let base = match Base::for_changes(&self.files, &self.settings, i64::MIN) {
            Ok((base, _)) => base,
            Err(error) => unusable(Err(error)).map(|_| None)?,
        };
        let Some(base) = base else { return Ok((None, 0)) };
        // A server takes one snapshot at a time: this one was complete before the next one began.
        let next = snapshots.iter().map(|file| file.zxid).find(|zxid| *zxid > base.zxid);
        let digests = snapshots.iter().filter_map(digest_of).collect();
        let player = Player::new(base, &self.files, &self.settings, digests);
        let mut player = player.settled_by(next);
        unusable(player.run(i64::MAX))?;
        Ok((Some(player.comparison.report), player.misfits))
    }
}

/// The order of the transactions of all logs.
#[derive(Debug)]
struct Sequence {
    order: Order,
    gaps: Vec<Gap>,
    old: u64,
}

impl Sequence {
    fn add(&mut self, zxid: i64, file: &LogFile) {
        match self.order.place(zxid, Some(&file.path)) {
            ZxidPlace::Next => {}
            ZxidPlace::Old => self.old += 1,
            ZxidPlace::AfterGap(gap) => self.gaps.push(gap),
        }
    }
}

/// Returns the error of a file that cannot be used. Errors of the operating system end the check.
fn unusable(read: Result<()>) -> Result<Option<Error>> {
    match read {
        Ok(()) => Ok(None),
        Err(error @ (Error::Io { .. } | Error::Removed { .. })) => Err(error),
        Err(error) => Ok(Some(error)),
    }
}

fn bridged(gap: Gap, snapshots: &[SnapshotReport]) -> GapReport {
    let is_bridge = |file: &&SnapshotReport| file.error.is_none() && gap.is_bridged_by(file.zxid);
    let bridge = snapshots.iter().find(is_bridge);
    GapReport { bridged_by: bridge.map(|file| file.path.clone()), gap }
}

/// Returns the digest of a snapshot, and its transaction.
fn digest_of(snapshot: &SnapshotReport) -> Option<(i64, TreeDigest)> {
    snapshot.end?.digest_since(snapshot.zxid)
}

fn oldest_tree(logs: &[LogReport], snapshots: &[SnapshotReport]) -> Option<i64> {
    let first = logs.first().and_then(|log| log.first);
    if first.is_some_and(|first| is_first(first.zxid)) {
        return Some(0);
    }
    let begin = logs.iter().find_map(|log| log.first).map(|first| first.zxid);
    let is_continued = |zxid| begin.is_none_or(|begin| begin <= zxid || follows(zxid, begin));
    let is_begin = |file: &&SnapshotReport| file.error.is_none() && is_continued(file.zxid);
    let oldest = snapshots.iter().find(is_begin)?;
    let until = oldest.end.and_then(|end| end.fuzzy_until(oldest.zxid));
    Some(until.unwrap_or(oldest.zxid))
}
