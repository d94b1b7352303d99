//! The checksums of migrations: pure functions of their operations.

use std::fmt::Write as _;

use bytes::Bytes;
use hmac_sha256::Hash;
use zk_curator::internal::{Op, millis};
use zk_curator::{Acl, CreateMode, Version};

/// A SHA-256.
pub(super) type Digest = [u8; 32];

/// Begins the input of every checksum that only this library computes.
const OURS: &[u8] = b"zk-curator migration 1";

/// Returns Curator's checksum: what `MigrationManager` writes into a node `meta-`.
///
/// For each operation these are its path, the decimal number of its opcode, and the text of its
/// request record (`CuratorMultiTransactionRecord.addToDigest`), without anything between them.
/// Different operations can have the same input: see [`sound`].
pub(super) fn curator(ops: &[Op]) -> Digest {
    let mut hash = Hash::new();
    for op in ops {
        hash.update(input(op));
    }
    hash.finalize()
}

fn input(op: &Op) -> String {
    let mut text = String::new();
    match op {
        Op::Create { path, data, acl, mode, ttl } => {
            let opcode = match mode {
                mode if mode.is_ttl() => 21,
                CreateMode::Container => 19,
                _ => 1,
            };
            begin(&mut text, path, opcode);
            buffer(&mut text, data);
            acls(&mut text, acl);
            push(&mut text, format_args!(",{}", mode.flags()));
            if let Some(ttl) = ttl.filter(|_| mode.is_ttl()) {
                push(&mut text, format_args!(",{}", millis(ttl)));
            }
        }
        Op::Delete { path, version } => {
            begin(&mut text, path, 2);
            push(&mut text, format_args!(",{}", number(*version)));
        }
        Op::SetData { path, data, version } => {
            begin(&mut text, path, 5);
            buffer(&mut text, data);
            push(&mut text, format_args!(",{}", number(*version)));
        }
        Op::Check { path, version } => {
            begin(&mut text, path, 13);
            push(&mut text, format_args!(",{}", number(*version)));
        }
        // A transaction has no other operations.
        _ => {}
    }
    text.push('\n');
    text
}

/// The path, the opcode, and the path again, which every record begins with.
fn begin(text: &mut String, path: &str, opcode: u8) {
    text.push_str(path);
    push(text, format_args!("{opcode}"));
    string(text, path);
}

/// A string of a record (`ToStringOutputArchive.escapeString`).
fn string(text: &mut String, value: &str) {
    text.push('\'');
    for symbol in value.chars() {
        match symbol {
            '\0' => text.push_str("%00"),
            '\n' => text.push_str("%0A"),
            '\r' => text.push_str("%0D"),
            ',' => text.push_str("%2C"),
            '}' => text.push_str("%7D"),
            '%' => text.push_str("%25"),
            symbol => text.push(symbol),
        }
    }
}

/// The data of a record (`escapeBuffer`): Java extends the sign of each byte, and does not pad. It
/// writes null data as it writes empty data.
fn buffer(text: &mut String, data: &Option<Bytes>) {
    let data = data.as_deref().unwrap_or_default();
    text.push(',');
    if !data.is_empty() {
        text.push('#');
    }
    for byte in data {
        push(text, format_args!("{:x}", i32::from(byte.cast_signed())));
    }
}

fn acls(text: &mut String, acls: &[Acl]) {
    text.push_str(",v{");
    for (index, acl) in acls.iter().enumerate() {
        push(text, format_args!("{}s{{{},s{{", if index > 0 { "," } else { "" }, bits(acl)));
        string(text, &acl.scheme);
        text.push(',');
        string(text, &acl.id);
        text.push_str("}}");
    }
    text.push('}');
}

fn push(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part).expect("invariant: a string takes all text");
}

const fn bits(acl: &Acl) -> i32 {
    acl.permissions.bits()
}

const fn number(version: Version) -> i32 {
    match version {
        Version::Any => -1,
        Version::Exactly(version) => version,
    }
}

/// Returns the checksum that different operations do not share: each field has its length in front.
pub(super) fn sound(ops: &[Op]) -> Digest {
    let mut fields = DigestFields::new(b"operations");
    for op in ops {
        match op {
            Op::Create { path, data, acl, mode, ttl } => {
                let (verb, data) = named(b"create", b"create null", data);
                fields.add(verb).add(path.as_bytes()).add(data).number(mode.flags().into());
                fields.number(ttl.map_or(-1, millis)).number(acl.len() as i64);
                for acl in acl {
                    fields.number(bits(acl).into());
                    fields.add(acl.scheme.as_bytes()).add(acl.id.as_bytes());
                }
            }
            Op::Delete { path, version } => {
                fields.add(b"delete").add(path.as_bytes()).number(number(*version).into());
            }
            Op::SetData { path, data, version } => {
                let (verb, data) = named(b"set", b"set null", data);
                fields.add(verb).add(path.as_bytes()).add(data).number(number(*version).into());
            }
            Op::Check { path, version } => {
                fields.add(b"check").add(path.as_bytes()).number(number(*version).into());
            }
            _ => {}
        }
    }
    fields.finish()
}

/// Returns the name of an operation, by its data, and these data.
fn named<'a>(name: &'a [u8], of_null: &'a [u8], data: &'a Option<Bytes>) -> (&'a [u8], &'a [u8]) {
    data.as_deref().map_or((of_null, &[]), |data| (name, data))
}

/// Returns the checksum of a computed migration, in both places.
pub(super) fn computed(name: &str, revision: &str) -> Digest {
    let mut fields = DigestFields::new(b"computed");
    fields.add(name.as_bytes()).add(revision.as_bytes());
    fields.finish()
}

/// Fields with their lengths.
struct DigestFields(Hash);

impl DigestFields {
    fn new(kind: &[u8]) -> Self {
        let mut fields = Self(Hash::new());
        fields.add(OURS).add(kind);
        fields
    }

    fn add(&mut self, field: &[u8]) -> &mut Self {
        self.0.update((field.len() as u64).to_be_bytes());
        self.0.update(field);
        self
    }

    fn number(&mut self, number: i64) -> &mut Self {
        self.add(&number.to_be_bytes())
    }

    fn finish(self) -> Digest {
        self.0.finalize()
    }
}

/// Returns the hexadecimal digits of a checksum.
pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        push(&mut text, format_args!("{byte:02x}"));
        text
    })
}

/// Returns the checksum with these hexadecimal digits.
pub(super) fn from_hex(text: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() || !text.is_ascii() {
        return None;
    }
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_curator::Permissions;

    use super::*;

    fn create(path: &str, data: &'static [u8], mode: CreateMode) -> Op {
        let (path, data) = (path.to_owned(), Some(Bytes::from_static(data)));
        let acl = Acl::open_unsafe();
        Op::Create { path, data, acl, mode, ttl: None }
    }

    fn set(data: &'static [u8]) -> Op {
        Op::SetData { path: "/a".into(), data: Some(data.into()), version: Version::Any }
    }

    /// The checksums were confirmed with the request records of Apache ZooKeeper 3.8 on Java 17.
    #[test]
    fn digest_of_each_operation_is_javas() {
        let persistent = CreateMode::Persistent;
        let ttl = Op::Create {
            path: "/t".into(),
            data: Some(Bytes::from_static(b"x")),
            acl: Acl::open_unsafe(),
            mode: CreateMode::PersistentWithTtl,
            ttl: Some(Duration::from_secs(5)),
        };
        let delete = Op::Delete { path: "/b".into(), version: Version::Any };
        let check = Op::Check { path: "/a".into(), version: 3.into() };
        let hello = create("/a", b"hello", persistent);
        for (ops, expected) in [
            (
                vec![hello.clone()],
                "6d0cc97b7bfec6592424e55f98b7652e6e2d92d74f3726176bed2db45ce4a70c",
            ),
            (
                vec![create("/a", b"", persistent)],
                "b11964ba95e4e9ce2933c8d7d66221bda1437ca0b954f7eb1be439db490f89b4",
            ),
            (
                vec![set(b"\xc3\x05")],
                "5a43662f1e9eb26e96163967cca7f7a241b9c63dfef8fa877c1410f9dea24978",
            ),
            (
                vec![hello, delete],
                "914ebde5cd55836513b644a8b88a19ed142a1f58d77423e46cc65b4002008a28",
            ),
            (
                vec![create("/c", b"x", CreateMode::Container)],
                "a7c9dbe1e6f295286aa406ec9b7696d678cccea9daba4c56d893d028e324f589",
            ),
            (vec![ttl], "8527b25fefadabe39c342f3aaa0f58a2f126977e41ab150d83d028a8993374ba"),
            (
                vec![create("/s-", b"x", CreateMode::PersistentSequential)],
                "78c56b221ee8dce1e98c71368065540610bedccc035d0f2347c876c74d9a7fee",
            ),
            (vec![check], "995862e86aa86db6aed40d211035a7d6d8d20bff7ab6e3dd9e07ef646b1bfded"),
            (
                vec![create("/a,b}%", b"x", persistent)],
                "a1e75831a8657553c712f94399509e82b06644c99b5b0b4f01712ecade635fe2",
            ),
        ] {
            let inputs: Vec<_> = ops.iter().map(input).collect();
            assert_eq!(hex(&curator(&ops)), expected, "{inputs:?}");
        }
    }

    #[test]
    fn records_have_the_text_of_javas_records() {
        let mut op = create("/a", b"hello", CreateMode::Persistent);
        assert_eq!(input(&op), "/a1'/a,#68656c6c6f,v{s{31,s{'world,'anyone}}},0\n");
        if let Op::Create { acl, .. } = &mut op {
            acl.push(Acl::new(Permissions::READ, "digest", "u:h"));
        }
        let two = "/a1'/a,#68656c6c6f,v{s{31,s{'world,'anyone}},s{1,s{'digest,'u:h}}},0\n";
        assert_eq!(input(&op), two);
        assert_eq!(input(&set(b"\xc3\x05")), "/a5'/a,#ffffffc35,-1\n");
        let odd = Op::Delete { path: "/\0\n\r".into(), version: 7.into() };
        assert_eq!(input(&odd), "/\0\n\r2'/%00%0A%0D,7\n");
    }

    /// Java writes the bytes 01 23 and 12 03 as the same digits.
    #[test]
    fn unpadded_hex_collides_in_javas_digest_and_not_in_ours() {
        let (one, other) = ([set(b"\x01\x23")], [set(b"\x12\x03")]);
        let java = "7c2e7aa9a59e9fc29d773ead6c3842e4de985b733b93c2a3dc65f4028b12c29d";
        assert_eq!([hex(&curator(&one)), hex(&curator(&other))], [java, java]);
        assert_ne!(sound(&one), sound(&other));
    }

    #[test]
    fn every_field_is_in_the_sound_digest() {
        let ttl = |ttl| Op::Create {
            path: "/a".into(),
            data: Some(Bytes::new()),
            acl: Acl::read_unsafe(),
            mode: CreateMode::PersistentWithTtl,
            ttl: Some(Duration::from_millis(ttl)),
        };
        let delete = |version: i32| Op::Delete { path: "/a".into(), version: version.into() };
        let check = |version: i32| Op::Check { path: "/a".into(), version: version.into() };
        let mut digests: Vec<_> = [
            vec![],
            vec![set(b"")],
            vec![set(b""), set(b"")],
            vec![set(b"x")],
            vec![Op::SetData { path: "/a".into(), data: None, version: Version::Any }],
            vec![create("/a", b"", CreateMode::Persistent)],
            vec![create("/a", b"", CreateMode::Container)],
            vec![create("/ab", b"", CreateMode::Persistent)],
            vec![create("/a", b"b", CreateMode::Persistent)],
            vec![ttl(1)],
            vec![ttl(2)],
            vec![delete(1)],
            vec![delete(2)],
            vec![check(1)],
            vec![check(2)],
        ]
        .iter()
        .map(|ops| sound(ops))
        .chain([computed("a", "b"), computed("ab", ""), computed("", "ab")])
        .collect();
        digests.sort_unstable();
        let count = digests.len();
        digests.dedup();
        assert_eq!(digests.len(), count);
    }

    #[test]
    fn a_digest_is_read_as_it_is_printed() {
        let digest = sound(&[]);
        assert_eq!(from_hex(&hex(&digest)), Some(digest));
        for text in ["", "00", &"g".repeat(64), &"ä".repeat(32)] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }
}
