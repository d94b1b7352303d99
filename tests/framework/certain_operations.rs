//! Single operations with a receipt: the builders of create, set_data and delete.

use zk_curator::certain::Receipt;
use zk_curator::{Acl, CreateMode, CuratorFramework, ErrorKind, Permissions};
use zk_curator_proto::OpCode;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    connected, cut_at_next_write, in_memory, once, simulated_each_on, simulated_on,
};

async fn with_receipt() -> (TestServer, CuratorFramework, Receipt) {
    let (server, zk) = in_memory().await;
    zk.create("/receipts").await.unwrap();
    let receipt = Receipt::new(&zk, "/receipts");
    (server, zk, receipt)
}

const LOSSES: [Verdict; 2] = [Verdict::LoseReply, Verdict::LoseRequest];

/// Without a receipt each of them would fail with `may_have_applied`, or be applied twice.
#[test]
fn each_operation_is_applied_once_whatever_is_lost() {
    simulated_each_on(LOSSES, with_receipt, async |verdict, (server, zk, receipt)| {
        let lost = || once(&server, OpCode::Multi, verdict);

        let first = lost();
        let created = zk.create("/receipts/n-").mode(CreateMode::PersistentSequential).data("a");
        let created = created.certain(&receipt).await.unwrap();
        let mut names = zk.children("/receipts").await.unwrap();
        names.retain(|name| name.starts_with("n-"));
        assert_eq!(names.len(), 1, "{verdict:?}: {names:?}");
        let path = format!("/receipts/{}", names[0]);
        assert_eq!(server.probe().stat(&path).unwrap().czxid, created.zxid(), "{verdict:?}");

        let second = lost();
        let written = zk.set_data(path.as_str(), "b").certain(&receipt).await.unwrap();
        let stat = server.probe().stat(&path).unwrap();
        assert_eq!((stat.version, stat.mzxid), (1, written.zxid()), "{verdict:?}");

        let third = lost();
        zk.delete(path.as_str()).version(1).certain(&receipt).await.unwrap();
        assert!(!server.probe().exists(&path));
        assert_eq!((first.hits(), second.hits(), third.hits()), (1, 1, 1));
    });
}

/// Another client creates the node again before the outcome is known. The versions of that begin
/// again, so a repetition overwrites it, as [`SetDataBuilder`](zk_curator::op::SetDataBuilder)
/// says; a certain write does not.
#[test]
fn a_certain_write_leaves_the_next_node_of_the_name() {
    let cases = [(false, "ours"), (true, "theirs")];
    simulated_each_on(cases, with_receipt, async |(is_certain, expected), stage| {
        let (server, zk, receipt) = stage;
        zk.create("/node").await.unwrap();
        let operator = connected(&server).await;
        let cut = cut_at_next_write(&server, &zk, Verdict::LoseReply);
        let write = zk.set_data("/node", "ours").version(0);
        let task = tokio::spawn(async move {
            if is_certain {
                write.certain(&receipt).commit().await.map(drop)
            } else {
                write.await.map(drop)
            }
        });
        cut.fired().await;
        assert_eq!(operator.get_data("/node").await.unwrap(), "ours");
        operator.delete("/node").await.unwrap();
        operator.create("/node").data("theirs").await.unwrap();
        drop(cut);
        task.await.unwrap().unwrap();
        assert_eq!(operator.get_data("/node").await.unwrap(), expected);
    });
}

/// Another client creates the node again before the outcome is known: a repetition would delete
/// that node.
#[test]
fn a_certain_delete_leaves_the_next_node_of_the_name() {
    simulated_on(with_receipt, async |(server, zk, receipt)| {
        zk.create("/node").await.unwrap();
        zk.transaction().certain(&receipt).await.unwrap();
        let operator = connected(&server).await;
        let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
        let task = tokio::spawn(zk.delete("/node").certain(&receipt).commit());
        lost.fired().await;
        operator.create("/node").data("theirs").await.unwrap();
        task.await.unwrap().unwrap();
        assert_eq!(server.probe().data("/node").unwrap(), "theirs");
    });
}

#[test]
fn missing_parents_are_created_as_the_builder_says() {
    simulated_each_on(LOSSES, with_receipt, async |verdict, (server, zk, receipt)| {
        let missing = zk.create("/a/b/c").certain(&receipt).await.unwrap_err();
        assert_eq!((missing.kind(), missing.path()), (ErrorKind::NoNode, "/a/b/c"));
        let lost = once(&server, OpCode::Multi, verdict).after(1);
        zk.create("/a/b/c")
            .data("x")
            .creating_parents_as_containers()
            .certain(&receipt)
            .await
            .unwrap();
        assert_eq!((server.probe().data("/a/b/c").unwrap(), lost.hits()), ("x".into(), 1));
        // Also the namespace.
        let inside = zk.using_namespace("team").unwrap();
        let there = Receipt::new(&inside, "/");
        inside.create("/x").certain(&there).await.unwrap();
        assert!(server.probe().exists("/team/x"));
    });
}

#[test]
fn errors_are_those_of_the_operation() {
    simulated_on(with_receipt, async |(_server, zk, receipt)| {
        zk.create("/node").await.unwrap();
        zk.create("/node/child").await.unwrap();
        for (operation, path, expected, certain) in [
            ("create", "/node", ErrorKind::NodeExists, zk.create("/node").certain(&receipt)),
            ("create", "/no/parent", ErrorKind::NoNode, zk.create("/no/parent").certain(&receipt)),
            ("set_data", "/none", ErrorKind::NoNode, zk.set_data("/none", "x").certain(&receipt)),
            (
                "set_data",
                "/node",
                ErrorKind::BadVersion,
                zk.set_data("/node", "x").version(7).certain(&receipt),
            ),
            ("delete", "/node", ErrorKind::NotEmpty, zk.delete("/node").certain(&receipt)),
            (
                "delete",
                "/node",
                ErrorKind::BadVersion,
                zk.delete("/node").version(7).certain(&receipt),
            ),
        ] {
            let error = certain.await.unwrap_err();
            assert_eq!(
                (error.operation(), error.path(), error.kind()),
                (operation, path, expected),
                "{error}"
            );
            assert!(!error.may_have_applied());
        }
        let denied = Receipt::new(&zk, "/not/there");
        let error = zk.set_data("/node", "x").certain(&denied).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoNode);
        assert!(error.path().starts_with("/not/there/_r_"), "{error}");
    });
}

#[test]
fn options_with_their_own_proof_are_refused_and_not_sent() {
    simulated_on(with_receipt, async |(server, zk, receipt)| {
        let before = server.probe().total_requests();
        for certain in [
            zk.create("/x").protected().certain(&receipt),
            zk.create("/x").idempotent().certain(&receipt),
            zk.create("/x").or_set_data().certain(&receipt),
            zk.set_data("/x", "").idempotent().certain(&receipt),
            zk.delete("/x").quietly().certain(&receipt),
            zk.delete("/x").guaranteed().certain(&receipt),
            zk.delete("/x").czxid(1).certain(&receipt),
            zk.delete("/x").deleting_children().certain(&receipt),
            zk.delete("/x").max_in_flight(1).certain(&receipt),
        ] {
            let said = format!("{certain:?}");
            let error = certain.await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::InvalidArgument), "{said}: {error}");
            assert_eq!(error.path(), "/x");
        }
        assert_eq!(server.probe().total_requests(), before);
    });
}

/// The data are stored as the builder says, and with its ACL and its kind.
#[test]
fn the_options_of_the_builder_are_kept() {
    simulated_on(with_receipt, async |(server, zk, receipt)| {
        let read_only = vec![Acl::new(Permissions::READ, "world", "anyone")];
        let create =
            zk.create("/node").mode(CreateMode::Ephemeral).data("x").acl(read_only.clone());
        let applied = create.certain(&receipt).await.unwrap();
        let (acl, stat) =
            (zk.get_acl("/node").await.unwrap(), server.probe().stat("/node").unwrap());
        assert_eq!(acl, read_only);
        assert!(stat.is_ephemeral());
        // It has a guard, which deletes the node.
        applied.own(&zk, "/node", stat).unwrap().delete().await.unwrap();
        assert!(!server.probe().exists("/node"));
    });
}
