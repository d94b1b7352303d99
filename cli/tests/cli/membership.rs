//! `zkc group join` and `zkc discover register`.

use nix::sys::signal::Signal;
use serde_json::Value;
use zk_curator_testing::{FaultProxy, Flow, Probe, TestServer};

use crate::running::{Finished, Folder, Running, file_with, run};

/// A command that ends with TERM, and says so.
const OBEDIENT: &str = "trap 'echo TERM; exit 9' TERM; echo ready; while :; do sleep 0.01; done";

const REGISTER: [&str; 7] = ["discover", "register", "orders", "--port", "80", "--id", "one"];

fn registered<'a>(options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [&REGISTER[..], options, &["--"], command].concat()
}

async fn started(servers: &str, arguments: &[&str]) -> Running {
    ready(Running::start(servers, arguments)).await
}

async fn ready(mut running: Running) -> Running {
    assert_eq!(running.line().await, "ready");
    running
}

fn watches(probe: &Probe, path: &str) -> usize {
    probe.watches().iter().filter(|watch| watch.path == path).count()
}

#[track_caller]
fn is_clean(server: &TestServer, finished: &Finished) {
    let probe = server.probe();
    assert!(probe.sessions().is_empty(), "{probe}{finished:?}");
    assert!(probe.children("/g").is_empty(), "{probe}");
    assert!(probe.children("/services/orders").is_empty(), "{probe}");
}

#[tokio::test]
async fn the_code_of_the_command_is_that_of_the_member() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    for (command, code) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["/nonexistent/command"], 127),
        (&["/"], 126),
    ] {
        for begin in [&["group", "join", "/g", "a", "--"][..], &registered(&[], &[])] {
            let finished = run(&servers, &[begin, command].concat()).await;
            assert_eq!(finished.code, Some(code), "{command:?}: {finished:?}");
            is_clean(&server, &finished);
        }
    }
}

#[tokio::test]
async fn a_failure_before_a_member_has_its_own_code() {
    for begin in [&["group", "join", "/g", "--"][..], &registered(&[], &[])] {
        let arguments = [&["--timeout", "200ms"], begin, &["true"]].concat();
        let finished = run("127.0.0.1:1", &arguments).await;
        assert_eq!(finished.code, Some(125), "{finished:?}");
    }
    let finished = run("127.0.0.1:1", &["group", "join", "/g", "a/b", "--", "true"]).await;
    assert_eq!(finished.code, Some(2), "{finished:?}");
}

#[tokio::test]
async fn a_command_runs_while_it_is_a_member() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let script = "zkc group ls $ZKC_GROUP -o name; zkc get $ZKC_MEMBER_NODE; echo $ZKC_SESSION";
    let arguments = ["group", "join", "/g", "a", "data", "--", "sh", "-c", script];
    let finished = run(&servers, &arguments).await;
    assert!(finished.stdout.starts_with("a\ndata\n0x"), "{finished:?}");
    let script = "zkc group ls /g -o name";
    let finished = run(&servers, &["group", "join", "/g", "--", "sh", "-c", script]).await;
    assert!(finished.stdout.trim().contains(':'), "{finished:?}");
}

#[tokio::test]
async fn a_command_runs_while_it_is_registered() {
    let server = TestServer::start().await;
    let script = "zkc discover show $ZKC_SERVICE -o jsonl; echo $ZKC_INSTANCE_ID; \
                  echo $ZKC_INSTANCE_NODE";
    let arguments = registered(&[], &["sh", "-c", script]);
    let finished = run(&server.connect_string(), &arguments).await;
    let lines: Vec<_> = finished.stdout.lines().collect();
    let shown: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!((&shown["id"], &shown["state"]), (&"one".into(), &"up".into()));
    assert_eq!(lines[1..], ["one", "/services/orders/one"]);
}

#[tokio::test]
async fn an_id_is_of_one_member_at_a_time() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let arguments = ["group", "join", "/g", "a", "--", "sh", "-c", OBEDIENT];
    let first = started(&servers, &arguments).await;
    let second = Running::start(&servers, &["group", "join", "/g", "a", "--", "echo", "second"]);
    server.until(|probe| watches(probe, "/g/a") > 1).await;
    let waiter = Running::start(&servers, &arguments);
    server.until(|probe| watches(probe, "/g/a") > 2).await;
    waiter.signal(Signal::SIGINT);
    assert_eq!(waiter.finish().await.code, Some(130));

    first.signal(Signal::SIGTERM);
    assert_eq!(first.finish().await.code, Some(9));
    let second = second.finish().await;
    assert_eq!((second.code, &*second.stdout), (Some(0), "second\n"));
    assert!(second.stderr.contains("another member"), "{second:?}");
    is_clean(&server, &second);
}

#[tokio::test]
async fn a_member_that_rejoins_says_that_its_id_is_taken() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let join = ["group", "join", "/g", "a"];
    let first = started(&servers, &[&join[..], &["--", "sh", "-c", OBEDIENT]].concat()).await;
    let second = Running::start(&servers, &[&join[..], &["--rejoin", "--", "true"]].concat());
    server.until(|probe| watches(probe, "/g/a") > 1).await;
    first.signal(Signal::SIGTERM);
    assert_eq!(first.finish().await.code, Some(9));
    let second = second.finish().await;
    assert_eq!(second.code, Some(0), "{second:?}");
    assert!(second.stderr.contains("another member has the id a"), "{second:?}");
    is_clean(&server, &second);
}

#[tokio::test]
async fn a_lost_session_stops_a_member() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let command = ["sh", "-c", OBEDIENT];
    let lost = ["--on-lost", "echo lost"];
    for arguments in [
        [&["group", "join", "/g", "a"], &lost[..], &["--"], &command].concat(),
        registered(&lost, &command),
    ] {
        let member = started(&servers, &arguments).await;
        server.expire(server.probe().sessions()[0].id).await;
        let finished = member.finish().await;
        assert_eq!(finished.code, Some(123), "{finished:?}");
        assert_eq!(finished.stdout, "TERM\nlost\n");
        is_clean(&server, &finished);
    }
}

#[tokio::test]
async fn a_deleted_node_stops_a_member() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let command = ["sh", "-c", OBEDIENT];
    for (arguments, node) in [
        ([&["group", "join", "/g", "a", "--"], &command[..]].concat(), "/g/a"),
        (registered(&[], &command), "/services/orders/one"),
    ] {
        let member = started(&servers, &arguments).await;
        server.until(|probe| watches(probe, node) > 0).await;
        server.remove(node).unwrap();
        let finished = member.finish().await;
        assert_eq!((finished.code, &*finished.stdout), (Some(123), "TERM\n"), "{finished:?}");
        is_clean(&server, &finished);
    }
}

#[tokio::test]
async fn another_process_with_the_id_stops_an_instance() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let old = started(&servers, &registered(&[], &["sh", "-c", OBEDIENT])).await;
    let new =
        started(&servers, &registered(&["--drain", "0s", "--yes"], &["sh", "-c", OBEDIENT])).await;
    let finished = old.finish().await;
    assert_eq!(finished.code, Some(123), "{finished:?}");
    assert!(server.probe().exists("/services/orders/one"));
    new.signal(Signal::SIGTERM);
    assert_eq!(new.finish().await.code, Some(9));
    is_clean(&server, &finished);
}

#[tokio::test]
async fn a_signal_ends_the_wait_for_an_id() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut first = Running::start(&servers, &["group", "join", "/g", "a"]);
    assert_eq!(first.line().await, "joined a");
    server.until(|probe| watches(probe, "/g/a") > 0).await;
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let second = Running::start(&servers, &["group", "join", "/g", "a"]);
        server.until(|probe| watches(probe, "/g/a") > 1).await;
        second.signal(signal);
        let finished = second.finish().await;
        assert_eq!((finished.code, &*finished.stdout), (Some(code), ""), "{finished:?}");
    }
    first.signal(Signal::SIGINT);
    let finished = first.finish().await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    is_clean(&server, &finished);
}

#[tokio::test]
async fn another_process_with_the_id_ends_a_registration() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut old = Running::start(&servers, &REGISTER);
    old.line().await;
    // Nobody has agreed to that.
    let refused = run(&servers, &REGISTER).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("pass --yes"), "{refused:?}");
    let refused = run(&servers, &registered(&[], &["true"])).await;
    assert_eq!(refused.code, Some(125), "{refused:?}");
    let mut new = Running::start(&servers, &[&REGISTER[..], &["--yes"]].concat());
    new.line().await;
    let finished = old.finish().await;
    assert_eq!(finished.code, Some(6), "{finished:?}");
    assert!(finished.stderr.starts_with("another process has registered"), "{finished:?}");
    assert!(server.probe().exists("/services/orders/one"));
    new.signal(Signal::SIGINT);
    assert_eq!(new.finish().await.code, Some(0));
    is_clean(&server, &finished);
}

#[tokio::test]
async fn without_a_connection_a_member_is_stopped_in_time() {
    let server = TestServer::start().await;
    let command = ["sh", "-c", OBEDIENT];
    for (arguments, node) in [
        ([&["group", "join", "/g", "a", "--"], &command[..]].concat(), "/g/a"),
        (registered(&[], &command), "/services/orders/one"),
    ] {
        let proxy = FaultProxy::start(&[server.addr().unwrap()]).await.unwrap();
        let arguments = [&["--session-timeout", "6s"], &arguments[..]].concat();
        let mut member = started(&proxy.connect_string(), &arguments).await;
        proxy.requests(Flow::Lost);
        assert_eq!(member.line().await, "TERM");
        assert!(server.probe().exists(node), "the command ran after its membership");
        let finished = member.finish().await;
        assert_eq!(finished.code, Some(123), "{finished:?}");
        assert!(finished.stderr.contains("certainly held for"), "{finished:?}");
        server.until(|probe| !probe.exists(node)).await;
    }
}

#[tokio::test]
async fn a_member_that_rejoins_survives_its_session() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let command = ["sh", "-c", OBEDIENT];
    for (arguments, node) in [
        ([&["group", "join", "/g", "a", "--rejoin", "--"], &command[..]].concat(), "/g/a"),
        (registered(&["--rejoin", "--drain", "0s"], &command), "/services/orders/one"),
    ] {
        let member = started(&servers, &arguments).await;
        let session = server.probe().sessions()[0].id;
        server.expire(session).await;
        let is_back = |owner: i64| owner != 0 && owner != session;
        server
            .until(|probe| probe.stat(node).is_some_and(|stat| is_back(stat.ephemeral_owner)))
            .await;
        member.signal(Signal::SIGTERM);
        let finished = member.finish().await;
        assert_eq!((finished.code, &*finished.stdout), (Some(9), "TERM\n"), "{finished:?}");
        is_clean(&server, &finished);
    }
}

#[tokio::test]
async fn an_instance_is_drained_before_its_command_ends() {
    let server = TestServer::start().await;
    let folder = Folder::new();
    let script = "trap 'zkc discover show orders -o jsonl > log; exit 4' TERM; echo ready; \
                  while :; do sleep 0.01; done";
    let arguments = registered(&["--drain", "60s"], &["sh", "-c", script]);
    let member = ready(folder.start(&server.connect_string(), &arguments)).await;
    member.signal(Signal::SIGTERM);
    let is_drained = |data: &[u8]| String::from_utf8_lossy(data).contains("\"enabled\":false");
    server
        .until(|probe| probe.data("/services/orders/one").is_some_and(|data| is_drained(&data)))
        .await;
    // The command runs on, until the second signal.
    member.signal(Signal::SIGTERM);
    let shown: Value = serde_json::from_str(&file_with(&folder.file("log"), "\n").await).unwrap();
    assert_eq!(shown["state"], "drained");
    let finished = member.finish().await;
    assert_eq!(finished.code, Some(4), "{finished:?}");
    is_clean(&server, &finished);
}

#[tokio::test]
async fn the_drain_time_ends_by_itself() {
    let server = TestServer::start().await;
    let arguments = registered(&["--drain", "50ms"], &["sh", "-c", OBEDIENT]);
    let member = started(&server.connect_string(), &arguments).await;
    member.signal(Signal::SIGTERM);
    let finished = member.finish().await;
    assert_eq!(finished.code, Some(9), "{finished:?}");
}
