use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

/// A value with a fixed wire form.
pub trait Record: Sized {
    /// The minimum number of bytes of an encoded value. It limits the element count of a vector
    /// before memory is allocated.
    const MIN_SIZE: usize;

    /// Appends the wire form.
    fn encode(&self, out: &mut Encoder);

    /// Reads the wire form. `what` names the field for the error.
    ///
    /// # Errors
    /// Fails with a [`DecodeError`] if the input is truncated or contains an invalid length or
    /// value.
    fn decode(input: &mut Decoder, what: &'static str) -> Result<Self, DecodeError>;
}

/// Writes jute primitives: big-endian integers, length-prefixed strings, buffers and vectors.
#[derive(Debug, Default)]
pub struct Encoder {
    buf: BytesMut,
}

impl Encoder {
    /// Returns an empty encoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty encoder with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { buf: BytesMut::with_capacity(capacity) }
    }

    /// Returns the bytes written so far.
    #[must_use]
    pub fn finish(self) -> Bytes {
        self.buf.freeze()
    }

    /// Returns the bytes written so far.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.buf
    }

    /// Returns the number of bytes for which memory is allocated.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// Discards everything after the first `length` bytes, and keeps the memory.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        self.buf.truncate(length);
    }

    /// Returns the number of bytes written.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Returns `true` if nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Writes a boolean as one byte.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.buf.put_u8(value.into());
    }

    /// Writes a 32-bit integer.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.buf.put_i32(value);
    }

    /// Writes a 64-bit integer.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.buf.put_i64(value);
    }

    /// Writes a length-prefixed UTF-8 string.
    #[inline]
    pub fn string(&mut self, value: &str) {
        self.length(value.len());
        self.buf.put_slice(value.as_bytes());
    }

    /// Writes two strings as one length-prefixed string.
    #[inline]
    pub fn joined(&mut self, first: &str, second: &str) {
        self.length(first.len().saturating_add(second.len()));
        self.buf.put_slice(first.as_bytes());
        self.buf.put_slice(second.as_bytes());
    }

    /// Writes a length-prefixed buffer. `None` is Java's `null`, with length -1.
    #[inline]
    pub fn buffer(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.buf.put_i32(-1),
            Some(bytes) => {
                self.length(bytes.len());
                self.buf.put_slice(bytes);
            }
        }
    }

    /// Writes a vector of records.
    pub fn vector<T: Record>(&mut self, values: &[T]) {
        self.length(values.len());
        for value in values {
            value.encode(self);
        }
    }

    /// Converts a length to the wire's 32 bits. A longer value cannot be sent: it is written as
    /// `i32::MAX`, which every peer refuses. Callers check sizes long before
    /// ([`crate::DEFAULT_MAX_FRAME`]).
    #[inline]
    fn length(&mut self, len: usize) {
        self.buf.put_i32(i32::try_from(len).unwrap_or(i32::MAX));
    }
}

/// Buffers below this length, in bytes, are copied out of the input. A slice would keep the whole
/// input alive, and would cost more than the copy.
const COPIED_BELOW: usize = 16 * 1024;

/// Reads jute primitives out of one frame.
#[derive(Debug, Clone)]
pub struct Decoder {
    buf: Bytes,
    /// The rest of the frame is `buf[at..end]`. Other frames may follow ([`crate::frame::Frames`]).
    at: usize,
    end: usize,
}

impl Decoder {
    /// Returns a decoder of `frame`. Long buffers share its memory, short ones are copied.
    #[must_use]
    pub const fn new(frame: Bytes) -> Self {
        let end = frame.len();
        Self { buf: frame, at: 0, end }
    }

    /// Returns a decoder of consecutive frames with length prefixes, before the first frame.
    pub(crate) const fn of_frames(frames: Bytes) -> Self {
        Self { buf: frames, at: 0, end: 0 }
    }

    /// Skips the rest of the current frame, and enters the next one, which is complete.
    #[inline]
    pub(crate) fn next_frame(&mut self) -> bool {
        self.at = self.end;
        let Some(prefix) = self.buf[self.at..].first_chunk::<4>() else {
            return false;
        };
        let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        self.at += 4;
        self.end = self.at.saturating_add(length).min(self.buf.len());
        true
    }

    /// Returns the number of remaining bytes. Newer peers append fields to records; ignore the
    /// rest.
    #[must_use]
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.end - self.at
    }

    /// Reads a one-byte boolean.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        self.array::<1>(what).map(|[byte]| byte != 0)
    }

    /// Reads a 32-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn i32(&mut self, what: &'static str) -> Result<i32, DecodeError> {
        self.array(what).map(i32::from_be_bytes)
    }

    /// Reads a 64-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn i64(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// Reads a string. Java's `null` (length -1) is the empty string.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::NegativeLength`] or [`DecodeError::InvalidUtf8`].
    #[inline]
    pub fn string(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let Some(length) = self.length(what)? else {
            return Ok(String::new());
        };
        let place = self.take(what, length)?;
        let text = std::str::from_utf8(&self.buf[place]).map(str::to_owned);
        text.map_err(|_| DecodeError::InvalidUtf8 { what })
    }

    /// Reads a buffer. `None` is Java's `null` (length -1).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] or [`DecodeError::NegativeLength`].
    #[inline]
    pub fn buffer(&mut self, what: &'static str) -> Result<Option<Bytes>, DecodeError> {
        let Some(length) = self.length(what)? else {
            return Ok(None);
        };
        let place = self.take(what, length)?;
        Ok(Some(if length >= COPIED_BELOW {
            self.buf.slice(place)
        } else {
            Bytes::copy_from_slice(&self.buf[place])
        }))
    }

    /// Reads a vector; Java's `null` (length -1) is the empty vector.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the count cannot fit into the rest of the frame (checked
    /// before any allocation), or the first error of an element.
    pub fn vector<T: Record>(&mut self, what: &'static str) -> Result<Vec<T>, DecodeError> {
        let count = self.length(what)?.unwrap_or(0);
        self.need(what, count.saturating_mul(T::MIN_SIZE.max(1)))?;
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(T::decode(self, what)?);
        }
        Ok(values)
    }

    #[inline]
    fn length(&mut self, what: &'static str) -> Result<Option<usize>, DecodeError> {
        match self.i32(what)? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => Err(DecodeError::NegativeLength { what, length }),
            },
        }
    }

    #[inline]
    const fn need(&self, what: &'static str, needed: usize) -> Result<(), DecodeError> {
        if self.remaining() < needed {
            return Err(DecodeError::Truncated { what, needed, remaining: self.remaining() });
        }
        Ok(())
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        match self.buf[self.at..self.end].first_chunk() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(DecodeError::Truncated { what, needed: N, remaining: self.remaining() }),
        }
    }

    /// Takes bytes from the rest of the frame, and returns their range.
    #[inline]
    const fn take(
        &mut self,
        what: &'static str,
        needed: usize,
    ) -> Result<Range<usize>, DecodeError> {
        if let Err(error) = self.need(what, needed) {
            return Err(error);
        }
        let start = self.at;
        self.at += needed;
        Ok(start..self.at)
    }
}

macro_rules! primitive {
    ($type:ty, $min:literal, $method:ident, |$value:ident| $encoded:expr) => {
        impl Record for $type {
            const MIN_SIZE: usize = $min;

            #[inline]
            fn encode(&self, out: &mut Encoder) {
                let $value = self;
                out.$method($encoded);
            }

            #[inline]
            fn decode(input: &mut Decoder, what: &'static str) -> Result<Self, DecodeError> {
                input.$method(what)
            }
        }
    };
}

primitive!(bool, 1, bool, |value| *value);
primitive!(i32, 4, i32, |value| *value);
primitive!(i64, 8, i64, |value| *value);
primitive!(String, 4, string, |value| value);
primitive!(Option<Bytes>, 4, buffer, |value| value.as_deref());

impl<T: Record> Record for Vec<T> {
    const MIN_SIZE: usize = 4;

    fn encode(&self, out: &mut Encoder) {
        out.vector(self);
    }

    fn decode(input: &mut Decoder, what: &'static str) -> Result<Self, DecodeError> {
        input.vector(what)
    }
}

/// The reason why bytes are not a valid frame or record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The field needs more bytes than remain in the frame.
    #[error("{what} needs {needed} bytes but {remaining} are left")]
    Truncated {
        /// The field.
        what: &'static str,
        /// The number of bytes it needs.
        needed: usize,
        /// The number of bytes left.
        remaining: usize,
    },
    /// A length is negative and is not -1, which is Java's `null`.
    #[error("{what} has length {length}")]
    NegativeLength {
        /// The field.
        what: &'static str,
        /// The length that was read.
        length: i32,
    },
    /// A frame is longer than the limit.
    #[error("frame of {length} bytes is over the limit of {limit}")]
    FrameTooLong {
        /// The announced length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A string is not UTF-8.
    #[error("{what} is not valid UTF-8")]
    InvalidUtf8 {
        /// The field.
        what: &'static str,
    },
    /// A number is not valid for its field.
    #[error("{value} is not a valid {what}")]
    InvalidValue {
        /// The field.
        what: &'static str,
        /// The value that was read.
        value: i32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_buffers_do_not_keep_the_input_alive() {
        for (length, shared) in
            [(0, false), (5, false), (COPIED_BELOW - 1, false), (COPIED_BELOW, true)]
        {
            let mut frame = Encoder::new();
            frame.buffer(Some(&vec![7; length]));
            let frame = frame.finish();
            let data = Decoder::new(frame.clone()).buffer("data").unwrap().unwrap();
            assert_eq!(data, vec![7; length]);
            assert_eq!(
                length > 0 && frame.as_ptr_range().contains(&data.as_ptr()),
                shared,
                "{length}"
            );
        }
    }
}
