//! `inspect`: the nodes of our own recipes on a server, read and recognised.

use std::time::Duration;

use futures_util::future::join;
use tokio::task::JoinHandle;
use zk_curator::{Acl, CreateMode, CuratorFramework, ErrorKind, SessionId};
use zk_curator_proto::OpCode;
use zk_curator_recipes::barrier::DistributedDoubleBarrier;
use zk_curator_recipes::config::ConfigStore;
use zk_curator_recipes::inspect::{
    Contender, Details, Finding, KnownSession, RecipeKind, Role, Sessions, Verdict, deadlocks,
    find, find_within, glance, inspect, verdicts,
};
use zk_curator_recipes::leader::LeaderLatch;
use zk_curator_recipes::lock::{
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
};
use zk_curator_recipes::queue::jobs::{JobPhase, Jobs};
use zk_curator_recipes::queue::{DistributedPriorityQueue, LockingQueue};
use zk_curator_recipes::two_phase::{Coordinator, Outcome, Site, SiteState, Vote};
use zk_curator_testing::{Probe, TestServer, Verdict as Fault};
use zk_curator_tests::{
    always, builder, connected, rule_if, session_id, simulated_on, simulated_with, start,
    two_in_memory, until,
};

const LOCK: &str = "/locks/orders";

fn labels(contenders: &[Contender]) -> Vec<String> {
    contenders.iter().map(|one| one.label_str().into_owned()).collect()
}

fn mutex(zk: &CuratorFramework, label: &'static str) -> InterProcessMutex {
    InterProcessMutex::new(zk, LOCK).label(label)
}

/// Waits until a node has this number of children.
async fn until_children(server: &TestServer, path: &str, count: usize) {
    until(server, |probe| probe.children(path).len() == count).await;
}

/// A task that waits for a lock, in the queue.
async fn waiter(server: &TestServer, lock: InterProcessMutex) -> JoinHandle<()> {
    let before = server.probe().children(lock.path()).len();
    let path = lock.path().to_owned();
    let task = tokio::spawn(async move {
        lock.acquire().await.unwrap().release().await.unwrap();
    });
    until_children(server, &path, before + 1).await;
    task
}

/// The facts about all sessions of a server, as its commands tell them.
fn sessions_of(probe: &Probe) -> Sessions {
    let mut sessions = Sessions::new();
    for session in probe.sessions() {
        let known = KnownSession::new().timeout(session.timeout);
        let known = if session.connected { known.connected("zk1", "memory") } else { known };
        sessions.insert(SessionId::new(session.id), known);
    }
    for watch in probe.watches() {
        sessions.watch(&watch.path, SessionId::new(watch.session));
    }
    sessions.all_servers_asked();
    sessions.all_watches_known();
    sessions
}

#[test]
fn a_mutex_has_a_holder_and_waiters() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let held = mutex(&zk, "one").acquire().await.unwrap();
        let second = waiter(&server, mutex(&other, "two")).await;
        let third = waiter(&server, mutex(&other, "three")).await;
        let finding = inspect(&zk, LOCK).await.unwrap();
        assert_eq!(
            (finding.kind, finding.is_guess, finding.is_partial),
            (RecipeKind::Mutex, false, false)
        );
        assert_eq!(labels(&finding.holders), ["one"]);
        assert_eq!(labels(&finding.waiting), ["two", "three"]);
        let holder = &finding.holders[0];
        assert_eq!(holder.path, held.path());
        assert_eq!(holder.session, Some(session_id(&zk)));
        assert_eq!(holder.token(), Some(held.fencing_token()));
        assert_eq!(finding.waiting[0].waits_on.as_deref(), Some(held.path()));
        assert_eq!(finding.waiting[1].waits_on.as_ref(), Some(&finding.waiting[0].path));
        // The node of a contender belongs to the lock.
        assert_eq!(inspect(&zk, &finding.waiting[1].path).await.unwrap(), finding);
        held.release().await.unwrap();
        second.await.unwrap();
        third.await.unwrap();
        let finding = inspect(&zk, LOCK).await.unwrap();
        assert_eq!(finding.kind, RecipeKind::Unknown);
    });
}

#[test]
fn the_session_of_a_holder_decides_the_verdict() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let held = mutex(&zk, "one").acquire().await.unwrap();
        let second = waiter(&server, mutex(&other, "two")).await;
        let finding = inspect(&other, LOCK).await.unwrap();
        let probe = until(&server, |probe| !probe.watches().is_empty()).await;
        let told = verdicts(&finding, &sessions_of(&probe));
        assert!(matches!(&told[..], [Verdict::Held { holder }] if holder.path == held.path()));
        let mut ours = sessions_of(&probe);
        ours.own(session_id(&zk));
        assert!(matches!(&verdicts(&finding, &ours)[..], [Verdict::HeldByUs { .. }]));

        let cut = rule_if(
            &server,
            {
                let session = session_id(&zk).get();
                move |request| request.session_id() == session
            },
            Fault::Disconnect,
        );
        server.disconnect(session_id(&zk).get());
        let probe = until(&server, |probe| probe.sessions().iter().any(|one| !one.connected)).await;
        let told = verdicts(&finding, &sessions_of(&probe));
        let timeout = probe.session(session_id(&zk).get()).unwrap().timeout;
        assert!(
            matches!(&told[..], [Verdict::Dying { holds: true, within, .. }] if *within == timeout),
            "{told:?}"
        );
        drop(cut);
        drop(held);
        second.await.unwrap();
    });
}

#[test]
fn readers_and_writers_are_distinguished() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lock = |zk, label: &'static str| InterProcessReadWriteLock::new(zk, LOCK).label(label);
        let one = lock(&zk, "reader").read_lock().acquire().await.unwrap();
        let two = lock(&other, "other reader").read_lock().acquire().await.unwrap();
        let writer = lock(&other, "writer").write_lock();
        let waiting = tokio::spawn(async move { writer.acquire().await.unwrap() });
        until_children(&server, LOCK, 3).await;
        let finding = inspect(&zk, LOCK).await.unwrap();
        assert_eq!(finding.kind, RecipeKind::ReadWriteLock);
        assert_eq!(labels(&finding.holders), ["reader", "other reader"]);
        assert_eq!(finding.waiting[0].role, Role::Writer);
        drop((one, two));
        let writer = waiting.await.unwrap();
        let reader = writer.downgrade().await.unwrap();
        let finding = inspect(&zk, LOCK).await.unwrap();
        assert!(finding.waiting.is_empty());
        assert_eq!(finding.holders.last().unwrap().path, reader.path());
    });
}

#[test]
fn a_semaphore_has_leases_and_a_line() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let semaphore =
            |zk, label: &'static str| InterProcessSemaphore::new(zk, "/s", 2).label(label);
        let leases = semaphore(&zk, "one").acquire_many(2).await.unwrap();
        until_children(&server, "/s/locks", 0).await;
        let waiting = [semaphore(&other, "two"), semaphore(&zk, "three")];
        let mut tasks = Vec::new();
        for (number, semaphore) in (1..).zip(waiting) {
            tasks.push(tokio::spawn(async move { semaphore.acquire().await.unwrap() }));
            until_children(&server, "/s/locks", number).await;
        }
        until_children(&server, "/s/leases", 3).await;
        let finding = inspect(&zk, "/s").await.unwrap();
        assert_eq!(finding.kind, RecipeKind::Semaphore);
        assert_eq!(labels(&finding.holders), ["one", "one"]);
        let waits: Vec<_> = finding.waiting.iter().map(|one| (one.role, one.session)).collect();
        // The first one has a node in both, and waits once.
        assert_eq!(
            waits,
            [(Role::Acquirer, Some(session_id(&other))), (Role::Acquirer, Some(session_id(&zk))),]
        );
        assert_eq!(labels(&finding.waiting), ["two", "three"]);
        // Every node below it belongs to it.
        for path in ["/s/locks", "/s/leases", leases[0].path()] {
            assert_eq!(inspect(&zk, path).await.unwrap().path, "/s", "{path}");
        }
        drop(leases);
        for task in tasks {
            drop(task.await.unwrap());
        }
    });
}

#[test]
fn a_latch_has_a_leader() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let one = LeaderLatch::new(&zk, "/leader").id("one").join();
        one.await_leadership().await.unwrap();
        let two = LeaderLatch::new(&other, "/leader").id("two").join();
        until_children(&server, "/leader", 2).await;
        let finding = inspect(&zk, "/leader").await.unwrap();
        assert_eq!(finding.kind, RecipeKind::LeaderLatch);
        assert_eq!(
            (labels(&finding.holders), labels(&finding.waiting)),
            (vec!["one".into()], vec!["two".into()])
        );
        let (one, two) = join(one.close(), two.close()).await;
        one.unwrap();
        two.unwrap();
    });
}

#[test]
fn queues_have_items_and_claims() {
    simulated_with(async |server, zk| {
        let queue = DistributedPriorityQueue::new(&zk, "/priority");
        queue.put("late", 5).await.unwrap();
        queue.put("first", -1).await.unwrap();
        let finding = inspect(&zk, "/priority").await.unwrap();
        assert_eq!(finding.kind, RecipeKind::PriorityQueue);
        let priorities: Vec<_> = finding.waiting.iter().map(|item| &item.name[..15]).collect();
        assert_eq!(priorities, ["queue-0FFFFFFFF", "queue-100000005"]);

        let queue = LockingQueue::new(&zk, "/claims");
        queue.put_all(["one", "two"]).await.unwrap();
        let mut consumer = queue.consumer();
        let one = consumer.next().await.unwrap();
        let finding = inspect(&zk, "/claims").await.unwrap();
        assert_eq!(finding.kind, RecipeKind::LockingQueue);
        assert_eq!(finding.holders[0].session, Some(session_id(&zk)));
        assert_eq!(labels(&finding.waiting), ["two"]);
        let details = Details::Queue { items: 2, claimed: 1, first_deliveries: Some(0) };
        assert_eq!((finding.details, finding.is_partial), (details, false));
        assert!(finding.ignored.is_empty(), "{:?}", finding.ignored);
        one.ack().await.unwrap();
        consumer.next().await.unwrap().ack().await.unwrap();
        let waiting = tokio::spawn(async move { consumer.next().await.unwrap().ack().await });
        until_children(&server, "/claims/line", 1).await;
        let finding = inspect(&zk, "/claims").await.unwrap();
        assert_eq!(finding.waiting[0].role, Role::Consumer);
        queue.put("three").await.unwrap();
        waiting.await.unwrap().unwrap();
    });
}

#[test]
fn a_double_barrier_has_members() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let barrier =
            |zk, label: &'static str| DistributedDoubleBarrier::new(zk, "/b", 2).label(label);
        let first = barrier(&zk, "one");
        let waiting = tokio::spawn(async move { first.enter().await.unwrap() });
        until_children(&server, "/b", 1).await;
        let finding = inspect(&zk, "/b").await.unwrap();
        assert_eq!(finding.kind, RecipeKind::DoubleBarrier);
        assert_eq!(labels(&finding.waiting), ["one"]);
        let two = barrier(&other, "two").enter().await.unwrap();
        let one = waiting.await.unwrap();
        let finding = inspect(&zk, "/b").await.unwrap();
        assert_eq!(labels(&finding.holders), ["one", "two"]);
        assert_eq!(finding.details, Details::DoubleBarrier { has_begun: true, gone: vec![] });
        let (one, two) = join(one.leave(), two.leave()).await;
        one.unwrap();
        two.unwrap();
    });
}

#[test]
fn a_two_phase_commit_has_votes() {
    simulated_with(async |_, zk| {
        let _coordinator = Coordinator::begin(&zk, "/tx", ["orders", "stock"], "").await.unwrap();
        let mut orders = Site::join(&zk, "/tx", "orders").await.unwrap();
        orders.vote(Vote::Commit).await.unwrap();
        let finding = inspect(&zk, "/tx").await.unwrap();
        assert_eq!(finding.kind, RecipeKind::TwoPhaseCommit);
        assert_eq!((&*finding.holders[0].name, &*finding.waiting[0].name), ("orders", "stock"));
        let Details::TwoPhaseCommit { outcome, sites, .. } = finding.details else { panic!() };
        assert_eq!(outcome, None);
        assert_eq!(sites[0], ("orders".into(), SiteState::Voted(Vote::Commit)));
        let mut stock = Site::join(&zk, "/tx", "stock").await.unwrap();
        stock.vote(Vote::Abort).await.unwrap();
        let finding = inspect(&zk, "/tx/stock").await.unwrap();
        let Details::TwoPhaseCommit { outcome, .. } = finding.details else { panic!() };
        assert_eq!(outcome, Some(Outcome::Aborted));
    });
}

#[test]
fn jobs_have_states() {
    simulated_with(async |_, zk| {
        let jobs = Jobs::new(&zk, "/jobs");
        for job in ["one", "two", "three"] {
            jobs.submit(job).await.unwrap();
        }
        let mut worker = jobs.worker("worker-1");
        let one = worker.next().await.unwrap();
        let finding = inspect(&zk, "/jobs").await.unwrap();
        assert_eq!(finding.kind, RecipeKind::Jobs);
        assert_eq!(labels(&finding.holders), ["worker-1"]);
        assert_eq!(finding.holders[0].session, Some(session_id(&zk)));
        assert_eq!(finding.waiting.iter().filter(|one| one.role == Role::Job).count(), 2);
        let Details::Jobs { counts } = &finding.details else { panic!() };
        assert_eq!(counts[..2], [(JobPhase::Pending, 2), (JobPhase::Executing, 1)]);
        assert!(finding.ignored.is_empty(), "{:?}", finding.ignored);
        one.complete().await.unwrap();
    });
}

#[test]
fn a_store_has_keys() {
    simulated_with(async |_, zk| {
        let store = ConfigStore::new(&zk, "/config");
        store.update().set("db.port", 5432).commit().await.unwrap();
        let finding = inspect(&zk, "/config/values/db.port").await.unwrap();
        assert_eq!((finding.kind, &*finding.path), (RecipeKind::ConfigStore, "/config"));
        let Details::ConfigStore { keys, .. } = finding.details else { panic!() };
        assert_eq!(keys, ["db.port"]);
    });
}

#[test]
fn a_search_finds_all_recipes_and_their_deadlocks() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lock = |zk, path: &str| InterProcessMutex::new(zk, path.to_owned());
        let one = lock(&zk, "/a/one").acquire().await.unwrap();
        let two = lock(&other, "/b/c/two").acquire().await.unwrap();
        zk.create("/b/plain").await.unwrap();
        let tasks = [
            waiter(&server, lock(&zk, "/b/c/two")).await,
            waiter(&server, lock(&other, "/a/one")).await,
        ];
        let found = find(&zk, "/", 1000).await.unwrap();
        let paths: Vec<_> = found.findings.iter().map(|finding| &*finding.path).collect();
        assert_eq!(paths, ["/a/one", "/b/c/two"]);
        // The root, four parents, a node, and four contenders.
        assert_eq!((found.nodes, found.is_complete), (11, true));
        let deadlocks = deadlocks(&found.findings);
        assert_eq!((deadlocks.cycles.len(), deadlocks.stuck), (1, 2));
        let victim = &deadlocks.cycles[0].victim;
        assert_eq!((&*victim.path, victim.frees), (two.path(), 2));

        let below = find(&zk, "/a", 1000).await.unwrap();
        assert_eq!((below.findings.len(), below.nodes), (1, 4));
        let cut = find(&zk, "/", 4).await.unwrap();
        assert_eq!((cut.nodes, cut.is_complete), (4, false));
        // Its contenders are listed, and not read.
        assert!(cut.findings[0].is_partial && cut.findings[0].holders[0].stat.is_none());
        drop((one, two));
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn nodes_without_a_recipe_are_unknown() {
    simulated_with(async |_, zk| {
        assert_eq!(inspect(&zk, "/none").await.unwrap_err().kind(), ErrorKind::NoNode);
        assert_eq!(inspect(&zk, "none").await.unwrap_err().kind(), ErrorKind::InvalidPath);
        zk.create("/some/thing").creating_parents().data("1").await.unwrap();
        for path in ["/", "/some", "/some/thing"] {
            let finding = inspect(&zk, path).await.unwrap();
            assert_eq!((finding.kind, &*finding.path), (RecipeKind::Unknown, path));
        }
        zk.create("/flag").await.unwrap();
        let finding = inspect(&zk, "/flag").await.unwrap();
        assert_eq!((finding.kind, finding.is_guess), (RecipeKind::Barrier, true));
    });
}

#[test]
fn nodes_without_permission_are_listed() {
    simulated_with(async |_, zk| {
        let held = mutex(&zk, "one").acquire().await.unwrap();
        let nobody = vec![Acl::new(zk_curator::Permissions::READ, "digest", "nobody:x")];
        zk.create(format!("{LOCK}/lock-0000000009")).acl(nobody).await.unwrap();
        let finding = inspect(&zk, LOCK).await.unwrap();
        assert_eq!((finding.waiting.len(), finding.is_partial), (1, true));
        assert_eq!(finding.waiting[0].stat, None);
        assert_eq!(finding.holders[0].path, held.path());
    });
}

/// A holder that releases between the listing and the read is not reported.
#[test]
fn contenders_that_have_left_do_not_hold() {
    simulated_with(async |server, zk| {
        let held = mutex(&zk, "one").acquire().await.unwrap();
        let other = connected(&server).await;
        // The first request finds the node, the second finds it gone.
        let delay = Fault::Delay(Duration::from_secs(1));
        let delayed = always(&server, OpCode::MultiRead, delay).after(1);
        let reading = {
            let other = other.clone();
            tokio::spawn(async move { inspect(&other, LOCK).await.unwrap() })
        };
        delayed.fired().await;
        held.release().await.unwrap();
        let finding: Finding = reading.await.unwrap();
        assert!(finding.holders.is_empty() && finding.waiting.is_empty(), "{finding:?}");
    });
}

#[test]
fn a_waiter_behind_a_persistent_node_is_reported() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let ghost = zk.create(format!("{LOCK}/lock-")).creating_parents().data("restored");
        let ghost = ghost.mode(CreateMode::PersistentSequential).await.unwrap().path;
        let lock = mutex(&zk, "ann");
        let waiting = waiter(&server, mutex(&zk, "ann")).await;
        let participants = lock.participants().await.unwrap();
        let persistent: Vec<_> = participants.iter().map(|one| one.is_persistent).collect();
        assert_eq!(persistent, [true, false]);
        let finding = inspect(&other, LOCK).await.unwrap();
        assert!(finding.holders[0].is_persistent && !finding.waiting[0].is_persistent);
        let told = verdicts(&finding, &sessions_of(&server.probe()));
        let [Verdict::Persistent { owner, holds: true }, Verdict::Stuck { waiter, on }] = &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!((&*owner.path, &*waiter.label, &**on), (&*ghost, "ann", &*ghost));
        zk.delete(ghost).await.unwrap();
        waiting.await.unwrap();
    });
}

#[test]
fn nodes_that_are_too_large_do_not_hide_the_others() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).max_frame(5_000).max_response(10_000)).await;
        let huge = connected(&server).await;
        huge.create("/locks").await.unwrap();
        huge.create("/locks/huge").data(vec![0; 20_000]).await.unwrap();
        huge.create("/locks/wide").await.unwrap();
        for number in 0..15 {
            let name = format!("/locks/wide/{number:02}{}", "n".repeat(1_000));
            huge.create(name).await.unwrap();
        }
        let below = InterProcessMutex::new(&huge, "/locks/huge/a").acquire().await.unwrap();
        let beside = InterProcessMutex::new(&huge, "/locks/z").acquire().await.unwrap();
        let found = find(&zk, "/locks", 1_000).await.unwrap();
        let paths: Vec<_> = found.findings.iter().map(|finding| &*finding.path).collect();
        assert_eq!(paths, ["/locks/huge/a", "/locks/z"]);
        let large = |path: &str| (path.to_owned(), ErrorKind::ResponseTooLarge);
        assert_eq!(found.unreadable, [large("/locks/huge"), large("/locks/wide")]);
        let error = find(&zk, "/locks/wide", 1_000).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::ResponseTooLarge, "/locks/wide"));
        drop((below, beside));
    });
}

/// The number of requests that read several nodes.
fn multi_reads(server: &TestServer) -> u64 {
    server.probe().requests(OpCode::MultiRead)
}

#[test]
fn a_glance_takes_two_round_trips() {
    simulated_with(async |server, zk| {
        let held = mutex(&zk, "one").acquire().await.unwrap();
        let waiting = waiter(&server, mutex(&zk, "two")).await;
        let before = multi_reads(&server);
        let finding = glance(&zk, held.path()).await.unwrap();
        assert_eq!(multi_reads(&server) - before, 2);
        assert_eq!((finding.kind, &*finding.path), (RecipeKind::Mutex, LOCK));
        assert_eq!(labels(&finding.holders), ["one"]);
        assert_eq!((labels(&finding.waiting), finding.is_partial), (vec!["two".to_owned()], false));
        held.release().await.unwrap();
        waiting.await.unwrap();

        let permit = InterProcessSemaphore::new(&zk, "/permits", 2).acquire().await.unwrap();
        let before = multi_reads(&server);
        let finding = glance(&zk, "/permits").await.unwrap();
        assert_eq!(multi_reads(&server) - before, 2);
        // The holders are known by their names.
        assert_eq!((finding.kind, finding.is_partial), (RecipeKind::Semaphore, true));
        assert_eq!((finding.holders.len(), finding.holders[0].stat), (1, None));
        drop(permit);
    });
}

#[test]
fn a_search_ends_at_its_limit_of_bytes() {
    simulated_with(async |_, zk| {
        for name in ["a", "b", "c"] {
            let path = format!("/deep/{name}/below");
            zk.create(path).creating_parents().data("x".repeat(10_000)).await.unwrap();
        }
        let all = find_within(&zk, "/deep", 1_000, 1_000_000).await.unwrap();
        assert_eq!((all.nodes, all.is_complete), (7, true));
        let cut = find_within(&zk, "/deep", 1_000, 1_000).await.unwrap();
        assert!(!cut.is_complete && cut.nodes < 7, "{}", cut.nodes);
    });
}
