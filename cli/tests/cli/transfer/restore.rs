use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use zk_curator::{Acl, CreateMode, Permissions};
use zk_curator_testing::{ErrorCode, OpCode, TestServer, Verdict};

use super::{Scratch, assert_equal, command, connected, create, fill, zkc};

#[tokio::test(flavor = "multi_thread")]
async fn a_round_trip_is_the_identity() {
    let (server, other, scratch) =
        (TestServer::start().await, TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a", "text\n\u{1f600}"), ("/a/b c", ""), ("/a/b c/{}", "x")]).await;
    zk.create("/a/binary").data(vec![0xff, 0, 0x1b]).await.unwrap();
    let acl = vec![
        Acl::new(Permissions::READ | Permissions::ADMIN, "world", "anyone"),
        Acl::new(Permissions::ALL, "digest", "ann:CxlmTZ5bgVqlaHVwIwd2CRCEwmM="),
        Acl::new(Permissions::WRITE, "ip", "127.0.0.1"),
    ];
    zk.create("/a/acl").acl(acl).await.unwrap();
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    let ran = zkc(&other, &["restore", &file]).await.code(0);
    assert_eq!(ran.stderr, "+ 5  ~ 0  = 0  - 0  ! 0 ephemeral\n");
    assert_equal((&server, "/a"), (&other, "/a"));
    assert_eq!(other.probe().requests(OpCode::Multi), 1, "all or nothing");
    zkc(&other, &["import", &file]).await.code(0).prints("nothing to do").says("= 5");
    zkc(&other, &["restore", &file, "--root", "/x/y"]).await.code(0).says("+ 6");
    assert_equal((&server, "/a"), (&other, "/x/y"));
    zkc(&other, &["diff", &file, "/x/y"]).await.code(0);
}

/// Written by hand: a live server does not tell these kinds.
const KINDS: &str = include_str!("kinds.zkb");

#[tokio::test(flavor = "multi_thread")]
async fn containers_and_times_to_live_are_restored() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let file = scratch.file();
    std::fs::write(&file, KINDS).unwrap();
    zkc(&server, &["restore", &file, "--containers", "/k/also"]).await.code(0).says("+ 4");
    let probe = server.probe();
    assert!(probe.is_container("/k/container") && probe.is_container("/k/also"));
    assert!(!probe.is_container("/k"));
    assert_eq!(probe.ttl("/k/ttl"), Some(Duration::from_secs(60)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_changes_nothing() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let file = scratch.file();
    let cut = KINDS.rfind("{\"nodes\"").unwrap();
    let cases = [
        (KINDS[..cut].to_owned(), "line 6: truncated"),
        (KINDS[..cut - 9].to_owned(), "line 5: truncated"),
        (KINDS.replacen("60000", "60001", 1), "line 6: the checksum differs"),
        ("hello\n".to_owned(), "line 1: not a backup of zkc"),
    ];
    for (text, expected) in cases {
        std::fs::write(&file, text).unwrap();
        zkc(&server, &["restore", &file]).await.code(2).says(expected);
    }
    let zk = connected(&server).await;
    fill(&zk, "/a", 1, 100).await;
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 10);
    std::fs::write(&file, &bytes).unwrap();
    zkc(&server, &["restore", &file, "--root", "/x"]).await.code(2).says("truncated");
    assert!(!server.probe().exists("/x") && !server.probe().exists("/k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_are_treated_as_asked() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a", "1"), ("/a/b", "2"), ("/a/c", "3")]).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    let data = |path: &str| String::from_utf8(server.probe().data(path).unwrap().to_vec()).unwrap();
    zk.set_data("/a/b", "other").await.unwrap();
    let closed = Permissions::READ | Permissions::WRITE | Permissions::ADMIN;
    zk.set_acl("/a/b", vec![Acl::new(closed, "world", "anyone")]).await.unwrap();
    zk.delete("/a/c").await.unwrap();
    let ran = zkc(&server, &["restore", &file]).await.code(6).says("differs: /a/b");
    assert!(ran.stderr.contains("conflict: 1 nodes exist and differ"), "{ran:?}");
    assert!(!server.probe().exists("/a/c"));
    zkc(&server, &["restore", &file, "--dry-run"]).await.code(6).prints("+ 1  ~ 0  = 1  - 0");
    let older = ["restore", &file, "--on-conflict", "if-older", "--dry-run"];
    zkc(&server, &older).await.code(0).prints("1 kept");
    zkc(&server, &["restore", &file, "--on-conflict", "keep"]).await.code(0);
    assert_eq!((data("/a/b"), data("/a/c")), ("other".to_owned(), "3".to_owned()));
    let replace = ["restore", &file, "--on-conflict", "replace", "-o", "json"];
    let ran = zkc(&server, &replace).await.code(0);
    assert_eq!(ran.json()["replace"], 1);
    assert_eq!(data("/a/b"), "2");
    assert_eq!(server.probe().acl("/a/b"), Acl::open_unsafe());
    zkc(&server, &replace).await.code(0).says("= 3");
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_file_are_restored() {
    let (server, other, scratch) =
        (TestServer::start().await, TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a", "1"), ("/a/b", "2"), ("/a/b/c.json", "3"), ("/a/d", "4")]).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    zkc(&other, &["restore", &file, "--only", "*.json"]).await.code(0).says("+ 3");
    assert_eq!(other.probe().paths(), ["/a", "/a/b", "/a/b/c.json"]);
    assert_eq!(other.probe().data("/a/b").as_deref(), Some(&b"2"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_the_file_lacks_are_deleted_on_request() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a/b", "")]).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    create(&zk, &[("/a/x/y", ""), ("/a/live/z", ""), ("/ab", "")]).await;
    zk.create("/a/live/e").mode(CreateMode::Ephemeral).await.unwrap();
    let delete = ["restore", &file, "--delete-extra"];
    zkc(&server, &delete).await.code(2).says("delete 3 nodes below /a?");
    assert!(server.probe().exists("/a/x/y"));
    zkc(&server, &[&delete[..], &["--yes"]].concat()).await.code(0).says("- 3");
    assert_eq!(server.probe().paths(), ["/a", "/a/b", "/a/live", "/a/live/e", "/ab"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn additional_nodes_stay_above_those_that_do_not_match() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a/b", "")]).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    create(&zk, &[("/a/x/y", ""), ("/a/z", "")]).await;
    let delete = ["restore", &file, "--only", "/a/*", "--delete-extra", "-y"];
    zkc(&server, &delete).await.code(0).says("- 1");
    assert_eq!(server.probe().children("/a"), ["b", "x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn additional_nodes_stay_above_what_may_not_be_read() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a/b", "")]).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    create(&zk, &[("/a/x/closed", ""), ("/a/x/closed/below", ""), ("/a/y/z", "")]).await;
    zk.set_acl("/a/x/closed", vec![Acl::new(Permissions::ADMIN, "world", "anyone")]).await.unwrap();
    let delete = ["restore", &file, "--delete-extra", "-y"];
    let dry = [&delete[..], &["--dry-run"]].concat();
    zkc(&server, &dry).await.code(8).says("no permission: /a/x/closed").prints("- 2");
    zkc(&server, &delete).await.code(8).says("no permission: /a/x/closed").says("- 2");
    assert_eq!(server.probe().children("/a"), ["b", "x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_restore_is_completed() {
    let (server, other, scratch) =
        (TestServer::start().await, TestServer::start().await, Scratch::new());
    fill(&connected(&server).await, "/a", 30, 100).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    let multis = std::sync::atomic::AtomicU32::new(0);
    let rule = other.rule(move |request| {
        let fails = request.is(OpCode::Multi)
            && multis.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 2;
        if fails { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
    });
    let ran = zkc(&other, &["restore", &file]).await.code(8);
    assert!(ran.stderr.contains("done in part: 2000 changes"), "{ran:?}");
    drop(rule);
    let ran = zkc(&other, &["restore", &file]).await.code(0);
    assert!(ran.stderr.contains("+ 1031  ~ 0  = 2000"), "{ran:?}");
    assert_equal((&server, "/a"), (&other, "/a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_responses_do_not_stop_a_restore() {
    for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
        let (server, other, scratch) =
            (TestServer::start().await, TestServer::start().await, Scratch::new());
        fill(&connected(&server).await, "/a", 15, 100).await;
        let file = scratch.file();
        zkc(&server, &["backup", "/a", &file]).await.code(0);
        let lost = std::sync::atomic::AtomicU32::new(0);
        let _rule = other.rule(move |request| {
            let is_lost = request.is(OpCode::Multi)
                && lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2;
            if is_lost { verdict } else { Verdict::Pass }
        });
        zkc(&other, &["restore", &file]).await.code(0);
        assert_equal((&server, "/a"), (&other, "/a"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_needs_few_requests() {
    const NODES: u64 = 40 * 101 + 1;
    let (server, other, scratch) =
        (TestServer::start().await, TestServer::start().await, Scratch::new());
    fill(&connected(&server).await, "/a", 40, 100).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    zkc(&other, &["restore", &file]).await.code(0);
    let requests = other.probe().total_requests();
    assert!(requests <= NODES / 200, "{requests} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn ephemeral_nodes_are_left_out_unless_asked_for() {
    let (server, other, scratch) =
        (TestServer::start().await, TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    // With a persistent sibling, it is no member of a group.
    create(&zk, &[("/a", ""), ("/a/p", "")]).await;
    zk.create("/a/e").mode(CreateMode::Ephemeral).data("held").await.unwrap();
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    zkc(&other, &["restore", &file]).await.code(0).says("! 1 ephemeral");
    assert!(!other.probe().exists("/a/e"));
    let persistent = ["restore", &file, "--ephemerals", "persistent", "--root", "/b"];
    zkc(&other, &persistent).await.code(0);
    assert_eq!(other.probe().stat("/b/e").unwrap().ephemeral_owner, 0);
    let own = ["restore", &file, "--ephemerals", "own", "--root", "/c"];
    let mut command = command(&other.connect_string(), &own);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let holds = move || lines.any(|line| line.unwrap().contains("until Ctrl-C"));
    assert!(tokio::task::spawn_blocking(holds).await.unwrap());
    let probe = other.probe();
    assert_ne!(probe.stat("/c/e").unwrap().ephemeral_owner, 0);
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!(ended.code(), Some(0));
    assert!(!other.probe().exists("/c/e"));
}

/// As the guide says: a signal has its own code, whatever was done before it.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_restore_which_is_then_completed() {
    let (server, other, scratch) =
        (TestServer::start().await, TestServer::start().await, Scratch::new());
    fill(&connected(&server).await, "/a", 15, 100).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    let multis = std::sync::atomic::AtomicU32::new(0);
    let rule = other.rule(move |request| {
        let is_second = request.is(OpCode::Multi)
            && multis.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1;
        if is_second { Verdict::Delay(Duration::from_secs(600)) } else { Verdict::Pass }
    });
    let mut command = command(&other.connect_string(), &["restore", &file]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    rule.fired().await;
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(2), "130 in a shell");
    assert!(!other.probe().paths().is_empty());
    rule.end();
    zkc(&other, &["restore", &file]).await.code(0);
    assert_equal((&server, "/a"), (&other, "/a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_context_refuses_changes() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let file = scratch.file();
    std::fs::write(&file, KINDS).unwrap();
    zkc(&server, &["restore", &file, "--read-only"]).await.code(5).says("read-only");
    zkc(&server, &["restore", &file, "--read-only", "--dry-run"]).await.code(0).prints("+ 4");
    zkc(&server, &["restore", &file, "--root", "/zookeeper/x"]).await.code(2).says("refused");
    zkc(&server, &["restore", "/none.zkb"]).await.code(2).says("/none.zkb");
    assert!(server.probe().paths().is_empty());
}
