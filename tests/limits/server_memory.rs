//! What nodes and idle sessions take in memory, as the allocator counts it. `benches/server.rs` has
//! the same for a million nodes and ten thousand sessions of a process; here it is less of both,
//! and the limits are wide.

use crate::common::RawClient;
use bytes::Bytes;
use zk_curator_proto::Request;
use zk_curator_proto::records::{Acl, CreateRequest};
use zk_curator_testing::TestServer;

use crate::{ALLOCATOR, ALONE};

const NODES: usize = 20_000;
const SESSIONS: usize = 200;

#[test]
fn nodes_and_idle_sessions_are_small() {
    let _alone = ALONE.blocking_lock();
    zk_curator_tests::real_time(sizes());
}

async fn sizes() {
    let server = TestServer::start().await;
    let mut client = RawClient::new(&server).await;
    let create = |path: String, length: usize| {
        let (data, acl) = (Some(Bytes::from(vec![7; length])), Acl::open_unsafe());
        Request::Create(CreateRequest { path, data, acl, flags: 0 })
    };
    let before = ALLOCATOR.allocated();
    for number in 0..NODES {
        if number % 1000 == 0 {
            client.call(create(format!("/parent-{}", number / 1000), 0)).await.unwrap();
        }
        let path = format!("/parent-{}/node-{number:08}", number / 1000);
        client.call(create(path, 100)).await.unwrap();
    }
    let each = (ALLOCATOR.allocated() - before) / NODES;
    assert!(each < 360, "a node of 100 bytes takes {each} bytes");

    let before = ALLOCATOR.allocated();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(RawClient::over_tcp(&server.connect_string()).await);
    }
    assert_eq!(server.probe().sessions().len(), SESSIONS + 1);
    let each = (ALLOCATOR.allocated() - before) / SESSIONS;
    assert!(each < 10_000, "an idle session takes {each} bytes, those of its client included");

    let before = ALLOCATOR.allocated();
    let probe = server.probe();
    let taken = ALLOCATOR.allocated() - before;
    assert!(
        taken < 100 * SESSIONS + 10_000,
        "a probe takes {taken} bytes, however many nodes there are"
    );
    drop((probe, sessions));
}
