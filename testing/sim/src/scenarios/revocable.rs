//! [`RevocableReadWriteLock`]: holders that are asked, and then forced, to release the lock.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::lock::{Guard, RevocableReadWriteLock};

use super::Scenario;
use super::support::holding::{Attempt, Pauses, acquire, hold_on, last_visit, let_go, work};
use crate::checkers::Exclusion;
use crate::history::{Hold, HoldMode};
use crate::{Client, Failure};

const LOCK: &str = "/locks/report";
const NODE: &str = "/data/report";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "revocable",
    "RevocableReadWriteLock: holders release the lock on request, or are forced to",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(visit)
            .operator(["/locks/report/*"])
            .common(["/locks/report/*"])
            .checker(Exclusion::read_write())
            .nodes([NODE])
            .sequences([LOCK])
    },
);

async fn visit(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        if rng.u8(..4) == 0 {
            revoke(&client, &RevocableReadWriteLock::new(&zk, LOCK)).await;
            continue;
        }
        let mode = if rng.bool() { HoldMode::Exclusive } else { HoldMode::Shared };
        let attempt = Attempt::begin(&client, LOCK, mode);
        // The label identifies the owner of a node.
        let lock = RevocableReadWriteLock::new(&zk, LOCK).label(attempt.number().to_string());
        if mode == HoldMode::Exclusive {
            let lock = lock.write_lock();
            if let Some(guard) = acquire(&client, lock.acquire(), lock.try_acquire()).await {
                hold(&client, attempt, guard, true).await;
            }
        } else {
            let lock = lock.read_lock();
            if let Some(guard) = acquire(&client, lock.acquire(), lock.try_acquire()).await {
                hold(&client, attempt, guard, false).await;
            }
        }
    }
    let attempt = Attempt::begin(&client, LOCK, HoldMode::Exclusive);
    let lock = RevocableReadWriteLock::new(&zk, LOCK).label(attempt.number().to_string());
    if let Some(guard) = last_visit(&client, lock.write_lock().acquire()).await? {
        hold(&client, attempt, guard, true).await;
    }
    Ok(())
}

/// Works, and releases the lock when the work is done. Reacts to a revocation request immediately,
/// some time later, or never.
async fn hold<K>(client: &Client, attempt: Attempt<'_>, guard: Guard<K>, writes: bool) {
    let held = attempt.acquired(guard.fencing_token());
    let mut rng = client.rng();
    let asked = async {
        guard.revoked().await;
        match rng.u8(..3) {
            0 => {}
            1 => {
                for _ in 0..rng.u8(1..4) {
                    sleep(client.moment(Duration::from_millis(100))).await;
                    // If the lock is lost in between, the requester learns of it.
                    drop(guard.acknowledge().await);
                }
            }
            _ => std::future::pending().await,
        }
    };
    let done = async {
        if writes {
            work(client, &held, NODE, || guard.fenced()).await;
        } else {
            client.use_resource(&held).await;
        }
        sleep(client.moment(client.session_timeout() / 4)).await;
    };
    let until = async {
        tokio::select! {
            biased;
            () = asked => {}
            () = done => {}
        }
    };
    if hold_on(&held, guard.lost(), until).await {
        let_go(client, &held, guard.release()).await;
    }
}

/// Asks a holder or a waiter to release the lock, and forces it after a while.
async fn revoke(client: &Client, lock: &RevocableReadWriteLock) {
    let mut rng = client.rng();
    let participants = if rng.bool() {
        client.maybe_cancel(lock.write_lock().participants()).await
    } else {
        client.maybe_cancel(lock.read_lock().participants()).await
    };
    let Some(Ok(participants)) = participants else { return };
    let Some(participant) = participants.first() else { return };
    // A participant that was already asked has no label, and its attempt is already seized.
    if let Some(hold) =
        std::str::from_utf8(&participant.label).ok().and_then(|label| label.parse().ok())
    {
        client.record(Hold::Seized { hold });
    }
    let grace = Duration::from_millis([0, 20, 200][rng.usize(..3)]);
    match client.maybe_cancel(lock.revoke(&participant.path, grace)).await {
        Some(Ok(revoked)) => client.note(format!("revoked: {revoked:?}")),
        Some(Err(error)) => client.note(format!("not revoked: {error}")),
        None => client.note("did not wait for the end of its revocation"),
    }
}
