//! A write whose outcome was not learned: what fails afterwards must not say that nothing was
//! applied.

use std::time::Duration;

use zk_curator::{CuratorFramework, Error};
use zk_curator_recipes::barrier::{self, DistributedBarrier};
use zk_curator_recipes::group::Group;
use zk_curator_recipes::lock::{self, RevocableReadWriteLock};
use zk_curator_recipes::two_phase::{self, Coordinator, Site, Vote};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    connected, cut_at_next_write, simulated_on, simulated_with, two_in_memory, until,
};

const PATH: &str = "/unknown";

/// Runs it with a deadline, in which nothing but its first write reaches the server: its error.
async fn cut<E>(
    server: &TestServer,
    zk: &CuratorFramework,
    run: impl AsyncFnOnce(CuratorFramework) -> Result<(), E>,
) -> E {
    let guard = cut_at_next_write(server, zk, Verdict::LoseReply);
    let failed = run(zk.with_deadline(Duration::from_secs(2))).await;
    assert!(guard.hits() > 0, "nothing was written");
    failed.expect_err("it cannot know")
}

fn assert_unknown(error: &Error) {
    assert!(error.may_have_applied(), "{error:?}");
}

#[test]
fn of_a_barrier_that_is_removed() {
    simulated_with(async |server, zk| {
        DistributedBarrier::new(&connected(&server).await, PATH).set().await.unwrap();
        let error =
            cut(&server, &zk, async |zk| DistributedBarrier::new(&zk, PATH).remove().await).await;
        let barrier::Error::Framework(error) = error else { panic!("{error:?}") };
        assert_unknown(&error);
    });
}

#[test]
fn of_a_group_that_is_deleted() {
    simulated_with(async |server, zk| {
        Group::new(&connected(&server).await, PATH).create().await.unwrap();
        assert_unknown(&cut(&server, &zk, async |zk| Group::new(&zk, PATH).delete().await).await);
    });
}

#[test]
fn of_an_owner_that_is_asked_to_let_go() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let held = RevocableReadWriteLock::new(&other, PATH).write_lock().acquire().await.unwrap();
        let node = held.path().to_owned();
        let error = cut(&server, &zk, async |zk| {
            let lock = RevocableReadWriteLock::new(&zk, PATH);
            lock.revoke(&node, Duration::from_secs(60)).await.map(drop)
        });
        let lock::Error::Framework(error) = error.await else { panic!("another error") };
        assert_unknown(&error);
    });
}

#[test]
fn of_an_owner_that_was_asked_and_is_lost_sight_of() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let held = RevocableReadWriteLock::new(&other, PATH).write_lock().acquire().await.unwrap();
        let node = held.path().to_owned();
        let lock = RevocableReadWriteLock::new(&zk, PATH);
        let (revoked, ()) = tokio::join!(lock.revoke(&node, Duration::from_secs(3600)), async {
            until(&server, |probe| probe.data(&node).is_some_and(|data| !data.is_empty())).await;
            server.stop().await;
        });
        let lock::Error::Framework(error) = revoked.unwrap_err() else { panic!("another error") };
        assert_unknown(&error);
    });
}

#[test]
fn of_a_vote() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let _coordinator = Coordinator::begin(&other, PATH, ["a", "b"], "").await.unwrap();
        let error = cut(&server, &zk, async |zk| {
            Site::join(&zk, PATH, "a").await?.vote(Vote::Commit).await
        });
        let two_phase::Error::Framework(error) = error.await else { panic!("another error") };
        assert_unknown(&error);
    });
}

#[test]
fn of_a_decision() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let _coordinator = Coordinator::begin(&other, PATH, ["a", "b"], "").await.unwrap();
        let error = cut(&server, &zk, async |zk| {
            Coordinator::resume(&zk, PATH).await?.abort().await.map(drop)
        });
        let two_phase::Error::Framework(error) = error.await else { panic!("another error") };
        assert_unknown(&error);
    });
}
