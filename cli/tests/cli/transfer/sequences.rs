use zk_curator::CreateMode;
use zk_curator_testing::{OpCode, TestServer};

use super::{Scratch, connected, zkc};

/// Returns a file with a queue whose last item has this number.
async fn queue(scratch: &Scratch, items: i32) -> String {
    let server = TestServer::start().await;
    let zk = connected(&server).await;
    zk.create("/q").await.unwrap();
    server.set_sequence("/q", items).unwrap();
    for _ in 0..2 {
        zk.create("/q/qn-").mode(CreateMode::PersistentSequential).await.unwrap();
    }
    let file = scratch.file();
    zkc(&server, &["backup", "/q", &file]).await.code(0);
    file
}

async fn next(server: &TestServer, parent: &str) -> String {
    let zk = connected(server).await;
    let created = zk.create(format!("{parent}/qn-")).mode(CreateMode::PersistentSequential);
    created.await.unwrap().path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_low_counter_is_refused() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let file = queue(&scratch, 40).await;
    let ran = zkc(&server, &["restore", &file]).await.code(2).says("--burn-sequences");
    let text = "/q: has a child with the number 41, and would count from 2\n";
    assert!(ran.stderr.contains(text), "{ran:?}");
    zkc(&server, &["restore", &file, "--dry-run"]).await.code(2).prints("+ 3").says("from 2");
    assert!(server.probe().paths().is_empty());
    zkc(&server, &["restore", &file, "--ignore-sequences"]).await.code(0);
    assert_eq!(next(&server, "/q").await, "/q/qn-0000000002");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_is_high_enough_is_no_hazard() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let file = queue(&scratch, 0).await;
    zkc(&server, &["restore", &file]).await.code(0);
    assert_eq!(next(&server, "/q").await, "/q/qn-0000000002");
    // The nodes are deleted, but the counter of their parent stays.
    let zk = connected(&server).await;
    for name in zk.children("/q").await.unwrap() {
        zk.delete(format!("/q/{name}")).await.unwrap();
    }
    zkc(&server, &["restore", &file]).await.code(0);
    assert_eq!(next(&server, "/q").await, "/q/qn-0000000005");
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_raised_on_request() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let file = queue(&scratch, 40).await;
    let burn = ["restore", &file, "--burn-sequences"];
    zkc(&server, &burn).await.code(0).says("40 sequence numbers used up");
    assert_eq!(server.probe().requests(OpCode::Multi), 1);
    assert_eq!(server.probe().paths(), ["/q", "/q/qn-0000000040", "/q/qn-0000000041"]);
    assert_eq!(next(&server, "/q").await, "/q/qn-0000000042");
    zkc(&server, &burn).await.code(0).prints("nothing to do");
}

#[tokio::test(flavor = "multi_thread")]
async fn high_counters_are_raised_in_several_transactions() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let file = queue(&scratch, 5_000).await;
    zkc(&server, &["restore", &file, "--burn-sequences"]).await.code(0).says("several");
    let multis = server.probe().requests(OpCode::Multi);
    assert!((10..=12).contains(&multis), "{multis}");
    assert_eq!(next(&server, "/q").await, "/q/qn-0000005002");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_keeps_the_order_of_a_queue() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let file = queue(&scratch, 40).await;
    zkc(&server, &["restore", &file, "--burn-sequences"]).await.code(0);
    zkc(&server, &["mv", "-r", "/q", "/r"]).await.code(2).says("would sort before");
    zkc(&server, &["mv", "-r", "/q", "/r", "--burn-sequences"]).await.code(0);
    assert!(!server.probe().exists("/q"));
    assert_eq!(next(&server, "/r").await, "/r/qn-0000000042");
}
