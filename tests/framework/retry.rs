//! Retry policies as operations use them: attempts are counted at the server.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::retry::{
    BoundedExponentialBackoffRetry, ExponentialBackoffRetry, RetryForever, RetryNTimes,
    RetryOneTime, RetryPolicy, RetryScope, RetryUntilElapsed, SessionFailedRetryPolicy,
};
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, Error, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::{RuleGuard, RuleRequest, TestServer, Verdict};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, always, builder, expire, session_id, simulated, simulated_on, start,
    until_state,
};

const PAUSE: Duration = Duration::from_millis(100);

async fn framework(policy: impl RetryPolicy) -> (TestServer, CuratorFramework) {
    let server = TestServer::in_memory().await;
    let zk = start(builder(&server).retry(policy)).await;
    (server, zk)
}

/// Runs a test in simulated time with a framework that has this policy.
fn simulated_under(policy: impl RetryPolicy, test: impl AsyncFnOnce(TestServer, CuratorFramework)) {
    let setup = async || framework(policy).await;
    simulated_on(setup, async |(server, zk)| test(server, zk).await);
}

fn rule(server: &TestServer, opcode: OpCode, verdict: Verdict) -> RuleGuard {
    server.rule(
        move |request: &RuleRequest<'_>| if request.is(opcode) { verdict } else { Verdict::Pass },
    )
}

/// Returns the number of attempts of a read that the server always refuses, and its duration.
async fn attempts(policy: impl RetryPolicy) -> (u64, Duration) {
    let (server, zk) = framework(policy).await;
    let refused = rule(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout));
    let began = Instant::now();
    assert_eq!(zk.get_data("/a").await.unwrap_err().kind(), ErrorKind::OperationTimeout);
    assert_eq!(refused.hits(), server.probe().requests(OpCode::GetData));
    (refused.hits(), began.elapsed())
}

#[test]
fn each_policy_is_asked_as_documented() {
    simulated(async {
        assert_eq!(attempts(RetryOneTime::new(PAUSE)).await, (2, PAUSE));
        assert_eq!(attempts(RetryNTimes::new(0, PAUSE)).await, (1, Duration::ZERO));
        assert_eq!(attempts(RetryNTimes::new(3, PAUSE)).await, (4, 3 * PAUSE));
        // At the limit of ten pauses it has been sent eleven times.
        assert_eq!(attempts(RetryUntilElapsed::new(10 * PAUSE, PAUSE)).await, (11, 10 * PAUSE));
        let (sent, took) = attempts(ExponentialBackoffRetry::new(PAUSE, 4).seed(1)).await;
        assert!(sent == 5 && (4 * PAUSE..=30 * PAUSE).contains(&took), "{sent} in {took:?}");
        let (sent, took) = attempts(BoundedExponentialBackoffRetry::new(PAUSE, PAUSE, 4)).await;
        assert_eq!((sent, took), (5, 4 * PAUSE));
    });
}

#[test]
fn retry_forever_goes_on_as_long_as_there_is_a_connection() {
    simulated_under(RetryForever::new(PAUSE), async |server, zk| {
        let refused = rule(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout))
            .times(1000);
        let began = Instant::now();
        assert_eq!(zk.get_data("/a").await.unwrap_err().kind(), ErrorKind::NoNode);
        assert_eq!((refused.hits(), began.elapsed()), (1000, 1000 * PAUSE));
    });
}

#[test]
fn retry_forever_outlasts_an_outage() {
    simulated_under(RetryForever::new(PAUSE), async |server, zk| {
        zk.create("/a").data("x").await.unwrap();
        server.partition();
        until_state(&zk, ConnectionState::Lost).await;
        let mut read = Box::pin(zk.get_data("/a").into_future());
        let mut write = Box::pin(zk.set_data("/a", "y").into_future());
        let both = async {
            tokio::select! { _ = &mut read => (), _ = &mut write => () }
        };
        timeout(10 * CONNECTION_TIMEOUT, both).await.expect_err("one of them has given up");
        server.heal();
        assert_eq!(read.await.unwrap(), "x");
        assert_eq!(write.await.unwrap().version, 1);
    });
}

#[test]
fn an_outage_lasts_as_long_as_the_policy_says() {
    simulated(async {
        for (policy, lasts) in [
            (
                Arc::new(RetryUntilElapsed::new(4 * CONNECTION_TIMEOUT, PAUSE))
                    as Arc<dyn RetryPolicy>,
                4 * CONNECTION_TIMEOUT,
            ),
            (Arc::new(RetryUntilElapsed::new(PAUSE, PAUSE)), CONNECTION_TIMEOUT),
            (
                Arc::new(RetryUntilElapsed::new(2 * CONNECTION_TIMEOUT, Duration::ZERO)),
                2 * CONNECTION_TIMEOUT,
            ),
            (Arc::new(RetryNTimes::new(3, PAUSE)), CONNECTION_TIMEOUT + 3 * PAUSE),
            (Arc::new(RetryNTimes::new(0, PAUSE)), CONNECTION_TIMEOUT),
        ] {
            let (server, zk) = framework(Shared(Arc::clone(&policy))).await;
            server.partition();
            until_state(&zk, ConnectionState::Lost).await;
            let began = Instant::now();
            assert_eq!(zk.get_data("/a").await.unwrap_err().kind(), ErrorKind::ConnectionLoss);
            let took = began.elapsed();
            assert!((lasts..lasts + PAUSE).contains(&took), "{policy:?} lasts {took:?}");
        }
    });
}

/// A policy of any type.
#[derive(Debug)]
struct Shared(Arc<dyn RetryPolicy>);

impl RetryPolicy for Shared {
    fn next_delay(&self, retries: u32, elapsed: Duration, error: &Error) -> Option<Duration> {
        self.0.next_delay(retries, elapsed, error)
    }
}

/// CURATOR-559: retries within retries.
#[test]
fn curator_559_the_steps_of_one_operation_share_one_budget() {
    simulated_under(RetryNTimes::new(5, PAUSE), async |server, zk| {
        // The create of the node is accepted the first time, the create of its parents never.
        let refused =
            always(&server, OpCode::CreateContainer, Verdict::Refuse(ErrorCode::OperationTimeout));
        zk.create("/a/b/c").creating_parents_as_containers().await.unwrap_err();
        assert_eq!(refused.hits(), 6);
        drop(refused);

        // A create whose response is always lost, and whose node can never be searched for.
        zk.create("/p").await.unwrap();
        let lost = rule(&server, OpCode::Create2, Verdict::LoseReply).times(1);
        let refused = rule(&server, OpCode::Multi, Verdict::LoseRequest);
        let error = zk.create("/p/n").protected().await.unwrap_err();
        assert!(error.may_have_applied(), "the create is what the error is about: {error}");
        assert_eq!((lost.hits(), refused.hits()), (1, 5));
    });
}

#[test]
fn an_error_that_no_retry_mends_is_returned_at_once() {
    simulated_under(RetryForever::new(PAUSE), async |server, zk| {
        let began = Instant::now();
        for (code, kind) in [
            (ErrorCode::NoAuth, ErrorKind::NoAuth),
            (ErrorCode::InvalidAcl, ErrorKind::InvalidAcl),
            (ErrorCode::NotReadOnly, ErrorKind::ReadOnly),
            (ErrorCode::Unimplemented, ErrorKind::Unsupported),
            (ErrorCode::NoChildrenForEphemerals, ErrorKind::NoChildrenForEphemerals),
        ] {
            let refused = server.rule(move |request| match request.opcode() {
                OpCode::Create2 | OpCode::Delete | OpCode::Exists => Verdict::Refuse(code),
                _ => Verdict::Pass,
            });
            for error in [
                zk.create("/a").protected().await.unwrap_err(),
                zk.delete("/a").guaranteed().await.unwrap_err(),
                zk.exists("/a").await.unwrap_err(),
            ] {
                assert_eq!((error.kind(), error.code()), (kind, Some(code)));
                assert!(!error.is_retryable() && !error.may_have_applied());
            }
            // A read-only server may be followed by another one: the guaranteed delete stays owed.
            assert_eq!(refused.hits(), if code == ErrorCode::NotReadOnly { 4 } else { 3 });
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
    });
}

#[test]
fn reads_and_sync_are_sent_again_after_a_lost_response() {
    simulated_under(RetryOneTime::new(PAUSE), async |server, zk| {
        zk.create("/a").await.unwrap();
        for opcode in [OpCode::GetData, OpCode::Exists, OpCode::GetChildren2, OpCode::Sync] {
            let lost = rule(&server, opcode, Verdict::LoseReply).times(1);
            match opcode {
                OpCode::GetData => drop(zk.get_data("/a").await.unwrap()),
                OpCode::Exists => drop(zk.exists("/a").await.unwrap().unwrap()),
                OpCode::GetChildren2 => drop(zk.children("/a").await.unwrap()),
                _ => zk.sync("/a").await.unwrap(),
            }
            assert_eq!(lost.hits(), 1);
        }
    });
}

#[test]
fn reads_go_on_in_the_next_session() {
    simulated_under(RetryOneTime::new(PAUSE), async |server, zk| {
        zk.create("/a").data("1").await.unwrap();
        // It expires with the read in flight.
        let delayed = rule(&server, OpCode::GetData, Verdict::Delay(PAUSE)).times(1);
        let read = tokio::spawn(zk.get_data("/a").into_future());
        delayed.fired().await;
        expire(&server, &zk).await;
        assert_eq!(read.await.unwrap().unwrap(), "1");
        assert_eq!(zk.status().session_epoch, 2);
    });
}

/// Curator retries SESSIONEXPIRED by default, so an operation meant for one session is done in
/// another one (defect t).
#[test]
fn curator_defect_t_an_ephemeral_create_keeps_to_its_session() {
    simulated_under(RetryNTimes::new(5, PAUSE), async |server, zk| {
        let delayed = rule(&server, OpCode::Create2, Verdict::Delay(PAUSE)).times(1);
        let create = tokio::spawn(zk.create("/a").mode(CreateMode::Ephemeral).into_future());
        delayed.fired().await;
        expire(&server, &zk).await;
        let error = create.await.unwrap().unwrap_err();
        assert!(error.may_have_applied() || error.is_session_lost(), "{error}");
        zk.states().until(|status| status.session_epoch == 2).await.unwrap();
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().paths(), [""; 0]);
    });
}

#[test]
fn an_unsent_protected_ephemeral_create_enters_the_next_session() {
    simulated_under(RetryNTimes::new(5, PAUSE), async |server, zk| {
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        let create = |path: &str| zk.create(path).mode(CreateMode::Ephemeral);
        let plain = tokio::spawn(create("/plain").into_future());
        let protected = tokio::spawn(create("/protected").protected().into_future());
        until_state(&zk, ConnectionState::Lost).await;
        server.heal();
        let error = plain.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "create \"/plain\": session expired");
        let created = protected.await.unwrap().unwrap();
        assert_eq!(created.stat.ephemeral_owner, session_id(&zk).get());
        assert_eq!(server.probe().paths().len(), 1);
    });
}

#[test]
fn a_write_that_certainly_was_not_applied_is_sent_again() {
    simulated_under(RetryOneTime::new(PAUSE), async |server, zk| {
        zk.create("/a").await.unwrap();
        let moved = || server.rule(|_| Verdict::Refuse(ErrorCode::SessionMoved)).times(1);
        let rule = moved();
        assert_eq!(zk.set_data("/a", "x").await.unwrap().version, 1);
        drop(rule);
        let rule = moved();
        zk.transaction().set_data("/a", "y").commit().await.unwrap();
        drop(rule);
        let rule = moved();
        zk.create("/b").await.unwrap();
        drop(rule);
        let rule = moved();
        zk.delete("/b").await.unwrap();
        assert_eq!(rule.hits(), 1);
    });
}

/// A policy gets the documented arguments.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<(u32, Duration, ErrorKind)>>>);

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

impl RetryPolicy for Witness {
    fn next_delay(&self, retries: u32, elapsed: Duration, error: &Error) -> Option<Duration> {
        self.0.lock().unwrap().push((retries, elapsed, error.kind()));
        (retries < 2).then_some(PAUSE)
    }
}

#[test]
fn a_policy_receives_retry_count_elapsed_time_and_error() {
    simulated(async {
        let witness = Witness::default();
        let (server, zk) = framework(witness.clone()).await;
        let _refused = rule(&server, OpCode::Sync, Verdict::Refuse(ErrorCode::Throttled));
        zk.sync("/a").await.unwrap_err();
        let kind = ErrorKind::Throttled;
        assert_eq!(
            *witness.0.lock().unwrap(),
            [(0, Duration::ZERO, kind), (1, PAUSE, kind), (2, 2 * PAUSE, kind)]
        );
    });
}

// Budgets that are shared, overridden, or bound to a session.

/// CURATOR-559: loops within loops multiplied the attempts.
#[test]
fn curator_559_the_operations_of_a_scope_share_one_budget() {
    simulated_under(RetryNTimes::new(100, PAUSE), async |server, zk| {
        let refused = rule(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout));
        let scope = RetryScope::new(RetryNTimes::new(5, PAUSE));
        let scoped = zk.with_retry_scope(&scope);
        assert_eq!(scoped.get_data("/a").await.unwrap_err().kind(), ErrorKind::OperationTimeout);
        assert_eq!((refused.hits(), scope.retries()), (6, 5));
        // Nothing is left for the next one, through whatever handle of the scope.
        zk.with_retry_scope(&scope.clone()).get_data("/a").await.unwrap_err();
        assert_eq!((refused.hits(), scope.retries()), (7, 5));
        // A policy of its own is asked within the same budget.
        scoped.get_data("/a").retry(RetryNTimes::new(7, PAUSE)).await.unwrap_err();
        assert_eq!((refused.hits(), scope.retries()), (10, 7));
        // Each with its own memory.
        let remembers = Remembers::default();
        let scope = RetryScope::new(remembers.clone());
        let scoped = zk.with_retry_scope(&scope);
        scoped.get_data("/a").await.unwrap_err();
        scoped.get_data("/a").retry(RetryNTimes::new(4, PAUSE)).await.unwrap_err();
        scoped.get_data("/a").await.unwrap_err();
        assert_eq!((refused.hits(), scope.retries(), remembers.begun()), (10 + 4 + 2 + 1, 4, 1));
        let zk = zk.with_retry(remembers.clone());
        zk.get_data("/a").await.unwrap_err();
        zk.get_data("/a").await.unwrap_err();
        assert_eq!(remembers.begun(), 3, "one for each operation without a scope");
    });
}

/// Retries three times, by its own count.
#[derive(Debug, Clone, Default)]
struct Remembers {
    begun: Arc<Mutex<u32>>,
    left: Arc<Mutex<u32>>,
}

impl Remembers {
    fn begun(&self) -> u32 {
        *self.begun.lock().unwrap()
    }
}

impl RetryPolicy for Remembers {
    fn next_delay(&self, _: u32, _: Duration, _: &Error) -> Option<Duration> {
        let mut left = self.left.lock().unwrap();
        *left = left.checked_sub(1)?;
        Some(PAUSE)
    }

    fn begin(&self) -> Option<Box<dyn RetryPolicy>> {
        *self.begun.lock().unwrap() += 1;
        Some(Box::new(Self { left: Arc::new(Mutex::new(3)), ..Self::default() }))
    }
}

#[test]
fn the_time_of_a_scope_runs_from_its_beginning() {
    simulated_under(RetryNTimes::new(0, PAUSE), async |server, zk| {
        let refused = rule(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout));
        let scope = RetryScope::new(RetryUntilElapsed::new(10 * PAUSE, PAUSE));
        tokio::time::advance(8 * PAUSE).await;
        zk.with_retry_scope(&scope).get_data("/a").await.unwrap_err();
        assert_eq!((refused.hits(), scope.retries()), (3, 2));
    });
}

#[test]
fn a_policy_is_overridden_for_a_call_or_a_handle() {
    simulated_under(RetryNTimes::new(1, PAUSE), async |server, zk| {
        let refused = rule(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout));
        let handle = zk.with_retry(RetryNTimes::new(4, PAUSE));
        for (read, attempts) in [
            (zk.get_data("/a"), 2),
            (zk.get_data("/a").retry(RetryNTimes::new(2, PAUSE)), 3),
            (handle.get_data("/a"), 5),
            (handle.using_namespace("n").unwrap().get_data("/a"), 5),
            (handle.get_data("/a").retry(RetryNTimes::new(0, PAUSE)), 1),
        ] {
            let before = refused.hits();
            read.await.unwrap_err();
            assert_eq!(refused.hits() - before, attempts);
        }
    });
}

/// Curator retries SESSIONEXPIRED unless it is told not to (defect t).
#[test]
fn curator_defect_t_session_failed_retry_policy_delegates() {
    simulated(async {
        let policy = SessionFailedRetryPolicy::new(RetryNTimes::new(3, PAUSE));
        let (server, zk) = framework(policy).await;
        let refused = rule(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout));
        zk.get_data("/a").await.unwrap_err();
        assert_eq!(refused.hits(), 4);
        drop(refused);
        let expired = rule(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::SessionExpired));
        assert_eq!(zk.get_data("/a").await.unwrap_err().kind(), ErrorKind::SessionExpired);
        assert_eq!(expired.hits(), 1);
    });
}

/// Curator: what belongs to one session slips into the next one (defect t).
#[test]
fn curator_defect_t_a_session_bound_handle_ends_with_it() {
    simulated_under(RetryForever::new(PAUSE), async |server, zk| {
        let bound = zk.bound_to_session().unwrap();
        bound.create("/a").await.unwrap();
        let delayed = rule(&server, OpCode::GetData, Verdict::Delay(PAUSE)).times(1);
        let read = tokio::spawn(bound.get_data("/a").into_future());
        delayed.fired().await;
        expire(&server, &zk).await;
        let error = read.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::SessionExpired, "get_data"));
        zk.states().until(|status| status.session_epoch == 2).await.unwrap();
        zk.wait_connected().await.unwrap();
        let before = server.probe().total_requests();
        for error in [
            bound.create("/b").await.unwrap_err(),
            bound.create("/b").mode(CreateMode::Ephemeral).protected().await.unwrap_err(),
            bound.transaction().create("/b", "").await.unwrap_err(),
            bound.exists("/a").await.unwrap_err(),
        ] {
            assert_eq!(
                (error.kind(), error.may_have_applied()),
                (ErrorKind::SessionExpired, false)
            );
        }
        assert_eq!(server.probe().total_requests(), before);
        zk.bound_to_session().unwrap().exists("/a").await.unwrap().unwrap();
    });
}

#[test]
fn a_body_is_run_again_in_the_next_session_from_its_beginning() {
    simulated_under(RetryNTimes::new(5, PAUSE), async |server, zk| {
        let runs = Arc::new(Mutex::new(0));
        let last = zk
            .in_one_session(|bound| {
                let (zk, server, runs) = (&zk, &server, Arc::clone(&runs));
                async move {
                    *runs.lock().unwrap() += 1;
                    let run = *runs.lock().unwrap();
                    bound.create(format!("/{run}")).mode(CreateMode::Ephemeral).await?;
                    if run < 3 {
                        expire(server, zk).await;
                    }
                    bound.sync("/").await?;
                    Ok(run)
                }
            })
            .await
            .unwrap();
        assert_eq!(last, 3);
        assert_eq!((zk.status().session_epoch, server.probe().paths()), (3, vec!["/3".to_owned()]));
        let failed = zk.in_one_session(|bound| async move { bound.get_data("/none").await }).await;
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::NoNode);
        let never = zk.with_retry(RetryNTimes::new(0, PAUSE));
        let body = |bound: CuratorFramework| {
            let (zk, server) = (&zk, &server);
            async move {
                expire(server, zk).await;
                bound.sync("/").await
            }
        };
        assert_eq!(never.in_one_session(body).await.unwrap_err().kind(), ErrorKind::SessionExpired);
    });
}
