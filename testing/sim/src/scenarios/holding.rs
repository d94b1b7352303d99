//! What the workloads of locks have in common: attempts, what is done with what they come to, and the end of it.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::FencingToken;
use zk_curator::op::Transaction;

use crate::history::{Event, Mode, Name, ResourceUse};
use crate::{Client, Failure};

/// An attempt to hold something.
pub(super) struct Attempt {
    client: Client,
    resource: Name,
    mode: Mode,
    hold: u64,
}

impl Attempt {
    pub(super) fn begin(client: &Client, resource: &Name, mode: Mode) -> Self {
        let hold = client.unique();
        client.record(Event::Acquiring { resource: Name::clone(resource), mode, hold });
        Self { client: client.clone(), resource: Name::clone(resource), mode, hold }
    }

    /// Its number.
    pub(super) const fn number(&self) -> u64 {
        self.hold
    }

    pub(super) fn missed(self) {
        self.client.record(Event::Missed { hold: self.hold });
    }

    /// As [`acquired`](Self::acquired), of an attempt that did not know what it would come to.
    pub(super) fn came_to(mut self, resource: &Name, token: FencingToken) -> Holding {
        self.resource = Name::clone(resource);
        self.acquired(token)
    }

    pub(super) fn acquired(self, token: FencingToken) -> Holding {
        let Self { client, resource, mode, hold } = self;
        let event = Event::Acquired { resource: Name::clone(&resource), mode, hold, token: token.get() };
        client.record(event);
        Holding { client, resource, mode, hold, token }
    }
}

/// The belief to hold something.
pub(super) struct Holding {
    client: Client,
    resource: Name,
    mode: Mode,
    hold: u64,
    token: FencingToken,
}

impl Holding {
    /// Uses the resource, which is not in ZooKeeper.
    pub(super) async fn use_it(&self) {
        self.client.use_resource(&self.resource, self.mode, self.hold, self.token).await;
    }

    /// What becomes of a use of another resource, such as a znode.
    pub(super) fn used(&self, resource: &Name, outcome: ResourceUse) {
        let (hold, token) = (self.hold, self.token.get());
        self.client.record(Event::Used { resource: Name::clone(resource), hold, token, outcome });
    }

    /// That it is held by the node at a path, whose creation is not the token.
    pub(super) fn is_by(&self, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.client.record(Event::Node { hold: self.hold, name: Name::from(name) });
    }

    pub(super) fn lost(&self) {
        self.client.record(Event::Lost { hold: self.hold });
    }

    pub(super) fn releasing(&self) {
        self.client.record(Event::Releasing { hold: self.hold });
    }

    pub(super) fn released(&self) {
        self.client.record(Event::Released { hold: self.hold });
    }

    /// Does some work, or as much of it as can be done before it is known to be `lost`: whether it was not.
    pub(super) async fn hold_on(
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

    /// Lets go: by a release, one that is cancelled, or by the drop.
    pub(super) async fn let_go<E>(self, release: impl Future<Output = Result<(), E>>) {
        self.releasing();
        if ends(&self.client, release).await {
            self.released();
        }
    }
}

/// Awaits a release, or drops it somewhere, and be it before it has begun: whether it was confirmed.
pub(super) async fn ends<E>(client: &Client, release: impl Future<Output = Result<(), E>>) -> bool {
    client.rng().u8(..3) > 0 && matches!(client.maybe_cancel(release).await, Some(Ok(())))
}

/// Some work: uses of the resource, and writes to a znode in transactions that are only applied while it is held.
pub(super) async fn work(holding: &Holding, node: &Name, fenced: impl Fn() -> Transaction) {
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

/// Writes to znodes, each protected by what is held in the same place, in one transaction.
pub(super) async fn write(holdings: &[&Holding], nodes: &[Name], fenced: Transaction) {
    let write = |transaction: Transaction, node: &Name| transaction.set_data(&**node, "");
    let client = &holdings[0].client;
    match nodes.iter().fold(fenced, write).commit().await {
        Ok(results) => {
            for ((holding, node), result) in holdings.iter().zip(nodes).zip(results) {
                let version = result.stat().map_or(0, |stat| stat.version);
                holding.used(node, ResourceUse::Accepted(version.unsigned_abs().into()));
            }
        }
        Err(error) if error.may_have_applied() => client.note(format!("nobody knows: {error}")),
        Err(_) => {
            for (holding, node) in holdings.iter().zip(nodes) {
                holding.used(node, ResourceUse::Refused);
            }
        }
    }
}

/// Tries to acquire in one of the ways there are: however long it takes, for a while, or only if it is free; perhaps it is
/// cancelled.
pub(super) async fn acquire<G, E: Display>(
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

/// A while before the next attempt: some clients are busy, some come now and then.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn of(client: &Client) -> Self {
        Self(Duration::from_millis([5, 50, 500][client.rng().usize(..3)]))
    }

    pub(super) async fn wait(&self, client: &Client) {
        sleep(client.moment(self.0)).await;
    }
}

/// Some come once more when there are no faults any more, and nothing may go wrong then.
pub(super) async fn last_visit<G, E>(
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
    // Until what the faults have left behind is over, too.
    sleep(client.session_timeout() * 3).await;
    Ok(Some(acquire.await?))
}
