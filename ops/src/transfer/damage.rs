//! Damaged backup files.

use std::io;

/// The length of a line, in bytes: a node of 16 MiB in base64, and more.
pub(super) const MAX_LINE: usize = 32 << 20;

/// The first line of a backup file that is not as it was written.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BackupDamage {
    line: u64,
    why: FormatFault,
}

impl BackupDamage {
    pub(super) const fn new(line: u64, why: FormatFault) -> Self {
        Self { line, why }
    }

    /// Returns the number of the line, from 1.
    #[must_use]
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Returns `true` if the end of the file is missing.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        matches!(self.why, FormatFault::Truncated)
    }
}

/// The fault of a line.
#[derive(Debug, thiserror::Error)]
pub(super) enum FormatFault {
    #[error("not a backup of zkc: {0}")]
    Header(String),
    #[error("a backup of version {0}, which this zkc cannot read")]
    Version(u32),
    #[error("truncated: the file ends before its last line")]
    Truncated,
    #[error("longer than {MAX_LINE} bytes")]
    TooLong,
    #[error("not a node: {0}")]
    Node(String),
    #[error("{0} is not a path below {1}")]
    Outside(String, String),
    #[error("not a trailer: {0}")]
    Trailer(String),
    #[error("{found} nodes precede it, not {expected}")]
    Count { found: u64, expected: u64 },
    #[error("the checksum differs: the file was changed")]
    Checksum,
    #[error("text after the last line")]
    After,
    #[error("{0}")]
    Io(io::Error),
}
