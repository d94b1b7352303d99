use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use zk_curator::ErrorCode;
use zk_curator_testing::Verdict;

use crate::support::{Zkc, end, signal};

/// Starts a command that prints a line and then runs until it is interrupted.
async fn background(zkc: &Zkc, command: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>, String) {
    let mut child = zkc.command(command).spawn().expect("zkc");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let line = lines.next_line().await.expect("a line").expect("a line");
    (child, lines, line)
}

#[tokio::test]
async fn counters_are_exact_in_every_form() {
    let zkc = Zkc::start().await;
    for form in ["long", "integer", "text"] {
        let path = format!("/counters/{form}");
        let run = |words: &[&str]| {
            let mut command = vec!["counter", "--form", form];
            command.extend(words);
            let command: Vec<String> = command.iter().map(ToString::to_string).collect();
            let zkc = &zkc;
            async move { zkc.run(&command.iter().map(String::as_str).collect::<Vec<_>>()).await }
        };
        assert_eq!(run(&["add", &path, "5"]).await.ok(), "5\n");
        assert_eq!(run(&["add", &path, "-7"]).await.ok(), "-2\n");
        assert_eq!(run(&["add", &path, "10", "--once", "a"]).await.ok(), "8\n");
        assert_eq!(run(&["add", &path, "10", "--once", "a"]).await.ok(), "8\n");
        run(&["set", &path, "1", "--expect", "2"]).await.fails(6);
        run(&["set", &path, "1", "--expect", "8"]).await.ok();
        assert_eq!(run(&["get", &path]).await.ok(), "1\n");
    }
}

#[tokio::test]
async fn items_go_through_queues_of_every_kind() {
    let zkc = Zkc::start().await;
    for kind in ["simple", "curator", "priority", "fifo", "locking"] {
        let path = format!("/queues/{kind}");
        for item in ["one", "two"] {
            zkc.run(&["queue", "put", &path, item, "--kind", kind]).await.ok();
        }
        for item in ["one\n", "two\n"] {
            assert_eq!(
                zkc.run(&["queue", "take", &path, "--kind", kind]).await.ok(),
                item,
                "{kind}"
            );
        }
        let empty = ["queue", "take", &path, "--kind", kind, "--wait", "50ms"];
        assert_eq!(zkc.run(&empty).await.code, 1, "{kind}");
    }
    zkc.run(&["queue", "put", "/p", "later", "--kind", "priority", "--priority", "9"]).await.ok();
    zkc.run(&["queue", "put", "/p", "first", "--kind", "priority", "--priority", "-1"]).await.ok();
    let listed = zkc.run(&["queue", "ls", "/p", "-o", "json"]).await.json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    assert!(listed[0]["item"].as_str().is_some_and(|item| item.starts_with("queue-0FFFFFFFF")));
    assert_eq!(zkc.run(&["queue", "take", "/p", "--kind", "priority"]).await.ok(), "first\n");
}

/// The data of the items of a queue, as `queue ls` lists them.
async fn listed(zkc: &Zkc, path: &str) -> Vec<(String, String)> {
    let listed = zkc.run(&["queue", "ls", path, "-o", "json"]).await.json();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let items = listed.as_array().cloned().unwrap_or_default();
    items.iter().map(|item| (text(&item["data"]["text"]), text(&item["state"]))).collect()
}

#[tokio::test]
async fn items_are_listed_in_the_order_of_their_queue() {
    let zkc = Zkc::start().await;
    let put = async |kind: &str, item: &str, priority: &str| {
        let path = format!("/{kind}");
        let put = ["queue", "put", &path, item, "--kind", kind, "--priority", priority];
        zkc.run(&put).await.ok();
    };
    for (item, priority) in [("last", "9"), ("first", "-1"), ("second", "0")] {
        put("locking", item, priority).await;
    }
    for item in ["first", "second"] {
        put("fifo", item, "0").await;
        put("simple", item, "0").await;
    }
    let zk = zkc.server.framework().build().expect("settings");
    zk.start().await.expect("connected");
    let queue = zk_curator_recipes::queue::LockingQueue::new(&zk, "/locking").prioritized();
    let mut consumer = queue.consumer();
    let claim = consumer.next().await.expect("an item");
    let expected = [("first", "claimed"), ("second", "waiting"), ("last", "waiting")];
    let expected = expected.map(|(item, state)| (item.to_owned(), state.to_owned()));
    assert_eq!(listed(&zkc, "/locking").await, expected);
    for kind in ["/fifo", "/simple"] {
        let items: Vec<_> = listed(&zkc, kind).await.into_iter().map(|(item, _)| item).collect();
        assert_eq!(items, ["first", "second"], "{kind}");
    }
    let first = zkc.run(&["queue", "ls", "/locking", "--first", "1", "-o", "name"]).await.ok();
    assert_eq!(first.lines().count(), 1);
    drop(claim);
    drop(consumer);
    zk.close().await.expect("closed");
}

#[tokio::test]
async fn delayed_items_are_listed_by_their_times() {
    let zkc = Zkc::start().await;
    let zk = zkc.server.framework().build().expect("settings");
    zk.start().await.expect("connected");
    let queue = zk_curator_recipes::queue::DistributedDelayQueue::new(&zk, "/q");
    let now = std::time::SystemTime::now();
    for minutes in [9, 0, 5] {
        let due = now + Duration::from_secs(minutes * 60);
        queue.put(format!("{minutes}"), due).await.expect("an item");
    }
    zk.create("/q/foreign").await.expect("a node");
    let outcome = zkc.run(&["queue", "ls", "/q", "-o", "json"]).await;
    assert_eq!(outcome.stderr, "nodes that are not items: 1\n");
    let states = outcome.json();
    let states: Vec<_> = (0..3).map(|place| states[place]["state"].clone()).collect();
    assert_eq!(states[0], "waiting");
    assert!(states[1].as_str().is_some_and(|state| state.starts_with("due in 4 m")), "{states:?}");
    assert!(states[2].as_str().is_some_and(|state| state.starts_with("due in 8 m")), "{states:?}");
    zk.close().await.expect("closed");
}

#[tokio::test]
async fn dead_letters_are_put_back() {
    let zkc = Zkc::start().await;
    let zk = zkc.server.framework().build().expect("settings");
    zk.start().await.expect("connected");
    let queue = zk_curator_recipes::queue::LockingQueue::new(&zk, "/q");
    queue.put("poison").await.expect("put");
    let delivery = queue.consumer().next().await.expect("an item");
    delivery.reject("bad").await.expect("rejected");
    assert_eq!(zkc.run(&["queue", "take", "/q", "--kind", "locking"]).await.code, 1);
    assert_eq!(zkc.run(&["queue", "requeue", "/q"]).await.ok(), "1 put back\n");
    assert_eq!(zkc.run(&["queue", "take", "/q", "--kind", "locking"]).await.ok(), "poison\n");
    zk.close().await.expect("closed");
}

/// Only Linux has a device that is always full.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_item_that_cannot_be_printed_stays() {
    let zkc = Zkc::start().await;
    for kind in ["simple", "curator", "priority", "fifo", "locking"] {
        let path = format!("/queues/{kind}");
        for item in ["one", "two"] {
            zkc.run(&["queue", "put", &path, item, "--kind", kind]).await.ok();
        }
        let take = ["queue", "take", &path, "--kind", kind];
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let failed = zkc.command(&take).stdout(full).status().await.unwrap();
        assert!(!failed.success(), "{kind}");
        let (unread, closed) = std::io::pipe().unwrap();
        drop(unread);
        let failed = zkc.command(&take).stdout(closed).status().await.unwrap();
        assert!(!failed.success(), "{kind}");
        assert_eq!(zkc.run(&take).await.ok(), "one\n", "{kind}");
        assert_eq!(zkc.run(&take).await.ok(), "two\n", "{kind}");
    }
}

/// Another client takes the item while it is printed.
#[tokio::test]
async fn an_item_that_was_printed_and_not_removed_is_a_failure() {
    let zkc = Zkc::start().await;
    zkc.run(&["queue", "put", "/q", "one", "--kind", "curator"]).await.ok();
    let taken = zkc.server.rule(|request| {
        if request.is_delete() { Verdict::Refuse(ErrorCode::NoNode) } else { Verdict::Pass }
    });
    let outcome = zkc.run(&["queue", "take", "/q", "--kind", "curator"]).await;
    assert_eq!(outcome.stdout, "one\n");
    assert!(outcome.fails(6).contains("was printed, and was not removed"));
    drop(taken);
}

/// The response to the removal comes after the time is over.
#[tokio::test]
async fn a_take_that_is_late_loses_no_item() {
    let kinds = ["simple", "curator", "fifo", "locking"].map(async |kind| {
        let zkc = Zkc::start().await;
        zkc.run(&["queue", "put", "/q", "one", "--kind", kind]).await.ok();
        let _late = zkc.server.rule(|request| {
            let removes = request.is_delete() || request.is_transaction();
            if removes { Verdict::Delay(Duration::from_secs(4)) } else { Verdict::Pass }
        });
        let take = ["queue", "take", "/q", "--kind", kind, "--wait", "2s"];
        assert_eq!(zkc.run(&take).await.ok(), "one\n", "{kind}");
    });
    futures_util::future::join_all(kinds).await;
}

#[tokio::test]
async fn jobs_are_submitted_and_listed() {
    let zkc = Zkc::start().await;
    assert_eq!(zkc.run(&["jobs", "submit", "/jobs", "work", "--id", "a"]).await.ok(), "a\n");
    zkc.run(&["jobs", "submit", "/jobs", "work", "--id", "a"]).await.fails(6);
    let jobs = zkc.run(&["jobs", "ls", "/jobs", "-o", "json"]).await.json();
    assert_eq!((&jobs[0]["id"], &jobs[0]["state"]), (&json!("a"), &json!("pending")));
    assert_eq!(zkc.run(&["jobs", "show", "/jobs", "a"]).await.ok(), "work\n");
    zkc.run(&["jobs", "show", "/jobs", "b"]).await.fails(4);
    let counts = zkc.run(&["jobs", "count", "/jobs", "-o", "json"]).await.json();
    assert_eq!(counts[0], json!({ "state": "pending", "jobs": 1 }));
    assert_eq!(zkc.run(&["jobs", "retry", "/jobs", "a"]).await.code, 1);
    zkc.run(&["jobs", "cancel", "/jobs", "a"]).await.ok();
    assert_eq!(zkc.run(&["jobs", "ls", "/jobs"]).await.ok(), "");
}

#[tokio::test]
async fn configuration_has_revisions() {
    let zkc = Zkc::start().await;
    let set = |words: &[&str]| {
        let command: Vec<_> = ["config", "set", "/conf", "-o", "name"]
            .iter()
            .chain(words)
            .map(|word| (*word).to_owned())
            .collect();
        let zkc = &zkc;
        async move { zkc.run(&command.iter().map(String::as_str).collect::<Vec<_>>()).await.ok() }
    };
    let first = set(&["db.host=a", "db.port=1"]).await;
    set(&["db.host=b", "--remove", "db.port"]).await;
    assert_eq!(zkc.run(&["config", "get", "/conf", "db.host"]).await.ok(), "b\n");
    zkc.run(&["config", "get", "/conf", "db.port"]).await.fails(4);
    let history = zkc.run(&["config", "history", "/conf", "-o", "json"]).await.json();
    assert_eq!(history.as_array().map(Vec::len), Some(4));
    zkc.run(&["config", "rollback", "/conf", first.trim()]).await.ok();
    let values = zkc.run(&["config", "get", "/conf", "-o", "json"]).await.json();
    assert_eq!(values[1]["value"], json!({ "text": "1" }));
    let told = zkc.run(&["config", "follow", "/conf", "--count", "1"]).await.ok();
    assert!(told.ends_with("  db.host=a  db.port=1\n"), "{told}");
}

#[tokio::test]
async fn a_group_has_its_members_while_they_run() {
    let zkc = Zkc::start().await;
    let (child, _lines, line) = background(&zkc, &["group", "join", "/g", "a", "host-a"]).await;
    assert_eq!(line, "joined a");
    assert_eq!(zkc.run(&["group", "wait", "/g", "1", "-o", "name"]).await.ok(), "a\n");
    let (follower, mut events, first) = background(&zkc, &["group", "follow", "/g"]).await;
    assert_eq!(first, "joined   a  host-a");
    signal(&child, "INT").await;
    assert_eq!(end(child, "").await.code, 0);
    assert_eq!(events.next_line().await.expect("a line").as_deref(), Some("left     a"));
    signal(&follower, "INT").await;
    assert_eq!(end(follower, "").await.code, 0);
    assert_eq!(zkc.run(&["group", "ls", "/g"]).await.ok(), "");
}

#[tokio::test]
async fn barriers_block_and_release() {
    let zkc = Zkc::start().await;
    zkc.run(&["barrier", "set", "/b"]).await.ok();
    zkc.run(&["barrier", "show", "/b"]).await.ok();
    let waiter = zkc.command(&["barrier", "wait", "/b"]).spawn().expect("zkc");
    zkc.run(&["barrier", "rm", "/b"]).await.ok();
    assert_eq!(end(waiter, "").await.code, 0);
    assert_eq!(zkc.run(&["barrier", "show", "/b"]).await.code, 1);
    let member = || async {
        let mut command = zkc.command(&["barrier", "enter", "/d", "2"]);
        let child = command.stdin(std::process::Stdio::piped()).spawn().expect("zkc");
        end(child, "work").await
    };
    let (one, two) = tokio::join!(member(), member());
    assert_eq!((one.ok(), two.ok()), ("entered\n".to_owned(), "entered\n".to_owned()));
}

#[tokio::test]
async fn services_are_registered_and_shown() {
    let zkc = Zkc::start().await;
    let command =
        ["discover", "register", "orders", "--port", "80", "--address", "h", "--id", "one"];
    let (child, _lines, line) = background(&zkc, &command).await;
    assert_eq!(line, "/services/orders/one");
    let services = zkc.run(&["discover", "ls", "-o", "json"]).await.json();
    assert_eq!((&services[0]["name"], &services[0]["instances"]), (&json!("orders"), &json!(1)));
    zkc.run(&["create", "/services/orders/foreign", "no json"]).await.ok();
    let shown = zkc.run(&["discover", "show", "orders", "-o", "json"]).await.json();
    assert_eq!((&shown[0]["address"], &shown[0]["state"]), (&json!("h"), &json!("up")));
    assert!(shown[1]["state"].as_str().is_some_and(|state| state.starts_with("undecodable")));
    signal(&child, "INT").await;
    assert_eq!(end(child, "").await.code, 0);
    assert!(!zkc.server.probe().exists("/services/orders/one"));
    zkc.run(&["discover", "show", "none"]).await.fails(4);
}

#[tokio::test]
async fn a_period_runs_on_one_host() {
    let zkc = Zkc::start().await;
    let ran = zkc.file("ran");
    let ran = ran.display().to_string();
    let command = ["cron", "run", "/cron", "--every", "1s", "--id", "me", "--", "touch", &ran];
    let child = zkc.command(&command).spawn().expect("zkc");
    zkc.run(&["wait", "/cron", "--children", ">=3", "--for", "50s"]).await.ok();
    signal(&child, "INT").await;
    assert_eq!(end(child, "").await.code, 0);
    assert!(std::path::Path::new(&ran).exists());
    let slots = zkc.run(&["cron", "ls", "/cron", "-o", "json"]).await.json();
    assert_eq!(slots[0]["by"], "me");
}
