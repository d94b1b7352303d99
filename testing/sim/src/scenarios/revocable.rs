//! [`RevocableReadWriteLock`]: holders that are asked, and then forced, to release the lock.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::lock::{Guard, RevocableReadWriteLock};

use super::Scenario;
use super::support::holding::{Attempt, Pauses, acquire, last_visit, work};
use crate::checkers::Exclusion;
use crate::history::{Hold, Mode, Name};
use crate::{Client, Failure};

const LOCK: &str = "/locks/report";
const NODE: &str = "/data/report";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "revocable",
    "RevocableReadWriteLock: holders release the lock on request, or are forced to",
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
    let (resource, node) = (Name::from(LOCK), Name::from(NODE));
    let mut rng = client.rng();
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        if rng.u8(..4) == 0 {
            revoke(&client, &RevocableReadWriteLock::new(&zk, LOCK)).await;
            continue;
        }
        let mode = if rng.bool() { Mode::Exclusive } else { Mode::Shared };
        let attempt = Attempt::begin(&client, &resource, mode);
        // The label identifies the owner of a node.
        let lock = RevocableReadWriteLock::new(&zk, LOCK).label(attempt.number().to_string());
        if mode == Mode::Exclusive {
            let lock = lock.write_lock();
            match acquire(&client, lock.acquire(), lock.try_acquire()).await {
                Some(guard) => hold(&client, attempt, guard, Some(&node)).await,
                None => attempt.missed(),
            }
        } else {
            let lock = lock.read_lock();
            match acquire(&client, lock.acquire(), lock.try_acquire()).await {
                Some(guard) => hold(&client, attempt, guard, None).await,
                None => attempt.missed(),
            }
        }
    }
    let attempt = Attempt::begin(&client, &resource, Mode::Exclusive);
    let lock = RevocableReadWriteLock::new(&zk, LOCK).label(attempt.number().to_string());
    match last_visit(&client, lock.write_lock().acquire()).await? {
        Some(guard) => hold(&client, attempt, guard, Some(&node)).await,
        None => attempt.missed(),
    }
    Ok(())
}

/// Works, and writes to `node` if there is one. Releases the lock when the work is done. Reacts to
/// a revocation request immediately, some time later, or never.
async fn hold<K>(client: &Client, attempt: Attempt, guard: Guard<K>, node: Option<&Name>) {
    let holding = attempt.acquired(guard.fencing_token());
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
        match node {
            Some(node) => work(&holding, node, || guard.fenced()).await,
            None => holding.use_it().await,
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
    if holding.hold_on(guard.lost(), until).await {
        holding.let_go(guard.release()).await;
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
