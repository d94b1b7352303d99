//! A read-only server responds as a member of an Apache ZooKeeper ensemble that has lost its
//! quorum.
//!
//! Skipped where Apache ZooKeeper is missing, see [`zk_curator_real`].
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use crate::common::{RawClient, auth, create, delete, new_session, set_data};
use bytes::Bytes;
use zk_curator_client::{Connector, TcpConnector};
use zk_curator_proto::records::{
    AddWatchRequest, ConnectRequest, CreateMode, ExistsRequest, GetAclRequest, GetChildrenRequest,
    GetEphemeralsRequest, ReconfigRequest, SetAclRequest, SetWatches, SyncRequest,
};
use zk_curator_proto::{Request, Response};
use zk_curator_real::{self as real, RealZooKeeper, RealZooKeeperBuilder, TempDir};
use zk_curator_testing::TestServer;

/// Configures the first of three servers, without starting the other two.
fn lonely_member(data: &std::path::Path) -> RealZooKeeperBuilder {
    std::fs::write(data.join("myid"), "1").unwrap();
    let mut builder = RealZooKeeper::builder()
        .data_directory(data)
        .jvm_property("readonlymode.enabled", true)
        .setting("localSessionsEnabled", true)
        .setting("localSessionsUpgradingEnabled", true)
        .setting("initLimit", 5)
        .setting("syncLimit", 5);
    for member in 0..3 {
        let [peer, election] = [(); 2].map(|()| real::free_port().unwrap());
        let addresses = format!("127.0.0.1:{peer}:{election}");
        builder = builder.setting(&format!("server.{}", member + 1), addresses);
    }
    builder
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_read_only_server_responds_like_a_member_without_quorum() {
    let data = TempDir::new("zk-curator-read-only").unwrap();
    let test = "a_read_only_server_responds_like_a_member_without_quorum";
    let zookeeper = real::or_skip_with(test, lonely_member(data.path())).await;
    if let Some(zookeeper) = &zookeeper {
        let expected = transcript(&zookeeper.connect_string()).await;
        let version = zookeeper.version().await.unwrap();
        let embedded = TestServer::builder().version(version).read_only(true).start();
        let found = transcript(&embedded.await.unwrap().connect_string()).await;
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(expected, found);
        }
        assert_eq!(expected.len(), found.len());
        let isro = zookeeper.four_letter_word("isro").await.unwrap();
        assert_eq!(isro, "ro");
    }
}

async fn connect(address: &str, request: ConnectRequest) -> Option<RawClient> {
    let (host, port) = address.rsplit_once(':').unwrap();
    let stream = TcpConnector::default().connect(host, port.parse().unwrap()).await.unwrap();
    RawClient::open(stream, ConnectRequest { timeout: 10_000, ..request }).await
}

/// Returns the results of the handshake and of requests of every kind.
#[expect(clippy::too_many_lines, reason = "one story")]
async fn transcript(address: &str) -> Vec<String> {
    let read_only = ConnectRequest { read_only: true, ..new_session() };
    let mut lines = Vec::new();
    lines.push(format!("{}", connect(address, new_session()).await.is_none()));
    let ahead = ConnectRequest { last_zxid_seen: 5, ..read_only.clone() };
    lines.push(format!("{}", connect(address, ahead).await.is_none()));

    let mut zk = connect(address, read_only).await.unwrap();
    lines.push(format!("{} {}", zk.session.timeout, zk.session.read_only));
    let requests = [
        create("/t", CreateMode::Persistent),
        create("/t", CreateMode::Ephemeral),
        set_data("/none", b"", 7),
        delete("/zookeeper"),
        Request::SetAcl(SetAclRequest { path: "/".into(), acl: Vec::new(), version: 0 }),
        Request::Multi(Vec::new()),
        Request::MultiRead(Vec::new()),
        Request::Reconfig(ReconfigRequest { version: -1, ..ReconfigRequest::default() }),
        Request::Sync(SyncRequest { path: "/".into() }),
        Request::Exists(ExistsRequest { path: "/".into(), watch: true }),
        Request::GetChildren(GetChildrenRequest { path: "/zookeeper".into(), watch: true }),
        Request::GetAcl(GetAclRequest { path: "/zookeeper".into() }),
        Request::AddWatch(AddWatchRequest { path: "/a".into(), mode: 1 }),
        Request::SetWatches(SetWatches {
            data_watches: vec!["/gone".into()],
            ..SetWatches::default()
        }),
        Request::GetEphemerals(GetEphemeralsRequest { prefix: "/".into() }),
        Request::WhoAmI,
        auth("digest", b"a:b"),
        Request::Ping,
    ];
    for request in requests {
        let mut answer = zk.call(request.clone()).await;
        if let Ok(Response::Children(names)) = &mut answer {
            names.sort_unstable();
        }
        lines.push(format!("{request:?}: {answer:?} {:?}", zk.events.drain(..)));
    }

    let again = ConnectRequest { read_only: true, ..zk.reattach_request() };
    let mut attached = connect(address, again.clone()).await.unwrap();
    lines.push(format!("attached {}", attached.id() == zk.id()));
    zk.closed().await;
    let wrong = ConnectRequest { password: Some(Bytes::from_static(&[1; 16])), ..again.clone() };
    for refused in [wrong, ConnectRequest { session_id: 12_345, ..again.clone() }] {
        let mut refused = connect(address, refused).await.unwrap();
        lines.push(format!(
            "{} {} {}",
            refused.id(),
            refused.session.timeout,
            refused.session.read_only
        ));
        refused.closed().await;
    }
    attached.closed().await;
    let mut attached = connect(address, again.clone()).await.unwrap();
    lines.push(format!("{:?}", attached.call(Request::CloseSession).await));
    attached.closed().await;
    let closed = connect(address, again).await.unwrap();
    lines.push(format!("closed {} {}", closed.id(), closed.session.timeout));
    lines
}
