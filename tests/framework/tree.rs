//! Trees and children with their data, read once.

use std::time::Duration;

use zk_curator::op::TreeNode;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, in_memory, once, rule_if, session_id, simulated_drops, simulated_on,
    simulated_with, start, two_in_memory,
};

fn paths(nodes: &[TreeNode]) -> Vec<&str> {
    nodes.iter().map(|node| node.path.as_str()).collect()
}

async fn create(zk: &CuratorFramework, paths: impl IntoIterator<Item = String>) {
    let paths: Vec<_> = paths.into_iter().collect();
    for paths in paths.chunks(500) {
        let mut transaction = zk.transaction();
        for path in paths {
            transaction = transaction.create(path, path.as_str().to_owned());
        }
        transaction.commit().await.unwrap();
    }
}

/// The requests that read, from now until the result is called.
fn reads(server: &TestServer) -> impl Fn(OpCode) -> u64 {
    let (server, before) = (server.clone(), server.probe());
    move |opcode| server.probe().requests(opcode) - before.requests(opcode)
}

#[test]
fn a_thousand_children_take_three_requests() {
    simulated_with(async |server, zk| {
        zk.create("/p").await.unwrap();
        create(&zk, (0..1_000).map(|n| format!("/p/{n:03}"))).await;
        let of = reads(&server);
        let children = zk.children_with_data("/p").await.unwrap();
        assert_eq!((of(OpCode::GetChildren2), of(OpCode::MultiRead)), (1, 2));
        assert_eq!(children.len(), 1_000);
        assert!(children.is_sorted_by(|a, b| a.name < b.name));
        assert!(children.iter().all(|child| child.data == format!("/p/{}", child.name)));
    });
}

#[test]
fn a_tree_is_in_order_with_its_data() {
    simulated_with(async |server, zk| {
        let zk = zk.using_namespace("app").unwrap();
        zk.create("/t").creating_parents().data("/t").await.unwrap();
        // A dash sorts before a slash.
        let below = ["/t/a", "/t/a-b", "/t/a/x", "/t/a/x/y", "/t/b"];
        create(&zk, below.map(str::to_owned)).await;
        zk.create("/t2").await.unwrap();
        let of = reads(&server);
        let nodes = zk.tree("/t").await.unwrap();
        assert_eq!(paths(&nodes), ["/t", "/t/a", "/t/a/x", "/t/a/x/y", "/t/a-b", "/t/b"]);
        assert!(nodes.iter().all(|node| node.data == node.path && node.stat.version == 0));
        assert_eq!(of(OpCode::MultiRead), 4, "one for each level");
        assert_eq!(paths(&zk.tree("/t").max_depth(0).await.unwrap()), ["/t"]);
        assert_eq!(paths(&zk.tree("/t").max_depth(1).await.unwrap()).len(), 4);
        let filtered = zk.tree("/t").filter(|path| path != "/t/a").await.unwrap();
        assert_eq!(paths(&filtered), ["/t", "/t/a-b", "/t/b"]);
        assert_eq!(paths(&zk.tree("/").max_depth(1).await.unwrap()), ["/", "/t", "/t2"]);
        for (path, kind) in [("/none", ErrorKind::NoNode), ("t", ErrorKind::InvalidPath)] {
            let error = zk.tree(path).await.unwrap_err();
            assert_eq!((error.kind(), error.operation(), error.path()), (kind, "tree", path));
        }
    });
}

#[test]
fn large_levels_list_only_parents() {
    simulated_with(async |server, zk| {
        zk.create("/t").await.unwrap();
        create(&zk, (0..600).map(|n| format!("/t/{n:03}"))).await;
        create(&zk, (0..10).map(|n| format!("/t/{n:03}/x"))).await;
        let of = reads(&server);
        let nodes = zk.tree("/t").await.unwrap();
        assert_eq!(nodes.len(), 611);
        assert_eq!(paths(&nodes)[..4], ["/t", "/t/000", "/t/000/x", "/t/001"]);
        // The first level; two for the data of 600 nodes, one for the lists of ten; the last level.
        assert_eq!(of(OpCode::MultiRead), 1 + 2 + 1 + 1);
    });
}

#[test]
fn deleted_nodes_are_left_out_with_their_children() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/t").await.unwrap();
        create(&zk, ["/t/a", "/t/a/x", "/t/b", "/t/b/x"].map(str::to_owned)).await;
        let late = once(&server, OpCode::MultiRead, Verdict::Delay(Duration::from_secs(1)));
        let second = late.after(1);
        let deleted = async {
            second.fired().await;
            other.delete("/t/a").deleting_children().await.unwrap();
        };
        let (nodes, ()) = tokio::join!(zk.tree("/t").into_future(), deleted);
        assert_eq!(paths(&nodes.unwrap()), ["/t", "/t/b", "/t/b/x"]);
        // Without permission, the call fails, unless the node is excluded.
        let refused = rule_if(
            &server,
            |request| request.is(OpCode::MultiRead) && request.is_about("/t/b"),
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        assert_eq!(zk.tree("/t").await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert_eq!(paths(&zk.tree("/t").filter(|path| path != "/t/b").await.unwrap()), ["/t"]);
        drop(refused);
    });
}

#[test]
fn a_tree_is_read_in_one_session() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create("/t").await.unwrap();
        create(&zk, ["/t/a", "/t/b"].map(str::to_owned)).await;
        let of = reads(&server);
        let us = session_id(&zk).get();
        let lost = once(&server, OpCode::MultiRead, Verdict::LoseRequest).after(1);
        let ended = async {
            lost.fired().await;
            other.delete("/t/a").await.unwrap();
            server.expire(us).await;
        };
        let (nodes, ()) = tokio::join!(zk.tree("/t").into_future(), ended);
        assert_eq!(paths(&nodes.unwrap()), ["/t", "/t/b"]);
        // The lost request does not count.
        assert_eq!(of(OpCode::MultiRead), 1 + 2, "both levels again");
        // A lost response alone is a retry of one level.
        let of = reads(&server);
        let lost = once(&server, OpCode::MultiRead, Verdict::LoseReply);
        assert_eq!(zk.tree("/t").await.unwrap().len(), 2);
        assert_eq!((lost.hits(), of(OpCode::MultiRead)), (1, 3));
        // Servers before 3.6 are asked one by one.
        let old = rule_if(
            &server,
            |request| request.is(OpCode::MultiRead),
            Verdict::Refuse(ErrorCode::Unimplemented),
        );
        assert_eq!(paths(&zk.tree("/t").await.unwrap()), ["/t", "/t/b"]);
        drop(old);
    });
}

#[test]
fn data_are_decompressed_as_the_handle_says() {
    simulated_with(async |server, plain| {
        plain.create("/t").data("plain").await.unwrap();
        let packing = connected(&server).await.compressed();
        packing.create("/t/a").data("packed").await.unwrap();
        assert_ne!(plain.get_data("/t/a").await.unwrap(), "packed");
        assert_eq!(plain.get_data("/t/a").decompressed().await.unwrap(), "packed");
        assert_eq!(packing.get_data("/t/a").await.unwrap(), "packed");
        let read = plain.children_with_data("/t").decompressed().await.unwrap();
        assert_eq!(read[0].data, "packed");
        assert_eq!(packing.children_with_data("/t").await.unwrap()[0].data, "packed");
        assert_ne!(
            packing.children_with_data("/t").undecompressed().await.unwrap()[0].data,
            "packed"
        );
        let error = packing.tree("/t").await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Undecodable, "/t"));
        assert_eq!(plain.tree("/t/a").decompressed().await.unwrap()[0].data, "packed");
        // A handle that was told otherwise keeps to it, and so does an operation.
        let zk = start(builder(&server).enable_compression()).await;
        zk.uncompressed().create("/t/b").data("plain").await.unwrap();
        assert_eq!(zk.uncompressed().compressed().get_data("/t/a").await.unwrap(), "packed");
        assert_eq!(packing.get_data("/t/b").undecompressed().await.unwrap(), "plain");
    });
}

#[test]
fn a_dropped_tree_leaves_nothing() {
    simulated_drops(
        3,
        async || {
            let (server, zk) = in_memory().await;
            zk.create("/t").await.unwrap();
            zk.create("/t/a").await.unwrap();
            (server, zk)
        },
        async |(_, zk)| zk.tree("/t").await.unwrap(),
        async |(server, zk), read| {
            assert!(read.is_none_or(|nodes| paths(&nodes) == ["/t", "/t/a"]));
            zk.close().await.unwrap();
            assert!(server.probe().watches().is_empty() && server.probe().sessions().is_empty());
        },
    );
}
