//! The framework on every kind of server.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::OpResult;
use zk_curator::{
    Acl, ConnectionState, CreateMode, CuratorFramework, ErrorCode, ErrorKind, EventType, WatchEnded,
};
use zk_curator_tests::{Server, on_each_server, session_id, start};

on_each_server! {
    every_operation_does_the_same
    credentials_open_nodes_and_bad_ones_fail_the_start
}
on_each_server! {
    restarted:
    watches_fire_and_are_armed_again_across_a_restart
    a_stalled_server_is_lost_by_our_clock
    debts_of_an_outage_are_paid_after_it
}
on_each_server! {
    tcp: a_stalled_client_is_expired_and_learns_of_it
}

/// Waits until a node is gone.
async fn gone(zk: &CuratorFramework, path: &str) {
    loop {
        let watched = zk.exists(path).watched().await.unwrap();
        if watched.value.is_none() {
            return;
        }
        watched.watch.await.unwrap();
    }
}

async fn every_operation_does_the_same(server: Server) {
    let outside = server.connected().await;
    let zk = outside.using_namespace("ns").unwrap();

    let created = zk.create("/p/n").data("1").creating_parents_as_containers().await.unwrap();
    assert_eq!((created.path.as_str(), created.stat.version), ("/p/n", 0));
    assert_eq!(zk.create("/p/n").await.unwrap_err().kind(), ErrorKind::NodeExists);
    assert_eq!(zk.create("/q/n").await.unwrap_err().kind(), ErrorKind::NoNode);
    let sequential = zk.create("/").mode(CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(sequential.path, "/0000000001");
    let protected =
        zk.create("/p/e-").mode(CreateMode::EphemeralSequential).protected().await.unwrap();
    assert_eq!(protected.stat.ephemeral_owner, session_id(&zk).get());
    let under_ephemeral = zk.create(format!("{}/x", protected.path)).await.unwrap_err();
    assert_eq!(under_ephemeral.kind(), ErrorKind::NoChildrenForEphemerals);
    assert_eq!(outside.get_data("/ns/p/n").await.unwrap(), "1");

    assert_eq!(zk.set_data("/p/n", "2").version(0).await.unwrap().version, 1);
    assert_eq!(
        zk.set_data("/p/n", "3").version(0).await.unwrap_err().kind(),
        ErrorKind::BadVersion
    );
    let (data, stat) = zk.get_data("/p/n").with_stat().await.unwrap();
    assert_eq!((data.as_ref(), stat.version), (&b"2"[..], 1));
    let (children, stat) = zk.children("/p").with_stat().await.unwrap();
    assert_eq!((children.len(), stat.num_children), (2, 2));
    assert_eq!(zk.exists("/none").await.unwrap(), None);
    zk.sync("/p").await.unwrap();

    let results =
        zk.transaction().check("/p/n", Some(1)).create("/t", "x").delete("/t").commit().await;
    let results = results.unwrap();
    assert!(matches!(&results[1], OpResult::Created { path, .. } if path == "/t"), "{results:?}");
    let error =
        zk.transaction().create("/t", "").check("/p/n", Some(0)).commit().await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::TransactionFailed { index: 1, code: ErrorCode::BadVersion }
    );
    assert_eq!((error.path(), zk.exists("/t").await.unwrap()), ("/p/n", None));

    assert_eq!(zk.delete("/p").await.unwrap_err().kind(), ErrorKind::NotEmpty);
    assert_eq!(
        zk.delete("/p").version(7).deleting_children().await.unwrap_err().kind(),
        ErrorKind::BadVersion
    );
    zk.delete("/p").version(0).deleting_children().await.unwrap();
    assert_eq!(zk.delete("/p").await.unwrap_err().kind(), ErrorKind::NoNode);
    zk.delete("/p").quietly().await.unwrap();
    zk.close().await.unwrap();
}

async fn watches_fire_and_are_armed_again_across_a_restart(mut server: Server) {
    let zk = server.connected().await;
    let session = session_id(&zk);
    let node = zk.create("/n").mode(CreateMode::Ephemeral).owned().await.unwrap();
    let data = zk.get_data("/n").watched().await.unwrap().watch;
    let created = zk.exists("/new").watched().await.unwrap().watch;
    let children = zk.children("/").watched().await.unwrap().watch;
    let mut states = zk.states();
    server.stop().await;
    states.until(|status| status.state == ConnectionState::Suspended).await.unwrap();
    server.restart().await;
    let status = states.until(|status| status.state.is_connected()).await.unwrap();
    assert_eq!(status.state, ConnectionState::Reconnected { same_session: true });
    assert_eq!(session_id(&zk), session);
    zk.set_data("/n", "x").await.unwrap();
    zk.create("/new").await.unwrap();
    assert_eq!(data.await.unwrap().event_type, EventType::NodeDataChanged);
    assert_eq!(created.await.unwrap().event_type, EventType::NodeCreated);
    assert_eq!(children.await.unwrap().event_type, EventType::NodeChildrenChanged);
    node.delete().await.unwrap();
    zk.close().await.unwrap();
}

async fn a_stalled_server_is_lost_by_our_clock(server: Server) {
    let zk = start(server.mortal()).await;
    let node = zk.create("/n").mode(CreateMode::Ephemeral).owned().await.unwrap();
    let watch = zk.exists("/none").watched().await.unwrap().watch;
    let (mut states, ownership) = (zk.states(), node.ownership().clone());
    let lost = tokio::spawn(async move { ownership.lost().await });
    server.pause().await;
    states.until(|status| status.state == ConnectionState::Suspended).await.unwrap();
    let status = states.until(|status| status.state == ConnectionState::Lost).await.unwrap();
    assert_eq!((status.session, status.session_epoch), (None, 1));
    lost.await.unwrap();
    assert_eq!(watch.await, Err(WatchEnded::SessionLost));
    let late = node.ownership().fenced().create("/late", "").commit().await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::OwnershipLost);
    server.resume().await;
    let status = states.until(|status| status.state.is_connected()).await.unwrap();
    assert_eq!(status.state, ConnectionState::Reconnected { same_session: false });
    gone(&zk, "/n").await;
    zk.close().await.unwrap();
}

/// A process is stopped for longer than its session timeout: the server expires the session, and
/// other clients continue.
async fn a_stalled_client_is_expired_and_learns_of_it(server: Server) {
    let other = server.connected().await;
    let builder = server.mortal();
    let (frozen, is_frozen) = tokio::sync::oneshot::channel();
    let (thaw, thawed) = std::sync::mpsc::channel::<()>();
    let stopped = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (zk, node) = runtime.block_on(async {
            let zk = start(builder).await;
            let node = zk.create("/n").mode(CreateMode::Ephemeral).owned().await.unwrap();
            (zk, node)
        });
        // The runtime is not driven now.
        frozen.send(()).unwrap();
        thawed.recv().unwrap();
        assert!(node.is_ours(), "it cannot know yet");
        runtime.block_on(async {
            let late = node.ownership().fenced().create("/late", "").commit().await.unwrap_err();
            // The connection looks alive until the first response does not come.
            assert!(late.kind() == ErrorKind::OwnershipLost || late.may_have_applied(), "{late}");
            node.ownership().lost().await;
            let again = zk.states().until(|status| status.session_epoch == 2).await.unwrap();
            assert_eq!(again.state, ConnectionState::Reconnected { same_session: false });
            drop(node);
            zk.close().await.unwrap();
        });
    });
    is_frozen.await.unwrap();
    gone(&other, "/n").await;
    let next = other.create("/n").mode(CreateMode::Ephemeral).owned().await.unwrap();
    thaw.send(()).unwrap();
    stopped.await.unwrap();
    assert_eq!(
        other.exists("/n").await.unwrap(),
        Some(*next.stat()),
        "the next owner's node is untouched"
    );
    assert_eq!(other.exists("/late").await.unwrap(), None);
    other.close().await.unwrap();
}

async fn debts_of_an_outage_are_paid_after_it(mut server: Server) {
    let zk = start(server.mortal().connection_timeout(Duration::from_millis(300))).await;
    let dropped = zk.create("/dropped").owned().await.unwrap();
    zk.create("/guaranteed/child").creating_parents().await.unwrap();
    server.stop().await;
    drop(dropped);
    let error = zk.delete("/guaranteed").guaranteed().deleting_children().await.unwrap_err();
    assert!(error.is_retryable() || error.is_session_lost(), "{error}");
    let error = zk.get_data("/dropped").await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::ConnectionLoss, "/dropped"));
    server.restart().await;
    zk.wait_connected().await.unwrap();
    timeout(Duration::from_secs(20), async {
        gone(&zk, "/dropped").await;
        gone(&zk, "/guaranteed").await;
    })
    .await
    .expect("the janitor has given up");
    zk.close().await.unwrap();
}

async fn credentials_open_nodes_and_bad_ones_fail_the_start(server: Server) {
    let owner = start(server.builder().authorization("digest", "me:secret")).await;
    owner.create("/mine").data("x").acl(Acl::creator_all()).await.unwrap();
    assert_eq!(owner.get_data("/mine").await.unwrap(), "x");

    let stranger = server.connected().await;
    let error = stranger.get_data("/mine").await.unwrap_err();
    assert_eq!(error.to_string(), "get_data \"/mine\": not authorised");
    assert_eq!(stranger.set_data("/mine", "").await.unwrap_err().kind(), ErrorKind::NoAuth);
    assert_eq!(
        stranger.create("/a").acl(Acl::creator_all()).await.unwrap_err().kind(),
        ErrorKind::InvalidAcl
    );

    let unknown = server.builder().authorization("no-such-scheme", "x").build().unwrap();
    let error = unknown.start().await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::AuthFailed, "start"));
    for zk in [owner, stranger] {
        zk.close().await.unwrap();
    }
    drop(unknown.close().await);
}
