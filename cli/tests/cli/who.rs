use serde_json::json;
use zk_curator::CuratorFramework;
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
