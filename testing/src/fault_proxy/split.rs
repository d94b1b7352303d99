//! [`ClientStream`]: splits the bytes of a client into requests.

use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use zk_curator_proto::records::{ConnectRequest, RequestHeader};
use zk_curator_proto::{Decoder, OpCode, Record, Request};

/// The possible lengths of the first frame of a client, in bytes.
const CONNECT: RangeInclusive<usize> = ConnectRequest::MIN_SIZE..=1024;

/// The length of a frame's prefix, and of the header of a request, in bytes.
const PREFIX: usize = 4;
const HEADER: usize = 8;

/// A part of the bytes of a client, in their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    /// The piece is the end of a frame.
    pub(super) ends_frame: bool,
    pub(super) content: Content,
}

/// The meaning of a [`Piece`].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// Part of a frame, or a frame without a header, or bytes after [`Content::Foreign`].
    Raw,
    /// First bytes that are not the protocol of ZooKeeper.
    Foreign,
    /// A complete first frame.
    Connect(ConnectRequest),
    /// A complete request.
    Request { xid: i32, request: Request },
    /// A request that cannot be decoded, or the beginning of one above the limit.
    Unknown { xid: i32 },
}

impl Piece {
    const fn raw(bytes: Bytes, ends_frame: bool) -> Self {
        Self { bytes, ends_frame, content: Content::Raw }
    }
}

/// The bytes of a client so far.
#[derive(Debug)]
pub(super) struct ClientStream {
    /// The maximum length of a request that is decoded, in bytes.
    limit: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has been received.
    Start,
    /// At the beginning of a frame.
    Frames,
    /// Inside a frame above the limit, this many bytes before its end.
    Inside(usize),
    /// Nothing that follows is a frame.
    Opaque,
}

impl ClientStream {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, state: State::Start }
    }

    /// Returns `true` before the first piece.
    pub(super) fn is_new(&self) -> bool {
        self.state == State::Start
    }

    /// Takes the next piece off the front of `buf`. Returns `None` if more bytes are needed, which
    /// are at most those of one frame within the limit.
    pub(super) fn next(&mut self, buf: &mut BytesMut) -> Option<Piece> {
        match self.state {
            State::Start => self.first(buf),
            State::Frames => self.frame(buf),
            State::Inside(left) => {
                let bytes = buf.split_to(buf.len().min(left)).freeze();
                let left = left - bytes.len();
                self.state = if left == 0 { State::Frames } else { State::Inside(left) };
                (!bytes.is_empty()).then(|| Piece::raw(bytes, left == 0))
            }
            State::Opaque => (!buf.is_empty()).then(|| Piece::raw(buf.split().freeze(), false)),
        }
    }

    /// Four-letter words, TLS and other protocols begin with bytes that are not the length of a
    /// connect request.
    fn first(&mut self, buf: &mut BytesMut) -> Option<Piece> {
        let length = usize::try_from(i32::from_be_bytes(*buf.first_chunk::<PREFIX>()?));
        let Some(length) = length.ok().filter(|length| CONNECT.contains(length)) else {
            return Some(self.foreign(buf));
        };
        if buf.len() < PREFIX + length {
            return None;
        }
        let body = Bytes::copy_from_slice(&buf[PREFIX..PREFIX + length]);
        let Ok(request) = ConnectRequest::decode(&mut Decoder::new(body), "connect request") else {
            return Some(self.foreign(buf));
        };
        self.state = State::Frames;
        let bytes = buf.split_to(PREFIX + length).freeze();
        Some(Piece { bytes, ends_frame: true, content: Content::Connect(request) })
    }

    fn foreign(&mut self, buf: &mut BytesMut) -> Piece {
        self.state = State::Opaque;
        Piece { bytes: buf.split().freeze(), ends_frame: false, content: Content::Foreign }
    }

    fn frame(&mut self, buf: &mut BytesMut) -> Option<Piece> {
        let Ok(length) = usize::try_from(i32::from_be_bytes(*buf.first_chunk::<PREFIX>()?)) else {
            // The server refuses a negative length. Nothing after it is a frame.
            self.state = State::Opaque;
            return self.next(buf);
        };
        let taken = if length > self.limit { HEADER } else { length };
        if buf.len() < PREFIX + taken {
            return None;
        }
        if taken < length {
            self.state = State::Inside(length - taken);
        }
        let bytes = buf.split_to(PREFIX + taken).freeze();
        let content = content(bytes.slice(PREFIX..), taken == length);
        Some(Piece { bytes, ends_frame: taken == length, content })
    }
}

fn content(frame: Bytes, complete: bool) -> Content {
    let mut input = Decoder::new(frame);
    let Ok(RequestHeader { xid, opcode }) = RequestHeader::decode(&mut input, "request header")
    else {
        return Content::Raw;
    };
    if !complete {
        return Content::Unknown { xid };
    }
    match OpCode::try_from(opcode).and_then(|opcode| Request::decode_body(opcode, &mut input)) {
        Ok(request) => Content::Request { xid, request },
        Err(_) => Content::Unknown { xid },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zk_curator_proto::frame;
    use zk_curator_proto::records::GetDataRequest;

    use super::*;

    const LIMIT: usize = 100;

    fn connect() -> BytesMut {
        let mut out = BytesMut::new();
        let password = Some(Bytes::from_static(&[0; 16]));
        let request = ConnectRequest { timeout: 10_000, password, ..ConnectRequest::default() };
        frame::put(&mut out, |out| request.encode(out));
        out
    }

    fn put(out: &mut BytesMut, xid: i32, opcode: i32, fill: impl FnOnce(&mut BytesMut)) {
        let mut body = BytesMut::new();
        fill(&mut body);
        frame::put(out, |out| {
            RequestHeader { xid, opcode }.encode(out);
        });
        let length = (HEADER + body.len()) as u32;
        let at = out.len() - HEADER - PREFIX;
        out[at..at + PREFIX].copy_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&body);
    }

    fn get(out: &mut BytesMut, xid: i32, path: &str) {
        let request = Request::GetData(GetDataRequest { path: path.into(), watch: false });
        frame::put(out, |out| {
            RequestHeader { xid, opcode: OpCode::GetData.code() }.encode(out);
            request.encode_body(out);
        });
    }

    /// Feeds the bytes in chunks whose lengths `chunks` repeats.
    fn pieces(bytes: &[u8], chunks: &[usize]) -> (Vec<Piece>, ClientStream, BytesMut) {
        let mut stream = ClientStream::new(LIMIT);
        let (mut buf, mut found, mut rest) = (BytesMut::new(), Vec::new(), bytes);
        for chunk in chunks.iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(*chunk));
            buf.extend_from_slice(now);
            found.extend(std::iter::from_fn(|| stream.next(&mut buf)));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        (found, stream, buf)
    }

    /// Joins raw pieces, whose borders depend on the chunks.
    fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
        let mut all: Vec<Piece> = Vec::new();
        for piece in pieces {
            match all.last_mut() {
                Some(last) if piece.content == Content::Raw && !last.ends_frame => {
                    last.bytes = [&last.bytes[..], &piece.bytes].concat().into();
                    last.ends_frame = piece.ends_frame;
                }
                _ => all.push(piece),
            }
        }
        all
    }

    fn contents(bytes: &[u8]) -> Vec<Content> {
        pieces(bytes, &[1 << 20]).0.into_iter().map(|piece| piece.content).collect()
    }

    #[test]
    fn requests_are_decoded() {
        let mut wire = connect();
        get(&mut wire, 7, "/a");
        put(&mut wire, 8, 4, |body| body.extend_from_slice(&[0, 0, 0, 9]));
        put(&mut wire, 9, 4711, |_| {});
        frame::put(&mut wire, |out| out.bool(true));
        frame::put(&mut wire, |_| {});
        put(&mut wire, 10, OpCode::SetData.code(), |body| body.resize(LIMIT, 0));
        put(&mut wire, -2, OpCode::Ping.code(), |_| {});
        let found = contents(&wire);
        assert!(matches!(&found[0], Content::Connect(request) if request.timeout == 10_000));
        assert!(
            matches!(&found[1], Content::Request { xid: 7, request } if request.path() == Some("/a"))
        );
        assert_eq!(found[2..4], [Content::Unknown { xid: 8 }, Content::Unknown { xid: 9 }]);
        assert_eq!(found[4..6], [Content::Raw, Content::Raw]);
        assert_eq!(found[6..8], [Content::Unknown { xid: 10 }, Content::Raw]);
        assert_eq!(found[8..], [Content::Request { xid: -2, request: Request::Ping }]);
    }

    #[test]
    fn other_protocols_are_opaque() {
        let mut bad_connect = BytesMut::new();
        put(&mut bad_connect, 1, 1, |body| body.extend_from_slice(&[0x7f; 25]));
        let mut negative = connect();
        negative.extend_from_slice(&[0xff, 0xff, 0xff, 0xfe, 1, 2]);
        for bytes in
            [&b"ruok"[..], b"stmk\0\0\0\0", &[0x16, 3, 1, 2, 0, 1], &bad_connect, &negative]
        {
            let (found, stream, rest) = pieces(bytes, &[1]);
            assert!(stream.state == State::Opaque && rest.is_empty(), "{bytes:?}");
            assert_eq!(found[0].content == Content::Foreign, bytes != &negative[..]);
            let passed: Vec<_> = found.iter().flat_map(|piece| piece.bytes.to_vec()).collect();
            assert_eq!(passed, bytes);
        }
        let (found, stream, rest) = pieces(b"ruo", &[1]);
        assert!(found.is_empty() && stream.state == State::Start && rest.len() == 3);
    }

    #[test]
    fn a_frame_above_the_limit_is_not_collected() {
        let mut stream = ClientStream::new(LIMIT);
        let mut buf = connect();
        assert!(stream.next(&mut buf).is_some());
        buf.extend_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 5]);
        for _ in 0..1000 {
            assert!(stream.next(&mut buf).is_some() && buf.is_empty());
            buf.extend_from_slice(&[0; 1000]);
        }
    }

    fn stream_of_a_client() -> impl Strategy<Value = Vec<u8>> {
        let request = prop_oneof![
            (any::<i32>(), "/[a-z]{0,20}").prop_map(|(xid, path)| {
                let mut out = BytesMut::new();
                get(&mut out, xid, &path);
                out.to_vec()
            }),
            (any::<i32>(), any::<i32>(), 0..3 * LIMIT).prop_map(|(xid, opcode, length)| {
                let mut out = BytesMut::new();
                put(&mut out, xid, opcode, |body| body.resize(length, 7));
                out.to_vec()
            }),
            prop::collection::vec(any::<u8>(), 0..20),
        ];
        (any::<bool>(), prop::collection::vec(request, 0..10)).prop_map(|(connected, requests)| {
            let start = if connected { connect().to_vec() } else { Vec::new() };
            start.into_iter().chain(requests.concat()).collect()
        })
    }

    proptest! {
        #[test]
        fn chunks_do_not_change_the_pieces(
            bytes in stream_of_a_client(),
            chunks in prop::collection::vec(1..50usize, 1..10),
        ) {
            let (whole, _, rest) = pieces(&bytes, &[1 << 20]);
            let (chunked, _, chunked_rest) = pieces(&bytes, &chunks);
            let passed: Vec<_> = chunked.iter().flat_map(|piece| piece.bytes.to_vec()).collect();
            prop_assert_eq!([&passed[..], &chunked_rest].concat(), bytes);
            prop_assert_eq!(joined(whole), joined(chunked));
            prop_assert_eq!(rest, chunked_rest);
        }
    }
}
