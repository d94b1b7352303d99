//! The tree at which a replay begins: a snapshot, or the empty tree of a new server.

use std::path::PathBuf;

use super::budget::ReadBudget;
use super::continuity::{Gap, is_first};
use super::error::{Damage, Error, Result};
use super::files::{Files, LogFile, SnapshotFile};
use super::log::{DEFAULT_MAX_RECORD, Log, Skipped};
use super::logs::Logs;
use super::records::TreeDigest;
use super::scope::Scope;
use super::snapshot::Snapshot;
use super::tree::Tree;

/// The settings of every pass over the files.
#[derive(Debug, Clone)]
pub(super) struct PassSettings {
    pub(super) scope: Scope,
    pub(super) computes_digests: bool,
    pub(super) skips_damaged: bool,
    pub(super) max_record: usize,
    pub(super) budget: ReadBudget,
}

impl Default for PassSettings {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            computes_digests: false,
            skips_damaged: false,
            max_record: DEFAULT_MAX_RECORD,
            budget: ReadBudget::unlimited(),
        }
    }
}

impl PassSettings {
    /// Opens a log.
    pub(super) fn log(&self, file: &LogFile) -> Result<Log> {
        let log = Log::open(&file.path)?.max_record(self.max_record);
        Ok(log.skip_damaged(self.skips_damaged).within(self.budget.clone()))
    }

    /// Returns `true` if a snapshot with this error is passed over: it is incomplete, or damaged
    /// and that is allowed.
    ///
    /// A server writes snapshots in place, and passes over incomplete ones, too.
    pub(super) const fn passes_over(&self, error: &Error) -> bool {
        error.is_truncated() || (self.skips_damaged && error.is_damage())
    }

    /// Returns a reader of all logs.
    pub(super) fn logs(&self, files: &Files) -> Logs {
        let logs = Logs::new(files).max_record(self.max_record);
        logs.skip_damaged(self.skips_damaged).within(self.budget.clone())
    }
}

/// A tree, and the range of transactions that it may contain.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) tree: Tree,
    /// The snapshot; `None` for the empty tree.
    pub(super) path: Option<PathBuf>,
    /// The tree contains the changes of all transactions up to this one.
    pub(super) zxid: i64,
    /// The tree may contain changes of transactions up to this one. `None` if that is unknown.
    pub(super) fuzzy_until: Option<i64>,
    /// A recorded digest, and the transaction after which it was computed.
    pub(super) digest: Option<(i64, TreeDigest)>,
    /// Incomplete or damaged snapshots that were passed over.
    pub(super) skipped: Vec<Skipped>,
}

impl Base {
    /// Loads a snapshot.
    fn load(file: &SnapshotFile, settings: &PassSettings) -> Result<Self> {
        let snapshot = Snapshot::open(&file.path)?.max_record(settings.max_record);
        let mut snapshot = snapshot.within(settings.budget.clone());
        let mut tree = Tree::new(settings.scope.clone(), settings.computes_digests);
        for session in snapshot.sessions() {
            tree.load_session(session);
        }
        while let Some(node) = snapshot.next_node()? {
            let loaded = tree.load(&node);
            let damaged = |damage| Error::damaged(&file.path, snapshot.offset(), damage);
            loaded.map_err(damaged)?;
            settings.budget.hold(tree.bytes())?;
        }
        let end = snapshot.end().unwrap_or_default();
        Ok(Self {
            tree,
            path: Some(file.path.clone()),
            zxid: file.zxid,
            fuzzy_until: end.fuzzy_until(file.zxid),
            digest: end.digest_since(file.zxid),
            skipped: Vec::new(),
        })
    }

    /// Returns the empty tree, if the logs begin with the first transaction of the servers.
    fn initial(files: &Files, settings: &PassSettings) -> Result<Option<Self>> {
        let Some(file) = files.logs.first().filter(|file| is_first(file.zxid)) else {
            return Ok(None);
        };
        let mut log = settings.log(file)?;
        if !log.advance()? || log.position().is_none_or(|(zxid, _)| !is_first(zxid)) {
            return Ok(None);
        }
        Ok(Some(Self {
            tree: Tree::initial(settings.scope.clone(), settings.computes_digests),
            path: None,
            zxid: 0,
            fuzzy_until: Some(0),
            digest: None,
            skipped: Vec::new(),
        }))
    }

    /// Returns the newest tree from which the tree after the transaction `target` can be replayed.
    ///
    /// A fuzzy range must end at or before `target`. If a snapshot does not tell its end, an older
    /// snapshot is used: a server takes one snapshot at a time, so the fuzzy range of a snapshot
    /// ends before the next snapshot begins. If there is none, the newest one is used, and
    /// [`fuzzy_until`](Self::fuzzy_until) remains unknown.
    pub(super) fn for_target(files: &Files, settings: &PassSettings, target: i64) -> Result<Self> {
        let mut skipped = Vec::new();
        let (mut newer, mut uncertain, mut only) = (None, None, None);
        let mut left = files.snapshots.iter().rev().filter(|file| file.zxid <= target).peekable();
        while let Some(file) = left.next() {
            let mut base = match Self::load(file, settings) {
                Err(error) => {
                    skipped.push(skipped_snapshot(error, settings)?);
                    continue;
                }
                Ok(base) => base,
            };
            if base.fuzzy_until.is_none() && (target == i64::MAX || newer.is_some()) {
                base.fuzzy_until = newer;
                return Ok(Self { skipped, ..base });
            }
            match base.fuzzy_until {
                Some(until) if until <= target => return Ok(Self { skipped, ..base }),
                Some(_) => {}
                None if uncertain.is_none() && left.peek().is_none() => only = Some(base),
                // Loaded again if no older one is certain: two trees at once need twice the memory.
                None => uncertain = uncertain.or(Some(file)),
            }
            newer = Some(file.zxid);
        }
        if let Some(base) = Self::initial(files, settings)? {
            return Ok(Self { skipped, ..base });
        }
        if let Some(base) = only {
            return Ok(Self { skipped, ..base });
        }
        match uncertain {
            Some(file) => Ok(Self { skipped, ..Self::load(file, settings)? }),
            None if target == i64::MAX => {
                Err(Error::NoBase { zxid: files.logs.last().map_or(0, |log| log.zxid) })
            }
            None => Err(Error::NoBase { zxid: target }),
        }
    }

    /// Returns the newest tree that is not newer than the transaction `first`, or else the oldest
    /// tree; `None` if there is no snapshot. It may contain changes of later transactions.
    pub(super) fn for_changes(
        files: &Files,
        settings: &PassSettings,
        first: i64,
    ) -> Result<(Option<Self>, Vec<Skipped>)> {
        let mut skipped = Vec::new();
        if let Some(base) = Self::initial(files, settings)?
            && files.snapshots.iter().all(|file| file.zxid >= first || file.zxid == 0)
        {
            return Ok((Some(base), skipped));
        }
        let (old, new): (Vec<_>, Vec<_>) =
            files.snapshots.iter().partition(|file| file.zxid < first);
        for file in old.into_iter().rev().chain(new) {
            match Self::load(file, settings) {
                Ok(base) => return Ok((Some(base), skipped)),
                Err(error) => skipped.push(skipped_snapshot(error, settings)?),
            }
        }
        Ok((Self::initial(files, settings)?, skipped))
    }

    /// Returns the newest tree that contains all transactions that are missing in a gap of the
    /// logs. A server that was behind receives a snapshot in place of the transactions.
    pub(super) fn in_gap(
        files: &Files,
        settings: &PassSettings,
        gap: &Gap,
    ) -> Result<Option<Self>> {
        let is_in_gap = |file: &&SnapshotFile| gap.is_bridged_by(file.zxid);
        let Some(file) = files.snapshots.iter().rev().find(is_in_gap) else { return Ok(None) };
        match Self::load(file, settings) {
            Ok(base) => Ok(Some(base)),
            Err(error) => skipped_snapshot(error, settings).map(|_| None),
        }
    }
}

/// Passes over a snapshot, if that is [allowed](PassSettings::passes_over).
fn skipped_snapshot(error: Error, settings: &PassSettings) -> Result<Skipped> {
    if !settings.passes_over(&error) {
        return Err(error);
    }
    let (path, offset, damage) = match error {
        Error::Damaged { path, offset, damage } => (path, offset, damage),
        Error::UnexpectedMagic { path, expected, found } => {
            (path, 0, Damage::Magic { expected, found })
        }
        // The version follows the first four bytes.
        Error::UnknownVersion { path, version } => (path, 4, Damage::Version { version }),
        error => return Err(error),
    };
    Ok(Skipped { path, offset, length: 0, damage })
}
