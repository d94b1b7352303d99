//! The workload of queues whose items are resources, each held by its claim.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, FencingToken};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::{Consumer, Delivery, Error, QueueKind};

use super::driving::{Drive, Source, Unseen, stopped_by};
use super::holding::{Attempt, Attempts, Held};
use super::items::{self, QUEUE, queue};
use crate::history::{HoldMode, Name, Outcome, Queue};
use crate::{Client, Failure};

/// A queue, with the ways in which a client processes its items.
pub(in crate::scenarios) trait ClaimedQueue {
    type Kind: QueueKind<Delivery = Delivery<Self::Kind>>;

    fn consumer(&self) -> Consumer<Self::Kind>;

    /// Returns `true` if no item is left.
    async fn is_empty(&self) -> Result<bool, Failure>;

    /// Processes an item.
    async fn settle(&self, attempt: Attempt<'_>, item: Delivery<Self::Kind>)
    -> Result<(), Failure>;

    /// Processes an item as the body of a run, which does not learn if the item is removed.
    async fn work(
        &self,
        attempt: Attempt<'_>,
        message: <Self::Kind as QueueKind>::Message,
    ) -> Result<<Self::Kind as QueueKind>::Done, &'static str>;
}

/// A client that takes the items of a queue.
pub(in crate::scenarios) struct Taker<'a, Q: ClaimedQueue> {
    client: &'a Client,
    queue: &'a Q,
    drive: Drive,
    unseen: Unseen<'a>,
    source: Source<Q::Kind>,
    /// The next call returns an item whose claim began for a call that is over.
    attempt: Option<Attempt<'a>>,
}

impl<'a, Q: ClaimedQueue> Taker<'a, Q>
where
    Consumer<Q::Kind>: Send,
{
    pub(in crate::scenarios) fn new(
        client: &'a Client,
        zk: &'a CuratorFramework,
        queue: &'a Q,
        rng: &mut Rng,
    ) -> Self {
        let (drive, unseen) = (Drive::draw(client, rng), Unseen::watch(client, zk));
        let source = Source::new(queue.consumer(), drive);
        Self { client, queue, drive, unseen, source, attempt: None }
    }

    /// Takes an item, or items for a while.
    pub(in crate::scenarios) async fn round(&mut self, rng: &mut Rng) -> Result<(), Failure> {
        let (client, queue, unseen) = (self.client, self.queue, &self.unseen);
        if self.drive == Drive::Run {
            let limit = rng.usize(1..5);
            let run = Box::pin(unseen.during(|stop| run(client, queue, unseen, stop, limit)));
            return run.await.unwrap_or(Ok(()));
        }
        self.attempt.get_or_insert_with(|| begin(client));
        let next = timeout(client.session_timeout(), self.source.next(rng.u8(..4) == 0));
        let next = client.maybe_cancel(Box::pin(next)).await;
        unseen.look();
        match next {
            Some(Ok(Ok(Some(item)))) => {
                if let Some(attempt) = self.attempt.take() {
                    Box::pin(queue.settle(attempt, item)).await?;
                }
            }
            Some(Ok(Err(_))) => unseen.may_be(1),
            _ => {}
        }
        Ok(())
    }

    /// Takes items until the queue is empty.
    pub(in crate::scenarios) async fn finish(self) -> Result<(), Failure> {
        let Self { client, queue, drive, unseen, mut source, mut attempt } = self;
        if drive == Drive::Run {
            let is_empty = async {
                while !queue.is_empty().await.is_ok_and(|is_empty| is_empty) {
                    sleep(client.session_timeout() / 4).await;
                }
            };
            let run = |stop| run(client, queue, &unseen, stop, 2);
            Box::pin(stopped_by(is_empty, run)).await?;
        }
        loop {
            let attempt = attempt.take().unwrap_or_else(|| begin(client));
            let next = timeout(client.session_timeout(), source.next(false)).await;
            unseen.look();
            match next {
                Ok(Ok(Some(item))) => Box::pin(queue.settle(attempt, item)).await?,
                Ok(Err(_)) => unseen.may_be(1),
                Err(_) if queue.is_empty().await? => return Ok(()),
                Ok(Ok(None)) | Err(_) => {}
            }
        }
    }
}

/// Begins to claim an item.
fn begin(client: &Client) -> Attempt<'_> {
    Attempt::begin(client, QUEUE, HoldMode::Exclusive)
}

/// Processes items by bodies.
async fn run<Q: ClaimedQueue>(
    client: &Client,
    queue: &Q,
    unseen: &Unseen<'_>,
    stop: Shutdown,
    limit: usize,
) -> Result<(), Failure> {
    let attempts = Attempts::begin(client, QUEUE);
    // The next item is claimed while this one is processed.
    let body = async |message| {
        unseen.look();
        queue.work(attempts.take(), message).await
    };
    Ok(queue.consumer().run(limit, body).until(stop).await?)
}

/// Records a delivery, and the hold of its item.
pub(in crate::scenarios) fn delivered<'a>(
    client: &Client,
    attempt: Attempt<'a>,
    item: &Name,
    delivery: u32,
    token: FencingToken,
) -> Held<'a> {
    let held = attempt.for_resource(Name::clone(item)).acquired(token);
    client.record(Queue::Taken { queue: queue(), item: Name::clone(item), attempt: delivery });
    held
}

/// Uses an item a few times. The random choices are made immediately.
pub(in crate::scenarios) fn uses(client: &Client, item: &Held<'_>) -> impl Future<Output = ()> {
    let mut rng = client.rng();
    let most = Duration::from_millis([1, 20, 200][rng.usize(..3)]);
    async move {
        for _ in 0..rng.u8(..3) {
            sleep(client.moment(most)).await;
            client.use_resource(item).await;
        }
    }
}

/// Checks that a consumer that has lost its claim, but goes on, is refused.
pub(in crate::scenarios) async fn too_late(
    settled: impl Future<Output = Result<(), Error>>,
) -> Result<(), Failure> {
    if settled.await.is_ok() {
        Err("a consumer without its claim has processed the item".into())
    } else {
        Ok(())
    }
}

/// Acknowledges an item, and records the outcome.
pub(in crate::scenarios) async fn done(
    client: &Client,
    held: &Held<'_>,
    item: Name,
    settled: impl Future<Output = Result<(), Error>>,
) {
    client.record(Queue::Finishing { queue: queue(), item: Name::clone(&item) });
    let outcome = items::settled(client.maybe_cancel(settled).await);
    client.record(Queue::Done { queue: queue(), item, outcome });
    if outcome == Outcome::Sure {
        held.released();
    }
}
