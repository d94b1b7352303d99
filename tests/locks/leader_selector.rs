//! [`LeaderSelector`] when all is well: when the body runs, and when it has ended.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;
use zk_curator::{CuratorFramework, ErrorKind, FencingToken};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::leader::{Error, LeaderSelector};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{past, spend};
use zk_curator_tests::{
    assert_matches, closes_clean, connected, in_memory, simulated_on, simulated_with, until,
};

const ELECTION: &str = "/services/orders";

fn selector(zk: &CuratorFramework) -> LeaderSelector {
    LeaderSelector::new(zk, ELECTION)
}

/// Notes the number of nodes of the election when it is dropped.
struct AtTheEnd(Arc<TestServer>, Arc<Mutex<Option<usize>>>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        *self.1.lock().unwrap() = Some(self.0.probe().children(ELECTION).len());
    }
}

/// A body that never ends by itself, in a task of its own, once it runs; and what its end finds.
async fn leading(
    server: &Arc<TestServer>,
    selector: &LeaderSelector,
) -> (JoinHandle<Result<(), Error>>, Arc<Mutex<Option<usize>>>) {
    let found = Arc::default();
    let end = AtTheEnd(Arc::clone(server), Arc::clone(&found));
    let running = selector.clone();
    let task = tokio::spawn(async move {
        running
            .run_once(|_| async move {
                let _end = end;
                pending::<()>().await;
            })
            .await
    });
    until(server, |_| selector.has_leadership()).await;
    yield_now().await;
    (task, found)
}

async fn started() -> (Arc<TestServer>, CuratorFramework) {
    let (server, zk) = in_memory().await;
    (Arc::new(server), zk)
}

#[test]
fn the_layout_is_curators_and_the_body_leads() {
    simulated_on(started, async |(server, zk)| {
        let selector = selector(&zk).id("me");
        let (probe, own) = selector
            .run_once(|leadership| {
                let (server, selector) = (&server, &selector);
                async move {
                    assert!(selector.has_leadership());
                    assert_eq!(selector.leader().await.unwrap().unwrap().path, leadership.path());
                    leadership.fenced().create("/report", "").commit().await.unwrap();
                    (server.probe(), leadership.path().to_owned())
                }
            })
            .await
            .unwrap();
        let [name] = probe.children(ELECTION)[..] else { panic!("{probe}") };
        assert_eq!(&name[40..], "lock-0000000000");
        assert_eq!(probe.data(&own).unwrap(), "me");
        assert!(probe.is_container(ELECTION));
        assert!(!selector.has_leadership());
        assert!(server.probe().children(ELECTION).is_empty());
        zk.delete("/report").await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn bodies_run_one_after_the_other_in_the_order_of_arrival() {
    simulated_on(started, async |(server, zk)| {
        let (inside, order) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let run = async |number: usize| {
            let body = async |token: FencingToken| {
                assert!(!inside.swap(true, Ordering::SeqCst));
                yield_now().await;
                order.lock().unwrap().push((number, token));
                inside.store(false, Ordering::SeqCst);
            };
            selector(&zk).run_once(|leadership| body(leadership.fencing_token())).await.unwrap();
        };
        let gate = Notify::new();
        let first = selector(&zk);
        let hold = first.run_once(|_| gate.notified());
        let contest = async {
            until(&server, |probe| probe.children(ELECTION).len() == 1).await;
            let second = async {
                until(&server, |probe| probe.children(ELECTION).len() == 2).await;
                run(2).await;
            };
            let third = async {
                until(&server, |probe| probe.children(ELECTION).len() == 3).await;
                gate.notify_one();
            };
            tokio::join!(run(1), second, third);
        };
        let (held, ()) = tokio::join!(hold, contest);
        held.unwrap();
        let order = order.lock().unwrap();
        assert_eq!(order.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2]);
        assert!(order[0].1 < order[1].1);
    });
}

#[test]
fn a_body_ends_before_its_node_goes_away() {
    simulated_on(started, async |(server, zk)| {
        // Done.
        let found = Arc::default();
        let end = AtTheEnd(Arc::clone(&server), Arc::clone(&found));
        selector(&zk).run_once(|_| async move { drop(end) }).await.unwrap();
        assert_eq!(*found.lock().unwrap(), Some(1));

        // Interrupted.
        let interrupted = selector(&zk);
        let (task, found) = leading(&server, &interrupted).await;
        assert!(interrupted.interrupt_leadership());
        assert!(matches!(task.await.unwrap(), Err(Error::Interrupted { .. })));
        assert_eq!((*found.lock().unwrap(), server.probe().children(ELECTION).len()), (Some(1), 0));
        assert!(!interrupted.interrupt_leadership());

        // Dropped.
        let (task, found) = leading(&server, &selector(&zk)).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(*found.lock().unwrap(), Some(1));
        until(&server, |probe| probe.children(ELECTION).is_empty()).await;

        // Panicking.
        let found = Arc::default();
        let end = AtTheEnd(Arc::clone(&server), Arc::clone(&found));
        let panics = selector(&zk);
        let body = |_| async move {
            let _end = end;
            panic!("on purpose");
        };
        assert!(
            tokio::spawn(async move { panics.run_once(body).await }).await.unwrap_err().is_panic()
        );
        assert_eq!(*found.lock().unwrap(), Some(1));
        until(&server, |probe| probe.children(ELECTION).is_empty()).await;
    });
}

#[test]
fn a_body_ends_when_its_node_is_deleted_and_the_run_says_so() {
    simulated_on(started, async |(server, zk)| {
        let selector = selector(&zk);
        let (task, found) = leading(&server, &selector).await;
        zk.delete(selector.leader().await.unwrap().unwrap().path).await.unwrap();
        assert!(matches!(task.await.unwrap(), Err(Error::Lost { .. })));
        assert_eq!(*found.lock().unwrap(), Some(0));
        // Deleted at the very end, when no task checks any more.
        let lost = selector.run_once(async |leadership| {
            let _held =
                server.rule(|request| match request.is(zk_curator_proto::OpCode::GetData) {
                    true => zk_curator_testing::Verdict::Delay(Duration::from_millis(1)),
                    false => zk_curator_testing::Verdict::Pass,
                });
            connected(&server).await.delete(leadership.path()).await.unwrap();
        });
        assert!(matches!(lost.await, Err(Error::Lost { .. })));
    });
}

#[test]
fn run_queues_again_after_every_turn_until_closed() {
    simulated_on(started, async |(server, zk)| {
        let other = connected(&server).await;
        let (turns, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mine = selector(&zk);
        let theirs = selector(&other);
        let body = |counter: &AtomicUsize| {
            counter.fetch_add(1, Ordering::SeqCst);
            yield_now()
        };
        let (one, two) = (mine.run(|_| body(&turns)), theirs.run(|_| body(&served)));
        let close = async {
            until(&server, |_| turns.load(Ordering::SeqCst) >= 10).await;
            mine.close().await;
            theirs.close().await;
        };
        let (one, two, ()) = tokio::join!(one, two, close);
        one.unwrap();
        two.unwrap();
        let (turns, served) = (turns.into_inner(), served.into_inner());
        assert!(turns.abs_diff(served) <= 2, "they take turns: {turns}, {served}");
        assert!(server.probe().children(ELECTION).is_empty());
    });
}

#[test]
fn close_waits_for_the_body_and_stops_the_waiters() {
    simulated_on(started, async |(server, zk)| {
        let mine = selector(&zk);
        let finished = Arc::new(AtomicBool::new(false));
        let body = {
            let (mine, finished) = (mine.clone(), Arc::clone(&finished));
            move |_| async move {
                mine.closing().await;
                for _ in 0..100 {
                    yield_now().await;
                }
                finished.store(true, Ordering::SeqCst);
            }
        };
        let task = tokio::spawn({
            let mine = mine.clone();
            async move { mine.run_once(body).await }
        });
        until(&server, |_| mine.has_leadership()).await;
        let waiting = tokio::spawn({
            let mine = mine.clone();
            async move { mine.run_once(|_| pending::<()>()).await }
        });
        until(&server, |probe| probe.children(ELECTION).len() == 2).await;
        mine.close().await;
        assert!(finished.load(Ordering::SeqCst));
        assert!(server.probe().children(ELECTION).is_empty());
        task.await.unwrap().unwrap();
        assert!(matches!(waiting.await.unwrap(), Err(Error::Closed { .. })));
        assert!(matches!(mine.run_once(|_| pending::<()>()).await, Err(Error::Closed { .. })));
        mine.run(|_| pending()).await.unwrap_err();
        // Another one at the same path is another one.
        selector(&zk).run_once(|_| async {}).await.unwrap();
    });
}

#[test]
fn a_path_that_is_not_valid_is_refused() {
    simulated_on(started, async |(_server, zk)| {
        let refused = LeaderSelector::new(&zk, "no/path").run_once(|_| async {}).await;
        assert_matches!(refused, Err(Error::Framework(error))
            if error.kind() == ErrorKind::InvalidPath);
    });
}

#[test]
fn a_run_that_is_stopped_may_finish_its_turn() {
    simulated_on(started, async |(server, zk)| {
        let selector = selector(&zk);
        let (stop, turns) = (Shutdown::new(), AtomicUsize::new(0));
        let body = |_| {
            stop.begin();
            async {
                spend(Duration::from_secs(5)).await;
                turns.fetch_add(1, Ordering::Relaxed);
            }
        };
        selector.run(body).until(stop.clone().drain(Duration::from_secs(60))).await.unwrap();
        assert_eq!(turns.into_inner(), 1);
        assert!(server.probe().children(ELECTION).is_empty(), "{}", server.probe());
        // It is the run that was stopped, not the selector.
        assert_eq!(selector.run_once(|_| async { 7 }).await.unwrap(), 7);
    });
}

#[test]
fn a_turn_that_overruns_is_dropped_before_its_node_is_deleted() {
    simulated_on(started, async |(server, zk)| {
        let selector = selector(&zk);
        let found = Arc::default();
        let (stop, mut end) =
            (Shutdown::new(), Some(AtTheEnd(Arc::clone(&server), Arc::clone(&found))));
        let body = |_| {
            stop.begin();
            let end = end.take();
            async {
                let _end = end;
                pending::<()>().await;
            }
        };
        selector.run(body).until(stop.clone().drain(Duration::from_secs(5))).await.unwrap();
        assert_eq!(*found.lock().unwrap(), Some(1), "the node went before the body");
        assert!(server.probe().children(ELECTION).is_empty(), "{}", server.probe());
    });
}

#[test]
fn stopped_waiter_leaves_queue() {
    simulated_on(started, async |(server, zk)| {
        let other = connected(&server).await;
        let leader = selector(&other);
        let (leads, _) = leading(&server, &leader).await;
        let stop = Shutdown::new();
        let waiting = selector(&zk);
        let run = waiting.run(|_| async { panic!("it does not lead") }).until(stop.clone());
        let stopper = async {
            until(&server, |probe| probe.children(ELECTION).len() == 2).await;
            stop.begin();
        };
        let (ended, ()) = tokio::join!(run, stopper);
        ended.unwrap();
        assert_eq!(server.probe().children(ELECTION).len(), 1, "{}", server.probe());
        leads.abort();
    });
}

/// The first run is over, because another client has deleted its node, but its task is not polled
/// before the next one leads.
#[test]
fn runs_of_one_selector_do_not_hide_each_other() {
    simulated_on(started, async |(server, zk)| {
        let selector = selector(&zk);
        let path = Mutex::new(String::new());
        let mut first = Box::pin(selector.run_once(|leadership| {
            leadership.path().clone_into(&mut path.lock().unwrap());
            pending::<()>()
        }));
        tokio::select! {
            biased;
            _ = &mut first => panic!("the body never ends"),
            _ = until(&server, |_| selector.has_leadership()) => {}
        }
        let (second, _) = {
            let running = selector.clone();
            let (leads, led) = tokio::sync::oneshot::channel();
            let task = tokio::spawn(async move {
                let body = |_| async move {
                    leads.send(()).unwrap();
                    pending::<()>().await;
                };
                running.run_once(body).await
            });
            until(&server, |probe| probe.children(ELECTION).len() == 2).await;
            let node = path.lock().unwrap().clone();
            zk.delete(node).await.unwrap();
            (task, led.await.unwrap())
        };
        assert!(matches!(first.await, Err(Error::Lost { .. })));
        assert!(selector.has_leadership(), "the second body runs");
        assert!(selector.interrupt_leadership());
        assert!(matches!(second.await.unwrap(), Err(Error::Interrupted { .. })));
        assert!(!selector.has_leadership());
        assert!(!selector.interrupt_leadership());
    });
}

#[test]
fn lost_run_that_is_not_dropped_yet_does_not_lead() {
    simulated_on(started, async |(server, zk)| {
        let selector = selector(&zk);
        let mut run = Box::pin(selector.run_once(|_| pending::<()>()));
        tokio::select! {
            biased;
            _ = &mut run => panic!("the body never ends"),
            _ = until(&server, |_| selector.has_leadership()) => {}
        }
        zk_curator_tests::expire(&server, &zk).await;
        zk_curator_tests::until_state(&zk, zk_curator::ConnectionState::Lost).await;
        assert!(!selector.has_leadership());
        assert!(!selector.interrupt_leadership(), "it has ended already");
        assert!(matches!(run.await, Err(Error::Lost { .. })));
    });
}

#[test]
fn a_body_that_returns_immediately_leads_ever_more_rarely() {
    simulated_with(async |server, zk| {
        let selector = LeaderSelector::new(&zk, "/election");
        let terms = std::cell::Cell::new(0);
        let body = |_| {
            terms.set(terms.get() + 1);
            async {}
        };
        let ended = timeout(Duration::from_secs(60), selector.run(body)).await;
        assert!(ended.is_err());
        let requests = server.probe().total_requests();
        assert!((50..200).contains(&terms.get()), "{} terms", terms.get());
        assert!(requests < 1_000, "{requests}");

        // A body that does something is not held up.
        terms.set(0);
        let body = |_| {
            terms.set(terms.get() + 1);
            past(Duration::from_millis(100))
        };
        let ended = timeout(Duration::from_secs(60), selector.run(body)).await;
        assert!(ended.is_err());
        assert!(terms.get() > 500, "{} terms", terms.get());
    });
}
