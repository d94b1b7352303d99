//! The changes since a transaction, and the separate session, its servers and identities.

#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    builder, connected, create, cut, id, is_connected, open, simulated, simulated_with, start,
    until,
};
use tokio::time::Instant;
use zk_curator_client::{
    ChangesSince, CreateMode, DisconnectedPolicy, Error, EventType, WatchedEvent, ZooKeeper,
};
use zk_curator_proto::{OpCode, Request};
use zk_curator_testing::{TestCluster, Verdict};

const PATIENCE: Duration = Duration::from_secs(15);

fn data(zxid: i64, paths: &[&str]) -> ChangesSince {
    let mut question = ChangesSince::new(zxid);
    question.data = paths.iter().map(|path| (*path).to_owned()).collect();
    question
}

fn changed(path: &str) -> WatchedEvent {
    WatchedEvent::new(EventType::NodeDataChanged, path.to_owned())
}

/// Creates a node, and returns its transaction.
async fn create_at(zk: &ZooKeeper) -> i64 {
    zk.create("/a", b"1", &open(), CreateMode::Persistent).await.unwrap().stat.czxid
}

/// Returns a client of one member.
async fn connected_to(cluster: &TestCluster, member: usize, seed: u64) -> ZooKeeper {
    let builder = ZooKeeper::builder(format!("zk{}:2181", member + 1))
        .connector(Arc::new(cluster.connector()));
    let builder = builder.session_timeout(Duration::from_secs(6)).seed(seed);
    start(builder.disconnected(DisconnectedPolicy::Wait(PATIENCE))).await
}

#[test]
fn a_lagging_server_does_not_respond() {
    simulated(async {
        for seed in 0..12 {
            let cluster = TestCluster::in_memory(3).await;
            let leader = cluster.leader().unwrap();
            let lagging: Vec<_> = (0..3).filter(|member| *member != leader).collect();
            let zk = connected_to(&cluster, leader, seed).await;
            let known = create_at(&zk).await;
            let _lag: Vec<_> = lagging.iter().map(|member| cluster.lag(*member)).collect();
            zk.set_data("/a", b"2", None).await.unwrap();
            // Two of the three servers have not applied the transaction yet.
            zk.update_server_list(&cluster.connect_string()).unwrap();
            let changes = zk.changes_since(&data(known, &["/a"])).await;
            assert_eq!(changes.unwrap(), [changed("/a")], "{seed}");
        }
    });
}

/// A server that lags behind does not open a session either, except a local one.
#[test]
fn without_an_up_to_date_server_there_is_no_response() {
    simulated_with(async |server| {
        for patience in [Duration::from_secs(3), PATIENCE] {
            let zk = start(builder(&server).disconnected(DisconnectedPolicy::Wait(patience))).await;
            let known = create_at(&zk).await;
            let changed_at = zk.set_data("/a", b"2", None).await.unwrap().mzxid;
            let mut question = data(known, &["/a"]);
            question.not_before = changed_at + 50;
            let asked = Instant::now();
            assert_eq!(zk.changes_since(&question).await, Err(Error::NotConnected));
            assert!(asked.elapsed() <= patience, "{:?}", asked.elapsed());
            for _ in 0..50 {
                zk.set_data("/", b"", None).await.unwrap();
            }
            assert_eq!(zk.changes_since(&question).await, Ok(vec![changed("/a")]));
            zk.delete("/a", None).await.unwrap();
            zk.close().await.unwrap();
            assert!(server.probe().sessions().is_empty());
        }
    });
}

#[test]
fn the_session_beside_has_the_identities_that_were_added() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let known = create_at(&zk).await;
        for identity in [b"one:secret", b"two:secret", b"one:secret"] {
            zk.add_auth("digest", identity).await.unwrap();
        }
        let ours = id(&zk);
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&order);
        let _rule = server.rule(move |request| {
            if request.session_id() != ours {
                seen.lock().unwrap().push(match request.request() {
                    Request::Auth(packet) => {
                        String::from_utf8_lossy(packet.auth.as_deref().unwrap()).into_owned()
                    }
                    other => format!("{:?}", other.opcode()),
                });
            }
            Verdict::Pass
        });
        zk.set_data("/a", b"2", None).await.unwrap();
        assert_eq!(zk.changes_since(&data(known, &["/a"])).await, Ok(vec![changed("/a")]));
        assert_eq!(
            *order.lock().unwrap(),
            ["one:secret", "two:secret", "SetWatches", "CloseSession"]
        );
    });
}

#[test]
fn changes_since_needs_no_connection_of_the_session() {
    simulated_with(async |server| {
        let zk = start(builder(&server).disconnected(DisconnectedPolicy::FailFast)).await;
        let known = create_at(&zk).await;
        zk.set_data("/a", b"2", None).await.unwrap();
        let mut states = zk.states();
        cut(&server, &zk).await;
        assert_eq!(zk.get_data("/a").await.unwrap_err(), Error::NotConnected);
        assert_eq!(zk.changes_since(&data(known, &["/a"])).await, Ok(vec![changed("/a")]));
        until(&mut states, is_connected).await;
        zk.close().await.unwrap();
        // A transaction that the session has seen is still useful after the session.
        assert_eq!(zk.changes_since(&data(known, &["/a"])).await, Ok(vec![changed("/a")]));
        assert!(server.probe().sessions().is_empty() && server.probe().watches().is_empty());
    });
}

#[test]
fn without_servers_changes_since_fails_in_time() {
    simulated_with(async |server| {
        let zk = start(builder(&server).disconnected(DisconnectedPolicy::Wait(PATIENCE))).await;
        server.stop().await;
        let asked = Instant::now();
        let late = zk.with_deadline(Duration::from_secs(1)).changes_since(&data(1, &["/a"])).await;
        assert_eq!(
            (late, asked.elapsed().as_secs()),
            (Err(Error::DeadlineExceeded { sent: false }), 1)
        );
        assert_eq!(zk.changes_since(&data(1, &["/a"])).await, Err(Error::NotConnected));
        assert_eq!(asked.elapsed().as_secs(), 1 + PATIENCE.as_secs());
        assert!(matches!(zk.changes_since(&data(1, &["a"])).await, Err(Error::InvalidPath(_))));
    });
}

#[test]
fn an_error_of_the_server_is_returned() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        create(&zk, "/a").await.unwrap();
        let refusal = Verdict::Refuse(zk_curator_client::ErrorCode::MarshallingError);
        let _rule = server.rule(move |request| match request.is(OpCode::SetWatches) {
            true => refusal,
            false => Verdict::Pass,
        });
        let refused = zk.changes_since(&data(1, &["/a"])).await;
        assert_eq!(refused, Err(Error::Refused(zk_curator_client::ErrorCode::MarshallingError)));
    });
}

/// Frames are no longer than the servers accept: a path that does not fit into one is refused.
#[test]
fn frames_are_as_small_as_requests() {
    simulated_with(async |server| {
        let zk = start(builder(&server).max_frame(300).queue_limits(1, 300)).await;
        let paths: Vec<_> = (0..100).map(|n| format!("/{n:050}")).collect();
        let before = server.probe().requests(OpCode::SetWatches);
        let mut question = ChangesSince::new(1);
        question.children = paths.clone();
        let deleted = zk.changes_since(&question).await.unwrap();
        assert_eq!(deleted.into_iter().map(|event| event.path).collect::<Vec<_>>(), paths);
        let frames = server.probe().requests(OpCode::SetWatches) - before;
        assert_eq!(frames, 25);
        question.children.push(format!("/{}", "x".repeat(300)));
        assert!(matches!(
            zk.changes_since(&question).await,
            Err(Error::TooLarge { limit: 300, .. })
        ));
    });
}
