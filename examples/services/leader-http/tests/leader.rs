//! One process leads, even if others are killed, and requests have an end in an outage.

use services_support::{PATIENCE, Response, Service, get, request};
use tokio::time::timeout;
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

/// Waits until a process reports that it can serve requests, and returns its health.
async fn becomes_ready(address: &str, server: &TestServer) -> String {
    // It learns that its nodes exist within a round trip.
    server.until(|probe| probe.data("/shop/orders").is_some()).await;
    let ready = async {
        loop {
            let (status, health) = get(address, "/ready").await;
            if status == 200 {
                return health;
            }
        }
    };
    timeout(PATIENCE, ready).await.expect("it is not ready")
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
    let health = becomes_ready(&second_address, &server).await;
    assert!(health.contains("\"state\":\"connected\""), "{health}");
    let (status, metrics) = get(&second_address, "/metrics").await;
    let connected = "zk_curator_connected{framework=\"orders\"} 1\n";
    assert!(status == 200 && metrics.contains(connected), "{metrics}");

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
async fn it_serves_without_zookeeper_and_reports_it() {
    let server = TestServer::start().await;
    server.stop().await;
    let mut service = Service::start(PROGRAM, &server, &[]);
    let address = service.line("listening on ").await;
    let (status, health) = get(&address, "/ready").await;
    assert_eq!(status, 503, "{health}");
    assert!(health.contains("\"state\":\"connecting\""), "{health}");
    assert_eq!(get(&address, "/live").await.0, 200);
    server.restart().await.expect("its port is free");
    server.until(|probe| candidates(probe) == 1).await;
    assert!(leads(&address, &server).await);
    becomes_ready(&address, &server).await;
}

#[tokio::test]
async fn requests_are_refused_in_an_outage_and_repeated_after_it() {
    let server = TestServer::start().await;
    let mut service = Service::start(PROGRAM, &server, &[]);
    let address = service.line("listening on ").await;
    becomes_ready(&address, &server).await;
    let post = async |id: &str, order: &str| {
        request(&address, "POST", &format!("/orders/{id}"), order).await
    };
    assert_eq!(post("1", "tea").await.status, 201);
    assert_eq!(post("a%2Fb", "tea").await.status, 400);

    server.stop().await;
    // The deadline of the request ends it, also if the session is lost at that time. After the
    // connection timeout, the reason would be a connection loss.
    let Response { status, headers, body } = post("2", "tea").await;
    assert_eq!(status, 503, "{body}");
    assert!(headers.contains("\r\nretry-after: 2"), "{headers}");
    let reasons = ["operation timeout", "session expired"];
    assert!(reasons.iter().any(|reason| body.contains(reason)), "{body}");
    // Once the outage is known to be longer, requests do not wait. The process may have noticed it
    // after the first request had begun.
    let refused = async {
        loop {
            let Response { status, headers, body } = post("2", "tea").await;
            assert_eq!(status, 503, "{body}");
            assert!(headers.contains("\r\nretry-after: 2"), "{headers}");
            if body.contains("no server") {
                return;
            }
        }
    };
    timeout(PATIENCE, refused).await.expect("requests wait in a long outage");
    assert_eq!((get(&address, "/live").await.0, get(&address, "/ready").await.0), (200, 503));

    server.restart().await.expect("its port is free");
    becomes_ready(&address, &server).await;
    assert_eq!(post("2", "tea").await.status, 201);
    // The client has got no response, and sends the order again.
    assert_eq!(post("2", "tea").await.status, 201);
    assert_eq!(post("2", "coffee").await.status, 409);
    assert_eq!(server.probe().data("/shop/orders/2").as_deref(), Some(&b"tea"[..]));
}

/// The session cannot be closed, which is not an error of the process.
#[tokio::test]
async fn it_ends_in_an_outage() {
    let server = TestServer::start().await;
    let mut service = Service::start(PROGRAM, &server, &[]);
    let address = service.line("listening on ").await;
    assert!(leads(&address, &server).await);
    server.stop().await;
    service.signal("TERM").await;
    assert!(service.ended().await.success());
}
