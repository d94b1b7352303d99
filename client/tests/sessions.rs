//! Sessions that are detached, resumed, used by two clients, and given up by the client's own
//! clock.

use std::time::Duration;

use crate::common::{
    TIMEOUT, assert_about, builder, connected, create, cut, history, id, is_connected, on_network,
    open, simulated, simulated_with, start, until,
};
use bytes::Bytes;
use tokio::time::Instant;
use zk_curator_client::{
    CreateMode, DisconnectedPolicy, Error, ErrorCode, ExpiredBy, SessionCredentials, SessionState,
    WatchEnded, ZooKeeper,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{idle, past, spend};
use zk_curator_testing::{TestServer, Verdict};

const EXPIRED: Error = Error::SessionExpired { sent: false };
const CLOSED: Error = Error::Closed { sent: false };

async fn ephemeral(zk: &ZooKeeper, path: &str) {
    zk.create(path, b"", &open(), CreateMode::Ephemeral).await.expect("a node");
}

/// Returns a session with the node `/e`, from which its client has detached.
async fn left(server: &TestServer) -> SessionCredentials {
    let zk = connected(server).await;
    ephemeral(&zk, "/e").await;
    zk.detach().await.expect("a session")
}

async fn end(zk: &ZooKeeper) -> SessionState {
    *history(zk.states()).await.last().expect("a state")
}

#[test]
fn a_session_that_was_left_is_taken_up_with_its_nodes() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let (session, states) = (id(&zk), zk.states());
        ephemeral(&zk, "/e").await;
        let (_, watch) = zk.get_data_watched("/e").await.unwrap();
        let credentials = zk.detach().await.unwrap();
        assert_eq!((credentials.id.get(), credentials.last_zxid), (session, server.probe().zxid()));
        assert_eq!(history(states).await[1..], [SessionState::Detached]);
        assert_eq!(watch.await, Err(WatchEnded::Closed));
        assert_eq!(create(&zk, "/a").await, Err(CLOSED));
        assert_eq!(zk.detach().await, Err(CLOSED));
        assert_eq!(zk.close().await, Ok(()));
        drop(zk);

        spend(TIMEOUT / 2).await;
        let heir = start(builder(&server).resume(credentials)).await;
        assert_eq!(id(&heir), session);
        let stat = heir.exists("/e").await.unwrap().unwrap();
        assert_eq!(stat.ephemeral_owner, session);
        assert_eq!(heir.get_ephemerals("/").await.unwrap(), ["/e"]);
        assert!(server.probe().watches().is_empty(), "the watches of the client before are gone");
        // The pings of the new client keep it alive, also over lost connections.
        idle(TIMEOUT * 3).await;
        crate::common::reconnect(&server, &heir).await;
        assert_eq!(id(&heir), session);
        assert!(server.probe().exists("/e"));
        assert_eq!(server.probe().requests(OpCode::CloseSession), 0);

        heir.close().await.unwrap();
        assert!(!server.probe().exists("/e") && server.probe().sessions().is_empty());
    });
}

#[test]
fn a_session_that_is_not_taken_up_in_time_expires() {
    simulated_with(async |server| {
        let credentials = left(&server).await;
        let start = Instant::now();
        server.until(|probe| probe.sessions().is_empty()).await;
        assert_about(start, TIMEOUT);
        assert!(!server.probe().exists("/e"));

        let late = builder(&server).resume(credentials).connect().unwrap();
        let waiting = late.exists("/e");
        assert_eq!(late.connected().await, Err(EXPIRED));
        assert_eq!(waiting.await, Err(EXPIRED));
        assert_eq!(history(late.states()).await, [SessionState::Expired(ExpiredBy::Server)]);
        assert_eq!(late.close().await, Ok(()));
        assert!(server.probe().sessions().is_empty(), "no new session takes its place");
    });
}

#[test]
fn a_session_is_taken_up_before_it_expires_or_not_at_all() {
    simulated(async {
        for early in [true, false] {
            let server = TestServer::in_memory().await;
            let credentials = left(&server).await;
            let margin = Duration::from_millis(50);
            spend(if early { TIMEOUT - margin } else { TIMEOUT + margin }).await;
            let heir = builder(&server).resume(credentials.clone()).connect().unwrap();
            match heir.connected().await {
                Ok(session) => assert!(early && session.id == credentials.id),
                Err(error) => assert!(!early && error == EXPIRED, "{error:?}"),
            }
        }
    });
}

#[test]
fn the_timeout_asked_for_last_counts() {
    simulated_with(async |server| {
        let credentials = left(&server).await;
        let heir = start(builder(&server).resume(credentials).session_timeout(TIMEOUT * 2)).await;
        assert_eq!(heir.session().unwrap().timeout, TIMEOUT * 2);
        heir.detach().await.unwrap();
        let start = Instant::now();
        server.until(|probe| probe.sessions().is_empty()).await;
        assert_about(start, TIMEOUT * 2);
    });
}

#[test]
fn a_wrong_password_expires_the_client_not_the_session() {
    simulated_with(async |server| {
        let credentials = left(&server).await;
        for password in [&b"not the password"[..], b"", &[7; 1000]] {
            let password = Bytes::copy_from_slice(password);
            let forged = SessionCredentials::new(credentials.id, password, credentials.last_zxid);
            let thief = builder(&server).resume(forged).connect().unwrap();
            assert_eq!(thief.connected().await, Err(EXPIRED));
            assert_eq!(thief.state(), SessionState::Expired(ExpiredBy::Server));
            assert_eq!(create(&thief, "/a").await, Err(EXPIRED));
        }
        let heir = start(builder(&server).resume(credentials.clone())).await;
        assert_eq!(heir.session().unwrap().id, credentials.id);
        assert_eq!(server.probe().paths(), ["/e"]);
    });
}

#[test]
fn a_session_resumed_without_a_server_ends_at_its_timeout() {
    simulated_with(async |server| {
        let credentials = left(&server).await;
        server.stop().await;
        let start = Instant::now();
        // The deadline for the first connection passes after the end, and has no effect then.
        let settings = builder(&server).resume(credentials).connect_deadline(TIMEOUT * 3 / 2);
        let zk = settings.connect().unwrap();
        assert_eq!(zk.connected().await, Err(EXPIRED));
        assert_about(start, TIMEOUT);
        idle(TIMEOUT * 3).await;
        assert_eq!(zk.state(), SessionState::Expired(ExpiredBy::Clock));
        assert_eq!(create(&zk, "/a").await, Err(EXPIRED));
    });
}

#[test]
fn detaching_completes_earlier_requests_and_refuses_later_ones() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let before: Vec<_> = (0..1000)
            .map(|n| zk.create(&format!("/{n}"), b"", &open(), CreateMode::Ephemeral))
            .collect();
        let handle = zk.clone();
        let detach = tokio::spawn(async move { handle.detach().await });
        until(&mut zk.states(), |state| state == SessionState::Detached).await;
        let after = create(&zk, "/after").await;
        assert_eq!(after, Err(CLOSED));
        for answer in before {
            answer.await.unwrap();
        }
        let credentials = detach.await.unwrap().unwrap();
        assert_eq!(server.probe().ephemerals(credentials.id.get()).len(), 1000);
        let heir = start(builder(&server).resume(credentials)).await;
        assert_eq!(heir.get_ephemerals("/").await.unwrap().len(), 1000);
    });
}

#[test]
fn detaching_waits_at_most_for_the_close_timeout() {
    simulated_with(async |server| {
        let zk = start(builder(&server).close_timeout(Duration::from_secs(2))).await;
        server.hold();
        let unanswered = zk.create("/e", b"", &open(), CreateMode::Ephemeral);
        let start_of_detach = Instant::now();
        let credentials = zk.detach().await.unwrap();
        assert_about(start_of_detach, Duration::from_secs(2));
        assert_eq!(unanswered.await, Err(Error::Closed { sent: true }));
        assert_eq!(zk.state(), SessionState::Detached);
        server.release();
        // The error was right: this request may have been applied, and was.
        server.until(|probe| probe.exists("/e")).await;
        let heir = start(builder(&server).resume(credentials)).await;
        assert_eq!(heir.get_ephemerals("/").await.unwrap(), ["/e"]);
    });
}

#[test]
fn detaching_sends_waiting_requests_if_it_reconnects_in_time() {
    simulated(async {
        for comes in [true, false] {
            let server = TestServer::in_memory().await;
            let (zk, network) = on_network(&server).await;
            let session = id(&zk);
            network.down();
            cut(&server, &zk).await;
            let waiting = zk.create("/e", b"", &open(), CreateMode::Ephemeral);
            let back = async {
                spend(Duration::from_secs(1)).await;
                if comes {
                    network.up();
                }
            };
            let (credentials, ()) = tokio::join!(zk.detach(), back);
            assert_eq!(credentials.unwrap().id.get(), session);
            match waiting.await {
                Ok(_) => assert!(comes),
                Err(error) => assert!(!comes && error == CLOSED, "{error:?}"),
            }
            network.up();
            idle(Duration::from_secs(1)).await;
            let probe = server.probe();
            assert_eq!((probe.exists("/e"), probe.session(session).is_some()), (comes, true));
        }
    });
}

#[test]
fn only_a_session_that_lives_can_be_left() {
    simulated(async {
        // No session was opened.
        let server = TestServer::in_memory().await;
        server.stop().await;
        let zk = builder(&server).connect().unwrap();
        assert_eq!(zk.detach().await, Err(CLOSED));

        // The session was closed at the same time.
        let server = TestServer::in_memory().await;
        let zk = connected(&server).await;
        let (closed, left) = tokio::join!(zk.close(), zk.detach());
        assert_eq!((closed, left), (Ok(()), Err(CLOSED)));
        assert!(server.probe().sessions().is_empty());

        // The client's own clock has ended it.
        let zk = connected(&server).await;
        server.stop().await;
        end(&zk).await;
        let left = zk.detach();
        server.restart().await.unwrap();
        assert_eq!(left.await, Err(EXPIRED));
        assert_eq!(zk.state(), SessionState::Expired(ExpiredBy::Clock));

        // The server has ended it, while the client was detaching.
        let server = TestServer::in_memory().await;
        let (zk, network) = on_network(&server).await;
        network.down();
        cut(&server, &zk).await;
        let waiting = zk.sync("/");
        let expire = async {
            spend(Duration::from_millis(500)).await;
            assert!(server.expire(id(&zk)).await);
            network.up();
        };
        let (left, ()) = tokio::join!(zk.detach(), expire);
        assert_eq!((left, waiting.await), (Err(EXPIRED), Err(EXPIRED)));
        assert_eq!(zk.state(), SessionState::Expired(ExpiredBy::Server));
    });
}

#[test]
fn a_session_ended_by_our_clock_is_closed_at_the_server() {
    simulated_with(async |server| {
        let (zk, network) = on_network(&server).await;
        ephemeral(&zk, "/e").await;
        let states = zk.states();
        server.stop().await;
        let history = history(states).await;
        assert_eq!(
            history[1..],
            [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Clock)]
        );
        assert_eq!(create(&zk, "/a").await, Err(EXPIRED));

        // The server was down itself: the session has its whole timeout again.
        server.restart().await.unwrap();
        let back = Instant::now();
        let probe = server.until(|probe| !probe.exists("/e")).await;
        assert!(back.elapsed() <= Duration::from_secs(3), "{:?}", back.elapsed());
        assert_eq!(probe.requests(OpCode::CloseSession), 1);
        assert!(probe.sessions().is_empty());
        assert_eq!(zk.state(), SessionState::Expired(ExpiredBy::Clock));
        let attempts = network.attempts();
        idle(TIMEOUT * 3).await;
        assert_eq!(network.attempts(), attempts, "the client has ended");
        assert_eq!(zk.state(), SessionState::Expired(ExpiredBy::Clock));
        assert_eq!(server.probe().requests(OpCode::CloseSession), 1);
    });
}

#[test]
fn the_farewell_reaches_the_server_despite_lost_connections() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        ephemeral(&zk, "/e").await;
        server.stop().await;
        end(&zk).await;
        let lost = server
            .rule(|request| match request.opcode() {
                OpCode::CloseSession => Verdict::LoseRequest,
                _ => Verdict::Pass,
            })
            .times(2);
        server.restart().await.unwrap();
        server.until(|probe| !probe.exists("/e")).await;
        assert_eq!(lost.hits(), 2);
    });
}

#[test]
fn no_server_is_looked_for_longer_than_the_session_could_live() {
    simulated_with(async |server| {
        let (zk, network) = on_network(&server).await;
        server.stop().await;
        end(&zk).await;
        past(TIMEOUT).await;
        let attempts = network.attempts();
        idle(TIMEOUT * 10).await;
        assert_eq!(network.attempts(), attempts);

        // The same applies to a client without handles.
        server.restart().await.unwrap();
        let (zk, network) = on_network(&server).await;
        server.stop().await;
        end(&zk).await;
        drop(zk);
        let attempts = network.attempts();
        idle(TIMEOUT * 10).await;
        assert_eq!(network.attempts(), attempts);
    });
}

/// Returns the number of times that two clients of one session connected in a time, and the errors
/// of their requests.
async fn contest(active: bool, time: Duration) -> (u64, Vec<Error>) {
    let server = TestServer::in_memory().await;
    let first = start(builder(&server).disconnected(DisconnectedPolicy::Wait(time))).await;
    ephemeral(&first, "/e").await;
    let mut states = first.states();
    let settings = builder(&server).seed(8).resume(first.credentials().expect("a session"));
    let second = start(settings.disconnected(DisconnectedPolicy::Wait(time))).await;
    assert_eq!(id(&second), id(&first));
    until(&mut states, |state| state == SessionState::Disconnected).await;
    // It knows nothing of the other client, and resumes the session.
    until(&mut states, is_connected).await;

    let (before, begun) = (server.probe().connections(), Instant::now());
    let ask = async |zk: &ZooKeeper| {
        let mut errors = Vec::new();
        while active && begun.elapsed() < time {
            errors.extend(zk.exists("/e").await.err());
            spend(Duration::from_millis(1)).await;
        }
        spend(time.saturating_sub(begun.elapsed())).await;
        errors
    };
    let (errors, others) = tokio::join!(ask(&first), ask(&second));
    let probe = server.probe();
    assert_eq!((probe.sessions().len(), probe.ephemerals(id(&first)).len()), (1, 1));
    for zk in [&first, &second] {
        assert!(zk.state().end().is_none(), "{:?}", zk.state());
    }
    (probe.connections() - before, [errors, others].concat())
}

/// Two active clients of one session connect less often than five times a second.
async fn contest_of_active_clients(time: Duration) {
    let (connections, errors) = contest(true, time).await;
    assert!(
        connections < 5 * time.as_secs(),
        "{connections} connections of active clients in {time:?}"
    );
    for error in errors {
        assert_eq!(error, Error::ConnectionLoss { sent: true });
    }
}

#[test]
fn two_clients_that_share_a_session_cause_no_storm() {
    simulated(async {
        let (connections, _) = contest(false, Duration::from_secs(60)).await;
        // Each tries again after half a second to a second.
        assert!(connections < 200, "{connections} connections of idle clients in a minute");
        contest_of_active_clients(Duration::from_secs(10)).await;
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn two_active_clients_of_one_session_make_no_storm_in_a_minute() {
    simulated(contest_of_active_clients(Duration::from_secs(60)));
}

#[test]
fn a_client_learns_that_its_taken_session_was_closed() {
    simulated_with(async |server| {
        let (first, network) = on_network(&server).await;
        let states = first.states();
        network.down();
        let second = start(builder(&server).resume(first.credentials().unwrap())).await;
        second.close().await.unwrap();
        network.up();
        let history = history(states).await;
        assert_eq!(
            history[1..],
            [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Server)]
        );
    });
}

#[test]
fn a_request_for_a_session_that_has_moved_was_not_applied() {
    simulated(async {
        // The response of a member of an ensemble whose client has continued at another member.
        let server = TestServer::in_memory().await;
        let zk = connected(&server).await;
        let _moved = server
            .rule(|request| match request.opcode() {
                OpCode::Create2 => Verdict::Refuse(ErrorCode::SessionMoved),
                _ => Verdict::Pass,
            })
            .times(1);
        let error = create(&zk, "/a").await.unwrap_err();
        assert_eq!(
            (error.code(), error.may_have_applied()),
            (Some(ErrorCode::SessionMoved), false)
        );
        // Through another connection.
        let session = id(&zk);
        create(&zk, "/a").await.unwrap();
        assert_eq!(id(&zk), session);
    });
}
