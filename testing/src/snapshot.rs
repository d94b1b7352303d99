//! [`Snapshot`]: the nodes and sessions of a server, to start another one with, or kept in a file.
//!
//! # Layout
//! ```text
//! "zkcusnap"  version: i32 = 1                      8 + 4 bytes
//! zxid: i64  next session id: i64  opened: i64      opened: how many sessions there have been
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
use sha1::{Digest, Sha1};
use zk_curator_proto::{DecodeError, Decoder, Encoder};

use crate::session::{SavedSession, SavedSessions};
use crate::tree::Tree;

const MAGIC: &[u8; 8] = b"zkcusnap";
const VERSION: i32 = 1;
const HASH: usize = 20;

/// How much is written at once, in bytes.
const CHUNK: usize = 64 << 10;

/// The nodes and the sessions of a server at one moment; see [`crate::TestServer::snapshot`].
///
/// Start any number of servers with it: [`crate::TestServerBuilder::snapshot`]. Watches, connections, the journal
/// and sessions of a read-only server are not part of it.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) zxid: i64,
    pub(crate) tree: Tree,
    pub(crate) sessions: SavedSessions,
}

/// Why a snapshot could not be saved or loaded.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file, or its directory, could not be read or written.
    #[non_exhaustive]
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file is something else.
    #[non_exhaustive]
    #[error("{} is no snapshot", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Another version of this crate has written the file.
    #[non_exhaustive]
    #[error("{} has version {version} of the format, this is version {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version of the format in the file.
        version: i32,
    },
    /// The file has been cut or changed since it was written.
    #[non_exhaustive]
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// What is wrong with the bytes of a snapshot.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("no snapshot")]
    Foreign,
    #[error("version {0}")]
    Version(i32),
    #[error("its checksum is wrong")]
    Checksum,
    #[error(transparent)]
    Field(#[from] DecodeError),
    #[error("{0}")]
    Content(&'static str),
}

impl Snapshot {
    /// Loads a file that [`Snapshot::save`] has written. Blocks the thread, for a second or so if it is a gigabyte.
    ///
    /// # Errors
    /// [`SnapshotError`]; [`SnapshotError::Io`] with [`io::ErrorKind::NotFound`] when there is no such file. A
    /// file that is damaged anywhere is refused as a whole.
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

    /// Saves it as a file. What was there before is replaced when all is written, or kept when that fails: the
    /// new file grows beside it, with `.new` at the end of its name. Blocks the thread.
    ///
    /// The file holds the passwords of the sessions.
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
            // Whether that works or not, the error that counts is the one before.
            fs::remove_file(&new).ok();
        }
        saved
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = Output { file: File::create(path)?, hash: Sha1::new(), pending: Encoder::new() };
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
        let Some((content, hash)) = bytes.strip_prefix(MAGIC).and_then(<[u8]>::split_last_chunk::<HASH>)
        else {
            return Err(Damage::Foreign);
        };
        // Before the checksum, which in another version may be another.
        let mut input = Decoder::new(bytes.slice_ref(content));
        match input.i32("version")? {
            VERSION => {}
            version => return Err(Damage::Version(version)),
        }
        if Sha1::digest(&bytes[..bytes.len() - HASH])[..] != hash[..] {
            return Err(Damage::Checksum);
        }
        let zxid = in_range(input.i64("zxid")?)?;
        let sessions = decode_sessions(&mut input)?;
        let nodes = input.i64("number of nodes")?;
        let tree = Tree::decode(nodes, zxid, &mut input)?;
        if input.remaining() > 0 {
            return Err(Damage::Content("something follows the nodes"));
        }
        let lives = |owner| sessions.living.binary_search_by_key(&owner, |session| session.id).is_ok();
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

/// A number that is not negative, and so far from the largest that what is added to it does not overflow.
fn in_range(number: i64) -> Result<i64, Damage> {
    if (0..1 << 62).contains(&number) { Ok(number) } else { Err(Damage::Content("a number is out of range")) }
}

fn length(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> SnapshotError + 'a {
    move |source| SnapshotError::Io { action, path: path.to_owned(), source }
}

/// Writes records in pieces that are neither tiny nor all of them.
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

    /// Ends with the checksum.
    fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.file.write_all(&self.hash.finalize())?;
        Ok(self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Config;
    use crate::state::State;

    fn new() -> Snapshot {
        State::new(Config::DEFAULT, 1, None).snapshot()
    }

    fn bytes_of(snapshot: &Snapshot) -> Vec<u8> {
        let mut out = Output { file: Vec::new(), hash: Sha1::new(), pending: Encoder::new() };
        snapshot.encode(&mut out).unwrap();
        out.finish().unwrap()
    }

    fn decode(bytes: &[u8]) -> Result<Snapshot, Damage> {
        Snapshot::decode(Bytes::copy_from_slice(bytes))
    }

    /// What is wrong with other contents that have the right checksum.
    fn damage_of(contents: &[u8]) -> Damage {
        let sum = Sha1::digest(contents);
        decode(&[contents, &sum[..]].concat()).unwrap_err()
    }

    #[tokio::test]
    async fn bytes_that_were_cut_or_changed_are_refused() {
        let whole = bytes_of(&new());
        assert_eq!(bytes_of(&decode(&whole).unwrap()), whole);
        for at in 0..whole.len() {
            assert!(decode(&whole[..at]).is_err(), "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 0x80;
            let damage = decode(&changed).unwrap_err();
            let expected = match at {
                0..8 => Damage::Foreign,
                8 => Damage::Version(i32::MIN + 1),
                9..12 => Damage::Version(1 ^ (0x80 << (8 * (11 - at)))),
                _ => Damage::Checksum,
            };
            assert_eq!(damage, expected, "changed at {at}");
        }
    }

    #[tokio::test]
    async fn contents_that_no_server_has_are_refused() {
        let whole = bytes_of(&new());
        let contents = &whole[..whole.len() - HASH];
        for at in 12..contents.len() {
            assert!(matches!(damage_of(&contents[..at]), Damage::Field(_)), "cut at {at}");
        }
        assert!(matches!(damage_of(&[contents, b"x"].concat()), Damage::Content(_)));
        // The zxid, the next session, how many there have been, and how many sessions and nodes follow.
        for at in [12, 20, 28, 36, 44] {
            for number in [i64::MIN, -1, i64::MAX] {
                let mut changed = contents.to_vec();
                changed[at..at + 8].copy_from_slice(&number.to_be_bytes());
                // Fewer sessions than none are none.
                if at != 36 || number > 0 {
                    damage_of(&changed);
                }
            }
        }
        // Of every other field, what a server cannot have; and whatever it is, nothing panics.
        for at in 12..contents.len() {
            for bit in [1, 0x40, 0x80] {
                let mut changed = contents.to_vec();
                changed[at] ^= bit;
                let sum = Sha1::digest(&changed);
                if let Ok(snapshot) = decode(&[&changed[..], &sum[..]].concat()) {
                    State::new(Config::DEFAULT, 1, Some(snapshot)).reap();
                }
            }
        }
    }

    #[tokio::test]
    async fn a_node_belongs_to_a_parent_and_an_ephemeral_one_to_a_session() {
        let with = |path: &str, owner: i64| {
            let whole = bytes_of(&new());
            let mut contents = whole[..whole.len() - HASH].to_vec();
            contents[44 + 7] += 1;
            let mut out = Encoder::new();
            out.string(path);
            out.buffer(None);
            out.i32(0);
            out.i64(owner);
            // Three zxids, two times, three counts.
            (0..5).for_each(|_| out.i64(0));
            (0..3).for_each(|_| out.i32(0));
            contents.extend_from_slice(&out.finish());
            let sum = Sha1::digest(&contents);
            decode(&[&contents[..], &sum[..]].concat()).map(|snapshot| snapshot.tree.count_below("/"))
        };
        assert_eq!(with("/a", 0), Ok(4));
        for (path, owner) in [("/a/b", 0), ("/zookeeper", 0), ("a", 0), ("/a", 7), ("/a", -1)] {
            assert!(matches!(with(path, owner), Err(Damage::Content(_))), "{path} {owner}");
        }
    }
}
