//! The data that Apache Curator's queues write into the node of an item (`ItemSerializer`).
//!
//! ```text
//! 00 01 00 01                          version
//! 01 <length: i32> <length bytes>      an item, repeated
//! 02                                   the end
//! ```
//! Numbers are big-endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};

const VERSION: u32 = 0x0001_0001;
const ITEM: u8 = 0x01;
const END: u8 = 0x02;

/// The reason why the data of a node are not items of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptItem {
    /// They do not begin with the known version.
    #[error("not the version of the format")]
    Version,
    /// They end too early.
    #[error("ends too early")]
    Truncated,
    /// They contain an unexpected byte in place of an item or the end.
    #[error("neither an item nor the end at byte {at}")]
    Opcode {
        /// The position, from zero.
        at: usize,
    },
    /// They cannot be decompressed, although the framework compresses.
    #[error("cannot be decompressed")]
    Compression,
    /// An item has a negative length.
    #[error("a negative length at byte {at}")]
    Length {
        /// The position, from zero.
        at: usize,
    },
}

/// Returns the data of a node with these items; `None` if one is longer than the format allows,
/// 2^31 - 1 bytes.
pub(crate) fn encode(items: &[Bytes]) -> Option<Bytes> {
    let size = items.iter().map(|item| 5 + item.len()).sum::<usize>();
    let mut data = BytesMut::with_capacity(size + 5);
    data.put_u32(VERSION);
    for item in items {
        data.put_u8(ITEM);
        data.put_i32(i32::try_from(item.len()).ok()?);
        data.put_slice(item);
    }
    data.put_u8(END);
    Some(data.freeze())
}

/// Returns the items in the data of a node; they share its memory. Bytes after the end are ignored,
/// as by Curator.
pub(crate) fn decode(data: &Bytes) -> Result<Vec<Bytes>, CorruptItem> {
    let mut rest = data.clone();
    if rest.try_get_u32().map_err(|_| CorruptItem::Truncated)? != VERSION {
        return Err(CorruptItem::Version);
    }
    let mut items = Vec::new();
    loop {
        let at = data.len() - rest.len();
        match rest.try_get_u8() {
            Ok(ITEM) => {}
            Ok(END) => return Ok(items),
            Ok(_) => return Err(CorruptItem::Opcode { at }),
            Err(_) => return Err(CorruptItem::Truncated),
        }
        let length = rest.try_get_i32().map_err(|_| CorruptItem::Truncated)?;
        let length = usize::try_from(length).map_err(|_| CorruptItem::Length { at: at + 1 })?;
        if length > rest.len() {
            return Err(CorruptItem::Truncated);
        }
        items.push(rest.split_to(length));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_item_has_the_bytes_that_curator_writes() {
        let data = encode(&[Bytes::from_static(b"hello")]).unwrap();
        assert_eq!(data[..], b"\x00\x01\x00\x01\x01\x00\x00\x00\x05hello\x02"[..]);
        assert_eq!(decode(&data).unwrap(), [Bytes::from_static(b"hello")]);
        assert_eq!(encode(&[]).unwrap()[..], [0, 1, 0, 1, 2]);
    }

    #[test]
    fn what_is_corrupt_is_named() {
        let decode = |data: &'static [u8]| decode(&Bytes::from_static(data)).unwrap_err();
        assert_eq!(decode(b""), CorruptItem::Truncated);
        assert_eq!(decode(b"10.0.0.1"), CorruptItem::Version);
        assert_eq!(decode(b"\x00\x01\x00\x01"), CorruptItem::Truncated);
        assert_eq!(decode(b"\x00\x01\x00\x01\x03"), CorruptItem::Opcode { at: 4 });
        assert_eq!(decode(b"\x00\x01\x00\x01\x01\xff\xff\xff\xff"), CorruptItem::Length { at: 5 });
        assert_eq!(decode(b"\x00\x01\x00\x01\x01\x7f\xff\xff\xff\x02"), CorruptItem::Truncated);
    }

    #[test]
    fn what_follows_upon_the_end_is_ignored() {
        assert_eq!(
            decode(&Bytes::from_static(b"\x00\x01\x00\x01\x02more")).unwrap(),
            Vec::<Bytes>::new()
        );
    }

    proptest! {
        #[test]
        fn items_come_back_as_they_went(items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20)) {
            let items: Vec<_> = items.into_iter().map(Bytes::from).collect();
            let data = encode(&items).unwrap();
            prop_assert_eq!(decode(&data).unwrap(), items);
            // Nothing less is accepted.
            for length in 0..data.len() {
                prop_assert_eq!(decode(&data.slice(..length)), Err(CorruptItem::Truncated));
            }
        }

        #[test]
        fn any_bytes_are_items_or_corrupt(mut data in prop::collection::vec(any::<u8>(), 0..200), valid in any::<bool>()) {
            if valid {
                data.splice(..0, VERSION.to_be_bytes());
            }
            let data = Bytes::from(data);
            if let Ok(items) = decode(&data) {
                prop_assert!(items.iter().map(|item| item.len() + 5).sum::<usize>() + 5 <= data.len());
            }
        }
    }
}
