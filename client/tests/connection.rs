//! Servers that cannot be reached, fall silent or return.

use std::time::Duration;

use crate::common::{
    NOWHERE, Network, TIMEOUT, assert_about, builder, connected, create, cut, history, id,
    is_connected, on_network, open, real_time, reconnect, simulated, simulated_with, start, until,
};
use tokio::net::TcpListener;
use tokio::time::Instant;
use zk_curator_client::{
    CreateMode, DisconnectedPolicy, Error, ExpiredBy, SessionState, ZooKeeper,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{idle, past, spend};

const PATIENCE: Duration = Duration::from_millis(300);

#[test]
fn a_request_times_out_when_nothing_listens() {
    real_time(async {
        let network = Network::tcp();
        let zk = ZooKeeper::builder(NOWHERE[0])
            .disconnected(DisconnectedPolicy::Wait(PATIENCE))
            .connector(network.connector())
            .connect()
            .unwrap();
        let start = Instant::now();
        assert_eq!(create(&zk, "/a").await, Err(Error::NotConnected));
        assert!(start.elapsed() >= PATIENCE, "{:?}", start.elapsed());
        assert!((1..12).contains(&network.attempts()), "{}", network.attempts());
        assert_eq!(zk.state(), SessionState::Connecting);
        zk.close().await.unwrap();
        assert_eq!(create(&zk, "/a").await, Err(Error::Closed { sent: false }));
    });
}

#[test]
fn a_request_times_out_when_the_server_accepts_and_says_nothing() {
    real_time(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let zk = ZooKeeper::builder(listener.local_addr().unwrap().to_string())
            .disconnected(DisconnectedPolicy::Wait(PATIENCE))
            .close_timeout(PATIENCE)
            .connect()
            .unwrap();
        assert_eq!(create(&zk, "/a").await, Err(Error::NotConnected));
        // It may have opened a session.
        zk.close().await.unwrap();
    });
}

#[test]
fn other_hosts_are_tried_when_one_is_down_or_hangs() {
    real_time(async {
        let server = TestServer::start().await;
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for seed in 0..6 {
            let silent = silent.local_addr().unwrap();
            let hosts = format!("{},{silent},{}", NOWHERE[0], server.connect_string());
            let zk = ZooKeeper::builder(hosts)
                .session_timeout(Duration::from_secs(3))
                .seed(seed)
                .connect()
                .unwrap();
            zk.connected().await.unwrap();
            zk.close().await.unwrap();
        }
    });
}

#[test]
fn an_outage_costs_few_attempts_and_the_session_times_out() {
    simulated_with(async |server| {
        let (zk, network) = on_network(&server).await;
        let states = zk.states();
        create(&zk, "/a").await.unwrap();
        let last_response = Instant::now();
        server.stop().await;
        let states = tokio::spawn(async move {
            let history = history(states).await;
            (history, Instant::now())
        });
        past(Duration::from_secs(12)).await;
        let (history, ended) = states.await.unwrap();
        assert_eq!(
            history[1..],
            [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Clock)]
        );
        assert_eq!(ended - last_response, TIMEOUT);
        assert!((5..20).contains(&network.attempts()), "{} attempts", network.attempts());
    });
}

#[test]
fn a_client_that_never_connects_asks_less_and_less() {
    simulated_with(async |server| {
        server.stop().await;
        let network = Network::new(server.connector());
        let zk = builder(&server).connector(network.connector()).connect().unwrap();
        past(Duration::from_secs(12)).await;
        assert!((5..20).contains(&network.attempts()), "{} attempts", network.attempts());
        server.restart().await.unwrap();
        let start = Instant::now();
        zk.connected().await.unwrap();
        assert!(start.elapsed() <= Duration::from_secs(3));
    });
}

#[test]
fn a_blackholed_request_is_connection_loss_within_two_thirds() {
    simulated(async {
        for millis in [0, 700, 1400, 1999] {
            let server = TestServer::in_memory().await;
            let zk = connected(&server).await;
            let mut states = zk.states();
            spend(Duration::from_millis(millis)).await;
            server.partition();
            let start = Instant::now();
            let error = create(&zk, "/a").await.unwrap_err();
            assert_eq!(error, Error::ConnectionLoss { sent: true });
            assert!(error.may_have_applied());
            assert!(start.elapsed() <= TIMEOUT * 2 / 3, "{:?}", start.elapsed());
            until(&mut states, |state| state == SessionState::Disconnected).await;
            // Requests that are queued now wait for a server that never comes.
            let queued = create(&zk, "/b").await.unwrap_err();
            assert_eq!(queued, Error::SessionExpired { sent: false });
            assert_eq!(zk.state(), SessionState::Expired(ExpiredBy::Clock));
        }
    });
}

#[test]
fn the_client_never_outlives_the_servers_view_of_its_session() {
    simulated(async {
        for millis in (0..6000).step_by(130) {
            let server = TestServer::in_memory().await;
            let zk = connected(&server).await;
            let watcher = zk.clone();
            let client = tokio::spawn(async move {
                let last = history(watcher.states()).await.pop();
                assert_eq!(last, Some(SessionState::Expired(ExpiredBy::Clock)));
                Instant::now()
            });
            spend(Duration::from_millis(millis)).await;
            server.partition();
            let cut_at = Instant::now();
            server.until(|probe| probe.sessions().is_empty()).await;
            let server_at = Instant::now();
            let client_at = client.await.unwrap();
            assert!(client_at <= server_at, "{:?} too late", client_at - server_at);
            // The client does not give up much earlier either: only by the time since its last
            // ping, and never before the cut.
            assert!(client_at >= cut_at + TIMEOUT - TIMEOUT / 3, "after {:?}", client_at - cut_at);
        }
    });
}

#[test]
fn an_idle_session_lives_on_pings() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        idle(TIMEOUT * 20).await;
        let probe = server.probe();
        assert!(probe.exists("/e"));
        assert_eq!(probe.connections(), 1);
        assert!((59..=61).contains(&probe.requests(OpCode::Ping)), "{probe}");
    });
}

#[test]
fn a_session_left_by_a_suspended_server_resumes_when_it_wakes() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let session = id(&zk);
        let mut states = zk.states();
        server.hold();
        let start = Instant::now();
        until(&mut states, |state| state == SessionState::Disconnected).await;
        assert_about(start, TIMEOUT * 2 / 3);
        server.release();
        until(&mut states, is_connected).await;
        assert_eq!(id(&zk), session);
        create(&zk, "/a").await.unwrap();
    });
}

#[test]
fn requests_wait_for_a_server_in_their_order() {
    simulated_with(async |server| {
        let (zk, network) = on_network(&server).await;
        create(&zk, "/a").await.unwrap();
        network.down();
        cut(&server, &zk).await;
        let writes: Vec<_> = (0..20).map(|_| zk.set_data("/a", b"", None)).collect();
        network.up();
        for (version, write) in (1..).zip(writes) {
            assert_eq!(write.await.unwrap().version, version);
        }
    });
}

#[test]
fn requests_that_must_not_wait_fail_at_once() {
    simulated_with(async |server| {
        let network = Network::new(server.connector());
        let zk = builder(&server)
            .connector(network.connector())
            .disconnected(DisconnectedPolicy::FailFast)
            .connect()
            .unwrap();
        let now = Instant::now();
        let early = create(&zk, "/a").await.unwrap_err();
        assert_eq!((early.clone(), early.may_have_applied()), (Error::NotConnected, false));
        zk.connected().await.unwrap();
        create(&zk, "/a").await.unwrap();
        network.down();
        cut(&server, &zk).await;
        assert_eq!(create(&zk, "/b").await, Err(Error::NotConnected));
        assert_eq!(now.elapsed(), Duration::ZERO);
        network.up();
        zk.connected().await.unwrap();
        create(&zk, "/b").await.unwrap();
    });
}

#[test]
fn a_dropped_request_is_not_sent_when_a_server_is_back() {
    simulated_with(async |server| {
        let (zk, network) = on_network(&server).await;
        network.down();
        cut(&server, &zk).await;
        drop(zk.create("/dropped", b"", &open(), CreateMode::Persistent));
        let kept = zk.create("/kept", b"", &open(), CreateMode::Persistent);
        network.up();
        kept.await.unwrap();
        assert_eq!(server.probe().paths(), ["/kept"]);
    });
}

#[test]
fn forty_cuts_are_eighty_states_in_order() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        // There is no task that reads them.
        let states = zk.states();
        for _ in 0..40 {
            reconnect(&server, &zk).await;
        }
        let connected = zk.state();
        zk.close().await.unwrap();
        let history = history(states).await;
        assert_eq!(history.len(), 1 + 80 + 1);
        for pair in history[..80].chunks(2) {
            assert_eq!(pair, [connected, SessionState::Disconnected]);
        }
        assert_eq!(history[80..], [connected, SessionState::Closed]);
    });
}

#[test]
fn a_restarted_server_takes_the_session_up_again() {
    real_time(async {
        let server = TestServer::start().await;
        let zk = start(ZooKeeper::builder(server.connect_string())).await;
        let session = id(&zk);
        zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        let (_, watch) = zk.get_data_watched("/e").await.unwrap();
        server.stop().await;
        let waiting = zk.set_data("/e", b"2", None);
        server.restart().await.unwrap();
        // It was queued or lost, depending on when the client noticed.
        match waiting.await {
            Ok(stat) => assert_eq!(stat.version, 1),
            Err(error) => {
                assert_eq!(error, Error::ConnectionLoss { sent: true });
                zk.set_data("/e", b"2", None).await.unwrap();
            }
        }
        watch.await.unwrap();
        assert_eq!(id(&zk), session);
        zk.close().await.unwrap();
        assert!(!server.probe().exists("/e"));
    });
}
