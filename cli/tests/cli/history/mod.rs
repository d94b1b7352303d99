//! `history`, on logs that these tests write, and on those of Apache ZooKeeper.

mod on_apache_zookeeper;

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use zk_curator_real::Journal;

use crate::support::{Zkc, end};

const SCRIPT: i64 = 0x1000_0000_0000_0001;
const SERVICE: i64 = 0x1000_0000_0000_0002;
const WORKER: i64 = 0x1000_0000_0000_0003;

/// A script deletes `/config` while a worker expires. The guide tells this story.
pub(crate) fn incident() -> Journal {
    let mut journal = Journal::new(1);
    journal.open(SERVICE, 30_000);
    journal.create(SERVICE, "/config", r#"{"limit":5}"#);
    journal.create(SERVICE, "/config/db", "10.0.0.9:5432");
    journal.create(SERVICE, "/config/flags", "a=1\nb=2\n");
    journal.ttl(SERVICE, "/config/hint", 3_600_000);
    journal.create(SERVICE, "/workers", "");
    journal.open(WORKER, 6_000);
    let worker = r#"{"name":"orders","id":"w1","address":"10.0.0.7","port":8080}"#;
    journal.ephemeral(WORKER, "/workers/w1", worker);
    journal.set(SERVICE, "/config/flags", "a=1\nb=3\n");
    journal.open(SCRIPT, 30_000);
    journal.ephemeral(SCRIPT, "/workers/deploy", "ci-7:22");
    journal.delete(SCRIPT, "/config/hint");
    journal.delete(SCRIPT, "/config/db");
    journal.expire(WORKER, &["/workers/w1"]);
    journal.fail(SERVICE, -101);
    journal.delete(SCRIPT, "/config/flags");
    journal.delete(SCRIPT, "/config");
    journal
}

/// Writes the incident into the folder of a test.
async fn with_incident() -> Zkc {
    let zkc = Zkc::start().await;
    incident().write(&zkc.file("zk"));
    zkc
}

#[tokio::test]
async fn the_session_and_the_cause_are_named() {
    let zkc = with_incident().await;
    let told = zkc.run(&["history", "who", "zk", "/config"]).await.ok();
    for text in [
        "/config   deleted",
        "session 0x1000000000000001, request 1",
        "a client deleted it",
        "it deleted 4 nodes in 0.5 s",
        r#"-   "limit": 5"#,
        "CLIENT    ci-7:22  (from its ephemeral nodes)",
        "/workers/deploy  ci-7:22",
        "zkc history undelete zk /config",
    ] {
        assert!(told.contains(text), "{text}: {told}");
    }
    let value = zkc.run(&["history", "who", "zk", "/workers/w1", "-o", "json"]).await.json();
    assert_eq!(value["change"]["cause"], "session-expired");
    assert_eq!(value["author"]["session"], "0x1000000000000003");
    assert_eq!(value["author"]["address"], "10.0.0.7:8080");
    assert_eq!(value["author"]["label"], "orders");
    assert_eq!(value["author"]["timeout_ms"], 6_000);
    assert_eq!(value["author"]["ended_by"], "server");
    let changed = ["history", "who", "zk", "/config/flags", "--at", "0x9", "-o", "json"];
    let value = zkc.run(&changed).await.json();
    assert_eq!(value["change"]["operation"], "set-data");
    assert_eq!(value["change"]["before"]["data"]["text"], "a=1\nb=2\n");
    let none = zkc.run(&["history", "who", "zk", "/none"]).await.fails(4);
    assert!(none.contains("no change of /none"), "{none}");
}

/// Anybody who may create a node chooses its name.
#[cfg(unix)]
#[tokio::test]
async fn proposed_commands_are_words_of_a_shell() {
    const NODE: &str = r#"/it's $(touch made) `touch made`; "a""#;
    const WORD: &str = r#"'/it'\''s $(touch made) `touch made`; "a"'"#;
    let zkc = Zkc::start().await;
    let mut journal = Journal::new(1);
    journal.open(SCRIPT, 30_000);
    journal.create(SCRIPT, NODE, "");
    journal.delete(SCRIPT, NODE);
    std::fs::create_dir(zkc.file("a server")).expect("a folder");
    journal.write(&zkc.file("logs; touch made"));
    let who = ["history", "who", "a server", "--log-dir", "logs; touch made", NODE];
    let told = zkc.run(&who).await.ok();
    let undelete = format!("zkc history undelete 'a server' --log-dir 'logs; touch made' {WORD}");
    assert!(told.contains(&undelete), "{told}");
    let proposed = told.lines().filter_map(|line| line.find("zkc history ").map(|at| &line[at..]));
    let proposed: Vec<_> = proposed.filter_map(|line| line.rsplit_once("  (")).collect();
    assert_eq!(proposed.len(), 2, "{told}");
    for (command, _) in proposed {
        let child = zkc.program("sh", &["-c", command]).spawn().expect("sh");
        let told = end(child, "").await.ok();
        assert!(told.contains(NODE), "{command}: {told}");
    }
    assert!(!zkc.file("made").exists());
}

#[tokio::test]
async fn the_incident_of_the_guide_is_true() {
    crate::transcripts::follow("history.md", &with_incident().await).await;
}

#[tokio::test]
async fn changes_are_listed_in_every_format() {
    let zkc = with_incident().await;
    let log = ["history", "log", "zk", "--below", "/config", "--op", "set-data,delete"];
    let with = |options: &[&'static str]| [&log[..], options].concat();
    let told = zkc.run(&log).await.ok();
    let first = told.lines().next().expect("a line");
    assert!(first.starts_with("2026-11-30T14:02:00.900Z  0x9 "), "{first}");
    assert!(first.ends_with("set-data        /config/flags  v0 → v1, 8 B"), "{first}");
    assert_eq!(told.lines().count(), 5, "{told}");
    let told = zkc.run(&with(&["-v"])).await.ok();
    assert!(told.contains("\n    - b=2\n    + b=3\n"), "{told}");
    let array = zkc.run(&with(&["-o", "json"])).await.json();
    assert_eq!(array.as_array().expect("an array").len(), 5);
    assert_eq!(array[4]["path"], "/config");
    assert_eq!(array[4]["zxid"], "0x11");
    let lines = zkc.run(&with(&["-o", "jsonl"])).await.ok();
    assert_eq!(lines.lines().count(), 5);
    let yaml = zkc.run(&with(&["-o", "yaml"])).await.ok();
    assert_eq!(yaml.matches("zxid: ").count(), 5, "{yaml}");
    let names = zkc.run(&with(&["-o", "name", "--first", "1"])).await.ok();
    assert_eq!(names, "/config/flags\n");
    // Without a match, a list is empty and not missing.
    let none = ["history", "log", "zk", "--path", "/none", "-o", "json"];
    assert_eq!(zkc.run(&none).await.ok(), "[]\n");
}

#[tokio::test]
async fn filters_of_times_and_sessions_are_combined() {
    let zkc = with_incident().await;
    let count = async |options: &[&str]| {
        let arguments = [&["history", "log", "zk", "-o", "jsonl"][..], options].concat();
        zkc.run(&arguments).await.ok().lines().count()
    };
    assert_eq!(count(&[]).await, 17);
    assert_eq!(count(&["--op", "error"]).await, 1);
    assert_eq!(count(&["--session", "0x1000000000000003"]).await, 4);
    assert_eq!(count(&["--session", "1000000000000003"]).await, 4);
    assert_eq!(count(&["--since", "2026-11-30T14:02:01Z"]).await, 8);
    assert_eq!(count(&["--until", "2026-11-30T14:02:00Z"]).await, 0);
    assert_eq!(count(&["--zxid", "0x2..0x3"]).await, 2);
    zkc.run(&["history", "log", "zk", "--since", "14:02"]).await.fails(2);
}

#[tokio::test]
async fn a_closed_pipe_ends_a_log_quietly() {
    let zkc = Zkc::start().await;
    let mut journal = Journal::new(1);
    journal.create(SERVICE, "/a", "");
    for _ in 0..20_000 {
        journal.set(SERVICE, "/a", "x");
    }
    journal.write(&zkc.file("zk"));
    for format in ["table", "json", "jsonl", "yaml"] {
        let outcome = zkc.run_with_closed_pipe(&["history", "log", "zk", "-o", format]).await;
        assert_eq!((outcome.code, &*outcome.stderr), (0, ""), "{format}: {outcome:?}");
    }
}

#[tokio::test]
async fn the_past_is_shown_and_compared() {
    let zkc = with_incident().await;
    let tree = zkc.run(&["history", "tree", "zk", "/config", "--at", "0xb"]).await;
    assert!(tree.stderr.contains("4 nodes, after transaction 0xb"), "{tree:?}");
    assert_eq!(tree.ok(), "/config\n├─ db\n├─ flags\n└─ hint\n");
    let wide = ["history", "tree", "zk", "/config/hint", "--at", "0xb", "-o", "wide"];
    assert!(zkc.run(&wide).await.ok().starts_with("/config/hint  ttl  v0  0 B  "));
    let get = ["history", "get", "zk", "/config/flags", "--at"];
    assert_eq!(zkc.run(&[&get[..], &["0x8"]].concat()).await.ok(), "a=1\nb=2\n");
    let at = [&get[..], &["2026-11-30T14:02:01Z", "-o", "json"]].concat();
    let value = zkc.run(&at).await.json();
    assert_eq!(value["version"], 1);
    assert_eq!(value["zxid"], "0xa");
    zkc.run(&["history", "get", "zk", "/config"]).await.fails(4);
    zkc.run(&["history", "tree", "zk", "/config"]).await.fails(4);
    let diff = ["history", "diff", "zk", "--from", "0x8", "--to", "0xe"];
    let told = zkc.run(&diff).await;
    assert_eq!(told.code, 1, "{told:?}");
    let expected = "-  /config/db\n~  /config/flags  data\n-  /config/hint\n\
                    +  /workers/deploy\n-  /workers/w1\n";
    assert_eq!(told.stdout, expected);
    zkc.run(&["history", "diff", "zk", "/workers", "--from", "0xe", "--to", "0x11"]).await.ok();
}

#[tokio::test]
async fn the_rights_of_the_past_are_shown() {
    let zkc = Zkc::start().await;
    let mut journal = Journal::new(1);
    journal.own("digest", "ann:x");
    journal.create(SERVICE, "/private", "secret");
    journal.write(&zkc.file("zk"));
    let told = zkc.run(&["history", "get", "zk", "/private", "--stat"]).await.ok();
    assert!(told.starts_with("secret\n") && told.contains("digest:ann:x:cdrwa"), "{told}");
}

#[tokio::test]
async fn deleted_nodes_come_back() {
    let zkc = with_incident().await;
    let undelete = ["history", "undelete", "zk", "/config"];
    let told = zkc.run(&undelete).await.ok();
    assert!(told.contains("/config after transaction 0xb"), "{told}");
    assert!(told.contains("4 nodes") && told.contains("1 with a time to live"), "{told}");
    let into = [&undelete[..], &["--into", "config.zkb"]].concat();
    assert!(zkc.run(&into).await.ok().contains("wrote 4 nodes to config.zkb"));
    let dry = [&undelete[..], &["--apply", "--dry-run"]].concat();
    assert!(zkc.run(&dry).await.ok().starts_with("+ 4  "));
    assert!(!zkc.server.probe().exists("/config"));
    assert_eq!(zkc.run(&[&undelete[..], &["--apply"]].concat()).await.ok(), "restored\n");
    assert_eq!(zkc.run(&["get", "/config/flags"]).await.ok(), "a=1\nb=3\n");
    assert_eq!(zkc.run(&["diff", "config.zkb", "/config"]).await.ok(), "");
    // A node that has changed since is not replaced.
    zkc.run(&["set", "/config/db", "new"]).await.ok();
    let told = zkc.run(&[&undelete[..], &["--apply"]].concat()).await.fails(6);
    assert!(told.contains("differs: /config/db"), "{told}");
    let keep = [&undelete[..], &["--apply", "--on-conflict", "keep"]].concat();
    zkc.run(&keep).await.ok();
    assert_eq!(zkc.run(&["get", "/config/db"]).await.ok(), "new\n");
    // The worker's node belongs to a session that has ended.
    zkc.run(&["create", "/workers"]).await.ok();
    let worker = ["history", "undelete", "zk", "/workers/w1", "--apply"];
    assert_eq!(zkc.run(&worker).await.ok(), "nothing to do\n");
    zkc.run(&["history", "undelete", "zk", "/workers"]).await.fails(4);
    let read_only = [&["--read-only"][..], &undelete, &["--apply"]].concat();
    zkc.run(&read_only).await.fails(5);
}

#[tokio::test]
async fn a_chroot_is_part_of_the_path() {
    let mut zkc = with_incident().await;
    zkc.run(&["create", "/config"]).await.ok();
    zkc.servers = format!("{}/config", zkc.servers);
    let undelete = ["history", "undelete", "zk", "/config/db", "--apply"];
    assert_eq!(zkc.run(&undelete).await.ok(), "restored\n");
    assert_eq!(zkc.run(&["get", "/db"]).await.ok(), "10.0.0.9:5432\n");
    let elsewhere = ["history", "undelete", "zk", "/workers/deploy", "--at", "0xb", "--apply"];
    let told = zkc.run(&elsewhere).await.fails(2);
    assert!(told.contains("is not below /config"), "{told}");
}

#[tokio::test]
async fn a_growing_log_is_followed() {
    let zkc = Zkc::start().await;
    let mut journal = incident();
    journal.write(&zkc.file("zk"));
    let follow = ["history", "follow", "zk", "--below", "/config", "--count", "2", "-o", "jsonl"];
    let mut child = zkc.command(&follow).spawn().expect("zkc");
    let mut stderr = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let begun = tokio::time::timeout(Duration::from_secs(60), stderr.next_line()).await;
    assert!(begun.expect("a line").expect("stderr").expect("a line").contains("until Ctrl-C"));
    journal.create(SERVICE, "/config", "new");
    journal.create(SERVICE, "/other", "");
    journal.set(SERVICE, "/config", "newer");
    journal.write(&zkc.file("zk"));
    let outcome = end(child, "").await.ok();
    let lines: Vec<serde_json::Value> =
        outcome.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let operations: Vec<_> = lines.iter().map(|line| line["operation"].as_str()).collect();
    assert_eq!(operations, [Some("create"), Some("set-data")]);
}

#[tokio::test]
async fn gaps_and_damage_are_found() {
    let zkc = with_incident().await;
    let check = async || zkc.run(&["history", "check", "zk"]).await;
    let told = check().await.ok();
    assert!(told.contains("17 transactions"), "{told}");
    assert!(told.contains("from the first transaction"), "{told}");
    let log = zkc.file("zk").join("version-2/log.1");
    let intact = std::fs::read(&log).expect("a log");
    let mut damaged = intact.clone();
    // Inside the second transaction.
    damaged[150] ^= 1;
    std::fs::write(&log, &damaged).expect("a log");
    let told = check().await;
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stdout.contains("is damaged at byte"), "{told:?}");
    let told = zkc.run(&["history", "log", "zk"]).await.fails(2);
    assert!(told.contains("see --skip-damaged"), "{told}");
    let skipped = zkc.run(&["history", "log", "zk", "--skip-damaged", "-o", "jsonl"]).await;
    assert_eq!((skipped.code, skipped.stdout.lines().count()), (8, 16), "{skipped:?}");
    assert!(skipped.stderr.contains("skipped"), "{skipped:?}");
    std::fs::write(&log, &intact).expect("a log");
    let mut later = Journal::new(0x20);
    later.create(SERVICE, "/later", "");
    later.write(&zkc.file("zk"));
    let told = check().await;
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stdout.contains("transactions are missing after 0x11"), "{told:?}");
    zkc.run(&["history", "tree", "zk"]).await.fails(2);
    zkc.run(&["history", "check", "none"]).await.fails(2);
    assert!(std::fs::create_dir(zkc.file("empty")).is_ok());
    let told = zkc.run(&["history", "check", "empty"]).await.fails(2);
    assert!(told.contains("no transaction log"), "{told}");
}

#[tokio::test]
async fn no_server_is_needed() {
    let mut zkc = with_incident().await;
    zkc.servers = "127.0.0.1:1".to_owned();
    for arguments in [
        &["history", "who", "zk", "/config"][..],
        &["history", "log", "zk"],
        &["history", "tree", "zk"],
        &["history", "undelete", "zk", "/config"],
        &["history", "check", "zk"],
    ] {
        zkc.run(arguments).await.ok();
    }
}
