//! Nodes without the permission to read are named, and make an answer partial.

use serde_json::json;
use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::TestServer;

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
        (&["deadlocks", "/t"], "no deadlock in the nodes that were read\n"),
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

/// The limit of the servers for requests. Clients accept responses of 4 MiB.
const MAX_FRAME: usize = 8 << 20;

/// A tree with a node of 5 MB, above a lock, and with a node whose list of children has more than
/// 4 MiB, among others.
async fn large() -> (Zkc, CuratorFramework) {
    let server = TestServer::builder().max_frame(MAX_FRAME).start().await.expect("a server");
    let zk = server.framework().max_frame(MAX_FRAME).build().expect("settings");
    zk.start().await.expect("connected");
    for path in ["/t", "/t/a", "/t/wide", "/t/z", "/u"] {
        zk.create(path).data("xyz").await.expect("created");
    }
    zk.create("/t/huge").data(vec![b'x'; 5_000_000]).await.expect("created");
    let long = "n".repeat(995);
    let children: Vec<_> = (0..4_500).map(|number| format!("/t/wide/{number:05}{long}")).collect();
    for children in children.chunks(1_500) {
        let transaction = zk.transaction();
        let creates = children.iter().fold(transaction, |all, path| all.create(path, ""));
        creates.commit().await.expect("created");
    }
    (Zkc::on(server), zk)
}

#[track_caller]
fn is_too_large(outcome: Outcome, paths: &[&str]) -> String {
    assert_eq!(outcome.code, 8, "{outcome:?}");
    let lines = outcome.stderr.lines().map(str::trim_start);
    let lines: Vec<_> = lines.filter(|line| line.starts_with("too large")).collect();
    let expected: Vec<_> = paths.iter().map(|path| format!("too large to read: {path}")).collect();
    assert_eq!(lines, expected, "{outcome:?}");
    outcome.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_too_large_do_not_end_a_walk() {
    let (zkc, zk) = large().await;
    let lock = InterProcessMutex::new(&zk, "/t/huge/lock").acquire().await.expect("held");
    let (lists, all) = (&["/t/wide"][..], &["/t/huge", "/t/wide"][..]);
    for (command, named, found) in [
        (&["find", "/t", "--name", "[az]"][..], lists, "/t/a\n/t/z\n"),
        (&["grep", "xyz", "/t", "-l"], all, "/t\n/t/a\n/t/wide\n/t/z\n"),
        (&["du", "/t", "-o", "name"], all, "/t\n/t/a\n/t/huge\n/t/wide\n/t/z\n"),
        (&["ls", "-R", "/t", "--depth", "2"], lists, "a\nhuge\nhuge/lock\nwide\nz\n"),
        (&["inspect", "/t", "-o", "name"], all, "/t/huge/lock\n"),
        (&["deadlocks", "/t"], all, "no deadlock in the nodes that were read\n"),
    ] {
        let printed = is_too_large(zkc.run(command).await, named);
        assert_eq!(printed, found, "{command:?}");
    }
    is_too_large(zkc.run(&["doctor", "--tree", "/t"]).await, all);
    is_too_large(zkc.run(&["export", "/t"]).await, all);
    let drawn = is_too_large(zkc.run(&["tree", "/t"]).await, lists);
    assert!(drawn.contains("wide  (too large to read)"), "{drawn}");
    // A node that is asked for by itself is the answer.
    let told = zkc.run(&["grep", "x", "/t/wide"]).await.fails(2);
    assert!(told.contains("/t/wide") && told.contains("response too large"), "{told}");
    drop(lock);
    zk.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_names_what_is_too_large() {
    let (zkc, zk) = large().await;
    let backup = zkc.run(&["backup", "/t", "t.zkb", "-o", "json"]).await;
    let printed: serde_json::Value =
        serde_json::from_str(&is_too_large(backup, &["/t/huge", "/t/wide"])).expect("JSON");
    assert_eq!(printed["unreadable"], json!(["/t/huge", "/t/wide"]));
    assert_eq!(printed["reasons"]["/t/huge"], "too large to read");
    assert_eq!(printed["nodes"], 4);
    let told = zkc.run(&["restore", "t.zkb", "--root", "/r"]).await;
    assert!(told.stderr.contains("incomplete backup: 2 unreadable nodes"), "{told:?}");
    assert_eq!(zkc.server.probe().children("/r"), ["a", "wide", "z"]);
    // What the file lacks is not compared, and not deleted as additional.
    zk.set_data("/t/huge", "small").await.expect("written");
    let diff = zkc.run(&["diff", "t.zkb", "/t"]).await;
    let rows = "? /t/huge not in the backup\n? /t/wide too large to read\n";
    assert_eq!((diff.code, &*squeezed(&diff.stdout)), (8, rows), "{diff:?}");
    let extra = ["restore", "t.zkb", "--delete-extra", "-y"];
    let outcome = zkc.run(&extra).await;
    assert!(
        outcome.stderr.contains("nothing to do") || outcome.stdout.contains("nothing to do"),
        "{outcome:?}"
    );
    assert!(zkc.server.probe().exists("/t/huge"));
    zk.close().await.expect("closed");
}

/// Returns the rows of a table with one space between words.
fn squeezed(rows: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    rows.lines().map(|line| words(line) + "\n").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_says_what_it_could_not_compare() {
    let (zkc, zk) = large().await;
    zk.create("/u/a").data("other").await.expect("created");
    zk.create("/u/huge").data("small").await.expect("created");
    let diff = zkc.run(&["diff", "/t", "/u"]).await;
    let rows = squeezed(&is_too_large(diff, &["/t/huge", "/t/wide"]));
    let expected = "~ /t/a data\n? /t/huge too large to read\n\
                    ? /t/wide too large to read\n- /t/z\n";
    assert_eq!(rows, expected);
    let rows = zkc.run(&["diff", "/t", "/u", "-o", "json"]).await;
    let rows: serde_json::Value = serde_json::from_str(&rows.stdout).expect("JSON");
    let unknown = json!({ "change": "?", "path": "/t/huge", "what": "too large to read" });
    assert_eq!(rows[1], unknown);
    zkc.run(&["acl", "/t/a", "--set", "digest:ann:none:cdrwa"]).await.ok();
    let diff = zkc.run(&["diff", "/u", "/t"]).await;
    assert!(diff.stdout.contains("/u/a") && diff.stdout.contains("no permission"), "{diff:?}");
    assert_eq!(diff.code, 8, "{diff:?}");
    let told = zkc.run(&["cp", "-r", "/t", "/c"]).await.fails(5);
    assert_eq!(told, "no permission: /t/a\n");
    zkc.run(&["cp", "-r", "/t/huge", "/c"]).await.fails(2);
    assert!(!zkc.server.probe().exists("/c"));
    zk.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_keeps_only_what_it_could_not_list() {
    let (zkc, zk) = large().await;
    let dry = ["rm", "-r", "/t", "--dry-run"];
    is_too_large(zkc.run(&dry).await, &["/t/wide"]);
    let told = zkc.run(&["rm", "-r", "-y", "/t"]).await.fails(8);
    let why = "kept: not empty: /t/wide (its children are not known: too large to read)";
    assert!(told.contains(why) && told.contains("kept: not empty: /t\n"), "{told}");
    let probe = zkc.server.probe();
    assert_eq!(probe.children("/t"), ["wide"]);
    let told = zkc.run(&["rm", "-r", "-y", "/t/wide", "/u"]).await.fails(8);
    assert!(told.contains(why), "{told}");
    assert!(!zkc.server.probe().exists("/u"));
    zk.close().await.expect("closed");
}
