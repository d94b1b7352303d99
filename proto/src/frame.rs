//! Framing: every message on the wire is a four-byte big-endian length followed by that number of
//! bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{DecodeError, Decoder, Encoder};

/// Takes the first complete frame off the front of `buf`, without its length prefix.
///
/// Returns `Ok(None)` if more bytes are needed. Nothing is allocated for a frame before its bytes
/// have arrived, except by the caller that reads them.
///
/// # Errors
/// [`DecodeError::FrameTooLong`] above `limit` bytes, [`DecodeError::NegativeLength`] below zero.
/// After either error the connection cannot be used any more.
pub fn take(buf: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, DecodeError> {
    let Some(prefix) = buf.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = checked_length(*prefix, limit)?;
    if buf.len() < 4 + length {
        return Ok(None);
    }
    buf.advance(4);
    Ok(Some(buf.split_to(length).freeze()))
}

/// All complete frames in the input, to be decoded one after another.
///
/// This is [`take`] for many frames, without a reference count for each.
#[derive(Debug)]
pub struct Frames {
    decoder: Decoder,
}

impl Frames {
    /// Takes all complete frames off the front of `buf`.
    ///
    /// # Errors
    /// The errors of [`take`], for the first frame. The next call finds an invalid later frame.
    pub fn take(buf: &mut BytesMut, limit: usize) -> Result<Self, DecodeError> {
        let mut end = 0;
        while let Some(prefix) = buf[end..].first_chunk::<4>() {
            match checked_length(*prefix, limit) {
                Ok(length) if buf.len() - end - 4 >= length => end += 4 + length,
                Err(error) if end == 0 => return Err(error),
                Ok(_) | Err(_) => break,
            }
        }
        Ok(Self { decoder: Decoder::of_frames(buf.split_to(end).freeze()) })
    }

    /// Returns the contents of the next frame. The unread rest of the previous frame is skipped.
    #[inline]
    pub fn next_frame(&mut self) -> Option<&mut Decoder> {
        self.decoder.next_frame().then_some(&mut self.decoder)
    }
}

fn checked_length(prefix: [u8; 4], limit: usize) -> Result<usize, DecodeError> {
    let announced = i32::from_be_bytes(prefix);
    match usize::try_from(announced) {
        Err(_) => Err(DecodeError::NegativeLength { what: "frame", length: announced }),
        Ok(length) if length > limit => Err(DecodeError::FrameTooLong { length, limit }),
        Ok(length) => Ok(length),
    }
}

/// The usual maximum length of a frame in bytes. This much room is reserved in advance.
const USUAL: usize = 256;

/// Appends a frame whose contents `fill` writes.
pub fn put(out: &mut BytesMut, fill: impl FnOnce(&mut Encoder)) {
    let mut body = Encoder::with_capacity(USUAL);
    fill(&mut body);
    put_parts(out, &[body.as_slice()]);
}

/// Appends a frame whose contents are `parts`, one after another.
#[inline]
pub fn put_parts(out: &mut BytesMut, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.reserve(4 + length);
    out.put_i32(i32::try_from(length).unwrap_or(i32::MAX));
    for part in parts {
        out.put_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_in_any_pieces() {
        let mut wire = BytesMut::new();
        put(&mut wire, |body| body.string("one"));
        put(&mut wire, |body| body.i64(2));
        let mut buf = BytesMut::new();
        let mut frames = Vec::new();
        for byte in wire {
            buf.put_u8(byte);
            frames.extend(take(&mut buf, 100).unwrap());
        }
        assert_eq!(
            frames,
            [Bytes::from_static(b"\0\0\0\x03one"), Bytes::from_static(b"\0\0\0\0\0\0\0\x02")]
        );
        assert!(buf.is_empty());
    }

    #[test]
    fn many_frames_are_read_one_by_one_up_to_their_ends() {
        let mut buf = BytesMut::new();
        put(&mut buf, |body| body.i32(1));
        put(&mut buf, |_| {});
        put(&mut buf, |body| {
            body.i32(3);
            body.string("not read");
        });
        put(&mut buf, |body| body.i32(4));
        let complete = buf.len();
        put(&mut buf, |body| body.string("cut"));
        buf.truncate(buf.len() - 1);
        let rest = buf.len() - complete;
        let mut frames = Frames::take(&mut buf, 100).unwrap();
        assert_eq!(buf.len(), rest);
        let one = frames.next_frame().unwrap();
        assert_eq!(one.i32("one"), Ok(1));
        assert_eq!(
            one.i32("one"),
            Err(DecodeError::Truncated { what: "one", needed: 4, remaining: 0 })
        );
        assert_eq!(frames.next_frame().unwrap().remaining(), 0);
        assert_eq!(frames.next_frame().unwrap().i32("three"), Ok(3));
        assert_eq!(frames.next_frame().unwrap().i32("four"), Ok(4));
        assert!(frames.next_frame().is_none());
        assert!(Frames::take(&mut buf, 100).unwrap().next_frame().is_none());

        // An invalid frame is an error once the frames before it are read.
        let mut buf = BytesMut::new();
        put(&mut buf, |body| body.i32(1));
        put(&mut buf, |body| body.string("longer than the limit"));
        let mut frames = Frames::take(&mut buf, 10).unwrap();
        assert_eq!(frames.next_frame().unwrap().i32("one"), Ok(1));
        assert!(frames.next_frame().is_none());
        assert!(matches!(
            Frames::take(&mut buf, 10),
            Err(DecodeError::FrameTooLong { limit: 10, .. })
        ));
    }

    #[test]
    fn a_hostile_length_is_refused_before_its_bytes_arrive() {
        let mut buf = BytesMut::from(&[0x7f, 0xff, 0xff, 0xff][..]);
        assert_eq!(
            take(&mut buf, 1024),
            Err(DecodeError::FrameTooLong { length: 0x7fff_ffff, limit: 1024 })
        );
        let mut buf = BytesMut::from(&[0xff, 0xff, 0xff, 0xfe][..]);
        assert_eq!(
            take(&mut buf, 1024),
            Err(DecodeError::NegativeLength { what: "frame", length: -2 })
        );
    }
}
