//! The format of backup files: lines of JSON.
//!
//! The first line is the header, the last one the trailer with the number of nodes and the SHA-256
//! of all that precedes it. Each line between them is a node, and parents precede their children. A
//! file may be compressed with gzip.

use std::io::{self, BufRead, Read, Write};

use hmac_sha256::Hash;
use serde::{Deserialize, Serialize};

use super::damage::{BackupDamage, FormatFault, MAX_LINE};
use super::record::TransferRecord;
use crate::data::digits;
use crate::path;

/// The version of the format. Version 1 has no null data: they were written as empty.
const VERSION: u32 = 2;
/// The oldest version that is read.
const OLDEST: u32 = 1;
/// The beginning of the last line, which no other line has.
const TRAILER: &[u8] = b"{\"nodes\":";
/// The text between the other fields of the trailer and the hash.
const HASH: &str = ",\"sha256\":\"";

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHeader {
    zkc: String,
    version: u32,
    /// The root of the nodes.
    pub root: String,
    /// The time of the backup, in RFC 3339.
    pub taken: String,
    /// The servers, as a connect string; or the directory of the logs, if the nodes were
    /// [recovered](crate::history::Undelete).
    pub servers: String,
}

impl BackupHeader {
    pub(crate) fn new(root: &str, taken: String, servers: &str) -> Self {
        let (root, servers) = (root.to_owned(), servers.to_owned());
        Self { zkc: "backup".to_owned(), version: VERSION, root, taken, servers }
    }

    /// Returns `true` if the file tells null data from empty data.
    #[must_use]
    pub const fn tells_null(&self) -> bool {
        self.version > OLDEST
    }
}

/// The consistency of the nodes of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BackupConsistency {
    /// All nodes existed at one moment, with these data.
    Exact,
    /// As [`Exact`](Self::Exact), except for the nodes that changed during the backup.
    Fuzzy,
}

/// The last line, without the hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTrailer {
    nodes: u64,
    /// The consistency of the nodes.
    pub consistency: BackupConsistency,
    /// The last transaction that the backup contains, in hexadecimal, if it is known.
    pub zxid: Option<String>,
    /// The nodes that are not from that moment; `None` if they are not known.
    pub changed: Option<Vec<String>>,
    /// The nodes that could not be read. They are not in the file.
    pub unreadable: Vec<String>,
}

impl BackupTrailer {
    pub(crate) const fn new(consistency: BackupConsistency, changed: Option<Vec<String>>) -> Self {
        Self { nodes: 0, consistency, zxid: None, changed, unreadable: Vec::new() }
    }

    /// Returns the number of nodes in the file.
    #[must_use]
    pub const fn nodes(&self) -> u64 {
        self.nodes
    }
}

/// Writes a file.
pub(crate) struct RecordWriter<W> {
    out: W,
    hash: Hash,
    nodes: u64,
    line: Vec<u8>,
}

impl<W: Write> RecordWriter<W> {
    pub(crate) fn new(out: W, header: &BackupHeader) -> io::Result<Self> {
        let mut writer = Self { out, hash: Hash::new(), nodes: 0, line: Vec::new() };
        serde_json::to_writer(&mut writer.line, header)?;
        writer.end_line()?;
        Ok(writer)
    }

    pub(crate) fn write(&mut self, record: &TransferRecord) -> io::Result<()> {
        record.write(&mut self.line)?;
        self.nodes += 1;
        self.end_line()
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.line.push(b'\n');
        self.hash.update(&self.line);
        let written = self.out.write_all(&self.line);
        self.line.clear();
        written
    }

    /// Writes the last line. Returns the trailer with the number of nodes.
    pub(crate) fn finish(mut self, trailer: BackupTrailer) -> io::Result<(W, BackupTrailer)> {
        let trailer = BackupTrailer { nodes: self.nodes, ..trailer };
        let mut line = serde_json::to_string(&trailer)?;
        self.hash.update(&line);
        line.pop();
        line.push_str(HASH);
        line.push_str(&digits(&self.hash.finalize()));
        line.push_str("\"}\n");
        self.out.write_all(line.as_bytes())?;
        Ok((self.out, trailer))
    }
}

/// Reads a file.
pub(crate) struct RecordReader<R> {
    input: R,
    hash: Hash,
    /// The number of the present line, from 1.
    at: u64,
    nodes: u64,
    line: Vec<u8>,
    header: BackupHeader,
    trailer: Option<BackupTrailer>,
}

impl<R: BufRead> RecordReader<R> {
    /// Reads the header.
    pub(crate) fn new(input: R) -> Result<Self, BackupDamage> {
        let header = BackupHeader::new("/", String::new(), "");
        let (hash, line, trailer) = (Hash::new(), Vec::new(), None);
        let mut reader = Self { input, hash, at: 0, nodes: 0, line, header, trailer };
        reader.next_line()?;
        reader.header = match serde_json::from_slice::<BackupHeader>(&reader.line) {
            Ok(header) if header.zkc != "backup" => {
                return Err(reader.damage(FormatFault::Header(header.zkc)));
            }
            Ok(header) if !(OLDEST..=VERSION).contains(&header.version) => {
                return Err(reader.damage(FormatFault::Version(header.version)));
            }
            Ok(header) if !is_path(&header.root) => {
                return Err(reader.damage(FormatFault::Header(header.root)));
            }
            Ok(header) => header,
            Err(error) => return Err(reader.damage(FormatFault::Header(error.to_string()))),
        };
        reader.hash.update(&reader.line);
        Ok(reader)
    }

    pub(crate) const fn header(&self) -> &BackupHeader {
        &self.header
    }

    /// Returns the trailer, after the last node was read.
    pub(crate) const fn trailer(&self) -> Option<&BackupTrailer> {
        self.trailer.as_ref()
    }

    /// Returns the next node, or `None` after the last one if the file is intact.
    pub(crate) fn next(&mut self) -> Result<Option<TransferRecord>, BackupDamage> {
        if self.trailer.is_some() {
            return Ok(None);
        }
        self.next_line()?;
        if self.line.starts_with(TRAILER) {
            self.trailer = Some(self.read_trailer()?);
            return Ok(None);
        }
        self.hash.update(&self.line);
        self.nodes += 1;
        let record =
            TransferRecord::parse(&self.line).map_err(|why| self.damage(FormatFault::Node(why)))?;
        if !is_path(&record.path) || !path::is_within(&record.path, &self.header.root) {
            return Err(self.damage(FormatFault::Outside(record.path, self.header.root.clone())));
        }
        Ok(Some(record))
    }

    fn read_trailer(&mut self) -> Result<BackupTrailer, BackupDamage> {
        let wrong = |why: &str| FormatFault::Trailer(why.to_owned());
        let line = std::str::from_utf8(&self.line).ok().map(|line| line.trim_end_matches('\n'));
        let parts = line.and_then(|line| line.strip_suffix("\"}")?.rsplit_once(HASH));
        let Some((fields, expected)) = parts else {
            // A file that was cut may end within the trailer.
            return Err(self.damage(FormatFault::Truncated));
        };
        let fields = format!("{fields}}}");
        self.hash.update(&fields);
        let (found, expected) = (digits(&self.hash.finalize()), expected.to_owned());
        let trailer: BackupTrailer = serde_json::from_str(&fields)
            .map_err(|error| self.damage(wrong(&error.to_string())))?;
        if trailer.nodes != self.nodes {
            let (found, expected) = (self.nodes, trailer.nodes);
            return Err(self.damage(FormatFault::Count { found, expected }));
        }
        if found != expected {
            return Err(self.damage(FormatFault::Checksum));
        }
        match self.input.fill_buf() {
            Ok([]) => Ok(trailer),
            Ok(_) => Err(self.damage(FormatFault::After)),
            Err(error) => Err(self.io(error)),
        }
    }

    /// Reads a line with its end.
    fn next_line(&mut self) -> Result<(), BackupDamage> {
        self.at += 1;
        self.line.clear();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        let read = self.input.by_ref().take(limit).read_until(b'\n', &mut self.line);
        match read {
            Err(error) => Err(self.io(error)),
            Ok(_) if self.line.ends_with(b"\n") => Ok(()),
            Ok(read) if read == MAX_LINE => Err(self.damage(FormatFault::TooLong)),
            Ok(_) => Err(self.damage(FormatFault::Truncated)),
        }
    }

    fn io(&self, error: io::Error) -> BackupDamage {
        match error.kind() {
            // The end of the compressed data is missing.
            io::ErrorKind::UnexpectedEof => self.damage(FormatFault::Truncated),
            _ => self.damage(FormatFault::Io(error)),
        }
    }

    const fn damage(&self, why: FormatFault) -> BackupDamage {
        BackupDamage::new(self.at, why)
    }
}

/// Returns `true` for an absolute path without an empty name.
fn is_path(path: &str) -> bool {
    path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|n| !n.is_empty()))
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
