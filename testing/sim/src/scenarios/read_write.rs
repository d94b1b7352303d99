//! [`InterProcessReadWriteLock`]: readers and writers, writers that downgrade, and readers that try
//! to upgrade.

use zk_curator_recipes::lock::{InterProcessReadWriteLock, ReadGuard, WriteGuard};

use super::Scenario;
use super::support::holding::{Attempt, Held, Pauses, acquire, hold_on, last_visit, let_go, work};
use crate::checkers::Exclusion;
use crate::history::{Hold, HoldMode};
use crate::{Client, Failure};

const LOCK: &str = "/locks/catalogue";
const NODE: &str = "/data/catalogue";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "read_write",
    "InterProcessReadWriteLock: readers share, a writer is alone",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(visit)
            .operator(["/locks/catalogue/*"])
            .checker(Exclusion::read_write())
            .nodes([NODE])
            .sequences([LOCK])
    },
);

async fn visit(client: Client) -> Result<(), Failure> {
    let lock = InterProcessReadWriteLock::new(&client.connect().await?, LOCK);
    let mut rng = client.rng();
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        if rng.u8(..3) == 0 {
            let attempt = Attempt::begin(&client, LOCK, HoldMode::Exclusive);
            let lock = lock.write_lock();
            if let Some(guard) = acquire(&client, lock.acquire(), lock.try_acquire()).await {
                let writing = attempt.acquired(guard.fencing_token());
                Box::pin(write(&client, writing, guard)).await;
            }
        } else {
            let attempt = Attempt::begin(&client, LOCK, HoldMode::Shared);
            let lock = lock.read_lock();
            if let Some(guard) = acquire(&client, lock.acquire(), lock.try_acquire()).await {
                let reading = attempt.acquired(guard.fencing_token());
                Box::pin(read(&client, reading, guard)).await;
            }
        }
    }
    let attempt = Attempt::begin(&client, LOCK, HoldMode::Exclusive);
    if let Some(guard) = last_visit(&client, lock.write_lock().acquire()).await? {
        let writing = attempt.acquired(guard.fencing_token());
        let_go(&client, &writing, guard.release()).await;
    }
    Ok(())
}

async fn write(client: &Client, writing: Held<'_>, guard: WriteGuard) {
    if !hold_on(&writing, guard.lost(), work(client, &writing, NODE, || guard.fenced())).await {
        return;
    }
    if client.rng().u8(..4) > 0 {
        return let_go(client, &writing, guard.release()).await;
    }
    let attempt = Attempt::begin(client, LOCK, HoldMode::Shared);
    writing.releasing();
    // Dropping the guard, in the error, releases the lock.
    if let Some(Ok(guard)) = client.maybe_cancel(guard.downgrade()).await {
        let reading = attempt.acquired(guard.fencing_token());
        // The token is not that of the reader's node.
        let name = guard.path().rsplit('/').next().unwrap_or_default().into();
        client.record(Hold::Node { hold: reading.number(), name });
        only_read(client, reading, guard).await;
    }
}

async fn read(client: &Client, reading: Held<'_>, guard: ReadGuard) {
    if client.rng().u8(..4) > 0 {
        return only_read(client, reading, guard).await;
    }
    let attempt = Attempt::begin(client, LOCK, HoldMode::Exclusive);
    let ownership = guard.ownership().clone();
    let upgraded = tokio::select! {
        biased;
        () = ownership.lost() => return reading.lost(),
        upgraded = client.maybe_cancel(guard.try_upgrade()) => upgraded,
    };
    match upgraded {
        Some(Ok(guard)) => {
            reading.releasing();
            let writing = attempt.acquired(guard.fencing_token());
            let work = work(client, &writing, NODE, || guard.fenced());
            if hold_on(&writing, guard.lost(), work).await {
                let_go(client, &writing, guard.release()).await;
            }
        }
        Some(Err(unchanged)) => {
            drop(attempt);
            only_read(client, reading, unchanged.guard).await;
        }
        None => {}
    }
}

async fn only_read(client: &Client, reading: Held<'_>, guard: ReadGuard) {
    let read = async {
        for _ in 0..client.rng().u8(..3) {
            client.use_resource(&reading).await;
        }
    };
    if hold_on(&reading, guard.lost(), read).await {
        let_go(client, &reading, guard.release()).await;
    }
}
