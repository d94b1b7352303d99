//! The format of a record of the history.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};

const MAGIC: &str = "change 1";

/// The change of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedValue {
    /// The value before; `None` if there was none.
    pub before: Option<Bytes>,
    /// The value after; `None` if it was removed.
    pub after: Option<Bytes>,
}

/// One applied update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigRecord {
    /// The id of the update: unique.
    pub(super) id: String,
    pub(super) keys: BTreeMap<String, ChangedValue>,
}

impl ConfigRecord {
    /// The data of the node:
    /// ```text
    /// change 1
    /// id 5b0c…                         whose it is
    /// 2 4 db.port                      lengths before and after, `-` for none; the key
    /// 805432                           the data before and after, and the end of the line
    /// ```
    pub(super) fn encode(&self) -> Bytes {
        let mut data = BytesMut::new();
        data.put(format!("{MAGIC}\nid {}\n", self.id).as_bytes());
        let length = |value: &Option<Bytes>| {
            value.as_ref().map_or_else(|| "-".to_owned(), |data| data.len().to_string())
        };
        for (key, diff) in &self.keys {
            data.put(
                format!("{} {} {key}\n", length(&diff.before), length(&diff.after)).as_bytes(),
            );
            for value in [&diff.before, &diff.after].into_iter().flatten() {
                data.put(&value[..]);
            }
            data.put_u8(b'\n');
        }
        data.freeze()
    }

    /// `None` when these are not the data of one.
    pub(super) fn parse(data: &Bytes) -> Option<Self> {
        let mut rest = data.clone();
        if line(&mut rest)? != MAGIC {
            return None;
        }
        let id = line(&mut rest)?.strip_prefix("id ")?.to_owned();
        let mut keys = BTreeMap::new();
        while !rest.is_empty() {
            let head = line(&mut rest)?;
            let mut parts = head.splitn(3, ' ');
            let (before, after, key) = (parts.next()?, parts.next()?, parts.next()?);
            let diff =
                ChangedValue { before: value(&mut rest, before)?, after: value(&mut rest, after)? };
            if !line(&mut rest)?.is_empty() || keys.insert(key.to_owned(), diff).is_some() {
                return None;
            }
        }
        Some(Self { id, keys })
    }
}

/// Up to the end of a line, which is taken away.
fn line(rest: &mut Bytes) -> Option<String> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = rest.split_to(end + 1);
    std::str::from_utf8(&line[..end]).ok().map(str::to_owned)
}

fn value(rest: &mut Bytes, length: &str) -> Option<Option<Bytes>> {
    if length == "-" {
        return Some(None);
    }
    let length = length.parse().ok()?;
    (length <= rest.len()).then(|| Some(rest.split_to(length)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_data_are_text_that_people_can_read() {
        let diff = |before: Option<&'static str>, after: Option<&'static str>| ChangedValue {
            before: before.map(Bytes::from),
            after: after.map(Bytes::from),
        };
        let keys = [
            ("db.port".to_owned(), diff(Some("80"), Some("5432"))),
            ("gone".to_owned(), diff(Some(""), None)),
            ("new".to_owned(), diff(None, Some("a\nb"))),
        ];
        let record = ConfigRecord { id: "me".into(), keys: keys.into() };
        let data = record.encode();
        assert_eq!(data, "change 1\nid me\n2 4 db.port\n805432\n0 - gone\n\n- 3 new\na\nb\n");
        assert_eq!(ConfigRecord::parse(&data), Some(record));
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read(
            keys in prop::collection::btree_map(
                "[^/\\p{C}\u{2028}\u{2029}]{1,9}",
                any::<(Option<Vec<u8>>, Option<Vec<u8>>)>(),
                0..5,
            ),
        ) {
            let diff = |(before, after): (Option<Vec<u8>>, Option<Vec<u8>>)| {
                ChangedValue { before: before.map(Bytes::from), after: after.map(Bytes::from) }
            };
            let keys = keys.into_iter().map(|(key, values)| (key, diff(values))).collect();
            let record = ConfigRecord { id: "guid".into(), keys };
            let data = record.encode();
            prop_assert_eq!(ConfigRecord::parse(&data), Some(record));
            // Nothing less is accepted, unless it ends with a whole key.
            for length in 0..data.len() {
                let shorter = data.slice(..length);
                if let Some(part) = ConfigRecord::parse(&shorter) {
                    prop_assert_eq!(part.encode(), shorter);
                }
            }
        }

        #[test]
        fn any_bytes_are_a_record_or_none(mut data in prop::collection::vec(any::<u8>(), 0..60), valid in any::<bool>()) {
            if valid {
                data.splice(..0, *b"change 1\nid x\n9 - ");
            }
            drop(ConfigRecord::parse(&Bytes::from(data)));
        }
    }
}
