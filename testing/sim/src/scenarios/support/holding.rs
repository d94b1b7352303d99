//! The common part of the workloads of locks: attempts, holds, and their ends.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::FencingToken;
use zk_curator::op::Transaction;
use zk_curator_recipes::lock::LocalToken;

use crate::checkers::Exclusion;
use crate::history::{Hold, Mode, Name, ResourceUse};
use crate::{Client, Failure};

/// An attempt to hold a resource.
pub(in crate::scenarios) struct Attempt {
    client: Client,
    resource: Name,
    mode: Mode,
    hold: u64,
}

impl Attempt {
    pub(in crate::scenarios) fn begin(client: &Client, resource: &Name, mode: Mode) -> Self {
        let hold = client.unique();
        client.record(Hold::Acquiring { resource: Name::clone(resource), mode, hold });
        Self { client: client.clone(), resource: Name::clone(resource), mode, hold }
    }

    /// Returns the number of the attempt.
    pub(in crate::scenarios) const fn number(&self) -> u64 {
        self.hold
    }

    pub(in crate::scenarios) fn missed(self) {
        self.client.record(Hold::Missed { hold: self.hold });
    }

    /// As [`acquired`](Self::acquired), for an attempt that did not know its resource.
    pub(in crate::scenarios) fn came_to(mut self, resource: &Name, token: FencingToken) -> Holding {
        self.resource = Name::clone(resource);
        self.acquired(token)
    }

    /// As [`acquired`](Self::acquired), with the token of one holder of a batch.
    pub(in crate::scenarios) fn acquired_in_turn(self, token: LocalToken) -> Holding {
        let number = Exclusion::turn_token(token.fencing_token.get(), token.turn);
        self.acquired(FencingToken::new(number))
    }

    pub(in crate::scenarios) fn acquired(self, token: FencingToken) -> Holding {
        let Self { client, resource, mode, hold } = self;
        let event =
            Hold::Acquired { resource: Name::clone(&resource), mode, hold, token: token.get() };
        client.record(event);
        Holding { client, resource, mode, hold, token }
    }
}

/// A recorded hold of a resource.
pub(in crate::scenarios) struct Holding {
    client: Client,
    resource: Name,
    mode: Mode,
    hold: u64,
    token: FencingToken,
}

impl Holding {
    /// Uses the resource, which is outside ZooKeeper.
    pub(in crate::scenarios) async fn use_it(&self) {
        self.client.use_resource(&self.resource, self.mode, self.hold, self.token).await;
    }

    /// Records the use of another resource, such as a znode.
    pub(in crate::scenarios) fn used(&self, resource: &Name, outcome: ResourceUse) {
        let (hold, token) = (self.hold, self.token.get());
        self.client.record(Hold::Used { resource: Name::clone(resource), hold, token, outcome });
    }

    /// Records that the hold is the node at a path, whose creation is not the token.
    pub(in crate::scenarios) fn is_by(&self, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.client.record(Hold::Node { hold: self.hold, name: Name::from(name) });
    }

    pub(in crate::scenarios) fn lost(&self) {
        self.client.record(Hold::Lost { hold: self.hold });
    }

    pub(in crate::scenarios) fn releasing(&self) {
        self.client.record(Hold::Releasing { hold: self.hold });
    }

    pub(in crate::scenarios) fn released(&self) {
        self.client.record(Hold::Released { hold: self.hold });
    }

    /// Works until the work is done, or the hold is known to be `lost`. Returns `true` if it was
    /// not lost.
    pub(in crate::scenarios) async fn hold_on(
        &self,
        lost: impl Future<Output = ()>,
        work: impl Future<Output = ()>,
    ) -> bool {
        tokio::select! {
            biased;
            () = lost => {
                self.lost();
                false
            }
            () = work => true,
        }
    }

    /// Ends the hold: by a release, a cancelled release, or a drop.
    pub(in crate::scenarios) async fn let_go<E>(
        self,
        release: impl Future<Output = Result<(), E>>,
    ) {
        self.releasing();
        if ends(&self.client, release).await {
            self.released();
        }
    }
}

/// Awaits a release, or drops it, perhaps before its first poll. Returns `true` if the release was
/// confirmed.
pub(in crate::scenarios) async fn ends<E>(
    client: &Client,
    release: impl Future<Output = Result<(), E>>,
) -> bool {
    client.rng().u8(..3) > 0 && matches!(client.maybe_cancel(release).await, Some(Ok(())))
}

/// Uses the resource, and writes to a znode in transactions that are applied only while the lock is
/// held.
pub(in crate::scenarios) async fn work(
    holding: &Holding,
    node: &Name,
    fenced: impl Fn() -> Transaction,
) {
    let client = &holding.client;
    let mut rng = client.rng();
    let most = Duration::from_millis([1, 20, 200][rng.usize(..3)]);
    for _ in 0..rng.u8(..3) {
        sleep(client.moment(most)).await;
        if rng.bool() {
            holding.use_it().await;
        } else {
            write(&[holding], &[Name::clone(node)], fenced()).await;
        }
    }
}

/// Writes to znodes in one transaction. Each znode is protected by the hold with the same index.
pub(in crate::scenarios) async fn write(
    holdings: &[&Holding],
    nodes: &[Name],
    fenced: Transaction,
) {
    let write = |transaction: Transaction, node: &Name| transaction.set_data(&**node, "");
    let client = &holdings[0].client;
    match nodes.iter().fold(fenced, write).commit().await {
        Ok(results) => {
            for ((holding, node), result) in holdings.iter().zip(nodes).zip(results) {
                let version = result.stat().map_or(0, |stat| stat.version);
                holding.used(node, ResourceUse::Accepted(version.unsigned_abs().into()));
            }
        }
        Err(error) if error.may_have_applied() => client.note(format!("unknown outcome: {error}")),
        Err(_) => {
            for (holding, node) in holdings.iter().zip(nodes) {
                holding.used(node, ResourceUse::Refused);
            }
        }
    }
}

/// Tries to acquire: without a time limit, for a while, or only if the lock is free. The call may
/// be cancelled.
pub(in crate::scenarios) async fn acquire<G, E: Display>(
    client: &Client,
    acquire: impl Future<Output = Result<G, E>>,
    try_acquire: impl Future<Output = Result<Option<G>, E>>,
) -> Option<G> {
    let answer = match client.rng().u8(..8) {
        0 => client.maybe_cancel(try_acquire).await?,
        1 => {
            let patience = client.moment(client.session_timeout());
            client.maybe_cancel(timeout(patience, acquire)).await?.ok()?.map(Some)
        }
        _ => client.maybe_cancel(acquire).await?.map(Some),
    };
    answer.unwrap_or_else(|error| {
        client.note(format!("not acquired: {error}"));
        None
    })
}

/// The pauses between attempts: some clients are busy, others come rarely.
pub(in crate::scenarios) struct Pauses(Duration);

impl Pauses {
    pub(in crate::scenarios) fn of(client: &Client) -> Self {
        Self(Duration::from_millis([5, 50, 500][client.rng().usize(..3)]))
    }

    pub(in crate::scenarios) async fn wait(&self, client: &Client) {
        sleep(client.moment(self.0)).await;
    }
}

/// Lets some clients come again after the last fault, when nothing may fail.
pub(in crate::scenarios) async fn last_visit<G, E>(
    client: &Client,
    acquire: impl Future<Output = Result<G, E>>,
) -> Result<Option<G>, Failure>
where
    Failure: From<E>,
{
    if client.rng().u8(..4) > 0 {
        return Ok(None);
    }
    client.faults_are_over().await;
    // Waits until the effects of the faults are over.
    sleep(client.session_timeout() * 3).await;
    Ok(Some(acquire.await?))
}
