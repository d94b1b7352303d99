//! Transaction logs with a past of a test's choice.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// 2026-11-30T14:02:00Z, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_796_047_320_000;

/// The codes of operations (`ZooDefs.OpCode`).
const CREATE: i32 = 1;
const DELETE: i32 = 2;
const SET_DATA: i32 = 5;
const CREATE_TTL: i32 = 21;
const ERROR: i32 = -1;
const CREATE_SESSION: i32 = -10;
const CLOSE_SESSION: i32 = -11;

/// All permissions (`ZooDefs.Perms.ALL`).
const ALL: i32 = 31;

/// The transactions of a log, which [`write`](Self::write) writes as servers do. Transaction 1 is
/// of 2026-11-30T14:02:00.1Z, and each is a hundred milliseconds after the one before.
///
/// Most methods return the id of the transaction that they add. They do not check if a server would
/// have accepted it, and panic if a path has no slash.
#[derive(Debug, Clone)]
pub struct Journal {
    first: i64,
    next: i64,
    records: Vec<Vec<u8>>,
    /// The numbers of children that were created, by parent.
    cversions: BTreeMap<String, i32>,
    versions: BTreeMap<String, i32>,
    /// The ACL of the next nodes: permissions, schemes and identities.
    acl: Vec<(i32, &'static str, &'static str)>,
}

impl Journal {
    /// Begins with the transaction of this id.
    #[must_use]
    pub fn new(first: i64) -> Self {
        let (cversions, versions) = Default::default();
        let acl = vec![(ALL, "world", "anyone")];
        Self { first, next: first, records: Vec::new(), cversions, versions, acl }
    }

    /// Gives all permissions for the nodes that are created from here on to one identity. Default:
    /// `world:anyone`.
    pub fn own(&mut self, scheme: &'static str, id: &'static str) {
        self.acl = vec![(ALL, scheme, id)];
    }

    /// Gives permissions, as the bits of ZooKeeper, for the nodes that are created from here on to
    /// another identity too.
    pub fn grant(&mut self, permissions: i32, scheme: &'static str, id: &'static str) {
        self.acl.push((permissions, scheme, id));
    }

    /// Opens a session.
    pub fn open(&mut self, session: i64, timeout_ms: i32) -> i64 {
        self.add(session, 0, CREATE_SESSION, |out| out.extend(timeout_ms.to_be_bytes()))
    }

    /// Creates a persistent node.
    pub fn create(&mut self, session: i64, path: &str, data: &str) -> i64 {
        self.new_node(session, path, data, false)
    }

    /// Creates an ephemeral node of the session.
    pub fn ephemeral(&mut self, session: i64, path: &str, data: &str) -> i64 {
        self.new_node(session, path, data, true)
    }

    /// Creates an empty node with a time to live.
    pub fn ttl(&mut self, session: i64, path: &str, ttl_ms: i64) -> i64 {
        let (cversion, acl) = (self.next_cversion(path), self.acl.clone());
        self.add(session, 1, CREATE_TTL, |out| {
            node(out, path, "", &acl);
            out.extend(cversion.to_be_bytes());
            out.extend(ttl_ms.to_be_bytes());
        })
    }

    /// Changes the data of a node.
    pub fn set(&mut self, session: i64, path: &str, data: &str) -> i64 {
        let version = self.versions.entry(path.to_owned()).or_default();
        *version += 1;
        let version = *version;
        self.add(session, 1, SET_DATA, |out| {
            string(out, path);
            string(out, data);
            out.extend(version.to_be_bytes());
        })
    }

    /// Deletes a node.
    pub fn delete(&mut self, session: i64, path: &str) -> i64 {
        self.versions.remove(path);
        self.add(session, 1, DELETE, |out| string(out, path))
    }

    /// Records a request that failed with this error code.
    pub fn fail(&mut self, session: i64, code: i32) -> i64 {
        self.add(session, 1, ERROR, |out| out.extend(code.to_be_bytes()))
    }

    /// Ends a session, which deletes these nodes. The servers end it if it expires.
    pub fn expire(&mut self, session: i64, paths: &[&str]) -> i64 {
        self.add(session, 0, CLOSE_SESSION, |out| {
            length(out, paths.len());
            paths.iter().for_each(|path| string(out, path));
        })
    }

    /// Writes the log into the data directory of a server. Returns its path.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn write(&self, directory: &Path) -> PathBuf {
        let folder = directory.join("version-2");
        fs::create_dir_all(&folder).expect("a folder");
        let mut bytes = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend(self.records.concat());
        // Servers allocate space in advance.
        bytes.resize(bytes.len() + 4096, 0);
        let path = folder.join(format!("log.{:x}", self.first));
        fs::write(&path, bytes).expect("a log");
        path
    }

    fn new_node(&mut self, session: i64, path: &str, data: &str, is_ephemeral: bool) -> i64 {
        let (cversion, acl) = (self.next_cversion(path), self.acl.clone());
        self.add(session, 1, CREATE, |out| {
            node(out, path, data, &acl);
            out.push(u8::from(is_ephemeral));
            out.extend(cversion.to_be_bytes());
        })
    }

    fn next_cversion(&mut self, path: &str) -> i32 {
        let (parent, _) = path.rsplit_once('/').expect("a parent");
        let cversion = self.cversions.entry(parent.to_owned()).or_default();
        *cversion += 1;
        *cversion
    }

    /// Adds a transaction. Returns its id.
    fn add(&mut self, session: i64, cxid: i32, op: i32, body: impl FnOnce(&mut Vec<u8>)) -> i64 {
        let zxid = self.next;
        self.next += 1;
        let mut record = Vec::new();
        record.extend(session.to_be_bytes());
        record.extend(cxid.to_be_bytes());
        record.extend(zxid.to_be_bytes());
        record.extend((BEGIN_MS + 100 * (zxid & 0xffff_ffff)).to_be_bytes());
        record.extend(op.to_be_bytes());
        body(&mut record);
        let mut framed = i64::from(adler32(&record)).to_be_bytes().to_vec();
        length(&mut framed, record.len());
        framed.extend(record);
        framed.push(b'B');
        self.records.push(framed);
        zxid
    }
}

/// Writes a path, data and an ACL.
fn node(out: &mut Vec<u8>, path: &str, data: &str, acl: &[(i32, &str, &str)]) {
    string(out, path);
    string(out, data);
    length(out, acl.len());
    for (permissions, scheme, id) in acl {
        out.extend(permissions.to_be_bytes());
        string(out, scheme);
        string(out, id);
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    length(out, text.len());
    out.extend(text.as_bytes());
}

fn length(out: &mut Vec<u8>, length: usize) {
    out.extend(i32::try_from(length).expect("a short text").to_be_bytes());
}

/// Adler-32, straight from its definition.
fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1, 0);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    (b << 16) | a
}
