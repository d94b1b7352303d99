use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use zk_curator::{Acl, CreateMode, Permissions};
use zk_curator_testing::{OpCode, TestServer, Verdict};

use super::{Scratch, connected, create, fill, run, zkc};

fn plain(file: &str) -> Vec<String> {
    let mut text = String::new();
    let bytes = std::fs::read(file).unwrap();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::bufread::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text.lines().map(ToOwned::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_tree_is_exact() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a", "1"), ("/a/b", "2"), ("/other", "")]).await;
    zk.create("/a/e").mode(CreateMode::Ephemeral).await.unwrap();
    let ran = zkc(&server, &["backup", "/a", &scratch.file(), "--plain"]).await.code(0);
    assert_eq!(ran.stdout, "3 nodes, exact, 1 of them ephemeral\n");
    let lines = plain(&scratch.file());
    let starts =
        [r#"{"zkc":"backup","version":2,"root":"/a","#, r#"{"path":"/a","data":{"text":"1"}"#];
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(lines[3].contains(r#""path":"/a/e""#) && lines[3].contains(r#""kind":"ephemeral""#));
    assert!(lines[4].starts_with(r#"{"nodes":3,"consistency":"exact""#), "{}", lines[4]);
    // Nothing is left beside the file, and it is compressed by default.
    assert_eq!(scratch.names(), ["backup.zkb"]);
    zkc(&server, &["backup", "/a", &scratch.file()]).await.code(0);
    assert!(std::fs::read(scratch.file()).unwrap().starts_with(&[0x1f, 0x8b]));
    assert_eq!(plain(&scratch.file())[1..4], lines[1..4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_the_servers_are_left_out() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/zookeeper-not", "")]).await;
    zkc(&server, &["backup", "/", &scratch.file(), "--plain"]).await.code(0).prints("2 nodes");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_have_their_codes() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    let reader = vec![Acl::new(Permissions::READ, "digest", "ann:CxlmTZ5bgVqlaHVwIwd2CRCEwmM=")];
    create(&zk, &[("/a", ""), ("/a/open", "")]).await;
    zk.create("/a/closed").acl(reader).await.unwrap();
    let file = scratch.file();
    zkc(&server, &["backup", "/none/x", &file]).await.code(4).says("no node: /none/x");
    assert!(scratch.names().is_empty());
    let ran = zkc(&server, &["backup", "/a", &file]).await.code(8).says("/a/closed");
    assert!(ran.stdout.starts_with("2 nodes, exact"), "{ran:?}");
    zkc(&server, &["backup", "/a", "/none/none/file"]).await.code(2);
    server.stop().await;
    let mut offline = super::command(&server.connect_string(), &["backup", "/a", &file]);
    offline.args(["--timeout", "200ms"]);
    run(offline).await.code(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_passwords_are_reported() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    let mut acl = Acl::read_unsafe();
    acl.push(Acl::new(Permissions::ALL, "digest", "ann:CxlmTZ5bgVqlaHVwIwd2CRCEwmM="));
    zk.create("/a").acl(acl).await.unwrap();
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0).says("hides a password");
    let other = TestServer::start().await;
    zkc(&other, &["restore", &file]).await.code(2).says("/a: the ACL in the file hides a password");
    zkc(&other, &["restore", &file, "--acl", "default"]).await.code(0);
    assert_eq!(other.probe().acl("/a").len(), 1);
}

/// Lets `write` run after the root was read, and before its children are listed.
async fn overtaken(arguments: &[&str]) -> (super::Ran, Vec<String>) {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a", "old"), ("/a/b", ""), ("/a/gone", "")]).await;
    let (listing, written) = (Arc::new(Notify::new()), Duration::from_secs(2));
    let seen = Arc::clone(&listing);
    let reads = std::sync::atomic::AtomicU32::new(0);
    let _rule = server.rule(move |request| {
        if !request.is(OpCode::MultiRead) || request.path() != Some("/a") {
            return Verdict::Pass;
        }
        match reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            1 => {
                seen.notify_one();
                Verdict::Delay(written)
            }
            _ => Verdict::Pass,
        }
    });
    let file = scratch.file();
    let mut all = vec!["backup", "/a", &file, "--plain"];
    all.extend(arguments);
    let writes = async {
        listing.notified().await;
        zk.set_data("/a", "new").await.unwrap();
        zk.delete("/a/gone").await.unwrap();
        zk.create("/a/b/new").await.unwrap();
    };
    let (ran, ()) = tokio::join!(zkc(&server, &all), writes);
    let lines = if scratch.names().is_empty() { Vec::new() } else { plain(&file) };
    (ran, lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_nodes_are_read_again() {
    let (ran, lines) = overtaken(&[]).await;
    let ran = ran.code(0);
    assert!(ran.stdout.starts_with("3 nodes, exact"), "{ran:?}");
    assert!(lines[1].starts_with(r#"{"path":"/a","data":{"text":"new"}"#), "{}", lines[1]);
    assert!(lines[2].contains(r#""path":"/a/b""#) && lines[3].contains(r#""path":"/a/b/new""#));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_time_the_changes_are_listed() {
    let (ran, lines) = overtaken(&["--within", "0s"]).await;
    ran.code(0).says("fuzzy").says("/a\n").prints("fuzzy");
    let end = lines.last().unwrap();
    assert!(end.contains(r#""consistency":"fuzzy""#), "{end}");
    assert!(end.contains(r#""changed":["/a","/a/b/new","/a/gone"]"#), "{end}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exact_backup_can_be_required() {
    let (ran, lines) = overtaken(&["--within", "0s", "--require-exact"]).await;
    ran.code(1).prints("no file was written");
    assert!(lines.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exact_backup_is_the_tree_at_its_transaction() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    fill(&zk, "/a", 20, 100).await;
    let mut journal: Vec<(i64, String, Option<String>)> = Vec::new();
    for path in server.probe().paths() {
        let data = server.probe().data(&path).unwrap();
        journal.push((0, path, Some(String::from_utf8(data.to_vec()).unwrap())));
    }
    let file = scratch.file();
    let arguments = ["backup", "/a", &file, "--plain"];
    let backup = zkc(&server, &arguments);
    tokio::pin!(backup);
    let (mut random, mut pause) = (0_u64, tokio::time::interval(Duration::from_millis(3)));
    let ran = loop {
        tokio::select! {
            ran = &mut backup => break ran,
            _ = pause.tick() => {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                let (folder, n) = ((random >> 33) % 20, (random >> 40) % 120);
                let parent = format!("/a/folder-{folder}");
                let path = format!("{parent}/{n}");
                let data = format!("{random}");
                // The last transaction of the server may be one of the backup's session.
                journal.push(if server.probe().exists(&path) && random >> 60 < 4 {
                    zk.delete(&path).await.unwrap();
                    (server.probe().stat(&parent).unwrap().pzxid, path, None)
                } else {
                    let put = zk.create(&path).data(data.clone()).or_set_data().await.unwrap();
                    (put.stat.mzxid, path, Some(data))
                });
            }
        }
    };
    let ran = ran.code(0);
    assert!(ran.stdout.contains("exact"), "{ran:?}");
    let lines = plain(&file);
    let value = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let zxid = value(lines.last().unwrap())["zxid"].as_str().unwrap().to_owned();
    let zxid = i64::from_str_radix(zxid.trim_start_matches("0x"), 16).unwrap();
    let mut expected = BTreeMap::new();
    for (_, path, data) in journal.into_iter().filter(|(at, ..)| *at <= zxid) {
        match data {
            Some(data) => drop(expected.insert(path, data)),
            None => drop(expected.remove(&path)),
        }
    }
    let found: BTreeMap<String, String> = lines[1..lines.len() - 1]
        .iter()
        .map(value)
        .map(|node| {
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            (text(&node["path"]), text(&node["data"]["text"]))
        })
        .collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_a_gap() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a", "old"), ("/a/b", "")]).await;
    let reads = std::sync::atomic::AtomicU32::new(0);
    let _rule = server.rule(move |request| {
        let is_listing = request.is(OpCode::MultiRead)
            && request.path() == Some("/a")
            && reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1;
        if is_listing { Verdict::Disconnect } else { Verdict::Pass }
    });
    // Nothing else has happened on the server, so the backup is exact anyway.
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0).prints("2 nodes, exact");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_below_a_node_closed_during_the_backup_are_left_out() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a", ""), ("/a/b", "old"), ("/a/b/c", ""), ("/a/d", "")]).await;
    let rule = server.rule(|request| {
        let is_last = request.is(OpCode::MultiRead) && request.path() == Some("/a/b/c");
        if is_last { Verdict::Delay(Duration::from_secs(600)) } else { Verdict::Pass }
    });
    let file = scratch.file();
    let backup = ["backup", "/a", &file, "--plain"];
    let close = async {
        rule.fired().await;
        zk.set_data("/a/b", "new").await.unwrap();
        let closed = vec![Acl::new(Permissions::READ, "digest", "ann:none")];
        zk.set_acl("/a/b", closed).await.unwrap();
        rule.end();
    };
    let (ran, ()) = tokio::join!(zkc(&server, &backup), close);
    ran.code(8).says("no permission: /a/b").prints("2 nodes, exact");
    assert!(!plain(&file).iter().any(|line| line.contains(r#""path":"/a/b"#)));
    zkc(&server, &["restore", &file, "--root", "/r"]).await.code(0).says("incomplete backup");
    assert_eq!(server.probe().children("/r"), ["d"]);
}
