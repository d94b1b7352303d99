//! The rights in the guide's page about permissions, for recipes without a table of their own: all
//! of them together are enough, and without any one of them the recipe fails with `NoAuth`.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use zk_curator::acl::AclProvider;
use zk_curator::retry::RetryForever;
use zk_curator::{Acl, CuratorFramework, Permissions};
use zk_curator_discovery::{ServiceDiscovery, ServiceInstance};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::lease::TimedLease;
use zk_curator_recipes::migration::{MigrationManager, MigrationSet};
use zk_curator_recipes::partition::{Partition, SetPartitioner};
use zk_curator_recipes::schedule::{OncePer, Schedule, Slot};
use zk_curator_recipes::stm::Stm;
use zk_curator_recipes::two_phase::{Coordinator, Site, Vote};
use zk_curator_testing::rule::path_matches;
use zk_curator_testing::{TestServer, digest};
use zk_curator_tests::{builder, simulated, start};

const USER: &str = "user:u";
const OPERATOR: &str = "root:toor";
const MINUTE: Duration = Duration::from_secs(60);
/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(1800);
/// 2026-11-22T13:15:00Z, the time at which servers start.
const START: Duration = Duration::from_secs(1_795_353_300);

const C: Permissions = Permissions::CREATE;
const D: Permissions = Permissions::DELETE;
const W: Permissions = Permissions::WRITE;

/// A row: the nodes, their data if an operator creates them, and the rights of the user, who may
/// also read everything.
type Row = (&'static str, Option<&'static str>, &'static [Permissions]);

const SCHEDULE: &[Row] = &[("/cron", Some(""), &[C, D]), ("/cron/20*", None, &[C, D, W])];

const PARTITIONS: &[Row] = &[
    ("/set", Some(""), &[C]),
    ("/set/list", None, &[W]),
    ("/set/members", None, &[C, D]),
    ("/set/parts", None, &[C]),
    ("/set/parts/*", None, &[C, D]),
];

const LEASE: &[Row] = &[("/lease", Some(""), &[C, D, W]), ("/lease/lease_holder", None, &[W])];

const SPACE: &[Row] = &[
    ("/space", Some(""), &[C, D, W]),
    ("/space/_receipts", None, &[C, D]),
    ("/space/a", None, &[W]),
];

const MIGRATIONS: &[Row] = &[
    ("/locks", Some(""), &[C]),
    ("/locks/orders", None, &[C]),
    ("/locks/orders/locks", None, &[C, D]),
    ("/locks/orders/leases", None, &[C, D]),
    ("/meta", Some(""), &[C, D]),
    ("/meta/orders", None, &[C]),
    ("/meta/orders-info", None, &[C]),
    // That of the operation.
    ("/data", Some(""), &[C]),
];

const TWO_PHASE: &[Row] =
    &[("/tx", Some(""), &[C, D]), ("/tx/order", None, &[C, D, W]), ("/tx/order/stock", None, &[W])];

const DISCOVERY: &[Row] = &[
    ("/services", Some(""), &[C]),
    ("/services/orders", None, &[C, D]),
    ("/services/orders/*", None, &[W]),
];

/// The ACLs of a table, but for one right.
#[derive(Debug, Clone, Copy)]
struct Rights {
    table: &'static [Row],
    missing: Option<(&'static str, Permissions)>,
}

impl AclProvider for Rights {
    fn acl(&self, path: &str) -> Vec<Acl> {
        let row = self.table.iter().find(|(nodes, ..)| path_matches(nodes, path));
        let granted = match row {
            Some((nodes, _, rights)) => {
                let rights = rights.iter().filter(|right| self.missing != Some((*nodes, **right)));
                rights.fold(Permissions::READ, |all, right| all | *right)
            }
            // Nodes that are in no row have no children, and are written by their owners.
            None => Permissions::READ | W,
        };
        vec![Acl::new(granted, "digest", digest(USER))]
    }
}

/// The failures: their steps and texts.
#[derive(Debug, Default)]
struct Failed(Vec<String>);

impl Failed {
    async fn note<T, E: fmt::Display>(
        &mut self,
        step: &str,
        result: impl IntoFuture<Output = Result<T, E>>,
    ) -> Option<T> {
        match timeout(LONG, result.into_future()).await {
            Ok(Ok(output)) => return Some(output),
            Ok(Err(error)) => self.0.push(format!("{step}: {error}")),
            Err(_) => self.0.push(format!("{step}: no end")),
        }
        None
    }

    fn is_refusal(&self) -> bool {
        self.0.iter().any(|failure| failure.contains("not authorised"))
    }
}

async fn use_schedule(zk: &CuratorFramework, failed: &mut Failed) -> Option<()> {
    let (since, runs, stop) = (Instant::now(), AtomicU32::new(0), Shutdown::new());
    let once = OncePer::new(zk, "/cron", Schedule::every(MINUTE))
        .id("me")
        .clock(move || SystemTime::UNIX_EPOCH + START + since.elapsed())
        .keep(1)
        .at_least_once(RetryForever::new(MINUTE));
    // This many that old slots are deleted.
    let body = |_: Slot| {
        if runs.fetch_add(1, Ordering::Relaxed) == 2 {
            stop.begin();
        }
        ready(Ok::<_, Infallible>(()))
    };
    failed.note("run", once.run(body).until(stop.clone())).await
}

async fn use_partitions(zk: &CuratorFramework, failed: &mut Failed) -> Option<()> {
    let stop = Shutdown::new();
    let set = SetPartitioner::new(zk, "/set", ["a", "b"]).id("me").shared_parts();
    for parts in [["a", "b"], ["a", "c"]] {
        failed.note("set_parts", set.set_parts(parts)).await?;
    }
    let body = |part: Partition| {
        stop.begin();
        async move {
            part.revoked().await;
            Ok::<_, Infallible>(())
        }
    };
    failed.note("run", set.run(body).until(stop.clone())).await
}

async fn use_lease(zk: &CuratorFramework, failed: &mut Failed) -> Option<()> {
    let lease = TimedLease::new(zk, "/lease", "me");
    let mut guard = failed.note("try_take", lease.try_take(MINUTE)).await??;
    failed.note("renew", guard.renew(MINUTE)).await?;
    failed.note("release", guard.release()).await
}

async fn use_space(zk: &CuratorFramework, failed: &mut Failed) -> Option<()> {
    let space = Stm::space(zk, "/space");
    let created = space.atomically(|tx| async move { tx.create("/space/a", &1) });
    failed.note("create", created).await?;
    failed.note("put", space.atomically(|tx| async move { tx.put("/space/a", &2) })).await?;
    failed.note("delete", space.atomically(|tx| async move { tx.delete("/space/a") })).await?;
    Some(())
}

async fn use_migrations(zk: &CuratorFramework, failed: &mut Failed) -> Option<()> {
    let set = MigrationSet::builder("orders").migration("node", |m| m.create("/data/a", ""));
    let (set, manager) = (set.build().unwrap(), MigrationManager::new(zk, "/locks", "/meta"));
    failed.note("migrate", manager.migrate(&set)).await?;
    Some(())
}

async fn use_two_phase(zk: &CuratorFramework, failed: &mut Failed) -> Option<()> {
    let begun = Coordinator::begin(zk, "/tx/order", ["stock"], "3 of article 7");
    let mut coordinator = failed.note("begin", begun).await?;
    let mut site = failed.note("join", Site::join(zk, "/tx/order", "stock")).await?;
    failed.note("vote", site.vote(Vote::Commit)).await?;
    failed.note("outcome", coordinator.outcome()).await?;
    failed.note("acknowledge", site.acknowledge()).await?;
    failed.note("clean_up", coordinator.clean_up()).await
}

async fn use_discovery(zk: &CuratorFramework, failed: &mut Failed) -> Option<()> {
    let discovery = ServiceDiscovery::<()>::new(zk, "/services");
    let orders = ServiceInstance::builder("orders").id("1").address("10.0.0.1").port(8040);
    let orders = orders.build().unwrap();
    let mut registration = failed.note("register", discovery.register(orders)).await?;
    failed.note("drain", registration.drain()).await?;
    failed.note("unregister", registration.unregister()).await
}

/// Plays the use of a recipe with these rights, and returns what fails.
async fn play(
    rights: Rights,
    use_it: &impl AsyncFn(&CuratorFramework, &mut Failed) -> Option<()>,
) -> Failed {
    let server = TestServer::builder().tcp(false).super_digest(digest(OPERATOR));
    let server = server.wall_clock(SystemTime::UNIX_EPOCH + START).start().await.unwrap();
    let operator = builder(&server).authorization("digest", OPERATOR).acl_provider(rights);
    let operator = start(operator).await;
    for (nodes, data, _) in rights.table {
        if let Some(data) = data {
            operator.create(*nodes).data(*data).await.unwrap();
        }
    }
    operator.close().await.unwrap();

    let zk = start(builder(&server).authorization("digest", USER).acl_provider(rights)).await;
    let mut background = zk.background_errors();
    let mut failed = Failed::default();
    let done = use_it(&zk, &mut failed).await;
    assert_eq!(done.is_some(), failed.0.is_empty(), "{failed:?}");
    if let Err(error) = zk.close().await {
        failed.0.push(format!("close: {error}"));
    }
    while let Some(Some(error)) = background.next().now_or_never() {
        failed.0.push(format!("in the background: {error}"));
    }
    failed
}

/// Every right of a table, and the failure without it.
async fn check(
    table: &'static [Row],
    use_it: impl AsyncFn(&CuratorFramework, &mut Failed) -> Option<()>,
) {
    let all = play(Rights { table, missing: None }, &use_it).await;
    assert!(all.0.is_empty(), "the rights of the table are not enough: {all:#?}");
    let mut unneeded = Vec::new();
    for (nodes, _, rights) in table {
        for right in *rights {
            let failed = play(Rights { table, missing: Some((nodes, *right)) }, &use_it).await;
            if !failed.is_refusal() {
                unneeded.push(format!("{:#x} at {nodes}: {:?}", right.bits(), failed.0));
            }
        }
    }
    assert!(unneeded.is_empty(), "{unneeded:#?}");
}

#[test]
fn schedules_need_every_right_of_their_table() {
    simulated(check(SCHEDULE, use_schedule));
}

#[test]
fn partitions_need_every_right_of_their_table() {
    simulated(check(PARTITIONS, use_partitions));
}

#[test]
fn leases_need_every_right_of_their_table() {
    simulated(check(LEASE, use_lease));
}

#[test]
fn spaces_need_every_right_of_their_table() {
    simulated(check(SPACE, use_space));
}

#[test]
fn migrations_need_every_right_of_their_table() {
    simulated(check(MIGRATIONS, use_migrations));
}

#[test]
fn two_phase_commit_needs_every_right_of_its_table() {
    simulated(check(TWO_PHASE, use_two_phase));
}

#[test]
fn registrations_need_every_right_of_their_table() {
    simulated(check(DISCOVERY, use_discovery));
}
