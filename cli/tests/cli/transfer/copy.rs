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
    zkc(&server, &["mv", "-r", "/a", "/b"]).await.code(0).prints("moved 1516 nodes");
    assert!(!server.probe().exists("/a"));
    zkc(&server, &["diff", &file, "/b"]).await.code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subtree_that_changes_is_not_removed() {
    let server = std::sync::Arc::new(TestServer::start().await);
    let zk = connected(&server).await;
    fill(&zk, "/a", 15, 100).await;
    let (seen, written) =
        (std::sync::Arc::new(tokio::sync::Notify::new()), tokio::time::Duration::from_millis(500));
    let notify = std::sync::Arc::clone(&seen);
    let multis = std::sync::atomic::AtomicU32::new(0);
    let _rule = server.rule(move |request| {
        let is_second = request.is(OpCode::Multi)
            && multis.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1;
        if is_second {
            notify.notify_one();
            return Verdict::Delay(written);
        }
        Verdict::Pass
    });
    let write = async {
        seen.notified().await;
        zk.set_data("/a/folder-3/7", "new").await.unwrap();
    };
    let (ran, ()) = tokio::join!(zkc(&server, &["mv", "-r", "/a", "/b"]), write);
    ran.code(8).says("/a changed during the copy and was not removed");
    assert_eq!(server.probe().data("/a/folder-3/7").as_deref(), Some(&b"new"[..]));
}
