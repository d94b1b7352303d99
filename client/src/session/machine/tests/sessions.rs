//! Special sessions: resumed, detached, on read-only servers, moved, and ended after the fact.

use zk_curator_proto::records::{DataResponse, MultiResult};

use super::*;
use crate::SessionCredentials;

fn accept_read_only(rig: &mut Rig, session_id: i64) {
    let timeout = i32::try_from(TIMEOUT.as_millis()).unwrap();
    let password = Some(Bytes::from_static(PASSWORD));
    rig.receive(|body| {
        ConnectResponse {
            timeout,
            session_id,
            password,
            read_only: true,
            ..ConnectResponse::default()
        }
        .encode(body);
    });
}

fn read_only_rig() -> Rig {
    Rig::with("a:1,b:1,c:1", |builder| builder.read_only(true))
}

/// Returns a machine whose session its own clock has ended, and that still tries to end it on the
/// server.
fn expired_by_clock() -> Rig {
    let mut rig = Rig::connected();
    rig.cut();
    rig.pass(TIMEOUT);
    assert_eq!(rig.states(), [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Clock)]);
    rig
}

fn detach(rig: &mut Rig) -> oneshot::Receiver<Result<(), Error>> {
    let (done, left) = oneshot::channel();
    rig.command(SessionCommand::Detach { done });
    left
}

#[test]
fn a_session_is_taken_up_again_with_its_password_and_zxid() {
    let credentials =
        SessionCredentials::new(SessionId::new(SESSION), Bytes::from_static(PASSWORD), 99);
    let mut rig = Rig::with("h:1", |builder| builder.resume(credentials.clone()));
    let request = rig.open();
    assert_eq!((request.session_id, request.last_zxid_seen), (SESSION, 99));
    assert_eq!(request.password.as_deref(), Some(&PASSWORD[..]));
    rig.accept(TIMEOUT);
    assert_eq!(rig.states(), [SessionState::Connected(info(TIMEOUT))]);
    assert!(!format!("{credentials:?}").contains("letters"), "the password is shown");

    let mut rig = Rig::with("h:1", |builder| builder.resume(credentials));
    rig.open();
    rig.answer_handshake(0, 0);
    assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Server)]);
    rig.assert_ended();
}

#[test]
fn detaching_waits_for_the_responses_and_sends_no_close() {
    let mut rig = Rig::connected();
    let mut answer = rig.get("/a");
    let mut left = detach(&mut rig);
    let mut late = rig.get("/b");
    assert_eq!(late.try_recv().unwrap(), Err(Error::Closed { sent: false }));
    assert!(left.try_recv().is_err(), "a response is missing");
    assert_eq!(rig.sent_opcodes(), [OpCode::GetData]);
    rig.reply(1, 7, Ok(Response::Data(DataResponse::default())));
    assert!(answer.try_recv().unwrap().is_ok());
    assert_eq!(left.try_recv().unwrap(), Ok(()));
    assert_eq!(rig.states(), [SessionState::Detached]);
    assert_eq!(rig.sent_opcodes(), []);
    rig.assert_ended();
}

#[test]
fn detaching_waits_only_for_the_last_response() {
    // The removal of an unused watch.
    let mut rig = Rig::connected();
    let (answer, watch) = rig.watched(WatchPlan::Data, "/w");
    rig.reply(1, 1, Ok(Response::Data(DataResponse::default())));
    assert!(now(answer).is_ok());
    drop(watch);
    rig.command(SessionCommand::ForgetWatch { path: "/w".into() });
    let mut left = detach(&mut rig);
    assert_eq!(rig.sent_opcodes(), [OpCode::GetData, OpCode::RemoveWatches]);
    assert!(is_open(&mut left));
    rig.reply_ok(2);
    assert_eq!(now(left), Ok(()));
    assert_eq!(rig.states(), [SessionState::Detached]);

    // A request that reaches no server in time.
    let mut rig = Rig::with("h:1", |builder| builder.close_timeout(2 * PATIENCE));
    rig.connect();
    rig.states();
    rig.cut();
    let answer = rig.get("/a");
    let mut left = detach(&mut rig);
    assert!(is_open(&mut left));
    rig.pass(PATIENCE);
    assert_eq!(now(answer), Err(Error::NotConnected));
    assert_eq!(now(left), Ok(()));
    assert_eq!(rig.states(), [SessionState::Disconnected, SessionState::Detached]);
    rig.assert_ended();
}

#[test]
fn detaching_without_a_connection_or_responses_ends_in_time() {
    let mut rig = Rig::connected();
    rig.cut();
    let mut left = detach(&mut rig);
    assert_eq!(left.try_recv().unwrap(), Ok(()));
    assert_eq!(rig.states(), [SessionState::Disconnected, SessionState::Detached]);

    let mut rig = Rig::with("h:1", |builder| builder.close_timeout(Duration::from_secs(1)));
    rig.connect();
    let mut answer = rig.get("/a");
    let mut left = detach(&mut rig);
    rig.pass(Duration::from_secs(1));
    assert_eq!(left.try_recv().unwrap(), Ok(()));
    assert_eq!(answer.try_recv().unwrap(), Err(Error::Closed { sent: true }));
    rig.assert_ended();
}

#[test]
fn a_session_that_our_clock_has_ended_is_closed_at_the_server() {
    let mut rig = expired_by_clock();
    let mut refused = rig.get("/a");
    assert_eq!(refused.try_recv().unwrap(), Err(Error::SessionExpired { sent: false }));
    assert_eq!(rig.open().session_id, SESSION);
    rig.accept(TIMEOUT);
    assert_eq!(rig.sent_opcodes(), [OpCode::CloseSession]);
    rig.reply(1, 9, Ok(Response::Empty));
    rig.assert_ended();
    assert_eq!(rig.states(), [], "the end was said once");
}

#[test]
fn no_farewell_goes_to_an_agreeing_server_or_is_tried_forever() {
    let mut rig = expired_by_clock();
    rig.open();
    rig.answer_handshake(0, 0);
    rig.assert_ended();

    let mut rig = expired_by_clock();
    rig.pass(TIMEOUT);
    rig.assert_ended();

    let mut rig = expired_by_clock();
    rig.on_last_handle_dropped();
    rig.assert_ended();
}

#[test]
fn closing_a_session_ended_by_our_clock_waits_for_the_farewell() {
    let mut rig = expired_by_clock();
    let mut closed = rig.close();
    assert!(closed.try_recv().is_err());
    rig.open();
    rig.accept(TIMEOUT);
    rig.sent();
    rig.reply(1, 9, Ok(Response::Empty));
    assert_eq!(closed.try_recv().unwrap(), Ok(()));
    rig.assert_ended();
}

#[test]
fn a_read_only_server_will_do_until_a_writable_one_is_found() {
    let mut rig = read_only_rig();
    assert!(rig.open().read_only);
    accept_read_only(&mut rig, 0x99);
    assert_eq!(
        rig.states(),
        [SessionState::ConnectedReadOnly(SessionInfo::new(SessionId::new(0x99), TIMEOUT))]
    );
    let mut looked = Vec::new();
    while looked.len() < 3 {
        rig.pass(rig.next_timer());
        looked.extend(rig.effects().into_iter().filter_map(|effect| match effect {
            SessionEffect::Look(host) => Some(host),
            _ => None,
        }));
    }
    assert_ne!(looked[0], looked[1], "both others are looked at");
    rig.machine.on_looked(&looked[1], false, rig.now);
    assert_eq!(rig.states(), []);
    rig.machine.on_looked(&looked[1], true, rig.now);
    assert_eq!(rig.states(), [SessionState::Disconnected]);
    let next = loop {
        if let Some(host) = rig.effects().into_iter().find_map(|effect| match effect {
            SessionEffect::Connect(host) => Some(host),
            _ => None,
        }) {
            break host;
        }
        rig.pass(rig.next_timer());
    };
    assert_eq!(next, looked[1]);
    rig.host = next;
    // The session of the read-only server was known only to that server.
    rig.connected_to();
    let body = frame::take(rig.machine.output(), usize::MAX).unwrap().unwrap();
    let request = ConnectRequest::decode(&mut Decoder::new(body), "connect request").unwrap();
    assert_eq!(request.session_id, 0);
    rig.accept(TIMEOUT);
    assert_eq!(rig.states(), [SessionState::Connected(info(TIMEOUT))]);
}

#[test]
fn a_read_only_server_keeps_no_ensemble_session_alive() {
    let mut rig = read_only_rig();
    rig.connect();
    rig.states();
    rig.cut();
    assert_eq!(rig.open().session_id, SESSION);
    accept_read_only(&mut rig, SESSION);
    rig.states();
    // The server responds all the time, but the ensemble does not see the session.
    for _ in 0..8 {
        rig.pass(TIMEOUT / 8);
        while let Some(ping) = rig.sent().iter().find(|sent| sent.request == Request::Ping) {
            rig.reply_ok(ping.xid);
        }
    }
    assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Clock)]);
}

/// Servers before 3.7 respond.
#[test]
fn a_read_only_server_cannot_end_a_session_of_the_ensemble() {
    let mut rig = read_only_rig();
    rig.connect();
    rig.cut();
    rig.open();
    accept_read_only(&mut rig, SESSION);
    let mut closed = rig.close();
    let close = rig.sent().pop().unwrap();
    rig.reply(close.xid, 9, Ok(Response::Empty));
    assert_eq!(closed.try_recv().unwrap(), Err(Error::ConnectionLoss { sent: true }));
    rig.assert_ended();
}

#[test]
fn the_first_server_has_to_be_reached_before_the_deadline() {
    let mut rig = Rig::with("h:1", |builder| builder.connect_deadline(Duration::from_secs(2)));
    let mut waiting = rig.get("/a");
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.states(), [SessionState::Unreachable]);
    assert_eq!(waiting.try_recv().unwrap(), Err(Error::NotConnected));
    rig.assert_ended();

    let mut rig = Rig::with("h:1", |builder| builder.connect_deadline(Duration::from_secs(2)));
    rig.connect();
    rig.cut();
    rig.pass(Duration::from_secs(3));
    assert!(!rig.states().contains(&SessionState::Unreachable));
}

#[test]
fn a_client_of_an_unlisted_server_moves_with_its_session() {
    let mut rig = Rig::connected();
    let hosts = "x:1,y:1".parse::<ConnectString>().unwrap().hosts;
    rig.command(SessionCommand::ReplaceHosts { hosts: hosts.clone() });
    assert_eq!(rig.states(), [SessionState::Disconnected]);
    rig.pass(Duration::ZERO);
    let effects = rig.effects();
    let Some(SessionEffect::Connect(host)) = effects.last() else { panic!("{effects:?}") };
    assert!(hosts.contains(host));
}

/// The time counts from the loss of the connection, not from each later attempt, and is never
/// longer than the timeout.
#[test]
fn a_session_is_given_up_after_its_share_of_the_timeout() {
    for (percent, expected) in
        [(1, TIMEOUT / 100), (30, TIMEOUT * 3 / 10), (99, TIMEOUT * 99 / 100)]
    {
        let mut rig = Rig::with("h:1", |builder| builder.expiration_percent(percent));
        rig.open();
        rig.accept(TIMEOUT);
        rig.cut();
        assert_eq!(
            rig.states(),
            [SessionState::Connected(info(TIMEOUT)), SessionState::Disconnected]
        );
        rig.pass(expected - Duration::from_millis(1));
        assert_eq!(rig.states(), []);
        let mut waiting = rig.get("/a");
        rig.pass(Duration::from_millis(1));
        assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Clock)]);
        assert_eq!(waiting.try_recv().unwrap(), Err(Error::SessionExpired { sent: false }));
    }
}

#[test]
fn another_session_is_ended_and_ours_has_expired() {
    let mut rig = Rig::connected();
    for last in ["response", "close", "silence"] {
        rig.cut();
        rig.open();
        rig.answer_handshake(9000, SESSION + 1);
        assert_eq!(rig.sent_opcodes(), [OpCode::CloseSession]);
        assert_eq!(rig.states(), [SessionState::Disconnected]);
        match last {
            "response" => rig.reply_ok(1),
            "close" => rig.machine.on_io_error(rig.now, io::ErrorKind::UnexpectedEof.into()),
            _ => rig.pass(rig.next_timer()),
        }
        assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Server)]);
        rig.assert_ended();
        rig = Rig::connected();
    }
}

#[test]
fn another_session_of_a_read_only_server_proves_nothing() {
    let mut rig = read_only_rig();
    rig.connect();
    rig.states();
    rig.cut();
    rig.open();
    accept_read_only(&mut rig, SESSION + 1);
    assert_eq!(rig.sent_opcodes(), [OpCode::CloseSession]);
    rig.reply_ok(1);
    assert_eq!(rig.states(), [SessionState::Disconnected]);
    assert_eq!(rig.connect().session_id, SESSION);
}

#[test]
fn another_session_agrees_with_our_clock() {
    let mut rig = expired_by_clock();
    rig.open();
    rig.answer_handshake(9000, SESSION + 1);
    assert_eq!(rig.sent_opcodes(), [OpCode::CloseSession]);
    rig.reply_ok(1);
    rig.assert_ended();
    assert_eq!(rig.states(), []);
}

/// Servers before 3.6 refuse only transactions, and keep the connection.
#[test]
fn a_moved_session_is_resumed_on_another_connection() {
    let moved = MultiResult::Error(Some(ErrorCode::SessionMoved));
    for response in [Ok(Response::Multi(vec![moved])), Err(ErrorCode::SessionMoved)] {
        let mut rig = Rig::with("a:1,b:1", |builder| builder);
        rig.connect();
        rig.states();
        let host = rig.host.clone();
        let answers = [(); 2].map(|()| rig.request(Request::Multi(Vec::new())));
        let xids: Vec<_> = rig.sent().iter().map(|sent| sent.xid).collect();
        // The responses that have arrived are taken first.
        let mut buf = BytesMut::new();
        for xid in xids {
            frame::put(&mut buf, |out| {
                let err = response.as_ref().err().map_or(0, |code| code.code());
                ReplyHeader { xid, zxid: 9, err }.encode(out);
                if let Ok(response) = &response {
                    response.encode_body(out);
                }
            });
        }
        rig.receive_bytes(buf);
        rig.assert_disconnected();
        for answer in answers {
            assert_eq!(now(answer), response.clone().map_err(Error::Refused));
        }
        assert_eq!(rig.connect().session_id, SESSION);
        assert_ne!(rig.host, host);
    }
}
