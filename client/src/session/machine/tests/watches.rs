//! Watches: armed by answers, fired by events, re-armed after a reconnect.

use tokio::sync::mpsc;
use zk_curator_proto::records::{AddWatchRequest, Children2Response, DataResponse, SetWatches, Stat};

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

/// A watched read of `path`, answered at `zxid`.
fn armed(rig: &mut Rig, path: &str, zxid: i64) -> Watch {
    let (answer, watch) = rig.watched(WatchPlan::Data, path);
    let xid = rig.sent()[0].xid;
    rig.reply(xid, zxid, data());
    assert!(now(answer).is_ok());
    watch
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
    assert_eq!(*now(watch), Ok(Fired { event_type: EventType::NodeDataChanged, zxid: None }));
    rig.event(EventType::NodeDataChanged, "/a");
    rig.cut();
    rig.connect();
    assert_eq!(rig.sent(), []);
}

#[test]
fn a_watch_whose_answer_was_lost_is_not_armed() {
    let mut rig = Rig::connected();
    let (answer, mut watch) = rig.watched(WatchPlan::Data, "/a");
    rig.cut();
    assert_eq!(now(answer), Err(Error::ConnectionLoss { sent: true }));
    // Whoever reads the answer knows that there is no watch.
    assert_eq!(watch.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    rig.connect();
    assert_eq!(rig.sent(), []);
}

#[test]
fn an_event_before_the_answer_belongs_to_an_earlier_watch() {
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
fn watches_are_asked_for_from_the_latest_zxid_that_was_answered() {
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
    // The first chunk is answered, by a server that is far ahead; what the others fire is lost.
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
        let _watches: Vec<_> = (0..4000).map(|n| armed(&mut rig, &format!("/{n:060}"), 10)).collect();
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
fn a_watch_nobody_waits_for_is_not_rearmed_but_others_on_its_node_are() {
    let mut rig = Rig::connected();
    let (kept, dropped, gone) =
        (armed(&mut rig, "/a", 1), armed(&mut rig, "/a", 1), armed(&mut rig, "/b", 1));
    drop((dropped, gone));
    rig.command(Command::ForgetWatch { path: "/a".into() });
    rig.command(Command::ForgetWatch { path: "/b".into() });
    rig.cut();
    rig.connect();
    assert_eq!(set_watches(rig.sent())[0].data_watches, ["/a"]);
    rig.event(EventType::NodeDeleted, "/a");
    assert!(now(kept).is_ok());
}

#[test]
fn a_watch_dropped_before_its_answer_is_not_armed() {
    let mut rig = Rig::connected();
    drop(rig.watched(WatchPlan::Data, "/a"));
    rig.command(Command::ForgetWatch { path: "/a".into() });
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

/// A server before ZooKeeper 3.6, as it may be met when an ensemble is rolled back.
#[test]
fn a_refused_set_watches_2_ends_the_lasting_watches_alone() {
    let mut rig = Rig::connected();
    let mut one_shot = armed(&mut rig, "/a", 1);
    let lasting = [WatchKind::Persistent, WatchKind::Recursive].map(|kind| {
        let (sender, receiver) = mpsc::unbounded_channel();
        let effect = WatchEffect::Arm(WatchPlan::Lasting(kind), "/a".into(), Sink::Stream(sender));
        let body = AddWatchRequest { path: "/a".into(), mode: 0 };
        let answer = rig.submit(Request::AddWatch(body), Some(effect));
        let xid = rig.sent()[0].xid;
        rig.reply(xid, 1, Ok(Response::Code(0)));
        assert!(now(answer).is_ok());
        receiver
    });
    rig.cut();
    rig.connect();
    rig.states();
    assert_eq!(rig.sent_opcodes(), [OpCode::SetWatches, OpCode::SetWatches2]);
    rig.reply_ok(XID_SET_WATCHES);
    rig.reply(XID_SET_WATCHES, 1, Err(ErrorCode::Unimplemented));
    assert_eq!((rig.states(), rig.effects().len()), (vec![], 0));
    for mut lasting in lasting {
        let ended = PersistentEvent::Ended(WatchEnded::Refused(ErrorCode::Unimplemented));
        assert_eq!(lasting.try_recv(), Ok(ended));
        assert!(lasting.try_recv().is_err());
    }
    assert!(is_open(&mut one_shot));
    // The next connection has nothing to ask for but the other.
    rig.cut();
    rig.connect();
    assert_eq!(rig.sent_opcodes(), [OpCode::SetWatches]);
    rig.event(EventType::NodeDataChanged, "/a");
    assert!(now(one_shot).is_ok());
}
