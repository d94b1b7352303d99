//! Futures of elections, dropped at every point: nothing stays behind, and the next one leads.

use tokio::task::yield_now;
use zk_curator::CuratorFramework;
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_testing::Probe;
use zk_curator_tests::{
    all_close_clean, connected, in_memory, poll_then_drop, session_id, simulated_drops,
    simulated_steps_on, two_in_memory, until,
};

const ELECTION: &str = "/services/orders";
/// Drops the future that `run` makes at every step until it completes. Its node goes away while the
/// session lives, and then another client leads. Nothing is left after the clients are closed.
fn at_every_step<T>(
    more_than: usize,
    mut run: impl AsyncFnMut(CuratorFramework, CuratorFramework) -> T,
) {
    simulated_drops(
        more_than,
        async || {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            zk.create_containers(ELECTION).await.unwrap();
            (server, zk, other)
        },
        async |(_, zk, other)| run(zk.clone(), other.clone()).await,
        async |(server, zk, other), output| {
            drop(output);
            // Whatever the dropped future had sent has arrived before the response to this.
            zk.wait_connected().await.unwrap();
            zk.sync("/").await.unwrap();
            until(&server, |probe| probe.children(ELECTION).is_empty()).await;
            let mine = |probe: &Probe| probe.session(session_id(&zk).get()).is_some();
            assert!(mine(&server.probe()), "by the janitor, not by the end of the session");
            LeaderSelector::new(&other, ELECTION).run_once(|_| async {}).await.unwrap();
            Election::new(&other, ELECTION).campaign("").await.unwrap().resign().await.unwrap();
            all_close_clean(&server, [zk, other]).await;
        },
    );
}

#[test]
fn a_candidate_of_a_latch_that_waits_leaves_nothing() {
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
    at_every_step(20, life);
}

#[test]
fn a_run_that_waits_and_one_that_is_interrupted_leave_nothing() {
    let run = async |zk: CuratorFramework, other: CuratorFramework| {
        let (first, second) =
            (LeaderSelector::new(&other, ELECTION), LeaderSelector::new(&zk, ELECTION));
        let holds = first.run_once(|_| async {
            for _ in 0..20 {
                yield_now().await;
            }
        });
        let waits = second.run_once(|_| {
            second.interrupt_leadership();
            std::future::pending::<()>()
        });
        let (held, interrupted) = tokio::join!(holds, waits);
        held.unwrap();
        interrupted.unwrap_err();
    };
    at_every_step(10, run);
}

#[test]
fn a_campaign_that_waits_leaves_nothing() {
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
    at_every_step(12, life);
}

/// An observer that is cancelled again and again still sees everything there is to see at last.
#[test]
fn an_observer_misses_nothing_by_being_cancelled() {
    simulated_steps_on(0, two_in_memory, async |step, (_server, zk, other)| {
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
    });
}
