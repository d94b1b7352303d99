//! Futures of elections, dropped at every point: nothing stays behind, and the next one leads.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_testing::{Probe, RuleGuard, TestServer, Verdict};
use zk_curator_tests::cancel::{self, each_step};
use zk_curator_tests::{
    assert_clean_after_close, connected, in_memory, poll_then_drop, session_id, simulated, until,
};

const ELECTION: &str = "/services/orders";
/// Drops the future that `run` makes at every step until it completes. While the session lives its node goes away, and
/// then somebody else leads; after all is closed, nothing is left. Says how many steps there were.
async fn at_every_step<T>(
    mut run: impl AsyncFnMut(CuratorFramework, CuratorFramework) -> T,
    prepare: impl Fn(&TestServer) -> Option<RuleGuard>,
) -> usize {
    cancel::at_every_step(
        async || {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            zk.create_containers(ELECTION).await.unwrap();
            let rule = prepare(&server);
            (server, zk, other, rule)
        },
        async |(_, zk, other, _)| run(zk.clone(), other.clone()).await,
        async |(server, zk, other, rule), output| {
            drop((output, rule));
            // Whatever the dropped future had sent has arrived before this is answered.
            zk.wait_connected().await.unwrap();
            zk.sync("/").await.unwrap();
            until(&server, |probe| probe.children(ELECTION).is_empty()).await;
            let mine = |probe: &Probe| probe.session(session_id(&zk).get()).is_some();
            assert!(mine(&server.probe()), "by the janitor, not by the end of the session");
            LeaderSelector::new(&other, ELECTION).run(|_| async {}).await.unwrap();
            Election::new(&other, ELECTION).campaign("").await.unwrap().resign().await.unwrap();
            for zk in [zk, other] {
                zk.close().await.unwrap();
            }
            assert_clean_after_close(&server);
        },
    )
    .await
}

fn without(_: &TestServer) -> Option<RuleGuard> {
    None
}

/// The answer to the first create of a candidate is lost.
fn lost_create(server: &TestServer) -> Option<RuleGuard> {
    let lost = server.rule(|request| match request.is_create_under(ELECTION) {
        true => Verdict::LoseReply,
        false => Verdict::Pass,
    });
    Some(lost.times(1))
}

#[test]
fn a_candidate_of_a_latch_that_joins_leads_and_closes_leaves_nothing() {
    simulated(async {
        for prepare in [without, lost_create] {
            let life = async |zk: CuratorFramework, _| {
                let candidate = LeaderLatch::new(&zk, ELECTION).join();
                let mut states = candidate.states();
                states.next().await.unwrap();
                // Its task gets on meanwhile: it is stopped everywhere, too.
                for _ in 0..30 {
                    yield_now().await;
                }
                let leadership = candidate.await_leadership().await.unwrap();
                leadership.fenced().check("/", None).commit().await.unwrap();
                candidate.close().await.unwrap();
            };
            let steps = at_every_step(life, prepare).await;
            assert!(steps > 60, "only {steps} steps: is this still cancelled everywhere?");
        }
    });
}

#[test]
fn a_candidate_of_a_latch_that_waits_leaves_nothing() {
    simulated(async {
        let life = async |zk: CuratorFramework, other: CuratorFramework| {
            let first = LeaderLatch::new(&other, ELECTION).join();
            first.await_leadership().await.unwrap();
            let candidate = LeaderLatch::new(&zk, ELECTION).join();
            // In the queue, or about to be.
            for _ in 0..20 {
                yield_now().await;
            }
            let leaving = tokio::spawn(async move { first.close().await });
            let leadership = candidate.await_leadership().await.unwrap();
            tokio::join!(leadership.lost(), async { zk.delete(leadership.path()).await.unwrap() });
            leaving.await.unwrap().unwrap();
        };
        let steps = at_every_step(life, without).await;
        assert!(steps > 20, "only {steps} steps: is this still cancelled everywhere?");
    });
}

#[test]
fn a_run_of_a_selector_leaves_nothing() {
    simulated(async {
        for prepare in [without, lost_create] {
            let run = async |zk: CuratorFramework, _| {
                let selector = LeaderSelector::new(&zk, ELECTION);
                selector.run(|_| yield_now()).await.unwrap();
                selector.leader().await.unwrap();
                let twice = std::cell::Cell::new(0);
                let turns = selector.run_repeatedly(|_| {
                    twice.set(twice.get() + 1);
                    yield_now()
                });
                let close = async {
                    while twice.get() < 2 {
                        yield_now().await;
                    }
                    selector.close().await;
                };
                let (ended, ()) = tokio::join!(turns, close);
                ended.unwrap();
            };
            let steps = at_every_step(run, prepare).await;
            assert!(steps > 10, "only {steps} steps: is this still cancelled everywhere?");
        }
    });
}

#[test]
fn a_run_that_waits_and_one_that_is_interrupted_leave_nothing() {
    simulated(async {
        let run = async |zk: CuratorFramework, other: CuratorFramework| {
            let (first, second) = (LeaderSelector::new(&other, ELECTION), LeaderSelector::new(&zk, ELECTION));
            let holds = first.run(|_| async {
                for _ in 0..20 {
                    yield_now().await;
                }
            });
            let waits = second.run(|_| {
                second.interrupt_leadership();
                std::future::pending::<()>()
            });
            let (held, interrupted) = tokio::join!(holds, waits);
            held.unwrap();
            interrupted.unwrap_err();
        };
        let steps = at_every_step(run, without).await;
        assert!(steps > 10, "only {steps} steps: is this still cancelled everywhere?");
    });
}

#[test]
fn a_campaign_a_proclamation_and_a_resignation_leave_nothing() {
    simulated(async {
        for prepare in [without, lost_create] {
            let life = async |zk: CuratorFramework, other: CuratorFramework| {
                let election = Election::new(&zk, ELECTION);
                let mut observer = Election::new(&other, ELECTION).observe();
                observer.next().await.unwrap();
                let mut elected = election.campaign("one").await.unwrap();
                observer.next().await.unwrap();
                elected.proclaim("two").await.unwrap();
                observer.next().await.unwrap();
                election.leader().await.unwrap();
                timeout(Duration::from_millis(1), elected.lost()).await.unwrap_err();
                elected.resign().await.unwrap();
            };
            let steps = at_every_step(life, prepare).await;
            assert!(steps > 12, "only {steps} steps: is this still cancelled everywhere?");
        }
    });
}

#[test]
fn a_campaign_that_waits_leaves_nothing() {
    simulated(async {
        let life = async |zk: CuratorFramework, other: CuratorFramework| {
            let first = Election::new(&other, ELECTION).campaign("one").await.unwrap();
            let election = Election::new(&zk, ELECTION);
            let waits = election.campaign("two");
            let leaves = async {
                for _ in 0..20 {
                    yield_now().await;
                }
                first.resign().await.unwrap();
            };
            let (second, ()) = tokio::join!(waits, leaves);
            second.unwrap().resign().await.unwrap();
        };
        let steps = at_every_step(life, without).await;
        assert!(steps > 12, "only {steps} steps: is this still cancelled everywhere?");
    });
}

/// An observer that is cancelled again and again still sees everything there is to see at last.
#[test]
fn an_observer_misses_nothing_by_being_cancelled() {
    simulated(async {
        each_step(async |step| {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            let mut observer = Election::new(&other, ELECTION).observe();
            let first = poll_then_drop(observer.next(), step).await;
            let elected = Election::new(&zk, ELECTION).campaign("one").await.unwrap();
            let mut seen = poll_then_drop(observer.next(), step).await.transpose().unwrap().flatten();
            while seen.is_none() {
                seen = observer.next().await.unwrap();
            }
            assert_eq!(seen.unwrap().value, "one");
            elected.resign().await.unwrap();
            assert_eq!(observer.next().await.unwrap(), None);
            first.is_some()
        })
        .await;
    });
}
