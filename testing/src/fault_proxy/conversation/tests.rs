use std::collections::BTreeSet;

use proptest::prelude::*;
use zk_curator_proto::{XID_AUTH, XID_SET_WATCHES};

use super::*;

const SESSION: i64 = 0x1234;

fn granted(timeout: i32) -> BytesMut {
    let mut out = BytesMut::new();
    let password = Some(Bytes::from_static(&[7; 16]));
    let response =
        ConnectResponse { timeout, session_id: SESSION, password, ..ConnectResponse::default() };
    frame::put(&mut out, |out| response.encode(out));
    out
}

fn reply(xid: i32, zxid: i64, body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    frame::put(&mut out, |out| {
        ReplyHeader { xid, zxid, err: 0 }.encode(out);
        body.iter().for_each(|byte| out.bool(*byte > 0));
    });
    out
}

fn refusal(xid: i32, zxid: i64, code: ErrorCode) -> BytesMut {
    let mut out = BytesMut::new();
    frame::put(&mut out, |out| ReplyHeader { xid, zxid, err: code.code() }.encode(out));
    out
}

fn connected() -> Conversation {
    let mut talk = Conversation::new();
    talk.connect(&ConnectRequest { last_zxid_seen: 5, ..ConnectRequest::default() });
    talk.receive(&mut granted(10_000));
    assert_eq!(talk.session(), Some(SESSION));
    let output = talk.take();
    assert_eq!(output.granted.map(|session| session.id.get()), Some(SESSION));
    assert_eq!(output.bytes, granted(10_000));
    talk
}

/// Returns the opcode of a request of the Java client with this xid.
fn opcode(xid: i32) -> Option<OpCode> {
    Some(match xid {
        XID_PING => OpCode::Ping,
        XID_AUTH => OpCode::Auth,
        XID_SET_WATCHES => OpCode::SetWatches,
        _ => OpCode::Exists,
    })
}

fn forward(talk: &mut Conversation, xid: i32) {
    talk.forward(xid, opcode(xid));
}

fn lose_reply(talk: &mut Conversation, xid: i32) {
    talk.lose_reply(xid, opcode(xid));
}

/// Returns the frames that the client receives, and the end.
fn receives(talk: &mut Conversation, frames: &[BytesMut]) -> (Vec<u8>, Option<Ended>) {
    for frame in frames {
        talk.receive(&mut frame.clone());
    }
    let output = talk.take();
    (output.bytes.to_vec(), output.ended)
}

#[test]
fn a_refusal_waits_for_earlier_replies() {
    let mut talk = connected();
    talk.refuse(1, ErrorCode::NoAuth);
    assert_eq!(receives(&mut talk, &[]).0, refusal(1, 5, ErrorCode::NoAuth));
    forward(&mut talk, 2);
    talk.refuse(3, ErrorCode::NoNode);
    talk.refuse(4, ErrorCode::NoNode);
    forward(&mut talk, XID_PING);
    talk.refuse(5, ErrorCode::NoAuth);
    assert!(!talk.has_output());
    let event = reply(XID_NOTIFICATION, -1, b"event");
    assert_eq!(receives(&mut talk, std::slice::from_ref(&event)).0, event);
    let mut expected = reply(2, 9, b"body");
    expected.extend(refusal(3, 9, ErrorCode::NoNode));
    expected.extend(refusal(4, 9, ErrorCode::NoNode));
    assert_eq!(receives(&mut talk, &[reply(2, 9, b"body")]).0, expected);
    let mut expected = reply(XID_PING, 9, b"");
    expected.extend(refusal(5, 9, ErrorCode::NoAuth));
    assert_eq!(receives(&mut talk, &[reply(XID_PING, 9, b"")]), (expected.to_vec(), None));
}

#[test]
fn requests_wait_for_room() {
    let mut talk = connected();
    forward(&mut talk, 1);
    for xid in 0..REFUSALS as i32 {
        assert!(talk.has_room());
        talk.refuse(2 + xid, ErrorCode::NoAuth);
    }
    assert!(!talk.has_room());
    talk.receive(&mut reply(1, 9, b""));
    assert!(talk.has_room());
    for xid in 0..(BACKLOG / 20) as i32 {
        talk.refuse(xid, ErrorCode::NoAuth);
    }
    assert!(!talk.has_room());
    talk.take();
    assert!(talk.has_room());
}

#[test]
fn a_refusal_does_not_split_a_reply() {
    let mut talk = connected();
    let mut event = reply(XID_NOTIFICATION, -1, b"a long body");
    let mut second_half = event.split_off(event.len() - 3);
    talk.receive(&mut event);
    talk.refuse(1, ErrorCode::NoAuth);
    assert!(!talk.take().bytes.ends_with(&refusal(1, 5, ErrorCode::NoAuth)));
    talk.receive(&mut second_half);
    assert_eq!(talk.take().bytes[3..], refusal(1, 5, ErrorCode::NoAuth));
}

#[test]
fn a_lost_request_ends_the_connection_after_earlier_replies() {
    let mut talk = connected();
    forward(&mut talk, 1);
    forward(&mut talk, XID_SET_WATCHES);
    talk.lose_request();
    let event = reply(XID_NOTIFICATION, -1, b"event");
    let first = [event.clone(), reply(1, 9, b"")];
    assert_eq!(receives(&mut talk, &first), (first.concat(), None));
    let last = [event.clone(), reply(XID_SET_WATCHES, 9, b"")];
    let all = [&last[..], std::slice::from_ref(&event)].concat();
    assert_eq!(receives(&mut talk, &all), (last.concat(), Some(Ended::RequestLost)));
}

#[test]
fn a_lost_reply_is_dropped_with_its_events() {
    let mut talk = connected();
    forward(&mut talk, XID_PING);
    lose_reply(&mut talk, XID_PING);
    let event = reply(XID_NOTIFICATION, -1, b"event");
    let passes = [event.clone(), reply(XID_PING, 9, b"")];
    let all = [&passes[..], std::slice::from_ref(&event)].concat();
    assert_eq!(receives(&mut talk, &all), (passes.concat(), None));
    let lost = [event.clone(), reply(XID_PING, 10, b"lost"), event];
    assert_eq!(receives(&mut talk, &lost), (Vec::new(), Some(Ended::ReplyLost)));
}

#[test]
fn authentication_overtakes_other_replies() {
    let mut talk = connected();
    forward(&mut talk, 1);
    talk.refuse(2, ErrorCode::NoNode);
    forward(&mut talk, XID_AUTH);
    let auth = reply(XID_AUTH, 0, b"");
    assert_eq!(receives(&mut talk, std::slice::from_ref(&auth)).0, auth);
    let expected = [reply(1, 9, b"a"), refusal(2, 9, ErrorCode::NoNode)].concat();
    assert_eq!(receives(&mut talk, &[reply(1, 9, b"a")]).0, expected);
    forward(&mut talk, 3);
    lose_reply(&mut talk, XID_AUTH);
    assert_eq!(receives(&mut talk, &[auth]), (Vec::new(), None));
    let last = reply(3, 9, b"a");
    let all = [last.clone(), reply(XID_NOTIFICATION, -1, b"late")];
    assert_eq!(receives(&mut talk, &all), (last.to_vec(), Some(Ended::ReplyLost)));
}

#[test]
fn requests_without_a_reply_are_forgotten() {
    let mut talk = connected();
    // The reply to a ping has an xid of its own, and one to -1 looks like an event.
    for _ in 0..10 {
        talk.forward(7, Some(OpCode::Ping));
        talk.forward(XID_NOTIFICATION, Some(OpCode::Exists));
        let replies = [reply(XID_PING, 9, b""), reply(XID_NOTIFICATION, 9, b"body")];
        assert_eq!(receives(&mut talk, &replies).0, replies.concat());
        assert_eq!(talk.pending.len(), 0);
    }
    // A server replies in order, so these have none.
    forward(&mut talk, 1);
    talk.refuse(2, ErrorCode::NoNode);
    forward(&mut talk, 3);
    forward(&mut talk, 4);
    let expected = [refusal(2, 9, ErrorCode::NoNode), reply(4, 10, b"")].concat();
    assert_eq!(receives(&mut talk, &[reply(4, 10, b"")]).0, expected);
    assert_eq!(talk.pending.len(), 0);
}

#[test]
fn memory_for_requests_is_bounded() {
    let mut talk = connected();
    for xid in 1..=REMEMBERED as i32 {
        forward(&mut talk, xid);
        talk.refuse(xid, ErrorCode::NoNode);
    }
    assert!(talk.pending.len() <= REMEMBERED + 1);
    // The refusals in front of the oldest remembered request are sent.
    assert!(!talk.take().bytes.is_empty());
    let replies = [reply(1, 9, b"late"), reply(REMEMBERED as i32, 9, b"last")];
    assert!(receives(&mut talk, &replies).0.starts_with(&replies[0]));
    assert_eq!((talk.pending.len(), talk.refusals), (0, 0));
}

#[test]
fn a_lost_reply_that_looks_like_an_event_ends_the_connection() {
    let mut talk = connected();
    lose_reply(&mut talk, XID_NOTIFICATION);
    let reply = reply(XID_NOTIFICATION, 9, b"body");
    assert_eq!(receives(&mut talk, &[reply]), (Vec::new(), Some(Ended::ReplyLost)));
}

#[test]
fn a_reply_of_any_length_is_not_collected() {
    let mut talk = connected();
    forward(&mut talk, 1);
    let mut head = reply(1, 9, b"");
    head[..PREFIX].copy_from_slice(&i32::MAX.to_be_bytes());
    assert_eq!(receives(&mut talk, std::slice::from_ref(&head)).0, head);
    assert_eq!(receives(&mut talk, &[BytesMut::zeroed(1000)]).0, [0; 1000]);
}

#[test]
fn a_session_that_is_not_granted_has_no_credentials() {
    let mut talk = Conversation::new();
    talk.connect(&ConnectRequest::default());
    talk.receive(&mut granted(0));
    assert_eq!(talk.take(), Output { bytes: granted(0).freeze(), granted: None, ended: None });
    assert_eq!(talk.session(), Some(SESSION));
}

#[test]
fn other_protocols_pass() {
    let mut talk = Conversation::new();
    talk.make_opaque();
    assert_eq!(receives(&mut talk, &[b"imok"[..].into()]).0, b"imok");
    let mut talk = Conversation::new();
    assert_eq!(receives(&mut talk, &[b"HTTP/1.1 400"[..].into()]).0, b"HTTP/1.1 400");
    assert!(talk.is_opaque());
    let mut talk = connected();
    let negative = [0xff; 4][..].into();
    assert_eq!(receives(&mut talk, &[negative]), (Vec::new(), Some(Ended::Malformed)));
}

#[test]
fn the_last_bytes_pass_unless_they_may_be_a_lost_reply() {
    let part = &reply(1, 9, b"body")[..10];
    let mut talk = connected();
    forward(&mut talk, 1);
    talk.receive_last(&mut part.into());
    assert_eq!(talk.take().bytes, part);
    let mut talk = connected();
    lose_reply(&mut talk, 1);
    talk.receive_last(&mut part.into());
    assert_eq!(talk.take().bytes, b""[..]);
}

#[derive(Debug, Clone)]
enum Step {
    Forward,
    /// A request that the server never replies to.
    Unanswered,
    Refuse,
    Event(usize),
    Reply(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Forward),
        Just(Step::Unanswered),
        Just(Step::Refuse),
        (0..40usize).prop_map(Step::Event),
        (0..40usize).prop_map(Step::Reply),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Last {
    Nothing,
    LoseRequest,
    LoseReply,
}

proptest! {
    /// The server replies in order, at any time, in any chunks.
    #[test]
    fn replies_come_in_the_order_of_the_requests(
        steps in prop::collection::vec(step(), 0..40),
        last in prop_oneof![Just(Last::Nothing), Just(Last::LoseRequest), Just(Last::LoseReply)],
        chunks in prop::collection::vec(1..30usize, 1..8),
    ) {
        let mut talk = connected();
        let mut chunks = chunks.iter().cycle();
        let (mut wire, mut buf, mut seen) = (BytesMut::new(), BytesMut::new(), BytesMut::new());
        let mut feed = |talk: &mut Conversation, wire: &mut BytesMut, all: bool| {
            let now = if all { wire.len() } else { wire.len().min(*chunks.next().unwrap()) };
            buf.extend_from_slice(&wire.split_to(now));
            talk.receive(&mut buf);
        };
        let (mut next, mut replied, mut forwarded) = (0, 0, Vec::new());
        let (mut events, mut unanswered) = (0, BTreeSet::new());
        for step in &steps {
            match step {
                Step::Forward => {
                    next += 1;
                    forwarded.push(next);
                    forward(&mut talk, next);
                }
                Step::Unanswered => {
                    next += 1;
                    unanswered.insert(next);
                    forward(&mut talk, next);
                }
                Step::Refuse => {
                    next += 1;
                    talk.refuse(next, ErrorCode::NoAuth);
                }
                Step::Event(length) => {
                    events += 1;
                    wire.extend(reply(XID_NOTIFICATION, -1, &vec![1; *length]));
                }
                Step::Reply(length) => {
                    if let Some(xid) = forwarded.get(replied) {
                        replied += 1;
                        wire.extend(reply(*xid, 9, &vec![1; *length]));
                    }
                }
            }
            feed(&mut talk, &mut wire, false);
            seen.extend_from_slice(&talk.take().bytes);
        }
        // Its reply shows that others have none.
        next += 1;
        forwarded.push(next);
        forward(&mut talk, next);
        match last {
            Last::Nothing => {}
            Last::LoseRequest => talk.lose_request(),
            Last::LoseReply => {
                forwarded.push(next + 1);
                lose_reply(&mut talk, next + 1);
            }
        }
        for xid in &forwarded[replied..] {
            wire.extend(reply(*xid, 9, b"rest"));
        }
        feed(&mut talk, &mut wire, true);
        let output = talk.take();
        seen.extend_from_slice(&output.bytes);

        let mut xids = Vec::new();
        while let Some(mut frame) = frame::take(&mut seen, 1000).unwrap().map(Decoder::new) {
            xids.push(ReplyHeader::decode(&mut frame, "header").unwrap().xid);
        }
        prop_assert!(seen.is_empty());
        let replies: Vec<_> = xids.iter().copied().filter(|xid| *xid > 0).collect();
        let answered = (1..=next).filter(|xid| !unanswered.contains(xid)).collect::<Vec<_>>();
        if last == Last::Nothing {
            prop_assert_eq!(xids.len(), answered.len() + events);
        }
        prop_assert_eq!(replies, answered);
        prop_assert!(talk.pending.is_empty());
        let ended = match last {
            Last::Nothing => None,
            Last::LoseRequest => Some(Ended::RequestLost),
            Last::LoseReply => Some(Ended::ReplyLost),
        };
        prop_assert_eq!(output.ended, ended);
    }
}
