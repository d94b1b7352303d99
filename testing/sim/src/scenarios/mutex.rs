//! [`InterProcessMutex`]: the tasks of several clients contend for one lock, and use a resource
//! under it.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{ErrorKind, OpResult};
use zk_curator_recipes::lock::{InterProcessMutex, MutexGuard};

use super::Scenario;
use crate::checkers::Exclusion;
use crate::history::{Hold, Mode, Name, ResourceUse};
use crate::{Client, Failure};

const LOCK: &str = "/locks/orders";
/// The znode that is used as a resource.
const NODE: &str = "/orders";

pub(super) const SCENARIO: Scenario =
    Scenario::new("mutex", "InterProcessMutex, with a resource that checks tokens", |sim| {
        sim.workload(|client| work(client, Protected::Tokens))
            .checker(Exclusion::mutual())
            .operator(["/locks/orders", "/locks/orders/*"])
    });

pub(super) const FENCED: Scenario =
    Scenario::new("mutex_fenced", "InterProcessMutex, fenced transactions", |sim| {
        sim.workload(|client| work(client, Protected::Node))
            .checker(Exclusion::mutual())
            .operator(["/locks/orders/*"])
            .nodes([NODE])
    });

pub(super) const UNFENCED: Scenario = Scenario::new(
    "mutex_unfenced",
    "InterProcessMutex, with a resource that accepts any token",
    |sim| sim.workload(|client| work(client, Protected::Nothing)).checker(Exclusion::mutual()),
)
.demonstration();

/// The resource that is used under the lock.
#[derive(Debug, Clone, Copy)]
enum Protected {
    /// A resource outside ZooKeeper that refuses old tokens.
    Tokens,
    /// A znode that is written in fenced transactions.
    Node,
    /// A resource that accepts every use.
    Nothing,
}

async fn work(client: Client, protected: Protected) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let contender = Contender {
        lock: InterProcessMutex::new(&zk, LOCK).label(client.who().to_string()),
        resource: Name::from("orders"),
        protected,
        // Tasks differ in the length of their pauses, and of their holds.
        pause: Duration::from_millis([5, 50, 500][rng.usize(..3)]),
        hold: Duration::from_millis([2, 20, 200][rng.usize(..3)]),
        client: client.clone(),
    };
    let tasks: Vec<_> =
        (0..rng.u8(1..3)).map(|_| client.spawn(contender.clone().contend())).collect();
    for task in tasks {
        task.await;
    }
    Ok(())
}

/// A task that contends with other tasks, of the same client and of other clients.
#[derive(Clone)]
struct Contender {
    client: Client,
    lock: InterProcessMutex,
    resource: Name,
    protected: Protected,
    pause: Duration,
    hold: Duration,
}

impl Contender {
    async fn contend(self) {
        let client = &self.client;
        let mut rng = client.rng();
        while client.next_round().is_some() {
            sleep(client.moment(self.pause)).await;
            let (hold, mode) = (client.unique(), Mode::Exclusive);
            client.record(Hold::Acquiring { resource: Name::clone(&self.resource), mode, hold });
            let guard = if rng.u8(..8) == 0 {
                client.maybe_cancel(self.lock.try_acquire()).await.and_then(Result::ok).flatten()
            } else {
                client.maybe_cancel(self.lock.acquire()).await.and_then(Result::ok)
            };
            let Some(guard) = guard else {
                client.record(Hold::Missed { hold });
                continue;
            };
            let (resource, token) = (Name::clone(&self.resource), guard.fencing_token().get());
            client.record(Hold::Acquired { resource, mode, hold, token });
            self.use_while_held(&guard, hold).await;
            self.release(guard, hold).await;
        }
    }

    /// Uses the resource a few times. Some tasks go on when they know that the lock is lost.
    async fn use_while_held(&self, guard: &MutexGuard, hold: u64) {
        let mut rng = self.client.rng();
        let stubborn = rng.u8(..4) == 0;
        let mut work = pin!(async {
            for _ in 0..rng.u8(..3) {
                // Some pauses are longer than the session may live.
                let long = rng.u8(..16) == 0;
                sleep(self.client.moment(if long {
                    self.client.session_timeout()
                } else {
                    self.hold
                }))
                .await;
                self.use_once(guard, hold).await;
            }
        });
        tokio::select! {
            biased;
            () = guard.lost() => self.client.record(Hold::Lost { hold }),
            () = &mut work => return,
        }
        if stubborn {
            work.await;
        }
    }

    async fn use_once(&self, guard: &MutexGuard, hold: u64) {
        let token = guard.fencing_token();
        match self.protected {
            Protected::Tokens => {
                self.client.use_resource(&self.resource, Mode::Exclusive, hold, token).await;
            }
            Protected::Node => self.write(guard, hold).await,
            Protected::Nothing => {
                sleep(self.client.moment(Duration::from_millis(20))).await;
                self.used(guard, hold, ResourceUse::Accepted(self.client.unique()));
            }
        }
    }

    fn used(&self, guard: &MutexGuard, hold: u64, outcome: ResourceUse) {
        let (resource, token) = (Name::clone(&self.resource), guard.fencing_token().get());
        self.client.record(Hold::Used { resource, hold, token, outcome });
    }

    /// Writes to the node, in a transaction that applies only while the lock is held.
    async fn write(&self, guard: &MutexGuard, hold: u64) {
        let outcome = match guard.fenced().set_data(NODE, "").commit().await {
            Ok(results) => results.iter().find_map(|result| match result {
                OpResult::DataSet(stat) => {
                    Some(ResourceUse::Accepted(stat.version.unsigned_abs().into()))
                }
                _ => None,
            }),
            Err(error) if error.kind() == ErrorKind::OwnershipLost => Some(ResourceUse::Refused),
            // The outcome is unknown.
            Err(_) => None,
        };
        if let Some(outcome) = outcome {
            self.used(guard, hold, outcome);
        }
    }

    async fn release(&self, guard: MutexGuard, hold: u64) {
        self.client.record(Hold::Releasing { hold });
        if self.client.rng().u8(..3) == 0 {
            drop(guard);
        } else if let Some(Ok(())) = self.client.maybe_cancel(guard.release()).await {
            self.client.record(Hold::Released { hold });
        }
    }
}
