//! Writes logs and snapshots, as the servers do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use zk_curator::Acl;
use zk_curator_proto::Encoder;

use super::super::stat::StoredStat;

/// A directory that is removed in the end.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("zk-curator-history-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file, and returns its path.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path));
    }
}

/// The change of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    Create {
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        ephemeral: bool,
        cversion: i32,
    },
    Create2 {
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        ephemeral: bool,
        cversion: i32,
    },
    /// A record of ZooKeeper 3.3.
    CreateV0 {
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        ephemeral: bool,
    },
    Container {
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        cversion: i32,
    },
    Ttl {
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        cversion: i32,
        ttl: i64,
    },
    Delete {
        path: String,
    },
    DeleteContainer {
        path: String,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    Reconfig {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    Check {
        path: String,
        version: i32,
    },
    CreateSession {
        timeout: i32,
    },
    CloseSession {
        paths: Option<Vec<String>>,
    },
    Error {
        code: i32,
    },
    Multi(Vec<Self>),
}

impl Op {
    /// Returns `ZooDefs.OpCode`.
    pub(super) fn code(&self) -> i32 {
        match self {
            Self::Create { .. } | Self::CreateV0 { .. } => 1,
            Self::Delete { .. } => 2,
            Self::SetData { .. } => 5,
            Self::SetAcl { .. } => 7,
            Self::Check { .. } => 13,
            Self::Multi(_) => 14,
            Self::Create2 { .. } => 15,
            Self::Reconfig { .. } => 16,
            Self::Container { .. } => 19,
            Self::DeleteContainer { .. } => 20,
            Self::Ttl { .. } => 21,
            Self::Error { .. } => -1,
            Self::CreateSession { .. } => -10,
            Self::CloseSession { .. } => -11,
        }
    }

    fn write(&self, out: &mut Encoder) {
        match self {
            Self::Create { path, data, acl, ephemeral, cversion }
            | Self::Create2 { path, data, acl, ephemeral, cversion } => {
                new_node(out, path, data.as_deref(), acl);
                out.bool(*ephemeral);
                out.i32(*cversion);
            }
            Self::CreateV0 { path, data, acl, ephemeral } => {
                new_node(out, path, data.as_deref(), acl);
                out.bool(*ephemeral);
            }
            Self::Container { path, data, acl, cversion } => {
                new_node(out, path, data.as_deref(), acl);
                out.i32(*cversion);
            }
            Self::Ttl { path, data, acl, cversion, ttl } => {
                new_node(out, path, data.as_deref(), acl);
                out.i32(*cversion);
                out.i64(*ttl);
            }
            Self::Delete { path } | Self::DeleteContainer { path } => out.string(path),
            Self::SetData { path, data, version } | Self::Reconfig { path, data, version } => {
                out.string(path);
                out.buffer(data.as_deref());
                out.i32(*version);
            }
            Self::SetAcl { path, acl, version } => {
                out.string(path);
                out.vector(acl);
                out.i32(*version);
            }
            Self::Check { path, version } => {
                out.string(path);
                out.i32(*version);
            }
            Self::CreateSession { timeout } => out.i32(*timeout),
            Self::CloseSession { paths } => {
                if let Some(paths) = paths {
                    out.vector(paths);
                }
            }
            Self::Error { code } => out.i32(*code),
            Self::Multi(parts) => {
                out.i32(parts.len().try_into().unwrap());
                for part in parts {
                    let mut body = Encoder::new();
                    part.write(&mut body);
                    out.i32(part.code());
                    out.buffer(Some(body.as_slice()));
                }
            }
        }
    }
}

fn new_node(out: &mut Encoder, path: &str, data: Option<&[u8]>, acl: &[Acl]) {
    out.string(path);
    out.buffer(data);
    out.vector(acl);
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestTxn {
    pub(super) session: i64,
    pub(super) cxid: i32,
    pub(super) zxid: i64,
    pub(super) time: i64,
    pub(super) op: Op,
    /// The digest of the tree, in version 2.
    pub(super) digest: Option<u64>,
}

impl TestTxn {
    /// Returns a transaction of session 1 at the time `1000 * zxid`, without digest.
    pub(super) fn new(zxid: i64, op: Op) -> Self {
        Self { session: 1, cxid: 7, zxid, time: 1000 * zxid, op, digest: None }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.i64(self.session);
        out.i32(self.cxid);
        out.i64(self.zxid);
        out.i64(self.time);
        out.i32(self.op.code());
        self.op.write(&mut out);
        if let Some(digest) = self.digest {
            out.i32(2);
            out.i64(digest.cast_signed());
        }
        out.finish().to_vec()
    }
}

/// Returns a log file with zeros at its end.
pub(super) fn log_file<'a>(txns: impl IntoIterator<Item = &'a TestTxn>, padding: usize) -> Vec<u8> {
    let mut bytes = file_header(*b"ZKLG", 0);
    for txn in txns {
        bytes.extend(framed(&txn.bytes()));
    }
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

/// Returns a record with its checksum, length and mark.
pub(super) fn framed(record: &[u8]) -> Vec<u8> {
    let mut out = Encoder::new();
    out.i64(adler32(record).into());
    out.buffer(Some(record));
    let mut bytes = out.finish().to_vec();
    bytes.push(b'B');
    bytes
}

pub(super) fn file_header(magic: [u8; 4], database: i64) -> Vec<u8> {
    let mut out = Encoder::new();
    out.i32(i32::from_be_bytes(magic));
    out.i32(2);
    out.i64(database);
    out.finish().to_vec()
}

/// A node of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredNode {
    pub(super) path: String,
    pub(super) data: Option<Vec<u8>>,
    /// The number of the ACL; -1 for the open one.
    pub(super) acl: i64,
    pub(super) stat: StoredStat,
}

/// The content of a snapshot.
#[derive(Debug, Clone, Default)]
pub(super) struct SnapshotContent {
    pub(super) sessions: Vec<(i64, i32)>,
    pub(super) acls: Vec<(i64, Vec<Acl>)>,
    pub(super) nodes: Vec<StoredNode>,
    /// The transaction and the digest, in version 2.
    pub(super) digest: Option<(i64, u64)>,
    pub(super) last_zxid: Option<i64>,
}

impl SnapshotContent {
    /// Returns the file, which is not compressed.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.i32(self.sessions.len().try_into().unwrap());
        for (session, timeout) in &self.sessions {
            out.i64(*session);
            out.i32(*timeout);
        }
        out.i32(self.acls.len().try_into().unwrap());
        for (id, acl) in &self.acls {
            out.i64(*id);
            out.vector(acl);
        }
        for node in &self.nodes {
            out.string(&node.path);
            out.buffer(node.data.as_deref());
            out.i64(node.acl);
            write_stat(&mut out, &node.stat);
        }
        out.string("/");
        let mut bytes = file_header(*b"ZKSN", -1);
        bytes.extend_from_slice(out.as_slice());
        seal(&mut bytes);
        if let Some((zxid, digest)) = self.digest {
            bytes.extend(zxid.to_be_bytes());
            bytes.extend(2_i32.to_be_bytes());
            bytes.extend(digest.to_be_bytes());
            seal(&mut bytes);
        }
        if let Some(zxid) = self.last_zxid {
            bytes.extend(zxid.to_be_bytes());
            seal(&mut bytes);
        }
        bytes
    }
}

fn write_stat(out: &mut Encoder, stat: &StoredStat) {
    for field in [stat.czxid, stat.mzxid, stat.ctime, stat.mtime] {
        out.i64(field);
    }
    for field in [stat.version, stat.cversion, stat.aversion] {
        out.i32(field);
    }
    out.i64(stat.ephemeral_owner);
    out.i64(stat.pzxid);
}

fn seal(bytes: &mut Vec<u8>) {
    let checksum = i64::from(adler32(bytes));
    bytes.extend(checksum.to_be_bytes());
    bytes.extend([0, 0, 0, 1, b'/']);
}

/// Adler-32, straight from its definition.
pub(super) fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1, 0);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    (b << 16) | a
}

/// CRC-32, straight from its definition.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Compresses as gzip.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Compresses as snappy-java's stream.
pub(super) fn snappy(bytes: &[u8]) -> Vec<u8> {
    let mut out = b"\x82SNAPPY\0".to_vec();
    out.extend([0, 0, 0, 1, 0, 0, 0, 1]);
    for block in bytes.chunks(50) {
        let packed = snap::raw::Encoder::new().compress_vec(block).unwrap();
        out.extend(i32::try_from(packed.len()).unwrap().to_be_bytes());
        out.extend(packed);
    }
    out
}
