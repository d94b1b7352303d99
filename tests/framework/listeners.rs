//! Observers of the connection state: error policies, the circuit breaker, sessions given up early,
//! errors in the background, and how little they cost.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use zk_curator::ConnectionState::{
    Closed, Connected, Connecting, Lost, ReadOnly, Reconnected, Suspended,
};
use zk_curator::retry::{RetryForever, RetryNTimes};
use zk_curator::{ConnectionStateErrorPolicy, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::leader::LeaderLatch;
use zk_curator_testing::wait::{self, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    SESSION_TIMEOUT, always, builder, closes_clean, connected, expire, impatient, rule_if,
    session_id, simulated, simulated_on, simulated_with, start, until_state,
};

const SECOND: Duration = Duration::from_secs(1);

/// Cuts the connection once and waits until it is back.
async fn flap(server: &TestServer, zk: &CuratorFramework) {
    let epoch = zk.status().epoch;
    server.disconnect(session_id(zk).get());
    zk.states().until(|status| status.epoch > epoch && status.state.is_connected()).await.unwrap();
}

// Error policies

#[test]
fn the_policy_says_which_states_are_errors() {
    use ConnectionStateErrorPolicy::{Session, Standard};
    let fine = [
        Connecting,
        Connected,
        Reconnected { same_session: true },
        Reconnected { same_session: false },
        ReadOnly,
    ];
    for policy in [Standard, Session] {
        assert!(fine.iter().all(|state| !policy.is_error(*state)));
        assert!(policy.is_error(Lost) && policy.is_error(Closed));
    }
    assert!(Standard.is_error(Suspended) && !Session.is_error(Suspended));
    let zk = CuratorFramework::builder().connect_string("localhost");
    assert_eq!(zk.build().unwrap().connection_state_error_policy(), Standard);
    let zk = CuratorFramework::builder()
        .connect_string("localhost")
        .connection_state_error_policy(Session);
    assert_eq!(zk.build().unwrap().connection_state_error_policy(), Session);
}

// Sessions given up early

async fn with_percent(percent: u8) -> (TestServer, CuratorFramework) {
    let server = TestServer::in_memory().await;
    let zk = start(builder(&server).simulated_session_expiration_percent(percent)).await;
    (server, zk)
}

/// CURATOR-460: the timer used the timeout that was asked for. GH-1248: timeout times percent
/// overflowed.
#[test]
fn curator_460_a_percentage_is_of_the_negotiated_timeout() {
    simulated(async {
        let server = TestServer::builder().tcp(false).max_session_timeout(SESSION_TIMEOUT / 2);
        let server = server.start().await.unwrap();
        let zk = start(builder(&server).simulated_session_expiration_percent(30)).await;
        let granted = zk.session().unwrap().timeout;
        assert_eq!(granted, SESSION_TIMEOUT / 2);
        server.stop().await;
        until_state(&zk, Suspended).await;
        let suspended = Instant::now();
        until_state(&zk, Lost).await;
        assert_eq!(suspended.elapsed(), granted * 3 / 10);
    });
}

/// GH-1248: 2^31 milliseconds are only 24 days, and a percentage of them overflowed.
#[test]
fn curator_1248_the_longest_timeout_has_a_percentage() {
    simulated(async {
        let longest = Duration::from_millis(i32::MAX.unsigned_abs().into());
        let server =
            TestServer::builder().tcp(false).max_session_timeout(longest).start().await.unwrap();
        let zk = builder(&server).session_timeout(longest).simulated_session_expiration_percent(1);
        let zk = start(zk).await;
        let granted = zk.session().unwrap().timeout;
        assert!(granted > Duration::from_secs(20 * 24 * 3600), "{granted:?}");
        server.stop().await;
        until_state(&zk, Suspended).await;
        let suspended = Instant::now();
        until_state(&zk, Lost).await;
        let hundredth = granted / 100;
        assert!(
            suspended.elapsed().abs_diff(hundredth) <= Duration::from_millis(1),
            "{:?}",
            suspended.elapsed()
        );
    });
}

#[test]
fn what_is_given_up_early_is_over_and_is_not_taken_up_again() {
    simulated(async {
        let (server, zk) = with_percent(50).await;
        let node = zk.create("/a").mode(CreateMode::Ephemeral).owned().await.unwrap();
        let old = session_id(&zk);
        let bound = zk.bound_to_session().unwrap();
        server.stop().await;
        until_state(&zk, Lost).await;
        assert!(node.ownership().is_session_lost());
        // Requests that wait in the abandoned session do not fail as if the framework were closed.
        let error = bound.get_data("/a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionExpired);
        server.restart().await.unwrap();
        until_state(&zk, Reconnected { same_session: false }).await;
        // The server is notified, long before it would have expired the session itself.
        let told =
            timeout(SESSION_TIMEOUT / 2, server.until(|probe| probe.session(old.get()).is_none()));
        assert!(told.await.is_ok(), "{}", server.probe());
        assert!(!server.probe().exists("/a"));
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn an_operation_may_survive_the_session_that_is_given_up() {
    simulated(async {
        let (server, zk) = with_percent(20).await;
        zk.create("/a").data("1").await.unwrap();
        server.stop().await;
        until_state(&zk, Suspended).await;
        let read = tokio::spawn(zk.get_data("/a").into_future());
        let create = tokio::spawn(zk.create("/e").mode(CreateMode::Ephemeral).into_future());
        until_state(&zk, Lost).await;
        server.restart().await.unwrap();
        assert_eq!(read.await.unwrap().unwrap(), "1");
        let error = create.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::SessionExpired, false));
        zk.close().await.unwrap();
    });
}

#[test]
fn a_connection_that_is_back_in_time_keeps_its_session() {
    simulated(async {
        let (server, zk) = with_percent(50).await;
        let session = session_id(&zk);
        for _ in 0..10 {
            flap(&server, &zk).await;
            tokio::time::advance(SESSION_TIMEOUT / 5).await;
        }
        assert_eq!((session_id(&zk), zk.status().session_epoch), (session, 1));
    });
}

#[test]
fn a_percentage_that_is_none_is_refused() {
    for percent in [0, 101, u8::MAX] {
        let zk = CuratorFramework::builder().connect_string("localhost");
        let error = zk.simulated_session_expiration_percent(percent).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

// The circuit breaker

#[test]
fn the_circuit_breaker_reports_one_outage_and_no_flapping() {
    simulated_with(async |server, zk| {
        let mut all = Box::pin(zk.states().into_stream());
        let mut told =
            Box::pin(zk.states().circuit_breaking(RetryForever::new(10 * SECOND)).into_stream());
        let first = told.next().await.unwrap();
        assert_eq!((first.state, all.next().await), (Connected, Some(first)));
        let began = Instant::now();
        let flapping = async {
            server.stop().await;
            assert_eq!(told.next().await.unwrap().state, Suspended);
            server.restart().await.unwrap();
            let next = told.next();
            let flaps = async {
                zk.wait_connected().await.unwrap();
                for _ in 0..5 {
                    flap(&server, &zk).await;
                    spend(SECOND).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                next = next => next.unwrap(),
                () = flaps => unreachable!(),
            }
        };
        let status = flapping.await;
        // Reported once, when the circuit closes, with the latest state.
        assert_eq!((status.state, status), (Reconnected { same_session: true }, zk.status()));
        assert!(
            began.elapsed() >= 10 * SECOND && began.elapsed() < 11 * SECOND,
            "{:?}",
            began.elapsed()
        );
        drop(all);
    });
}

#[test]
fn the_circuit_breaker_tells_of_a_lost_session_and_of_the_end() {
    simulated_with(async |server, zk| {
        let mut told = zk.states().circuit_breaking(RetryForever::new(SECOND));
        told.next().await.unwrap();
        server.stop().await;
        for state in [Suspended, Lost] {
            assert_eq!(told.next().await.unwrap().state, state);
            assert!(told.is_open());
        }
        // It keeps checking for as long as the policy allows.
        assert!(timeout(100 * SECOND, told.next()).await.is_err());
        zk.close().await.ok();
        assert_eq!(told.next().await.unwrap().state, Closed);
        assert_eq!(told.next().await, None);
    });
}

#[test]
fn the_circuit_breaker_gives_up_with_its_policy() {
    simulated_with(async |server, zk| {
        let mut told = zk.states().circuit_breaking(RetryNTimes::new(2, SECOND));
        told.next().await.unwrap();
        expire(&server, &zk).await;
        assert_eq!(told.next().await.unwrap().state, Suspended);
        let mut rest = Vec::new();
        while let Ok(Some(status)) = timeout(60 * SECOND, told.next()).await {
            rest.push(status.state);
        }
        assert_eq!(rest, [Lost, Reconnected { same_session: false }]);
        assert!(!told.is_open());
        // A policy that never waits changes nothing.
        let mut plain = zk.states().circuit_breaking(RetryNTimes::new(0, SECOND));
        plain.next().await.unwrap();
        server.stop().await;
        assert_eq!(plain.next().await.unwrap().state, Suspended);
        assert!(!plain.is_open());
        server.restart().await.unwrap();
        assert!(plain.next().await.unwrap().state.is_connected());
    });
}

// Errors in the background

#[test]
fn background_errors_reach_followers() {
    simulated_on(impatient, async |(server, zk)| {
        let mut errors = zk.background_errors();
        let mut late = Box::pin(zk.background_errors().into_stream());
        zk.create("/a").await.unwrap();
        let refused =
            rule_if(&server, |request| request.is_delete(), Verdict::Refuse(ErrorCode::NoAuth));
        for _ in 0..100 {
            drop(zk.create("/p-").mode(CreateMode::PersistentSequential).owned().await.unwrap());
        }
        refused.fired_times(100).await;
        let error = errors.next().await.unwrap();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NoAuth, "cleanup"));
        let mut kept = 1;
        while timeout(SECOND, errors.next()).await.is_ok() {
            kept += 1;
        }
        assert_eq!(errors.missed() + kept, 100, "nothing is lost unnoticed");
        zk.close().await.unwrap();
        assert!(errors.next().await.is_none());
        let mut rest = 0;
        while late.next().await.is_some() {
            rest += 1;
        }
        assert!(rest >= 1, "the last errors are kept for late followers");
    });
}

#[test]
fn credentials_refused_later_are_a_background_error() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).authorization("digest", "me:secret")).await;
        let mut errors = zk.background_errors();
        let refused = always(&server, OpCode::Auth, Verdict::Refuse(ErrorCode::AuthFailed));
        server.disconnect(session_id(&zk).get());
        let error = errors.next().await.unwrap();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::AuthFailed, "session"));
        drop(refused);
        zk.wait_connected().await.unwrap();
    });
}

/// A session a second would be refused 3,600 times in an hour.
#[test]
fn sessions_that_stay_refused_are_opened_ever_more_rarely() {
    simulated_on(TestServer::in_memory, async |server| {
        let refused = always(&server, OpCode::Auth, Verdict::Refuse(ErrorCode::AuthFailed));
        let zk = builder(&server).authorization("digest", "me:secret").build().unwrap();
        let mut errors = zk.background_errors();
        drop(zk.start().await);
        spend(SECOND * 3600).await;
        assert!((100..500).contains(&refused.hits()), "{}", refused.hits());
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::AuthFailed));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        drop(refused);
        zk.states().until(|status| status.state.is_connected()).await.unwrap();
    });
}

// The cost of listeners, and their limits

/// CURATOR-495/344: a callback that blocked held up the connection. GH-1277: threads of closed
/// clients stayed.
#[test]
fn curator_495_idle_listeners_block_nothing_and_need_no_task() {
    simulated(async {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let server = TestServer::in_memory().await;
        let other = connected(&server).await;
        let zk = connected(&server).await;
        let before = tasks();
        let clones: Vec<_> = (0..10_000).map(|n| zk.with_deadline(n * SECOND)).collect();
        let listeners: Vec<_> =
            clones.iter().map(|zk| (zk.states(), zk.background_errors())).collect();
        let breakers: Vec<_> = clones
            .iter()
            .map(|zk| zk.states().circuit_breaking(RetryForever::new(SECOND)))
            .collect();
        assert_eq!(tasks(), before, "10,000 handles and their listeners");
        for _ in 0..50 {
            flap(&server, &zk).await;
        }
        expire(&server, &zk).await;
        zk.states().until(|status| status.session_epoch == 2).await.unwrap();
        zk.wait_connected().await.unwrap();
        zk.create("/a").await.unwrap();
        assert_eq!(tasks(), before);
        // No observer has missed the loss, not even an observer that reads for the first time.
        for (mut states, _) in listeners {
            let lost = states.next().await.unwrap();
            assert_eq!((lost.state, lost.session_epoch), (Lost, 1));
            assert_eq!(states.next().await.unwrap(), zk.status());
        }
        drop((clones, breakers));
        zk.close().await.unwrap();
        other.close().await.unwrap();
    });
}

/// CURATOR-472: closing from within a listener waited for itself.
#[test]
fn curator_472_a_listener_may_close_the_framework() {
    simulated_with(async |server, zk| {
        let listener = tokio::spawn({
            let zk = zk.clone();
            async move {
                zk.states().until(|status| status.state == Suspended).await.unwrap();
                zk.close().await
            }
        });
        server.stop().await;
        listener.await.unwrap().unwrap_err();
        assert_eq!(zk.state(), Closed);
    });
}

/// CURATOR-673/677 and 126: operations in flight when the client was closed never learned of it, or
/// failed with an internal error.
#[test]
fn curator_673_the_close_ends_everything_that_is_under_way() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        server.hold();
        let mut all = tokio::task::JoinSet::new();
        for n in 0..100 {
            match n % 4 {
                0 => all.spawn({
                    let read = zk.get_data("/a").into_future();
                    async move { read.await.map(drop) }
                }),
                1 => all.spawn({
                    let write = zk.create(format!("/{n}")).protected().into_future();
                    async move { write.await.map(drop) }
                }),
                2 => all.spawn({
                    let zk = zk.clone();
                    async move { zk.delete("/none").guaranteed().await }
                }),
                _ => all.spawn({
                    let zk = zk.clone();
                    async move { zk.add_watch("/a").await.map(drop) }
                }),
            };
        }
        tokio::task::yield_now().await;
        zk.close().await.unwrap_err();
        while let Some(ended) = all.join_next().await {
            let error = ended.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        }
        // After the close no task is left (GH-1277).
        drop(zk);
    });
}

#[test]
fn gh_1277_a_closed_framework_leaves_no_task() {
    simulated(async {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let server = TestServer::in_memory().await;
        let before = tasks();
        for _ in 0..20 {
            let zk = start(builder(&server).ensemble_tracker(true)).await;
            let _listeners = (zk.states(), zk.background_errors());
            zk.create("/a").mode(CreateMode::Ephemeral).await.unwrap();
            zk.close().await.unwrap();
        }
        // The server's entries for connections that have just ended.
        let ended = wait::until(async || tasks() <= before);
        assert!(timeout(SECOND, ended).await.is_ok(), "{} tasks of {before}", tasks());
    });
}

/// A recipe under a circuit breaker ends its term at the first sign, and begins the next one when
/// the network is calm.
#[test]
fn a_leader_under_a_circuit_breaker_does_not_flap() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).circuit_breaker(RetryForever::new(10 * SECOND))).await;
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        let first = candidate.await_leadership().await.unwrap();
        let mut told = zk.states();
        assert_eq!(told.next().await.unwrap().state, Connected);
        let began = Instant::now();
        let mut epoch = zk.status().epoch;
        for _ in 0..5 {
            server.disconnect_all();
            first.lost().await;
            // Operations continue, and wait for the connection.
            zk.create("/a").idempotent().await.unwrap();
            assert!(!candidate.has_leadership());
            assert_eq!(zk.state(), Suspended);
            assert_eq!(zk.status().epoch, epoch + 2, "cut, and connected again");
            epoch += 2;
        }
        assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
        assert_eq!(told.next().await.unwrap().state, Suspended);
        assert_eq!(told.next().await.unwrap().state, Reconnected { same_session: true });
        assert!(began.elapsed() >= 10 * SECOND);
        let second = candidate.await_leadership().await.unwrap();
        assert_eq!(second.fencing_token(), first.fencing_token());
        // The loss of a session is reported even while the circuit is open.
        server.disconnect_all();
        until_state(&zk, Suspended).await;
        assert!(server.expire(session_id(&zk).get()).await);
        until_state(&zk, Lost).await;
        zk.create("/b").await.unwrap();
        assert_eq!(zk.state(), Lost);
        let third = candidate.await_leadership().await.unwrap();
        assert!(third.fencing_token() > second.fencing_token());
        zk.close().await.unwrap();
    });
}
