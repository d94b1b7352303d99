//! A server that refuses requests with `Throttled` for a while ends nothing, in cases of several
//! calls; single ones are in `calls::refused`. Each case runs
//! repeatedly. Each run refuses other requests of it, until none is left.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::{LocalBoxFuture, join, try_join};
use futures_util::{FutureExt as _, StreamExt as _, pin_mut};
use tokio::time::{Instant, timeout};
use zk_curator::retry::RetryNTimes;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::barrier::{DistributedBarrier, DistributedDoubleBarrier};
use zk_curator_recipes::config::ConfigStore;
use zk_curator_recipes::counter::DistributedAtomicLong;
use zk_curator_recipes::group::{Group, GroupEvent, GroupMember};
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_recipes::migration::{MigrationManager, MigrationSet};
use zk_curator_recipes::name::NameService;
use zk_curator_recipes::node::PersistentNode;
use zk_curator_testing::wait::spend;
use zk_curator_testing::{ErrorCode, TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, join_all, rule_if, session_id, simulated, simulated_on, start, try_join_all,
};

type Failure = Box<dyn std::error::Error>;
/// The first framework is refused, the other one is not.
type Case = fn(CuratorFramework, CuratorFramework) -> LocalBoxFuture<'static, Result<(), Failure>>;

/// Longer than any case takes while it is refused.
const LONG: Duration = Duration::from_secs(600);
/// More requests than any case has.
const TOO_MANY: u64 = 400;

macro_rules! cases {
    ($($name:ident($retries:ident): |$zk:pat_param, $other:pat_param| { $($body:tt)* })*) => {$(
        #[test]
        fn $name() {
            refuse_each_request($retries, |$zk, $other| async move { $($body)* }.boxed_local());
        }
    )*};
}

/// Background tasks and long waits continue without a retry policy.
const NEVER: u32 = 0;
/// Operations continue for as long as the policy allows.
const OFTEN: u32 = 50;

fn often() -> RetryNTimes {
    RetryNTimes::new(OFTEN, Duration::from_millis(10))
}

fn refuse_each_request(retries: u32, case: Case) {
    for burst in [1, 8] {
        let mut refused = 0;
        for skip in 0.. {
            let hits = simulated(refuse(retries, case, skip, burst));
            refused += hits;
            if hits == 0 {
                break;
            }
            assert!(skip < TOO_MANY, "the case never ends");
        }
        assert!(refused > 0, "the case sends nothing");
    }
}

/// Refuses `burst` requests after the first `skip` ones. Returns the number of refused ones.
async fn refuse(retries: u32, case: Case, skip: u64, burst: u64) -> u64 {
    let server = TestServer::in_memory().await;
    let zk =
        start(builder(&server).retry(RetryNTimes::new(retries, Duration::from_millis(10)))).await;
    let other = connected(&server).await;
    let victim = session_id(&zk).get();
    let rule = rule_if(
        &server,
        move |request| request.session_id() == victim && request.is_throttlable(),
        Verdict::Refuse(ErrorCode::Throttled),
    );
    let rule = rule.after(skip).times(burst);
    match timeout(LONG, case(zk.clone(), other)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => panic!("it ended with: {error}, {burst} refused after {skip} requests"),
        Err(_) => panic!("it hangs, {burst} refused after {skip} requests\n{}", server.probe()),
    }
    let hits = rule.hits();
    drop(rule);
    zk.close().await.unwrap();
    hits
}

/// Waits until a node has `count` children.
async fn until_children(zk: &CuratorFramework, path: &str, count: usize) -> Result<(), Failure> {
    let children = zk.watch_children(path).into_stream();
    pin_mut!(children);
    while let Some(children) = children.next().await {
        if children?.is_some_and(|(names, _)| names.len() == count) {
            return Ok(());
        }
    }
    Err("the framework is closed".into())
}

cases! {
    a_latch_leads_and_leads_again(NEVER): |zk, other| {
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        let first = candidate.await_leadership().await?;
        other.delete(first.path()).await?;
        first.lost().await;
        let second = candidate.await_leadership().await?;
        assert!(second.fencing_token() > first.fencing_token());
        Ok(candidate.close().await?)
    }
    a_latch_stays_in_its_queue(NEVER): |zk, other| {
        let leader = LeaderLatch::new(&other, "/latch").join();
        leader.await_leadership().await?;
        let waiter = LeaderLatch::new(&zk.with_retry(often()), "/latch").join();
        until_children(&other, "/latch", 2).await?;
        let behind = LeaderLatch::new(&other, "/latch").join();
        until_children(&other, "/latch", 3).await?;
        leader.close().await?;
        waiter.await_leadership().await?;
        Ok(behind.close().await?)
    }
    a_selector_goes_on_with_its_turns(NEVER): |zk, _| {
        let (runs, done) = (Cell::new(0), Shutdown::new());
        let body = async |_| {
            runs.set(runs.get() + 1);
            if runs.get() == 3 {
                done.begin();
            }
        };
        Ok(LeaderSelector::new(&zk, "/selector").run(body).until(done.clone()).await?)
    }
    an_observer_sees_the_next_leader(NEVER): |zk, other| {
        let mut observer = Election::new(&zk, "/election").observe();
        assert!(observer.next().await?.is_none());
        let election = Election::new(&other, "/election");
        let (seen, elected) = join(observer.next(), election.campaign("a")).await;
        let mut elected = elected?;
        assert_eq!(seen?.expect("a leader").value, "a");
        let (seen, proclaimed) = join(observer.next(), elected.proclaim("b")).await;
        proclaimed?;
        assert_eq!(seen?.expect("a leader").value, "b");
        Ok(())
    }
    a_watch_of_data_goes_on(NEVER): |zk, other| {
        let data = zk.watch_data("/node").into_stream();
        pin_mut!(data);
        assert_eq!(data.next().await.expect("open")?, None);
        let (seen, created) = join(data.next(), other.create("/node").data("a").into_future()).await;
        created?;
        assert_eq!(seen.expect("open")?.expect("a node").0, "a");
        Ok(())
    }
    a_watch_of_children_goes_on(NEVER): |zk, other| {
        let (waited, created) = join(until_children(&zk, "/a", 1), other.create("/a/b").creating_parents().into_future()).await;
        created?;
        waited
    }
    a_node_is_kept(NEVER): |zk, other| {
        let node = PersistentNode::builder(&zk, "/nodes/a", CreateMode::Ephemeral).data("1").start();
        node.created().await?;
        node.set_data("2").await?;
        let creations = node.creations();
        pin_mut!(creations);
        creations.next().await;
        other.delete("/nodes/a").await?;
        creations.next().await;
        assert_eq!(other.get_data("/nodes/a").await?, "2");
        drop(node);
        Ok(other.wait_gone("/nodes/a").await?)
    }
    a_member_joins_its_group(NEVER): |zk, other| {
        let member = GroupMember::builder(&zk, "/group", "a").data("1").start();
        member.joined().await?;
        other.delete("/group/a").await?;
        until_children(&other, "/group", 1).await?;
        drop(member);
        until_children(&other, "/group", 0).await
    }
    a_group_is_followed(NEVER): |zk, other| {
        let mut group = Group::new(&zk, "/group").follow();
        let member = GroupMember::builder(&other, "/group", "a").data("1").start();
        assert_eq!(group.next().await?, GroupEvent::Joined { id: "a".into(), data: "1".into() });
        member.leave().await?;
        assert_eq!(group.next().await?, GroupEvent::Left { id: "a".into() });
        Ok(())
    }
    a_name_is_kept_and_followed(NEVER): |zk, other| {
        let names = NameService::new(&zk, "/names");
        let kept = names.keep_bound("a", "1");
        kept.bound().await?;
        let mut followed = names.follow("a");
        assert_eq!(followed.next().await?.expect("it is bound").value::<String>()?, "1");
        kept.rebind("2").await?;
        assert_eq!(followed.next().await?.expect("it is bound").value::<String>()?, "2");
        drop(kept);
        Ok(other.wait_gone("/names/a").await?)
    }
    a_configuration_is_followed(NEVER): |zk, other| {
        let store = ConfigStore::new(&other, "/config");
        store.update().set("a", 1).commit().await?;
        let mut followed = ConfigStore::new(&zk, "/config").follow();
        assert_eq!(followed.next().await?.get("a")?, Some(1));
        store.update().set("a", 2).commit().await?;
        assert_eq!(followed.next().await?.get("a")?, Some(2));
        Ok(())
    }
    a_counter_is_followed(NEVER): |zk, other| {
        let counter = DistributedAtomicLong::new(&other, "/counter");
        counter.increment().await?;
        let mut followed = DistributedAtomicLong::new(&zk, "/counter").follow();
        assert_eq!(followed.next().await?, 1);
        counter.increment().await?;
        assert_eq!(followed.next().await?, 2);
        Ok(())
    }
    a_set_is_migrated_and_waited_for(OFTEN): |zk, other| {
        let set = MigrationSet::builder("a").migration("b", |m| m.create("/b", "")).build()?;
        let manager = |zk| MigrationManager::new(zk, "/locks", "/meta");
        let (waiting, migrating) = (manager(&zk), manager(&other));
        try_join(waiting.wait_applied(&set), async {
            spend(Duration::from_secs(1)).await;
            migrating.migrate(&set).await
        })
        .await?;
        let more = MigrationSet::builder("a").migration("b", |m| m.create("/b", ""));
        let more = more.migration("c", |m| m.create("/c", "")).build()?;
        waiting.migrate(&more).await?;
        Ok(())
    }
    a_lock_is_waited_for(OFTEN): |zk, other| {
        let held = InterProcessMutex::new(&other, "/lock").acquire().await?;
        let lock = InterProcessMutex::new(&zk, "/lock");
        let (acquired, _) = join(lock.acquire(), async {
            until_children(&other, "/lock", 2).await?;
            // Ahead of a client that would have left the queue and returned.
            let behind = InterProcessMutex::new(&other, "/lock");
            let behind = behind.acquire();
            pin_mut!(behind);
            assert!(behind.as_mut().now_or_never().is_none());
            until_children(&other, "/lock", 3).await?;
            held.release().await?;
            Ok::<_, Failure>(())
        })
        .await;
        Ok(acquired?.release().await?)
    }
    barriers(OFTEN): |zk, other| {
        let (barrier, keeper) = (DistributedBarrier::new(&zk, "/barrier"), DistributedBarrier::new(&other, "/barrier"));
        barrier.set().await?;
        try_join(barrier.wait(), keeper.remove()).await?;
        let rounds = [&zk, &other].map(|zk| async move {
            let barrier = DistributedDoubleBarrier::new(zk, "/double", 2);
            barrier.enter().await?.leave().await
        });
        try_join_all(rounds).await?;
        Ok(())
    }
}

#[test]
fn refused_loops_pause_longer_and_longer() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).retry(RetryNTimes::new(0, Duration::ZERO))).await;
        let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        candidate.await_leadership().await.unwrap();
        let rule = rule_if(
            &server,
            |request| request.is_throttlable(),
            Verdict::Refuse(ErrorCode::Throttled),
        );
        let error = zk.exists("/").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Throttled, Some(ErrorCode::Throttled))
        );
        assert!(error.is_retryable() && error.is_transient() && !error.may_have_applied());
        let begun = Instant::now();
        let waiting = [(); 5].map(|()| timeout(Duration::from_secs(100), guard.lost()));
        join_all(waiting).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(100));
        // Each of them looks about once a second.
        assert!((100..1000).contains(&rule.hits()), "{}", rule.hits());
        assert!(candidate.has_leadership(), "the connection is not lost");
    });
}
