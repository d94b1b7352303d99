//! Behaviour of `zkc lock`, `revoke`, `break` and `set --fenced`.

use nix::sys::signal::Signal;
use zk_curator_testing::TestServer;

use crate::running::{Folder, Running, run};

#[tokio::test]
async fn the_code_of_the_command_is_that_of_zkc() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    for (command, code) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["true"], 0),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["/nonexistent/command"], 127),
        (&["/"], 126),
    ] {
        let arguments = [&["lock", "/locks/a", "--"], command].concat();
        let finished = run(&servers, &arguments).await;
        assert_eq!(finished.code, Some(code), "{command:?}: {finished:?}");
    }
    assert!(server.probe().sessions().is_empty(), "{}", server.probe());
    assert!(server.probe().children("/locks/a").is_empty(), "{}", server.probe());
}

#[tokio::test]
async fn a_failure_before_the_command_has_its_own_code() {
    let finished =
        run("127.0.0.1:1", &["--timeout", "200ms", "lock", "/locks/a", "--", "true"]).await;
    assert_eq!(finished.code, Some(125), "{finished:?}");
    assert!(finished.stderr.contains("no connection"), "{finished:?}");
}

#[tokio::test]
async fn the_environment_names_the_lock() {
    let server = TestServer::start().await;
    let script = "echo $ZKC_LOCK_PATH $ZKC_FENCING_TOKEN $ZKC_SESSION $ZK_CONNECT $ZKC_LOCK_NODE";
    let finished =
        run(&server.connect_string(), &["lock", "locks/a", "--", "sh", "-c", script]).await;
    let words: Vec<_> = finished.stdout.split_whitespace().collect();
    assert_eq!(words[0], "/locks/a");
    assert!(words[1].parse::<i64>().unwrap() > 0, "{words:?}");
    assert!(words[2].starts_with("0x"), "{words:?}");
    assert_eq!(words[3], server.connect_string());
    assert!(words[4].starts_with("/locks/a/_c_"), "{words:?}");
}

#[tokio::test]
async fn a_held_lock_is_not_obtained() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut holder = Running::start(&servers, &["lock", "/locks/a"]);
    let held = holder.line().await;
    assert!(held.starts_with("held /locks/a token=0x"), "{held}");

    let tried = run(&servers, &["lock", "/locks/a", "--try", "--", "true"]).await;
    assert_eq!(tried.code, Some(1), "{tried:?}");
    let waited = run(&servers, &["lock", "/locks/a", "--wait", "50ms", "--", "true"]).await;
    assert_eq!(waited.code, Some(124), "{waited:?}");

    holder.signal(Signal::SIGINT);
    assert_eq!(holder.finish().await.code, Some(0));
    let tried = run(&servers, &["lock", "/locks/a", "--try", "--", "true"]).await;
    assert_eq!(tried.code, Some(0), "{tried:?}");
}

#[tokio::test]
async fn two_commands_exclude_each_other() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let folder = Folder::new();
    let script = "mkdir critical && sleep 0.05 && rmdir critical";
    let start = || folder.start(&servers, &["lock", "/locks/a", "--", "sh", "-c", script]);
    let all: Vec<_> = (0..5).map(|_| start()).collect();
    for one in all {
        let finished = one.finish().await;
        assert_eq!(finished.code, Some(0), "{finished:?}");
    }
}

#[tokio::test]
async fn readers_share_and_a_writer_does_not() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut reader = Running::start(&servers, &["lock", "/locks/a", "--shared"]);
    reader.line().await;
    let second = run(&servers, &["lock", "/locks/a", "--shared", "--try", "--", "true"]).await;
    assert_eq!(second.code, Some(0), "{second:?}");
    let writer = run(&servers, &["lock", "/locks/a", "--exclusive", "--try", "--", "true"]).await;
    assert_eq!(writer.code, Some(1), "{writer:?}");
}

#[tokio::test]
async fn a_semaphore_has_so_many_leases() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut one = Running::start(&servers, &["lock", "/locks/a", "-n", "2"]);
    let mut two = Running::start(&servers, &["lock", "/locks/a", "-n", "2"]);
    one.line().await;
    two.line().await;
    let third = run(&servers, &["lock", "/locks/a", "-n", "2", "--try", "--", "true"]).await;
    assert_eq!(third.code, Some(1), "{third:?}");
    let asked = run(&servers, &["-o", "name", "revoke", "/locks/a"]).await;
    assert_eq!(asked.stdout.lines().count(), 2, "{asked:?}");
    assert_eq!(one.finish().await.code, Some(123));
    assert_eq!(two.finish().await.code, Some(123));
}

#[tokio::test]
async fn the_label_is_in_the_node_without_arguments() {
    let server = TestServer::start().await;
    let script = "zkc get $ZKC_LOCK_NODE";
    let arguments = ["lock", "/locks/a", "--", "sh", "-c", script, "secret"];
    let finished = run(&server.connect_string(), &arguments).await;
    assert!(finished.stdout.contains('@') && finished.stdout.contains(" sh"), "{finished:?}");
    assert!(!finished.stdout.contains("secret"), "{finished:?}");
    let arguments = ["lock", "/locks/a", "--label", "me", "--", "sh", "-c", script];
    let finished = run(&server.connect_string(), &arguments).await;
    assert_eq!(finished.stdout, "me\n");
}

#[tokio::test]
async fn a_fenced_write_needs_the_lock() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let script = "trap '' TERM; zkc set --create /state old; zkc set --fenced /state new; \
                  zkc --yes break /locks/a --token $ZKC_FENCING_TOKEN; \
                  zkc set --fenced /state bad; echo $? >&2";
    let finished = run(&servers, &["lock", "/locks/a", "--", "sh", "-c", script]).await;
    assert_eq!(finished.code, Some(123), "{finished:?}");
    assert!(finished.stderr.contains("no longer held"), "{finished:?}");
    assert!(finished.stderr.lines().any(|line| line == "6"), "{finished:?}");
    assert_eq!(&*server.probe().data("/state").unwrap(), b"new");
}

#[tokio::test]
async fn a_revoked_command_is_stopped_and_acknowledged() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let script = "trap 'zkc get $ZKC_LOCK_NODE; exit 0' TERM; echo ready; \
                  while :; do sleep 0.01; done";
    let arguments = ["lock", "/locks/a", "--on-lost", "echo lost", "--", "sh", "-c", script];
    let mut holder = Running::start(&servers, &arguments);
    assert_eq!(holder.line().await, "ready");
    let dry = run(&servers, &["revoke", "/locks/a", "--dry-run", "-o", "name"]).await;
    assert!(dry.stdout.starts_with("/locks/a/_c_"), "{dry:?}");
    let asked = run(&servers, &["revoke", "/locks/a"]).await;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let finished = holder.finish().await;
    assert_eq!(finished.code, Some(123), "{finished:?}");
    assert!(["unlocking\nlost\n", "__REVOKE__\nlost\n"].contains(&&*finished.stdout));
    assert_eq!(run(&servers, &["revoke", "/locks/a"]).await.code, Some(1));
}

#[tokio::test]
async fn a_revoke_can_be_ignored() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let script = "zkc revoke /locks/a >/dev/null; sleep 0.1; exit 3";
    let arguments = ["lock", "/locks/a", "--on-revoke", "ignore", "--", "sh", "-c", script];
    let finished = run(&servers, &arguments).await;
    assert_eq!(finished.code, Some(3), "{finished:?}");
}

#[tokio::test]
async fn break_takes_the_lock_from_this_holder_only() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut holder = Running::start(&servers, &["lock", "/locks/a"]);
    let held = holder.line().await;
    let token = held.split_once("token=").unwrap().1;

    let refused = run(&servers, &["--yes", "break", "/locks/a", "--token", "0x1"]).await;
    assert_eq!(refused.code, Some(6), "{refused:?}");
    let arguments = ["--yes", "break", "/locks/a", "--token", token, "--if-session", "0x1"];
    assert_eq!(run(&servers, &arguments).await.code, Some(6));
    let unsure = run(&servers, &["break", "/locks/a", "--token", token]).await;
    assert_eq!(unsure.code, Some(2), "{unsure:?}");
    let dry = run(&servers, &["break", "/locks/a", "--token", token, "--dry-run"]).await;
    assert!(dry.stdout.starts_with("delete /locks/a/_c_"), "{dry:?}");

    let broken = run(&servers, &["--yes", "break", "/locks/a", "--token", token]).await;
    assert_eq!(broken.code, Some(0), "{broken:?}");
    let finished = holder.finish().await;
    assert_eq!(finished.code, Some(123), "{finished:?}");
    let again = run(&servers, &["--yes", "break", "/locks/a", "--token", token]).await;
    assert_eq!(again.code, Some(6), "{again:?}");
}

#[tokio::test]
async fn a_holder_is_shown_as_json() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut holder = Running::start(&servers, &["-o", "jsonl", "lock", "/locks/a"]);
    let held: serde_json::Value = serde_json::from_str(&holder.line().await).unwrap();
    assert_eq!(held["path"], "/locks/a");
    assert!(held["token"].as_str().unwrap().starts_with("0x"));
}

#[tokio::test]
async fn a_shell_continues_after_a_lock() {
    let server = TestServer::start().await;
    let folder = Folder::new();
    let script = folder.file("script");
    std::fs::write(&script, "lock /locks/a -- true\nls /locks\n").unwrap();
    let finished = run(&server.connect_string(), &["shell", "-f", &script]).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout, "a\n");
}

#[tokio::test]
async fn only_nodes_of_locks_are_revoked_and_broken() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let create = ["create", "-p", "-S", "/queue/queue-", "item"];
    let created = run(&servers, &create).await;
    assert_eq!(created.code, Some(0), "{created:?}");
    let item = created.stdout.trim();
    assert_eq!(run(&servers, &["revoke", "/queue"]).await.code, Some(1));
    assert_eq!(run(&servers, &["revoke", item]).await.code, Some(1));
    let token = format!("{:#x}", server.probe().stat(item).unwrap().czxid);
    let broken = run(&servers, &["--yes", "break", "/queue", "--token", &token]).await;
    assert_eq!(broken.code, Some(6), "{broken:?}");
    assert_eq!(&*server.probe().data(item).unwrap(), b"item");
}

#[tokio::test]
async fn a_waiter_is_asked_by_its_node() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut holder = Running::start(&servers, &["lock", "/locks/a"]);
    holder.line().await;
    let waiter = Running::start(&servers, &["lock", "/locks/a", "--", "true"]);
    let probe = server.until(|probe| probe.children("/locks/a").len() == 2).await;
    let names = probe.children("/locks/a");
    let last = names.iter().max_by_key(|name| &name[name.len() - 10..]).unwrap();
    let node = format!("/locks/a/{last}");
    let asked = run(&servers, &["-o", "name", "revoke", &node]).await;
    assert_eq!(asked.stdout.trim(), node, "{asked:?}");
    assert_eq!(&*server.probe().data(&node).unwrap(), b"__REVOKE__");
    drop(waiter);
}
