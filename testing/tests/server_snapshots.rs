//! Servers that start with the state of another one.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::time::Duration;

use crate::common::RawClient;
use tokio::time::Instant;
use zk_curator_proto::records::{AddWatchRequest, CreateMode, CreateTtlRequest};
use zk_curator_proto::{ErrorCode, Request};
use zk_curator_real::TempDir;
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{Snapshot, SnapshotError, TestServer};

/// Starts a server in memory with one node of each kind, and a client with a session on it.
async fn original() -> (TestServer, RawClient) {
    let server = TestServer::in_memory().await;
    let mut zk = RawClient::new(&server).await;
    for (path, mode) in [
        ("/a", CreateMode::Persistent),
        ("/a/child", CreateMode::Persistent),
        ("/e", CreateMode::Ephemeral),
        ("/a/n-", CreateMode::PersistentSequential),
    ] {
        zk.create(path, mode).await.unwrap();
    }
    for path in ["/c", "/c/child"] {
        let body = crate::common::create_body(path, CreateMode::Container);
        zk.call(Request::CreateContainer(body)).await.unwrap();
    }
    let common = crate::common::create_body("/ttl", CreateMode::Persistent);
    let ttl =
        CreateTtlRequest { path: common.path, data: None, acl: common.acl, flags: 5, ttl: 60_000 };
    zk.call(Request::CreateTtl(ttl)).await.unwrap();
    zk.set_data("/a", b"new").await.unwrap();
    zk.delete("/a/child").await.unwrap();
    (server, zk)
}

/// Describes every node and session, without the last line, which has the counts.
fn contents(server: &TestServer) -> String {
    server
        .probe()
        .to_string()
        .rsplit_once(" connections, ")
        .unwrap()
        .0
        .trim_end_matches(char::is_numeric)
        .to_owned()
}

async fn started(snapshot: Snapshot) -> TestServer {
    TestServer::builder().tcp(false).snapshot(snapshot).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_with_a_snapshot_has_all_of_it() {
    let (server, zk) = original().await;
    let snapshot = server.snapshot();
    server.stop().await;
    let before = contents(&server);
    let copy = started(snapshot.clone()).await;
    assert_eq!(contents(&copy), before);
    // Containers and TTL nodes keep their kinds.
    let mut heir = zk.reattach(&copy).await.unwrap();
    heir.delete("/c/child").await.unwrap();
    assert_eq!(copy.reap_containers(), ["/c"]);
    spend(Duration::from_secs(9)).await;
    heir.ping().await;
    assert_eq!(
        heir.create("/a/n-", CreateMode::PersistentSequential).await.unwrap(),
        "/a/n-0000000002"
    );
    // The change does not affect another server of the same snapshot.
    assert_eq!(contents(&started(snapshot).await), before);
}

#[tokio::test(start_paused = true)]
async fn sessions_have_their_whole_timeout_and_then_expire() {
    let (server, zk) = original().await;
    spend(Duration::from_secs(9)).await;
    let copy = started(server.snapshot()).await;
    let start = Instant::now();
    copy.until(|probe| probe.session(zk.id()).is_none()).await;
    let lived = start.elapsed();
    assert!(
        (Duration::from_secs(10)..=Duration::from_millis(10_010)).contains(&lived),
        "{lived:?}"
    );
    assert!(!copy.probe().exists("/e"));
}

#[tokio::test(start_paused = true)]
async fn quotas_go_on_counting() {
    let (server, mut zk) = original().await;
    for path in ["", "/zookeeper_limits", "/zookeeper_stats"] {
        zk.create(&format!("/zookeeper/quota/a{path}"), CreateMode::Persistent).await.unwrap();
    }
    let stats = "/zookeeper/quota/a/zookeeper_stats";
    let counted = zk.get_data(stats, false).await.unwrap();
    let copy = started(server.snapshot()).await;
    let mut heir = zk.reattach(&copy).await.unwrap();
    assert_eq!(heir.get_data(stats, false).await.unwrap(), counted);
    heir.create("/a/more", CreateMode::Persistent).await.unwrap();
    assert_ne!(heir.get_data(stats, false).await.unwrap(), counted);
}

#[tokio::test(start_paused = true)]
async fn watches_and_connections_are_not_part_of_it() {
    let (server, mut zk) = original().await;
    zk.call(Request::AddWatch(AddWatchRequest { path: "/a".into(), mode: 1 })).await.unwrap();
    let copy = started(server.snapshot()).await;
    assert!(copy.probe().watches().is_empty());
    assert!(!copy.probe().session(zk.id()).unwrap().connected);
    // A session that was opened later has another id.
    assert_ne!(RawClient::new(&copy).await.id(), zk.id());
}

#[tokio::test(start_paused = true)]
async fn sessions_of_a_read_only_server_end_with_it_and_others_wait() {
    let (server, zk) = original().await;
    server.set_read_only(true);
    let request = crate::common::new_session();
    let local = RawClient::handshake(
        &server,
        zk_curator_proto::records::ConnectRequest { read_only: true, timeout: 10_000, ..request },
    );
    let local = local.await.unwrap();
    let snapshot = server.snapshot();
    let copy =
        TestServer::builder().tcp(false).read_only(true).snapshot(snapshot).start().await.unwrap();
    assert_eq!(copy.probe().session(local.id()), None);
    idle(Duration::from_secs(60)).await;
    assert!(copy.probe().session(zk.id()).is_some());
    copy.set_read_only(false);
    assert!(zk.reattach(&copy).await.is_some());
}

#[tokio::test]
async fn a_file_is_replaced_as_a_whole_or_not_at_all() {
    let directory = TempDir::new("zk-curator-snapshots").unwrap();
    let file = directory.path().join("snapshot");
    let missing = Snapshot::load(&file).unwrap_err();
    assert!(
        matches!(&missing, SnapshotError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    );

    let (server, mut zk) = original().await;
    server.snapshot().save(&file).unwrap();
    assert_eq!(
        started(Snapshot::load(&file).unwrap()).await.probe().paths(),
        server.probe().paths()
    );
    let first = std::fs::read(&file).unwrap();
    zk.create("/more", CreateMode::Persistent).await.unwrap();
    // A directory prevents the write of the new file.
    let new = directory.path().join("snapshot.new");
    std::fs::create_dir(&new).unwrap();
    let error = server.snapshot().save(&file).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot write {}", new.display()));
    assert_eq!(std::fs::read(&file).unwrap(), first);
    std::fs::remove_dir(&new).unwrap();
    server.snapshot().save(&file).unwrap();
    assert!(started(Snapshot::load(&file).unwrap()).await.probe().exists("/more"));
    assert!(!new.exists());

    for (bytes, part) in [
        (&b""[..], "is not a snapshot"),
        (b"zkcusnap", "is not a snapshot"),
        (
            &[b"zkcusnap", &[0, 0, 0, 2][..], &[0; 20]].concat(),
            "has version 2 of the format, this is version 1",
        ),
        (&first[..first.len() - 1], "is damaged: its checksum is wrong"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let error = Snapshot::load(&file).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(zk.exists("/gone", false).await, Err(ErrorCode::NoNode));
}
