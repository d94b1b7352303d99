//! [`MigrationManager`]: processes of several versions apply the same sets. Every migration creates
//! a sequential node, so the nodes show what was applied, how often, and in which order. Some also
//! rewrite a number that other clients count up, which must lose none of their numbers.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::op::CreateOp;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_recipes::migration::{
    Error, MigrationManager, MigrationSet, MigrationSetBuilder, Operations, Outcome, Reads,
};

use super::Scenario;
use crate::checkers::{IssuedOnce, Migrations};
use crate::history::{Migration, Shared};
use crate::{Client, Failure};

const APP: &str = "/app";
/// A number that clients count up, and that computed migrations rewrite.
const COUNT: &str = "/app/count";
const LOCKS: &str = "/migrations/locks";
const META: &str = "/migrations/meta";
/// The number of migrations of the newest version.
const ALL: u32 = 5;
/// The number of migrations of the oldest version.
const OLDEST: u32 = 2;
/// The number of sets: each has its turn.
const SETS: u32 = 10;
/// The time to wait for a lock or for migrations of other processes.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most tries to apply a set after the last fault.
const TRIES: u32 = 100;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "migrations",
    "MigrationManager: every migration once and in order, by processes of several versions",
    &["migrations", "numbers issued"],
    |sim| {
        sim.workload(work)
            .checker(Migrations)
            .checker(IssuedOnce)
            .nodes([APP, COUNT])
            .sequences((0..SETS).map(|number| format!("{META}/s{number}")))
            .operator([
                "/migrations/meta/_r_*",
                "/migrations/locks/*/leases/_c_*",
                "/migrations/locks/*/locks/_c_*",
                "/migrations/locks/deploy/_c_*",
            ])
            .leaves(["/app/**", "/migrations", META, "/migrations/meta/s*"])
            .leaves(["/migrations/meta/s*/*", LOCKS, "/migrations/locks/s*"])
            .leaves(["/migrations/locks/s*/*", "/migrations/locks/deploy"])
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    while let Some(round) = client.next_round() {
        let number = round % SETS;
        let id = id(&zk, number);
        sleep(client.moment(Duration::from_millis(200))).await;
        let manager = manager(&client, &zk);
        let manager = if rng.bool() { manager.per_migration() } else { manager };
        match rng.u8(..8) {
            0 => waits(&client, &zk, &manager, &id).await?,
            1 => count_up(&client, &zk).await,
            2 => differs(&client, &manager, &id, rng.u32(OLDEST..ALL), rng.bool()).await?,
            3..=5 => {
                for known in [rng.u32(OLDEST..ALL), ALL] {
                    migrates(&client, &zk, &manager, number, known).await?;
                }
            }
            _ => {
                migrates(&client, &zk, &manager, number, ALL).await?;
            }
        }
    }
    client.faults_are_over().await;
    let manager = manager(&client, &zk);
    for number in 0..SETS.min(client.rounds()) {
        ends(&client, &zk, &manager, number).await?;
    }
    Ok(())
}

/// Returns the id of a set. The checksums have the namespace, and not the chroot, so clients that
/// reach the same nodes by different ones have different sets.
fn id(zk: &CuratorFramework, number: u32) -> String {
    format!("s{number}{}", zk.namespace().replace('/', "."))
}

fn manager(client: &Client, zk: &CuratorFramework) -> MigrationManager {
    let manager = MigrationManager::new(zk, LOCKS, META);
    manager.label(client.who().to_string()).lock_timeout(PATIENCE)
}

/// A set with the first migrations, of which one may be altered.
fn set(id: &str, known: u32, altered: Option<u32>) -> Result<MigrationSet, Error> {
    let root = format!("{APP}/{id}");
    let add = |set: MigrationSetBuilder, number: u32| {
        let (root, name) = (root.clone(), format!("m{number}"));
        let mark = if altered == Some(number) { "altered" } else { "" };
        if number % 3 == 2 {
            // Reads the results of all earlier migrations.
            return set.computed(name, format!("1{mark}"), move |reads| count(reads, root.clone()));
        }
        set.migration(name, move |m| {
            let m = if number == 0 { m.create(root.as_str(), "") } else { m };
            m.with(effect(&root, &format!("{number}{mark}")))
        })
    };
    (0..known).fold(MigrationSet::builder(id), add).build()
}

fn effect(root: &str, data: &str) -> CreateOp {
    let path = format!("{root}/n-");
    CreateOp::new(path).data(data.to_owned()).mode(CreateMode::PersistentSequential)
}

/// Its effect is the number of earlier effects. It also writes a number that it has read.
async fn count(reads: Reads, root: String) -> Result<Operations, zk_curator::Error> {
    let before = reads.children(root.as_str()).await?.unwrap_or_default().len();
    let number = reads.get_data(COUNT).await?;
    Ok(Operations::new().with(effect(&root, &before.to_string())).set_data(COUNT, number))
}

/// Counts up a few times, as a client that knows nothing of migrations.
async fn count_up(client: &Client, zk: &CuratorFramework) {
    for _ in 0..10 {
        let Ok((data, stat)) = zk.get_data(COUNT).with_stat().await else { return };
        let number = std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok());
        let number: i64 = number.unwrap_or(0) + 1;
        if zk.set_data(COUNT, number.to_string()).version(stat.version).await.is_ok() {
            client.record(Shared::Issued { sequence: COUNT.into(), number });
        }
        sleep(client.moment(Duration::from_millis(20))).await;
    }
}

/// Checks the effects, of which at least these must be there.
async fn check(zk: &CuratorFramework, id: &str, at_least: u32) -> Result<(), Failure> {
    let root = format!("{APP}/{id}");
    let mut names = match zk.children(root.as_str()).linearizable().await {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
        // Nothing was read.
        Err(_) => return Ok(()),
    };
    names.sort_unstable();
    if names.len() < at_least as usize {
        return Err(format!("{id} has {} effects of {at_least}", names.len()).into());
    }
    for (number, name) in names.iter().enumerate() {
        let Ok(data) = zk.get_data(format!("{root}/{name}")).await else { return Ok(()) };
        if data != number.to_string() {
            return Err(format!("{id} has the effect {data:?} at {number}").into());
        }
    }
    Ok(())
}

/// A call, until its result is recorded.
async fn call(
    client: &Client,
    manager: &MigrationManager,
    set: &MigrationSet,
    altered: bool,
) -> Option<Result<Outcome, Error>> {
    let (call, known) = (client.unique(), u32::try_from(set.len()).unwrap_or(u32::MAX));
    client.record(Migration::Calling { call, set: set.id().into(), known, altered });
    let result = client.maybe_cancel(manager.migrate(set)).await;
    match &result {
        Some(Ok(outcome)) => {
            client.record(Migration::Migrated { call, applied: places(&outcome.applied) });
        }
        Some(Err(error)) => {
            let applied = places(error.applied());
            if !applied.is_empty() {
                client.record(Migration::Incomplete { call, applied });
            }
            match error.reason() {
                Error::Ahead { .. } => client.record(Migration::Ahead { call }),
                Error::Mismatch { .. } => client.record(Migration::Mismatch { call }),
                reason => client.note(format!("not migrated: {reason}")),
            }
        }
        None => {}
    }
    result
}

/// Returns the places of migrations in their set.
fn places(names: &[String]) -> Vec<u32> {
    let place = |name: &String| name.trim_start_matches('m').parse().unwrap_or(u32::MAX);
    names.iter().map(place).collect()
}

async fn applies(
    client: &Client,
    zk: &CuratorFramework,
    manager: &MigrationManager,
    id: &str,
    known: u32,
) -> Result<bool, Failure> {
    let set = set(id, known, None)?;
    let result = call(client, manager, &set, false).await;
    let at_least = if let Some(Ok(_)) = &result { known } else { 0 };
    check(zk, id, at_least).await?;
    let error = match result {
        Some(Ok(_)) => return Ok(true),
        Some(Err(error)) => error,
        None => return Ok(false),
    };
    match error.reason() {
        Error::Ahead { .. } => Ok(true),
        reason if is_exhausted(reason) => Ok(true),
        // No fault makes an operation fail.
        Error::Refused { .. } | Error::Computation { .. } => Err(error.into()),
        _ => Ok(false),
    }
}

/// Returns `true` if the servers assign no more numbers to the metadata.
fn is_exhausted(error: &Error) -> bool {
    match error {
        Error::Framework(error) => {
            error.kind() == ErrorKind::NodeExists && error.path().ends_with("/meta-")
        }
        _ => false,
    }
}

/// Applies a set, under a lock of the caller for every second set. Returns `true` if there is no
/// more to do.
async fn migrates(
    client: &Client,
    zk: &CuratorFramework,
    manager: &MigrationManager,
    number: u32,
    known: u32,
) -> Result<bool, Failure> {
    let id = id(zk, number);
    if number.is_multiple_of(2) {
        return applies(client, zk, manager, &id, known).await;
    }
    let lock = InterProcessMutex::new(zk, format!("{LOCKS}/deploy"));
    let Some(Ok(Ok(guard))) = client.maybe_cancel(timeout(PATIENCE, lock.acquire())).await else {
        return Ok(false);
    };
    let manager = manager.clone().fenced_by(guard.ownership());
    applies(client, zk, &manager, &id, known).await
}

/// Waits until a set is applied.
async fn waits(
    client: &Client,
    zk: &CuratorFramework,
    manager: &MigrationManager,
    id: &str,
) -> Result<(), Failure> {
    let set = set(id, ALL, None)?;
    let waiting = timeout(PATIENCE, manager.wait_applied(&set));
    if let Some(Ok(waited)) = client.maybe_cancel(waiting).await {
        waited?;
        check(zk, id, ALL).await?;
    }
    Ok(())
}

/// After a set is applied, calls with an older or an altered one.
async fn differs(
    client: &Client,
    manager: &MigrationManager,
    id: &str,
    place: u32,
    is_altered: bool,
) -> Result<(), Failure> {
    let newest = set(id, ALL, None)?;
    match timeout(PATIENCE, manager.wait_applied(&newest)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => return Ok(()),
    }
    let different = if is_altered { set(id, ALL, Some(place))? } else { set(id, place, None)? };
    match call(client, manager, &different, is_altered).await {
        Some(Ok(_)) => Err(format!("a different set {id} succeeds: {place}").into()),
        _ => Ok(()),
    }
}

/// Applies a set, after the last fault.
async fn ends(
    client: &Client,
    zk: &CuratorFramework,
    manager: &MigrationManager,
    number: u32,
) -> Result<(), Failure> {
    let id = id(zk, number);
    for _ in 0..TRIES {
        if migrates(client, zk, manager, number, ALL).await? {
            let set = set(&id, ALL, None)?;
            if manager.plan(&set).await.is_ok_and(|plan| plan.missing.is_empty()) {
                manager.wait_applied(&set).await?;
            }
            return Ok(());
        }
        sleep(client.moment(Duration::from_millis(100))).await;
    }
    Err(format!("{id} is not applied").into())
}
