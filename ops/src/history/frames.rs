//! The frames around the records of a log: checksum, length and end mark.

use std::io;

use super::budget::ReadBudget;
use super::error::Damage;
use super::records::HEADER;
use super::window::Window;

/// The length of the header of a file, in bytes.
pub(super) const FILE_HEADER: usize = 16;
/// The length of the checksum and the length before a record, in bytes.
const PREFIX: usize = 12;
/// The byte after a record.
const END_MARK: u8 = b'B';
/// The minimum length of a frame, in bytes.
pub(super) const MIN_FRAME: usize = PREFIX + HEADER + 1;

/// A record with a valid checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// The position of the frame in the file.
    pub(super) offset: u64,
    /// The length of the record, in bytes.
    length: usize,
    /// The id of the transaction.
    pub(super) zxid: i64,
    /// The time of the transaction, in milliseconds since 1970.
    pub(super) time_ms: i64,
}

impl Frame {
    /// Returns the position of the next frame.
    pub(super) const fn end(&self) -> u64 {
        self.offset + (PREFIX + self.length + 1) as u64
    }
}

/// The content of a file at a position.
#[derive(Debug)]
pub(super) enum Framed {
    /// A record.
    Whole(Frame),
    /// Zeros, or the end of the file.
    Zeros,
    /// Neither.
    Broken {
        damage: Damage,
        /// If only zeros follow this position, the writer may not have finished the record. `None`
        /// if an unfinished record cannot look like this.
        unfinished_before: Option<u64>,
    },
}

/// The result of a search.
#[derive(Debug)]
pub(super) struct Search {
    /// The next record.
    pub(super) next: Option<u64>,
    /// The position after the last byte that is not zero. Only known if there is no next record.
    pub(super) data_end: u64,
}

/// Reads the frames of a file.
#[derive(Debug)]
pub(super) struct Frames {
    window: Window,
    /// The maximum length of a record, in bytes.
    pub(super) max_record: usize,
}

impl Frames {
    pub(super) const fn new(window: Window, max_record: usize) -> Self {
        Self { window, max_record }
    }

    pub(super) fn set_budget(&mut self, budget: ReadBudget) {
        self.window.budget = budget;
    }

    pub(super) fn file_length(&self) -> io::Result<u64> {
        self.window.file_length()
    }

    /// Forgets the bytes in memory: a writer may have changed the end of the file.
    pub(super) fn refresh(&mut self) {
        self.window.forget();
    }

    /// Returns the header of the file, which is shorter if the file is.
    pub(super) fn file_header(&mut self) -> io::Result<&[u8]> {
        let bytes = self.window.at(0, FILE_HEADER)?;
        Ok(&bytes[..bytes.len().min(FILE_HEADER)])
    }

    /// Returns the record of a frame that [`at`](Self::at) has just returned.
    pub(super) fn record(&self, frame: &Frame) -> &[u8] {
        let bytes = self.window.held(frame.offset);
        bytes.get(PREFIX..PREFIX + frame.length).unwrap_or_default()
    }

    /// Reads the frame at a position.
    pub(super) fn at(&mut self, offset: u64) -> io::Result<Framed> {
        let bytes = self.window.at(offset, PREFIX)?;
        let Some((recorded, length)) = prefix(bytes) else {
            return Ok(match bytes.iter().all(|byte| *byte == 0) {
                true => Framed::Zeros,
                false => unfinished(offset + bytes.len() as u64),
            });
        };
        let prefix_end = offset + PREFIX as u64;
        let length = match usize::try_from(length) {
            Ok(0) if recorded == 0 => return Ok(Framed::Zeros),
            Ok(short) if short < HEADER => return Ok(unfinished(prefix_end)),
            Ok(length) if length <= self.max_record => length,
            _ => return Ok(too_long(length, self.max_record)),
        };
        let bytes = self.window.at(offset, PREFIX + length + 1)?;
        let Some(mark) = bytes.get(PREFIX + length) else {
            return Ok(unfinished(offset + bytes.len() as u64));
        };
        if *mark != END_MARK {
            return Ok(Framed::Broken {
                damage: Damage::EndMark { found: *mark },
                unfinished_before: Some(prefix_end + length as u64),
            });
        }
        let record = &bytes[PREFIX..PREFIX + length];
        let computed = simd_adler32::adler32(&record);
        if recorded != u64::from(computed) {
            let damage = Damage::Checksum { recorded, computed };
            return Ok(Framed::Broken { damage, unfinished_before: None });
        }
        let (zxid, time_ms) = (number(record, 12), number(record, 20));
        Ok(Framed::Whole(Frame { offset, length, zxid, time_ms }))
    }

    /// Returns the first position from `from` on with a byte that is not zero. Looks at `limit`
    /// bytes, or a few more.
    pub(super) fn first_data(&mut self, from: u64, limit: u64) -> io::Result<Option<u64>> {
        let mut position = from;
        loop {
            if position - from >= limit {
                return Ok(None);
            }
            let bytes = self.window.at(position, 1)?;
            if let Some(zeros) = bytes.iter().position(|byte| *byte != 0) {
                return Ok(Some(position + zeros as u64));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            position += bytes.len() as u64;
        }
    }

    /// Searches for the next record from `from` on that `is_credible` accepts.
    ///
    /// A record is recognised by its length, its end mark and its checksum, at every position.
    pub(super) fn search(
        &mut self,
        from: u64,
        is_credible: impl Fn(&Frame, &[u8]) -> bool,
    ) -> io::Result<Search> {
        let max_record = self.max_record;
        let is_possible = |bytes: &[u8]| match prefix(bytes) {
            Some((recorded, length)) => {
                let length = usize::try_from(length).unwrap_or(0);
                u32::try_from(recorded).is_ok() && (HEADER..=max_record).contains(&length)
            }
            None => false,
        };
        let (mut position, mut data_end) = (from, from);
        loop {
            let bytes = self.window.at(position, MIN_FRAME)?;
            let is_last = bytes.len() < MIN_FRAME;
            let candidate = bytes.windows(PREFIX).position(is_possible).filter(|_| !is_last);
            let scanned = match candidate {
                Some(zeros) => zeros,
                None if is_last => bytes.len(),
                None => bytes.len() - PREFIX + 1,
            };
            if let Some(last) = bytes[..scanned].iter().rposition(|byte| *byte != 0) {
                data_end = position + last as u64 + 1;
            }
            position += scanned as u64;
            if is_last {
                return Ok(Search { next: None, data_end });
            }
            if candidate.is_some() {
                if let Framed::Whole(frame) = self.at(position)?
                    && is_credible(&frame, self.record(&frame))
                {
                    return Ok(Search { next: Some(position), data_end });
                }
                // The first byte of a candidate is zero, so it is not the end of the data.
                position += 1;
            }
        }
    }
}

/// Reads the checksum and the length.
fn prefix(bytes: &[u8]) -> Option<(u64, i32)> {
    let (checksum, rest) = bytes.split_first_chunk::<8>()?;
    let (length, _) = rest.split_first_chunk::<4>()?;
    Some((u64::from_be_bytes(*checksum), i32::from_be_bytes(*length)))
}

fn number(record: &[u8], at: usize) -> i64 {
    record[at..].first_chunk::<8>().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

fn unfinished(before: u64) -> Framed {
    let damage = Damage::Truncated { what: "a record" };
    Framed::Broken { damage, unfinished_before: Some(before) }
}

fn too_long(length: i32, limit: usize) -> Framed {
    let damage = Damage::Length { what: "a record", length, limit };
    Framed::Broken { damage, unfinished_before: None }
}
