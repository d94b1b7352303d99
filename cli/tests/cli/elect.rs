//! `zkc elect`.

use nix::sys::signal::Signal;
use zk_curator_testing::TestServer;

use crate::running::{Running, run};

#[tokio::test]
async fn one_term_ends_with_the_code_of_the_command() {
    let server = TestServer::start().await;
    let arguments = ["elect", "/e", "--id", "a", "--once", "--", "sh", "-c", "exit 7"];
    let finished = run(&server.connect_string(), &arguments).await;
    assert_eq!(finished.code, Some(7), "{finished:?}");
    assert!(server.probe().children("/e").is_empty(), "{}", server.probe());
}

#[tokio::test]
async fn candidates_follow_each_other_and_are_observed() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut observer = Running::start(&servers, &["elect", "/e", "--observe"]);
    assert_eq!(observer.line().await, "none");
    let script = "trap 'exit 3' TERM; echo leads; while :; do sleep 0.01; done";
    let start =
        |id| Running::start(&servers, &["elect", "/e", "--id", id, "--", "sh", "-c", script]);
    let mut one = start("one");
    assert_eq!(one.line().await, "leads");
    let line = observer.line().await;
    assert!(line.starts_with("leader\tone\t0x"), "{line}");

    let mut two = start("two");
    server.until(|probe| probe.children("/e").len() == 2).await;
    one.signal(Signal::SIGTERM);
    let finished = one.finish().await;
    assert_eq!(finished.code, Some(3), "{finished:?}");
    assert_eq!(two.line().await, "leads");
    let line = observer.line().await;
    assert!(line.starts_with("leader\ttwo\t0x"), "{line}");
    observer.signal(Signal::SIGINT);
    assert_eq!(observer.finish().await.code, Some(0));
}

#[tokio::test]
async fn a_candidate_joins_again() {
    let server = TestServer::start().await;
    let arguments = ["elect", "/e", "--id", "a", "--", "sh", "-c", "echo leads"];
    let mut candidate = Running::start(&server.connect_string(), &arguments);
    assert_eq!(candidate.line().await, "leads");
    assert_eq!(candidate.line().await, "leads");
}

#[tokio::test]
async fn a_lost_leadership_stops_the_command() {
    let server = TestServer::start().await;
    let script = "echo leads; sleep 60";
    let arguments =
        ["elect", "/e", "--id", "a", "--once", "--on-lost", "echo lost", "--", "sh", "-c", script];
    let mut candidate = Running::start(&server.connect_string(), &arguments);
    assert_eq!(candidate.line().await, "leads");
    let session = server.probe().sessions()[0].id;
    server.expire(session).await;
    let finished = candidate.finish().await;
    assert_eq!(finished.code, Some(123), "{finished:?}");
    assert_eq!(finished.stdout, "lost\n");
}

#[tokio::test]
async fn a_waiting_candidate_can_be_interrupted() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let arguments = ["elect", "/e", "--id", "a", "--", "sh", "-c", "echo leads; sleep 60"];
    let mut leader = Running::start(&servers, &arguments);
    leader.line().await;
    let waiter = Running::start(&servers, &["elect", "/e", "--id", "b", "--", "true"]);
    server.until(|probe| probe.children("/e").len() == 2).await;
    waiter.signal(Signal::SIGINT);
    assert_eq!(waiter.finish().await.code, Some(130));
    assert_eq!(server.probe().children("/e").len(), 1, "{}", server.probe());
}

#[tokio::test]
async fn a_candidate_needs_an_id_and_a_command() {
    for arguments in [&["elect", "/e", "--", "true"][..], &["elect", "/e", "--id", "a"]] {
        let finished = run("127.0.0.1:1", arguments).await;
        assert_eq!(finished.code, Some(2), "{finished:?}");
    }
}

#[tokio::test]
async fn leaders_are_observed_as_json() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut observer = Running::start(&servers, &["-o", "jsonl", "elect", "/e", "--observe"]);
    assert_eq!(observer.line().await, "{\"leader\":null}");
    let arguments = ["elect", "/e", "--id", "a", "--", "sleep", "60"];
    let _candidate = Running::start(&servers, &arguments);
    let leader: serde_json::Value = serde_json::from_str(&observer.line().await).unwrap();
    assert_eq!(leader["leader"], "a");
}
