//! [`InterProcessReadWriteLock`]: readers and writers, writers that downgrade, and readers that try
//! to upgrade.

use zk_curator_recipes::lock::{InterProcessReadWriteLock, ReadGuard, WriteGuard};

use super::Scenario;
use super::support::holding::{Attempt, Holding, Pauses, acquire, last_visit, work};
use crate::checkers::Exclusion;
use crate::history::{Mode, Name};
use crate::{Client, Failure};

const LOCK: &str = "/locks/catalogue";
const NODE: &str = "/data/catalogue";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "read_write",
    "InterProcessReadWriteLock: readers share, a writer is alone",
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
    let user = User { client: client.clone(), resource: LOCK.into(), node: NODE.into() };
    let mut rng = client.rng();
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        if rng.u8(..3) == 0 {
            let attempt = user.attempt(Mode::Exclusive);
            let lock = lock.write_lock();
            match acquire(&client, lock.acquire(), lock.try_acquire()).await {
                Some(guard) => {
                    Box::pin(user.write(attempt.acquired(guard.fencing_token()), guard)).await;
                }
                None => attempt.missed(),
            }
        } else {
            let attempt = user.attempt(Mode::Shared);
            let lock = lock.read_lock();
            match acquire(&client, lock.acquire(), lock.try_acquire()).await {
                Some(guard) => {
                    Box::pin(user.read(attempt.acquired(guard.fencing_token()), guard)).await;
                }
                None => attempt.missed(),
            }
        }
    }
    let attempt = user.attempt(Mode::Exclusive);
    match last_visit(&client, lock.write_lock().acquire()).await? {
        Some(guard) => attempt.acquired(guard.fencing_token()).let_go(guard.release()).await,
        None => attempt.missed(),
    }
    Ok(())
}

struct User {
    client: Client,
    resource: Name,
    node: Name,
}

impl User {
    fn attempt(&self, mode: Mode) -> Attempt {
        Attempt::begin(&self.client, &self.resource, mode)
    }

    async fn write(&self, writing: Holding, guard: WriteGuard) {
        if !writing.hold_on(guard.lost(), work(&writing, &self.node, || guard.fenced())).await {
            return;
        }
        if self.client.rng().u8(..4) > 0 {
            return writing.let_go(guard.release()).await;
        }
        let attempt = self.attempt(Mode::Shared);
        writing.releasing();
        match self.client.maybe_cancel(guard.downgrade()).await {
            Some(Ok(guard)) => {
                let reading = attempt.acquired(guard.fencing_token());
                reading.is_by(guard.path());
                self.only_read(reading, guard).await;
            }
            // Dropping the guard, in the error, releases the lock.
            Some(Err(_)) | None => attempt.missed(),
        }
    }

    async fn read(&self, reading: Holding, guard: ReadGuard) {
        if self.client.rng().u8(..4) > 0 {
            return self.only_read(reading, guard).await;
        }
        let attempt = self.attempt(Mode::Exclusive);
        let held = guard.ownership().clone();
        let upgraded = tokio::select! {
            biased;
            () = held.lost() => {
                reading.lost();
                return attempt.missed();
            }
            upgraded = self.client.maybe_cancel(guard.try_upgrade()) => upgraded,
        };
        match upgraded {
            Some(Ok(guard)) => {
                reading.releasing();
                let writing = attempt.acquired(guard.fencing_token());
                if writing
                    .hold_on(guard.lost(), work(&writing, &self.node, || guard.fenced()))
                    .await
                {
                    writing.let_go(guard.release()).await;
                }
            }
            Some(Err(unchanged)) => {
                attempt.missed();
                self.only_read(reading, unchanged.guard).await;
            }
            None => {
                reading.releasing();
                attempt.missed();
            }
        }
    }

    async fn only_read(&self, reading: Holding, guard: ReadGuard) {
        let read = async {
            for _ in 0..self.client.rng().u8(..3) {
                reading.use_it().await;
            }
        };
        if reading.hold_on(guard.lost(), read).await {
            reading.let_go(guard.release()).await;
        }
    }
}
