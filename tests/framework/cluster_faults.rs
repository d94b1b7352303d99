//! The framework and a lock on several servers that lag, and whose leaders change: nodes are found
//! even if a server does not show them yet.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_curator::certain::Receipt;
use zk_curator::retry::ExponentialBackoffRetry;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::barrier::DistributedBarrier;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_recipes::two_phase::{Coordinator, Outcome, Site, Vote};
use zk_curator_testing::Verdict::{LoseReply, LoseRequest, Pass, Refuse};
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{RuleGuard, RuleRequest, TestCluster};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, cluster_of_three, is_write_multi, session_id, simulated,
    simulated_each_on, simulated_on, until_state,
};

/// A framework that knows these servers of a cluster.
async fn connected(cluster: &TestCluster, servers: &str) -> CuratorFramework {
    let zk = CuratorFramework::builder()
        .connect_string(servers)
        .session_timeout(SESSION_TIMEOUT)
        .connection_timeout(CONNECTION_TIMEOUT)
        .retry(ExponentialBackoffRetry::new(Duration::from_millis(10), 5).seed(7))
        .connector(Arc::new(cluster.connector()))
        .build()
        .expect("a framework");
    zk.start().await.expect("a connection");
    zk
}

/// Three servers with a node `/jobs`, and a framework that knows the two followers.
async fn two_followers() -> (TestCluster, CuratorFramework) {
    let cluster = TestCluster::in_memory(3).await;
    assert_eq!(cluster.leader(), Some(2));
    let zk = connected(&cluster, "zk1:2181,zk2:2181").await;
    zk.create("/jobs").await.expect("a node");
    (cluster, zk)
}

/// How late a server is that lags.
const LATE: Duration = Duration::from_millis(500);

/// The children of `/jobs` that a server knows when it is asked to catch up.
fn seen_at_check(cluster: &TestCluster) -> (Arc<Mutex<Vec<usize>>>, Vec<RuleGuard>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let rule = |member: usize| {
        let (seen, watched) = (Arc::clone(&seen), cluster.clone());
        cluster.member(member).rule(move |request| {
            if request.is(OpCode::Multi) {
                let there = watched.probe().member(member).children("/jobs").len();
                seen.lock().expect("no panic").push(there);
            }
            Pass
        })
    };
    let rules = (0..cluster.members().len()).map(rule).collect();
    (seen, rules)
}

#[test]
fn a_protected_create_is_found_at_a_lagging_server() {
    let cases = [CreateMode::Persistent, CreateMode::EphemeralSequential];
    simulated_each_on(cases, two_followers, async |mode, (cluster, zk)| {
        let lags = (cluster.lag_by(0, LATE), cluster.lag_by(1, LATE));
        let lost =
            cluster.rule(|request| if request.is_create() { LoseReply } else { Pass }).times(1);
        let (seen, rules) = seen_at_check(&cluster);
        let created = zk.create("/jobs/job-").mode(mode).protected().await.unwrap();
        assert_eq!(lost.hits(), 1);
        drop(rules);
        let probe = cluster.probe();
        assert_eq!(probe.latest().children("/jobs").len(), 1, "created twice\n{probe}");
        assert!(probe.latest().exists(&created.path), "{} is not it\n{probe}", created.path);
        // Without the check before the search, it would not have been found.
        assert_eq!(*seen.lock().unwrap(), [0], "{mode:?}");
        // The end of a session is a write, too.
        drop(lags);
        zk.close().await.unwrap();
    });
}

#[test]
fn a_protected_create_of_a_lost_request_is_created_once() {
    simulated_on(two_followers, async |(cluster, zk)| {
        let _lags = (
            cluster.lag_by(0, Duration::from_millis(50)),
            cluster.lag_by(1, Duration::from_millis(90)),
        );
        let lost =
            cluster.rule(|request| if request.is_create() { LoseRequest } else { Pass }).times(1);
        let created = zk
            .create("/jobs/job-")
            .mode(CreateMode::EphemeralSequential)
            .protected()
            .await
            .unwrap();
        assert_eq!(lost.hits(), 1);
        let probe = cluster.probe();
        assert_eq!(probe.latest().children("/jobs").len(), 1, "{probe}");
        assert!(probe.latest().exists(&created.path));
    });
}

#[test]
fn a_certain_write_is_proven_at_a_lagging_server() {
    let cases = [(LoseReply, 1), (LoseRequest, 0)];
    simulated_each_on(cases, two_followers, async |(verdict, written), (cluster, zk)| {
        let receipt = Receipt::new(&zk, "/jobs");
        let lags = (cluster.lag_by(0, LATE), cluster.lag_by(1, LATE));
        let lost = cluster
            .rule(move |request| if request.is(OpCode::Multi) { verdict } else { Pass })
            .times(1);
        // The state of the server when it is asked.
        let seen = Arc::new(Mutex::new(Vec::new()));
        let looks: Vec<_> = (0..2)
            .map(|member| {
                let (seen, watched) = (Arc::clone(&seen), cluster.clone());
                cluster.member(member).rule(move |request| {
                    if request.is(OpCode::Multi) && !request.is_about("/jobs") {
                        let stat = watched.probe().member(member).stat("/jobs").expect("a node");
                        seen.lock().expect("no panic").push(stat.version);
                    }
                    Pass
                })
            })
            .collect();
        let write = zk.transaction().set_data("/jobs", "x").certain(&receipt).into_future();
        let write = tokio::spawn(write);
        lost.fired().await;
        assert_eq!(cluster.probe().latest().stat("/jobs").unwrap().version, written);
        let applied = write.await.unwrap().unwrap();
        assert_eq!(*seen.lock().unwrap(), [0], "{verdict:?}: it lags");
        let stat = cluster.probe().latest().stat("/jobs").unwrap();
        assert_eq!((stat.version, stat.mzxid), (1, applied.zxid()), "{verdict:?}");
        drop((lags, looks, receipt));
        zk.close().await.unwrap();
    });
}

#[test]
fn the_janitor_deletes_its_nodes_at_a_lagging_server() {
    simulated_on(two_followers, async |(cluster, zk)| {
        let lags = (cluster.lag_by(0, LATE), cluster.lag_by(1, LATE));
        let lost =
            cluster.rule(|request| if request.is_create() { LoseReply } else { Pass }).times(1);
        let create = zk.create("/jobs/job-").protected().into_future();
        let create = tokio::spawn(create);
        lost.fired().await;
        create.abort();
        assert_eq!(cluster.probe().latest().children("/jobs").len(), 1);
        cluster.until(|probe| probe.latest().children("/jobs").is_empty()).await;
        drop(lags);
        zk.close().await.unwrap();
    });
}

#[test]
fn sessions_and_states_survive_a_change_of_leader() {
    simulated_on(cluster_of_three, async |cluster| {
        let zk = connected(&cluster, &cluster.connect_string()).await;
        zk.create("/e").mode(CreateMode::Ephemeral).await.unwrap();
        let session = zk.session().unwrap().id;
        cluster.change_leader().unwrap();
        until_state(&zk, ConnectionState::Reconnected { same_session: true }).await;
        assert_eq!(zk.session().unwrap().id, session);
        assert_eq!(zk.exists("/e").await.unwrap().unwrap().ephemeral_owner, session.get());
    });
}

/// Contenders for one lock at servers that lag, part and lead in turn. Each notes its grant in the
/// node `/log`, whose data grow only by writes that are fenced by the lock.
#[test]
fn a_lock_is_held_by_one_whatever_happens_to_the_servers() {
    simulated(async {
        for seed in 1..=3 {
            let cluster = TestCluster::in_memory(3).await;
            let setup = connected(&cluster, &cluster.connect_string()).await;
            setup.create("/log").await.unwrap();
            let tokens = Arc::new(Mutex::new(Vec::new()));
            let mut contenders = Vec::new();
            for _ in 0..3 {
                let zk = connected(&cluster, &cluster.connect_string()).await;
                let tokens = Arc::clone(&tokens);
                contenders.push(tokio::spawn(async move {
                    let mutex = InterProcessMutex::new(&zk, "/lock");
                    let mut granted = 0;
                    while granted < 15 {
                        let Ok(guard) = mutex.acquire().await else { continue };
                        let fenced = guard.fenced().set_data("/log", "mine").commit().await;
                        if fenced.is_ok() {
                            tokens.lock().unwrap().push(guard.fencing_token().get());
                            granted += 1;
                        }
                        guard.release().await.ok();
                    }
                    zk.close().await.ok();
                }));
            }
            let mut random = fastrand::Rng::with_seed(seed);
            while contenders.iter().any(|contender| !contender.is_finished()) {
                let member = random.usize(0..3);
                let lag = cluster.lag_by(member, Duration::from_millis(random.u64(1..30)));
                spend(Duration::from_millis(random.u64(1..50))).await;
                match random.u8(0..3) {
                    0 => _ = cluster.change_leader(),
                    1 => cluster.partition(&[&[member]]),
                    _ => cluster.heal(),
                }
                drop(lag);
            }
            let tokens = tokens.lock().unwrap();
            assert_eq!(tokens.len(), 45);
            assert!(tokens.is_sorted(), "seed {seed}: {tokens:?}\n{}", cluster.journal());
            cluster.heal();
            let probe = cluster.probe();
            assert!(probe.latest().children("/lock").is_empty(), "seed {seed}: {probe}");
        }
    });
}

/// Also when it is repeated: `sync` and the read are one attempt.
#[test]
fn a_synced_read_returns_the_state_of_the_leader() {
    let cases = [Pass, LoseRequest, LoseReply];
    simulated_each_on(cases, two_followers, async |verdict, (cluster, other)| {
        let zk = connected(&cluster, "zk1:2181").await;
        let lag = cluster.lag(0);
        connected(&cluster, "zk3:2181").await.create("/jobs/new").data("x").await.expect("a node");
        assert_eq!(zk.exists("/jobs/new").await.expect("a response"), None, "it does not lag");
        let lost =
            cluster.rule(move |request| if request.is(OpCode::Sync) { verdict } else { Pass });
        let lost = lost.times(1);
        let (exists, data, children) =
            (zk.exists("/jobs/new"), zk.get_data("/jobs/new"), zk.children("/jobs"));
        assert!(exists.synced().await.expect("a response").is_some(), "{verdict:?}");
        assert_eq!(lost.hits(), u64::from(verdict != Pass));
        assert_eq!(data.synced().watched().await.expect("a node").value.0, "x");
        assert_eq!(children.synced().await.expect("a node"), ["new"]);
        drop(lag);
        other.delete("/jobs/new").await.expect("a node");
    });
}

/// Also when it is repeated, and where a `sync` proves nothing.
#[test]
fn a_linearizable_read_returns_the_committed_state() {
    let cases = [Pass, LoseRequest, LoseReply];
    simulated_each_on(cases, two_followers, async |verdict, (cluster, other)| {
        let zk = connected(&cluster, "zk1:2181").await;
        let lag = cluster.lag_by(0, LATE);
        connected(&cluster, "zk3:2181").await.create("/jobs/new").data("x").await.expect("a node");
        assert_eq!(zk.exists("/jobs/new").await.expect("a response"), None, "it does not lag");
        let _refused = cluster.rule(|request| {
            if request.is(OpCode::Sync) { Refuse(ErrorCode::Unimplemented) } else { Pass }
        });
        let lost =
            cluster.rule(move |request| if request.is(OpCode::Multi) { verdict } else { Pass });
        let lost = lost.times(1);
        let (exists, data, children) =
            (zk.exists("/jobs/new"), zk.get_data("/jobs/new"), zk.children("/jobs"));
        assert!(exists.linearizable().await.expect("a response").is_some(), "{verdict:?}");
        assert_eq!(lost.hits(), u64::from(verdict != Pass));
        assert_eq!(data.linearizable().watched().await.expect("a node").value.0, "x");
        assert_eq!(children.linearizable().await.expect("a node"), ["new"]);
        // The check is of a node that is not there.
        assert_eq!(zk.exists("/none").linearizable().await.expect("a response"), None);
        drop(lag);
        other.delete("/jobs/new").await.expect("a node");
    });
}

/// Curator's waiter believes its lagging server, and passes.
#[test]
fn a_barrier_blocks_a_waiter_at_a_lagging_server() {
    simulated_on(two_followers, async |(cluster, zk)| {
        let (keeper, waiter) =
            (connected(&cluster, "zk3:2181").await, connected(&cluster, "zk1:2181").await);
        let lag = cluster.lag(0);
        DistributedBarrier::new(&keeper, "/barrier").set().await.expect("a barrier");
        assert_eq!(waiter.exists("/barrier").await.expect("a response"), None, "it does not lag");
        let barrier = DistributedBarrier::new(&waiter, "/barrier");
        let waiting = tokio::spawn(async move { barrier.wait().await });
        idle(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        drop(lag);
        idle(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished());
        zk.delete("/barrier").await.expect("a barrier");
        waiting.await.expect("no panic").expect("an open barrier");
    });
}

/// The session has moved, also while its client is nowhere at all: a node that it did not find at
/// the new server must not appear later.
#[test]
fn a_stopped_server_refuses_requests_of_a_moved_session() {
    simulated_on(two_followers, async |(cluster, zk)| {
        let session = zk.session().expect("a session").id.get();
        let first = cluster.attached_to(session).expect("a server");
        let creates = || cluster.member(first).probe().requests(OpCode::Create2);
        let before = creates();
        cluster.member(first).hold();
        let lost = zk.create("/jobs/stale").await.expect_err("no response");
        assert!(lost.may_have_applied());
        zk.wait_connected().await.expect("another server");
        assert_ne!(cluster.attached_to(session), Some(first));
        assert!(cluster.disconnect(session));
        assert_eq!(cluster.attached_to(session), None);
        cluster.member(first).release();
        cluster.until(|_| creates() > before).await;
        zk.sync("/jobs").await.expect("a response");
        assert_eq!(zk.exists("/jobs/stale").await.expect("a response"), None);
    });
}

/// Read from that server, the vote would not be there, and the decision that it led to would make
/// it too late.
#[test]
fn a_counted_vote_is_not_late_where_the_server_lags() {
    simulated_on(two_followers, async |(cluster, zk)| {
        let keeper = connected(&cluster, "zk3:2181").await;
        let mut coordinator =
            Coordinator::begin(&keeper, "/transaction", ["a"], "").await.expect("none before");
        let mut site = Site::join(&zk, "/transaction", "a").await.expect("a site");
        let decided = tokio::spawn(async move { coordinator.outcome().await });
        let _lags = [0, 1].map(|follower| cluster.lag_by(follower, LATE));
        let victim = session_id(&zk).get();
        let lost = cluster
            .rule(move |request| {
                let is_vote = request.session_id() == victim && is_write(request);
                if is_vote { LoseReply } else { Pass }
            })
            .times(1);
        site.vote(Vote::Commit).await.expect("it counts");
        assert_eq!(lost.hits(), 1);
        assert_eq!(decided.await.expect("no panic").expect("a decision"), Outcome::Committed);
        assert_eq!(site.outcome().await.expect("a decision"), Outcome::Committed);
    });
}

fn is_write(request: &RuleRequest<'_>) -> bool {
    is_write_multi(request) || request.is_create() || request.is(OpCode::SetData)
}
