//! The life of a framework and the states of its connection.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, timeout};
use zk_curator::ConnectionState::{
    self, Closed, Connected, Connecting, Lost, ReadOnly, Reconnected, Suspended,
};
use zk_curator::{ConnectionStatus, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::wait::{idle, past, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, always, assert_clean_after_close, builder, closes_clean,
    connected, expire, once, real_time, session_id, simulated, simulated_each, simulated_on,
    simulated_with, start, until, until_state,
};

/// All states from the present one on, collected in a task until the framework is closed.
fn record(zk: &CuratorFramework) -> tokio::task::JoinHandle<Vec<ConnectionStatus>> {
    tokio::spawn(zk.states().into_stream().collect())
}

fn states(history: &[ConnectionStatus]) -> Vec<ConnectionState> {
    for pair in history.windows(2) {
        assert_eq!(pair[0].epoch + 1, pair[1].epoch, "a state is missing in {history:?}");
    }
    history.iter().map(|status| status.state).collect()
}

#[test]
fn a_framework_is_connecting_connected_and_closed() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = builder(&server).build().unwrap();
        let history = record(&zk);
        assert_eq!((zk.state(), zk.session()), (Connecting, None));
        tokio::task::yield_now().await;
        zk.start().await.unwrap();
        let session = zk.session().unwrap();
        assert_eq!(session.timeout, SESSION_TIMEOUT);
        assert_eq!(zk.status().server.as_deref(), Some(server.connect_string().as_str()));
        assert!(server.probe().session(session.id.get()).is_some());
        tokio::task::yield_now().await;
        zk.close().await.unwrap();
        let history = history.await.unwrap();
        assert_eq!(states(&history), [Connecting, Connected, Closed]);
        assert_eq!(
            history.iter().map(|status| status.session_epoch).collect::<Vec<_>>(),
            [0, 1, 1]
        );
        assert_eq!((zk.state(), zk.session()), (Closed, None));
        assert_clean_after_close(&server);
    });
}

#[test]
fn a_cut_connection_is_suspended_and_resumes_its_session() {
    simulated_with(async |server, zk| {
        let history = record(&zk);
        let session = session_id(&zk);
        let mut states_of = zk.states();
        server.stop().await;
        let suspended = states_of.until(|status| status.state == Suspended).await.unwrap();
        assert_eq!(suspended.session.unwrap().id, session, "the session may live on");
        server.restart().await.unwrap();
        zk.wait_connected().await.unwrap();
        assert_eq!(session_id(&zk), session);
        assert_eq!(zk.state(), Reconnected { same_session: true });
        zk.close().await.unwrap();
        let history = history.await.unwrap();
        assert_eq!(history.last().unwrap().session_epoch, 1);
        assert_eq!(
            states(&history),
            [Connected, Suspended, Reconnected { same_session: true }, Closed,]
        );
    });
}

#[test]
fn an_expiry_is_suspended_then_lost_then_a_new_session() {
    simulated_with(async |server, zk| {
        let history = record(&zk);
        let old = session_id(&zk);
        expire(&server, &zk).await;
        zk.states().until(|status| status.session_epoch == 2).await.unwrap();
        assert_ne!(session_id(&zk), old);
        tokio::task::yield_now().await;
        zk.close().await.unwrap();
        let history = history.await.unwrap();
        assert_eq!(
            states(&history),
            [Connected, Suspended, Lost, Reconnected { same_session: false }, Closed,]
        );
        assert_eq!(history[2].session, None);
        assert_eq!(
            history.iter().map(|status| status.session_epoch).collect::<Vec<_>>(),
            [1, 1, 1, 2, 2]
        );
        assert_clean_after_close(&server);
    });
}

/// CURATOR-247/134/185 and 405/561: LOST is reported at the end of the session, by our own clock if
/// no server can be reached: never early, and never not at all.
#[test]
fn curator_247_561_a_partition_is_lost_at_the_session_timeout() {
    simulated(async {
        // CURATOR-460: the timeout that the server has granted counts.
        let server = TestServer::builder().tcp(false).max_session_timeout(SESSION_TIMEOUT / 2);
        let server = server.start().await.unwrap();
        let zk = connected(&server).await;
        let granted = zk.session().unwrap().timeout;
        assert_eq!(granted, SESSION_TIMEOUT / 2);
        let ownership = zk.create("/a").mode(CreateMode::Ephemeral).owned().await.unwrap();
        let mut states = zk.states();
        let cut = Instant::now();
        server.partition();
        states.until(|status| status.state == Suspended).await.unwrap();
        assert!(!ownership.ownership().is_session_lost());
        let suspended = cut.elapsed();
        assert!(suspended <= granted * 2 / 3 + Duration::from_millis(1), "{suspended:?}");
        states.until(|status| status.state == Lost).await.unwrap();
        assert!(
            ownership.ownership().is_session_lost(),
            "guards learn of it no later than listeners"
        );
        let elapsed = cut.elapsed();
        assert!(elapsed <= granted && elapsed > granted * 9 / 10, "{elapsed:?}");
        // Stuck for as long as the partition lasts, and not a moment longer than the next attempt.
        tokio::time::advance(20 * granted).await;
        assert_eq!(zk.state(), Lost);
        server.heal();
        let status = states.until(|status| status.state.is_connected()).await.unwrap();
        assert_eq!(status.state, Reconnected { same_session: false });
        assert_eq!(status.session_epoch, 2);
        drop(ownership);
        zk.close().await.unwrap();
    });
}

/// CURATOR-525: a request that fails late, after the reconnect, changed the state.
#[test]
fn curator_525_a_request_that_fails_does_not_change_the_state() {
    simulated_with(async |server, zk| {
        let history = record(&zk);
        // Not by `SessionMoved`, which concerns the connection.
        for code in [ErrorCode::ConnectionLoss, ErrorCode::Throttled, ErrorCode::OperationTimeout] {
            let refused = always(&server, OpCode::GetData, Verdict::Refuse(code));
            zk.get_data("/").await.unwrap_err();
            assert!(refused.hits() > 1);
        }
        zk.close().await.unwrap();
        assert_eq!(states(&history.await.unwrap()), [Connected, Closed]);
    });
}

/// Curator's queue of 25 drops the oldest states (61; defect k): a slow listener may miss LOST.
/// Here it sees LOST, the latest state, and from the epochs how many states it has missed.
#[test]
fn curator_61_defect_k_a_slow_listener_sees_every_lost_session() {
    simulated_with(async |server, zk| {
        let mut slow = zk.states();
        let first = slow.next().await.unwrap();
        for flap in 0..40 {
            let mut watcher = zk.states();
            if flap == 20 {
                expire(&server, &zk).await;
            } else {
                server.disconnect(session_id(&zk).get());
            }
            let epoch = watcher.next().await.unwrap().epoch;
            watcher
                .until(|status| status.epoch > epoch && status.state.is_connected())
                .await
                .unwrap();
        }
        let lost = slow.next().await.unwrap();
        assert_eq!((lost.state, lost.session), (Lost, None));
        assert_eq!(lost.epoch, first.epoch + 2 * 20 + 2);
        let latest = slow.next().await.unwrap();
        assert_eq!(latest.state, Reconnected { same_session: true });
        assert_eq!(latest.epoch, first.epoch + 2 * 39 + 3);
        assert_eq!(latest.session_epoch, first.session_epoch + 1);
        zk.close().await.unwrap();
        assert_eq!(slow.next().await.unwrap().state, Closed);
        assert_eq!(slow.next().await, None);
    });
}

#[test]
fn until_looks_at_the_present_state_first() {
    simulated_with(async |_server, zk| {
        let mut states = zk.states();
        for _ in 0..2 {
            states.until(|status| status.state == Connected).await.unwrap();
        }
        zk.close().await.unwrap();
        assert_eq!(states.until(|status| status.state == Lost).await, None);
    });
}

#[test]
fn a_start_without_a_server_times_out_and_keeps_trying() {
    simulated_on(TestServer::in_memory, async |server| {
        server.stop().await;
        let zk = builder(&server).build().unwrap();
        let began = Instant::now();
        let error = zk.start().await.unwrap_err();
        assert_eq!(began.elapsed(), CONNECTION_TIMEOUT);
        assert_eq!((error.kind(), error.operation()), (ErrorKind::ConnectionLoss, "start"));
        assert_eq!(zk.state(), Connecting);
        server.restart().await.unwrap();
        let status = zk.wait_connected().await.unwrap();
        assert_eq!(status.state, Connected);
        zk.create("/a").await.unwrap();
    });
}

#[test]
fn a_framework_starts_once() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = builder(&server).build().unwrap();
        let (first, second) = tokio::join!(zk.start(), zk.start());
        first.unwrap();
        assert_eq!(second.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(
            zk.start().await.unwrap_err().to_string(),
            "start: invalid argument (started before)"
        );
        assert_eq!(server.probe().sessions().len(), 1);
        zk.close().await.unwrap();
        assert_eq!(zk.start().await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn close_may_be_called_by_many_and_before_the_start() {
    simulated_with(async |server, zk| {
        let (one, two) = tokio::join!(zk.close(), zk.close());
        one.unwrap();
        two.unwrap();
        closes_clean(&server, &zk).await;

        let latent = builder(&server).build().unwrap();
        latent.close().await.unwrap();
        assert_eq!(latent.state(), Closed);
        assert_eq!(latent.wait_connected().await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

/// CURATOR-297: start and close in quick succession.
#[test]
fn curator_297_close_during_start_leaves_no_session() {
    real_time(async {
        let server = TestServer::start().await;
        for _ in 0..20 {
            let zk = builder(&server).build().unwrap();
            let starting = tokio::spawn({
                let zk = zk.clone();
                async move { zk.start().await }
            });
            tokio::task::yield_now().await;
            zk.close().await.unwrap();
            if let Err(error) = starting.await.unwrap() {
                assert_eq!((error.kind(), error.operation()), (ErrorKind::Closed, "start"));
            }
        }
        // A session whose opening was cut short ends by itself, but here none is cut short.
        until(&server, |probe| probe.sessions().is_empty()).await;
    });
}

#[test]
fn close_without_a_server_says_so_within_its_timeouts() {
    simulated_on(TestServer::in_memory, async |server| {
        let close_timeout = Duration::from_secs(2);
        let zk = start(builder(&server).close_timeout(close_timeout)).await;
        server.partition();
        let began = Instant::now();
        let error = zk.close().await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::ConnectionLoss, "close"));
        assert_eq!(began.elapsed(), close_timeout, "no cleanup was pending");
        assert_eq!(zk.state(), Closed);
    });
}

#[test]
fn operations_fail_by_name_before_the_start_and_after_the_close() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = builder(&server).build().unwrap();
        for kind in [ErrorKind::NotStarted, ErrorKind::Closed] {
            let errors = [
                zk.create("/a").protected().await.unwrap_err(),
                zk.delete("/a").guaranteed().await.unwrap_err(),
                zk.exists("/a").await.unwrap_err(),
                zk.get_data("/a").await.unwrap_err(),
                zk.set_data("/a", "").await.unwrap_err(),
                zk.children("/a").await.unwrap_err(),
                zk.sync("/a").await.unwrap_err(),
                zk.transaction().check("/a", None).commit().await.unwrap_err(),
            ];
            let operations = [
                "create",
                "delete",
                "exists",
                "get_data",
                "set_data",
                "children",
                "sync",
                "transaction",
            ];
            for (error, operation) in errors.into_iter().zip(operations) {
                assert_eq!(
                    (error.kind(), error.operation(), error.path()),
                    (kind, operation, "/a")
                );
                assert!(!error.may_have_applied());
            }
            if kind == ErrorKind::NotStarted {
                zk.start().await.unwrap();
                zk.close().await.unwrap();
            }
        }
    });
}

/// CURATOR-729/720: retries went on after the close.
#[test]
fn curator_720_close_ends_operations_that_wait_to_try_again() {
    simulated_on(TestServer::in_memory, async |server| {
        let hour = Duration::from_secs(3600);
        let zk = start(builder(&server).retry(zk_curator::retry::RetryForever::new(hour))).await;
        let refused =
            always(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout));
        let reading = tokio::spawn(zk.get_data("/a").into_future());
        refused.fired().await;
        let began = Instant::now();
        zk.close().await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
        assert!(began.elapsed() < hour);
    });
}

#[test]
fn the_last_handle_closes_the_session_in_the_background() {
    real_time(async {
        let server = TestServer::start().await;
        let zk = connected(&server).await;
        let mut states = zk.states();
        let node = zk.create("/a").mode(CreateMode::Ephemeral).owned().await.unwrap();
        drop(zk);
        // A guard is a handle too.
        assert_eq!(states.current().state, Connected);
        drop(node);
        states.until(|status| status.state == Closed).await.unwrap();
        until(&server, |probe| probe.sessions().is_empty() && probe.paths().is_empty()).await;
    });
}

#[test]
fn the_last_handle_may_be_dropped_where_there_is_no_runtime() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(TestServer::start());
    let zk = runtime.block_on(connected(&server));
    let node = runtime.block_on(zk.create("/a").owned().into_future()).unwrap();
    drop(node);
    drop(zk);
    let gone = async {
        until(&server, |probe| probe.sessions().is_empty() && probe.paths().is_empty()).await
    };
    runtime.block_on(gone);
}

#[test]
fn the_end_of_the_runtime_ends_what_other_runtimes_wait_for() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    };
    let (short, long) = (runtime(), runtime());
    let server = long.block_on(TestServer::start());
    let zk = short.block_on(connected(&server));
    let node = short.block_on(zk.create("/a").owned().into_future()).unwrap();
    let mut errors = zk.background_errors();
    drop(short);
    long.block_on(async {
        timeout(Duration::from_secs(120), async {
            node.ownership().lost().await;
            let error = zk.close().await.unwrap_err();
            let left = error.left_behind().unwrap();
            assert_eq!(
                (left.paths(), left.session_failure().unwrap().kind()),
                (&["/a".to_owned()][..], ErrorKind::Closed)
            );
            let told = errors.next().await.unwrap();
            assert!(told.to_string().contains("its runtime ended"), "{told}");
            assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::LeftBehind);
            assert!(errors.next().await.is_none());
            assert_eq!(zk.get_data("/a").await.unwrap_err().kind(), ErrorKind::Closed);
        })
        .await
        .expect("a call waits for a task that has gone");
    });
}

#[test]
fn credentials_are_on_every_connection_and_in_every_session() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = builder(&server).authorization("digest", "me:secret").build().unwrap();
        assert!(
            !format!("{zk:?} {:?}", builder(&server).authorization("digest", "me:secret"))
                .contains("secret")
        );
        zk.start().await.unwrap();
        let known = |probe: &zk_curator_testing::Probe| {
            probe
                .sessions()
                .iter()
                .all(|session| session.identities.iter().any(|who| who.contains("me")))
                && !probe.sessions().is_empty()
        };
        assert!(known(&server.probe()), "{}", server.probe());
        expire(&server, &zk).await;
        zk.states().until(|status| status.session_epoch == 2).await.unwrap();
        until(&server, known).await;
    });
}

#[test]
fn refused_credentials_fail_the_start_and_back_off() {
    simulated_on(TestServer::in_memory, async |server| {
        let refused = always(&server, OpCode::Auth, Verdict::Refuse(ErrorCode::AuthFailed));
        let zk = builder(&server).authorization("digest", "me:wrong").build().unwrap();
        let error = zk.start().await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::AuthFailed, "start"));
        let attempts = refused.hits();
        past(Duration::from_secs(10)).await;
        assert!((4..=5).contains(&(refused.hits() - attempts)), "{} attempts", refused.hits());
        drop(refused);
        zk.wait_connected().await.unwrap();
        zk.close().await.unwrap();
    });
}

#[test]
fn a_session_with_refused_credentials_is_ended_by_the_next_one() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).authorization("digest", "me:right")).await;
        zk.create("/e").mode(CreateMode::Ephemeral).await.unwrap();
        let refused = once(&server, OpCode::Auth, Verdict::Refuse(ErrorCode::AuthFailed));
        server.disconnect(session_id(&zk).get());
        refused.fired().await;
        zk.states()
            .until(|status| status.session_epoch == 2 && status.state.is_connected())
            .await
            .unwrap();
        // Its timeout is far away.
        timeout(Duration::from_secs(1), server.until(|probe| !probe.exists("/e"))).await.unwrap();
        assert_eq!(server.probe().sessions().len(), 1);
        zk.close().await.unwrap();
    });
}

#[test]
fn a_start_with_a_wrong_scheme_has_applied_nothing() {
    real_time(async {
        let server = TestServer::start().await;
        for auth in ["", "x"] {
            let zk = builder(&server).authorization("no-such-scheme", auth).build().unwrap();
            let error = zk.start().await.unwrap_err();
            assert_eq!(
                (error.kind(), error.may_have_applied()),
                (ErrorKind::AuthFailed, false),
                "{error}"
            );
        }
        let _slow = always(&server, OpCode::Auth, Verdict::Delay(Duration::from_millis(50)));
        let zk = builder(&server).authorization("no-such-scheme", "x").build().unwrap();
        let error = zk.start().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.may_have_applied()),
            (ErrorKind::AuthFailed, false),
            "{error}"
        );
    });
}

/// Some versions of the server ask for a permission to see whether a node exists (ZOOKEEPER-2590).
#[test]
fn credentials_that_are_accepted_need_no_permission_on_the_root() {
    simulated_on(TestServer::in_memory, async |server| {
        let refused = always(&server, OpCode::Exists, Verdict::Refuse(ErrorCode::NoAuth));
        connected(&server).await.create("/app").await.unwrap();
        for connect_string in ["memory:2181", "memory:2181/app"] {
            let zk = builder(&server).connect_string(connect_string);
            let _zk = start(zk.authorization("digest", "me:secret")).await;
        }
        assert!(refused.hits() >= 2);
    });
}

#[test]
fn everything_works_on_one_thread_over_tcp() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = TestServer::start().await;
        let zk = connected(&server).await;
        let watched = zk.exists("/a").watched().await.unwrap();
        let node = zk.create("/a").protected().owned();
        let other = tokio::spawn(zk.create("/a").into_future());
        let node = timeout(Duration::from_secs(120), node.into_future()).await.unwrap().unwrap();
        other.await.unwrap().unwrap();
        watched.watch.await.unwrap();
        node.delete().await.unwrap();
        zk.delete("/a").await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn read_only_servers_are_accepted_if_allowed() {
    simulated_on(TestServer::in_memory, async |server| {
        let writer = connected(&server).await;
        writer.create("/a").data("1").await.unwrap();
        server.set_read_only(true);
        let strict = builder(&server).build().unwrap();
        assert_eq!(strict.start().await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
        let zk = start(builder(&server).read_only(true)).await;
        assert_eq!(zk.state(), ReadOnly);
        assert_eq!(zk.get_data("/a").await.unwrap(), "1");
        let error = zk.create("/b").await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::ReadOnly, false));
        let mut states = zk.states();
        server.set_read_only(false);
        let writable = |status: &ConnectionStatus| matches!(status.state, Reconnected { .. });
        states.until(writable).await.unwrap();
        zk.create("/b").await.unwrap();
        strict.wait_connected().await.unwrap();
    });
}

/// Servers that were away give every session its whole timeout again when they are back, also one
/// that its client has given up.
#[test]
fn a_session_given_up_ends_as_soon_as_the_next_is_connected() {
    for seconds in [2, 4, 6, 8, 60, 3600] {
        simulated_with(async |server, zk| {
            zk.create("/e").mode(CreateMode::Ephemeral).await.unwrap();
            let lost = session_id(&zk);
            server.stop().await;
            until_state(&zk, Lost).await;
            spend(Duration::from_secs(seconds)).await;
            assert!(server.probe().exists("/e"));
            server.restart().await.unwrap();
            let next = until_state(&zk, Reconnected { same_session: false }).await;
            // No message of this network takes any time, so nothing but round trips may be between.
            let connected = Instant::now();
            until(&server, |probe| !probe.exists("/e")).await;
            assert_eq!(connected.elapsed(), Duration::ZERO, "{seconds} s");
            let probe = server.probe();
            assert!(probe.session(lost.get()).is_none());
            assert_eq!(probe.sessions().len(), 1);
            assert!(probe.session(next.session.unwrap().id.get()).is_some());
            closes_clean(&server, &zk).await;
        });
    }
}

/// The response, or the connection, is lost on the way: it is tried again.
#[test]
fn the_farewell_is_repeated_until_a_server_has_taken_it() {
    let cases = [Verdict::Disconnect, Verdict::LoseRequest, Verdict::LoseReply];
    simulated_each(cases, async |verdict, server, zk| {
        zk.create("/e").mode(CreateMode::Ephemeral).await.unwrap();
        server.stop().await;
        until_state(&zk, Lost).await;
        spend(Duration::from_secs(60)).await;
        let lost = once(&server, OpCode::CloseSession, verdict);
        server.restart().await.unwrap();
        lost.fired().await;
        let begun = Instant::now();
        until(&server, |probe| !probe.exists("/e")).await;
        assert!(begun.elapsed() < SESSION_TIMEOUT, "{:?}", begun.elapsed());
        until(&server, |probe| probe.sessions().len() == 1).await;
        zk.close().await.unwrap();
    });
}

/// A service boots without ZooKeeper, responds to its readiness probe, and connects when there is a
/// server.
#[test]
fn a_framework_starts_before_its_server() {
    simulated_on(TestServer::in_memory, async |server| {
        server.stop().await;
        let zk = builder(&server).build().unwrap();
        assert_eq!(zk.connection_health().state, Connecting);
        zk.start_in_background().unwrap();
        let again = zk.start_in_background().unwrap_err();
        assert_eq!(
            (again.kind(), again.operation()),
            (ErrorKind::InvalidArgument, "start_in_background")
        );
        // Immediately: the first session is not open yet.
        let error = zk.exists("/a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
        let health = zk.connection_health();
        assert!(!health.is_ready());
        assert!(health.last_failure.is_some(), "{health}");
        server.restart().await.unwrap();
        zk.wait_connected().await.unwrap();
        zk.create("/a").await.unwrap();
        zk.close().await.unwrap();
        let closed = zk.start_in_background().unwrap_err();
        assert_eq!(closed.kind(), ErrorKind::Closed);
    });
}

#[test]
fn the_first_operation_waits_until_the_session_is_open() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = builder(&server).build().unwrap();
        zk.start_in_background().unwrap();
        zk.create("/a").await.unwrap();
        zk.close().await.unwrap();
    });
}

#[test]
fn health_reports_the_age_of_a_state_and_the_server() {
    simulated_with(async |server, zk| {
        let minute = Duration::from_secs(60);
        let connected = zk.connection_health();
        assert!(connected.is_ready());
        assert_eq!(connected.session, zk.session());
        assert!(connected.server.is_some());
        idle(minute).await;
        assert_eq!(zk.connection_health().lasted, connected.lasted + minute);

        server.partition();
        until_state(&zk, Suspended).await;
        let suspended = zk.connection_health();
        assert!(!suspended.is_ready());
        assert_eq!((suspended.lasted, suspended.server), (Duration::ZERO, None));
        assert!(suspended.session.is_some(), "it may live on");
        until_state(&zk, Lost).await;
        assert!(zk.connection_health().session.is_none());

        server.heal();
        zk.wait_connected().await.unwrap();
        let text = zk.connection_health().to_string();
        assert!(text.starts_with("reconnected for 0"), "{text}");
        zk.close().await.unwrap();
        assert_eq!(zk.connection_health().state, Closed);
    });
}
