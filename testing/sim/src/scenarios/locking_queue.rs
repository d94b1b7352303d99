//! [`LockingQueue`]: every client puts items, and takes the items of all clients, one at a time.
//! Consumers acknowledge, requeue, reject, drop deliveries and die. After the last fault, every
//! client takes the remaining items.

use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt};
use tokio::time::{sleep, timeout};
use zk_curator_client::internal::Locked;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::{self, Consumer, Error, Locking, LockingQueue, Message};

use super::Scenario;
use super::support::driving::{Drive, Unseen, rejecting, stopped_by};
use super::support::holding::{Attempt, Holding};
use super::support::items::{self, bucket_size, name_of, put, queue};
use crate::checkers::{Delivery, Exclusion, PutAside};
use crate::history::{Mode, Name, Outcome, Queue};
use crate::{Client, Failure};

const QUEUE: &str = "/queue";
/// The number of deliveries after which an item becomes a dead letter.
const MOST_DELIVERIES: u32 = 6;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "locking_queue",
    "LockingQueue: in order, processed once, only by a consumer with its claim",
    |sim| {
        sim.workload(work)
            .checker(Delivery::exactly_once().in_order().counted())
            .checker(Exclusion::mutual())
            .checker(PutAside::after(MOST_DELIVERIES))
            .leaves(["/queue", "/queue/**"])
            .operator(["/queue/items/*/*/claim"])
            // Permitted until the later consumer has counted its delivery.
            .settled([("/queue/items/*/*/claim", "..")])
            .crowd()
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let items = LockingQueue::new(&zk, QUEUE).max_deliveries(MOST_DELIVERIES);
    let items = items.bucket_size(bucket_size(&mut rng));
    let drive = Drive::draw(&client, &mut rng);
    let unseen = Unseen::watch(&client, &zk);
    let mut source = Source::new(items.consumer(), drive);
    // The next call returns an item whose claim began for a call that is over.
    let mut attempt = None;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            put(&client, |item| items.put(item)).await;
            continue;
        }
        if drive == Drive::Run {
            let limit = rng.usize(1..5);
            let run = Box::pin(
                unseen.during(|stop| run(&client, &unseen, items.consumer(), stop, limit)),
            );
            run.await.unwrap_or(Ok(()))?;
            continue;
        }
        attempt.get_or_insert_with(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
        let next = Box::pin(timeout(client.session_timeout(), source.next(rng.u8(..4) == 0)));
        let next = client.maybe_cancel(next).await;
        unseen.look();
        match next {
            Some(Ok(Ok(Some(item)))) => {
                if let Some(attempt) = attempt.take() {
                    settle(&client, attempt, item).await?;
                }
            }
            Some(Ok(Err(_))) => unseen.may_be(1),
            _ => {}
        }
    }
    client.faults_are_over().await;
    if drive == Drive::Run {
        let is_empty = async {
            while !items.count().await.is_ok_and(|count| count == 0) {
                sleep(client.session_timeout() / 4).await;
            }
        };
        let (client, unseen) = (&client, &unseen);
        Box::pin(stopped_by(is_empty, |stop| run(client, unseen, items.consumer(), stop, 2)))
            .await?;
    }
    loop {
        let at =
            attempt.take().unwrap_or_else(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
        let next = timeout(client.session_timeout(), source.next(false)).await;
        unseen.look();
        match next {
            Ok(Ok(Some(item))) => settle(&client, at, item).await?,
            Ok(Err(_)) => {
                unseen.may_be(1);
                at.missed();
            }
            Err(_) if items.count().await.is_ok_and(|count| count == 0) => break,
            Ok(Ok(None)) | Err(_) => at.missed(),
        }
    }
    let mut dead = items.dead_letters().consumer();
    while let Some(item) = dead.try_next().await? {
        client.record(Queue::Dead { queue: queue(), item: name_of(item.data()) });
        item.ack().await?;
    }
    items.flush().await?;
    Ok(())
}

/// The source of deliveries, except for runs.
enum Source {
    Consumer(Box<Consumer<Locking>>),
    Stream(Pin<Box<dyn Stream<Item = Result<queue::Delivery<Locking>, Error>> + Send>>),
}

impl Source {
    fn new(consumer: Consumer<Locking>, drive: Drive) -> Self {
        if drive == Drive::Stream {
            Self::Stream(Box::pin(consumer.into_stream()))
        } else {
            Self::Consumer(Box::new(consumer))
        }
    }

    async fn next(&mut self, polls: bool) -> Result<Option<queue::Delivery<Locking>>, Error> {
        match self {
            Self::Consumer(consumer) if polls => consumer.try_next().await,
            Self::Consumer(consumer) => consumer.next().await.map(Some),
            Self::Stream(items) => items.next().await.transpose(),
        }
    }
}

/// The attempts of a run. Each delivered item was claimed after the newest attempt began.
pub(super) struct Attempts<'a> {
    client: &'a Client,
    next: Locked<Option<Attempt>>,
}

impl<'a> Attempts<'a> {
    pub(super) fn begin(client: &'a Client) -> Self {
        let next = Attempt::begin(client, &queue(), Mode::Exclusive);
        Self { client, next: Locked::new(Some(next)) }
    }

    /// Returns the attempt that led to an item. The next item is claimed while this one is
    /// processed.
    pub(super) fn take(&self) -> Attempt {
        let next = Attempt::begin(self.client, &queue(), Mode::Exclusive);
        let this = self.next.lock().replace(next);
        this.unwrap_or_else(|| Attempt::begin(self.client, &queue(), Mode::Exclusive))
    }
}

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        let next = self.next.get_mut();
        next.take().into_iter().for_each(Attempt::missed);
    }
}

/// An item that a body processes. It is dropped when its claim is lost or its run ends.
pub(super) struct InHand(Option<Holding>);

impl InHand {
    pub(super) const fn new(holding: Holding) -> Self {
        Self(Some(holding))
    }

    /// Uses the resource that the item affects.
    pub(super) async fn work(&self, client: &Client) {
        let mut rng = client.rng();
        let most = Duration::from_millis([1, 20, 200][rng.usize(..3)]);
        for _ in 0..rng.u8(..3) {
            sleep(client.moment(most)).await;
            if let Some(holding) = &self.0 {
                holding.use_it().await;
            }
        }
    }

    /// Records that the body is about to end.
    pub(super) fn releasing(mut self) {
        self.0.take().iter().for_each(Holding::releasing);
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.take().iter().for_each(Holding::lost);
    }
}

/// Processes items by bodies. A body does not learn if its item is removed.
async fn run(
    client: &Client,
    unseen: &Unseen<'_>,
    consumer: Consumer<Locking>,
    stop: Shutdown,
    limit: usize,
) -> Result<(), Failure> {
    let attempts = Attempts::begin(client);
    let body = async |message: Message| {
        unseen.look();
        let (name, token) = (name_of(&message.data), message.claim.fencing_token());
        let in_hand = InHand::new(begin(client, attempts.take(), &name, message.attempt, token));
        in_hand.work(client).await;
        let has_failed = client.rng().u8(..4) == 0;
        in_hand.releasing();
        if has_failed {
            return Err("bad luck");
        }
        client.record(Queue::Finishing { queue: queue(), item: name });
        Ok(())
    };
    Ok(consumer.run(limit, body).until(stop).await?)
}

async fn settle(
    client: &Client,
    attempt: Attempt,
    item: queue::Delivery<Locking>,
) -> Result<(), Failure> {
    let (mut rng, name) = (client.rng(), name_of(item.data()));
    let holding = begin(client, attempt, &name, item.attempt(), item.fencing_token());
    if !use_it(client, &holding, item.lost()).await {
        return too_late(item.ack()).await;
    }
    holding.releasing();
    match rng.u8(..8) {
        0 => drop(item),
        1 => drop(client.maybe_cancel(item.requeue()).await),
        2 => {
            rejecting(client, &name);
            drop(client.maybe_cancel(item.reject("by chance")).await);
        }
        _ => done(client, &holding, name, item.ack()).await,
    }
    Ok(())
}

/// Records a delivery.
pub(super) fn begin(
    client: &Client,
    attempt: Attempt,
    name: &Name,
    delivery: u32,
    token: zk_curator::FencingToken,
) -> Holding {
    let holding = attempt.came_to(name, token);
    client.record(Queue::Taken { queue: queue(), item: Name::clone(name), attempt: delivery });
    holding
}

/// Uses the resource of an item until the claim is known to be lost. Returns `true` if it was not.
/// The resource checks tokens.
pub(super) async fn use_it(
    client: &Client,
    holding: &Holding,
    lost: impl Future<Output = ()>,
) -> bool {
    let mut rng = client.rng();
    let most = Duration::from_millis([1, 20, 200][rng.usize(..3)]);
    let uses = async {
        for _ in 0..rng.u8(..3) {
            sleep(client.moment(most)).await;
            holding.use_it().await;
        }
    };
    holding.hold_on(lost, uses).await
}

/// Checks that a consumer that has lost its claim, but goes on, is refused.
pub(super) async fn too_late(
    settled: impl Future<Output = Result<(), Error>>,
) -> Result<(), Failure> {
    if settled.await.is_ok() {
        Err("a consumer without its claim has processed the item".into())
    } else {
        Ok(())
    }
}

/// Acknowledges the item, and records the outcome.
pub(super) async fn done(
    client: &Client,
    holding: &Holding,
    item: Name,
    settled: impl Future<Output = Result<(), Error>>,
) {
    client.record(Queue::Finishing { queue: queue(), item: Name::clone(&item) });
    let outcome = items::settled(client.maybe_cancel(settled).await);
    client.record(Queue::Done { queue: queue(), item, outcome });
    if outcome == Outcome::Sure {
        holding.released();
    }
}
