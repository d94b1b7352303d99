//! Watches: armed by responses, fired by events, re-armed after a reconnect.

use tokio::sync::mpsc;
use zk_curator_proto::records::{
    AddWatchRequest, Children2Response, DataResponse, SetWatches, Stat,
};

use super::*;
use crate::PersistentEvent;
use crate::watch::WatchKind;

fn set_watches(sent: Vec<Sent>) -> Vec<SetWatches> {
    let set_watches = |sent| match sent {
        Sent { xid: XID_SET_WATCHES, request: Request::SetWatches(body) } => body,
        other => panic!("{other:?}"),
    };
    sent.into_iter().map(set_watches).collect()
}

fn data() -> Result<Response, ErrorCode> {
    Ok(Response::Data(DataResponse::default()))
}

/// Returns a watched read of `path`, with its response at `zxid`.
fn armed(rig: &mut Rig, path: &str, zxid: i64) -> Watch {
    let (answer, watch) = rig.watched(WatchPlan::Data, path);
    let xid = rig.sent()[0].xid;
    rig.reply(xid, zxid, data());
    assert!(now(answer).is_ok());
    watch
}

/// Returns a persistent watch on `path`, armed at `zxid`.
fn persistent(
    rig: &mut Rig,
    kind: WatchKind,
    path: &str,
    zxid: i64,
) -> mpsc::UnboundedReceiver<PersistentEvent> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let effect =
        WatchEffect::Arm(WatchPlan::Persistent(kind), path.into(), EventSink::Stream(sender));
    let body = AddWatchRequest { path: path.into(), mode: 0 };
    let answer = rig.submit(Request::AddWatch(body), Some(effect));
    let xid = rig.sent()[0].xid;
    rig.reply(xid, zxid, Ok(Response::Code(0)));
    assert!(now(answer).is_ok());
    receiver
}

/// Cuts the connection, re-arms the watches at these transactions, one chunk each, and returns the
/// event of `watch`.
fn rearmed(
    rig: &mut Rig,
    watch: &mut mpsc::UnboundedReceiver<PersistentEvent>,
    chunks: &[i64],
) -> Option<bool> {
    rig.cut();
    assert_eq!(watch.try_recv(), Ok(PersistentEvent::Disarmed));
    rig.connect();
    assert_eq!(rig.sent().len(), chunks.len());
    for zxid in chunks {
        assert!(watch.try_recv().is_err());
        rig.reply(XID_SET_WATCHES, *zxid, Ok(Response::Empty));
    }
    match watch.try_recv() {
        Ok(PersistentEvent::Rearmed { unchanged }) => Some(unchanged),
        _ => None,
    }
}

/// Sends a ping, with its response at `zxid`.
fn ping(rig: &mut Rig, zxid: i64) {
    while !rig.sent().iter().any(|sent| sent.request == Request::Ping) {
        rig.pass(rig.next_timer());
    }
    rig.reply(XID_PING, zxid, Ok(Response::Empty));
}

#[test]
fn each_read_arms_the_watch_that_zookeeper_arms() {
    let mut rig = Rig::connected();
    let cases = [
        (WatchPlan::Data, "/data", data()),
        (WatchPlan::Data, "/no-data", Err(ErrorCode::NoNode)),
        (WatchPlan::Child, "/child", Ok(Response::Children2(Children2Response::default()))),
        (WatchPlan::Child, "/no-child", Err(ErrorCode::NoNode)),
        (WatchPlan::Exists, "/exists", Ok(Response::Stat(Stat::default()))),
        (WatchPlan::Exists, "/absent", Err(ErrorCode::NoNode)),
        (WatchPlan::Exists, "/denied", Err(ErrorCode::NoAuth)),
    ];
    let mut watches = Vec::new();
    for (plan, path, result) in cases {
        watches.push(rig.watched(plan, path).1);
        let xid = rig.sent()[0].xid;
        rig.reply(xid, 3, result);
    }
    rig.cut();
    rig.connect();
    let expected = SetWatches {
        relative_zxid: 3,
        data_watches: vec!["/data".into(), "/exists".into()],
        exist_watches: vec!["/absent".into()],
        child_watches: vec!["/child".into()],
    };
    assert_eq!(set_watches(rig.sent()), [expected]);
}

#[test]
fn an_event_fires_once_and_the_watch_is_not_rearmed() {
    let mut rig = Rig::connected();
    let watch = armed(&mut rig, "/a", 1);
    rig.event(EventType::NodeDataChanged, "/a");
    assert_eq!(*now(watch), Ok(FiredWatch { event_type: EventType::NodeDataChanged, zxid: None }));
    rig.event(EventType::NodeDataChanged, "/a");
    rig.cut();
    rig.connect();
    assert_eq!(rig.sent(), []);
}

#[test]
fn a_watch_whose_response_was_lost_is_not_armed() {
    let mut rig = Rig::connected();
    let (answer, mut watch) = rig.watched(WatchPlan::Data, "/a");
    rig.cut();
    assert_eq!(now(answer), Err(Error::ConnectionLoss { sent: true }));
    // The reader of the response knows that there is no watch.
    assert_eq!(watch.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    rig.connect();
    assert_eq!(rig.sent(), []);
}

#[test]
fn an_event_before_the_response_belongs_to_an_earlier_watch() {
    let mut rig = Rig::connected();
    let earlier = armed(&mut rig, "/a", 1);
    let (_answer, mut later) = rig.watched(WatchPlan::Data, "/a");
    let xid = rig.sent()[0].xid;
    rig.event(EventType::NodeDataChanged, "/a");
    rig.reply(xid, 2, data());
    assert!(now(earlier).is_ok());
    assert!(is_open(&mut later));
    rig.event(EventType::NodeDeleted, "/a");
    assert!(now(later).is_ok());
}

#[test]
fn watches_are_armed_from_the_latest_zxid_of_a_response() {
    let mut rig = Rig::connected();
    let _watch = armed(&mut rig, "/a", 10);
    for (zxid, expected) in [(12, 12), (11, 12), (0, 12), (-1, 12), (13, 13)] {
        let _answer = rig.delete("/x");
        let xid = rig.sent()[0].xid;
        rig.reply(xid, zxid, Ok(Response::Empty));
        rig.cut();
        assert_eq!(rig.connect().last_zxid_seen, expected);
        assert_eq!(set_watches(rig.sent())[0].relative_zxid, expected);
    }
}

#[test]
fn an_event_that_was_lost_is_asked_for_again() {
    let mut rig = Rig::connected();
    let _watches: Vec<_> = (0..4000).map(|n| armed(&mut rig, &format!("/{n:060}"), 10)).collect();
    rig.cut();
    rig.connect();
    let chunks = set_watches(rig.sent());
    assert!(chunks.len() > 2);
    // The response to the first chunk is of a server that is far ahead; the events of the others
    // are lost.
    rig.reply(XID_SET_WATCHES, 500, Ok(Response::Empty));
    rig.cut();
    rig.connect();
    let again = set_watches(rig.sent());
    assert!(again.iter().all(|chunk| chunk.relative_zxid == 10));
    assert_eq!(again.iter().map(|chunk| chunk.data_watches.len()).sum::<usize>(), 4000);
}

#[test]
fn watches_are_rearmed_in_frames_that_the_server_takes() {
    for limit in [1024, 1 << 20] {
        let mut rig = Rig::with("h:1", |builder| builder.max_frame(limit));
        rig.connect();
        let _watches: Vec<_> =
            (0..4000).map(|n| armed(&mut rig, &format!("/{n:060}"), 10)).collect();
        rig.cut();
        rig.connect();
        let mut frames = 0;
        while let Some(body) = frame::take(rig.machine.output(), limit.min(128 << 10)).unwrap() {
            frames += usize::from(!body.is_empty());
        }
        assert!(frames > 1);
    }
}

#[test]
fn a_dropped_watch_is_not_rearmed_others_on_its_node_are() {
    let mut rig = Rig::connected();
    let (kept, dropped, gone) =
        (armed(&mut rig, "/a", 1), armed(&mut rig, "/a", 1), armed(&mut rig, "/b", 1));
    drop((dropped, gone));
    rig.command(SessionCommand::ForgetWatch { path: "/a".into() });
    rig.command(SessionCommand::ForgetWatch { path: "/b".into() });
    rig.cut();
    rig.connect();
    assert_eq!(set_watches(rig.sent())[0].data_watches, ["/a"]);
    rig.event(EventType::NodeDeleted, "/a");
    assert!(now(kept).is_ok());
}

#[test]
fn a_watch_dropped_before_its_response_is_not_armed() {
    let mut rig = Rig::connected();
    drop(rig.watched(WatchPlan::Data, "/a"));
    rig.command(SessionCommand::ForgetWatch { path: "/a".into() });
    rig.reply(1, 1, data());
    rig.cut();
    rig.connect();
    assert_eq!(rig.sent(), []);
}

#[test]
fn events_about_the_connection_fire_nothing() {
    let mut rig = Rig::connected();
    let mut watch = armed(&mut rig, "/a", 1);
    rig.event(EventType::None, "");
    assert!(is_open(&mut watch));
    assert_eq!(rig.states(), []);
}

/// A server before ZooKeeper 3.6, for example after an ensemble was rolled back.
#[test]
fn a_refused_set_watches_2_ends_the_persistent_watches_alone() {
    let mut rig = Rig::connected();
    let mut one_shot = armed(&mut rig, "/a", 1);
    let persistent = [WatchKind::Persistent, WatchKind::Recursive]
        .map(|kind| persistent(&mut rig, kind, "/a", 1));
    rig.cut();
    rig.connect();
    rig.states();
    assert_eq!(rig.sent_opcodes(), [OpCode::SetWatches, OpCode::SetWatches2]);
    rig.reply_ok(XID_SET_WATCHES);
    rig.reply(XID_SET_WATCHES, 1, Err(ErrorCode::Unimplemented));
    assert_eq!((rig.states(), rig.effects().len()), (vec![], 0));
    for mut persistent in persistent {
        let ended = PersistentEvent::Ended(WatchEnded::Refused(ErrorCode::Unimplemented));
        assert_eq!(persistent.try_recv(), Ok(PersistentEvent::Disarmed));
        assert_eq!(persistent.try_recv(), Ok(ended));
        assert!(persistent.try_recv().is_err());
    }
    assert!(is_open(&mut one_shot));
    // The next connection re-arms only the other watch.
    rig.cut();
    rig.connect();
    assert_eq!(rig.sent_opcodes(), [OpCode::SetWatches]);
    rig.event(EventType::NodeDataChanged, "/a");
    assert!(now(one_shot).is_ok());
}

/// The end of a persistent watch removes the others of the node from servers before 3.9.
#[test]
fn repair_of_a_watch_that_is_refused_for_a_while_is_repeated() {
    for (code, is_kept) in [(ErrorCode::Throttled, true), (ErrorCode::Unimplemented, false)] {
        let mut rig = Rig::connected();
        drop(persistent(&mut rig, WatchKind::Persistent, "/a", 1));
        let mut kept = armed(&mut rig, "/a", 2);
        rig.command(SessionCommand::ForgetWatch { path: "/a".into() });
        let sent = rig.sent();
        assert_eq!(sent.last().unwrap().request.opcode(), OpCode::SetWatches);
        for Sent { xid, request } in sent {
            match request.opcode() {
                OpCode::SetWatches => rig.reply(xid, 2, Err(code)),
                _ => rig.reply_ok(xid),
            }
        }
        if is_kept {
            rig.assert_disconnected();
            rig.connect();
            assert_eq!(rig.sent_opcodes(), [OpCode::SetWatches]);
            assert!(is_open(&mut kept));
        } else {
            assert_eq!(*now(kept), Err(WatchEnded::Refused(code)));
        }
    }
}

#[test]
fn nothing_was_missed_if_the_server_is_at_the_last_zxid() {
    let mut rig = Rig::connected();
    let mut watch = persistent(&mut rig, WatchKind::Recursive, "/", 10);
    assert_eq!(rearmed(&mut rig, &mut watch, &[10]), Some(true));
    assert_eq!(
        rearmed(&mut rig, &mut watch, &[10]),
        Some(true),
        "only the response to the re-arming"
    );
    assert_eq!(rearmed(&mut rig, &mut watch, &[11]), Some(false));
    assert_eq!(
        rearmed(&mut rig, &mut watch, &[11]),
        Some(true),
        "the response with 11 was the last one"
    );
    for (zxid, result) in [(12, Ok(Response::Empty)), (13, Err(ErrorCode::NoNode))] {
        let _answer = rig.delete("/x");
        let xid = rig.sent()[0].xid;
        rig.reply(xid, zxid, result);
        assert_eq!(rearmed(&mut rig, &mut watch, &[zxid]), Some(true));
    }
    // A transaction of another epoch.
    assert_eq!(rearmed(&mut rig, &mut watch, &[(1 << 32) + 13]), Some(false));
}

#[test]
fn a_response_without_a_transaction_says_nothing() {
    for zxid in [0, -1] {
        let mut rig = Rig::connected();
        let mut watch = persistent(&mut rig, WatchKind::Recursive, "/", zxid);
        assert_eq!(rearmed(&mut rig, &mut watch, &[zxid]), Some(false));
    }
}

#[test]
fn a_ping_response_confirms_the_delivered_events() {
    let mut rig = Rig::connected();
    let mut watch = persistent(&mut rig, WatchKind::Recursive, "/", 10);
    ping(&mut rig, 20);
    assert_eq!(rig.machine.last_zxid, 20);
    assert_eq!(rearmed(&mut rig, &mut watch, &[20]), Some(true));
    assert_eq!(rearmed(&mut rig, &mut watch, &[21]), Some(false));
}

/// A multi changes several nodes: the event of another node may have been lost with the connection.
#[test]
fn an_event_does_not_prove_that_its_transaction_is_complete() {
    let mut rig = Rig::connected();
    let mut watch = persistent(&mut rig, WatchKind::Recursive, "/", 10);
    rig.receive(|out| {
        ReplyHeader { xid: XID_NOTIFICATION, zxid: 11, err: 0 }.encode(out);
        let event_type = EventType::NodeCreated as i32;
        WatcherEvent { event_type, state: 3, path: "/a".into() }.encode(out);
    });
    assert!(
        matches!(watch.try_recv(), Ok(PersistentEvent::Changed(event)) if event.zxid() == Some(11))
    );
    assert_eq!(rig.machine.last_zxid, 10);
    assert_eq!(rearmed(&mut rig, &mut watch, &[11]), Some(false));
    assert_eq!(rig.machine.last_zxid, 11);
}

#[test]
fn the_last_chunk_says_whether_anything_was_missed() {
    let mut rig = Rig::connected();
    let _one_shot = armed(&mut rig, "/a", 10);
    let mut watch = persistent(&mut rig, WatchKind::Persistent, "/p", 10);
    assert_eq!(rearmed(&mut rig, &mut watch, &[10, 10]), Some(true));
    assert_eq!(rearmed(&mut rig, &mut watch, &[10, 11]), Some(false));
    assert_eq!(rearmed(&mut rig, &mut watch, &[11, 11]), Some(true));
    // The connection is lost between two chunks: transaction 12 may have been missed.
    rig.cut();
    rig.connect();
    rig.sent();
    rig.reply(XID_SET_WATCHES, 12, Ok(Response::Empty));
    assert_eq!(rig.machine.last_zxid, 11);
    assert_eq!(watch.try_recv(), Ok(PersistentEvent::Disarmed));
    assert_eq!(rearmed(&mut rig, &mut watch, &[12, 12]), Some(false));
    assert_eq!(rearmed(&mut rig, &mut watch, &[12, 12]), Some(true));
}

/// A read-only server may have applied transactions that were never committed, and a client demands
/// every transaction that it has seen from every server.
#[test]
fn only_requests_show_the_zxid_of_a_read_only_server() {
    let mut rig = Rig::with("h:1,h:2", |builder| builder.read_only(true));
    rig.connect();
    let mut watch = persistent(&mut rig, WatchKind::Recursive, "/", 10);
    rig.cut();
    rig.open();
    let password = Some(Bytes::from_static(PASSWORD));
    let timeout = TIMEOUT.as_millis() as i32;
    rig.receive(|out| {
        ConnectResponse {
            timeout,
            session_id: SESSION,
            password,
            read_only: true,
            ..ConnectResponse::default()
        }
        .encode(out);
    });
    rig.sent();
    rig.reply(XID_SET_WATCHES, 12, Ok(Response::Empty));
    assert_eq!(watch.try_recv(), Ok(PersistentEvent::Disarmed));
    assert_eq!(watch.try_recv(), Ok(PersistentEvent::Rearmed { unchanged: false }));
    ping(&mut rig, 12);
    assert_eq!(rig.machine.last_zxid, 10);
    let _answer = rig.get("/a");
    let xid = rig.sent()[0].xid;
    rig.reply(xid, 12, data());
    assert_eq!(rig.machine.last_zxid, 12);
}

/// A reader of the last zxid finds the events up to it in its watches.
#[test]
fn the_last_zxid_is_published_behind_the_events() {
    let mut rig = Rig::connected();
    let mut watch = persistent(&mut rig, WatchKind::Recursive, "/", 10);
    let read = rig.get("/a");
    let xid = rig.sent()[0].xid;
    let mut buf = BytesMut::new();
    frame::put(&mut buf, |out| {
        ReplyHeader { xid: XID_NOTIFICATION, zxid: -1, err: 0 }.encode(out);
        let event_type = EventType::NodeCreated as i32;
        WatcherEvent { event_type, state: 3, path: "/a".into() }.encode(out);
    });
    rig.receive_bytes(buf.clone());
    assert_eq!(rig.machine.states.last_zxid(), 10);
    assert!(watch.try_recv().is_ok());
    frame::put(&mut buf, |out| {
        ReplyHeader { xid, zxid: 11, err: 0 }.encode(out);
        Response::Data(DataResponse::default()).encode_body(out);
    });
    rig.receive_bytes(buf);
    assert_eq!(rig.machine.states.last_zxid(), 11);
    assert!(watch.try_recv().is_ok());
    assert!(now(read).is_ok());
}
