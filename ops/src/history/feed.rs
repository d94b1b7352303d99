//! A buffered reader that computes the checksum of the bytes that were read.

use std::fmt;
use std::io::{self, Read};

use simd_adler32::Adler32;

use super::budget::ReadBudget;

/// The number of bytes that are read at a time.
const READ: usize = 1 << 20;

/// A part of a stream in memory. The memory is used again for the next part.
pub(super) struct Feed {
    input: Box<dyn Read + Send>,
    bytes: Vec<u8>,
    /// The number of bytes of `bytes` that were consumed.
    consumed: usize,
    /// The number of bytes of `bytes` that are in the checksum.
    summed: usize,
    checksum: Adler32,
    /// The position of the first byte of `bytes` in the stream.
    start: u64,
    pub(super) budget: ReadBudget,
}

impl Feed {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        let (bytes, checksum, budget) = (Vec::new(), Adler32::new(), ReadBudget::unlimited());
        Self { input, bytes, consumed: 0, summed: 0, checksum, start: 0, budget }
    }

    /// Returns the position in the stream, in bytes.
    pub(super) const fn offset(&self) -> u64 {
        self.start + self.consumed as u64
    }

    /// Returns the bytes in memory that were not consumed yet.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    /// Reads until [`rest`](Self::rest) has at least this number of bytes. Returns `false` if the
    /// stream ends before. Memory grows with the bytes that are read, not with `wanted`.
    pub(super) fn want(&mut self, wanted: usize) -> io::Result<bool> {
        if self.rest().len() >= wanted {
            return Ok(true);
        }
        self.sum();
        self.bytes.drain(..self.consumed);
        self.start += self.consumed as u64;
        (self.consumed, self.summed) = (0, 0);
        let missing = wanted.max(READ) - self.bytes.len();
        self.budget.spend(missing.min(READ))?;
        self.bytes.reserve(missing.min(READ));
        self.input.by_ref().take(missing as u64).read_to_end(&mut self.bytes)?;
        Ok(self.bytes.len() >= wanted)
    }

    /// Consumes bytes that are in memory.
    pub(super) fn consume(&mut self, count: usize) {
        self.consumed = (self.consumed + count).min(self.bytes.len());
    }

    /// Returns the Adler-32 of all bytes that were consumed.
    pub(super) fn checksum(&mut self) -> u32 {
        self.sum();
        self.checksum.finish()
    }

    fn sum(&mut self) {
        self.checksum.write(&self.bytes[self.summed..self.consumed]);
        self.summed = self.consumed;
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("offset", &self.offset()).finish_non_exhaustive()
    }
}
