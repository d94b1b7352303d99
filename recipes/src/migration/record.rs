//! The record of a migration, in addition to Curator's metadata.

use std::fmt::Write as _;

use bytes::Bytes;

use super::digest::{Digest, from_hex, hex};

/// The first line of a record.
const MAGIC: &str = "migration 1";

/// The record of a migration that this library has applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MigrationRecord {
    pub(super) name: String,
    /// The data of its metadata. A record with others belongs to metadata that were deleted.
    pub(super) metadata: Digest,
    /// The sound checksum.
    pub(super) digest: Digest,
    /// The call that has applied it, which no other call shares.
    pub(super) attempt: String,
    /// The label of the process.
    pub(super) by: String,
    /// The version of this crate.
    pub(super) version: String,
}

impl MigrationRecord {
    pub(super) fn encode(&self) -> Bytes {
        let mut text = format!("{MAGIC}\n");
        for (key, value) in [
            ("name", &self.name),
            ("metadata", &hex(&self.metadata)),
            ("digest", &hex(&self.digest)),
            ("attempt", &self.attempt),
            ("by", &self.by),
            ("version", &self.version),
        ] {
            let value = value.replace('%', "%25").replace('\n', "%0A").replace('\r', "%0D");
            writeln!(text, "{key}: {value}").expect("invariant: a string takes all text");
        }
        text.into()
    }

    /// Returns the record with these data. `None` if they are of a later format, or of another
    /// program. Fields of later versions are skipped.
    pub(super) fn decode(data: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(data).ok()?.lines();
        if lines.next() != Some(MAGIC) {
            return None;
        }
        let fields: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
        let field = |key| {
            let (_, value) = fields.iter().find(|(name, _)| *name == key)?;
            Some(value.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%"))
        };
        Some(Self {
            name: field("name")?,
            metadata: from_hex(&field("metadata")?)?,
            digest: from_hex(&field("digest")?)?,
            attempt: field("attempt")?,
            by: field("by")?,
            version: field("version")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let record = MigrationRecord {
            name: "split: 100%\r\nof it".into(),
            metadata: [6; 32],
            digest: [7; 32],
            attempt: "1f0c52a0".into(),
            by: String::new(),
            version: "0.1.0".into(),
        };
        assert_eq!(MigrationRecord::decode(&record.encode()), Some(record.clone()));
        let later = [&record.encode()[..], b"colour: red\n"].concat();
        assert_eq!(MigrationRecord::decode(&later), Some(record));
        for other in [&b""[..], b"migration 2\n", b"migration 1\nname: a\n", b"\xff"] {
            assert_eq!(MigrationRecord::decode(other), None);
        }
    }
}
