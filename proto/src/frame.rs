//! Framing: every message on the wire is a four-byte big-endian length and that many bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{DecodeError, Encoder};

/// Takes the first complete frame off the front of `buf`, without its length prefix.
///
/// `Ok(None)` means that more bytes are needed. Nothing is allocated for a frame before its bytes have
/// arrived, except by the caller that reads them.
///
/// # Errors
/// [`DecodeError::FrameTooLong`] above `limit` bytes, [`DecodeError::NegativeLength`] below zero. The
/// connection cannot be used after either.
pub fn take(buf: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, DecodeError> {
    let Some(prefix) = buf.first_chunk::<4>() else {
        return Ok(None);
    };
    let announced = i32::from_be_bytes(*prefix);
    let Ok(length) = usize::try_from(announced) else {
        return Err(DecodeError::NegativeLength { what: "frame", length: announced });
    };
    if length > limit {
        return Err(DecodeError::FrameTooLong { length, limit });
    }
    if buf.len() < 4 + length {
        return Ok(None);
    }
    buf.advance(4);
    Ok(Some(buf.split_to(length).freeze()))
}

/// Appends one frame that `fill` writes.
pub fn put(out: &mut BytesMut, fill: impl FnOnce(&mut Encoder)) {
    let mut body = Encoder::new();
    fill(&mut body);
    put_parts(out, &[&body.finish()]);
}

/// Appends one frame whose contents are `parts`, one after the other.
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
        assert_eq!(frames, [Bytes::from_static(b"\0\0\0\x03one"), Bytes::from_static(b"\0\0\0\0\0\0\0\x02")]);
        assert!(buf.is_empty());
    }

    #[test]
    fn a_hostile_length_is_refused_before_its_bytes_arrive() {
        let mut buf = BytesMut::from(&[0x7f, 0xff, 0xff, 0xff][..]);
        assert_eq!(take(&mut buf, 1024), Err(DecodeError::FrameTooLong { length: 0x7fff_ffff, limit: 1024 }));
        let mut buf = BytesMut::from(&[0xff, 0xff, 0xff, 0xfe][..]);
        assert_eq!(take(&mut buf, 1024), Err(DecodeError::NegativeLength { what: "frame", length: -2 }));
    }
}
