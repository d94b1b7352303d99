//! The ways to receive items: one by one, as a stream, or by `run` with or without a stop.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures_util::stream::{Stream, StreamExt};
use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::{Consumer, Error, QueueKind};

use super::items::queue;
use crate::Client;
use crate::history::{Name, Queue};

/// The maximum duration of a run in a round.
const RUN: Duration = Duration::from_secs(1);
/// A time that is longer than any body.
const LONG: Duration = Duration::from_secs(3600);

/// The way in which a client receives items, constant during one life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::scenarios) enum Drive {
    /// Single calls: calls that wait or, if the recipe has them, calls that do not wait.
    Calls,
    Stream,
    Run,
}

impl Drive {
    pub(in crate::scenarios) fn draw(client: &Client, rng: &mut Rng) -> Self {
        let drive = [Self::Calls, Self::Calls, Self::Stream, Self::Run][rng.usize(..4)];
        client.note(format!("receives items by {drive:?}"));
        drive
    }
}

/// The source of deliveries, except for runs.
pub(in crate::scenarios) enum Source<K: QueueKind> {
    Consumer(Box<Consumer<K>>),
    Stream(Pin<Box<dyn Stream<Item = Result<K::Delivery, Error>> + Send>>),
}

impl<K: QueueKind> Source<K>
where
    Consumer<K>: Send,
{
    pub(in crate::scenarios) fn new(consumer: Consumer<K>, drive: Drive) -> Self {
        if drive == Drive::Stream {
            Self::Stream(Box::pin(consumer.into_stream()))
        } else {
            Self::Consumer(Box::new(consumer))
        }
    }

    /// Returns the next delivery. If `polls`, a consumer does not wait for one.
    pub(in crate::scenarios) async fn next(
        &mut self,
        polls: bool,
    ) -> Result<Option<K::Delivery>, Error> {
        match self {
            Self::Consumer(consumer) if polls => consumer.try_next().await,
            Self::Consumer(consumer) => consumer.next().await.map(Some),
            Self::Stream(items) => items.next().await.transpose(),
        }
    }
}

/// Calls `run` with a shutdown that begins when `stop` resolves.
pub(in crate::scenarios) async fn stopped_by<Fut: Future>(
    stop: impl Future<Output = ()>,
    run: impl FnOnce(Shutdown) -> Fut,
) -> Fut::Output {
    let shutdown = Shutdown::new();
    let stopped = async {
        stop.await;
        shutdown.begin();
        pending().await
    };
    tokio::select! {
        biased;
        never = stopped => never,
        output = run(shutdown.clone()) => output,
    }
}

/// Records deliveries that may have been counted without reaching a client: [`Queue::Unseen`].
pub(in crate::scenarios) struct Unseen<'a> {
    client: &'a Client,
    zk: &'a CuratorFramework,
    epoch: AtomicU64,
}

impl<'a> Unseen<'a> {
    pub(in crate::scenarios) fn watch(client: &'a Client, zk: &'a CuratorFramework) -> Self {
        let unseen = Self { client, zk, epoch: AtomicU64::new(zk.status().epoch) };
        if client.has_deadline() {
            // With a deadline, the response to any count may come too late.
            unseen.may_be(u32::MAX);
        }
        unseen
    }

    /// Checks for a changed connection, after a call has ended or an item was delivered.
    pub(in crate::scenarios) fn look(&self) {
        let now = self.zk.status().epoch;
        let changes = now.saturating_sub(self.epoch.swap(now, Ordering::Relaxed));
        if changes > 0 {
            self.may_be(u32::try_from(changes).unwrap_or(u32::MAX));
        }
    }

    /// Records that a call has failed, or a consumer was dropped.
    pub(in crate::scenarios) fn may_be(&self, count: u32) {
        self.client.record(Queue::Unseen { queue: queue(), count });
    }

    /// Runs a consumer for a while, and then stops it, or drops it in the middle.
    pub(in crate::scenarios) async fn during<Fut: Future>(
        &self,
        run: impl FnOnce(Shutdown) -> Fut,
    ) -> Option<Fut::Output> {
        let stop = sleep(self.client.moment(RUN));
        let (is_patient, drain) = (self.client.rng().u8(..3) > 0, self.client.moment(RUN));
        let drain = if is_patient { LONG } else { drain.saturating_sub(RUN / 2) };
        let ended = self.client.maybe_cancel(stopped_by(stop, |stop| run(stop.drain(drain)))).await;
        if ended.is_none() || !is_patient {
            self.may_be(1);
        }
        self.look();
        ended
    }
}

/// Records that an item is rejected, regardless of the number of its deliveries.
pub(in crate::scenarios) fn rejecting(client: &Client, item: &Name) {
    client.record(Queue::Rejecting { queue: queue(), item: Name::clone(item) });
}
