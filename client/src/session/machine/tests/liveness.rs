//! Connecting, pings, silence, and the time until which a session is considered alive.

use super::super::LATE;
use super::*;
use crate::connector::ConnectionFailure;

#[test]
fn a_handshake_opens_a_session_and_a_reconnect_resumes_it() {
    let mut rig = Rig::new();
    let request = rig.open();
    assert_eq!((request.session_id, request.last_zxid_seen, request.timeout), (0, 0, 9000));
    assert_eq!(request.password.as_deref(), Some(&[0; 16][..]));
    rig.accept(Duration::from_secs(6));
    assert_eq!(rig.states(), [SessionState::Connected(info(Duration::from_secs(6)))]);

    let answer = rig.delete("/a");
    rig.sent();
    rig.reply(1, 77, Ok(Response::Empty));
    assert_eq!(now(answer), Ok(Response::Empty));
    rig.cut();
    let request = rig.open();
    assert_eq!((request.session_id, request.last_zxid_seen, request.timeout), (SESSION, 77, 9000));
    assert_eq!(request.password.as_deref(), Some(&PASSWORD[..]));
    rig.accept(TIMEOUT);
    assert_eq!(rig.states(), [SessionState::Disconnected, SessionState::Connected(info(TIMEOUT))]);
}

#[test]
fn a_ping_is_sent_after_a_third_of_the_timeout() {
    let mut rig = Rig::connected();
    assert_eq!(rig.next_timer(), TIMEOUT / 3);
    rig.pass(TIMEOUT / 3 - Duration::from_millis(1));
    assert_eq!(rig.sent(), []);
    let _answer = rig.get("/a");
    assert_eq!(rig.sent_opcodes(), [OpCode::GetData]);
    assert_eq!(rig.next_timer(), TIMEOUT / 3);
    rig.reply(1, 1, Err(ErrorCode::NoNode));
    rig.pass(TIMEOUT / 3);
    assert_eq!(rig.sent(), [Sent { xid: XID_PING, request: Request::Ping }]);
}

#[test]
fn pings_go_out_every_10_s_at_least() {
    let mut rig = Rig::new();
    rig.open();
    rig.accept(Duration::from_secs(120));
    assert_eq!(rig.next_timer(), Duration::from_secs(10));
}

#[test]
fn a_server_that_responds_to_pings_is_never_left() {
    let mut rig = Rig::connected();
    for _ in 0..100 {
        rig.pass(TIMEOUT / 3);
        assert_eq!(rig.sent_opcodes(), [OpCode::Ping]);
        rig.reply_ok(XID_PING);
    }
    assert_eq!(rig.states(), []);
}

#[test]
fn silence_for_two_thirds_of_the_timeout_is_connection_loss() {
    for busy in [false, true] {
        let mut rig = Rig::connected();
        let answer = busy.then(|| rig.get("/a"));
        rig.pass(TIMEOUT * 2 / 3 - Duration::from_millis(1));
        assert_eq!(rig.states(), []);
        rig.pass(Duration::from_millis(1));
        assert_eq!(rig.states(), [SessionState::Disconnected]);
        if let Some(answer) = answer {
            assert_eq!(now(answer), Err(Error::ConnectionLoss { sent: true }));
        }
    }
}

#[test]
fn events_without_responses_do_not_keep_a_connection() {
    let mut rig = Rig::connected();
    let mut silence = Duration::ZERO;
    while rig.states().is_empty() {
        assert!(silence <= TIMEOUT * 2 / 3);
        rig.event(EventType::NodeDataChanged, "/a");
        rig.pass(Duration::from_millis(500));
        silence += Duration::from_millis(500);
    }
    assert_eq!(silence, TIMEOUT * 2 / 3);
}

#[test]
fn bytes_that_never_become_a_frame_do_not_keep_a_connection() {
    let mut rig = Rig::connected();
    let mut buf = BytesMut::from(&[0, 0, 16, 0][..]);
    for _ in 0..6 {
        rig.pass(Duration::from_secs(1));
        buf.extend_from_slice(b"x");
        rig.machine.on_read(&mut buf, rig.now);
    }
    assert_eq!(rig.states(), [SessionState::Disconnected]);
}

#[test]
fn an_attempt_has_one_second_and_with_a_session_its_share() {
    let short = Duration::from_secs(1);
    let mut rig = Rig::with("a:1,b:1,c:1,d:1,e:1", |builder| builder.session_timeout(short));
    for _ in 0..7 {
        rig.until_connect();
        rig.connected_to();
        assert_eq!(rig.next_timer(), short);
        rig.pass(Duration::from_millis(999));
        assert_eq!(rig.effects(), []);
        rig.pass(Duration::from_millis(1));
    }
    rig.open();
    rig.accept(short);
    rig.cut();
    // Now the session can be lost while an attempt hangs.
    rig.until_connect();
    rig.connected_to();
    assert_eq!(rig.next_timer(), short / 5);
}

#[test]
fn a_silent_server_that_grants_weeks_is_left_in_a_minute() {
    const GRANTED: Duration = Duration::from_millis(i32::MAX as u64);
    let minute = Duration::from_secs(60);
    let hours = Duration::from_secs(2 * 3600);
    for (asked, judged) in [(TIMEOUT, minute), (hours, hours)] {
        let patient = DisconnectedPolicy::Wait(hours);
        let mut rig =
            Rig::with("h:1", |builder| builder.session_timeout(asked).disconnected(patient));
        rig.open();
        rig.accept(GRANTED);
        assert_eq!(rig.states(), [SessionState::Connected(info(GRANTED))]);
        let answer = rig.get("/a");
        rig.pass(judged * 2 / 3 - Duration::from_millis(1));
        assert_eq!(rig.states(), []);
        rig.pass(Duration::from_millis(1));
        assert_eq!(rig.states(), [SessionState::Disconnected]);
        assert_eq!(now(answer), Err(Error::ConnectionLoss { sent: true }));
        // A hanging attempt is abandoned too.
        rig.until_connect();
        assert_eq!(rig.next_timer(), judged / 3);
        // The session is over at the time that the server announced.
        rig.pass(Duration::from_secs(3600));
        assert_eq!(rig.states(), []);
        assert_eq!(rig.machine.expires_at(), Some(rig.machine.times.seen_alive + GRANTED));
    }
}

#[test]
fn an_unrequested_minute_is_granted_without_a_warning() {
    let minute = Duration::from_secs(60);
    let mut rig = Rig::new();
    rig.open();
    rig.accept(minute);
    rig.pass(minute * 2 / 3 - Duration::from_millis(1));
    assert_eq!(rig.states(), [SessionState::Connected(info(minute))]);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.states(), [SessionState::Disconnected]);
}

#[test]
fn the_clock_ends_a_session_a_timeout_after_the_last_request() {
    let mut rig = Rig::connected();
    rig.pass(Duration::from_secs(1));
    let _answered = rig.get("/a");
    rig.pass(Duration::from_secs(1));
    rig.reply(1, 1, Err(ErrorCode::NoNode));
    let _unanswered = rig.get("/b");
    rig.cut();
    assert_eq!(rig.states(), [SessionState::Disconnected]);
    // One second has passed since `/a` was sent.
    rig.pass(TIMEOUT - Duration::from_millis(1001));
    assert_eq!(rig.states(), []);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Clock)]);
    rig.pass(TIMEOUT);
    rig.assert_ended();
}

#[test]
fn a_ping_response_and_a_handshake_prolong_the_session() {
    let mut rig = Rig::connected();
    rig.pass(TIMEOUT / 3);
    rig.reply_ok(XID_PING);
    rig.cut();
    rig.pass(TIMEOUT - Duration::from_millis(1));
    assert_eq!(rig.states(), [SessionState::Disconnected]);

    let mut rig = Rig::connected();
    rig.pass(Duration::from_secs(5));
    rig.cut();
    rig.connect();
    rig.cut();
    rig.states();
    rig.pass(TIMEOUT - Duration::from_millis(100));
    assert_eq!(rig.states(), []);
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Clock)]);
}

#[test]
fn a_slow_handshake_counts_from_when_it_began() {
    let mut rig = Rig::with("h:1", |builder| builder.disconnected(DisconnectedPolicy::FailFast));
    rig.open();
    rig.pass(Duration::from_secs(2));
    rig.accept(TIMEOUT);
    rig.cut();
    rig.pass(TIMEOUT - Duration::from_millis(2001));
    assert_eq!(rig.states(), [SessionState::Connected(info(TIMEOUT)), SessionState::Disconnected]);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Clock)]);
}

#[test]
fn old_responses_are_no_sign_of_life_a_new_connection_is() {
    let mut rig = Rig::connected();
    // A burst that takes the server longer than the session timeout. It is not known if the server
    // received the pings behind it.
    let answers: Vec<_> = (0..40).map(|_| rig.get("/a")).collect();
    let step = TIMEOUT / 12;
    for xid in 1..=9 {
        rig.pass(step);
        rig.reply(xid, 1, Err(ErrorCode::NoNode));
    }
    assert_eq!(rig.states(), []);
    rig.pass(step);
    assert_eq!(rig.states(), [SessionState::Disconnected]);
    let outcomes: Vec<_> = answers.into_iter().map(now).collect();
    let (told, lost) = outcomes.split_at(9);
    assert!(told.iter().all(|answer| *answer == Err(Error::Refused(ErrorCode::NoNode))));
    assert!(lost.iter().all(|answer| *answer == Err(Error::ConnectionLoss { sent: true })));
    rig.open();
    rig.accept(TIMEOUT);
    rig.pass(TIMEOUT / 4);
    assert_eq!(rig.states(), [SessionState::Connected(info(TIMEOUT))]);
}

#[test]
fn late_responses_to_timely_requests_keep_the_session() {
    let mut rig = Rig::connected();
    for xid in 1..20 {
        let answer = rig.delete("/a");
        rig.pass(TIMEOUT * 40 / 100);
        rig.reply(xid, i64::from(xid), Ok(Response::Empty));
        assert_eq!(now(answer), Ok(Response::Empty));
    }
    assert_eq!(rig.states(), []);
}

#[test]
fn without_a_session_nothing_expires() {
    let mut rig = Rig::new();
    rig.pass(TIMEOUT * 10);
    assert_eq!(rig.states(), []);
    assert!(rig.effects().len() > 10);
}

#[test]
fn a_late_timer_handles_everything_that_is_due() {
    let mut rig = Rig::connected();
    // The process was suspended.
    rig.now += TIMEOUT * 3;
    while rig.machine.next_timer().is_some_and(|timer| timer <= rig.now) {
        rig.machine.on_timer(rig.now);
    }
    assert_eq!(rig.states(), [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Clock)]);
    rig.pass(TIMEOUT);
    rig.assert_ended();
}

#[test]
fn a_handshake_response_that_is_read_late_counts() {
    let mut rig = Rig::connected();
    rig.cut();
    rig.open();
    rig.now += TIMEOUT * 3;
    rig.accept(TIMEOUT);
    assert_eq!(rig.states(), [SessionState::Disconnected, SessionState::Connected(info(TIMEOUT))]);
}

#[test]
fn any_negotiated_timeout_is_survived() {
    for millis in [1, 2, 3, i32::MAX] {
        let mut rig = Rig::new();
        rig.open();
        rig.answer_handshake(millis, SESSION);
        assert_eq!(rig.states().len(), 1);
        rig.pass(Duration::from_millis(10));
        assert!(rig.sent().len() <= 3);
    }
}

#[test]
fn forty_transitions_are_forty_states_in_order() {
    let mut rig = Rig::new();
    for _ in 0..20 {
        rig.connect();
        rig.cut();
    }
    let states = rig.states();
    assert_eq!(states.len(), 40);
    for pair in states.chunks(2) {
        assert_eq!(pair, [SessionState::Connected(info(TIMEOUT)), SessionState::Disconnected]);
    }
}

#[test]
fn a_server_that_cuts_every_connection_is_asked_less_often() {
    let mut rig = Rig::new();
    let start = rig.now;
    for _ in 0..10 {
        rig.connect();
        rig.cut();
    }
    assert!(rig.now - start > Duration::from_secs(5), "{:?}", rig.now - start);
    // One response shows that the server works.
    rig.connect();
    let _answer = rig.get("/a");
    rig.reply(1, 1, Err(ErrorCode::NoNode));
    rig.pass(Duration::from_secs(1));
    rig.cut();
    assert_eq!(rig.next_timer(), Duration::ZERO);
}

/// Found by the simulation: the server ended the session while the client, satisfied by a late
/// response, still waited.
#[test]
fn a_late_response_prolongs_the_session_from_its_request() {
    let mut rig = Rig::connected();
    let answer = rig.delete("/a");
    rig.pass(TIMEOUT * 6 / 10);
    rig.reply(1, 1, Ok(Response::Empty));
    assert!(now(answer).is_ok());
    rig.pass(TIMEOUT * 2 / 10);
    assert_eq!(rig.states(), []);
    rig.pass(TIMEOUT * 2 / 10 - Duration::from_millis(1));
    assert_eq!(rig.states(), [SessionState::Disconnected]);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.states(), [SessionState::Expired(ExpiredBy::Clock)]);
}

/// Returns the last failure of a connection, without the name of the server.
fn failure(rig: &Rig) -> (String, Option<Duration>) {
    let failure = rig.machine.states.failure().expect("a failure");
    let failure = ConnectionFailure::of(&failure).expect("of a connection");
    (failure.to_string(), failure.stalled())
}

/// Stops the process for a time, and then lets it do all pending work.
fn stall(rig: &mut Rig, time: Duration) {
    rig.now += time;
    rig.machine.on_wake(rig.now);
    while rig.machine.next_timer().is_some_and(|timer| timer <= rig.now) {
        rig.machine.on_timer(rig.now);
    }
}

const STALLED: &str = "its runtime was blocked (by a call outside spawn_blocking?), or the process or machine was suspended";

#[test]
fn a_process_that_did_not_run_does_not_blame_the_server() {
    let mut rig = Rig::connected();
    // A ping was due after 3 s.
    stall(&mut rig, Duration::from_secs(7));
    assert_eq!(rig.states(), [SessionState::Disconnected]);
    let told =
        format!("h:1: no response was read in time; this process did not run for 4.0s: {STALLED}");
    assert_eq!(failure(&rig), (told, Some(Duration::from_secs(4))));

    // A server may be faster, and close the connection first.
    let mut rig = Rig::connected();
    rig.now += TIMEOUT * 2;
    rig.machine.on_wake(rig.now);
    rig.machine.on_io_error(rig.now, io::ErrorKind::UnexpectedEof.into());
    let told =
        format!("h:1: unexpected end of file; this process did not run for 15.0s: {STALLED}");
    assert_eq!(failure(&rig), (told, Some(Duration::from_secs(15))));
}

#[test]
fn a_server_that_is_silent_to_a_running_process_is_blamed() {
    let silent = ("h:1: the server is silent".to_owned(), None);
    let mut rig = Rig::connected();
    rig.pass(TIMEOUT * 2 / 3);
    assert_eq!(failure(&rig), silent);

    // A stall that is too short to matter, and a stall that ended before the silence began.
    for (stalled, blamed) in
        [(TIMEOUT / LATE - Duration::from_millis(1), false), (TIMEOUT / LATE, true)]
    {
        let mut rig = Rig::connected();
        stall(&mut rig, TIMEOUT / 3 + stalled);
        rig.pass(TIMEOUT / 3 - stalled);
        assert_eq!(failure(&rig).1, blamed.then_some(stalled));
        let mut answered = Rig::connected();
        stall(&mut answered, TIMEOUT / 3 + stalled);
        answered.reply_ok(XID_PING);
        answered.pass(TIMEOUT * 2 / 3);
        assert_eq!(failure(&answered), silent);
    }
}
