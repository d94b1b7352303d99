//! A node in a backup file.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zk_curator::{Acl, Permissions, Stat};

use crate::acl;
use crate::node::hex;

/// A node with everything that a backup has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferRecord {
    /// The path.
    pub path: String,
    /// The stored data. `None` for null data, which differ from empty data.
    pub data: Option<Bytes>,
    /// The kind.
    pub kind: RecordKind,
    /// The ACL; empty if it was not read.
    pub acl: Vec<Acl>,
    /// The version of the data.
    pub version: i32,
    /// The transaction that created the node.
    pub czxid: i64,
    /// The transaction that changed the data last.
    pub mzxid: i64,
    /// The time of the creation, in milliseconds since 1970.
    pub ctime: i64,
    /// The time of the last change of the data, in milliseconds since 1970.
    pub mtime: i64,
}

/// A kind of node. Servers tell only ephemeral nodes from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordKind {
    /// A persistent node, or a container or node with a time to live that was read from servers.
    Persistent,
    /// A container.
    Container,
    /// The session that owns the node.
    Ephemeral(i64),
    /// The time to live in milliseconds.
    Ttl(u64),
}

impl RecordKind {
    pub(crate) const fn of(stat: &Stat) -> Self {
        if stat.is_ephemeral() { Self::Ephemeral(stat.ephemeral_owner) } else { Self::Persistent }
    }

    /// Returns `true` for an ephemeral node.
    #[must_use]
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral(_))
    }
}

impl TransferRecord {
    pub(crate) fn new(path: String, data: Option<Bytes>, acl: Vec<Acl>, stat: &Stat) -> Self {
        Self {
            path,
            data,
            kind: RecordKind::of(stat),
            acl,
            version: stat.version,
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            ctime: stat.ctime,
            mtime: stat.mtime,
        }
    }

    /// Returns the bytes of its texts and of its data, as in memory.
    pub(crate) fn bytes(&self) -> usize {
        let acl: usize = self.acl.iter().map(|acl| acl.scheme.len() + acl.id.len()).sum();
        let entries = self.acl.len() * size_of::<Acl>();
        self.path.len() + self.data.as_ref().map_or(0, Bytes::len) + acl + entries
    }

    /// Returns `true` if the server has hidden passwords of the ACL, because the client of the
    /// backup lacked the permission ADMIN. Such a list admits nobody.
    pub(crate) fn has_masked_acl(&self) -> bool {
        self.acl.iter().any(|acl| acl.scheme == "digest" && acl.id.ends_with(":x"))
    }

    /// Returns the ACL for a new node. Nodes of old servers may have none, and are then open, but
    /// no server accepts that.
    pub(crate) fn acl_to_create(&self) -> Vec<Acl> {
        if self.acl.is_empty() { Acl::open_unsafe() } else { self.acl.clone() }
    }

    /// Appends the line of the file, without its end.
    pub(crate) fn write(&self, line: &mut Vec<u8>) -> serde_json::Result<()> {
        let (kind, ttl_ms, owner) = match self.kind {
            RecordKind::Persistent => (KindName::Persistent, None, None),
            RecordKind::Container => (KindName::Container, None, None),
            RecordKind::Ephemeral(owner) => (KindName::Ephemeral, None, Some(owner)),
            RecordKind::Ttl(ms) => (KindName::Ttl, Some(ms), None),
        };
        serde_json::to_writer(
            line,
            &RecordLine {
                path: Cow::Borrowed(&self.path),
                data: self.data.as_deref().map(RecordData::of),
                kind,
                ttl_ms,
                owner: owner.map(hex),
                acl: self.acl.iter().map(AclRecord::of).collect(),
                version: self.version,
                czxid: hex(self.czxid),
                mzxid: hex(self.mzxid),
                ctime: self.ctime,
                mtime: self.mtime,
            },
        )
    }

    /// Parses a line. The error says why it is no node.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        let line: RecordLine<'_> =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let kind = match (line.kind, line.ttl_ms, line.owner) {
            (KindName::Persistent, None, None) => RecordKind::Persistent,
            (KindName::Container, None, None) => RecordKind::Container,
            (KindName::Ephemeral, None, Some(owner)) => RecordKind::Ephemeral(unhex(&owner)?),
            (KindName::Ttl, Some(ms), None) => RecordKind::Ttl(ms),
            _ => return Err("the kind does not match `ttl_ms` and `owner`".to_owned()),
        };
        Ok(Self {
            path: line.path.into_owned(),
            data: line.data.map(RecordData::bytes).transpose()?,
            kind,
            acl: line.acl.into_iter().map(AclRecord::acl).collect::<Result<_, _>>()?,
            version: line.version,
            czxid: unhex(&line.czxid)?,
            mzxid: unhex(&line.mzxid)?,
            ctime: line.ctime,
            mtime: line.mtime,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordLine<'a> {
    path: Cow<'a, str>,
    /// `null` for null data, since version 2. The field itself is not optional.
    #[serde(deserialize_with = "Option::deserialize")]
    data: Option<RecordData<'a>>,
    kind: KindName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    acl: Vec<AclRecord<'a>>,
    version: i32,
    czxid: String,
    mzxid: String,
    ctime: i64,
    mtime: i64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindName {
    Persistent,
    Container,
    Ephemeral,
    Ttl,
}

/// Data: text if it is text, so that a file can be searched.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RecordData<'a> {
    Text(Cow<'a, str>),
    Base64(String),
}

impl<'a> RecordData<'a> {
    fn of(data: &'a [u8]) -> Self {
        std::str::from_utf8(data).map_or_else(
            |_| Self::Base64(STANDARD.encode(data)),
            |text| Self::Text(Cow::Borrowed(text)),
        )
    }

    fn bytes(self) -> Result<Bytes, String> {
        match self {
            Self::Text(text) => Ok(text.into_owned().into_bytes().into()),
            Self::Base64(text) => {
                STANDARD.decode(text).map(Bytes::from).map_err(|error| format!("data: {error}"))
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct AclRecord<'a> {
    scheme: Cow<'a, str>,
    id: Cow<'a, str>,
    perms: String,
}

impl<'a> AclRecord<'a> {
    fn of(acl: &'a Acl) -> Self {
        let perms = acl.permissions;
        let perms = if Permissions::ALL.contains(perms) {
            acl::letters(perms)
        } else {
            perms.bits().to_string()
        };
        Self { scheme: Cow::Borrowed(&acl.scheme), id: Cow::Borrowed(&acl.id), perms }
    }

    fn acl(self) -> Result<Acl, String> {
        let permissions = match (acl::permissions(&self.perms), self.perms.parse()) {
            (Some(permissions), _) => permissions,
            (None, Ok(bits)) => Permissions::from_bits(bits),
            (None, Err(_)) => return Err(format!("permissions: {}", self.perms)),
        };
        Ok(Acl::new(permissions, self.scheme, self.id))
    }
}

/// Parses a number in hexadecimal, as [`hex`] writes it.
pub(crate) fn unhex(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.map(u64::cast_signed).ok_or_else(|| format!("not in hexadecimal: {text}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn acls() -> impl Strategy<Value = Acl> {
        let perms = prop_oneof![0..32_i32, any::<i32>()].prop_map(Permissions::from_bits);
        (perms, any::<String>(), any::<String>())
            .prop_map(|(p, scheme, id)| Acl::new(p, scheme, id))
    }

    fn kinds() -> impl Strategy<Value = RecordKind> {
        prop_oneof![
            Just(RecordKind::Persistent),
            Just(RecordKind::Container),
            any::<i64>().prop_map(RecordKind::Ephemeral),
            any::<u64>().prop_map(RecordKind::Ttl),
        ]
    }

    fn data() -> impl Strategy<Value = Option<Bytes>> {
        let text = any::<String>().prop_map(String::into_bytes);
        let bytes = prop_oneof![text, any::<Vec<u8>>()].prop_map(Bytes::from);
        proptest::option::of(bytes)
    }

    /// Nodes of any content, below `/`.
    pub(crate) fn records() -> impl Strategy<Value = TransferRecord> {
        let what = (any::<String>(), data(), kinds(), prop::collection::vec(acls(), 0..4));
        let numbers = any::<(i32, i64, i64, i64, i64)>();
        (what, numbers).prop_map(|((path, data, kind, acl), numbers)| {
            let (version, czxid, mzxid, ctime, mtime) = numbers;
            let path = format!("/{path}");
            TransferRecord { path, data, kind, acl, version, czxid, mzxid, ctime, mtime }
        })
    }

    proptest! {
        #[test]
        fn a_line_is_the_node(record in records()) {
            let mut line = Vec::new();
            record.write(&mut line).unwrap();
            prop_assert!(!line.contains(&b'\n'));
            prop_assert_eq!(TransferRecord::parse(&line), Ok(record));
        }

        #[test]
        fn no_line_panics(line: Vec<u8>) {
            prop_assert!(TransferRecord::parse(&line).is_err());
        }
    }

    #[test]
    fn a_node_of_two_kinds_is_refused() {
        let line = |kind: &str| {
            format!(
                r#"{{"path":"/a","data":{{"text":""}},{kind},"acl":[],"version":0,"czxid":"0x1","mzxid":"0x1","ctime":0,"mtime":0}}"#
            )
        };
        for kind in [r#""kind":"ttl""#, r#""kind":"ephemeral","ttl_ms":1"#, r#""kind":"x""#] {
            assert!(TransferRecord::parse(line(kind).as_bytes()).is_err(), "{kind}");
        }
        let good = line(r#""kind":"ttl","ttl_ms":1"#);
        assert!(TransferRecord::parse(good.as_bytes()).is_ok());
        let without_data = good.replace(r#""data":{"text":""},"#, "");
        assert!(TransferRecord::parse(without_data.as_bytes()).is_err());
        let null = good.replace(r#"{"text":""}"#, "null");
        assert_eq!(TransferRecord::parse(null.as_bytes()).unwrap().data, None);
    }

    #[test]
    fn the_size_of_a_node_is_not_only_that_of_its_data() {
        let of = |path: &str, acl: &str| {
            let acl = vec![Acl::new(Permissions::ALL, "digest", acl)];
            TransferRecord::new(path.to_owned(), None, acl, &Stat::default()).bytes()
        };
        let long = "x".repeat(1_000);
        assert!(of(&format!("/{long}"), "") > 1_000 && of("/a", &long) > 1_000);
        assert!(of("/a", "ann") < 1_000);
    }

    #[test]
    fn hidden_passwords_are_recognised() {
        let stat = Stat::default();
        let of = |id: &str| {
            let acl = vec![Acl::new(Permissions::ALL, "digest", id)];
            TransferRecord::new("/a".to_owned(), None, acl, &stat)
        };
        assert!(of("ann:x").has_masked_acl());
        assert!(!of("ann:CxlmTZ5bgVqlaHVwIwd2CRCEwmM=").has_masked_acl());
    }
}
