//! A snapshot: the sessions and the tree of a server.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use zk_curator::SessionId;
use zk_curator_proto::DecodeError;

use super::budget::ReadBudget;
use super::error::{Damage, Error, Result};
use super::feed::Feed;
use super::files::Packing;
use super::lists::AclList;
use super::log::{DEFAULT_MAX_RECORD, VERSION};
use super::records::TreeDigest;
use super::stat::StoredStat;
use super::unpack::unpack;
use super::wire::Cursor;

const MAGIC: [u8; 4] = *b"ZKSN";
/// The length of the header of the file, in bytes.
const HEADER: usize = 16;
/// The length of a seal, in bytes: the checksum, and the string `/`.
const SEAL: usize = 13;
/// The end of a seal: the string `/`.
pub(super) const MARK: [u8; 5] = [0, 0, 0, 1, b'/'];
/// The maximum length of what follows the first seal, in bytes.
const MAX_TRAILER: usize = 4096;
/// The id of the ACL that every client may do everything.
const OPEN_ACL: i64 = -1;

/// A reader of one snapshot, in bounded memory: its sessions, its ACLs, and one node.
///
/// A server writes the file in place: the newest snapshot may be incomplete, which is
/// [`Damage::Truncated`]. The checksum is at the end of the file. Nodes are returned before it was
/// verified: use them only if [`next_node`](Self::next_node) has returned `None`.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    feed: Feed,
    max_field: usize,
    sessions: Vec<SnapshotSession>,
    /// The stored forms of the ACLs.
    acls: HashMap<i64, Box<[u8]>>,
    /// The length of the current node, in bytes.
    node: usize,
    end: Option<SnapshotEnd>,
}

/// A session in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotSession {
    /// The session.
    pub id: SessionId,
    /// Its timeout, in milliseconds.
    pub timeout_ms: i32,
}

/// A node in a snapshot. It borrows from the buffer of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotNode<'a> {
    /// The path; empty for the root.
    pub path: &'a str,
    /// The data; `None` is Java's `null`.
    pub data: Option<&'a [u8]>,
    /// The ACL; `None` if the snapshot does not contain it, which a fuzzy snapshot may not.
    pub acl: Option<AclList<'a>>,
    /// The metadata.
    pub stat: StoredStat,
}

/// The entries at the end of a snapshot, which newer servers write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SnapshotEnd {
    /// The last transaction that the snapshot may contain changes of, and the digest of the tree
    /// after it. `None` before ZooKeeper 3.6, and if digests are switched off.
    pub digest: Option<(i64, TreeDigest)>,
    /// The last transaction that the snapshot may contain changes of. `None` before ZooKeeper 3.9,
    /// and if it is switched off (`serializeLastProcessedZxid.enabled`).
    pub last_zxid: Option<i64>,
}

impl SnapshotEnd {
    /// Returns the last transaction that a snapshot may contain changes of, in addition to those up
    /// to `zxid`, the transaction in its name. `None` if the snapshot does not tell it.
    #[must_use]
    pub fn fuzzy_until(&self, zxid: i64) -> Option<i64> {
        let digest = self.digest.map(|(last, _)| last).filter(|last| *last > 0);
        // A new leader can take a snapshot before the first transaction of its epoch. The digest is
        // of the epoch before, then.
        self.last_zxid.or(digest).map(|last| last.max(zxid))
    }

    /// Returns the digest, and its transaction; `None` if that is before `zxid`.
    pub(super) fn digest_since(&self, zxid: i64) -> Option<(i64, TreeDigest)> {
        self.digest.filter(|(last, _)| *last > 0 && *last >= zxid)
    }
}

impl Snapshot {
    /// Opens a snapshot, and reads its sessions and ACLs. The end of the name tells the
    /// compression: `.gz`, `.snappy`, or none.
    ///
    /// # Errors
    /// [`Error::Removed`] or [`Error::Io`] if the file cannot be opened, [`Error::UnexpectedMagic`]
    /// if it is not a snapshot, [`Error::UnknownVersion`], and [`Error::Damaged`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
        let feed = Feed::new(unpack(file, Packing::of(&path)));
        let mut snapshot = Self {
            path,
            feed,
            max_field: DEFAULT_MAX_RECORD,
            sessions: Vec::new(),
            acls: HashMap::new(),
            node: 0,
            end: None,
        };
        snapshot.read_header()?;
        snapshot.read_sessions()?;
        snapshot.read_acls()?;
        Ok(snapshot)
    }

    /// Sets the maximum length of the data of a node, in bytes. Default: [`DEFAULT_MAX_RECORD`].
    #[must_use]
    pub const fn max_record(mut self, bytes: usize) -> Self {
        self.max_field = bytes;
        self
    }

    /// Sets the budget of the bytes that are read from here on.
    pub(super) fn within(mut self, budget: ReadBudget) -> Self {
        self.feed.budget = budget;
        self
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the position in the uncompressed content, in bytes: of the last node that was
    /// returned.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.feed.offset()
    }

    /// Returns the sessions that were open.
    #[must_use]
    pub fn sessions(&self) -> &[SnapshotSession] {
        &self.sessions
    }

    /// Returns the entries at the end of the file; `None` before the end was reached.
    #[must_use]
    pub const fn end(&self) -> Option<SnapshotEnd> {
        self.end
    }

    /// Returns the next node, parents before their children. `None` at the end of the file, whose
    /// checksums were verified then.
    ///
    /// # Errors
    /// [`Error::Damaged`], also if a checksum does not match, and [`Error::Io`].
    pub fn next_node(&mut self) -> Result<Option<SnapshotNode<'_>>> {
        if self.advance()? { self.node().map(Some) } else { Ok(None) }
    }

    /// Moves to the next node. Returns `false` at the end of the file.
    fn advance(&mut self) -> Result<bool> {
        if self.end.is_some() {
            return Ok(false);
        }
        self.feed.consume(std::mem::take(&mut self.node));
        let path = self.length(0, "a path")?;
        if path == 1 && self.want(5, "a path")?.get(4) == Some(&b'/') {
            self.feed.consume(5);
            self.end = Some(self.read_end()?);
            return Ok(false);
        }
        let data = self.length(4 + path, "the data of a node")?;
        let length = 4 + path + 4 + data + 8 + StoredStat::LENGTH;
        self.want(length, "a node")?;
        self.node = length;
        Ok(true)
    }

    /// Returns the node that [`advance`](Self::advance) moved to.
    fn node(&self) -> Result<SnapshotNode<'_>> {
        let node = read_node(&mut Cursor::new(self.feed.rest()), &self.acls);
        node.map_err(|error| self.damaged(0, Damage::Field(error)))
    }

    fn read_header(&mut self) -> Result<()> {
        let header = self.want(HEADER, "the header")?;
        if header[..HEADER] == [0; HEADER] {
            // The server has died before its file system wrote the content.
            return Err(self.damaged(0, Damage::Truncated { what: "the header" }));
        }
        let mut input = Cursor::new(header);
        let mut found = [0; 4];
        found.copy_from_slice(&header[..4]);
        let version = input.i32("magic").and_then(|_| input.i32("version"));
        let version = version.map_err(|error| self.damaged(4, Damage::Field(error)))?;
        let path = self.path.clone();
        if found != MAGIC {
            return Err(Error::UnexpectedMagic { path, expected: "snapshot", found });
        }
        if version != VERSION {
            return Err(Error::UnknownVersion { path, version });
        }
        self.feed.consume(HEADER);
        Ok(())
    }

    fn read_sessions(&mut self) -> Result<()> {
        for _ in 0..self.count("the sessions")? {
            let session = read_session(&mut Cursor::new(self.want(12, "the sessions")?));
            let session = session.map_err(|error| self.damaged(0, Damage::Field(error)))?;
            self.sessions.push(session);
            self.feed.consume(12);
        }
        Ok(())
    }

    fn read_acls(&mut self) -> Result<()> {
        for _ in 0..self.count("the ACLs")? {
            let mut length = 8;
            let entries = self.length(length, "an ACL")?;
            length += 4;
            for _ in 0..entries {
                length += 4;
                length += 4 + self.length(length, "the scheme of an ACL")?;
                length += 4 + self.length(length, "the identity of an ACL")?;
            }
            let entry = read_acl(&mut Cursor::new(self.want(length, "an ACL")?));
            let (id, acl) = entry.map_err(|error| self.damaged(0, Damage::Field(error)))?;
            self.acls.insert(id, acl);
            self.feed.consume(length);
        }
        Ok(())
    }

    /// Reads what follows the nodes.
    fn read_end(&mut self) -> Result<SnapshotEnd> {
        self.read_seal()?;
        if self.feed.want(MAX_TRAILER).map_err(|error| self.failed(error))? {
            let bytes = self.feed.rest().len();
            return Err(self.damaged(0, Damage::Trailing { what: "the snapshot", bytes }));
        }
        let mut end = SnapshotEnd::default();
        let left = self.feed.rest().len();
        if left > 0 && left != 8 + SEAL {
            end.digest = Some(self.read_digest()?);
            self.read_seal()?;
        }
        if !self.feed.rest().is_empty() {
            let mut input = Cursor::new(self.want(8, "the last zxid")?);
            let last = input.i64("lastZxid");
            end.last_zxid = Some(last.map_err(|error| self.damaged(0, Damage::Field(error)))?);
            self.feed.consume(8);
            self.read_seal()?;
        }
        match self.feed.rest().len() {
            0 => Ok(end),
            bytes => Err(self.damaged(0, Damage::Trailing { what: "the snapshot", bytes })),
        }
    }

    fn read_digest(&mut self) -> Result<(i64, TreeDigest)> {
        let rest = self.feed.rest();
        let mut input = Cursor::new(rest);
        let digest = read_digest(&mut input);
        let length = rest.len() - input.rest().len();
        let digest = digest.map_err(|error| self.damaged(0, Damage::Field(error)))?;
        self.feed.consume(length);
        Ok(digest)
    }

    /// Reads and compares the checksum of all that precedes it.
    fn read_seal(&mut self) -> Result<()> {
        let computed = self.feed.checksum();
        let seal = self.want(SEAL, "the checksum")?;
        let (recorded, mark) = seal[..SEAL].split_at(8);
        let recorded = recorded.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        if mark != MARK {
            let damage = Damage::Truncated { what: "the mark after the checksum" };
            return Err(self.damaged(8, damage));
        }
        if recorded != u64::from(computed) {
            return Err(self.damaged(0, Damage::Checksum { recorded, computed }));
        }
        self.feed.consume(SEAL);
        Ok(())
    }

    /// Reads the number of elements of a list.
    fn count(&mut self, what: &'static str) -> Result<i32> {
        let mut input = Cursor::new(self.want(4, what)?);
        let count = input.i32(what).map_err(|error| self.damaged(0, Damage::Field(error)))?;
        if count < 0 {
            let damage = Damage::Length { what, length: count, limit: self.max_field };
            return Err(self.damaged(0, damage));
        }
        self.feed.consume(4);
        Ok(count)
    }

    /// Returns the length that is at a position of the rest. Java's `null` has length 0 here.
    fn length(&mut self, at: usize, what: &'static str) -> Result<usize> {
        let limit = self.max_field;
        let bytes = self.want(at + 4, what)?;
        let length = bytes[at..].first_chunk::<4>().map_or(-1, |bytes| i32::from_be_bytes(*bytes));
        match usize::try_from(length) {
            Ok(length) if length <= limit => Ok(length),
            Err(_) if length == -1 => Ok(0),
            _ => Err(self.damaged(at as u64, Damage::Length { what, length, limit })),
        }
    }

    /// Returns the rest, with at least this number of bytes.
    fn want(&mut self, wanted: usize, what: &'static str) -> Result<&[u8]> {
        if self.feed.want(wanted).map_err(|error| self.failed(error))? {
            Ok(self.feed.rest())
        } else {
            let end = self.feed.rest().len() as u64;
            Err(self.damaged(end, Damage::Truncated { what }))
        }
    }

    fn damaged(&self, at: u64, damage: Damage) -> Error {
        Error::damaged(&self.path, self.feed.offset() + at, damage)
    }

    /// Tells errors of the compressed data from those of the file.
    fn failed(&self, error: io::Error) -> Error {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match error.kind() {
            UnexpectedEof => self.damaged(0, Damage::Truncated { what: "the compressed data" }),
            InvalidData | InvalidInput => {
                self.damaged(0, Damage::Compression { reason: error.to_string() })
            }
            _ => Error::io("read", &self.path, error),
        }
    }
}

fn read_session(input: &mut Cursor<'_>) -> Result<SnapshotSession, DecodeError> {
    let id = SessionId::new(input.i64("session.id")?);
    Ok(SnapshotSession { id, timeout_ms: input.i32("session.timeout")? })
}

fn read_acl(input: &mut Cursor<'_>) -> Result<(i64, Box<[u8]>), DecodeError> {
    let id = input.i64("the id of an ACL")?;
    Ok((id, AclList::read(input)?.as_bytes().into()))
}

fn read_node<'a>(
    input: &mut Cursor<'a>,
    acls: &'a HashMap<i64, Box<[u8]>>,
) -> Result<SnapshotNode<'a>, DecodeError> {
    let path = input.str("the path of a node")?;
    let data = input.buffer("the data of a node")?;
    let acl = match input.i64("the ACL of a node")? {
        OPEN_ACL => Some(AclList::null()),
        id => acls.get(&id).map(|bytes| AclList::of(bytes)),
    };
    Ok(SnapshotNode { path, data, acl, stat: StoredStat::read(input)? })
}

fn read_digest(input: &mut Cursor<'_>) -> Result<(i64, TreeDigest), DecodeError> {
    let what = "digest.digest";
    let zxid = input.i64("digest.zxid")?;
    let version = input.i32("digest.version")?;
    let value = if version < 2 {
        // Version 1 is written in hexadecimal digits.
        let digits = u64::from_str_radix(input.str(what)?, 16);
        digits.map_err(|_| DecodeError::InvalidValue { what, value: version })?
    } else {
        input.i64(what)?.cast_unsigned()
    };
    Ok((zxid, TreeDigest { version, value }))
}
