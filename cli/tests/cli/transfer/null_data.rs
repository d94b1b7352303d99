//! Null data, which differ from empty data.

use zk_curator::CuratorFramework;
use zk_curator::op::CreateOp;
use zk_curator_testing::{Probe, TestServer};

use super::{Scratch, assert_equal, connected, zkc};

/// Creates a tree with a node that has null data, and one that has empty data.
pub(super) async fn create(zk: &CuratorFramework, root: &str) {
    let node = |name: &str| CreateOp::new(format!("{root}{name}"));
    let transaction = zk.transaction().with(node("").null_data()).with(node("/null").null_data());
    transaction.with(node("/empty").data("")).commit().await.unwrap();
}

#[track_caller]
fn assert_null(probe: &Probe, root: &str) {
    let data = |name: &str| probe.data(&format!("{root}{name}")).map(|data| data.len());
    assert!(probe.exists(root) && probe.exists(&format!("{root}/null")));
    assert_eq!((data(""), data("/null"), data("/empty")), (None, None, Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn null_data_stay_null_in_copies() {
    let (server, other, scratch) =
        (TestServer::start().await, TestServer::start().await, Scratch::new());
    create(&connected(&server).await, "/a").await;
    zkc(&server, &["cp", "-r", "/a", "/copy"]).await.code(0);
    assert_null(&server.probe(), "/copy");
    zkc(&server, &["mv", "-r", "/copy", "/moved"]).await.code(0);
    assert_null(&server.probe(), "/moved");
    let file = scratch.file();
    for backup in [&["backup", "/a", &file][..], &["backup", "/a", &file, "--plain"]] {
        zkc(&server, backup).await.code(0);
        zkc(&other, &["restore", &file]).await.code(0);
        assert_equal((&server, "/a"), (&other, "/a"));
        assert_null(&other.probe(), "/a");
        zkc(&other, &["rm", "-r", "-y", "/a"]).await.code(0);
    }
    let exported = zkc(&server, &["export", "/a", "-o", "json"]).await.code(0).json();
    assert_eq!(exported["children"]["null"]["data"], serde_json::Value::Null);
    assert_eq!(exported["children"]["empty"]["data"]["text"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn null_and_empty_data_are_different() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, "/a").await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    zk.set_data("/a/null", "").await.unwrap();
    zkc(&server, &["restore", &file]).await.code(6).says("differs: /a/null");
    let ran = zkc(&server, &["diff", &file, "/a"]).await.code(1);
    assert_eq!(
        ran.stdout.split_whitespace().collect::<Vec<_>>(),
        ["~", "/a/null", "data", "from", "null"]
    );
    let ran = zkc(&server, &["diff", "/a", &file, "-o", "json"]).await.code(1);
    assert_eq!(ran.json()[0]["what"], "data to null");
    zkc(&server, &["restore", &file, "--on-conflict", "replace"]).await.code(0);
    assert_null(&server.probe(), "/a");
    zkc(&server, &["diff", &file, "/a"]).await.code(0);
}

/// A file of the first version, which wrote null data as empty.
const OLD: &str = include_str!("kinds.zkb");

#[tokio::test(flavor = "multi_thread")]
async fn old_files_do_not_tell_null_from_empty() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    zk.transaction().with(CreateOp::new("/k").null_data()).commit().await.unwrap();
    let file = scratch.file();
    std::fs::write(&file, OLD).unwrap();
    zkc(&server, &["restore", &file]).await.code(0).says("+ 3  ~ 0  = 1");
    zkc(&server, &["diff", &file, "/k"]).await.code(0);
    assert!(server.probe().exists("/k") && server.probe().data("/k").is_none());
}
