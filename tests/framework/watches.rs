//! One-shot watches, across reconnects, restarts and the loss of the session.

use tokio::time::timeout;
use zk_curator::{ConnectionState, CuratorFramework, EventType, WatchEnded};
use zk_curator_testing::TestServer;
use zk_curator_tests::{expire, session_id, simulated_with, until};

/// Cuts the connection of a framework and waits until it has another one.
async fn reconnect(server: &TestServer, zk: &CuratorFramework) {
    let mut states = zk.states();
    let before = states.current().epoch;
    assert!(server.disconnect(session_id(zk).get()));
    let back = |status: &zk_curator::ConnectionStatus| {
        status.epoch > before && status.state.is_connected()
    };
    states.until(back).await.expect("a connection");
}

#[test]
fn get_data_watched_fires_for_data_and_for_the_deletion() {
    simulated_with(async |_server, zk| {
        zk.create("/a").data("1").await.unwrap();
        let watched = zk.get_data("/a").watched().await.unwrap();
        assert_eq!(watched.value.0, "1");
        zk.set_data("/a", "2").await.unwrap();
        let event = watched.watch.await.unwrap();
        assert_eq!((event.event_type, event.path.as_str()), (EventType::NodeDataChanged, "/a"));

        let watched = zk.get_data("/a").watched().await.unwrap();
        assert_eq!(watched.value.0, "2");
        zk.delete("/a").await.unwrap();
        assert_eq!(watched.watch.await.unwrap().event_type, EventType::NodeDeleted);
        zk.get_data("/a").watched().await.unwrap_err();
    });
}

#[test]
fn exists_watched_fires_for_creation_data_and_deletion() {
    simulated_with(async |_server, zk| {
        let watched = zk.exists("/a").watched().await.unwrap();
        assert_eq!(watched.value, None);
        zk.create("/a").await.unwrap();
        assert_eq!(watched.watch.await.unwrap().event_type, EventType::NodeCreated);

        let watched = zk.exists("/a").watched().await.unwrap();
        assert!(watched.value.is_some());
        zk.set_data("/a", "").await.unwrap();
        assert_eq!(watched.watch.await.unwrap().event_type, EventType::NodeDataChanged);

        let watched = zk.exists("/a").watched().await.unwrap();
        zk.delete("/a").await.unwrap();
        assert_eq!(watched.watch.await.unwrap().event_type, EventType::NodeDeleted);
    });
}

#[test]
fn children_watched_fires_for_a_child_and_for_the_deletion() {
    simulated_with(async |_server, zk| {
        zk.create("/p").await.unwrap();
        let watched = zk.children("/p").watched().await.unwrap();
        assert_eq!(watched.value.0, [""; 0]);
        zk.create("/p/a").await.unwrap();
        let event = watched.watch.await.unwrap();
        assert_eq!((event.event_type, event.path.as_str()), (EventType::NodeChildrenChanged, "/p"));

        let watched = zk.children("/p").watched().await.unwrap();
        assert_eq!(watched.value.0, ["a"]);
        zk.delete("/p").deleting_children().await.unwrap();
        assert_eq!(watched.watch.await.unwrap().event_type, EventType::NodeChildrenChanged);
    });
}

#[test]
fn a_watch_fires_after_a_reconnect_for_missed_changes() {
    simulated_with(async |server, zk| {
        let other = zk_curator_tests::connected(&server).await;
        for path in ["/data", "/parent", "/quiet"] {
            zk.create(path).await.unwrap();
        }
        let data = zk.get_data("/data").watched().await.unwrap().watch;
        let children = zk.children("/parent").watched().await.unwrap().watch;
        let created = zk.exists("/new").watched().await.unwrap().watch;
        let quiet = zk.exists("/quiet").watched().await.unwrap().watch;

        // While the framework is cut off, for less than its session timeout.
        server.stop().await;
        zk.states().until(|status| status.state == ConnectionState::Suspended).await.unwrap();
        server.restart().await.unwrap();
        other.wait_connected().await.unwrap();
        let held = server.rule({
            let id = session_id(&zk).get();
            move |request| match request.session_id() == id {
                true => zk_curator_testing::Verdict::Disconnect,
                false => zk_curator_testing::Verdict::Pass,
            }
        });
        other.set_data("/data", "x").await.unwrap();
        other.create("/parent/child").await.unwrap();
        other.create("/new").await.unwrap();
        drop(held);

        assert_eq!(data.await.unwrap().event_type, EventType::NodeDataChanged);
        assert_eq!(children.await.unwrap().event_type, EventType::NodeChildrenChanged);
        assert_eq!(created.await.unwrap().event_type, EventType::NodeCreated);
        reconnect(&server, &zk).await;
        other.set_data("/quiet", "").await.unwrap();
        assert_eq!(quiet.await.unwrap().event_type, EventType::NodeDataChanged);
    });
}

#[test]
fn the_loss_of_the_session_ends_every_watch() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        let data = zk.get_data("/a").watched().await.unwrap().watch;
        let exists = zk.exists("/none").watched().await.unwrap().watch;
        let children = zk.children("/a").watched().await.unwrap().watch;
        expire(&server, &zk).await;
        for watch in [data, exists, children] {
            assert_eq!(watch.await, Err(WatchEnded::SessionLost));
        }
        // In the next session watches work again.
        let watched = zk.get_data("/a").watched().await.unwrap();
        zk.set_data("/a", "").await.unwrap();
        watched.watch.await.unwrap();
    });
}

#[test]
fn close_ends_every_watch() {
    simulated_with(async |server, zk| {
        let watched = zk.exists("/a").watched().await.unwrap();
        zk.close().await.unwrap();
        assert_eq!(watched.watch.await, Err(WatchEnded::Closed));
        zk_curator_tests::assert_clean_after_close(&server);
    });
}

#[test]
fn a_dropped_watch_is_removed_and_not_armed_again() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        let kept = zk.get_data("/a").watched().await.unwrap();
        let dropped =
            (zk.children("/a").watched().await.unwrap(), zk.exists("/b").watched().await.unwrap());
        assert_eq!(server.probe().watches().len(), 3);
        drop(dropped);
        until(&server, |probe| probe.watches().len() == 1).await;
        reconnect(&server, &zk).await;
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().watches().len(), 1, "{}", server.probe());
        zk.delete("/a").await.unwrap();
        kept.watch.await.unwrap();
    });
}

#[test]
fn a_watched_read_with_a_lost_response_leaves_one_watch() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        let lost = server.rule(|request| match request.is(zk_curator_proto::OpCode::GetData) {
            true => zk_curator_testing::Verdict::LoseReply,
            false => zk_curator_testing::Verdict::Pass,
        });
        let lost = lost.times(1);
        let watched = zk.get_data("/a").watched().await.unwrap();
        lost.fired().await;
        assert_eq!(server.probe().watches().len(), 1, "{}", server.probe());
        zk.set_data("/a", "").await.unwrap();
        assert_eq!(watched.watch.await.unwrap().event_type, EventType::NodeDataChanged);
        assert_eq!(server.probe().notifications(), 1);
    });
}

#[test]
fn a_watch_waits_while_nothing_happens() {
    simulated_with(async |_server, zk| {
        zk.create("/a").await.unwrap();
        let watched = zk.children("/a").watched().await.unwrap();
        zk.set_data("/a", "not about children").await.unwrap();
        zk.get_data("/a").await.unwrap();
        timeout(zk_curator_tests::SESSION_TIMEOUT, watched.watch).await.unwrap_err();
    });
}
