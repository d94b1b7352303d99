//! [`RevocableReadWriteLock`]: holders remove the node of a waiter. The waiter has to enter the
//! queue again. When its turn would have come, it must not be granted the lock by its deleted node.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator_client::internal::Locked;
use zk_curator_recipes::lock::{Error, Guard, RevocableReadWriteLock};

use super::Scenario;
use super::support::holding::{Attempt, Pauses, acquire, hold_on, let_go};
use crate::checkers::Exclusion;
use crate::history::{Hold, HoldMode};
use crate::{Client, Failure};

/// The locks. Two clients share one, so that a removed waiter is sometimes the first behind the
/// holder.
const LOCKS: [&str; 2] = ["/locks/report-0", "/locks/report-1"];

pub(super) const SCENARIO: Scenario = Scenario::new(
    "revocable_waiting",
    "RevocableReadWriteLock: nodes of waiters are removed by force",
    &["acquisitions", "uses"],
    |sim| sim.workload(visit).checker(Exclusion::read_write()).sequences(LOCKS),
);

async fn visit(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let path = format!("/locks/report-{}", client.number() / 2);
    let mut rng = client.rng();
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        let lock = RevocableReadWriteLock::new(&zk, path.as_str());
        let attempt = Attempt::begin(&client, path.as_str(), HoldMode::Exclusive);
        let writer = lock.write_lock();
        let guard = acquire(&client, writer.acquire(), writer.try_acquire()).await;
        let Some(guard) = guard else { continue };
        let held = attempt.acquired(guard.fencing_token());
        let mode = if rng.bool() { HoldMode::Exclusive } else { HoldMode::Shared };
        let waiter = Waiter::begin(&client, &path, mode);
        // The label tells the owner of a node.
        let lock = lock.label(waiter.label.clone());
        let waits = async {
            match mode {
                HoldMode::Exclusive => waiter.wait(lock.write_lock().acquire()).await,
                _ => waiter.wait(lock.read_lock().acquire()).await,
            }
        };
        let holds = async {
            if hold_on(&held, guard.lost(), waiter.remove(&lock)).await {
                let_go(&client, &held, guard.release()).await;
            }
        };
        tokio::join!(waits, holds);
    }
    Ok(())
}

/// A waiter behind a holder, in the same session.
struct Waiter<'a> {
    client: &'a Client,
    path: &'a str,
    mode: HoldMode,
    label: String,
    /// The attempt; `None` after it has ended.
    attempt: Locked<Option<Attempt<'a>>>,
}

impl<'a> Waiter<'a> {
    fn begin(client: &'a Client, path: &'a str, mode: HoldMode) -> Self {
        let attempt = Attempt::begin(client, path, mode);
        let label = attempt.number().to_string();
        Self { client, path, mode, label, attempt: Locked::new(Some(attempt)) }
    }

    fn take(&self) -> Option<Attempt<'a>> {
        self.attempt.lock().take()
    }

    async fn wait<K>(&self, acquire: impl Future<Output = Result<Guard<K>, Error>>) {
        let guard = self.client.maybe_cancel(acquire).await.and_then(Result::ok);
        let (Some(attempt), Some(guard)) = (self.take(), guard) else { return };
        let held = attempt.acquired(guard.fencing_token());
        let work = async {
            self.client.use_resource(&held).await;
            sleep(self.client.moment(Duration::from_millis(50))).await;
        };
        if hold_on(&held, guard.lost(), work).await {
            let_go(self.client, &held, guard.release()).await;
        }
    }

    /// Removes the node of the waiter as soon as it exists. Dropped when the holder knows that it
    /// has lost the lock.
    async fn remove(&self, lock: &RevocableReadWriteLock) {
        let hold = self.label.parse().unwrap_or_default();
        for _ in 0..8 {
            sleep(self.client.moment(Duration::from_millis(20))).await;
            let participants = match self.mode {
                HoldMode::Exclusive => lock.write_lock().participants().await,
                _ => lock.read_lock().participants().await,
            };
            let Ok(participants) = participants else { continue };
            let ours = participants.iter().find(|participant| participant.label == self.label);
            let Some(waiter) = ours else { continue };
            // The waiter may be granted the lock in between, if the holder has lost it without
            // knowing.
            self.client.record(Hold::Seized { hold });
            match lock.revoke(&waiter.path, Duration::ZERO).await {
                Ok(revoked) => {
                    self.restart_attempt(&format!("removed while it waits: {revoked:?}"));
                }
                Err(error) => self.client.note(format!("not removed: {error}")),
            }
            break;
        }
        sleep(self.client.moment(Duration::from_millis(50))).await;
    }

    /// The node is gone, and the lock is held. So the waiter has to acquire the lock by a new node,
    /// which no client removes. Both belong to one session: if the holder has lost the lock, the
    /// waiter has lost its node. So the server need not be asked.
    fn restart_attempt(&self, why: &str) {
        self.client.note(why);
        if self.take().is_some() {
            let attempt = Attempt::begin(self.client, self.path, self.mode);
            *self.attempt.lock() = Some(attempt);
        }
    }
}
