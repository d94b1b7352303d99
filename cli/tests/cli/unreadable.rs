//! Nodes without the permission to read are named, and make an answer partial.

use serde_json::json;

use crate::support::{Outcome, Zkc};

/// A tree with a readable node, and others that nobody may read.
async fn tree(hidden: usize) -> Zkc {
    let zkc = Zkc::start().await;
    let mut lines = "create /t\ncreate /t/open xyz\n".to_owned();
    for number in 0..hidden {
        let node = format!("/t/hidden-{number:02}");
        lines.push_str(&format!("create {node} xyz\ncreate {node}/below xyz\n"));
    }
    zkc.run_with(&["txn"], &lines).await.ok();
    for number in 0..hidden {
        let node = format!("/t/hidden-{number:02}");
        zkc.run(&["acl", &node, "--set", "digest:ann:none:cdrwa"]).await.ok();
    }
    zkc
}

#[track_caller]
fn is_partial(outcome: Outcome, paths: &[&str]) -> String {
    assert_eq!(outcome.code, 8, "{outcome:?}");
    let lines = outcome.stderr.lines().filter(|line| line.starts_with("no permission"));
    let expected: Vec<_> = paths.iter().map(|path| format!("no permission: {path}")).collect();
    assert_eq!(lines.collect::<Vec<_>>(), expected, "{outcome:?}");
    outcome.stdout
}

#[tokio::test]
async fn walks_name_what_they_could_not_read() {
    let zkc = tree(1).await;
    for (command, found) in [
        (&["find", "/t"][..], "/t\n/t/hidden-00\n/t/open\n"),
        (&["find", "/t", "--name", "below"], ""),
        (&["find", "/t", "--empty"], "/t/open\n"),
        (&["find", "/t", "--larger", "1"], "/t/open\n"),
        (&["tree", "/t"], "/t\n├─ hidden-00  (no permission)\n└─ open\n3 nodes\n"),
        (&["du", "/t", "-o", "name"], "/t\n/t/open\n"),
        (&["grep", "xyz", "/t", "-l"], "/t/open\n"),
        (&["grep", "nothing", "/t"], ""),
        (&["ls", "-R", "/t"], "hidden-00\nopen\n"),
        (&["ls", "-l", "/t", "-o", "name"], "open\nhidden-00\n"),
        (&["rm", "/t", "--older-than", "1ms", "--dry-run"], "/t/open\n"),
        (&["rm", "/t", "--empty", "--dry-run"], "/t/open\n"),
        (&["acl", "/t", "-r", "--set", "read", "--dry-run"], "/t\n/t/hidden-00\n/t/open\n"),
        (&["rm", "-r", "/t", "--dry-run"], "/t/open\n/t/hidden-00\n/t\n"),
        (
            &["watch", "-r", "/t", "--initial", "--count", "2"],
            "exists     /t  version 0\nexists     /t/open  version 0\n",
        ),
        (&["inspect", "/t"], ""),
        (&["deadlocks", "/t"], "no deadlock in what was read\n"),
        (&["doctor", "--tree", "/t", "-o", "name"], "note\n"),
    ] {
        let printed = is_partial(zkc.run(command).await, &["/t/hidden-00"]);
        assert_eq!(printed, found, "{command:?}");
    }
    let drawn = zkc.run(&["tree", "/t", "--sizes", "-o", "json"]).await;
    let drawn: serde_json::Value =
        serde_json::from_str(&is_partial(drawn, &["/t/hidden-00"])).expect("JSON");
    assert_eq!(drawn["children"]["hidden-00"], json!({ "children": {}, "unreadable": true }));
    is_partial(zkc.run(&["export", "/t"]).await, &["/t/hidden-00"]);
    // What is not asked for is not missing.
    assert_eq!(zkc.run(&["find", "/t", "-d", "1", "--name", "o*"]).await.ok(), "/t/open\n");
    assert_eq!(zkc.run(&["ls", "/t"]).await.ok(), "hidden-00\nopen\n");
}

#[tokio::test]
async fn many_unreadable_nodes_are_counted() {
    let zkc = tree(13).await;
    let first: Vec<_> = (0..10).map(|number| format!("/t/hidden-{number:02}")).collect();
    let mut told: Vec<_> = first.iter().map(String::as_str).collect();
    told.push("3 more");
    for command in [&["find", "/t"][..], &["export", "/t"], &["grep", "xyz", "/t"]] {
        is_partial(zkc.run(command).await, &told);
    }
}

#[tokio::test]
async fn an_unreadable_node_without_children_is_deleted() {
    let zkc = Zkc::start().await;
    zkc.run_with(&["txn"], "create /t\ncreate /t/a\n").await.ok();
    zkc.run(&["acl", "/t/a", "--set", "digest:ann:none:cdrwa"]).await.ok();
    zkc.run(&["rm", "-r", "-y", "/t"]).await.ok();
    assert!(!zkc.server.probe().exists("/t"));
}

#[tokio::test]
async fn acls_that_are_not_changed_are_named() {
    let zkc = tree(1).await;
    let told = zkc.run(&["acl", "/t", "-r", "-y", "--set", "read"]).await.fails(8);
    assert_eq!(told, "no permission: /t/hidden-00\nchanged the ACL of 2 nodes, not of 1\n",);
    let acl = zkc.run(&["acl", "/t/open", "-o", "json"]).await.json();
    assert_eq!(acl[0]["permissions"], "r");
}

#[tokio::test]
async fn nodes_of_an_unknown_age_are_named() {
    let zkc = tree(1).await;
    let rm = ["rm", "-r", "-y", "/t", "--older-than", "1ms"];
    is_partial(zkc.run(&rm).await, &["/t/hidden-00"]);
    let probe = zkc.server.probe();
    assert!(probe.exists("/t/hidden-00") && !probe.exists("/t/open"));
}
