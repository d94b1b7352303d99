//! A window on a file that may grow.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::budget::ReadBudget;

/// The number of bytes that are read at a time.
const READ: usize = 1 << 20;

/// A part of a file in memory. The memory is used again for the next part.
#[derive(Debug)]
pub(super) struct Window {
    file: File,
    /// The position of the first byte of `bytes` in the file.
    start: u64,
    bytes: Vec<u8>,
    pub(super) budget: ReadBudget,
}

impl Window {
    pub(super) const fn new(file: File) -> Self {
        Self { file, start: 0, bytes: Vec::new(), budget: ReadBudget::unlimited() }
    }

    /// Returns the current length of the file, in bytes.
    pub(super) fn file_length(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len())
    }

    /// Returns the bytes from a position of the file on: at least `wanted`, unless the file ends
    /// before. Memory is allocated for bytes of the file only.
    pub(super) fn at(&mut self, position: u64, wanted: usize) -> io::Result<&[u8]> {
        if self.held(position).len() < wanted {
            self.fill(position, wanted)?;
        }
        Ok(self.held(position))
    }

    /// Forgets the bytes in memory, so that they are read again.
    pub(super) fn forget(&mut self) {
        self.bytes.clear();
    }

    /// Returns the bytes in memory from a position on.
    pub(super) fn held(&self, position: u64) -> &[u8] {
        let from = position.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        from.and_then(|from| self.bytes.get(from..)).unwrap_or_default()
    }

    fn fill(&mut self, position: u64, wanted: usize) -> io::Result<()> {
        let kept = self.held(position).len();
        self.bytes.drain(..self.bytes.len() - kept);
        self.start = position;
        let end = position + kept as u64;
        let left = self.file_length()?.saturating_sub(end);
        let missing = usize::try_from(left).unwrap_or(usize::MAX).min(wanted.max(READ) - kept);
        self.budget.spend(missing)?;
        self.bytes.reserve(missing);
        self.file.seek(SeekFrom::Start(end))?;
        (&self.file).take(missing as u64).read_to_end(&mut self.bytes)?;
        Ok(())
    }
}
