//! A reader of jute's primitives that borrows from its input.
//!
//! The decoder of `zk-curator-proto` copies each string and each short buffer. Logs contain
//! millions of them, and most are only compared with a filter.

use zk_curator_proto::DecodeError;

/// Reads jute's primitives from the front of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes that were not read yet.
    pub(super) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        self.array::<1>(what).map(|[byte]| byte != 0)
    }

    pub(super) fn i32(&mut self, what: &'static str) -> Result<i32, DecodeError> {
        self.array(what).map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// Reads a buffer. `None` is Java's `null`, with length -1.
    pub(super) fn buffer(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.i32(what)? {
            -1 => Ok(None),
            length => {
                let Ok(needed) = usize::try_from(length) else {
                    return Err(DecodeError::NegativeLength { what, length });
                };
                self.take(needed, what).map(Some)
            }
        }
    }

    /// Reads a string. Java's `null` is the empty string.
    pub(super) fn str(&mut self, what: &'static str) -> Result<&'a str, DecodeError> {
        let bytes = self.buffer(what)?.unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| DecodeError::InvalidUtf8 { what })
    }

    /// Reads the number of elements of a vector. `None` is Java's `null`.
    ///
    /// Fails if elements of `min_size` bytes do not fit into the rest.
    pub(super) fn count(
        &mut self,
        min_size: usize,
        what: &'static str,
    ) -> Result<Option<usize>, DecodeError> {
        let length = self.i32(what)?;
        if length == -1 {
            return Ok(None);
        }
        let Ok(count) = usize::try_from(length) else {
            return Err(DecodeError::NegativeLength { what, length });
        };
        let (needed, remaining) = (count.saturating_mul(min_size), self.rest.len());
        if needed > remaining {
            return Err(DecodeError::Truncated { what, needed, remaining });
        }
        Ok(Some(count))
    }

    pub(super) fn take(
        &mut self,
        needed: usize,
        what: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(needed) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(DecodeError::Truncated { what, needed, remaining: self.rest.len() }),
        }
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(DecodeError::Truncated { what, needed: N, remaining: self.rest.len() }),
        }
    }
}

/// Returns a string that Java wrote.
///
/// ZooKeeper writes each half of a surrogate pair as a sequence of three bytes, which is not UTF-8.
/// The path of a node cannot contain these pairs, but the identity in an ACL can.
pub(super) fn java_string(bytes: &[u8], what: &'static str) -> Result<String, DecodeError> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(text.to_owned());
    }
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        if let [0xed, high @ 0xa0..=0xaf, a, 0xed, low @ 0xb0..=0xbf, b, after @ ..] = rest {
            let half = |one: u8, other: u8| (u32::from(one & 0x0f) << 6) | u32::from(other & 0x3f);
            let scalar = 0x1_0000 + ((half(*high, *a) << 10) | half(*low, *b));
            let Some(character) = char::from_u32(scalar) else {
                return Err(DecodeError::InvalidUtf8 { what });
            };
            text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = after;
        } else {
            text.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(text).map_err(|_| DecodeError::InvalidUtf8 { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogate_pairs_of_java_become_one_character() {
        let java = [b'a', 0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80, b'z'];
        assert_eq!(java_string(&java, "id").unwrap(), "a\u{1f600}z");
        assert_eq!(java_string("ä".as_bytes(), "id").unwrap(), "ä");
        assert!(java_string(&[0xed, 0xa0, 0xbd, b'z'], "id").is_err());
        assert!(java_string(&[0xff], "id").is_err());
    }

    #[test]
    fn lengths_beyond_the_input_are_errors() {
        let mut input = Cursor::new(&[0x7f, 0xff, 0xff, 0xff, 1, 2]);
        assert!(matches!(
            input.buffer("data"),
            Err(DecodeError::Truncated { needed: 0x7fff_ffff, remaining: 2, .. })
        ));
        let mut input = Cursor::new(&[0xff, 0xff, 0xff, 0xfe]);
        assert!(matches!(
            input.buffer("data"),
            Err(DecodeError::NegativeLength { length: -2, .. })
        ));
        let mut input = Cursor::new(&[0, 0, 0, 3, 1, 2]);
        assert!(matches!(input.count(1, "acl"), Err(DecodeError::Truncated { needed: 3, .. })));
    }
}
