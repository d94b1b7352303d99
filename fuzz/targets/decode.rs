//! Tests every decoder, in both directions, with hostile bytes. A decoder must not panic, nor
//! allocate more than a small multiple of the input. A decoded value must be the same after it is
//! encoded and decoded again.
//!
//! The first byte is the kind of the message, as in `examples/seed.rs`.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use zk_curator_proto::records::{
    ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, WatcherEvent,
};
use zk_curator_proto::{Decoder, Encoder, OpCode, Record, Request, Response, frame};

/// The limit of a decoder's allocations: this many bytes per input byte, plus a small amount for
/// errors.
const MULTIPLE: usize = 64;
const BASE: usize = 64 * 1024;

pub(crate) fn run(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else { return };
    let body = Bytes::copy_from_slice(body);
    let allowed = crate::ALLOCATOR.allocated() + BASE + MULTIPLE * body.len();
    crate::ALLOCATOR.set_limit(allowed).expect("room");
    match kind {
        0 => record::<ConnectRequest>(body),
        1 => record::<ConnectResponse>(body),
        2 => request(body),
        3 => response(body),
        4 => event(body),
        _ => frames(body),
    }
    crate::ALLOCATOR.set_limit(usize::MAX).expect("room");
}

fn record<R: Record + PartialEq + Debug>(body: Bytes) {
    if let Ok(value) = R::decode(&mut Decoder::new(body), "record") {
        let mut out = Encoder::new();
        value.encode(&mut out);
        assert_eq!(R::decode(&mut Decoder::new(out.finish()), "record"), Ok(value));
    }
}

fn request(body: Bytes) {
    let mut input = Decoder::new(body);
    let Ok(header) = RequestHeader::decode(&mut input, "header") else { return };
    let Ok(opcode) = OpCode::try_from(header.opcode) else { return };
    if let Ok(request) = Request::decode_body(opcode, &mut input) {
        let mut out = Encoder::new();
        request.encode_body(&mut out);
        assert_eq!(Request::decode_body(opcode, &mut Decoder::new(out.finish())), Ok(request));
    }
}

/// The body is preceded by the opcode of the request, which a real response does not contain.
fn response(mut body: Bytes) {
    if body.len() < 4 {
        return;
    }
    let opcode = body.split_to(4);
    let opcode = i32::from_be_bytes([opcode[0], opcode[1], opcode[2], opcode[3]]);
    let mut input = Decoder::new(body);
    let (Ok(opcode), Ok(_)) = (OpCode::try_from(opcode), ReplyHeader::decode(&mut input, "header"))
    else {
        return;
    };
    if let Ok(response) = Response::decode_body(opcode, &mut input) {
        let mut out = Encoder::new();
        response.encode_body(&mut out);
        assert_eq!(Response::decode_body(opcode, &mut Decoder::new(out.finish())), Ok(response));
    }
}

fn event(body: Bytes) {
    let mut input = Decoder::new(body);
    if ReplyHeader::decode(&mut input, "header").is_ok() {
        drop(WatcherEvent::decode(&mut input, "event"));
    }
}

/// Checks that only whole frames are returned, whatever the limit is, and never more bytes than the
/// input.
fn frames(mut body: Bytes) {
    if body.is_empty() {
        return;
    }
    let limit = usize::from(body.split_to(1)[0]) * 16;
    let length = body.len();
    let mut buffer = BytesMut::from(&body[..]);
    let mut taken = 0;
    while let Ok(Some(frame)) = frame::take(&mut buffer, limit) {
        assert!(frame.len() <= limit);
        taken += frame.len() + 4;
    }
    assert!(taken + buffer.len() <= length);
}
