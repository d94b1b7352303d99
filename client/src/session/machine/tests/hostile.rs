//! Peers that violate the protocol.

use proptest::prelude::*;

use super::*;

#[test]
fn unsolicited_responses_end_the_connection() {
    for xid in [XID_PING, XID_AUTH, XID_SET_WATCHES, 0, 2, -3, -5, i32::MIN, i32::MAX] {
        let mut rig = Rig::connected();
        let answer = rig.delete("/a");
        rig.sent();
        rig.reply_ok(xid);
        rig.assert_disconnected();
        assert_eq!(now(answer), Err(Error::ConnectionLoss { sent: true }), "{xid}");
    }
}

#[test]
fn an_unasked_refusal_of_credentials_is_not_believed() {
    let mut rig = Rig::connected();
    rig.reply(XID_AUTH, 0, Err(ErrorCode::AuthFailed));
    rig.assert_disconnected();
}

#[test]
fn a_repeated_response_ends_the_connection() {
    let mut rig = Rig::connected();
    let answer = rig.delete("/a");
    rig.reply_ok(1);
    rig.reply_ok(1);
    assert!(now(answer).is_ok());
    rig.assert_disconnected();
}

#[test]
fn responses_for_an_earlier_connection_are_ignored() {
    let mut rig = Rig::connected();
    let (_answer, _watch) = rig.watched(WatchPlan::Exists, "/a");
    rig.reply(1, 1, Err(ErrorCode::NoNode));
    for xid in [XID_PING, XID_AUTH, XID_SET_WATCHES] {
        let _auth = rig.add_auth("digest");
        rig.pass(TIMEOUT / 3);
        assert!(rig.sent_opcodes().contains(&OpCode::Ping));
        rig.cut();
        rig.connect();
        rig.sent();
        rig.states();
        rig.reply_ok(xid);
        if xid == XID_PING {
            rig.assert_disconnected();
            rig.connect();
        } else {
            // Requested again on this connection, once.
            assert_eq!(rig.states(), []);
            rig.reply_ok(xid);
            rig.assert_disconnected();
            rig.connect();
        }
    }
}

#[test]
fn responses_out_of_order_end_the_connection() {
    let mut rig = Rig::connected();
    let answers = [rig.delete("/a"), rig.delete("/b")];
    rig.reply_ok(2);
    rig.assert_disconnected();
    for answer in answers {
        assert_eq!(now(answer), Err(Error::ConnectionLoss { sent: true }));
    }
}

#[test]
fn a_second_handshake_response_ends_the_connection() {
    let mut rig = Rig::connected();
    rig.accept(TIMEOUT);
    rig.assert_disconnected();
}

#[test]
fn unrestorable_one_shot_watches_end_and_the_connection_stays() {
    let mut rig = Rig::connected();
    let plans = [WatchPlan::Exists, WatchPlan::Data, WatchPlan::Child];
    let watches = plans.map(|plan| {
        let (_answer, watch) = rig.watched(plan, "/a");
        let xid = rig.sent()[0].xid;
        let answer = match plan {
            WatchPlan::Exists => Err(ErrorCode::NoNode),
            WatchPlan::Data => Ok(Response::Data(Default::default())),
            _ => Ok(Response::Children2(Default::default())),
        };
        rig.reply(xid, 1, answer);
        watch
    });
    rig.cut();
    for _ in 0..3 {
        rig.connect();
        rig.states();
        rig.reply(XID_SET_WATCHES, 1, Err(ErrorCode::Unimplemented));
        rig.assert_disconnected();
    }
    rig.connect();
    rig.states();
    rig.reply(XID_SET_WATCHES, 1, Err(ErrorCode::Unimplemented));
    assert_eq!((rig.states(), rig.effects().len()), (vec![], 0));
    for watch in watches {
        assert_eq!(*now(watch), Err(WatchEnded::Refused(ErrorCode::Unimplemented)));
    }
    // The next connection has nothing to request.
    rig.sent();
    rig.cut();
    rig.connect();
    assert_eq!(rig.sent(), []);
}

/// These codes concern the session: the next connection shows the outcome.
#[test]
fn a_moved_or_expired_session_ends_no_watches() {
    for code in [ErrorCode::SessionMoved, ErrorCode::SessionExpired] {
        let mut rig = Rig::connected();
        let (_answer, mut watch) = rig.watched(WatchPlan::Exists, "/a");
        rig.reply(1, 1, Err(ErrorCode::NoNode));
        rig.cut();
        rig.connect();
        rig.states();
        rig.reply(XID_SET_WATCHES, 1, Err(code));
        rig.assert_disconnected();
        assert!(is_open(&mut watch));
    }
}

#[test]
fn malformed_frames_end_the_connection() {
    let frames: [&[u8]; 5] = [
        // Invalid lengths: too long, negative.
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xfe],
        // A header that is too short; an event without its fields; an event of an unknown kind.
        &[0, 0, 0, 4, 0, 0, 0, 1],
        &[0, 0, 0, 16, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[
            0, 0, 0, 28, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99,
            0, 0, 0, 3, 0, 0, 0, 0,
        ],
    ];
    for bytes in frames {
        let mut rig = Rig::connected();
        rig.receive_bytes(BytesMut::from(bytes));
        rig.assert_disconnected();
    }
}

#[test]
fn a_malformed_or_foreign_handshake_ends_the_attempt() {
    let mut rig = Rig::new();
    rig.open();
    rig.receive_bytes(BytesMut::from("HTTP/1.1 400 Bad Request\r\n\r\n"));
    assert_eq!(rig.effects(), [SessionEffect::Disconnect]);
    rig.open();
    rig.answer_handshake(9000, 0);
    assert_eq!(rig.effects(), [SessionEffect::Disconnect]);
    rig.open();
    rig.answer_handshake(-1, SESSION);
    assert_eq!(rig.effects(), [SessionEffect::Disconnect]);
    assert_eq!(rig.states(), []);
}

/// Some servers respond to the handshake with the header of a response.
#[test]
fn an_error_code_as_handshake_is_the_reason_of_the_failure() {
    let mut rig = Rig::new();
    for (err, reason) in [
        (-119, "the server refuses the session: server is in read-only mode"),
        (0, "the server responded to the handshake as to a request"),
    ] {
        rig.open();
        rig.receive(|out| ReplyHeader { xid: 0, zxid: 0, err }.encode(out));
        assert_eq!(rig.effects(), [SessionEffect::Disconnect]);
        let failure = rig.last_failure();
        assert!(failure.ends_with(reason), "{failure}");
    }
    rig.connect();
}

#[test]
fn nothing_is_read_after_the_end_of_a_connection() {
    let mut rig = Rig::connected();
    let _answers = [rig.delete("/a"), rig.delete("/b")];
    let mut buf = BytesMut::new();
    for xid in [7, 1, 2] {
        frame::put(&mut buf, |out| ReplyHeader { xid, zxid: 99, err: 0 }.encode(out));
    }
    rig.receive_bytes(buf);
    rig.assert_disconnected();
    assert_eq!(rig.machine.last_zxid, 0);
}

/// An input of a machine.
#[derive(Debug, Clone)]
enum Step {
    Bytes(Vec<u8>),
    Frame(Vec<u8>),
    Reply(i32, i64, i32, Vec<u8>),
    /// The beginning of a response over the limit.
    Long(i32, usize),
    Accept(i32, i64),
    Open,
    Cut,
    Pass(u64),
    Get,
    Watch(u8),
    Auth(bool),
    Close,
    Written(usize),
}

/// Zero stands for the next request without a response.
fn xid_or_next() -> impl Strategy<Value = i32> {
    prop_oneof![4 => Just(0), 1 => -10..10]
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..64);
    let xid = prop_oneof![-10..10, any::<i32>()];
    let err = prop_oneof![4 => Just(0), 1 => -130..0, 1 => any::<i32>()];
    prop_oneof![
        1 => bytes().prop_map(Step::Bytes),
        2 => bytes().prop_map(Step::Frame),
        6 => (xid, any::<i64>(), err, bytes()).prop_map(|(xid, zxid, err, body)| Step::Reply(xid, zxid, err, body)),
        2 => (xid_or_next(), 0_usize..600).prop_map(|(xid, length)| Step::Long(xid, length)),
        3 => (prop_oneof![Just(9000), any::<i32>()], prop_oneof![5 => Just(SESSION), 1 => any::<i64>()])
            .prop_map(|(timeout, id)| Step::Accept(timeout, id)),
        4 => Just(Step::Open),
        1 => Just(Step::Cut),
        3 => (0_u64..12_000).prop_map(Step::Pass),
        4 => Just(Step::Get),
        2 => any::<u8>().prop_map(Step::Watch),
        1 => any::<bool>().prop_map(Step::Auth),
        1 => Just(Step::Close),
        2 => (0_usize..200).prop_map(Step::Written),
    ]
}

proptest! {
    #[test]
    fn no_input_makes_the_machine_panic_or_forget_a_request(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut rig = Rig::with("h:1", |builder| builder.max_frame(100).max_response(100));
        let mut answers = Vec::new();
        let mut watches = Vec::new();
        let mut closes = Vec::new();
        for step in steps {
            match step {
                Step::Bytes(bytes) => rig.receive_bytes(BytesMut::from(&bytes[..])),
                Step::Frame(body) => rig.receive(|out| body.iter().for_each(|byte| out.bool(*byte > 127))),
                Step::Reply(xid, zxid, err, body) => {
                    // Most responses match, so that the run continues.
                    let next = rig.machine.in_flight.front().map_or(xid, |request| request.xid);
                    let xid = if xid % 3 == 0 { xid } else { next };
                    rig.receive(|out| {
                        ReplyHeader { xid, zxid, err }.encode(out);
                        body.iter().for_each(|byte| out.bool(*byte > 127));
                    });
                }
                Step::Long(xid, length) => {
                    let next = rig.machine.in_flight.front().map_or(xid, |request| request.xid);
                    let mut bytes = BytesMut::new();
                    bytes.extend_from_slice(&i32::try_from(101 + length).unwrap().to_be_bytes());
                    bytes.extend_from_slice(&(if xid == 0 { next } else { xid }).to_be_bytes());
                    bytes.resize(24, 0);
                    rig.receive_bytes(bytes);
                }
                Step::Accept(timeout, id) => rig.answer_handshake(timeout, id),
                Step::Open => rig.connected_to(),
                Step::Cut => {
                    rig.machine.on_io_error(rig.now, io::ErrorKind::ConnectionReset.into());
                    rig.cut_attempt();
                }
                Step::Pass(millis) => rig.pass(Duration::from_millis(millis)),
                Step::Get => answers.push(rig.get("/a")),
                Step::Watch(kind) => {
                    let plan = [WatchPlan::Data, WatchPlan::Child, WatchPlan::Exists][usize::from(kind % 3)];
                    let (answer, watch) = rig.watched(plan, "/a");
                    answers.push(answer);
                    watches.push(watch);
                }
                Step::Auth(other) => answers.push(rig.add_auth(if other { "ip" } else { "digest" })),
                Step::Close => closes.push(rig.close()),
                Step::Written(length) => {
                    let output = rig.machine.output();
                    output.advance(length.min(output.len()));
                }
            }
            rig.effects();
        }
        // At the end, every caller has a result.
        closes.push(rig.close());
        for _ in 0..3 {
            rig.pass(Duration::from_secs(6));
        }
        prop_assert!(answers.into_iter().all(|mut answer| !is_open(&mut answer)));
        prop_assert!(watches.into_iter().all(|mut watch| !is_open(&mut watch)));
        prop_assert!(closes.into_iter().all(|mut closed| !is_open(&mut closed)));
        prop_assert_eq!(rig.queue.waiting(), (0, 0));
        prop_assert_eq!(rig.machine.next_timer(), None);
        let states = rig.states();
        prop_assert!(states.iter().rev().skip(1).all(|state| state.end().is_none()), "{:?}", states);
    }
}
