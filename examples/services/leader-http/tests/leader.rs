//! One process leads, even if others are killed.

use services_support::{Service, get};
use zk_curator_testing::{Probe, TestServer};

const PROGRAM: &str = env!("CARGO_BIN_EXE_leader-http");
const ELECTION: &str = "/shop/leaders/orders";

fn candidates(probe: &Probe) -> usize {
    probe.children(ELECTION).len()
}

/// Waits until a process reports that it leads.
async fn leads(address: &str, server: &TestServer) -> bool {
    // Its node is first, so it learns that within a round trip; asking again is enough.
    server.until(|probe| candidates(probe) > 0).await;
    for _ in 0..1_000 {
        if get(address, "/leader").await.1.contains("\"leads\":true") {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn another_process_takes_over_from_a_killed_or_stopped_one() {
    let server = TestServer::start().await;
    let mut first = Service::start(PROGRAM, &server, &[]);
    let first_address = first.line("listening on ").await;
    server.until(|probe| candidates(probe) == 1).await;
    let mut second = Service::start(PROGRAM, &server, &[]);
    let second_address = second.line("listening on ").await;
    server.until(|probe| candidates(probe) == 2).await;
    assert!(leads(&first_address, &server).await);
    assert!(get(&second_address, "/leader").await.1.contains("\"leads\":false"));
    let (status, health) = get(&second_address, "/healthz").await;
    assert_eq!(status, 200, "{health}");
    assert!(health.contains("\"state\":\"connected\""), "{health}");

    // Its session expires, and its node is deleted.
    first.kill().await;
    server.until(|probe| candidates(probe) == 1).await;
    assert!(leads(&second_address, &server).await);

    // It leaves the election by itself, before its session expires.
    let mut third = Service::start(PROGRAM, &server, &[]);
    let third_address = third.line("listening on ").await;
    server.until(|probe| candidates(probe) == 2).await;
    second.signal("TERM").await;
    assert!(second.ended().await.success());
    assert_eq!(candidates(&server.probe()), 1, "{}", server.probe());
    assert!(leads(&third_address, &server).await);
}

#[tokio::test]
async fn it_answers_without_zookeeper_and_says_so() {
    let server = TestServer::start().await;
    server.stop().await;
    let mut service = Service::start(PROGRAM, &server, &[]);
    let address = service.line("listening on ").await;
    let (status, health) = get(&address, "/healthz").await;
    assert_eq!(status, 503, "{health}");
    assert!(health.contains("\"state\":\"connecting\""), "{health}");
    server.restart().await.expect("its port is free");
    server.until(|probe| candidates(probe) == 1).await;
    assert!(leads(&address, &server).await);
    assert_eq!(get(&address, "/healthz").await.0, 200);
}
