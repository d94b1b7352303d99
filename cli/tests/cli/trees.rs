use serde_json::json;

use crate::support::Zkc;

async fn forest() -> Zkc {
    let zkc = Zkc::start().await;
    let lines = "create /a\ncreate /a/b 12345\ncreate /a/b/c xyz\ncreate /a/d\ncreate -S /a/d/q-\n";
    zkc.run_with(&["txn"], lines).await.ok();
    zkc
}

#[tokio::test]
async fn a_tree_is_drawn() {
    let zkc = forest().await;
    let tree = zkc.run(&["tree", "/a"]).await.ok();
    let drawn = "/a\n├─ b\n│  └─ c\n└─ d\n   └─ q-0000000000\n5 nodes\n";
    assert_eq!(tree, drawn);
    let shallow = zkc.run(&["tree", "/a", "-d", "1"]).await.ok();
    assert_eq!(shallow, "/a\n├─ b  … 1 below\n└─ d  … 1 below\n3 nodes\n");
    let value = zkc.run(&["tree", "/a", "--sizes", "-o", "json"]).await.json();
    assert_eq!(value["children"]["b"]["children"]["c"], json!({ "size": 3, "children": {} }));
    zkc.run(&["tree", "/none"]).await.fails(4);
}

#[tokio::test]
async fn children_are_listed() {
    let zkc = forest().await;
    assert_eq!(zkc.run(&["ls", "/a"]).await.ok(), "b\nd\n");
    assert_eq!(zkc.run(&["ls", "-R", "/a"]).await.ok(), "b\nb/c\nd\nd/q-0000000000\n");
    assert_eq!(zkc.run(&["ls", "-R", "/a", "--depth", "1"]).await.ok(), "b\nd\n");
    let long = zkc.run(&["ls", "-l", "/a", "-o", "json"]).await.json();
    assert_eq!((&long[0]["name"], &long[0]["size"]), (&json!("b"), &json!(5)));
    assert_eq!(zkc.run(&["ls", "/a", "--sort", "size", "-o", "name"]).await.ok(), "b\nd\n");
    assert_eq!(zkc.run(&["ls", "/a/b/c"]).await.ok(), "");
}

#[tokio::test]
async fn sizes_are_summed() {
    let zkc = forest().await;
    let usage = zkc.run(&["du", "/a", "-o", "json"]).await.json();
    assert_eq!(usage[0], json!({ "path": "/a", "size": 8, "nodes": 5, "largest": 5 }));
    let largest = zkc.run(&["du", "/", "-d", "3", "--top", "1", "-o", "name"]).await.ok();
    assert_eq!(largest, "/\n");
}

#[tokio::test]
async fn nodes_are_found() {
    let zkc = forest().await;
    assert_eq!(zkc.run(&["find", "/a", "--name", "q-*"]).await.ok(), "/a/d/q-0000000000\n");
    assert_eq!(zkc.run(&["find", "/a", "--regex", "^/a/.$"]).await.ok(), "/a/b\n/a/d\n");
    assert_eq!(zkc.run(&["find", "/a", "--larger", "4"]).await.ok(), "/a/b\n");
    assert_eq!(zkc.run(&["find", "/a", "--older", "1day"]).await.ok(), "");
    assert_eq!(
        zkc.run(&["find", "/a", "--prune", "b", "--empty"]).await.ok(),
        "/a/d/q-0000000000\n"
    );
    assert_eq!(zkc.run(&["find", "/a", "--kind", "ephemeral"]).await.ok(), "");
    zkc.run(&["find", "/a", "--regex", "("]).await.fails(2);
}

#[tokio::test]
async fn data_are_searched() {
    let zkc = forest().await;
    assert_eq!(zkc.run(&["grep", "X", "/a", "-i"]).await.ok(), "/a/b/c  xyz\n");
    assert_eq!(zkc.run(&["grep", "nowhere", "/a"]).await.code, 1);
    zkc.run(&["set", "/a/d", r#"{"port": 80, "host": "zk"}"#]).await.ok();
    let found = zkc.run(&["grep", "^8", "/a", "--json-pointer", "/port"]).await.ok();
    assert_eq!(found, "/a/d  80\n");
    zkc.run(&["create", "/long", &"x".repeat(1_000)]).await.ok();
    let found = zkc.run(&["grep", "x", "/long"]).await.ok();
    assert!(found.len() < 900 && found.ends_with("x…\n"), "{found}");
}

#[tokio::test]
async fn subtrees_are_deleted_on_request_only() {
    let zkc = forest().await;
    let refused = "not empty: /a (-r also deletes the nodes below it)\n";
    assert_eq!(zkc.run(&["rm", "/a"]).await.fails(6), refused);
    zkc.run(&["rm", "-r", "/a"]).await.fails(2);
    zkc.run(&["rm", "/a", "--matching", "*"]).await.fails(2);
    for path in ["/", "/zookeeper", "/zookeeper/quota"] {
        zkc.run(&["rm", "-r", "-y", path]).await.fails(2);
    }
    zkc.run(&["rm", "/a/b", "-r", "--matching", "c*", "-y"]).await.ok();
    assert_eq!(zkc.run(&["ls", "-R", "/a"]).await.ok(), "b\nd\nd/q-0000000000\n");
    assert_eq!(zkc.run(&["rm", "/a", "--empty"]).await.code, 0);
    zkc.run(&["rm", "-r", "-y", "/a"]).await.ok();
    zkc.run(&["rm", "/a"]).await.fails(4);
    zkc.run(&["rm", "/a", "--force"]).await.ok();
}

#[tokio::test]
async fn a_large_tree_takes_few_requests() {
    let zkc = Zkc::start().await;
    let zk = zkc.server.framework().build().expect("settings");
    zk.start().await.expect("connected");
    for group in 0..50 {
        let mut transaction = zk.transaction().create(format!("/g{group}"), "");
        for item in 0..199 {
            transaction = transaction.create(format!("/g{group}/{item}"), "0123456789");
        }
        transaction.commit().await.expect("nodes");
    }
    let before = zkc.server.probe().total_requests();
    let found = zkc.run(&["grep", "012", "/", "-l"]).await.ok();
    assert_eq!(found.lines().count(), 50 * 199);
    let requests = zkc.server.probe().total_requests() - before;
    assert!(requests <= 40, "{requests} requests");
    zk.close().await.expect("closed");
}
