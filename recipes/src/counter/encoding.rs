//! The bytes of a number: pure.

use bytes::Bytes;

/// The format of a number in the data of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// 8 bytes, big-endian, two's complement: Curator's `DistributedAtomicLong`. No data is the
    /// initial value. More than 8 bytes are read as Curator reads them, by the first 8; only
    /// [`set`](super::Counter::set) replaces them.
    I64Be,
    /// 4 bytes, big-endian, two's complement: Curator's `DistributedAtomicInteger` and
    /// `SharedCount`, and kazoo's `Counter` with `support_curator=True`. No data is the initial
    /// value.
    I32Be,
    /// Decimal digits: kazoo's `Counter` of integers. No data is the initial value.
    Text,
    /// A decimal fraction: kazoo's `Counter` of floats, such as `5.0` or `1e+16`. Only whole
    /// numbers from -2^53 to 2^53, which floats hold exactly; another one is
    /// [`Undecodable`](super::Error::Undecodable). No data is the initial value.
    TextFloat,
}

/// Floats hold all whole numbers up to this one.
const WHOLE: i64 = 1 << 53;

impl Encoding {
    /// The least and the greatest number.
    pub(super) const fn range(self) -> (i64, i64) {
        match self {
            Self::I64Be | Self::Text => (i64::MIN, i64::MAX),
            Self::I32Be => (i32::MIN as i64, i32::MAX as i64),
            Self::TextFloat => (-WHOLE, WHOLE),
        }
    }

    pub(super) fn encode(self, value: i64) -> Option<Bytes> {
        Some(match self {
            Self::I64Be => Bytes::copy_from_slice(&value.to_be_bytes()),
            Self::I32Be => Bytes::copy_from_slice(&i32::try_from(value).ok()?.to_be_bytes()),
            Self::Text => value.to_string().into(),
            Self::TextFloat if (-WHOLE..=WHOLE).contains(&value) => format!("{value}.0").into(),
            Self::TextFloat => return None,
        })
    }

    /// The number of data that are not empty.
    pub(super) fn decode(self, data: &[u8]) -> Option<i64> {
        match self {
            Self::I64Be => data.first_chunk().map(|bytes| i64::from_be_bytes(*bytes)),
            Self::I32Be => data.try_into().ok().map(|bytes| i64::from(i32::from_be_bytes(bytes))),
            Self::Text => std::str::from_utf8(data).ok()?.trim().parse().ok(),
            Self::TextFloat => whole(std::str::from_utf8(data).ok()?.trim().parse().ok()?),
        }
    }

    /// Returns `true` if the data are longer than the number that they are read as.
    pub(super) const fn is_longer(self, data: &[u8]) -> bool {
        matches!(self, Self::I64Be) && data.len() > 8
    }
}

/// The number, if it is whole and small enough to be exact.
fn whole(value: f64) -> Option<i64> {
    #[expect(clippy::cast_precision_loss, reason = "2^53 is a float")]
    let is_exact = value.fract() == 0.0 && value.abs() <= WHOLE as f64;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and in the range")]
    is_exact.then_some(value as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for encoding in [Encoding::I64Be, Encoding::I32Be, Encoding::Text, Encoding::TextFloat] {
            let (least, greatest) = encoding.range();
            for value in [0, 1, -1, 255, least, greatest] {
                let data = encoding.encode(value).unwrap();
                assert_eq!(encoding.decode(&data), Some(value), "{encoding:?}");
            }
        }
        assert_eq!(Encoding::I32Be.encode(1 << 40), None);
        assert_eq!(Encoding::I64Be.encode(258).unwrap()[..], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(Encoding::Text.encode(-3).unwrap(), "-3");
        assert_eq!(Encoding::TextFloat.encode(-3).unwrap(), "-3.0");
        assert_eq!(Encoding::TextFloat.encode(WHOLE + 1), None);
        // As Python writes them.
        for (data, value) in [("5.0", 5), ("1e+15", 1_000_000_000_000_000), ("-0.0", 0), ("7", 7)] {
            assert_eq!(Encoding::TextFloat.decode(data.as_bytes()), Some(value), "{data}");
        }
    }

    #[test]
    fn other_data_are_no_numbers() {
        // Curator reads the first eight bytes of more.
        let longer = [0, 0, 0, 0, 0, 0, 0, 7, 9];
        assert_eq!(Encoding::I64Be.decode(&longer), Some(7));
        assert!(Encoding::I64Be.is_longer(&longer) && !Encoding::I64Be.is_longer(&longer[..8]));
        for (encoding, data) in [
            (Encoding::I64Be, &[1, 2, 3][..]),
            (Encoding::I32Be, &[0, 0, 0, 0, 7]),
            (Encoding::Text, b"seven"),
            (Encoding::Text, &[0xff]),
            (Encoding::Text, b"5.0"),
            (Encoding::TextFloat, b"5.5"),
            (Encoding::TextFloat, b"1e+17"),
            (Encoding::TextFloat, b"nan"),
        ] {
            assert_eq!(encoding.decode(data), None, "{encoding:?}");
        }
    }
}
