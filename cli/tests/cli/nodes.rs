use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use zk_curator_testing::Verdict;

use crate::support::{Zkc, end, signal};

#[tokio::test]
async fn data_are_written_and_read() {
    let zkc = Zkc::start().await;
    assert_eq!(zkc.run(&["create", "-p", "/a/b", "one"]).await.ok(), "/a/b\n");
    assert_eq!(zkc.run(&["get", "/a/b"]).await.ok(), "one\n");
    zkc.run(&["set", "/a/b", "two", "--version", "0"]).await.ok();
    zkc.run_with(&["set", "/a/b", "-"], "three\n").await.ok();
    assert_eq!(zkc.run(&["get", "--raw", "a/b/"]).await.ok(), "three\n");
    zkc.run(&["set", "/new/er", "x", "--create"]).await.ok();
    let node = zkc.run(&["get", "/new/er", "--stat", "-o", "json"]).await.json();
    assert_eq!(node["data"], json!({ "text": "x" }));
    assert_eq!(node["stat"]["kind"], "persistent");
}

#[tokio::test]
async fn conditions_are_checked() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "one"]).await.ok();
    assert_eq!(zkc.run(&["set", "/a", "x", "--version", "7"]).await.fails(6).lines().count(), 1);
    zkc.run(&["set", "/a", "x", "--if-data", "other"]).await.fails(6);
    zkc.run(&["set", "/a", "two", "--if-data", "one"]).await.ok();
    assert_eq!(zkc.run(&["create", "/a"]).await.fails(6), "node exists: /a\n");
    zkc.run(&["create", "/a", "three", "--if-exists", "keep"]).await.ok();
    assert_eq!(zkc.run(&["get", "/a"]).await.ok(), "two\n");
    zkc.run(&["create", "/a", "three", "--if-exists", "set"]).await.ok();
    assert_eq!(zkc.run(&["get", "/a"]).await.ok(), "three\n");
}

#[tokio::test]
async fn compressed_data_are_shown_plain() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a"]).await.ok();
    zkc.run(&["set", "/a", "plain text", "--compress"]).await.ok();
    assert_eq!(zkc.run(&["get", "/a"]).await.ok(), "plain text\n");
    let raw = zkc.run(&["get", "/a", "--as", "hex"]).await.ok();
    assert!(raw.starts_with("00000000  1f 8b 08"), "{raw}");
    assert_eq!(zkc.run(&["grep", "plain", "/", "-l"]).await.ok(), "/a\n");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "one"]).await.ok();
    zkc.run(&["create", "/a/b"]).await.ok();
    for command in [
        &["create", "/c", "--dry-run"][..],
        &["set", "/a", "x", "--dry-run"],
        &["rm", "-r", "/a", "--dry-run"],
        &["acl", "/a", "-r", "--set", "read", "--dry-run"],
    ] {
        let told = zkc.run(command).await.ok();
        assert!(!told.is_empty(), "{command:?}");
    }
    assert_eq!(zkc.run(&["get", "/a"]).await.ok(), "one\n");
    assert!(!zkc.server.probe().exists("/c"));
    zkc.run_with(&["txn", "--dry-run"], "rm /a/b\n").await.ok();
    assert!(zkc.server.probe().exists("/a/b"));
}

#[tokio::test]
async fn a_transaction_is_applied_as_a_whole() {
    let zkc = Zkc::start().await;
    let lines = "# two nodes\ncreate /a 'x y'\ncreate -S /a/q- 1\nset /a z 0\ncheck /a 1\n";
    let told = zkc.run_with(&["txn", "-o", "json"], lines).await.json();
    assert_eq!(told[1]["path"], "/a/q-0000000000");
    assert_eq!(told[2]["version"], 1);
    let failed = zkc.run_with(&["txn"], "create /b\nset /a y 7\n").await.fails(6);
    assert!(failed.starts_with("line 2: set /a: "), "{failed}");
    assert!(!zkc.server.probe().exists("/b"));
    zkc.run_with(&["txn"], "rename /a\n").await.fails(2);
    zkc.run_with(&["txn"], "").await.fails(2);
}

#[tokio::test]
async fn an_ephemeral_node_is_held_until_ctrl_c() {
    let zkc = Zkc::start().await;
    let mut child = zkc.command(&["create", "-e", "-S", "/e-"]).spawn().expect("zkc");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let path = lines.next_line().await.expect("a line").expect("a path");
    assert_eq!(path, "/e-0000000000");
    assert!(zkc.server.probe().exists(&path));
    signal(&child, "INT").await;
    assert_eq!(end(child, "").await.code, 0);
    assert!(!zkc.server.probe().exists(&path));
}

#[tokio::test]
async fn waiting_ends_with_the_state() {
    let zkc = Zkc::start().await;
    let child = zkc.command(&["wait", "/a", "--data", "^go$"]).spawn().expect("zkc");
    zkc.run(&["create", "/a", "stop"]).await.ok();
    zkc.run(&["set", "/a", "go"]).await.ok();
    assert_eq!(end(child, "").await.code, 0);
    zkc.run(&["wait", "/a", "--exists"]).await.ok();
    zkc.run(&["wait", "/b", "--gone"]).await.ok();
    zkc.run(&["wait", "/a", "--children", "<1"]).await.ok();
    assert_eq!(zkc.run(&["wait", "/a", "--gone", "--for", "100ms"]).await.code, 1);
    zkc.run(&["wait", "/a"]).await.fails(2);
    // Without time, the present state counts.
    for (code, state) in [
        (0, ["/a", "--exists"].as_slice()),
        (1, &["/b", "--exists"]),
        (0, &["/b", "--gone"]),
        (0, &["/a", "--data", "^go$"]),
        (1, &["/b", "--data", "^go$"]),
        (0, &["/a", "--children", "0"]),
        (1, &["/b", "--children", "0"]),
    ] {
        let mut wait = vec!["wait", "--for", "0s"];
        wait.extend(state);
        assert_eq!(zkc.run(&wait).await.code, code, "{state:?}");
    }
}

#[tokio::test]
async fn changes_are_printed_as_they_happen() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "1"]).await.ok();
    let arguments = ["watch", "-r", "--count", "3", "-o", "jsonl", "/a"];
    let mut child = zkc.command(&arguments).spawn().expect("zkc");
    let mut talk = BufReader::new(child.stderr.take().expect("stderr")).lines();
    assert_eq!(
        talk.next_line().await.expect("a line").as_deref(),
        Some("watching /a until Ctrl-C")
    );
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut changes = Vec::new();
    for command in [&["create", "/a/b", "2"][..], &["set", "/a/b", "3"], &["rm", "/a/b"]] {
        zkc.run(command).await.ok();
        let line = lines.next_line().await.expect("a line").expect("a change");
        let change: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        changes.push((change["change"].clone(), change["path"].clone()));
    }
    let expected = ["created", "changed", "deleted"];
    assert_eq!(changes, expected.map(|kind| (json!(kind), json!("/a/b"))));
    assert_eq!(end(child, "").await.code, 0);
}

#[tokio::test]
async fn an_editor_changes_the_data() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "one"]).await.ok();
    let edit = |script: &str| {
        let mut command = zkc.command(&["edit", "/a"]);
        command.env("EDITOR", format!("sed -i {script}"));
        command.spawn().expect("zkc")
    };
    assert_eq!(end(edit("s/one/two/"), "").await.code, 0);
    assert_eq!(zkc.run(&["get", "/a"]).await.ok(), "two\n");
    let unchanged = end(edit("s/x/y/"), "").await;
    assert_eq!((unchanged.code, unchanged.stderr.as_str()), (0, "unchanged\n"));
    let mut refused = zkc.command(&["edit", "/a", "--form", "json"]);
    let refused = end(refused.env("EDITOR", "true").spawn().expect("zkc"), "").await;
    assert!(refused.fails(2).contains("not JSON"));
}

#[tokio::test]
async fn json_is_edited_as_text() {
    let zkc = Zkc::start().await;
    let data = r#"{"z":1,"id":123456789012345678901234,"name":"foo"}"#;
    zkc.run(&["create", "/a", data]).await.ok();
    let mut edit = zkc.command(&["edit", "/a", "--form", "json"]);
    let edit = edit.env("EDITOR", "sed -i s/foo/bar/").spawn().expect("zkc");
    assert_eq!(end(edit, "").await.code, 0);
    let edited = zkc.run(&["get", "/a"]).await.ok();
    assert_eq!(edited.trim(), data.replace("foo", "bar"));
    let mut edit = zkc.command(&["edit", "/a", "--form", "json"]);
    let edit = edit.env("EDITOR", "sed -i s/bar/\"/").spawn().expect("zkc");
    assert!(end(edit, "").await.fails(2).contains("not JSON"));
}

#[tokio::test]
async fn quotas_are_outside_of_the_namespace() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "-p", "/app/x"]).await.ok();
    zkc.run(&["--namespace", "app", "quota", "/x", "--nodes", "5"]).await.ok();
    let quota = zkc.run(&["quota", "/app/x", "-o", "json"]).await.json();
    assert_eq!(quota[0]["limit"], 5);
    let chroot = format!("{}/app", zkc.servers);
    zkc.run(&["-s", &chroot, "quota", "/x"]).await.fails(2);
    let no_chroot = format!("{}/", zkc.servers);
    let quota = zkc.run(&["-s", &no_chroot, "quota", "/app/x", "-o", "json"]).await.json();
    assert_eq!(quota[0]["limit"], 5);
}

#[tokio::test]
async fn acls_and_quotas() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "--acl", "world:anyone:cdrwa"]).await.ok();
    zkc.run(&["acl", "/a", "--set", "world:anyone:ra"]).await.ok();
    let acl = zkc.run(&["acl", "/a", "-o", "json"]).await.json();
    assert_eq!(acl[0]["permissions"], "ra");
    zkc.run(&["set", "/a", "x"]).await.fails(5);
    zkc.run(&["acl", "/a", "--set", "nonsense"]).await.fails(2);
    zkc.run(&["create", "/q"]).await.ok();
    zkc.run(&["quota", "/q", "--nodes", "10"]).await.ok();
    zkc.run(&["quota", "/q", "--hard-bytes", "100"]).await.ok();
    let quota = zkc.run(&["quota", "/q", "-o", "json"]).await.json();
    assert_eq!((&quota[0]["limit"], &quota[1]["hard_limit"]), (&json!(10), &json!(100)));
    zkc.run(&["quota", "/q", "--remove"]).await.ok();
    zkc.run(&["quota", "/q"]).await.fails(4);
}

/// Another client creates the node between two requests of the command.
#[tokio::test]
async fn a_node_created_during_the_command_is_kept() {
    let zkc = Zkc::start().await;
    let late = zkc.server.rule(|request| {
        let creates = request.is_create() && request.is_about("/a");
        if creates { Verdict::Delay(Duration::from_secs(1)) } else { Verdict::Pass }
    });
    let late = late.times(1);
    let keep = ["create", "/a", "mine", "--if-exists", "keep"];
    let create = zkc.command(&keep).spawn().expect("zkc");
    late.fired().await;
    zkc.run(&["create", "/a", "other"]).await.ok();
    assert_eq!(end(create, "").await.ok(), "/a\n");
    assert_eq!(zkc.run(&["get", "/a"]).await.ok(), "other\n");
}

#[tokio::test]
async fn a_node_is_kept_without_permission_to_create() {
    let zkc = Zkc::start().await;
    zkc.run_with(&["txn"], "create /p\ncreate /p/a one\ncreate /q/\n").await.ok();
    zkc.run(&["acl", "/p", "--set", "read"]).await.ok();
    zkc.run(&["create", "/p/a", "two", "--if-exists", "keep"]).await.ok();
    zkc.run(&["create", "/p/b", "--if-exists", "keep"]).await.fails(5);
    // A sequential node never exists.
    zkc.run(&["create", "/q-"]).await.ok();
    let created = zkc.run(&["create", "-S", "/q-", "--if-exists", "keep"]).await.ok();
    assert!(created.starts_with("/q-0"), "{created}");
    let kept = zkc.run(&["create", "-e", "/q", "--if-exists", "keep"]).await;
    assert_eq!((kept.code, kept.stderr.as_str()), (0, "the node exists, and is not held\n"));
}
