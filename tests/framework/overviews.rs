//! Server-side overviews of a session, of a connection, and of a whole subtree.

use zk_curator::{Acl, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::Verdict;
use zk_curator_tests::{Server, on_each_server, simulated_with, start};

on_each_server! {
    ephemeral_nodes_are_those_of_the_session_and_the_namespace
    all_nodes_below_are_counted
    identities_are_those_of_the_connection
}

async fn ephemeral(zk: &CuratorFramework, path: &str) {
    zk.create(path).creating_parents().mode(CreateMode::Ephemeral).await.unwrap();
}

async fn ephemerals(zk: &CuratorFramework, path: &str) -> Vec<String> {
    let mut paths = zk.get_ephemerals(path).await.unwrap();
    paths.sort_unstable();
    paths
}

async fn ephemeral_nodes_are_those_of_the_session_and_the_namespace(server: Server) {
    let (outside, other) = (server.connected().await, server.connected().await);
    let zk = outside.using_namespace("app").unwrap();
    ephemeral(&zk, "/a/1").await;
    ephemeral(&zk, "/ab").await;
    ephemeral(&outside, "/application/2").await;
    ephemeral(&other, "/app/a/3").await;
    assert_eq!(ephemerals(&zk, "/").await, ["/a/1", "/ab"]);
    assert_eq!(ephemerals(&zk, "/a").await, ["/a/1"]);
    assert_eq!(ephemerals(&zk, "/ab").await, ["/ab"]);
    assert!(ephemerals(&zk, "/none").await.is_empty());
    assert_eq!(ephemerals(&outside, "/").await, ["/app/a/1", "/app/ab", "/application/2"]);
    assert_eq!(ephemerals(&other, "/app").await, ["/app/a/3"]);
    for zk in [other, outside] {
        zk.close().await.unwrap();
    }
}

async fn all_nodes_below_are_counted(server: Server) {
    let outside = server.connected().await;
    let zk = outside.using_namespace("app").unwrap();
    for path in ["/a/b/c", "/a/b/d", "/ab"] {
        zk.create(path).creating_parents().await.unwrap();
    }
    let counted = [("/", 5), ("/a", 3), ("/a/b", 2), ("/ab", 0)];
    for (path, count) in counted {
        assert_eq!(zk.get_all_children_number(path).await.unwrap(), count, "{path}");
    }
    let error = zk.get_all_children_number("/none").await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NoNode, "/none"));
    outside.close().await.unwrap();
}

async fn identities_are_those_of_the_connection(server: Server) {
    let zk = start(server.builder().authorization("digest", "alice:secret")).await;
    // Only behind a response is it certain that the server has it.
    zk.create("/mine").acl(Acl::creator_all()).await.unwrap();
    let mut identities = zk.who_am_i().await.unwrap();
    identities.sort_by(|one, two| one.scheme.cmp(&two.scheme));
    let schemes: Vec<_> = identities.iter().map(|identity| identity.scheme.as_str()).collect();
    assert_eq!((schemes, identities[0].user.as_str()), (vec!["digest", "ip"], "alice"));
    zk.close().await.unwrap();
}

#[test]
fn servers_without_the_requests_are_unsupported() {
    simulated_with(async |server, zk| {
        let _old = server.rule(|request| {
            let known = [OpCode::GetEphemerals, OpCode::GetAllChildrenNumber, OpCode::WhoAmI];
            match known.into_iter().any(|opcode| request.is(opcode)) {
                true => Verdict::Refuse(ErrorCode::Unimplemented),
                false => Verdict::Pass,
            }
        });
        assert_eq!(zk.get_ephemerals("/").await.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(
            zk.get_all_children_number("/").await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(zk.who_am_i().await.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(zk.get_ephemerals("a").await.unwrap_err().kind(), ErrorKind::InvalidPath);
    });
}
