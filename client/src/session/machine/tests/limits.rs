//! Responses over the limit of the client, and requests over that of the server.

use zk_curator_proto::records::{SetDataRequest, Stat};

use super::*;

/// The limits of these tests in bytes.
const MAX_ANSWER: usize = 300;
const HEADER: usize = 16;

fn rig() -> Rig {
    let mut rig = Rig::with("h:1/app", |builder| builder.max_frame(200).max_response(MAX_ANSWER));
    rig.connect();
    rig.sent();
    rig.states();
    rig
}

/// Returns the prefix and the header of a response of `length` bytes.
fn head(xid: i32, zxid: i64, err: i32, length: usize) -> BytesMut {
    let mut head = Encoder::new();
    head.i32(i32::try_from(length).unwrap());
    ReplyHeader { xid, zxid, err }.encode(&mut head);
    BytesMut::from(head.as_slice())
}

fn large_response(xid: i32, err: i32, body: usize) -> BytesMut {
    let mut answer = head(xid, 7, err, HEADER + body);
    answer.resize(4 + HEADER + body, 0xff);
    answer
}

#[test]
fn a_long_response_fails_only_its_request() {
    let mut rig = rig();
    let (long, short) = (rig.get("/app/a"), rig.delete("/app/b"));
    let length = 100_000;
    let mut bytes = large_response(1, 0, length - HEADER);
    frame::put(&mut bytes, |out| ReplyHeader { xid: 2, zxid: 9, err: 0 }.encode(out));
    // In pieces of every length. Only the header is kept.
    let mut buf = BytesMut::new();
    for piece in bytes.chunks(97) {
        buf.extend_from_slice(piece);
        rig.machine.on_read(&mut buf, rig.now);
        assert!(buf.len() < 4 + HEADER, "{} bytes are kept", buf.len());
    }
    rig.machine.deliver();
    let error = Error::ResponseTooLarge { path: "/a".to_owned(), length, limit: MAX_ANSWER };
    assert!(error.may_have_applied() && error.code().is_none());
    assert_eq!(now(long), Err(error));
    assert_eq!(now(short), Ok(Response::Empty));
    assert_eq!((rig.states(), rig.effects()), (vec![], vec![]));
    assert_eq!(rig.machine.last_zxid, 9);
}

#[test]
fn the_request_fails_as_soon_as_the_header_is_there() {
    let mut rig = rig();
    let mut answer = rig.get("/app/a");
    let head = head(1, 7, 0, MAX_ANSWER + 1);
    let mut buf = BytesMut::from(&head[..19]);
    rig.machine.on_read(&mut buf, rig.now);
    rig.machine.deliver();
    assert!(is_open(&mut answer));
    buf.extend_from_slice(&head[19..]);
    rig.machine.on_read(&mut buf, rig.now);
    rig.machine.deliver();
    assert!(
        matches!(now(answer), Err(Error::ResponseTooLarge { length, .. }) if length == MAX_ANSWER + 1)
    );
}

#[test]
fn a_response_at_the_limit_is_read() {
    let mut rig = rig();
    let answer = rig.delete("/app/a");
    rig.receive_bytes(large_response(1, 0, MAX_ANSWER - HEADER));
    assert_eq!(now(answer), Ok(Response::Empty));
}

#[test]
fn a_refusal_with_a_long_body_is_a_refusal() {
    let mut rig = rig();
    let (refused, next) = (rig.get("/app/a"), rig.delete("/app/b"));
    rig.receive_bytes(large_response(1, ErrorCode::NoNode.code(), 1000));
    rig.reply_ok(2);
    assert_eq!(now(refused), Err(Error::Refused(ErrorCode::NoNode)));
    assert_eq!(now(next), Ok(Response::Empty));
}

#[test]
fn the_watch_of_a_long_response_is_armed_and_removed() {
    let mut rig = rig();
    let (answer, watch) = rig.watched(WatchPlan::Child, "/app");
    rig.sent();
    rig.receive_bytes(large_response(1, 0, 1000));
    let error =
        Error::ResponseTooLarge { path: "/".to_owned(), length: HEADER + 1000, limit: MAX_ANSWER };
    assert_eq!(now(answer), Err(error));
    drop(watch);
    rig.command(SessionCommand::ForgetWatch { path: "/app".into() });
    assert_eq!(rig.sent_opcodes(), [OpCode::RemoveWatches]);
}

#[test]
fn a_long_response_ends_a_closing_session() {
    let mut rig = rig();
    let closed = rig.close();
    rig.receive_bytes(large_response(1, 0, 1000));
    assert_eq!(now(closed), Ok(()));
    assert_eq!(rig.states(), [SessionState::Closed]);
}

#[test]
fn a_connection_lost_while_skipping_leaves_nothing_to_skip() {
    let mut rig = rig();
    let long = rig.get("/app/a");
    rig.receive_bytes(head(1, 7, 0, 1000));
    assert!(matches!(now(long), Err(Error::ResponseTooLarge { .. })));
    rig.cut();
    rig.connect();
    rig.states();
    let answer = rig.delete("/app/b");
    rig.reply_ok(2);
    assert_eq!(now(answer), Ok(Response::Empty));
}

#[test]
fn only_responses_to_requests_may_be_long() {
    let notification = large_response(XID_NOTIFICATION, 0, 1000);
    let others =
        [XID_PING, XID_AUTH, XID_SET_WATCHES, 2, 0].map(|xid| large_response(xid, 0, 1000));
    let hostile = [head(1, 0, 0, (1 << 30) + 1), head(1, 0, 0, i32::MAX as usize)];
    for bytes in [notification].into_iter().chain(others).chain(hostile) {
        let mut rig = rig();
        let answer = rig.get("/app/a");
        let _auth = rig.add_auth("digest");
        rig.pass(TIMEOUT / 3);
        rig.receive_bytes(bytes);
        rig.assert_disconnected();
        assert_eq!(now(answer), Err(Error::ConnectionLoss { sent: true }));
    }
}

#[test]
fn the_handshake_response_may_not_be_long() {
    let mut rig = Rig::with("h:1", |builder| builder.max_frame(200).max_response(MAX_ANSWER));
    rig.open();
    rig.receive_bytes(large_response(1, 0, 1000));
    assert_eq!(rig.effects(), [SessionEffect::Disconnect]);
}

#[test]
fn the_response_limit_is_at_least_the_request_limit() {
    let mut rig = Rig::with("h:1", |builder| builder.max_frame(MAX_ANSWER).max_response(1));
    rig.connect();
    let answer = rig.delete("/a");
    rig.receive_bytes(large_response(1, 0, MAX_ANSWER - HEADER));
    assert_eq!(now(answer), Ok(Response::Empty));
}

fn set(rig: &mut Rig, length: usize) -> Answer {
    let data = Some(vec![b'x'; length].into());
    rig.request(Request::SetData(SetDataRequest { path: "/a".into(), data, version: -1 }))
}

/// A machine that may send more than its servers take.
fn large_rig() -> Rig {
    let mut rig = Rig::with("h:1", |builder| builder.max_frame(4 << 20));
    rig.connect();
    rig.states();
    rig
}

#[test]
fn request_over_the_default_limit_is_blamed_for_the_first_close() {
    let mut rig = large_rig();
    let (small, large, last) = (rig.get("/b"), set(&mut rig, 1 << 20), rig.get("/c"));
    rig.cut();
    assert!(matches!(now(large), Err(Error::LargeRequestLost { length }) if length > 1 << 20));
    for other in [small, last] {
        assert_eq!(now(other), Err(Error::ConnectionLoss { sent: true }));
    }
    // Silence is not a response to its size.
    rig.connect();
    let large = set(&mut rig, 1 << 20);
    rig.pass(TIMEOUT);
    assert_eq!(now(large), Err(Error::ConnectionLoss { sent: true }));
}

#[test]
fn largest_request_is_blamed_for_the_second_close_in_a_row() {
    let lost = Err(Error::ConnectionLoss { sent: true });
    let mut rig = large_rig();
    let answers = [(); 2].map(|()| {
        let answer = set(&mut rig, 100_000);
        rig.cut();
        rig.connect();
        now(answer)
    });
    let [first, second] = answers;
    assert_eq!(first, lost);
    assert!(
        matches!(second, Err(ref error @ Error::LargeRequestLost { .. }) if error.may_have_applied())
    );

    // A server that responds to one of this size has another reason.
    let mut rig = large_rig();
    let answers = [(); 2].map(|()| {
        let answer = set(&mut rig, 100_000);
        rig.cut();
        rig.connect();
        rig.sent();
        let accepted = set(&mut rig, 100_000);
        let xid = rig.sent()[0].xid;
        rig.reply(xid, 1, Ok(Response::Stat(Stat::default())));
        assert!(now(accepted).is_ok());
        now(answer)
    });
    assert_eq!(answers, [lost.clone(), lost.clone()]);

    // Small requests, and those of another size, are not why.
    for lengths in [[1_000, 1_000], [100_000, 90_000]] {
        let mut rig = large_rig();
        for length in lengths {
            let answer = set(&mut rig, length);
            rig.cut();
            rig.connect();
            assert_eq!(now(answer), lost);
        }
    }
}
