//! The ends of a client.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    Network, TIMEOUT, assert_about, builder, connected, create, cut, history, id, on_network, open,
    simulated, simulated_with,
};
use tokio::time::Instant;
use zk_curator_client::{
    Connector, CreateMode, Error, ExpiredBy, SessionState, Transport, WatchEnded, ZooKeeper,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{idle, past, settled, spend};
use zk_curator_testing::{TestServer, Verdict};

const CLOSED: Error = Error::Closed { sent: false };

#[test]
fn close_deletes_ephemerals_and_ends_the_client() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let states = zk.states();
        zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        let last = zk.create("/p", b"", &open(), CreateMode::Persistent);
        zk.clone().close().await.unwrap();
        assert_eq!(zk.state(), SessionState::Closed);
        assert_eq!(last.await.unwrap().path, "/p");
        let probe = server.probe();
        assert_eq!(probe.paths(), ["/p"]);
        assert!(probe.sessions().is_empty(), "{probe}");
        assert_eq!(history(states).await.last(), Some(&SessionState::Closed));

        assert_eq!(create(&zk, "/a").await, Err(CLOSED));
        assert_eq!(zk.get_data_watched("/a").await.unwrap_err(), CLOSED);
        assert_eq!(zk.add_auth("digest", b"").await, Err(CLOSED));
        assert_eq!(zk.connected().await, Err(CLOSED));
        assert_eq!(zk.close().await, Ok(()));
    });
}

#[test]
fn several_tasks_may_close_at_once() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let closes: Vec<_> = (0..10)
            .map(|_| zk.clone())
            .map(|zk| tokio::spawn(async move { zk.close().await }))
            .collect();
        for close in closes {
            assert_eq!(close.await.unwrap(), Ok(()));
        }
        assert_eq!(server.probe().requests(OpCode::CloseSession), 1);
    });
}

#[test]
fn the_last_handle_and_the_last_response_close_the_session() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let states = zk.states();
        zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        let answer = zk.create("/p", b"", &open(), CreateMode::Persistent);
        drop(zk.clone());
        drop(zk);
        // The response still arrives, and keeps the session open until then.
        answer.await.unwrap();
        assert_eq!(history(states).await.last(), Some(&SessionState::Closed));
        let probe = server.probe();
        assert_eq!(probe.paths(), ["/p"]);
        assert!(probe.sessions().is_empty(), "{probe}");
    });
}

#[test]
fn dropped_requests_are_applied_before_the_last_handle_closes() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        for n in 0..1000 {
            drop(zk.create(&format!("/{n}"), b"", &open(), CreateMode::Persistent));
        }
        drop(zk);
        let probe = server.until(|probe| probe.sessions().is_empty()).await;
        assert_eq!(probe.paths().len(), 1000);
    });
}

#[test]
fn the_last_handle_of_a_client_that_never_connected_ends_it() {
    simulated_with(async |server| {
        server.stop().await;
        let network = Network::new(server.connector());
        let zk = builder(&server).connector(network.connector()).connect().unwrap();
        settled().await;
        let states = zk.states();
        drop(zk);
        assert_eq!(history(states).await.last(), Some(&SessionState::Closed));
        let attempts = network.attempts();
        idle(Duration::from_secs(60)).await;
        assert_eq!(network.attempts(), attempts);
    });
}

#[test]
fn closing_while_the_session_is_opened_leaves_none() {
    simulated(async {
        for polls in 0..20 {
            let server = TestServer::in_memory().await;
            let zk = builder(&server).connect().unwrap();
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
            zk.close().await.unwrap();
            let probe = server.probe();
            assert!(probe.sessions().is_empty(), "after {polls} polls: {probe}");
        }
    });
}

#[test]
fn requests_before_the_first_connection_are_sent_before_close() {
    simulated_with(async |server| {
        let zk = builder(&server).connect().unwrap();
        let created = zk.create("/a", b"", &open(), CreateMode::Persistent);
        zk.close().await.unwrap();
        created.await.unwrap();
        assert_eq!(server.probe().paths(), ["/a"]);
        assert!(server.probe().sessions().is_empty());
    });
}

#[test]
fn close_returns_within_its_timeout_when_the_server_is_gone() {
    simulated(async {
        for fault in ["stopped", "held", "partitioned"] {
            let server = TestServer::in_memory().await;
            let zk =
                crate::common::start(builder(&server).close_timeout(Duration::from_secs(2))).await;
            let waiting = zk.exists_watched("/a").await.unwrap().1;
            match fault {
                "stopped" => server.stop().await,
                "held" => server.hold(),
                _ => server.partition(),
            }
            let start = Instant::now();
            let in_flight = zk.sync("/");
            let closed = zk.close().await.unwrap_err();
            assert!(matches!(closed, Error::ConnectionLoss { .. }), "{closed:?}");
            assert_about(start, Duration::from_secs(2));
            assert!(in_flight.await.is_err());
            assert_eq!(waiting.await, Err(WatchEnded::Closed));
            assert_eq!(zk.state(), SessionState::Closed);
        }
    });
}

#[test]
fn close_reaches_a_server_that_comes_back_in_time() {
    simulated_with(async |server| {
        let (zk, network) = on_network(&server).await;
        network.down();
        cut(&server, &zk).await;
        let back = async {
            spend(Duration::from_secs(1)).await;
            network.up();
        };
        let (closed, ()) = tokio::join!(zk.close(), back);
        assert_eq!(closed, Ok(()));
        assert!(server.probe().sessions().is_empty());
    });
}

#[test]
fn a_close_whose_response_is_lost_succeeds() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let server = TestServer::in_memory().await;
            let zk = connected(&server).await;
            let _lost = server
                .rule(
                    move |request| {
                        if request.is(OpCode::CloseSession) { verdict } else { Verdict::Pass }
                    },
                )
                .times(1);
            assert_eq!(zk.close().await, Ok(()));
            assert!(server.probe().sessions().is_empty());
        }
    });
}

#[test]
fn a_close_that_is_dropped_closes_in_the_background() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let dropped = tokio::time::timeout(Duration::ZERO, zk.close()).await;
        assert!(dropped.is_err());
        server.until(|probe| probe.sessions().is_empty()).await;
        assert_eq!(history(zk.states()).await.last(), Some(&SessionState::Closed));
    });
}

#[test]
fn closing_a_session_that_our_clock_has_ended_tells_the_server() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        zk.create("/e", b"", &zk_curator_client::Acl::open_unsafe(), CreateMode::Ephemeral)
            .await
            .unwrap();
        server.stop().await;
        assert_eq!(
            history(zk.states()).await.last(),
            Some(&SessionState::Expired(ExpiredBy::Clock))
        );
        // A server that was down has expired nothing, and grants the session its whole timeout
        // again.
        server.restart().await.unwrap();
        assert_eq!(zk.close().await, Ok(()));
        assert!(
            server.probe().sessions().is_empty() && !server.probe().exists("/e"),
            "{}",
            server.probe()
        );
        assert_eq!(zk.state(), SessionState::Expired(ExpiredBy::Clock));

        let zk = connected(&server).await;
        server.stop().await;
        history(zk.states()).await;
        for _ in 0..2 {
            assert_eq!(zk.close().await, Err(Error::ConnectionLoss { sent: false }));
        }

        server.restart().await.unwrap();
        let zk = connected(&server).await;
        let timeout = zk.session().unwrap().timeout;
        server.stop().await;
        history(zk.states()).await;
        // The client no longer searches for a server by itself.
        past(timeout * 2).await;
        assert_eq!(zk.close().await, Err(Error::ConnectionLoss { sent: false }));
    });
}

#[test]
fn the_session_lost_while_closing_is_not_a_success() {
    simulated_with(async |server| {
        let zk =
            crate::common::start(builder(&server).close_timeout(Duration::from_secs(60))).await;
        server.stop().await;
        let start = Instant::now();
        assert!(matches!(zk.close().await, Err(Error::ConnectionLoss { .. })));
        assert_about(start, TIMEOUT);
    });
}

#[test]
fn a_runtime_that_is_shut_down_ends_the_client() {
    let inner = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (_server, zk, states, watch, in_flight) = inner.block_on(async {
        let server = TestServer::in_memory().await;
        let zk = connected(&server).await;
        let (_, watch) = zk.exists_watched("/a").await.unwrap();
        server.hold();
        let in_flight = zk.sync("/");
        (server, zk.clone(), zk.states(), watch, in_flight)
    });
    drop(inner);
    simulated(async move {
        assert_eq!(in_flight.await, Err(Error::Closed { sent: true }));
        assert_eq!(watch.await, Err(WatchEnded::Closed));
        assert_eq!(history(states).await.last(), Some(&SessionState::Closed));
        assert_eq!(create(&zk, "/a").await, Err(CLOSED));
        // Its session exists until it expires.
        assert_eq!(zk.close().await, Err(Error::ConnectionLoss { sent: true }));
        assert_eq!(zk.connected().await, Err(CLOSED));
    });
}

#[test]
fn a_connector_that_panics_ends_the_client() {
    #[derive(Debug)]
    struct Panics;

    #[async_trait::async_trait]
    impl Connector for Panics {
        async fn connect(&self, _: &str, _: u16) -> io::Result<Box<dyn Transport>> {
            panic!("a bug of the connector");
        }
    }

    simulated(async {
        let zk = ZooKeeper::builder("h").connector(Arc::new(Panics)).connect().unwrap();
        assert!(matches!(create(&zk, "/a").await, Err(Error::Closed { .. })));
        assert_eq!(history(zk.states()).await, [SessionState::Closed]);
    });
}

#[test]
fn sessions_of_dropped_clients_do_not_pile_up() {
    simulated_with(async |server| {
        for _ in 0..100 {
            let zk = connected(&server).await;
            zk.create("/e", b"", &open(), CreateMode::EphemeralSequential).await.unwrap();
            let session = id(&zk);
            drop(zk);
            server.until(|probe| probe.session(session).is_none()).await;
        }
        assert_eq!(server.probe().paths(), Vec::<&str>::new());
    });
}
