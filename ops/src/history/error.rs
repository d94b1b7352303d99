use std::io;
use std::path::{Path, PathBuf};

use zk_curator_proto::DecodeError;

use super::continuity::Gap;
use super::limit::ReadLimit;

/// The result of reading the files of a server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why the files of a server cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("cannot {operation} {}", .path.display())]
    Io {
        /// The operation, as a verb.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file was found, and was removed before it was opened. `autopurge` does this.
    #[error("{} was removed before it was read; autopurge removes old files", .path.display())]
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// The directories contain neither logs nor snapshots.
    #[error("found no transaction log and no snapshot in {}", names(.directories))]
    NothingFound {
        /// The directories.
        directories: Vec<PathBuf>,
    },
    /// Two logs begin with the same transaction. They are of two servers, or one is a copy.
    #[error(
        "{} and {} begin with the same transaction; read the logs of one server only",
        .first.display(),
        .second.display()
    )]
    DuplicateLog {
        /// The first file.
        first: PathBuf,
        /// The second file.
        second: PathBuf,
    },
    /// The file does not begin as a file of this kind.
    #[error("{} begins with {found:02x?}; expected a {expected}", .path.display())]
    UnexpectedMagic {
        /// The file.
        path: PathBuf,
        /// The kind of file: `transaction log` or `snapshot`.
        expected: &'static str,
        /// Its first four bytes.
        found: [u8; 4],
    },
    /// The version in the header of the file is unknown. All releases write version 2.
    #[error("{} has version {version} of the format; only version 2 is known", .path.display())]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// The version.
        version: i32,
    },
    /// Bytes of the file are damaged or missing.
    #[error("{} is damaged at byte {offset}: {damage}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The position from the beginning of the file, in bytes. For a compressed snapshot, the
        /// position in its uncompressed content.
        offset: u64,
        /// The damage.
        damage: Damage,
    },
    /// The logs and snapshots do not go back to this state.
    #[error("cannot rebuild the tree of zxid {zxid:#x}: no snapshot is old enough")]
    NoBase {
        /// The transaction whose state was requested.
        zxid: i64,
    },
    /// The logs do not go back to this time.
    #[error("cannot rebuild the tree of time {time_ms} ms: the logs begin later")]
    NoLogs {
        /// The time, in milliseconds since 1970.
        time_ms: i64,
    },
    /// The logs contain no deletion of the node.
    #[error("the logs contain no deletion of {path}")]
    NotDeleted {
        /// The node.
        path: String,
    },
    /// The node did not exist at the requested moment.
    #[error("{path} did not exist after transaction {zxid:#x}")]
    NoSuchNode {
        /// The node.
        path: String,
        /// The last transaction up to the moment.
        zxid: i64,
    },
    /// The files do not tell the ACL of a node. A snapshot lacks it if the server began to write
    /// the snapshot before the ACL was used first.
    #[error("the snapshot does not contain the ACL of {path}")]
    UnknownAcl {
        /// The node.
        path: String,
    },
    /// A scheme or an identity in the ACL of a node is not text.
    #[error("the ACL of {path} is not text")]
    InvalidAcl {
        /// The node.
        path: String,
        /// The error of the decoder.
        source: DecodeError,
    },
    /// Transactions are missing between two log files, or between a snapshot and the logs.
    #[error("transactions are missing after {:#x}: {gap}", .gap.after)]
    Gap {
        /// The gap.
        gap: Gap,
    },
    /// A [`ReadBudget`](super::ReadBudget) has ended the read.
    #[error("the files were not read to their end: {limit}")]
    Limit {
        /// The limit.
        limit: ReadLimit,
    },
}

impl Error {
    pub(super) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        if let Some(limit) = source.get_ref().and_then(|inner| inner.downcast_ref::<ReadLimit>()) {
            return Self::Limit { limit: *limit };
        }
        if source.kind() == io::ErrorKind::NotFound {
            return Self::Removed { path: path.to_owned() };
        }
        Self::Io { operation, path: path.to_owned(), source }
    }

    /// Returns `true` for a file that ends too early, such as a snapshot that is being written.
    pub(super) const fn is_truncated(&self) -> bool {
        matches!(self, Self::Damaged { damage: Damage::Truncated { .. }, .. })
    }

    /// Returns `true` if the content of a file is damaged, or begins with a wrong header.
    pub(super) const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Damaged { .. } | Self::UnexpectedMagic { .. } | Self::UnknownVersion { .. }
        )
    }

    pub(super) fn damaged(path: &Path, offset: u64, damage: Damage) -> Self {
        Self::Damaged { path: path.to_owned(), offset, damage }
    }
}

fn names(directories: &[PathBuf]) -> String {
    let names: Vec<_> = directories.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

/// The damage of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The checksum does not match.
    #[error("the checksum is {recorded:#x}, but the bytes have {computed:#x}")]
    Checksum {
        /// The checksum in the file.
        recorded: u64,
        /// The Adler-32 of the bytes.
        computed: u32,
    },
    /// The file does not begin as a file of this kind.
    #[error("the file begins with {found:02x?}; expected a {expected}")]
    Magic {
        /// The kind of file: `transaction log` or `snapshot`.
        expected: &'static str,
        /// Its first four bytes.
        found: [u8; 4],
    },
    /// The version in the header of the file is unknown.
    #[error("version {version} of the format is unknown")]
    Version {
        /// The version.
        version: i32,
    },
    /// A length is negative or above the limit.
    #[error("{what} has length {length}; the limit is {limit} bytes")]
    Length {
        /// The field.
        what: &'static str,
        /// The length that was read.
        length: i32,
        /// The limit in bytes.
        limit: usize,
    },
    /// A record of a log does not end with its mark.
    #[error("the record ends with {found:#04x}, expected 0x42")]
    EndMark {
        /// The byte at the place of the mark.
        found: u8,
    },
    /// Zeros, which end a log, are followed by other bytes.
    #[error("data follows the zeros that end a log")]
    AfterPadding,
    /// The type of a transaction is unknown.
    #[error("the type {code} of a transaction is unknown")]
    UnknownType {
        /// The type.
        code: i32,
    },
    /// A field is invalid.
    #[error("{0}")]
    Field(DecodeError),
    /// A record is longer than its fields.
    #[error("{bytes} unexpected bytes follow {what}")]
    Trailing {
        /// The record.
        what: &'static str,
        /// The number of bytes.
        bytes: usize,
    },
    /// The file ends too early.
    #[error("the file ends inside {what}")]
    Truncated {
        /// The record.
        what: &'static str,
    },
    /// Compressed data cannot be expanded.
    #[error("the compressed data is invalid: {reason}")]
    Compression {
        /// The reason, from the decoder.
        reason: String,
    },
    /// A node of a snapshot comes before its parent, or its parent is missing.
    #[error("the parent of node {path} is missing")]
    NoParent {
        /// The node.
        path: String,
    },
    /// A snapshot contains a node twice.
    #[error("the snapshot contains node {path} twice")]
    DuplicateNode {
        /// The node.
        path: String,
    },
}

impl From<DecodeError> for Damage {
    fn from(error: DecodeError) -> Self {
        Self::Field(error)
    }
}
