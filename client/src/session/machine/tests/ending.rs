//! Closing, expiry, refused credentials.

use super::*;

#[test]
fn close_sends_earlier_requests_and_ends_when_acknowledged() {
    let mut rig = Rig::connected();
    let before = rig.delete("/a");
    let mut closed = rig.close();
    assert_eq!(now(rig.delete("/b")), Err(Error::Closed { sent: false }));
    assert_eq!(now(rig.add_auth("digest")), Err(Error::Closed { sent: false }));
    assert_eq!(rig.sent_opcodes(), [OpCode::Delete, OpCode::CloseSession]);
    rig.reply_ok(1);
    assert_eq!(now(before), Ok(Response::Empty));
    assert!(is_open(&mut closed));
    rig.reply_ok(2);
    assert_eq!(now(closed), Ok(()));
    assert_eq!(rig.states(), [SessionState::Closed]);
    rig.assert_ended();
    // Input that arrives too late.
    assert_eq!(now(rig.close()), Ok(()));
    assert_eq!(now(rig.get("/a")), Err(Error::Closed { sent: false }));
}

#[test]
fn two_closes_send_one_and_both_hear_of_it() {
    let mut rig = Rig::connected();
    let (first, second) = (rig.close(), rig.close());
    rig.on_last_handle_dropped();
    assert_eq!(rig.sent_opcodes(), [OpCode::CloseSession]);
    rig.reply_ok(1);
    assert_eq!((now(first), now(second)), (Ok(()), Ok(())));
}

#[test]
fn a_close_whose_response_was_lost_is_sent_again() {
    let mut rig = Rig::connected();
    let mut closed = rig.close();
    assert_eq!(rig.sent_opcodes(), [OpCode::CloseSession]);
    rig.cut();
    assert!(is_open(&mut closed));
    rig.connect();
    assert_eq!(rig.sent_opcodes(), [OpCode::CloseSession]);
    rig.reply_ok(2);
    assert_eq!(now(closed), Ok(()));
}

#[test]
fn a_close_that_was_applied_is_known_by_the_expiry() {
    let mut rig = Rig::connected();
    let closed = rig.close();
    rig.cut();
    rig.open();
    rig.answer_handshake(0, 0);
    assert_eq!(now(closed), Ok(()));
    assert_eq!(rig.states(), [SessionState::Disconnected, SessionState::Closed]);
}

#[test]
fn close_gives_up_after_its_timeout_and_says_so() {
    for server in ["silent", "gone"] {
        let mut rig = Rig::connected();
        let in_flight = rig.delete("/a");
        if server == "gone" {
            rig.cut();
        }
        let mut closed = rig.close();
        rig.pass(Duration::from_millis(4999));
        assert!(is_open(&mut closed));
        rig.pass(Duration::from_millis(1));
        let sent = server == "silent";
        assert_eq!(now(closed), Err(Error::ConnectionLoss { sent }));
        let expected =
            if sent { Error::Closed { sent: true } } else { Error::ConnectionLoss { sent: true } };
        assert_eq!(now(in_flight), Err(expected));
        assert_eq!(rig.states().last(), Some(&SessionState::Closed));
        rig.assert_ended();
    }
}

#[test]
fn close_before_the_first_connection_ends_at_once() {
    let mut rig = Rig::new();
    drop(rig.delete("/nobody waits"));
    assert_eq!(now(rig.close()), Ok(()));
    rig.assert_ended();
}

#[test]
fn close_waits_for_a_session_that_a_server_may_have_opened() {
    let mut rig = Rig::new();
    rig.open();
    let mut closed = rig.close();
    assert!(is_open(&mut closed));
    rig.accept(TIMEOUT);
    assert_eq!(rig.sent_opcodes(), [OpCode::CloseSession]);
    rig.reply_ok(1);
    assert_eq!(now(closed), Ok(()));

    let mut rig = Rig::new();
    rig.open();
    let closed = rig.close();
    rig.cut();
    assert_eq!(now(closed), Ok(()));
    assert_eq!(rig.states(), [SessionState::Closed]);
}

#[test]
fn close_sends_requests_that_wait_for_the_first_connection() {
    let mut rig = Rig::new();
    let answer = rig.delete("/a");
    let closed = rig.close();
    rig.connect();
    assert_eq!(rig.sent_opcodes(), [OpCode::Delete, OpCode::CloseSession]);
    rig.reply_ok(1);
    rig.reply_ok(2);
    assert_eq!((now(answer), now(closed)), (Ok(Response::Empty), Ok(())));

    let mut rig = Rig::new();
    let (answer, mut closed) = (rig.delete("/a"), rig.close());
    rig.pass(PATIENCE);
    assert_eq!(now(answer), Err(Error::NotConnected));
    rig.effects();
    rig.cut_attempt();
    assert!(closed.try_recv().unwrap().is_ok());
}

#[test]
fn the_last_handle_closes_the_session() {
    let mut rig = Rig::connected();
    rig.on_last_handle_dropped();
    assert_eq!(rig.sent_opcodes(), [OpCode::CloseSession]);
    rig.reply_ok(1);
    assert_eq!(rig.states(), [SessionState::Closed]);
    rig.assert_ended();
}

#[test]
fn expiry_by_the_server_fails_everything_and_is_final() {
    let mut rig = Rig::connected();
    let (answer, watch) = rig.watched(WatchPlan::Exists, "/w");
    rig.sent();
    rig.reply(1, 1, Err(ErrorCode::NoNode));
    drop(answer);
    rig.cut();
    let queued = rig.get("/a");
    let auth = rig.add_auth("digest");
    rig.open();
    rig.answer_handshake(0, 0);
    assert_eq!(
        rig.states(),
        [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Server)]
    );
    assert_eq!(now(queued), Err(Error::SessionExpired { sent: false }));
    assert_eq!(now(auth), Err(Error::SessionExpired { sent: false }));
    assert_eq!(*now(watch), Err(WatchEnded::SessionLost));
    rig.assert_ended();
    assert_eq!(now(rig.get("/a")), Err(Error::SessionExpired { sent: false }));
    assert_eq!(now(rig.add_auth("digest")), Err(Error::SessionExpired { sent: false }));
    assert_eq!(now(rig.close()), Ok(()));
}

#[test]
fn expiry_in_a_response_reports_which_requests_were_sent() {
    let mut rig = Rig::connected();
    let (first, second) = (rig.delete("/a"), rig.delete("/b"));
    rig.reply(1, 1, Err(ErrorCode::SessionExpired));
    assert_eq!(now(first), Err(Error::SessionExpired { sent: false }));
    assert_eq!(now(second), Err(Error::SessionExpired { sent: true }));
    assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Server)]);
    rig.assert_ended();
}

#[test]
fn expiry_while_closing_is_a_close() {
    let mut rig = Rig::connected();
    rig.cut();
    let by_clock = rig.close();
    rig.machine.closing.as_mut().unwrap().deadline += TIMEOUT;
    rig.pass(TIMEOUT);
    assert_eq!(now(by_clock), Err(Error::ConnectionLoss { sent: false }));
    assert_eq!(rig.states(), [SessionState::Disconnected, SessionState::Closed]);
}

#[test]
fn refused_credentials_end_the_client() {
    let mut rig = Rig::connected();
    let (auth, answer) = (rig.add_auth("digest"), rig.delete("/a"));
    rig.reply(XID_AUTH, 0, Err(ErrorCode::AuthFailed));
    assert_eq!(now(auth), Err(Error::AuthFailed { sent: false }));
    assert_eq!(now(answer), Err(Error::AuthFailed { sent: true }));
    assert_eq!(rig.states(), [SessionState::AuthFailed]);
    rig.assert_ended();
}

#[test]
fn credentials_refused_while_closing_leave_the_session_open() {
    let mut rig = Rig::connected();
    let (_auth, closed) = (rig.add_auth("digest"), rig.close());
    rig.reply(XID_AUTH, 0, Err(ErrorCode::AuthFailed));
    assert_eq!(now(closed), Err(Error::ConnectionLoss { sent: true }));
    assert_eq!(rig.states(), [SessionState::Closed]);
}
