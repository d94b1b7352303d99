//! All log files of a server, as one stream.

use std::path::{Path, PathBuf};

use super::budget::ReadBudget;
use super::error::{Error, Result};
use super::files::{Files, LogFile};
use super::log::{DEFAULT_MAX_RECORD, Log, LogEnd, Skipped};
use super::records::Record;

/// A reader of the log files of a server, in order, in the memory of one [`Log`].
///
/// The ids of the transactions are not checked: see [`Check`](super::Check) for gaps. A file that
/// ends with an incomplete record is followed by the next file.
///
/// The transactions at the end of the last log may not be committed: a server writes them before
/// the ensemble agrees, and removes them later if it did not agree.
#[derive(Debug)]
pub struct Logs {
    files: Vec<LogFile>,
    /// The index of the next file.
    next: usize,
    current: Option<Log>,
    first: i64,
    /// The last transaction that was read, also of those before `first`; `None` if there is none.
    last: Option<i64>,
    max_record: usize,
    skips_damaged: bool,
    passes_removed: bool,
    budget: ReadBudget,
    /// The damaged ranges of the files before the current one.
    skipped: Vec<Skipped>,
    /// The files that became shorter, or were withdrawn, while they were followed.
    shortened: Vec<PathBuf>,
}

impl Logs {
    /// Returns a reader of all transactions.
    #[must_use]
    pub fn new(files: &Files) -> Self {
        Self {
            files: files.logs.clone(),
            next: 0,
            current: None,
            first: i64::MIN,
            last: None,
            max_record: DEFAULT_MAX_RECORD,
            skips_damaged: false,
            passes_removed: false,
            budget: ReadBudget::unlimited(),
            skipped: Vec::new(),
            shortened: Vec::new(),
        }
    }

    /// Begins with the first transaction whose id is at least `zxid`. Call it before reading.
    #[must_use]
    pub fn from_zxid(mut self, zxid: i64) -> Self {
        let later = self.files.partition_point(|file| file.zxid <= zxid);
        self.first = zxid;
        self.next = later.saturating_sub(1);
        self
    }

    /// Sets the maximum length of a record, in bytes. Default: [`DEFAULT_MAX_RECORD`].
    #[must_use]
    pub const fn max_record(mut self, bytes: usize) -> Self {
        self.max_record = bytes;
        self
    }

    /// Continues after damaged ranges: see [`Log::skip_damaged`]. Default: off.
    #[must_use]
    pub const fn skip_damaged(mut self, skip: bool) -> Self {
        self.skips_damaged = skip;
        self
    }

    /// Passes over files that were removed before they were opened. The ids of the transactions
    /// show the gap.
    pub(super) const fn pass_removed(mut self) -> Self {
        self.passes_removed = true;
        self
    }

    /// Sets the budget of the bytes that are read.
    pub(super) fn within(mut self, budget: ReadBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Returns the next transaction; `None` at the end of the last file. The last file may grow:
    /// then a later call returns the transactions that were appended.
    ///
    /// # Errors
    /// As for [`Log::open`] and [`Log::next_record`].
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        if !self.advance()? {
            return Ok(None);
        }
        self.record()
    }

    /// Adds the log files that a server has created since the first files were found. Returns
    /// `true` if there are any.
    pub fn add_new_files(&mut self, files: &Files) -> bool {
        self.note_removed(files);
        let before = self.files.len();
        let last = self.files.last().map_or(i64::MIN, |file| file.zxid);
        self.files.extend(files.logs.iter().filter(|file| file.zxid > last).cloned());
        self.files.len() > before
    }

    /// Notices that the newest file was removed while an older one is left. `autopurge` begins with
    /// the oldest files. A server removes a file that begins with transactions that the ensemble
    /// did not commit.
    fn note_removed(&mut self, files: &Files) {
        let Some((newest, older)) = self.files.split_last() else { return };
        let is_left = |file: &LogFile| files.logs.iter().any(|left| left.path == file.path);
        if !is_left(newest)
            && older.iter().any(is_left)
            && self.shortened.last().is_none_or(|last| *last != newest.path)
        {
            self.shortened.push(newest.path.clone());
        }
    }

    /// Returns the file of the last transaction.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.current.as_ref().map(Log::path)
    }

    /// Returns the position of the last transaction in its file, in bytes.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.current.as_ref().and_then(Log::offset)
    }

    /// Returns the damaged ranges that were skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &Skipped> {
        self.skipped.iter().chain(self.current.iter().flat_map(Log::skipped))
    }

    /// Returns the files that became shorter, or were withdrawn, while they were followed.
    pub(super) fn shortened(&self) -> &[PathBuf] {
        &self.shortened
    }

    /// Moves to the next transaction. Returns `false` at the end of the last file.
    pub(super) fn advance(&mut self) -> Result<bool> {
        loop {
            if self.current.is_none() {
                let Some(file) = self.files.get(self.next) else { return Ok(false) };
                self.next += 1;
                let log = match Log::open(&file.path) {
                    Err(Error::Removed { .. }) if self.passes_removed => continue,
                    log => log?.max_record(self.max_record),
                };
                let log = log.skip_damaged(self.skips_damaged);
                self.current = Some(log.within(self.budget.clone()));
            }
            let Some(log) = &mut self.current else { return Ok(false) };
            if log.advance()? {
                let zxid = log.position().map(|(zxid, _)| zxid);
                self.last = self.last.max(zxid);
                if zxid.is_some_and(|zxid| zxid >= self.first) {
                    return Ok(true);
                }
                continue;
            }
            if matches!(log.end(), Some(LogEnd::Shortened { .. }))
                && self.shortened.last().is_none_or(|last| last != log.path())
            {
                self.shortened.push(log.path().to_owned());
            }
            if self.next < self.files.len() {
                self.skipped.extend_from_slice(log.skipped());
                self.current = None;
            } else {
                return Ok(false);
            }
        }
    }

    /// Returns the last transaction that was read, also of those before the first one that was
    /// requested.
    pub(super) const fn last(&self) -> Option<i64> {
        self.last
    }

    /// Returns the id and the time of the transaction that [`advance`](Self::advance) moved to.
    pub(super) fn position(&self) -> Option<(i64, i64)> {
        self.current.as_ref().and_then(Log::position)
    }

    /// Returns the transaction that [`advance`](Self::advance) moved to.
    pub(super) fn record(&self) -> Result<Option<Record<'_>>> {
        self.current.as_ref().map(|log| log.record()).transpose()
    }
}
