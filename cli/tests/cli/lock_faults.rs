//! `zkc lock` when the lock is lost, and without a connection.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, timeout};
use zk_curator_testing::{FaultProxy, Flow, TestServer};

use crate::running::{Folder, LIMIT, Running, file_with, gone};

/// A command that does not end with TERM.
const STUBBORN: &str = "trap 'echo TERM' TERM; echo ready; while :; do sleep 0.01; done";

async fn holder_of(server: &TestServer) -> i64 {
    server.until(|probe| !probe.children("/locks/a").is_empty()).await.sessions()[0].id
}

#[tokio::test]
async fn an_expired_session_stops_the_command() {
    let server = TestServer::start().await;
    let folder = Folder::new();
    let on_lost = "echo $ZKC_LOCK_PATH > lost";
    let arguments =
        ["lock", "/locks/a", "--grace", "2s", "--on-lost", on_lost, "--", "sh", "-c", STUBBORN];
    let mut holder = folder.start(&server.connect_string(), &arguments);
    assert_eq!(holder.line().await, "ready");
    let session = holder_of(&server).await;
    server.expire(session).await;
    assert_eq!(holder.line().await, "TERM");
    let finished = holder.finish().await;
    assert_eq!(finished.code, Some(123), "{finished:?}");
    assert_eq!(file_with(&folder.file("lost"), "\n").await, "/locks/a\n");
    assert!(finished.stderr.contains("the lock is lost"), "{finished:?}");
}

#[tokio::test]
async fn a_deleted_node_stops_the_command() {
    let server = TestServer::start().await;
    let arguments = ["lock", "/locks/a", "--grace", "5s", "--", "sh", "-c", "echo ready; sleep 60"];
    let mut holder = Running::start(&server.connect_string(), &arguments);
    assert_eq!(holder.line().await, "ready");
    let probe = server.until(|probe| !probe.children("/locks/a").is_empty()).await;
    let node = format!("/locks/a/{}", probe.children("/locks/a")[0]);
    server.remove(&node).unwrap();
    let finished = holder.finish().await;
    assert_eq!(finished.code, Some(123), "{finished:?}");
}

#[tokio::test]
async fn without_a_connection_the_command_is_dead_in_time() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let folder = Folder::new();
    let script =
        "trap 'echo TERM' TERM; echo ready; while :; do date +%s%N >> log; sleep 0.005; done";
    let options = ["--session-timeout", "6s", "--grace", "3s"];
    let arguments = [&["lock", "/locks/a"], &options[..], &["--", "sh", "-c", script]].concat();
    let proxy = FaultProxy::start(&[server.addr().unwrap()]).await.unwrap();
    let mut holder = folder.start(&proxy.connect_string(), &arguments);
    assert_eq!(holder.line().await, "ready");
    let script = "date +%s%N > next; tail -n 1 log >> next";
    let waiter = folder.start(&servers, &["lock", "/locks/a", "--", "sh", "-c", script]);
    server.until(|probe| probe.children("/locks/a").len() == 2).await;
    proxy.requests(Flow::Lost);
    assert_eq!(holder.line().await, "TERM");
    let finished = holder.finish().await;
    assert_eq!(finished.code, Some(123), "{finished:?}");
    assert_eq!(waiter.finish().await.code, Some(0));
    let times = file_with(&folder.file("next"), "\n").await;
    let times: Vec<u128> = times.lines().map(|line| line.parse().unwrap()).collect();
    assert!(times[1] < times[0], "the command has run under the lock of another one: {times:?}");
}

#[tokio::test]
async fn a_short_outage_does_not_stop_the_command() {
    let server = TestServer::start().await;
    let folder = Folder::new();
    let script = "echo ready; until [ -e end ]; do sleep 0.01; done; exit 6";
    let arguments = ["lock", "/locks/a", "--", "sh", "-c", script];
    let mut holder = folder.start(&server.connect_string(), &arguments);
    assert_eq!(holder.line().await, "ready");
    let session = holder_of(&server).await;
    server.disconnect_all();
    server.until(|probe| probe.session(session).is_some_and(|session| session.connected)).await;
    std::fs::write(folder.file("end"), "").unwrap();
    let finished = holder.finish().await;
    assert_eq!(finished.code, Some(6), "{finished:?}");
}

#[tokio::test]
async fn on_suspend_stop_stops_at_once() {
    let server = TestServer::start().await;
    let arguments =
        ["lock", "/locks/a", "--on-suspend", "stop", "--", "sh", "-c", "echo ready; sleep 60"];
    let mut holder = Running::start(&server.connect_string(), &arguments);
    assert_eq!(holder.line().await, "ready");
    let begin = Instant::now();
    server.stop().await;
    let status = timeout(LIMIT, holder.ended()).await.unwrap();
    assert_eq!(status.code(), Some(123));
    // `--on-suspend guard` would let the command run for 30 s. The close waits for a server.
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn on_suspend_ignore_continues_until_the_loss() {
    let server = TestServer::start().await;
    let folder = Folder::new();
    let script = "echo ready; until [ -e end ]; do sleep 0.01; done; exit 6";
    let arguments = ["lock", "/locks/a", "--on-suspend", "ignore", "--", "sh", "-c", script];
    let mut holder = folder.start(&server.connect_string(), &arguments);
    assert_eq!(holder.line().await, "ready");
    server.stop().await;
    std::fs::write(folder.file("end"), "").unwrap();
    assert_eq!(timeout(LIMIT, holder.ended()).await.unwrap().code(), Some(6));
}

#[tokio::test]
async fn the_deadline_descriptor_ends_with_the_lock() {
    let server = TestServer::start().await;
    let script = "trap '' TERM; echo ready; eval \"cat <&$ZKC_DEADLINE_FD\"; echo over; \
                  while :; do sleep 0.01; done";
    let arguments = ["lock", "/locks/a", "--grace", "2s", "--", "bash", "-c", script];
    let mut holder = Running::start(&server.connect_string(), &arguments);
    assert_eq!(holder.line().await, "ready");
    let session = holder_of(&server).await;
    server.expire(session).await;
    assert_eq!(holder.line().await, "over");
    assert_eq!(holder.finish().await.code, Some(123));
}

#[tokio::test]
async fn a_waiter_survives_an_outage() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut holder = Running::start(&servers, &["lock", "/locks/a"]);
    holder.line().await;
    let waiter = Running::start(
        &servers,
        &["--timeout", "2s", "lock", "/locks/a", "--", "sh", "-c", "exit 8"],
    );
    server.until(|probe| probe.children("/locks/a").len() == 2).await;
    server.disconnect_all();
    server
        .until(|probe| probe.sessions().iter().filter(|session| session.connected).count() == 2)
        .await;
    holder.signal(Signal::SIGINT);
    assert_eq!(holder.finish().await.code, Some(0));
    let finished = waiter.finish().await;
    assert_eq!(finished.code, Some(8), "{finished:?}");
}

#[tokio::test]
async fn a_stopped_zkc_does_not_let_two_commands_run() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    for policy in ["guard", "stop"] {
        let folder = Folder::new();
        let script =
            "trap 'echo TERM' TERM; echo ready; while :; do date +%s%N >> log; sleep 0.005; done";
        let options = ["--session-timeout", "6s", "--on-suspend", policy];
        let arguments = [&["lock", "/locks/a"], &options[..], &["--", "sh", "-c", script]].concat();
        let mut holder = folder.start(&servers, &arguments);
        assert_eq!(holder.line().await, "ready");
        let script = "date +%s%N > next; tail -n 1 log >> next";
        let waiter = folder.start(&servers, &["lock", "/locks/a", "--", "sh", "-c", script]);
        server.until(|probe| probe.children("/locks/a").len() == 2).await;
        holder.signal(Signal::SIGSTOP);
        assert_eq!(holder.line().await, "TERM");
        assert_eq!(waiter.finish().await.code, Some(0));
        let times = file_with(&folder.file("next"), "\n").await;
        let times: Vec<u128> = times.lines().map(|line| line.parse().unwrap()).collect();
        assert!(times[1] < times[0], "the command has run under the lock of another: {times:?}");
        holder.signal(Signal::SIGCONT);
        let finished = holder.finish().await;
        assert_eq!(finished.code, Some(123), "{finished:?}");
    }
}

/// The process that watches `zkc` has told the command to stop, although the lock is not lost.
#[tokio::test]
async fn a_zkc_that_continues_in_time_ends_with_the_stopped_command() {
    let server = TestServer::start().await;
    let script = "trap 'echo TERM; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let options = ["--session-timeout", "12s", "--grace", "4s"];
    let arguments = [&["lock", "/locks/a"], &options[..], &["--", "sh", "-c", script]].concat();
    let mut holder = Running::start(&server.connect_string(), &arguments);
    assert_eq!(holder.line().await, "ready");
    holder.signal(Signal::SIGSTOP);
    assert_eq!(holder.line().await, "TERM");
    assert_eq!(server.probe().children("/locks/a").len(), 1, "the lock is still held");
    holder.signal(Signal::SIGCONT);
    let finished = holder.finish().await;
    assert_eq!(finished.code, Some(123), "{finished:?}");
    assert!(finished.stderr.contains("zkc did not run"), "{finished:?}");
}

/// Only the loss ends the command then, so TERM comes when the lock can be lost.
#[tokio::test]
async fn stopped_zkc_ignoring_outages_stops_its_command_after_loss() {
    let server = TestServer::start().await;
    let options = ["--session-timeout", "3s", "--grace", "1s", "--on-suspend", "ignore"];
    let script = "trap 'echo TERM' TERM; echo $$; while :; do sleep 0.01; done";
    let arguments = [&["lock", "/locks/a"], &options[..], &["--", "sh", "-c", script]].concat();
    let mut holder = Running::start(&server.connect_string(), &arguments);
    let command = holder.line().await;
    holder.signal(Signal::SIGSTOP);
    assert_eq!(holder.line().await, "TERM");
    gone(&command).await;
    holder.signal(Signal::SIGCONT);
    assert_eq!(holder.finish().await.code, Some(123));
}

/// A membership that outlasts its session has no time at which its command must end.
#[tokio::test]
async fn a_stopped_member_that_rejoins_keeps_its_command() {
    let server = TestServer::start().await;
    let script = "trap 'echo TERM' TERM; echo ready; until [ -e end ]; do sleep 0.01; done; exit 6";
    let options = ["--session-timeout", "3s", "group", "join", "/g", "a", "--rejoin"];
    let folder = Folder::new();
    let arguments = [&options[..], &["--", "sh", "-c", script]].concat();
    let mut member = folder.start(&server.connect_string(), &arguments);
    assert_eq!(member.line().await, "ready");
    member.signal(Signal::SIGSTOP);
    server.until(|probe| probe.children("/g").is_empty()).await;
    member.signal(Signal::SIGCONT);
    server.until(|probe| !probe.children("/g").is_empty()).await;
    std::fs::write(folder.file("end"), "").unwrap();
    let finished = member.finish().await;
    assert_eq!((finished.code, &*finished.stdout), (Some(6), ""), "{finished:?}");
}
