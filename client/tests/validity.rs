//! The time until which a session is certain, as code sees it that runs before the client's own
//! task, and after a suspension of the machine.

#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::common::{
    TIMEOUT, builder, connected, create, cut, id, is_connected, simulated_with, start, until,
};
use tokio::time::Instant;
use zk_curator_client::{BackgroundTask, Clock, ExpiredBy, SessionState, Spawn, ZooKeeper};
use zk_curator_testing::wait::{idle, past, spend};

const EXPIRED: SessionState = SessionState::Expired(ExpiredBy::Clock);

/// Returns `true` if the session may be over by now.
fn is_overdue(zk: &ZooKeeper) -> bool {
    zk.valid_until().expect("a session") <= Instant::now()
}

/// Stops the task of a client, as a stop of its runtime would.
#[derive(Debug, Default)]
struct Gate {
    closed: Mutex<Option<Waker>>,
}

impl Gate {
    fn close(&self) {
        *self.closed.lock().unwrap() = Some(Waker::noop().clone());
    }

    fn open(&self) {
        self.closed.lock().unwrap().take().expect("it was closed").wake();
    }
}

#[derive(Debug)]
struct Gated(Arc<Gate>);

impl Spawn for Gated {
    fn spawn(&self, mut task: BackgroundTask) {
        let gate = Arc::clone(&self.0);
        tokio::spawn(poll_fn(move |cx| {
            if let Some(waker) = &mut *gate.closed.lock().unwrap() {
                waker.clone_from(cx.waker());
                return Poll::Pending;
            }
            Pin::new(&mut task).poll(cx)
        }));
    }
}

/// A clock whose machine sleeps when the test requests it.
#[derive(Debug, Default)]
struct Sleeper(Mutex<Duration>);

impl Sleeper {
    fn suspend(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for Sleeper {
    fn suspended(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn look_every(&self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

#[test]
fn a_session_in_use_stays_certain() {
    simulated_with(async |server| {
        let zk = builder(&server).connect().unwrap();
        assert_eq!(zk.valid_until(), None);
        zk.connected().await.unwrap();
        for _ in 0..1_000 {
            let left = zk.valid_until().unwrap() - Instant::now();
            // Pings are due after a third.
            assert!(left >= TIMEOUT * 2 / 3 && left <= TIMEOUT, "{left:?}");
            spend(Duration::from_millis(97)).await;
        }
        zk.close().await.unwrap();
        assert!(is_overdue(&zk));
    });
}

#[test]
fn a_client_without_a_server_is_certain_until_it_expires() {
    simulated_with(async |server| {
        let zk = connected(&server).await;
        let mut states = zk.states();
        server.partition();
        cut(&server, &zk).await;
        let certain = zk.valid_until().unwrap();
        until(&mut states, |state| state == EXPIRED).await;
        assert!(certain <= Instant::now() && certain.elapsed() <= Duration::from_millis(1));
        // A server receives the end of the session, which makes nothing certain again.
        server.heal();
        past(Duration::from_millis(500)).await;
        assert!(is_overdue(&zk));
    });
}

#[test]
fn a_stop_is_seen_before_the_task_of_the_client_runs() {
    simulated_with(async |server| {
        let gate = Arc::new(Gate::default());
        let zk = start(builder(&server).spawner(Arc::new(Gated(Arc::clone(&gate))))).await;
        let mut states = zk.states();
        gate.close();
        idle(TIMEOUT - Duration::from_millis(10)).await;
        assert!(!is_overdue(&zk));
        past(Duration::from_millis(10)).await;
        // The task does not know it yet.
        assert!(is_connected(zk.state()));
        assert!(is_overdue(&zk));
        gate.open();
        until(&mut states, |state| state.end().is_some()).await;
        assert!(is_overdue(&zk));
    });
}

#[test]
fn a_short_stop_costs_nothing() {
    simulated_with(async |server| {
        let gate = Arc::new(Gate::default());
        let zk = start(builder(&server).spawner(Arc::new(Gated(Arc::clone(&gate))))).await;
        let session = id(&zk);
        gate.close();
        spend(TIMEOUT / 2).await;
        gate.open();
        create(&zk, "/a").await.unwrap();
        assert!(!is_overdue(&zk) && id(&zk) == session);
    });
}

#[test]
fn a_suspension_counts_against_the_session() {
    simulated_with(async |server| {
        let clock = Arc::new(Sleeper::default());
        clock.suspend(Duration::from_secs(3_600));
        let zk = start(builder(&server).clock(Arc::clone(&clock) as Arc<dyn Clock>)).await;
        let (session, mut states) = (id(&zk), zk.states());
        // A short one costs nothing.
        clock.suspend(TIMEOUT / 4);
        create(&zk, "/a").await.unwrap();
        idle(TIMEOUT * 3).await;
        assert!(!is_overdue(&zk) && id(&zk) == session);

        clock.suspend(TIMEOUT);
        // Immediately, and by itself soon after.
        assert!(is_overdue(&zk));
        let begun = Instant::now();
        until(&mut states, |state| state == EXPIRED).await;
        assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_request_after_a_suspension_does_not_belong_to_the_session() {
    simulated_with(async |server| {
        let clock = Arc::new(Sleeper::default());
        let zk = start(builder(&server).clock(Arc::clone(&clock) as Arc<dyn Clock>)).await;
        clock.suspend(TIMEOUT * 10);
        let mut refused = pin!(create(&zk, "/a"));
        assert!(refused.as_mut().await.is_err());
        assert!(!server.probe().exists("/a"));
    });
}
