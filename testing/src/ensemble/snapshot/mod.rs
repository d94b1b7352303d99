//! [`Snapshot`]: the nodes and sessions of a server, to start another server with or to save to a
//! file.
//!
//! # Layout
//! ```text
//! "zkcusnap"  version: i32 = 1                      8 + 4 bytes
//! zxid: i64  next session id: i64  opened: i64      opened: number of sessions so far
//! sessions: i64, each  id: i64  password: buffer  timeout in ms: i64  number: i64
//! nodes: i64, each  path  data  acl  owner: i64  czxid mzxid pzxid ctime mtime: i64  version aversion created: i32
//! SHA-1 of all that                                 20 bytes
//! ```
//! Numbers, strings, buffers and lists are those of ZooKeeper's protocol.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha1_smol::Sha1;
use zk_curator_proto::{Decoder, Encoder};

use crate::session::{SavedSession, SavedSessions};
use crate::tree::{Damage, Tree};

const MAGIC: &[u8; 8] = b"zkcusnap";
const VERSION: i32 = 1;
const HASH: usize = 20;

/// The bytes written at once.
const CHUNK: usize = 64 << 10;

/// The nodes and sessions of a server at one moment; see [`crate::TestServer::snapshot`].
///
/// [`crate::TestServerBuilder::snapshot`] starts servers with it, any number of times. It does not
/// contain watches, connections, the journal, or sessions of a read-only server.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) zxid: i64,
    pub(crate) tree: Tree,
    pub(crate) sessions: SavedSessions,
}

/// The error of saving or loading a snapshot.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file, or its directory, could not be read or written.
    #[non_exhaustive]
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a snapshot.
    #[non_exhaustive]
    #[error("{} is not a snapshot", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file has another version of the format.
    #[non_exhaustive]
    #[error("{} has version {version} of the format, this is version {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version of the format in the file.
        version: i32,
    },
    /// The file was truncated or changed after it was written.
    #[non_exhaustive]
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage found.
        reason: String,
    },
}

impl Snapshot {
    /// Loads a file written by [`Snapshot::save`]. Blocks the thread, about one second per
    /// gigabyte.
    ///
    /// # Errors
    /// [`SnapshotError`]; [`SnapshotError::Io`] with [`io::ErrorKind::NotFound`] if the file does
    /// not exist. A damaged file is refused as a whole.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(failed("read", path))?;
        let owned = path.to_owned();
        Self::decode(bytes.into()).map_err(|damage| match damage {
            Damage::Foreign => SnapshotError::Foreign { path: owned },
            Damage::Version(version) => SnapshotError::Version { path: owned, version },
            damage => SnapshotError::Damaged { path: owned, reason: damage.to_string() },
        })
    }

    /// Saves the snapshot to a file. Writes a new file next to it, with `.new` appended to the
    /// name, and replaces an existing file when all is written. Blocks the thread.
    ///
    /// The file contains the passwords of the sessions.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        let written = self.write(&new).map_err(failed("write", &new));
        let saved = written.and_then(|()| fs::rename(&new, path).map_err(failed("replace", path)));
        if saved.is_err() {
            // The earlier error is the one to report.
            fs::remove_file(&new).ok();
        }
        saved
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut out =
            Output { file: File::create(path)?, hash: Sha1::new(), pending: Encoder::new() };
        self.encode(&mut out)?;
        out.finish()?.sync_all()
    }

    fn encode(&self, out: &mut Output<impl Write>) -> io::Result<()> {
        let Self { zxid, tree, sessions } = self;
        out.raw(MAGIC)?;
        out.record(|out| {
            out.i32(VERSION);
            out.i64(*zxid);
            out.i64(sessions.next_id);
            out.i64(sessions.opened.cast_signed());
            out.i64(length(sessions.living.len()));
        })?;
        for session in &sessions.living {
            out.record(|out| {
                out.i64(session.id);
                out.buffer(Some(&session.password));
                out.i64(session.timeout.cast_signed());
                out.i64(session.number.cast_signed());
            })?;
        }
        out.record(|out| out.i64(length(tree.count())))?;
        for (path, node) in tree.root().walk("/") {
            out.record(|out| {
                out.string(&path);
                node.encode(out);
            })?;
        }
        Ok(())
    }

    fn decode(bytes: Bytes) -> Result<Self, Damage> {
        let Some((content, hash)) =
            bytes.strip_prefix(MAGIC).and_then(<[u8]>::split_last_chunk::<HASH>)
        else {
            return Err(Damage::Foreign);
        };
        // Checks the version before the checksum, which may differ in another version.
        let mut input = Decoder::new(bytes.slice_ref(content));
        match input.i32("version")? {
            VERSION => {}
            version => return Err(Damage::Version(version)),
        }
        if Sha1::from(&bytes[..bytes.len() - HASH]).digest().bytes() != *hash {
            return Err(Damage::Checksum);
        }
        let zxid = in_range(input.i64("zxid")?)?;
        let sessions = decode_sessions(&mut input)?;
        let nodes = input.i64("number of nodes")?;
        let tree = Tree::decode(nodes, zxid, &mut input)?;
        if input.remaining() > 0 {
            return Err(Damage::Content("something follows the nodes"));
        }
        let lives =
            |owner| sessions.living.binary_search_by_key(&owner, |session| session.id).is_ok();
        if !tree.owners().all(|(owner, _)| lives(owner)) {
            return Err(Damage::Content("the session of an ephemeral node is missing"));
        }
        Ok(Self { zxid, tree, sessions })
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("zxid", &self.zxid)
            .field("nodes", &self.tree.count())
            .field("sessions", &self.sessions.living.len())
            .finish()
    }
}

fn decode_sessions(input: &mut Decoder) -> Result<SavedSessions, Damage> {
    let next_id = in_range(input.i64("next session id")?)?;
    let opened = in_range(input.i64("opened sessions")?)?.cast_unsigned();
    let mut living = Vec::new();
    for _ in 0..input.i64("number of sessions")? {
        let session = SavedSession {
            id: input.i64("session id")?,
            password: input.buffer("password")?.unwrap_or_default(),
            timeout: in_range(input.i64("session timeout")?)?.cast_unsigned(),
            number: in_range(input.i64("session number")?)?.cast_unsigned(),
        };
        if living.last().is_some_and(|before: &SavedSession| before.id >= session.id) {
            return Err(Damage::Content("sessions are not in order"));
        }
        living.push(session);
    }
    Ok(SavedSessions { next_id, opened, living })
}

/// Returns a number that is not negative, and far enough below the maximum that additions do not
/// overflow.
fn in_range(number: i64) -> Result<i64, Damage> {
    if (0..1 << 62).contains(&number) {
        Ok(number)
    } else {
        Err(Damage::Content("a number is out of range"))
    }
}

fn length(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> SnapshotError + 'a {
    move |source| SnapshotError::Io { action, path: path.to_owned(), source }
}

/// Writes records in pieces of a medium size.
struct Output<W> {
    file: W,
    hash: Sha1,
    pending: Encoder,
}

impl<W: Write> Output<W> {
    fn record(&mut self, fill: impl FnOnce(&mut Encoder)) -> io::Result<()> {
        fill(&mut self.pending);
        if self.pending.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.file.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending).finish();
        self.raw(&pending)
    }

    /// Writes the checksum at the end.
    fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.file.write_all(&self.hash.digest().bytes())?;
        Ok(self.file)
    }
}

#[cfg(test)]
mod tests;
