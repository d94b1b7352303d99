//! Requests: their order, and their outcomes.

use super::*;

#[test]
fn requests_and_their_responses_are_in_order() {
    let mut rig = Rig::connected();
    let (first, mut second) = (rig.delete("/a"), rig.delete("/b"));
    let sent = rig.sent();
    assert_eq!(sent.iter().map(|sent| sent.xid).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(sent[1].request.path(), Some("/b"));
    rig.reply(1, 5, Ok(Response::Empty));
    assert_eq!(now(first), Ok(Response::Empty));
    assert!(is_open(&mut second));
    rig.reply(2, 6, Err(ErrorCode::NotEmpty));
    assert_eq!(now(second), Err(Error::Refused(ErrorCode::NotEmpty)));
}

#[test]
fn xids_wrap_to_one_and_stay_positive() {
    let mut rig = Rig::connected();
    rig.machine.last_xid = i32::MAX - 1;
    let answers = [rig.delete("/a"), rig.delete("/b")];
    assert_eq!(rig.sent().iter().map(|sent| sent.xid).collect::<Vec<_>>(), [i32::MAX, 1]);
    rig.reply_ok(i32::MAX);
    rig.reply_ok(1);
    assert!(answers.into_iter().all(|answer| now(answer).is_ok()));
}

#[test]
fn connection_loss_fails_sent_requests_and_keeps_unsent_ones() {
    let mut rig = Rig::connected();
    let in_flight = rig.delete("/a");
    rig.sent();
    rig.cut();
    assert_eq!(now(in_flight), Err(Error::ConnectionLoss { sent: true }));
    let mut queued = rig.delete("/b");
    assert!(is_open(&mut queued));
    rig.connect();
    let sent = rig.sent();
    assert_eq!(sent.iter().map(|sent| sent.request.path()).collect::<Vec<_>>(), [Some("/b")]);
    rig.reply_ok(sent[0].xid);
    assert_eq!(now(queued), Ok(Response::Empty));
}

#[test]
fn a_queued_request_that_is_given_up_leaves_the_queue() {
    let mut rig = Rig::connected();
    rig.cut();
    let (first, mut given_up, last) = (rig.delete("/a"), rig.delete("/b"), rig.delete("/c"));
    let dropped = rig.delete("/d");
    assert_eq!((rig.machine.queued.len(), rig.queue.waiting().0), (4, 4));
    assert!(given_up.0.withdraw());
    drop(dropped);
    assert_eq!(rig.queue.waiting().0, 2);
    rig.take();
    assert_eq!(rig.machine.queued.len(), 2);
    rig.connect();
    let paths: Vec<_> =
        rig.sent().iter().map(|sent| sent.request.path().map(str::to_owned)).collect();
    assert_eq!(paths, [Some("/a".to_owned()), Some("/c".to_owned())]);
    rig.reply_ok(1);
    rig.reply_ok(2);
    assert!(now(first).is_ok() && now(last).is_ok());
    assert_eq!(rig.queue.waiting(), (0, 0));
}

#[test]
fn detaching_does_not_wait_for_a_request_that_was_given_up() {
    let mut rig = Rig::connected();
    rig.cut();
    let mut given_up = rig.delete("/a");
    let (done, detached) = oneshot::channel();
    rig.command(SessionCommand::Detach { done });
    rig.states();
    assert!(given_up.0.withdraw());
    rig.take();
    assert_eq!(now(detached), Ok(()));
    assert_eq!(rig.states(), [SessionState::Detached]);
}

#[test]
fn the_state_is_published_before_the_requests_fail() {
    let mut rig = Rig::connected();
    let answer = rig.delete("/a");
    rig.cut();
    assert_eq!(now(answer), Err(Error::ConnectionLoss { sent: true }));
    assert_eq!(rig.states(), [SessionState::Disconnected]);
}

#[test]
fn bytes_of_a_lost_connection_do_not_leak_into_the_next() {
    let mut rig = Rig::connected();
    let _answer = rig.delete("/a");
    rig.machine.output().advance(7);
    rig.cut();
    rig.connect();
    assert_eq!(rig.sent(), []);
}

#[test]
fn queued_requests_fail_at_their_own_deadlines() {
    let mut rig = Rig::new();
    let first = rig.get("/a");
    rig.pass(Duration::from_secs(1));
    let mut second = rig.get("/b");
    rig.pass(PATIENCE - Duration::from_secs(1));
    assert_eq!(now(first), Err(Error::NotConnected));
    assert!(is_open(&mut second));
    rig.pass(Duration::from_secs(1));
    assert_eq!(now(second), Err(Error::NotConnected));
    assert_eq!(rig.queue.waiting(), (0, 0));
}

#[test]
fn patience_without_end_is_no_overflow() {
    let mut rig = Rig::with("h:1", |builder| {
        builder.disconnected(DisconnectedPolicy::Wait(Duration::MAX)).close_timeout(Duration::MAX)
    });
    let mut answer = rig.get("/a");
    rig.pass(Duration::from_secs(3600));
    assert!(is_open(&mut answer));
    rig.effects();
    rig.cut_attempt();
    rig.connect();
    assert_eq!(rig.sent_opcodes(), [OpCode::GetData]);
    rig.cut();
    let mut closed = rig.close();
    rig.pass(TIMEOUT / 2);
    assert!(is_open(&mut closed));
}

#[test]
fn a_dropped_request_is_not_sent_after_a_reconnect() {
    let mut rig = Rig::new();
    let kept = rig.delete("/kept");
    drop(rig.delete("/dropped"));
    rig.connect();
    let sent = rig.sent();
    assert_eq!(sent.iter().map(|sent| sent.request.path()).collect::<Vec<_>>(), [Some("/kept")]);
    drop(kept);
}

#[test]
fn fail_fast_fails_at_once_without_a_connection() {
    let mut rig = Rig::with("h:1", |builder| builder.disconnected(DisconnectedPolicy::FailFast));
    assert_eq!(now(rig.get("/a")), Err(Error::NotConnected));
    rig.open();
    assert_eq!(now(rig.get("/a")), Err(Error::NotConnected));
    rig.accept(TIMEOUT);
    let in_flight = rig.get("/a");
    rig.cut();
    assert_eq!(now(in_flight), Err(Error::ConnectionLoss { sent: true }));
    assert_eq!(now(rig.get("/a")), Err(Error::NotConnected));
}

#[test]
fn identities_go_before_watches_and_watches_before_requests() {
    let mut rig = Rig::connected();
    let _auth = rig.add_auth("digest");
    let (_answer, _watch) = rig.watched(WatchPlan::Data, "/w");
    rig.sent();
    rig.reply_ok(XID_AUTH);
    rig.reply(1, 9, Ok(Response::Data(zk_curator_proto::records::DataResponse::default())));
    rig.cut();
    let _queued = rig.delete("/a");
    // Added after the request was queued, yet sent before it.
    let _late = rig.add_auth("ip");
    rig.connect();
    assert_eq!(
        rig.sent_opcodes(),
        [OpCode::Auth, OpCode::Auth, OpCode::SetWatches, OpCode::Delete]
    );
}

#[test]
fn an_unreadable_response_fails_only_its_request() {
    let mut rig = Rig::connected();
    let (bad, good) = (rig.get("/a"), rig.delete("/b"));
    rig.receive(|out| {
        ReplyHeader { xid: 1, zxid: 1, err: 0 }.encode(out);
        out.i32(1_000_000);
    });
    assert!(matches!(now(bad), Err(Error::Malformed(_))));
    rig.reply_ok(2);
    assert_eq!(now(good), Ok(Response::Empty));
    assert_eq!(rig.states(), []);
}

#[test]
fn an_identity_is_kept_once_and_replayed_on_every_connection() {
    let mut rig = Rig::new();
    let (first, again) = (rig.add_auth("digest"), rig.add_auth("digest"));
    rig.connect();
    assert_eq!(rig.sent(), [Sent { xid: XID_AUTH, request: Request::Auth(packet("digest")) }]);
    rig.reply_ok(XID_AUTH);
    assert!(now(first).is_ok() && now(again).is_ok());
    // Accepted on this connection already.
    assert!(now(rig.add_auth("digest")).is_ok());
    assert_eq!(rig.sent(), []);
    for _ in 0..3 {
        rig.cut();
        rig.connect();
        assert_eq!(rig.sent_opcodes(), [OpCode::Auth]);
    }
    // Not accepted on this connection yet.
    let mut again = rig.add_auth("digest");
    assert!(is_open(&mut again));
    rig.reply_ok(XID_AUTH);
    assert!(now(again).is_ok());
    assert_eq!(rig.machine.auth.unsent(), []);
}

#[test]
fn an_identity_with_a_lost_response_completes_on_reconnect() {
    let mut rig = Rig::connected();
    let (mut first, mut second) = (rig.add_auth("a"), rig.add_auth("b"));
    assert_eq!(rig.sent_opcodes(), [OpCode::Auth, OpCode::Auth]);
    rig.reply_ok(XID_AUTH);
    assert!(first.try_recv().unwrap().is_ok());
    rig.cut();
    assert!(is_open(&mut second));
    rig.connect();
    rig.reply_ok(XID_AUTH);
    assert!(is_open(&mut second));
    rig.reply_ok(XID_AUTH);
    assert!(now(second).is_ok());
}
