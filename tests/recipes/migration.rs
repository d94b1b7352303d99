//! Migrations: sets that are applied or refused, and the cost of both.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use zk_curator::op::CreateOp;
use zk_curator::{Acl, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::lock::{InterProcessMutex, InterProcessSemaphoreMutex};
use zk_curator_recipes::migration::{
    Difference, Error, MigrationManager, MigrationSet, MigrationSetBuilder, Operations,
};
use zk_curator_testing::wait::idle;
use zk_curator_testing::{Probe, SequenceOverflow, TestServer, Verdict};
use zk_curator_tests::{
    all_close_clean, assert_matches, builder, builder_for, closes_clean, cluster_of_three,
    connected, expire, in_memory, join_all, recorded, rule_if, simulated, simulated_each,
    simulated_on, simulated_with, start, two_in_memory, until,
};

use crate::cache_cost::{ONE_WAY, distant};

const LOCK: &str = "/migrations/locks/orders";
const META: &str = "/migrations/meta/orders";
const INFO: &str = "/migrations/meta/orders-info";
const APP: &str = "/app";

pub(crate) fn manager(zk: &CuratorFramework) -> MigrationManager {
    MigrationManager::new(zk, "/migrations/locks", "/migrations/meta")
}

/// A set whose migrations each create a sequential node, so that each application is counted.
pub(crate) fn counted(count: usize) -> MigrationSetBuilder {
    let first = MigrationSet::builder("orders")
        .migration("root", |m| m.create(APP, "").with(counter().data("root")));
    (1..count).fold(first, |set, number| {
        set.migration(format!("m{number}"), |m| m.with(counter().data(format!("m{number}"))))
    })
}

fn counter() -> CreateOp {
    CreateOp::new("/app/n-").mode(CreateMode::PersistentSequential)
}

pub(crate) fn set(count: usize) -> MigrationSet {
    counted(count).build().unwrap()
}

/// The names of the migrations, as often as each was applied.
pub(crate) fn effects(probe: &Probe) -> Vec<String> {
    let data = |name: &str| probe.data(&format!("{APP}/{name}")).unwrap();
    let text = |name| String::from_utf8(data(name).to_vec()).unwrap();
    let mut names = probe.children(APP);
    names.sort_unstable();
    names.into_iter().map(text).collect()
}

pub(crate) fn names(count: usize) -> Vec<String> {
    set(count).names().map(str::to_owned).collect()
}

/// Removes everything but the lock, which the server removes.
pub(crate) async fn clean_up(zk: &CuratorFramework) {
    for path in [APP, META, INFO] {
        zk.delete(path).deleting_children().quietly().await.unwrap();
    }
}

/// Applies a set, and waits until the lock is released.
async fn applied(manager: &MigrationManager, set: &MigrationSet, zk: &CuratorFramework) {
    manager.migrate(set).await.unwrap();
    assert!(zk.wait_until_released().await);
}

/// The nodes with their stats.
fn nodes(server: &TestServer) -> Vec<(String, zk_curator::Stat)> {
    let probe = server.probe();
    let node = |path: String| (path.clone(), probe.stat(&path).unwrap());
    probe.paths().into_iter().map(node).collect()
}

async fn requests<T>(server: &TestServer, run: impl Future<Output = T>) -> Vec<OpCode> {
    let (_rule, requests) = recorded(server);
    drop(run.await);
    let requests = requests.lock().unwrap();
    requests.values().flatten().copied().collect()
}

#[test]
fn missing_migrations_are_applied_in_order_and_once() {
    simulated_with(async |server, zk| {
        let manager = manager(&zk).label("host-1");
        for (count, applied, already) in [(2, 0..2, 0), (2, 0..0, 2), (5, 2..5, 2), (5, 0..0, 5)] {
            let outcome = manager.migrate(&set(count)).await.unwrap();
            assert_eq!(outcome.applied, names(5)[applied], "{count}");
            assert_eq!(outcome.already, already);
        }
        let probe = server.probe();
        assert_eq!(effects(&probe), names(5));
        assert_eq!(probe.children(META).len(), 5);
        for node in probe.children(META) {
            assert_eq!(probe.data(&format!("{META}/{node}")).unwrap().len(), 32);
        }
        let record = String::from_utf8(probe.data(&format!("{INFO}/3")).unwrap().to_vec()).unwrap();
        assert!(record.starts_with("migration 1\nname: m3\nmetadata: "), "{record}");
        assert!(record.contains("\nby: host-1\n"), "{record}");

        let applied = manager.applied("orders").await.unwrap();
        let listed: Vec<_> = applied.iter().map(|each| each.name.clone().unwrap()).collect();
        assert_eq!(listed, names(5));
        assert_eq!(applied[4].node, "meta-0000000004");
        assert!(applied.iter().all(|each| each.by.as_deref() == Some("host-1")));
        assert_eq!(manager.applied("others").await.unwrap(), []);
        clean_up(&zk).await;
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_plan_says_what_would_be_applied() {
    simulated_with(async |server, zk| {
        let manager = manager(&zk);
        let plan = manager.plan(&set(3)).await.unwrap();
        assert_eq!((plan.applied.len(), plan.missing, plan.difference), (0, names(3), None));
        assert!(plan.size > 3 * (32 + APP.len()) && plan.size < 2000, "{}", plan.size);
        assert!(!server.probe().exists("/migrations"));
        manager.migrate(&set(2)).await.unwrap();
        let plan = manager.plan(&set(3)).await.unwrap();
        assert_eq!((plan.applied.len(), plan.missing), (2, vec!["m2".to_owned()]));
        let plan = manager.plan(&set(1)).await.unwrap();
        assert_eq!(plan.difference, Some(Difference::Ahead { found: 2, known: 1 }));
        assert_eq!((plan.applied.len(), plan.missing.len(), plan.size), (2, 0, 0));
    });
}

#[test]
fn nothing_to_do_takes_no_lock() {
    simulated_with(async |server, zk| {
        let manager = manager(&zk);
        applied(&manager, &set(3), &zk).await;
        let sent = requests(&server, manager.migrate(&set(3))).await;
        assert_eq!(sent, [OpCode::Sync, OpCode::MultiRead]);
        assert_eq!(requests(&server, manager.plan(&set(4))).await.len(), 2);
    });
}

#[test]
fn missing_migrations_cost_the_lock_and_one_transaction() {
    simulated_with(async |server, zk| {
        let manager = manager(&zk);
        applied(&manager, &set(1), &zk).await;
        let sent = requests(&server, manager.migrate(&set(4))).await;
        let expected: Vec<_> = LOOK.into_iter().chain(UNDER_THE_LOCK).collect();
        assert_eq!(sent, expected);
    });
}

const LOOK: [OpCode; 2] = [OpCode::Sync, OpCode::MultiRead];
/// A turn and a lease, a create and a list each, the end of the turn, the reads again, and the
/// transaction. The release is later.
const UNDER_THE_LOCK: [OpCode; 7] = [
    OpCode::Create2,
    OpCode::GetChildren2,
    OpCode::Create2,
    OpCode::GetChildren2,
    OpCode::Delete,
    OpCode::MultiRead,
    OpCode::Multi,
];

#[test]
fn parents_of_a_new_set_take_no_round_trip() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = distant(&server).await;
        let began = Instant::now();
        let sent = requests(&server, manager(&zk).migrate(&set(4))).await;
        let took = began.elapsed();
        // `/migrations`; `locks`, `orders` and two below it; `meta`, `orders` and `orders-info`.
        let parents = [OpCode::CreateContainer; 8];
        let expected: Vec<_> = LOOK.into_iter().chain(parents).chain(UNDER_THE_LOCK).collect();
        assert_eq!(sent, expected);
        assert_eq!(took, 5 * 2 * ONE_WAY);

        // Under a lock of the caller.
        let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
        let manager = manager(&zk).fenced_by(guard.ownership());
        let sent = requests(&server, manager.migrate(&set(7))).await;
        let expected: Vec<_> = [LOOK, LOOK].concat().into_iter().chain([OpCode::Multi]).collect();
        assert_eq!(sent, expected);
    });
}

/// The whole set is compared, and nothing but reads is sent.
#[test]
fn an_altered_migration_is_a_mismatch_and_writes_nothing() {
    let altered = |index: usize, change: &str| {
        let op = move |m: Operations, number: usize| match (number == index, change) {
            (true, "data") => m.set_data(APP, "y"),
            (true, "path") => m.set_data("/other", "x"),
            (true, "kind") => m.create(APP, "x"),
            (true, "version") => m.check(APP, 7),
            (true, "more") => m.set_data(APP, "x").check(APP, None),
            (true, "none") => m,
            _ => m.set_data(APP, "x"),
        };
        let first = MigrationSet::builder("orders").migration("root", |m| m.create(APP, ""));
        let set = (1..5).fold(first, |set, n| set.migration(format!("m{n}"), |m| op(m, n)));
        set.build().unwrap()
    };
    simulated_with(async |server, zk| {
        let manager = manager(&zk);
        applied(&manager, &altered(0, ""), &zk).await;
        let before = nodes(&server);
        for index in 1..5 {
            for change in ["data", "path", "kind", "version", "more", "none"] {
                let set = altered(index, change);
                let sent = requests(&server, async {
                    let error = manager.migrate(&set).await.unwrap_err();
                    let found = format!("m{index}");
                    assert_matches!(&error, Error::Mismatch { index: at, name, .. }
                        if *at == index && *name == found);
                    assert!(!error.may_have_applied() && !error.is_retryable());
                });
                assert_eq!(sent.await, [OpCode::Sync, OpCode::MultiRead], "{index} {change}");
                let waits = manager.wait_applied(&set).await.unwrap_err();
                assert!(matches!(waits, Error::Mismatch { .. }), "{waits}");
                let plan = manager.plan(&set).await.unwrap();
                assert!(matches!(plan.difference, Some(Difference::Mismatch { .. })));
            }
        }
        assert_eq!(nodes(&server), before);
        // Another order is another set, another name is not.
        let renamed = MigrationSet::builder("orders")
            .migration("the root", |m| m.create(APP, ""))
            .migration("and the rest", |m| m.set_data(APP, "x"));
        let error = manager.migrate(&renamed.build().unwrap()).await.unwrap_err();
        assert!(matches!(error, Error::Ahead { found: 5, known: 2, .. }), "{error}");
    });
}

#[test]
fn a_newer_set_makes_an_older_service_read_only() {
    simulated_with(async |server, zk| {
        let manager = manager(&zk);
        applied(&manager, &set(3), &zk).await;
        let before = nodes(&server);
        let error = manager.migrate(&set(2)).await.unwrap_err();
        assert!(matches!(error, Error::Ahead { found: 3, known: 2, .. }), "{error}");
        let error = manager.wait_applied(&set(2)).await.unwrap_err();
        assert!(matches!(error, Error::Ahead { found: 3, known: 2, .. }), "{error}");
        let none = MigrationSet::builder("orders").build().unwrap();
        let error = manager.migrate(&none).await.unwrap_err();
        assert!(matches!(error, Error::Ahead { found: 3, known: 0, .. }), "{error}");
        assert_eq!(nodes(&server), before);
    });
}

#[test]
fn an_empty_set_is_applied_at_once() {
    simulated_with(async |server, zk| {
        let none = MigrationSet::builder("orders").build().unwrap();
        assert!(none.is_empty());
        let outcome = manager(&zk).migrate(&none).await.unwrap();
        assert_eq!((outcome.applied.len(), outcome.already), (0, 0));
        manager(&zk).wait_applied(&none).await.unwrap();
        assert!(!server.probe().exists("/migrations"));
    });
}

/// Curator's `testPartialApplyForBadOps` and `testTransactionForBadOps`.
#[test]
fn a_refused_operation_applies_nothing_of_its_transaction() {
    simulated_each([false, true], async |one_each, server, zk| {
        let bad = counted(2).migration("bad", |m| {
            m.create("/app/x", "").create("/missing/x", "").create("/app/y", "")
        });
        let bad = bad.migration("last", |m| m.create("/app/z", "")).build().unwrap();
        let manager = if one_each { manager(&zk).per_migration() } else { manager(&zk) };
        let error = manager.migrate(&bad).await.unwrap_err();
        assert_matches!(error.reason(), Error::Refused { migration, index: 1, path, code }
            if migration == "bad" && path == "/missing/x" && *code == ErrorCode::NoNode);
        let probe = server.probe();
        let applied = if one_each { 2 } else { 0 };
        let kept = if one_each { names(2) } else { Vec::new() };
        assert_eq!((error.applied(), error.may_have_applied()), (&kept[..], one_each));
        assert_eq!(effects(&probe).len(), applied);
        assert_eq!(probe.children(META).len(), applied);
        // A corrected migration is applied, and the lock is free.
        let good = counted(2).migration("good", |m| m.create("/app/x", "")).build().unwrap();
        let outcome = manager.migrate(&good).await.unwrap();
        assert_eq!(outcome.already, applied);
        assert!(server.probe().exists("/app/x"));
    });
}

#[test]
fn too_large_is_known_before_the_lock() {
    simulated_with(async |server, zk| {
        let large = || Bytes::from(vec![0; 400 << 10]);
        let set = counted(1)
            .migration("first", |m| m.create("/app/a", large()))
            .migration("second", |m| m.create("/app/b", large()))
            .migration("third", |m| m.create("/app/c", large()))
            .build()
            .unwrap();
        let first = manager(&zk).plan(&set).await.unwrap_err();
        assert_matches!(&first, Error::TooLarge { migration, .. } if migration == "third");
        let sent = requests(&server, async {
            let error = manager(&zk).migrate(&set).await.unwrap_err();
            assert_matches!(&error, Error::TooLarge { migration, .. } if migration == "third");
            assert!(!error.may_have_applied());
        });
        assert_eq!(sent.await, [OpCode::Sync, OpCode::MultiRead]);
        let plan = manager(&zk).per_migration().plan(&set).await.unwrap();
        assert!(plan.size > 400 << 10 && plan.size < 401 << 10, "{}", plan.size);
        let outcome = manager(&zk).per_migration().migrate(&set).await.unwrap();
        assert_eq!(outcome.applied.len(), 4);
    });
}

/// Curator hashes the local address, if a create has no data.
#[test]
fn a_set_without_data_has_the_same_digest_on_every_host() {
    let open = MigrationSet::builder("orders").migration("m", |m| m.with(CreateOp::new(APP)));
    let error = open.build().unwrap_err();
    assert_matches!(&error, Error::DefaultData { migration, path }
        if migration == "m" && path == APP);
    simulated_on(TestServer::in_memory, async |server| {
        for data in ["host-1", "host-2"] {
            let zk = start(builder(&server).default_data(data)).await;
            manager(&zk).migrate(&set(2)).await.unwrap();
            zk.close().await.unwrap();
        }
        assert_eq!(effects(&server.probe()), names(2));
        assert_eq!(server.probe().data(APP).unwrap(), "");
    });
}

/// Java's checksum of both is the same.
#[test]
fn a_record_shows_a_change_that_javas_checksum_does_not() {
    let set = |data: &'static [u8]| {
        let set = MigrationSet::builder("orders").migration("m", |m| m.create(APP, data));
        set.compatible().build().unwrap()
    };
    simulated_with(async |server, zk| {
        let manager = manager(&zk);
        manager.migrate(&set(b"\x01\x23")).await.unwrap();
        let error = manager.migrate(&set(b"\x12\x03")).await.unwrap_err();
        assert!(matches!(error, Error::Mismatch { index: 0, .. }), "{error}");
        // Java writes no record, and a later version may write another one.
        zk.set_data(format!("{INFO}/0"), "migration 2\n").await.unwrap();
        assert_eq!(manager.migrate(&set(b"\x12\x03")).await.unwrap().already, 1);
        server.remove(INFO).unwrap();
        assert_eq!(manager.migrate(&set(b"\x12\x03")).await.unwrap().already, 1);
        let [applied] = &manager.applied("orders").await.unwrap()[..] else { panic!() };
        assert_eq!((&applied.name, &applied.by), (&None, &None));
    });
}

#[test]
fn compressed_data_are_hashed_before_compression() {
    simulated_on(TestServer::in_memory, async |server| {
        let text = "x".repeat(1000);
        let op = || CreateOp::new(APP).data(text.clone()).compressed();
        let set = || MigrationSet::builder("orders").migration("m", |m| m.with(op()));
        let plain = start(builder(&server)).await;
        let compressing = start(builder(&server).enable_compression()).await;
        let error = manager(&plain).migrate(&set().compatible().build().unwrap()).await;
        assert!(matches!(error, Err(Error::NotCompatible { .. })), "{error:?}");
        manager(&plain).migrate(&set().build().unwrap()).await.unwrap();
        assert!(server.probe().data(APP).unwrap().len() < 100);
        assert_eq!(plain.get_data(APP).decompressed().await.unwrap(), text);
        // The metadata are not compressed, whatever the framework does with other data.
        let outcome = manager(&compressing).migrate(&set().build().unwrap()).await.unwrap();
        assert_eq!(outcome.already, 1);
        let more = set().migration("n", |m| m.set_data(APP, text.clone()));
        let error = manager(&compressing).plan(&more.compatible().build().unwrap()).await;
        assert!(matches!(error, Err(Error::NotCompatible { .. })), "{error:?}");
        let more = set().migration("n", |m| m.set_data(APP, text.clone())).build().unwrap();
        manager(&compressing).migrate(&more).await.unwrap();
        assert_eq!(manager(&plain).migrate(&more).await.unwrap().already, 2);
    });
}

#[test]
fn mistakes_are_refused() {
    for id in ["", "a/b", ".", "..", "orders-info", "a\0"] {
        let error = MigrationSet::builder(id).build().unwrap_err();
        assert_matches!(&error, Error::InvalidId { id: told } if told == id);
    }
    let twice = MigrationSet::builder("a").migration("m", |m| m).migration("m", |m| m);
    assert!(matches!(twice.build(), Err(Error::Duplicate { name }) if name == "m"));
    simulated_with(async |server, zk| {
        for (locks, meta) in [("locks", "/meta"), ("/locks", "meta/")] {
            let manager = MigrationManager::new(&zk, locks, meta);
            for (operation, error) in [
                ("migrate", manager.migrate(&set(1)).await.unwrap_err()),
                ("plan", manager.plan(&set(1)).await.unwrap_err()),
                ("wait_applied", manager.wait_applied(&set(1)).await.unwrap_err()),
                ("applied", manager.applied("a").await.unwrap_err()),
            ] {
                assert_matches!(&error, Error::Framework(error)
                    if (error.kind(), error.operation()) == (ErrorKind::InvalidPath, operation));
            }
        }
        let path = MigrationSet::builder("orders").migration("m", |m| m.create("no-slash", ""));
        let error = manager(&zk).migrate(&path.build().unwrap()).await.unwrap_err();
        assert_matches!(&error, Error::Framework(error) if error.kind() == ErrorKind::InvalidPath);
        assert!(!server.probe().exists("/migrations"));
    });
}

/// E8: as strings, negative numbers come first.
#[test]
fn metadata_keep_their_order_after_2_to_the_31_numbers() {
    simulated_with(async |server, zk| {
        zk.create_containers(META).await.unwrap();
        server.set_sequence(META, i32::MAX - 1).unwrap();
        server.set_sequence_overflow(SequenceOverflow::WrapsAround);
        for count in 1..=6 {
            let outcome = manager(&zk).migrate(&set(count)).await.unwrap();
            assert_eq!(outcome.already, count - 1);
        }
        assert!(server.probe().exists(&format!("{META}/meta--2147483648")));
        assert_eq!(effects(&server.probe()), names(6));
        manager(&zk).wait_applied(&set(6)).await.unwrap();
    });
}

#[test]
fn foreign_children_of_the_metadata_are_ignored() {
    simulated_with(async |_server, zk| {
        manager(&zk).migrate(&set(1)).await.unwrap();
        for name in ["notes", "meta-1", "meta-"] {
            zk.create(format!("{META}/{name}")).await.unwrap();
        }
        assert_eq!(manager(&zk).migrate(&set(2)).await.unwrap().already, 1);
    });
}

/// An operator makes the last migration run again.
#[test]
fn a_record_without_metadata_is_replaced() {
    simulated_with(async |server, zk| {
        manager(&zk).label("one").migrate(&set(3)).await.unwrap();
        server.remove(&format!("{META}/meta-0000000002")).unwrap();
        let outcome = manager(&zk).label("two").migrate(&set(3)).await.unwrap();
        assert_eq!(outcome.applied, ["m2"]);
        let applied = manager(&zk).applied("orders").await.unwrap();
        assert_eq!(applied[2].node, "meta-0000000003");
        assert_eq!(applied[2].by.as_deref(), Some("two"));
        // All metadata are gone, and the records are left.
        server.remove(META).unwrap();
        let outcome = manager(&zk).migrate(&MigrationSet::builder("orders").build().unwrap()).await;
        assert_eq!(outcome.unwrap().already, 0);
        let other = MigrationSet::builder("orders").migration("other", |m| m.set_data(APP, "x"));
        let other = other.build().unwrap();
        manager(&zk).migrate(&other).await.unwrap();
        // As if Java had applied it: the record belongs to the first migration of the other set.
        let meta = format!("{META}/{}", server.probe().children(META)[0]);
        let (data, record) =
            (server.probe().data(&meta), server.probe().data(&format!("{INFO}/0")));
        server.remove(META).unwrap();
        server.remove("/app").unwrap();
        manager(&zk).migrate(&set(1)).await.unwrap();
        zk.set_data(format!("{INFO}/0"), record.unwrap()).await.unwrap();
        assert_eq!(manager(&zk).migrate(&set(1)).await.unwrap().already, 1);
        zk.set_data(format!("{META}/{}", server.probe().children(META)[0]), data.unwrap())
            .await
            .unwrap();
        assert_eq!(manager(&zk).migrate(&other).await.unwrap().already, 1);
        // A missing migration in the middle is a difference.
        manager(&zk).migrate(&set(1)).await.unwrap_err();
    });
}

#[test]
fn migrations_are_within_the_namespace_of_the_framework() {
    simulated_on(TestServer::in_memory, async |server| {
        let [one, two] = ["tenants/a", "tenants/b"].map(|name| builder(&server).namespace(name));
        let (one, two) = (start(one).await, start(two).await);
        manager(&one).migrate(&set(2)).await.unwrap();
        manager(&two).migrate(&set(2)).await.unwrap();
        let probe = server.probe();
        assert!(
            probe.exists("/tenants/a/app") && probe.exists("/tenants/b/migrations/meta/orders")
        );
        // The checksums have the paths of the server, as in Java.
        let data = |tenant| {
            probe.data(&format!("/tenants/{tenant}/migrations/meta/orders/meta-0000000000"))
        };
        assert_ne!(data("a"), data("b"));
    });
}

#[test]
fn every_kind_of_operation_is_applied_and_verified() {
    let acl = || Acl::read_unsafe();
    let set = MigrationSet::builder("orders")
        .migration("all", |m| {
            m.create(APP, "1")
                .with(CreateOp::new("/app/c").data("").mode(CreateMode::Container))
                .with(CreateOp::new("/app/r").data("").acl(acl()))
                .with(
                    CreateOp::new("/app/t")
                        .data("")
                        .mode(CreateMode::PersistentWithTtl)
                        .ttl(Duration::from_secs(5)),
                )
                .check(APP, 0)
                .set_data(APP, "2")
                .create("/app/d", "")
                .delete("/app/d")
        })
        .compatible()
        .build()
        .unwrap();
    simulated_with(async |server, zk| {
        manager(&zk).migrate(&set).await.unwrap();
        let probe = server.probe();
        assert!(probe.is_container("/app/c") && !probe.exists("/app/d"));
        assert_eq!(probe.ttl("/app/t"), Some(Duration::from_secs(5)));
        assert_eq!((probe.acl("/app/r"), &probe.data(APP).unwrap()[..]), (&acl()[..], &b"2"[..]));
        assert_eq!(manager(&zk).migrate(&set).await.unwrap().already, 1);
    });
}

#[test]
fn many_processes_apply_a_set_once() {
    simulated(async {
        let server = TestServer::in_memory().await;
        let mut clients = Vec::new();
        for _ in 0..20 {
            clients.push(connected(&server).await);
        }
        let runs = clients.iter().map(|zk| async { manager(zk).migrate(&set(4)).await.unwrap() });
        let outcomes = join_all(runs).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.applied.len() == 4).count(), 1);
        assert_eq!(outcomes.iter().filter(|outcome| outcome.already == 4).count(), 19);
        assert_eq!(effects(&server.probe()), names(4));
        clean_up(&clients[0]).await;
        all_close_clean(&server, &clients).await;
    });
}

/// The holder of the lock is in the middle of its work when the others start.
#[test]
fn processes_that_start_later_send_four_requests() {
    simulated(async {
        let (server, holder) = in_memory().await;
        let mut clients = Vec::new();
        for _ in 0..20 {
            clients.push(connected(&server).await);
        }
        let is_first = |request: &zk_curator_testing::RuleRequest<'_>| {
            request.is(OpCode::Multi) && request.paths().any(|path| path == APP)
        };
        let slow = rule_if(&server, is_first, Verdict::Delay(Duration::from_secs(5))).times(1);
        let first = tokio::spawn(async move { manager(&holder).migrate(&set(3)).await });
        slow.fired().await;
        let (rule, requests) = recorded(&server);
        let runs = clients.iter().map(|zk| async { manager(zk).migrate(&set(3)).await.unwrap() });
        let outcomes = join_all(runs).await;
        assert!(outcomes.iter().all(|outcome| outcome.already == 3));
        assert_eq!(first.await.unwrap().unwrap().applied.len(), 3);
        for zk in &clients {
            let id = zk.session().unwrap().id.get();
            let sent = requests.lock().unwrap()[&id].clone();
            assert!(sent.len() <= 4, "{sent:?}");
        }
        drop(rule);
    });
}

#[test]
fn waiting_instances_send_four_requests() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        zk.create_containers(META).await.unwrap();
        let id = other.session().unwrap().id.get();
        let (_rule, requests) = recorded(&server);
        let manager_of_other = manager(&other);
        let waiting = tokio::spawn(async move { manager_of_other.wait_applied(&set(3)).await });
        until(&server, |probe| !probe.watches().is_empty()).await;
        idle(Duration::from_secs(100)).await;
        manager(&zk).migrate(&set(3)).await.unwrap();
        waiting.await.unwrap().unwrap();
        let sent = requests.lock().unwrap()[&id].clone();
        assert_eq!(sent.len(), 4, "{sent:?}");
    });
}

#[test]
fn waiting_ends_when_the_last_migration_is_applied() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let (manager, theirs) = (manager(&zk), manager(&other));
        let last = set(3);
        let mut waiting = Box::pin(theirs.wait_applied(&last));
        for count in 1..=2 {
            assert!(timeout(Duration::from_secs(60), &mut waiting).await.is_err());
            manager.migrate(&set(count)).await.unwrap();
        }
        // In the next session, too.
        expire(&server, &other).await;
        assert!(timeout(Duration::from_secs(60), &mut waiting).await.is_err());
        manager.migrate(&set(3)).await.unwrap();
        waiting.await.unwrap();
        // Nothing is left of the wait.
        until(&server, |probe| probe.watches().is_empty()).await;
        // A difference ends it.
        let last = counted(3).migration("other", |m| m.create("/app/o", "")).build().unwrap();
        let mut waiting = Box::pin(theirs.wait_applied(&last));
        assert!(timeout(Duration::from_secs(60), &mut waiting).await.is_err());
        manager.migrate(&set(4)).await.unwrap();
        assert!(matches!(waiting.await, Err(Error::Mismatch { index: 3, .. })));
    });
}

#[test]
fn a_held_lock_is_waited_for_as_long_as_allowed() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lock = InterProcessSemaphoreMutex::new(&other, LOCK);
        let held = lock.acquire().await.unwrap();
        for secs in [0, 5] {
            let manager = manager(&zk).lock_timeout(Duration::from_secs(secs));
            let error = manager.migrate(&set(1)).await.unwrap_err();
            assert_matches!(&error, Error::LockTimeout { path, .. } if path == LOCK);
            assert!(error.is_retryable() && !error.may_have_applied());
        }
        let manager = manager(&zk).lock_timeout(Duration::MAX);
        let one = set(1);
        let mut waiting = Box::pin(manager.migrate(&one));
        assert!(timeout(Duration::from_secs(3600), &mut waiting).await.is_err());
        held.release().await.unwrap();
        assert_eq!(waiting.await.unwrap().applied.len(), 1);
        let free = manager.lock_timeout(Duration::ZERO);
        assert_eq!(free.migrate(&set(2)).await.unwrap().applied.len(), 1);
        drop(server);
    });
}

#[test]
fn a_lock_that_the_caller_holds_is_enough() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let lock = InterProcessMutex::new(&zk, "/locks/deploy");
        let guard = lock.acquire().await.unwrap();
        let manager = manager(&zk).fenced_by(guard.ownership());
        assert_eq!(manager.migrate(&set(2)).await.unwrap().applied.len(), 2);
        assert!(!server.probe().exists(LOCK));
        // It is deleted, and another client holds the lock.
        server.remove(guard.path()).unwrap();
        let theirs = InterProcessMutex::new(&other, "/locks/deploy").acquire().await.unwrap();
        let error = manager.migrate(&set(3)).await.unwrap_err();
        assert_matches!(&error, Error::Framework(error)
            if error.kind() == ErrorKind::OwnershipLost && !error.may_have_applied());
        assert_eq!(effects(&server.probe()), names(2));
        assert_eq!(manager.migrate(&set(2)).await.unwrap().already, 2);
        drop(theirs);
    });
}

#[test]
fn the_first_look_is_at_the_state_of_the_leader() {
    simulated_on(cluster_of_three, async |cluster| {
        let follower = (cluster.leader().unwrap() + 1) % 3;
        let on = async |member: usize| {
            let builder = builder_for(&cluster.member(member).connect_string());
            start(builder.connector(Arc::new(cluster.connector()))).await
        };
        let (here, there) = (on(cluster.leader().unwrap()).await, on(follower).await);
        let _lag = cluster.lag_by(follower, Duration::from_secs(2));
        manager(&here).migrate(&set(3)).await.unwrap();
        let error = manager(&there).migrate(&set(2)).await.unwrap_err();
        assert!(matches!(error, Error::Ahead { found: 3, known: 2, .. }), "{error}");
    });
}

/// The lock counts only its own nodes.
#[test]
fn other_nodes_next_to_the_leases_hold_no_lock() {
    simulated_with(async |_server, zk| {
        for name in ["notes", "lease-", "_c_0-lock-0000000000"] {
            let path = format!("{LOCK}/leases/{name}");
            zk.create(path).creating_parents().await.unwrap();
        }
        let manager = manager(&zk).lock_timeout(Duration::from_secs(5));
        assert_eq!(manager.migrate(&set(2)).await.unwrap().applied, names(2));
    });
}

#[test]
fn a_cancelled_wait_is_over_at_once() {
    simulated_with(async |server, zk| {
        let manager = manager(&zk);
        let three = set(3);
        let mut waiting = Box::pin(manager.wait_applied(&three));
        assert!((&mut waiting).now_or_never().is_none());
        until(&server, |probe| !probe.watches().is_empty()).now_or_never();
        drop(waiting);
        closes_clean(&server, &zk).await;
    });
}
