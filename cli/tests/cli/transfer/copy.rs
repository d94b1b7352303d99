use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use zk_curator::{Acl, CreateMode, Permissions};
use zk_curator_testing::{OpCode, TestServer, Verdict};

use super::{Scratch, assert_equal, connected, create, fill, zkc};

#[tokio::test(flavor = "multi_thread")]
async fn a_subtree_is_copied_and_moved() {
    let (server, other) = (TestServer::start().await, TestServer::start().await);
    let zk = connected(&server).await;
    create(&zk, &[("/a", "1"), ("/a/b", "2"), ("/a/b/c", "3")]).await;
    create(&connected(&other).await, &[("/a", "1"), ("/a/b", "2"), ("/a/b/c", "3")]).await;
    let multis = server.probe().requests(OpCode::Multi);
    zkc(&server, &["cp", "-r", "/a", "/copy"]).await.code(0).prints("copied 3 nodes");
    zkc(&server, &["cp", "/a", "/one"]).await.code(0).prints("copied 1 nodes");
    zkc(&server, &["mv", "-r", "/a", "/one/moved"]).await.code(0).prints("moved 3 nodes");
    for root in ["/copy", "/one/moved"] {
        assert_equal((&other, "/a"), (&server, root));
    }
    assert!(!server.probe().exists("/a"));
    assert_eq!(server.probe().requests(OpCode::Multi) - multis, 3, "a transaction each");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_copied_is_refused() {
    let server = TestServer::start().await;
    let zk = connected(&server).await;
    create(&zk, &[("/a/b", ""), ("/c", "")]).await;
    zk.create("/a/e").mode(CreateMode::Ephemeral).await.unwrap();
    let mut acl = Acl::read_unsafe();
    acl.push(Acl::new(Permissions::ALL, "digest", "ann:CxlmTZ5bgVqlaHVwIwd2CRCEwmM="));
    zk.create("/hidden").acl(acl).await.unwrap();
    let before = server.probe().paths();
    for (arguments, code, text) in [
        (&["cp", "/a", "/c"][..], 6, "node exists: /c"),
        (&["cp", "/none", "/d"], 4, "no node: /none"),
        (&["cp", "/a", "/x/y"], 4, "no node: /x"),
        (&["cp", "-r", "/a", "/a/d"], 2, "/a/d is within /a"),
        (&["cp", "-r", "/", "/d"], 2, "refused: /"),
        (&["mv", "-r", "/zookeeper", "/d"], 2, "refused: /zookeeper"),
        (&["cp", "/a", "/zookeeper/d"], 2, "refused: /zookeeper/d"),
        (&["mv", "/a", "/d"], 6, "not empty: /a"),
        (&["mv", "-r", "/a", "/d"], 6, "ephemeral: /a/e"),
        (&["cp", "/a/e", "/d"], 6, "ephemeral: /a/e"),
        (&["cp", "-r", "/a", "/d", "--read-only"], 5, "read-only"),
        (&["cp", "/hidden", "/d"], 5, "no permission to read the whole ACL: /hidden"),
    ] {
        zkc(&server, arguments).await.code(code).says(text);
    }
    let dry = ["mv", "/c", "/d", "--dry-run"];
    zkc(&server, &dry).await.code(0).prints("move 1 nodes in one transaction");
    assert_eq!(server.probe().paths(), before);
    zkc(&server, &["cp", "-r", "/a", "/d"]).await.code(0).says("skipped").says("/a/e");
    assert_eq!(server.probe().children("/d"), ["b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_subtree_is_compared_before_it_is_removed() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    fill(&connected(&server).await, "/a", 15, 100).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    let dry = ["mv", "-r", "/a", "/b", "--dry-run"];
    zkc(&server, &dry).await.code(0).prints("copied in several transactions, compared");
    let acls = server.probe().requests(OpCode::GetAcl);
    zkc(&server, &["mv", "-r", "/a", "/b"]).await.code(0).prints("moved 1516 nodes");
    let acls = server.probe().requests(OpCode::GetAcl) - acls;
    assert_eq!(acls, 1_516, "each ACL is read once");
    assert!(!server.probe().exists("/a"));
    zkc(&server, &["diff", &file, "/b"]).await.code(0);
}

/// Moves a subtree, while `change` changes it before the last transaction of the copy.
async fn move_while(server: &Arc<TestServer>, change: impl AsyncFnOnce()) -> super::Ran {
    let seen = Arc::new(Notify::new());
    let notify = Arc::clone(&seen);
    let multis = AtomicU32::new(0);
    let rule = server.rule(move |request| {
        if request.is(OpCode::Multi) && multis.fetch_add(1, Ordering::Relaxed) == 1 {
            notify.notify_one();
            return Verdict::Delay(Duration::from_secs(600));
        }
        Verdict::Pass
    });
    let write = async {
        seen.notified().await;
        change().await;
        rule.end();
    };
    tokio::join!(zkc(server, &["mv", "-r", "/a", "/b"]), write).0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subtree_that_changes_is_not_removed() {
    let node = "/a/folder-3/7";
    for change in ["data", "acl", "create", "delete", "replace", "copy", "acl of the copy"] {
        let server = Arc::new(TestServer::start().await);
        let zk = connected(&server).await;
        fill(&zk, "/a", 15, 100).await;
        let data = zk.get_data(node).await.unwrap();
        let copied = "/b/folder-0/0";
        let ran = move_while(&server, async || match change {
            "data" => drop(zk.set_data(node, "new").await.unwrap()),
            "acl" => drop(zk.set_acl(node, Acl::read_unsafe()).await.unwrap()),
            "create" => drop(zk.create("/a/new").await.unwrap()),
            "delete" => zk.delete(node).await.unwrap(),
            "replace" => {
                zk.delete(node).await.unwrap();
                zk.create(node).data(data).await.unwrap();
            }
            "copy" => drop(zk.set_data(copied, "new").await.unwrap()),
            _ => drop(zk.set_acl(copied, Acl::read_unsafe()).await.unwrap()),
        })
        .await;
        let ran = ran.code(8);
        ran.says("/a changed during the copy and was not removed");
        assert!(server.probe().exists("/a/folder-14/99"), "{change}");
    }
}
