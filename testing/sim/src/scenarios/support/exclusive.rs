//! Workloads of locks with one holder at a time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::lock::{AnyGuard, InterProcessLock};

use super::holding::{Attempt, Held, hold_on, let_go, write};
use crate::Client;
use crate::history::{HoldMode, UseOutcome};

/// The resource that is used under a lock.
#[derive(Debug, Clone, Copy)]
pub(in crate::scenarios) enum Protected {
    /// A resource outside ZooKeeper that refuses old tokens.
    Tokens,
    /// A znode that is written in fenced transactions.
    Node(&'static str),
    /// A resource that accepts every use.
    Nothing,
}

/// Contends for a lock with one task or two, and uses a resource under it.
pub(in crate::scenarios) async fn contend(
    client: &Client,
    lock: Arc<dyn InterProcessLock>,
    protected: Protected,
) {
    let mut rng = client.rng();
    let contender = Contender {
        client: client.clone(),
        lock,
        protected,
        // Clients differ in the length of their pauses, and of their holds.
        pause: Duration::from_millis([5, 50, 500][rng.usize(..3)]),
        hold: Duration::from_millis([2, 20, 200][rng.usize(..3)]),
    };
    let tasks: Vec<_> =
        (0..rng.u8(1..3)).map(|_| client.spawn(contender.clone().contend())).collect();
    for task in tasks {
        task.await;
    }
}

/// A task that contends with other tasks, of the same client and of other clients.
#[derive(Clone)]
struct Contender {
    client: Client,
    lock: Arc<dyn InterProcessLock>,
    protected: Protected,
    pause: Duration,
    hold: Duration,
}

impl Contender {
    async fn contend(self) {
        let Self { client, lock, .. } = &self;
        let mut rng = client.rng();
        while client.next_round().is_some() {
            sleep(client.moment(self.pause)).await;
            let attempt = Attempt::begin(client, lock.path(), HoldMode::Exclusive);
            let guard = if rng.u8(..8) == 0 {
                client.maybe_cancel(lock.try_acquire()).await.and_then(Result::ok).flatten()
            } else {
                client.maybe_cancel(lock.acquire()).await.and_then(Result::ok)
            };
            let Some(guard) = guard else { continue };
            let held = attempt.acquired(guard.fencing_token());
            self.use_while_held(&guard, &held).await;
            let_go(client, &held, guard.release()).await;
        }
    }

    /// Uses the resource a few times. Some tasks go on when they know that the lock is lost.
    async fn use_while_held(&self, guard: &AnyGuard, held: &Held<'_>) {
        let client = &self.client;
        let mut rng = client.rng();
        let is_stubborn = rng.u8(..4) == 0;
        let mut work = pin!(async {
            for _ in 0..rng.u8(..3) {
                // Some pauses are longer than the session may live.
                let is_long = rng.u8(..16) == 0;
                let most = if is_long { client.session_timeout() } else { self.hold };
                sleep(client.moment(most)).await;
                self.use_once(guard, held).await;
            }
        });
        if !hold_on(held, guard.lost(), work.as_mut()).await && is_stubborn {
            work.await;
        }
    }

    async fn use_once(&self, guard: &AnyGuard, held: &Held<'_>) {
        match self.protected {
            Protected::Tokens => self.client.use_resource(held).await,
            Protected::Node(node) => write(&self.client, &[(held, node)], guard.fenced()).await,
            Protected::Nothing => {
                sleep(self.client.moment(Duration::from_millis(20))).await;
                held.used(UseOutcome::Accepted(self.client.unique()));
            }
        }
    }
}
