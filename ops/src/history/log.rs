//! A file of the transaction log.

use std::cmp::Ordering;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::budget::ReadBudget;
use super::continuity::epoch;
use super::error::{Damage, Error, Result};
use super::frames::{FILE_HEADER, Frame, Framed, Frames, MIN_FRAME};
use super::records::Record;
use super::window::Window;

/// The default limit of the length of a record, in bytes: 64 MiB.
///
/// A server refuses to read records that are longer than about twice its `jute.maxbuffer`, which is
/// 1 MiB by default.
pub const DEFAULT_MAX_RECORD: usize = 64 << 20;

const MAGIC: [u8; 4] = *b"ZKLG";
/// The number of bytes after the end that are examined again when a log has grown.
const NEAR: u64 = 1 << 20;
/// The version of the format; all releases write it.
pub(super) const VERSION: i32 = 2;

/// A reader of one log file, in bounded memory: a window of 1 MiB, or of the longest record.
///
/// The file may be growing. After the end was reached, [`next_record`](Self::next_record) reads
/// again, and returns the transactions that were appended.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    frames: Frames,
    skips_damaged: bool,
    /// The position of the next frame; zero before the header of the file was read.
    next: u64,
    current: Option<Frame>,
    last_zxid: i64,
    end: Option<LogEnd>,
    /// A position from which on the file was all zeros, and the length of the file at that time.
    zeros: Option<(u64, u64)>,
    skipped: Vec<Skipped>,
}

/// The end of a log file. None of these is damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogEnd {
    /// The header of the file is incomplete: a server has just created the file, or was killed
    /// then.
    Empty,
    /// The file ends after the last record.
    Exact,
    /// Zeros follow the last record. Servers allocate the space of a log in advance.
    Padded {
        /// The position of the first zero, in bytes.
        offset: u64,
    },
    /// The last record is incomplete: the server is writing it, or was killed then. No client has
    /// received a response to its request from this server.
    Torn {
        /// The position of the record, in bytes.
        offset: u64,
        /// The number of its bytes that are there.
        length: u64,
    },
    /// The file became shorter while it was followed. A server removes transactions that the
    /// ensemble did not commit, and writes the next ones to another file.
    Shortened {
        /// The position after the last record that was read, in bytes.
        offset: u64,
        /// The length of the file, in bytes.
        length: u64,
    },
}

/// A range of a file that was skipped because it is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// The first byte of the range.
    pub offset: u64,
    /// The length of the range, in bytes.
    pub length: u64,
    /// The damage at its beginning.
    pub damage: Damage,
}

impl Log {
    /// Opens a log file for reading.
    ///
    /// # Errors
    /// [`Error::Removed`] or [`Error::Io`] if the file cannot be opened, [`Error::UnexpectedMagic`]
    /// if it is not a log, and [`Error::UnknownVersion`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
        let frames = Frames::new(Window::new(file), DEFAULT_MAX_RECORD);
        let mut log = Self {
            path,
            frames,
            skips_damaged: false,
            next: 0,
            current: None,
            last_zxid: 0,
            end: None,
            zeros: None,
            skipped: Vec::new(),
        };
        log.enter()?;
        Ok(log)
    }

    /// Sets the maximum length of a record, in bytes. Default: [`DEFAULT_MAX_RECORD`].
    #[must_use]
    pub const fn max_record(mut self, bytes: usize) -> Self {
        self.frames.max_record = bytes;
        self
    }

    /// Continues after damaged ranges, which [`skipped`](Self::skipped) lists. Default: off, damage
    /// is an error.
    ///
    /// The next record is searched by its checksum. Its id must also fit: the damaged range must
    /// have room for the transactions between the last record and this one. Otherwise a copy of
    /// another log, in the data of a node, could be taken for a part of this log.
    #[must_use]
    pub const fn skip_damaged(mut self, skip: bool) -> Self {
        self.skips_damaged = skip;
        self
    }

    /// Sets the budget of the bytes that are read from here on.
    pub(super) fn within(mut self, budget: ReadBudget) -> Self {
        self.frames.set_budget(budget);
        self
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the position in the file of the last record that was returned, in bytes.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.current.map(|frame| frame.offset)
    }

    /// Returns how the file ends; `None` before the end was reached.
    #[must_use]
    pub const fn end(&self) -> Option<LogEnd> {
        self.end
    }

    /// Returns the damaged ranges that were skipped.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Returns the next transaction; `None` at the [end](Self::end) of the file.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the next record is damaged, unless damage is
    /// [skipped](Self::skip_damaged). [`Error::Io`].
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        if self.advance()? { self.record().map(Some) } else { Ok(None) }
    }

    /// Moves to the next transaction. Returns `false` at the end of the file.
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.current = None;
        if self.end.take().is_some() {
            self.frames.refresh();
        }
        if self.next == 0 && !self.enter()? {
            return Ok(false);
        }
        loop {
            let (damage, next) = match self.examine()? {
                Examined::End(end) => {
                    self.end = Some(end);
                    return Ok(false);
                }
                Examined::Record(frame) => match self.damage_of(&frame) {
                    None => {
                        self.next = frame.end();
                        self.last_zxid = frame.zxid;
                        self.current = Some(frame);
                        return Ok(true);
                    }
                    Some(damage) => (damage, frame.end()),
                },
                Examined::Damaged { damage, next } => (damage, next),
            };
            if !self.skips_damaged {
                return Err(Error::damaged(&self.path, self.next, damage));
            }
            let (offset, length) = (self.next, next - self.next);
            self.skipped.push(Skipped { path: self.path.clone(), offset, length, damage });
            self.next = next;
        }
    }

    /// Returns the transaction that [`advance`](Self::advance) moved to.
    pub(super) fn record(&self) -> Result<Record<'_>> {
        let frame = self.current.as_ref();
        let bytes = frame.map(|frame| self.frames.record(frame)).unwrap_or_default();
        let offset = frame.map_or(self.next, |frame| frame.offset);
        Record::decode(bytes).map_err(|damage| Error::damaged(&self.path, offset, damage))
    }

    /// Returns the id and the time of the transaction that [`advance`](Self::advance) moved to.
    pub(super) fn position(&self) -> Option<(i64, i64)> {
        self.current.map(|frame| (frame.zxid, frame.time_ms))
    }

    /// Returns the damage of a record with a valid checksum. Without skipping,
    /// [`record`](Self::record) reports it.
    fn damage_of(&self, frame: &Frame) -> Option<Damage> {
        if self.skips_damaged { Record::decode(self.frames.record(frame)).err() } else { None }
    }

    /// Reads the header of the file. Returns `false` if it is incomplete.
    fn enter(&mut self) -> Result<bool> {
        let read = self.frames.file_header();
        let bytes = read.map_err(|error| Error::io("read", &self.path, error))?;
        let length = bytes.len();
        let mut header = [0; FILE_HEADER];
        header[..length].copy_from_slice(bytes);
        let data = self.frames.first_data(0, u64::MAX).map_err(|error| self.io(error))?;
        let is_short = length < FILE_HEADER && MAGIC.starts_with(&header[..length.min(4)]);
        if data.is_none() || is_short {
            self.end = Some(LogEnd::Empty);
            return Ok(false);
        }
        let path = self.path.clone();
        let [m0, m1, m2, m3, v0, v1, v2, v3, ..] = header;
        let (found, version) = ([m0, m1, m2, m3], i32::from_be_bytes([v0, v1, v2, v3]));
        if found != MAGIC {
            return Err(Error::UnexpectedMagic { path, expected: "transaction log", found });
        }
        if version != VERSION {
            return Err(Error::UnknownVersion { path, version });
        }
        self.next = FILE_HEADER as u64;
        Ok(true)
    }

    /// Reads the next frame. What looks broken is read again: a server may be writing it.
    fn examine(&mut self) -> Result<Examined> {
        if let Framed::Whole(frame) = self.frame()? {
            return Ok(Examined::Record(frame));
        }
        self.frames.refresh();
        match self.frame()? {
            Framed::Whole(frame) => Ok(Examined::Record(frame)),
            Framed::Zeros => self.examine_zeros(),
            Framed::Broken { damage, unfinished_before } => {
                self.classify(damage, unfinished_before)
            }
        }
    }

    /// Tells the end of the file from zeros in its middle.
    fn examine_zeros(&mut self) -> Result<Examined> {
        let at = self.next;
        let length = self.frames.file_length().map_err(|error| self.io(error))?;
        let limit = match self.zeros {
            Some((from, whole)) if whole == length && from == at => 0,
            // The rest was all zeros before, and a server appends.
            Some((from, whole)) if whole == length && from < at => NEAR,
            _ => u64::MAX,
        };
        if limit > 0 {
            let data = self.frames.first_data(at, limit).map_err(|error| self.io(error))?;
            if data.is_some() {
                return self.classify(Damage::AfterPadding, None);
            }
            self.zeros = Some((at, length));
        }
        Ok(Examined::End(match at.cmp(&length) {
            Ordering::Less => LogEnd::Padded { offset: at },
            Ordering::Equal => LogEnd::Exact,
            Ordering::Greater => LogEnd::Shortened { offset: at, length },
        }))
    }

    /// Tells an unfinished record from damage.
    fn classify(&mut self, damage: Damage, unfinished_before: Option<u64>) -> Result<Examined> {
        let (at, last) = (self.next, self.last_zxid);
        let search = self.frames.search(at + 1, |frame, record| {
            is_credible(last, frame, frame.offset - at) && Record::decode(record).is_ok()
        });
        let search = search.map_err(|error| self.io(error))?;
        self.frames.refresh();
        if let Framed::Whole(frame) = self.frame()? {
            // The server wrote it since the last attempt.
            return Ok(Examined::Record(frame));
        }
        let data_end = search.data_end;
        if search.next.is_none() && unfinished_before.is_some_and(|before| data_end <= before) {
            return Ok(Examined::End(LogEnd::Torn { offset: at, length: data_end - at }));
        }
        Ok(Examined::Damaged { damage, next: search.next.unwrap_or(data_end) })
    }

    fn frame(&mut self) -> Result<Framed> {
        self.frames.at(self.next).map_err(|error| self.io(error))
    }

    fn io(&self, error: std::io::Error) -> Error {
        Error::io("read", &self.path, error)
    }
}

#[derive(Debug)]
enum Examined {
    Record(Frame),
    End(LogEnd),
    Damaged {
        damage: Damage,
        /// The position of the next record, or the end of the data.
        next: u64,
    },
}

/// Returns `true` if a record can follow the transaction `last` after `skipped` damaged bytes.
fn is_credible(last: i64, frame: &Frame, skipped: u64) -> bool {
    let most = i64::try_from(skipped / MIN_FRAME as u64).unwrap_or(i64::MAX).saturating_add(1);
    let first = if epoch(frame.zxid) > epoch(last) { epoch(frame.zxid) << 32 } else { last };
    last == 0 || (frame.zxid > first && frame.zxid.saturating_sub(first) <= most)
}
