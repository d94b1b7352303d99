use serde_json::json;
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_recipes::inspect::{Found, find};
use zk_curator_recipes::lock::InterProcessMutex;

use crate::support::Zkc;

async fn client(zkc: &Zkc) -> CuratorFramework {
    let zk = zkc.server.framework().build().expect("settings");
    zk.start().await.expect("connected");
    zk
}

/// Waits until a subtree has this many contenders that wait.
async fn until_waiting(zk: &CuratorFramework, waiting: usize) {
    let count = |found: &Found| found.findings.iter().map(|one| one.waiting.len()).sum::<usize>();
    for _ in 0..5_000 {
        let found = find(zk, "/", 1_000).await.expect("readable");
        if count(&found) == waiting {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{waiting} waiters were expected");
}

#[tokio::test]
async fn why_shows_holder_and_waiters_with_their_clients() {
    let zkc = Zkc::start().await;
    let (ann, ben) = (client(&zkc).await, client(&zkc).await);
    let held = InterProcessMutex::new(&ann, "/locks/a").label("ann").acquire().await.expect("held");
    let waiter = InterProcessMutex::new(&ben, "/locks/a").label("ben");
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    until_waiting(&ann, 1).await;

    let why = zkc.run(&["why", "/locks/a", "-o", "json"]).await.json();
    assert_eq!((&why["recipe"], &why["library"]), (&json!("mutex"), &json!("Curator")));
    assert_eq!(why["holders"][0]["label"], json!({ "text": "ann" }));
    assert_eq!(why["holders"][0]["connected"], true);
    assert_eq!(why["waiting"][0]["label"], json!({ "text": "ben" }));
    assert!(why["holders"][0]["client"].as_str().is_some_and(|at| at.starts_with("127.0.0.1:")));
    assert_eq!(why["holders"][0]["token"], format!("{:#x}", held.fencing_token().get()));

    let text = zkc.run(&["why", "/locks/a"]).await.ok();
    assert!(
        text.starts_with("/locks/a   mutex (Curator)   1 holder, 1 waiting, created "),
        "{text}"
    );
    for words in
        ["HOLDER   ann  since ", "WAITING  ben", "BECAUSE  held by ann", "NEXT     zkc revoke "]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    // The path of a contender is as good as that of its lock.
    let node = zkc.run(&["why", held.path(), "-o", "json"]).await.json();
    assert_eq!(node["path"], "/locks/a");
    zkc.run(&["why", "/none"]).await.fails(4);

    drop(held);
    drop(waiting.await.expect("a task").expect("the lock"));
    ann.close().await.expect("closed");
    ben.close().await.expect("closed");
}

#[tokio::test]
async fn recipes_of_a_subtree_are_listed() {
    let zkc = Zkc::start().await;
    let zk = client(&zkc).await;
    let _held = InterProcessMutex::new(&zk, "/locks/a").acquire().await.expect("held");
    zkc.run(&["queue", "put", "/queues/q", "x", "--kind", "curator"]).await.ok();
    let found = zkc.run(&["inspect", "/", "-o", "json"]).await.json();
    let recipes: Vec<_> =
        found.as_array().expect("rows").iter().map(|row| &row["recipe"]).collect();
    assert_eq!(recipes, ["mutex (Curator)", "queue (Curator)"]);
    zkc.run(&["inspect", "/", "--limit", "2"]).await.fails(8);
    zk.close().await.expect("closed");
}

#[tokio::test]
async fn a_deadlock_is_shown_with_the_break_that_ends_it() {
    let zkc = Zkc::start().await;
    zkc.run(&["deadlocks"]).await.ok();
    let (ann, ben) = (client(&zkc).await, client(&zkc).await);
    let mutex =
        |zk, path: &str, label: &str| InterProcessMutex::new(zk, path).label(label.to_owned());
    let _a = mutex(&ann, "/locks/a", "ann").acquire().await.expect("held");
    let _b = mutex(&ben, "/locks/b", "ben").acquire().await.expect("held");
    let (first, second) = (mutex(&ann, "/locks/b", "ann"), mutex(&ben, "/locks/a", "ben"));
    let waiting = [
        tokio::spawn(async move { first.acquire().await }),
        tokio::spawn(async move { second.acquire().await }),
    ];
    until_waiting(&ann, 2).await;

    let outcome = zkc.run(&["deadlocks"]).await;
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stdout.contains("ann waits at /locks/b for ben"), "{outcome:?}");
    assert!(outcome.stdout.contains("2 sessions cannot continue"), "{outcome:?}");
    let found = zkc.run(&["deadlocks", "-o", "json"]).await;
    let found: serde_json::Value = serde_json::from_str(&found.stdout).expect("JSON");
    let victim = found["cycles"][0]["break"]["path"].as_str().expect("a path").to_owned();
    zkc.run(&["rm", &victim]).await.ok();
    until_waiting(&ann, 1).await;
    zkc.run(&["deadlocks"]).await.ok();

    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    ann.close().await.expect("closed");
    ben.close().await.expect("closed");
}

#[tokio::test]
async fn a_break_is_shown_as_words_of_a_shell() {
    let zkc = Zkc::start().await;
    let (ann, ben) = (client(&zkc).await, client(&zkc).await);
    let waits = [(&ann, &ben, "/locks/it's $(a)"), (&ben, &ann, "/locks/it's $(b)")];
    for (holder, waiter, lock) in waits {
        let contenders = format!("{lock}/lock-");
        contender(holder, &contenders, "").await;
        contender(waiter, &contenders, "").await;
    }
    let told = zkc.run(&["deadlocks"]).await;
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stdout.contains(r"  zkc break '/locks/it'\''s $("), "{told:?}");
    assert!(told.stdout.contains("' --token 0x"), "{told:?}");
    ann.close().await.expect("closed");
    ben.close().await.expect("closed");
}

/// Creates a node that contends like those of a recipe, and that nobody looks after.
async fn contender(zk: &CuratorFramework, path: &str, label: &str) -> String {
    let create = zk.create(path).creating_parents().mode(CreateMode::EphemeralSequential);
    create.data(label.to_owned()).await.expect("created").path
}

#[tokio::test]
async fn only_holders_that_listen_are_asked() {
    let zkc = Zkc::start().await;
    let zk = client(&zkc).await;
    let kazoos = format!("/locks/kazoo/{}__lock__", "a".repeat(32));
    let kazoos = contender(&zk, &kazoos, "worker-1").await;
    let curators = contender(&zk, "/locks/curator/lock-", "worker-2").await;
    zkc.run(&["create", "-p", "-S", "/locks/ghost/lock-", "worker-3"]).await.ok();
    for lock in ["/locks/kazoo", "/locks/ghost"] {
        let told = zkc.run(&["revoke", lock]).await.fails(6);
        assert!(told.contains("not asked: "), "{told}");
        let told = zkc.run(&["why", lock]).await.ok();
        assert!(told.contains("zkc break") && !told.contains("zkc revoke"), "{told}");
    }
    assert_eq!(&*zkc.server.probe().data(&kazoos).expect("a node"), b"worker-1");
    // The request replaces the label, so it is told before.
    let told = zkc.run(&["why", "/locks/curator"]).await.ok();
    assert!(told.contains("NEXT     zkc revoke "), "{told}");
    let asked = zkc.run(&["revoke", "/locks/curator", "-o", "json"]).await.json();
    assert_eq!(asked[0]["label"], "worker-2");
    assert_eq!(&*zkc.server.probe().data(&curators).expect("a node"), b"__REVOKE__");
    let told = zkc.run(&["why", "/locks/curator"]).await.ok();
    assert!(!told.contains("zkc revoke") && !told.contains("HOLDER   __REVOKE__"), "{told}");
    zk.close().await.expect("closed");
}

#[cfg(unix)]
#[tokio::test]
async fn a_dead_holder_is_not_asked() {
    use nix::sys::signal::Signal;

    use crate::running::Running;

    let zkc = Zkc::start().await;
    let mut holder = Running::start(&zkc.servers, &["lock", "/locks/a"]);
    holder.line().await;
    holder.signal(Signal::SIGKILL);
    holder.ended().await;
    zkc.server.until(|probe| probe.sessions().iter().all(|session| !session.connected)).await;
    let told = zkc.run(&["why", "/locks/a"]).await.ok();
    assert!(told.contains("no connection: gone in at most "), "{told}");
    assert!(!told.contains("zkc revoke"), "{told}");
    let told = zkc.run(&["why", "/locks/a", "-o", "json"]).await.json();
    assert!(told["holders"][0]["gone_within_ms"].as_u64().is_some(), "{told}");
}

#[tokio::test]
async fn a_waiter_that_does_not_watch_is_found() {
    let zkc = Zkc::start().await;
    let (ann, ben) = (client(&zkc).await, client(&zkc).await);
    contender(&ann, "/locks/a/lock-", "ann").await;
    contender(&ben, "/locks/a/lock-", "ben").await;
    let told = zkc.run(&["why", "/locks/a", "--watches"]).await.ok();
    assert!(told.contains("watches nothing here"), "{told}");
    let told = zkc.run(&["why", "/locks/a"]).await.ok();
    assert!(!told.contains("watches nothing here"), "{told}");

    let waiter = InterProcessMutex::new(&ben, "/locks/a");
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    zkc.server.until(|probe| !probe.watches().is_empty()).await;
    let told = zkc.run(&["why", "/locks/a", "--watches", "-o", "json"]).await.json();
    let verdicts = told["verdicts"].as_array().expect("sentences");
    let watchless = verdicts.iter().filter(|one| one.to_string().contains("watches nothing"));
    // The session watches here, for one of its two contenders.
    assert_eq!(watchless.count(), 0, "{told}");
    waiting.abort();
    ann.close().await.expect("closed");
    ben.close().await.expect("closed");
}

#[cfg(unix)]
#[tokio::test]
async fn commands_under_locks_that_wait_for_each_other_are_found() {
    const FIRST: Nested = (&["lock", "/locks/a", "--label", "job"], "zkc lock /locks/b -- true");
    const SECOND: Nested = (&["lock", "/locks/b", "--label", "job"], "zkc lock /locks/a -- true");
    expect_deadlock([FIRST, SECOND], ["/locks/a", "/locks/b"]).await;
}

/// A command, and the command that it runs.
#[cfg(unix)]
type Nested = (&'static [&'static str], &'static str);

/// Checks that a deadlock of two commands is found, at the nodes where they wait for each other.
#[cfg(unix)]
async fn expect_deadlock(commands: [Nested; 2], nodes: [&str; 2]) {
    use std::process::Stdio;

    use crate::running::{Running, zkc as start};

    let zkc = Zkc::start().await;
    let mut both = commands.map(|(outer, inner)| {
        let script = format!("echo ready; read x; exec {inner}");
        let arguments = [outer, &["--", "sh", "-c", script.as_str()]].concat();
        Running::spawn(start(&zkc.servers, &arguments).stdin(Stdio::piped()))
    });
    for one in &mut both {
        assert_eq!(one.line().await, "ready");
    }
    assert_eq!(zkc.run(&["deadlocks"]).await.ok(), "no deadlock\n");
    for one in &mut both {
        one.write("\n").await;
    }
    let count = |probe: &zk_curator_testing::Probe| nodes.map(|node| probe.children(node).len());
    zkc.server.until(|probe| count(probe) == [2, 2]).await;
    let found = zkc.run(&["deadlocks"]).await;
    assert_eq!(found.code, 1, "{commands:?}: {found:?}");
    assert!(found.stdout.contains("2 sessions cannot continue"), "{commands:?}: {found:?}");
}

/// A candidate below a lock waits, and a member below a lock passes the lock on to its command.
#[cfg(unix)]
#[tokio::test]
async fn candidates_and_members_under_locks_are_found() {
    const LOCK: Nested = (&["lock", "/other"], "zkc lock /locks/a -- true");
    const ELECT: Nested =
        (&["elect", "/other", "--id", "b", "--once"], "zkc lock /locks/a -- true");
    for (inner, other) in [
        ("zkc elect /other --id a --once -- true", ELECT),
        ("zkc group join /members m -- zkc lock /other -- true", LOCK),
    ] {
        let first: Nested = (&["lock", "/locks/a"], inner);
        expect_deadlock([first, other], ["/locks/a", "/other"]).await;
    }
}

#[tokio::test]
async fn obstacles_to_a_deletion_are_reported() {
    let zkc = Zkc::start().await;
    let zk = client(&zkc).await;
    zkc.run(&["create", "-p", "/a/b", "x"]).await.ok();
    zkc.run(&["create", "/p", "x", "--acl", "world:anyone:cr,world:anyone:a"]).await.ok();
    zkc.run(&["create", "/p/q", "x"]).await.ok();
    zk.create("/owned").mode(CreateMode::Ephemeral).data("x").await.expect("created");
    for (path, words) in [
        ("/a", "DELETE   not possible while it has 1 child: zkc rm -r"),
        ("/p/q", "DELETE   needs DELETE on /p: the ACL grants it to no one"),
        ("/owned", "DELETE   ephemeral: session 0x"),
    ] {
        let told = zkc.run(&["why", path]).await.ok();
        assert!(told.contains(words), "{words}: {told}");
    }
    let told = zkc.run(&["why", "/a/b"]).await.ok();
    assert!(!told.contains("DELETE"), "{told}");
    let told = zkc.run(&["rm", "/a"]).await.fails(6);
    assert!(told.contains("not empty: /a (-r also deletes the nodes below it)"), "{told}");
    let told = zkc.run(&["rm", "/p/q"]).await.fails(5);
    assert!(
        told.contains("no permission: /p/q (needs DELETE on /p: the ACL grants it to no one)"),
        "{told}"
    );
    zk.close().await.expect("closed");
}

#[tokio::test]
async fn a_search_in_part_finds_no_absence() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "-p", "/locks/a"]).await.ok();
    let told = zkc.run(&["deadlocks", "--limit", "2"]).await;
    assert_eq!(
        (told.code, &*told.stdout),
        (8, "no deadlock in the nodes that were read\n"),
        "{told:?}"
    );
}

/// The next writer has to wait for all readers.
#[tokio::test]
async fn commands_are_shown_for_all_readers() {
    let zkc = Zkc::start().await;
    let zk = client(&zkc).await;
    for reader in 0..5 {
        contender(&zk, "/locks/rw/__READ__", &format!("reader-{reader}")).await;
    }
    contender(&zk, "/locks/rw/__WRIT__", "writer").await;
    let told = zkc.run(&["why", "/locks/rw"]).await.ok();
    assert_eq!(told.matches("zkc break ").count(), 3, "{told}");
    assert!(told.contains("and 2 more readers: --all"), "{told}");
    let told = zkc.run(&["why", "--all", "/locks/rw"]).await.ok();
    assert_eq!(told.matches("zkc break ").count(), 5, "{told}");
    zk.close().await.expect("closed");
}
