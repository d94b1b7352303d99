//! Deadlines of requests, and of the first connection.

use std::time::Duration;

use crate::common::{
    Network, TIMEOUT, assert_about, builder, connected, create, cut, history, id, on_network, open,
    simulated, simulated_with, start,
};
use tokio::time::{Instant, timeout};
use zk_curator_client::{
    AddWatchMode, CreateMode, Error, ErrorCode, Pending, SessionState, SessionStates, ZooKeeper,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{idle, past, spend};
use zk_curator_testing::{TestServer, Verdict};

const DEADLINE: Duration = Duration::from_secs(1);

const fn exceeded(sent: bool) -> Error {
    Error::DeadlineExceeded { sent }
}

fn create_now(zk: &ZooKeeper, path: &str) -> Pending<zk_curator_client::Created> {
    zk.create(path, b"", &open(), CreateMode::Persistent)
}

#[test]
fn an_unanswered_request_fails_at_its_deadline_maybe_applied() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let hasty = zk.with_deadline(DEADLINE);
        let states = zk.states();
        server.hold();
        let start = Instant::now();
        let error = create(&hasty, "/a").await.unwrap_err();
        assert_about(start, DEADLINE);
        assert_eq!((&error, error.may_have_applied()), (&exceeded(true), true));
        assert_eq!(error.code(), Some(ErrorCode::OperationTimeout));
        // The deadline belongs to this handle, and ends only the wait.
        let patient = create(&zk, "/b");
        server.release();
        patient.await.unwrap();
        assert_eq!(server.probe().paths(), ["/a", "/b"]);
        create(&hasty, "/c").await.unwrap();
        zk.close().await.unwrap();
        let history = history(states).await;
        assert!(!history.contains(&SessionState::Disconnected), "{history:?}");
    });
}

#[test]
fn a_request_past_its_deadline_is_never_sent() {
    simulated_with(async |server| {
        let (zk, network) = on_network(&server).await;
        network.down();
        cut(&server, &zk).await;
        let hasty = zk.with_deadline(DEADLINE);
        let start = Instant::now();
        // It counts from the call, not from the first poll.
        let late = create_now(&hasty, "/late");
        spend(DEADLINE / 2).await;
        let error = late.await.unwrap_err();
        assert_about(start, DEADLINE);
        assert_eq!((&error, error.may_have_applied()), (&exceeded(false), false));
        let kept = create_now(&zk, "/kept");
        network.up();
        kept.await.unwrap();
        idle(TIMEOUT).await;
        assert_eq!(server.probe().paths(), ["/kept"]);
        assert_eq!(server.probe().requests(OpCode::Create2), 1);
    });
}

#[test]
fn responses_in_time_ignore_the_deadline() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let hasty = zk.with_deadline(DEADLINE);
        assert_eq!(id(&hasty), id(&zk));
        create(&hasty, "/a").await.unwrap();
        assert_eq!(create(&hasty, "/a").await, Err(Error::Refused(ErrorCode::NodeExists)));
        assert_eq!(hasty.exists("/none").await, Ok(None));
        let (_, watch) = hasty.get_data_watched("/a").await.unwrap();
        // A response that arrived in time counts, whenever it is polled.
        let early = hasty.get_data("/a");
        zk.sync("/").await.unwrap();
        past(DEADLINE * 5).await;
        assert!(early.await.is_ok());
        // A watch has no deadline.
        zk.set_data("/a", b"2", None).await.unwrap();
        watch.await.unwrap();
        // Other errors arrive independently of the deadline.
        server.hold();
        let closed = hasty.exists("/a");
        drop(timeout(Duration::ZERO, zk.close()).await);
        let start = Instant::now();
        let hasty = hasty.with_deadline(TIMEOUT);
        assert_eq!(hasty.exists("/a").await, Err(Error::Closed { sent: false }));
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(closed.await, Err(exceeded(true)));
    });
}

#[test]
fn a_request_past_its_deadline_leaves_no_watch_on_the_server() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        create(&zk, "/a").await.unwrap();
        let hasty = zk.with_deadline(DEADLINE);
        server.hold();
        let add = hasty.add_watch("/a", AddWatchMode::PersistentRecursive);
        let (read, added, auth) =
            tokio::join!(hasty.get_data_watched("/a"), add, hasty.add_auth("digest", b"a:b"));
        assert_eq!(read.map(drop), Err(exceeded(true)));
        assert_eq!(added.map(drop), Err(exceeded(true)));
        assert_eq!(auth, Err(exceeded(true)));
        server.release();
        zk.sync("/").await.unwrap();
        zk.sync("/").await.unwrap();
        let probe = server.probe();
        assert!(probe.watches().is_empty(), "{probe}");
        // An identity is not withdrawn.
        assert_eq!(probe.session(id(&zk)).unwrap().identities.len(), 1);
    });
}

#[test]
fn a_request_with_a_deadline_can_be_made_outside_of_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, zk) = runtime.block_on(async {
        let server = TestServer::in_memory().await;
        let zk = connected(&server).await;
        (server, zk.with_deadline(Duration::from_secs(60)))
    });
    let created = create_now(&zk, "/a");
    runtime.block_on(created).unwrap();
    assert!(server.probe().exists("/a"));
}

/// The outcomes of creates with deadlines, under faults.
#[derive(Debug, Default)]
struct Tally {
    done: u32,
    sent: u32,
    unsent: u32,
    other: u32,
}

impl Tally {
    /// Checks one outcome against the server's data.
    fn count(&mut self, outcome: Result<(), Error>, is_there: bool) {
        match outcome {
            Ok(()) => {
                assert!(is_there, "a node that was created is not there");
                self.done += 1;
            }
            Err(error) => {
                assert!(error.may_have_applied() || !is_there, "{error:?}, but the node is there");
                match error {
                    Error::DeadlineExceeded { sent: true } => self.sent += 1,
                    Error::DeadlineExceeded { sent: false } => self.unsent += 1,
                    _ => self.other += 1,
                }
            }
        }
    }
}

#[test]
fn deadlines_tell_the_truth_under_random_delays_and_cuts() {
    let mut tally = Tally::default();
    for seed in 0..40 {
        simulated(async {
            let mut rng = fastrand::Rng::with_seed(seed);
            let server = TestServer::in_memory().await;
            let (zk, network) = on_network(&server).await;
            let spread = rng.u64(1..60);
            let delays = std::sync::Mutex::new(rng.fork());
            let slow = server.rule(move |_| {
                let mut delays = delays.lock().expect("no panic");
                match delays.u32(0..40) {
                    0 => Verdict::LoseReply,
                    1 => Verdict::LoseRequest,
                    2..10 => Verdict::Delay(Duration::from_millis(delays.u64(0..spread))),
                    _ => Verdict::Pass,
                }
            });
            let mut outcomes = Vec::new();
            for n in 0..150 {
                let deadline = Duration::from_millis(rng.u64(0..50));
                outcomes.push((n, create_now(&zk.with_deadline(deadline), &format!("/{n}"))));
                match rng.u32(0..12) {
                    0 => network.down(),
                    1..4 => network.up(),
                    4..6 => spend(Duration::from_millis(rng.u64(0..20))).await,
                    6 => drop(server.disconnect(id(&zk))),
                    _ => {}
                }
            }
            network.up();
            // All requests have failed or have a response, polled or not.
            let mut results = Vec::new();
            for (n, outcome) in outcomes {
                results.push((n, outcome.await.map(drop)));
            }
            drop(slow);
            zk.sync("/").await.ok();
            zk.sync("/").await.unwrap();
            let probe = server.probe();
            for (n, result) in results {
                let is_there = probe.exists(&format!("/{n}"));
                if let (Err(error), true) = (&result, is_there) {
                    assert!(
                        error.may_have_applied(),
                        "seed {seed}: /{n} is there in spite of {error:?}"
                    );
                }
                tally.count(result, is_there);
            }
        });
    }
    assert!(tally.done > 500 && tally.sent > 50 && tally.unsent > 50, "{tally:?}");
}

#[test]
fn deadlines_tell_the_truth_when_they_race_with_the_sending() {
    // Truly in parallel: the caller gives up on one thread while the client sends on another.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = TestServer::in_memory().await;
        let (zk, network) = on_network(&server).await;
        let mut tally = Tally::default();
        for round in 0..40 {
            // The deadlines pass while the client takes the request or, in every tenth round, while
            // it reconnects.
            let waits = round % 10 == 9;
            if waits {
                network.down();
                cut(&server, &zk).await;
            }
            let callers: Vec<_> = (0..200)
                .map(|n| {
                    let (path, pause) = (format!("/{round}-{n}"), fastrand::u32(0..2000));
                    let deadline = if waits {
                        Duration::from_millis(fastrand::u64(20..220))
                    } else {
                        Duration::ZERO
                    };
                    let zk = zk.with_deadline(deadline);
                    tokio::spawn(async move {
                        let created = create_now(&zk, &path);
                        (0..pause).for_each(|_| std::hint::spin_loop());
                        (path, created.await.map(drop))
                    })
                })
                .collect();
            network.up();
            let mut results = Vec::new();
            for caller in callers {
                results.push(caller.await.unwrap());
            }
            zk.sync("/").await.unwrap();
            let probe = server.probe();
            for (path, result) in results {
                tally.count(result, probe.exists(&path));
            }
        }
        // The machine decides how many of each there are; the test requires that no outcome was
        // wrong.
        let Tally { done, sent, unsent, other } = tally;
        assert_eq!((done + sent + unsent, other), (40 * 200, 0), "{tally:?}");
    });
}

async fn last(mut states: SessionStates) -> (SessionState, Instant) {
    let mut last = None;
    while let Some(state) = states.next().await {
        last = Some((state, Instant::now()));
    }
    last.expect("a state")
}

#[test]
fn a_client_that_reaches_no_server_in_time_ends_unreachable() {
    simulated(async {
        for fault in ["stopped", "held", "partitioned", "read-only"] {
            let server = TestServer::in_memory().await;
            match fault {
                "stopped" => server.stop().await,
                "held" => server.hold(),
                "partitioned" => server.partition(),
                _ => server.set_read_only(true),
            }
            let begun = Instant::now();
            let zk = builder(&server).connect_deadline(Duration::from_secs(3)).connect().unwrap();
            let waiting = create_now(&zk, "/a");
            let states = zk.states();
            assert_eq!(zk.connected().await, Err(Error::NotConnected));
            assert_about(begun, Duration::from_secs(3));
            assert_eq!(last(states).await.0, SessionState::Unreachable, "{fault}");
            assert_eq!(waiting.await.map(drop), Err(Error::NotConnected));
            assert_eq!(create(&zk, "/a").await, Err(Error::NotConnected));
            assert!(zk.last_failure().is_some() || fault != "stopped");
            assert_eq!(zk.close().await, Ok(()));
            assert_eq!(zk.state(), SessionState::Unreachable);
            assert_eq!(zk.detach().await.map(drop), Err(Error::NotConnected));
            // It stays expired.
            server.heal();
            server.release();
            server.restart().await.unwrap();
            server.set_read_only(false);
            idle(TIMEOUT * 2).await;
            assert!(server.probe().sessions().is_empty() && server.probe().paths().is_empty());
        }
    });
}

#[test]
fn a_connected_client_outlives_the_connect_deadline() {
    simulated_with(async |server| {
        let zk = start(builder(&server).connect_deadline(Duration::from_secs(1))).await;
        let states = zk.states();
        idle(DEADLINE * 2).await;
        server.stop().await;
        idle(DEADLINE * 2).await;
        assert_eq!(zk.state(), SessionState::Disconnected);
        server.restart().await.unwrap();
        create(&zk, "/a").await.unwrap();
        zk.close().await.unwrap();
        assert_eq!(last(states).await.0, SessionState::Closed);
    });
}

#[test]
fn a_deadline_too_far_away_to_be_a_time_is_none() {
    simulated_with(async |server| {
        let zk =
            start(builder(&server).connect_deadline(Duration::MAX).slow_request(Duration::MAX))
                .await;
        create(&zk.with_deadline(Duration::MAX), "/a").await.unwrap();
        assert_eq!(create(&zk.with_deadline(Duration::ZERO), "/b").await, Err(exceeded(false)));
        zk.close().await.unwrap();
    });
}

/// Requests without a caller would otherwise use up the limits of all others.
#[test]
fn requests_given_up_without_a_connection_leave_room_for_others() {
    simulated_with(async |server| {
        let network = Network::new(server.connector());
        let zk = start(builder(&server).connector(network.connector()).queue_limits(4, 1000)).await;
        network.down();
        cut(&server, &zk).await;
        for _ in 0..100 {
            let requests: Vec<_> = (0..4).map(|n| zk.get_data(&format!("/{n}"))).collect();
            assert!(matches!(zk.exists("/").await, Err(Error::QueueFull { requests: 4, .. })));
            // The driver takes them, then they are dropped.
            tokio::task::yield_now().await;
            drop(requests);
        }
        let has_deadline = zk.with_deadline(Duration::from_millis(100));
        let given_up: Vec<_> = (0..4).map(|n| has_deadline.get_data(&format!("/{n}"))).collect();
        for request in given_up {
            assert_eq!(request.await.map(drop), Err(Error::DeadlineExceeded { sent: false }));
        }
        let kept = zk.exists("/");
        network.up();
        assert!(kept.await.unwrap().is_some());
        assert_eq!(server.probe().requests(OpCode::GetData), 0);
        zk.close().await.unwrap();
    });
}
