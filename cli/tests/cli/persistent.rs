//! Contenders of recipes that no session will ever remove.

use serde_json::{Value, json};
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_recipes::group::Group;
use zk_curator_recipes::leader::LeaderLatch;
use zk_curator_recipes::lock::{InterProcessMutex, InterProcessSemaphore};

use crate::support::{Outcome, Zkc};

async fn client(zkc: &Zkc) -> CuratorFramework {
    let zk = zkc.server.framework().build().expect("settings");
    zk.start().await.expect("connected");
    zk
}

/// Creates a persistent node with a number.
async fn ghost(zk: &CuratorFramework, path: &str) -> String {
    let create = zk.create(path).creating_parents().mode(CreateMode::PersistentSequential);
    create.data("restored").await.expect("created").path
}

#[track_caller]
fn parsed(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// A file with a lock, an election, a semaphore, a group and other ephemeral nodes.
async fn backup(zkc: &Zkc) {
    let zk = client(zkc).await;
    let lock = InterProcessMutex::new(&zk, "/a/lock").acquire().await.expect("held");
    let lease = InterProcessSemaphore::new(&zk, "/a/semaphore", 2);
    let lease = lease.acquire().await.expect("held");
    let latch = LeaderLatch::new(&zk, "/a/latch").join();
    latch.await_leadership().await.expect("leads");
    let group = Group::new(&zk, "/a/group");
    group.create().await.expect("created");
    let member = group.join("ann", "");
    member.joined().await.expect("joined");
    zk.create("/a/other").await.expect("created");
    zk.create("/a/other/config").await.expect("created");
    zk.create("/a/other/alive").mode(CreateMode::Ephemeral).await.expect("created");
    zkc.run(&["backup", "/a", "a.zkb"]).await.ok();
    drop((lock, lease, latch, member));
    zk.close().await.expect("closed");
    zkc.run(&["rm", "-r", "-y", "/a"]).await.ok();
}

#[tokio::test]
async fn contenders_are_not_restored_as_persistent_nodes() {
    let zkc = Zkc::start().await;
    backup(&zkc).await;
    let restore = ["restore", "a.zkb", "--ephemerals", "persistent"];
    let before = zkc.server.writes().len();
    let dry = zkc.run(&[&restore[..], &["--dry-run", "-o", "json"]].concat()).await;
    assert_eq!(dry.code, 2, "{dry:?}");
    let contenders = parsed(&dry)["contenders"].as_array().expect("paths").clone();
    let of = |recipe: &str| {
        let paths = contenders.iter().filter_map(Value::as_str);
        paths.filter(|path| path.starts_with(&format!("/a/{recipe}/"))).count()
    };
    let counts = ["lock", "latch", "semaphore", "group", "other"].map(of);
    assert_eq!(counts, [1, 1, 1, 1, 0], "{contenders:?}");
    let told = zkc.run(&restore).await.fails(2);
    assert!(told.contains("refused: 4 contenders of recipes"), "{told}");
    assert!(told.contains("contender of a recipe: /a/lock/_c_"), "{told}");
    assert!(told.contains("--persist-contenders"), "{told}");
    assert_eq!(zkc.server.writes().len(), before, "nothing was changed");
    // Only what is restored counts.
    let other = [&restore[..], &["--only", "/a/other/**", "--root", "/b"]].concat();
    zkc.run(&other).await.ok();
    assert_eq!(zkc.server.probe().children("/b/other"), ["alive", "config"]);
    zkc.run(&["restore", "a.zkb", "--root", "/c"]).await.ok();
    assert!(zkc.server.probe().children("/c/lock").is_empty());
    let accepted = [&restore[..], &["--persist-contenders", "--ignore-sequences"]].concat();
    zkc.run(&[&accepted[..], &["--dry-run"]].concat()).await.ok();
    zkc.run(&accepted).await.ok();
    assert_eq!(zkc.server.probe().children("/a/lock").len(), 1);
}

#[tokio::test]
async fn a_persistent_holder_is_reported_everywhere() {
    let zkc = Zkc::start().await;
    let zk = client(&zkc).await;
    let node = ghost(&zk, "/locks/a/lock-").await;
    let lock = InterProcessMutex::new(&zk, "/locks/a").label("ann");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    zkc.server.until(|probe| probe.children("/locks/a").len() == 2).await;
    zkc.server.until(|probe| !probe.watches().is_empty()).await;

    let why = zkc.run(&["why", "/locks/a"]).await.ok();
    let because = "BECAUSE  persistent: no session will ever remove it (held by restored \
                   (lock-0000000000)); find out who made it, then delete it";
    assert!(why.contains(because), "{why}");
    assert!(
        why.contains("waits for /locks/a/lock-0000000000, which no session will ever"),
        "{why}"
    );
    assert!(why.contains(&format!("NEXT     zkc stat {node}")), "{why}");
    assert!(!why.contains("zkc revoke"), "{why}");
    let value = zkc.run(&["why", "/locks/a", "-o", "json"]).await.json();
    assert_eq!(value["holders"][0]["persistent"], true);
    assert_eq!(
        (&value["holders"][0]["session"], &value["waiting"][0]["persistent"]),
        (&Value::Null, &json!(false))
    );
    assert!(value["verdicts"][0].as_str().is_some_and(|told| told.starts_with("persistent: ")));

    let told = zkc.run(&["inspect", "/locks", "-o", "json"]).await;
    let row = &parsed(&told)[0];
    assert_eq!((&row["persistent"], told.code), (&json!(1), 0));
    assert!(row["verdict"].as_str().is_some_and(|told| told.starts_with("persistent: ")), "{row}");
    for format in ["table", "wide", "name", "yaml", "jsonl"] {
        let told = zkc.run(&["inspect", "/locks", "-o", format]).await;
        let line = format!("persistent, no session will ever remove it (zkc why): {node}");
        assert!(told.stderr.contains(&line), "{format}: {told:?}");
    }

    let told = zkc.run(&["doctor", "--tree", "/locks", "-o", "json"]).await;
    assert_eq!(told.code, 1, "{told:?}");
    let findings = parsed(&told);
    let is_ghost = |row: &&Value| row["subject"] == "/locks/a" && row["severity"] == "error";
    let found = findings.as_array().expect("rows").iter().find(is_ghost).expect("a finding");
    assert!(found["finding"].as_str().is_some_and(|text| text.contains(&node)), "{found}");

    zkc.run(&["revoke", "/locks/a"]).await.fails(6);
    let step = why.lines().find(|line| line.contains("zkc break")).expect("a command");
    let words: Vec<_> = step.split_whitespace().skip_while(|word| *word != "break").collect();
    let dry = [&words[..4], &["--dry-run"]].concat();
    assert_eq!(zkc.run(&dry).await.ok(), format!("delete {node} of no session\n"));
    zkc.run(&[&words[..4], &["-y"]].concat()).await.ok();
    drop(waiting.await.expect("a task").expect("the lock"));
    zk.close().await.expect("closed");
}

#[tokio::test]
async fn persistent_leases_and_candidates_are_reported() {
    let zkc = Zkc::start().await;
    let zk = client(&zkc).await;
    let lease = ghost(&zk, "/s/leases/lease-").await;
    let candidate = ghost(&zk, "/e/latch-").await;
    let latch = LeaderLatch::new(&zk, "/e").join();
    zkc.server.until(|probe| probe.children("/e").len() == 2).await;
    for (path, node, command) in [("/s", &lease, "zkc break"), ("/e", &candidate, "zkc break")] {
        let why = zkc.run(&["why", path]).await.ok();
        assert!(why.contains("BECAUSE  persistent: no session will ever remove it"), "{why}");
        assert!(why.contains(&format!("{command} {node}")), "{why}");
        assert!(!why.contains("zkc revoke"), "{why}");
    }
    drop(latch);
    zk.close().await.expect("closed");
}
