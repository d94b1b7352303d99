//! One-shot watches across reconnects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{
    connected, create, cut, id, is_connected, on_network, real_time, reconnect, simulated_with,
    start, suite, until,
};
use zk_curator_client::{
    AddWatchMode, ErrorCode, EventType, PersistentEvent, SessionState, WatchEnded, ZooKeeper,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::idle;
use zk_curator_testing::{TestServer, Verdict};

#[test]
fn watches_survive_a_cut() {
    simulated_with(async |server| {
        let (zk, other) = (connected(&server).await, connected(&server).await);
        create(&zk, "/a").await.unwrap();
        let (_, data) = zk.get_data_watched("/a").await.unwrap();
        let (_, children) = zk.get_children_watched("/a").await.unwrap();
        let (_, absent) = zk.exists_watched("/b").await.unwrap();
        for _ in 0..3 {
            reconnect(&server, &zk).await;
        }
        create(&other, "/a/x").await.unwrap();
        other.set_data("/a", b"", None).await.unwrap();
        create(&other, "/b").await.unwrap();
        assert_eq!(data.await.unwrap().event_type, EventType::NodeDataChanged);
        assert_eq!(children.await.unwrap().event_type, EventType::NodeChildrenChanged);
        assert_eq!(absent.await.unwrap().event_type, EventType::NodeCreated);
        // A watch that has fired is not re-armed.
        reconnect(&server, &zk).await;
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().watches(), []);
    });
}

#[test]
fn watches_fire_for_changes_during_an_outage() {
    simulated_with(async |server| {
        let ((zk, network), other) = (on_network(&server).await, connected(&server).await);
        for path in ["/changed", "/deleted", "/parent", "/same"] {
            create(&zk, path).await.unwrap();
        }
        let (_, changed) = zk.get_data_watched("/changed").await.unwrap();
        let (_, deleted) = zk.exists_watched("/deleted").await.unwrap();
        let (_, parent) = zk.get_children_watched("/parent").await.unwrap();
        let (_, created) = zk.exists_watched("/created").await.unwrap();
        let (_, mut same) = zk.get_data_watched("/same").await.unwrap();

        network.down();
        cut(&server, &zk).await;
        other.set_data("/changed", b"", None).await.unwrap();
        other.delete("/deleted", None).await.unwrap();
        create(&other, "/parent/x").await.unwrap();
        other.delete("/parent/x", None).await.unwrap();
        create(&other, "/created").await.unwrap();
        network.up();

        assert_eq!(changed.await.unwrap().event_type, EventType::NodeDataChanged);
        assert_eq!(deleted.await.unwrap().event_type, EventType::NodeDeleted);
        assert_eq!(parent.await.unwrap().event_type, EventType::NodeChildrenChanged);
        assert_eq!(created.await.unwrap().event_type, EventType::NodeCreated);
        zk.sync("/").await.unwrap();
        assert!(futures_now(&mut same).is_none());
        other.delete("/same", None).await.unwrap();
        assert_eq!(same.await.unwrap().event_type, EventType::NodeDeleted);
    });
}

/// Returns the result of a future that is ready.
fn futures_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn two_thousand_watches_on_long_paths_survive_a_cut() {
    real_time(async {
        let server = TestServer::start().await;
        let builder = || ZooKeeper::builder(server.connect_string());
        let (zk, other) = (start(builder()).await, start(builder()).await);
        suite::two_thousand_watches_on_long_paths_survive(&zk, &other, async |zk| {
            reconnect(&server, zk).await;
            zk.sync("/").await.unwrap();
            assert_eq!(server.probe().watches().len(), 2000);
            assert!(server.probe().requests(OpCode::SetWatches) >= 2);
        })
        .await;
        zk.close().await.unwrap();
    });
}

#[test]
fn a_watch_is_armed_if_a_cut_follows_its_response() {
    simulated_with(async |server| {
        let (zk, other) = (connected(&server).await, connected(&server).await);
        create(&zk, "/a").await.unwrap();
        for version in 0..50 {
            // The response to the read arrives, then the connection ends, and the write comes
            // before the client is back.
            let lost =
                server
                    .rule(|request| {
                        if request.is(OpCode::Sync) { Verdict::LoseRequest } else { Verdict::Pass }
                    })
                    .times(1);
            let (read, cut) = (zk.get_data_watched("/a"), zk.sync("/"));
            let (data, watch) = read.await.unwrap();
            assert_eq!(data.stat.version, version);
            lost.fired().await;
            other.set_data("/a", b"", None).await.unwrap();
            assert!(cut.await.unwrap_err().may_have_applied());
            assert_eq!(watch.await.unwrap().event_type, EventType::NodeDataChanged);
        }
    });
}

#[test]
fn an_event_that_is_lost_with_the_connection_comes_after_it() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        create(&zk, "/a").await.unwrap();
        let (_, watch) = zk.get_data_watched("/a").await.unwrap();
        let lost = server.rule(|request| {
            if request.is(OpCode::SetData) { Verdict::LoseReply } else { Verdict::Pass }
        });
        // Both the response and the event of the client's own write are lost.
        let error = zk.set_data("/a", b"", None).await.unwrap_err();
        assert!(error.may_have_applied());
        assert_eq!(lost.hits(), 1);
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeDataChanged);
    });
}

#[test]
fn no_response_shows_a_change_before_its_watch_fires() {
    simulated_with(async |server| {
        let ((zk, network), other) = (on_network(&server).await, connected(&server).await);
        create(&zk, "/a").await.unwrap();
        let (_, mut watch) = zk.get_data_watched("/a").await.unwrap();
        network.down();
        cut(&server, &zk).await;
        other.set_data("/a", b"new", None).await.unwrap();
        let read = zk.get_data("/a");
        network.up();
        assert_eq!(read.await.unwrap().data, "new");
        assert!(futures_now(&mut watch).is_some());
    });
}

#[test]
fn a_reconnect_sends_identities_then_watches_then_requests() {
    simulated_with(async |server| {
        let (zk, network) = on_network(&server).await;
        zk.add_auth("digest", b"first:x").await.unwrap();
        zk.add_auth("digest", b"second:x").await.unwrap();
        create(&zk, "/a").await.unwrap();
        let (_, _watch) = zk.get_data_watched("/a").await.unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&log);
        let _log = server.rule(move |request| {
            seen.lock().unwrap().push(request.opcode());
            Verdict::Pass
        });
        network.down();
        cut(&server, &zk).await;
        let read = zk.get_data("/a");
        network.up();
        read.await.unwrap();
        assert_eq!(
            *log.lock().unwrap(),
            [OpCode::Auth, OpCode::Auth, OpCode::SetWatches, OpCode::GetData]
        );
        assert_eq!(
            server.probe().session(id(&zk)).unwrap().identities,
            ["digest:first", "digest:second"]
        );
    });
}

#[test]
fn a_dropped_watch_is_not_rearmed() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let (_, dropped) = zk.exists_watched("/a").await.unwrap();
        let (_, kept) = zk.exists_watched("/b").await.unwrap();
        drop(dropped);
        drop(zk.exists_watched("/never-polled"));
        reconnect(&server, &zk).await;
        zk.sync("/").await.unwrap();
        let probe = server.probe();
        assert_eq!(
            probe.watches().iter().map(|watch| watch.path.as_str()).collect::<Vec<_>>(),
            ["/b"]
        );
        drop(kept);
    });
}

#[test]
fn a_server_that_refuses_to_rearm_is_left_and_the_watches_kept() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let (_, watch) = zk.exists_watched("/a").await.unwrap();
        let refused = server
            .rule(|request| {
                let code = ErrorCode::MarshallingError;
                if request.is(OpCode::SetWatches) { Verdict::Refuse(code) } else { Verdict::Pass }
            })
            .times(3);
        let mut states = zk.states();
        server.disconnect(id(&zk));
        for _ in 0..5 {
            until(&mut states, is_connected).await;
        }
        assert_eq!(refused.hits(), 3);
        create(&zk, "/a").await.unwrap();
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeCreated);
    });
}

/// If the watches ended, their waiters would end with them. The server is the same.
#[test]
fn throttled_watches_are_rearmed_however_long_it_takes() {
    simulated_with(async |server| {
        let (zk, other) = (connected(&server).await, connected(&server).await);
        create(&zk, "/a").await.unwrap();
        let (_, one_shot) = zk.get_data_watched("/a").await.unwrap();
        let (_, mut persistent) = zk.add_watch("/b", AddWatchMode::Persistent).await.unwrap();
        let refused = server.rule(|request| match request.opcode() {
            OpCode::SetWatches | OpCode::SetWatches2 => Verdict::Refuse(ErrorCode::Throttled),
            _ => Verdict::Pass,
        });
        let begun = tokio::time::Instant::now();
        server.disconnect(id(&zk));
        refused.fired_times(40).await;
        // The client does not loop tightly.
        assert!(begun.elapsed() > Duration::from_secs(10), "{:?}", begun.elapsed());
        drop(refused);
        let mut states = zk.states();
        until(&mut states, is_connected).await;
        other.set_data("/a", b"", None).await.unwrap();
        create(&other, "/b").await.unwrap();
        assert_eq!(one_shot.await.unwrap().event_type, EventType::NodeDataChanged);
        while !matches!(persistent.next().await.unwrap(), PersistentEvent::Changed(event) if event.path == "/b")
        {
        }
    });
}

#[test]
fn watches_end_with_the_session() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let (_, watch) = zk.exists_watched("/a").await.unwrap();
        server.expire(id(&zk)).await;
        assert_eq!(watch.await, Err(WatchEnded::SessionLost));

        let zk = connected(&server).await;
        let (_, watch) = zk.exists_watched("/a").await.unwrap();
        zk.close().await.unwrap();
        assert_eq!(watch.await, Err(WatchEnded::Closed));

        // A watch does not keep the session open.
        let zk = connected(&server).await;
        let (_, watch) = zk.exists_watched("/a").await.unwrap();
        drop(zk);
        assert_eq!(watch.await, Err(WatchEnded::Closed));
        server.until(|probe| probe.sessions().is_empty()).await;
    });
}

#[test]
fn a_server_that_refuses_set_watches_2_keeps_its_connection() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        create(&zk, "/a").await.unwrap();
        let (_, one_shot) = zk.get_data_watched("/a").await.unwrap();
        let (_, mut persistent) =
            zk.add_watch("/", AddWatchMode::PersistentRecursive).await.unwrap();
        let refused = server.rule(|request| match request.opcode() {
            OpCode::SetWatches2 => Verdict::Refuse(ErrorCode::Unimplemented),
            _ => Verdict::Pass,
        });
        reconnect(&server, &zk).await;
        let connections = server.probe().connections();
        let ended = PersistentEvent::Ended(WatchEnded::Refused(ErrorCode::Unimplemented));
        assert_eq!(persistent.next().await, Some(PersistentEvent::Disarmed));
        assert_eq!(persistent.next().await, Some(ended));
        assert_eq!(persistent.next().await, None);
        let mut states = zk.states();
        states.next().await;
        idle(Duration::from_secs(60)).await;
        zk.set_data("/a", b"x", None).await.unwrap();
        assert_eq!(one_shot.await.unwrap().event_type, EventType::NodeDataChanged);
        assert_eq!((refused.hits(), server.probe().connections()), (1, connections));
        zk.close().await.unwrap();
        assert_eq!(states.next().await, Some(SessionState::Closed));
    });
}
