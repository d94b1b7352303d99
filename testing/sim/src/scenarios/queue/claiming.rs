//! Consumers that claim items. They acknowledge or requeue them, drop their deliveries, and die
//! while they hold items.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fastrand::Rng;
use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, SessionId};
use zk_curator_client::internal::Locked;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::{
    DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue, DistributedQueue, Error,
    ErrorMode, LockPath, LockPathConsumer, LockPathDelivery,
};

use crate::history::{Name, Outcome, Queue};
use crate::scenarios::support::driving::{Drive, Source, Unseen, stopped_by};
use crate::scenarios::support::items::{
    DEAD, DEAD_LOCKS, IDS, LOCKS, QUEUE, item_of, name_of, put_all, queue, settled, withdraw,
};
use crate::{Client, Failure, Violation};

/// The number of deliveries after which an item becomes a dead letter.
pub(super) const MOST_DELIVERIES: u32 = 2;
/// The time after which a consumer that found an item claimed tries again.
const TRIED_AGAIN: Duration = Duration::from_secs(1);
/// The capacity of a bounded queue.
const MOST_ITEMS: u32 = 4;

/// The kind of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Bounded,
    /// Consumers claim several items at a time.
    WithIds,
    Priority,
    Delay,
    Identified,
    /// Consumers count deliveries, and move items to the dead letters.
    Counted,
}

pub(super) async fn consume(client: Client, kind: Kind) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let mut producer = Producer::new(&client, &zk, kind);
    let prefetch = if kind == Kind::WithIds { rng.usize(1..4) } else { 1 };
    let drive = Drive::draw(&client, &mut rng);
    let mut items = Source::new(producer.consumer(&zk).prefetch(prefetch), drive);
    let session = Locked::new(zk.session().map(|session| session.id));
    let unseen = Unseen::watch(&client, &zk);
    let consuming = Consuming { client: &client, zk: &zk, kind, prefetch, session, unseen };
    let plain = DistributedQueue::new(&zk, QUEUE);
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            Box::pin(producer.put(&client, &mut rng)).await;
        } else if drive == Drive::Run {
            Box::pin(consuming.run_for_a_while(producer.consumer(&zk), &mut rng)).await?;
        } else if let Some(delivery) = consuming.next(&mut items).await {
            settle(&client, kind, delivery).await?;
        }
        if kind == Kind::Bounded
            && plain.count().await.is_ok_and(|count| count > MOST_ITEMS as usize)
        {
            return Err("the queue has more items than its capacity".into());
        }
    }
    client.faults_are_over().await;
    if drive == Drive::Run {
        let is_empty = async {
            while !plain.count().await.is_ok_and(|count| count == 0) {
                sleep(client.session_timeout() / 4).await;
            }
        };
        let (consumer, consuming) = (producer.consumer(&zk).prefetch(prefetch), &consuming);
        stopped_by(is_empty, |stop| consuming.run(consumer, stop, 1)).await?;
        client.record(Queue::Untaken { queue: queue() });
    }
    loop {
        match consuming.next(&mut items).await {
            Some(delivery) => settle(&client, kind, delivery).await?,
            None if plain.count().await.is_ok_and(|count| count == 0) => break,
            None => {}
        }
    }
    if kind == Kind::Counted {
        let mut dead = DistributedQueue::new(&zk, DEAD).consumer(DEAD_LOCKS);
        while let Ok(delivery) = timeout(client.session_timeout(), dead.next()).await {
            let delivery = delivery?;
            for data in delivery.items() {
                client.record(Queue::Dead { queue: queue(), item: name_of(data) });
            }
            delivery.ack().await?;
        }
    }
    Ok(())
}

/// A producer of items of a kind.
enum Producer {
    Plain(DistributedQueue, Kind),
    Bounded(DistributedQueue),
    Priority(DistributedPriorityQueue),
    Delay(DistributedDelayQueue),
    /// A producer with the id of the last item that was certainly put.
    Identified(DistributedIdQueue, Option<String>),
}

impl Producer {
    fn new(client: &Client, zk: &CuratorFramework, kind: Kind) -> Self {
        let plain = || DistributedQueue::new(zk, QUEUE);
        match kind {
            Kind::Plain | Kind::Counted => Self::Plain(plain(), kind),
            Kind::WithIds => Self::Plain(plain().idempotent_puts(IDS), kind),
            Kind::Bounded => Self::Bounded(plain().max_items(MOST_ITEMS)),
            Kind::Priority => Self::Priority(DistributedPriorityQueue::new(zk, QUEUE)),
            Kind::Delay => {
                let client = client.clone();
                Self::Delay(
                    DistributedDelayQueue::new(zk, QUEUE).clock(move || client.time_of_day()),
                )
            }
            Kind::Identified => Self::Identified(DistributedIdQueue::new(zk, QUEUE), None),
        }
    }

    /// Creates a consumer of the items.
    fn consumer(&self, zk: &CuratorFramework) -> LockPathConsumer {
        match self {
            // Items without ids.
            Self::Plain(_, Kind::Counted) => {
                DistributedQueue::new(zk, QUEUE).consumer(LOCKS).dead_letters(DEAD, MOST_DELIVERIES)
            }
            Self::Plain(queue, _) | Self::Bounded(queue) => queue.consumer(LOCKS),
            Self::Priority(queue) => queue.consumer(LOCKS),
            Self::Delay(queue) => queue.consumer(LOCKS),
            Self::Identified(queue, _) => queue.consumer(LOCKS),
        }
    }

    /// Puts one item, or several together, or removes one.
    async fn put(&mut self, client: &Client, rng: &mut Rng) {
        // Items with the same data cannot be told apart.
        let may_be_equal = matches!(self, Self::Plain(_, Kind::WithIds));
        let new = || if may_be_equal { client.id() } else { format!("i{}", client.unique()) };
        let item = new();
        let name = Name::from(item.as_str());
        match self {
            Self::Plain(queue, Kind::Plain | Kind::WithIds) if rng.u8(..4) == 0 => {
                let items = [item, new()];
                let names = items.each_ref().map(|item| Name::from(item.as_str()));
                let (as_one, items) = (rng.bool(), items.map(Bytes::from));
                let put = async {
                    let put = if as_one {
                        queue.put_multi(items).await
                    } else {
                        queue.put_all(items).await
                    };
                    put.map(|()| true)
                };
                put_all(client, &names, 0, put).await;
            }
            Self::Plain(queue, _) => {
                put_all(client, &[name], 0, async { queue.put(item).await.map(|()| true) }).await;
            }
            Self::Bounded(queue) if rng.bool() => {
                put_all(client, &[name], 0, queue.try_put(item)).await;
            }
            Self::Bounded(queue) => {
                // If all clients waited for room, none would consume.
                let put = Box::pin(timeout(client.session_timeout(), queue.put(item)));
                // The outcome of an abandoned put is unknown.
                let lost = || Err(Error::Lost { path: String::new() });
                let put = async { put.await.unwrap_or_else(|_| lost()).map(|()| true) };
                put_all(client, &[name], 0, put).await;
            }
            Self::Priority(queue) => {
                let priority = rng.i32(-2..3);
                let put = async { queue.put(item, priority).await.map(|()| true) };
                put_all(client, &[name], priority.into(), put).await;
            }
            Self::Delay(queue) => {
                let due = client.time_of_day() + client.moment(Duration::from_millis(500));
                let rank = millis(due);
                let item = format!("{item}@{rank}");
                let name = Name::from(item.as_str());
                put_all(client, &[name], rank, async { queue.put(item, due).await.map(|()| true) })
                    .await;
            }
            Self::Identified(queue, last) => {
                if let Some(id) = last.take_if(|_| rng.bool()) {
                    return withdraw(client, &id, u32::MAX, queue.remove(&id)).await;
                }
                let id = client.id();
                let item = item_of(client, &id);
                let names = [Name::from(item.as_str())];
                let put = async { queue.put(item, &id).await.map(|()| true) };
                if put_all(client, &names, 0, put).await == Outcome::Sure {
                    *last = Some(id);
                }
            }
        }
    }
}

/// Returns the milliseconds since 1970.
fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A consumer that records the items it may have kept from others.
struct Consuming<'a> {
    client: &'a Client,
    zk: &'a CuratorFramework,
    kind: Kind,
    prefetch: usize,
    /// The session of its present claims.
    session: Locked<Option<SessionId>>,
    unseen: Unseen<'a>,
}

impl Consuming<'_> {
    async fn next(&self, items: &mut Source<LockPath>) -> Option<LockPathDelivery> {
        if self.prefetch == 1 {
            self.session_changed();
        }
        self.taking();
        let next = timeout(self.client.session_timeout(), items.next(false));
        let delivery = match self.client.maybe_cancel(next).await {
            Some(Ok(Ok(delivery))) => delivery,
            Some(Ok(Err(_))) => {
                self.unseen.may_be(1);
                None
            }
            _ => None,
        };
        self.unseen.look();
        if self.session_changed() || delivery.is_none() {
            self.client.record(Queue::Untaken { queue: queue() });
        }
        delivery
    }

    fn taking(&self) {
        let ahead = u32::try_from(self.prefetch).unwrap_or(u32::MAX);
        // Sessions do not end while there is no leader, and a new leader starts their timeouts
        // again. Other consumers do not retry immediately.
        let linger = self.client.session_timeout() * 4 + TRIED_AGAIN;
        self.client.record(Queue::Taking { queue: queue(), ahead, linger });
    }

    /// Returns `true` if the session has changed since the last call.
    fn session_changed(&self) -> bool {
        let now = self.zk.session().map(|session| session.id);
        let mut session = self.session.lock();
        std::mem::replace(&mut *session, now) != now
    }

    async fn run_for_a_while(
        &self,
        consumer: LockPathConsumer,
        rng: &mut Rng,
    ) -> Result<(), Failure> {
        // The second item of one put is delivered after the first one is done.
        let has_several = matches!(self.kind, Kind::Plain | Kind::WithIds);
        let limit = if has_several { 1 } else { rng.usize(1..5) };
        let consumer = consumer.prefetch(self.prefetch);
        let ended = self.unseen.during(|stop| self.run(consumer, stop, limit)).await;
        self.client.record(Queue::Untaken { queue: queue() });
        ended.unwrap_or(Ok(()))
    }

    /// Processes items by bodies. A body does not learn if its item is removed.
    async fn run(
        &self,
        consumer: LockPathConsumer,
        stop: Shutdown,
        limit: usize,
    ) -> Result<(), Failure> {
        let client = self.client;
        self.session_changed();
        self.taking();
        let body = async |data: Bytes| {
            let item = name_of(&data);
            self.unseen.look();
            if self.session_changed() {
                client.record(Queue::Untaken { queue: queue() });
            }
            client.record(Queue::Taken { queue: queue(), item: Name::clone(&item), attempt: 1 });
            // The next item is claimed while this one is processed.
            self.taking();
            if self.kind == Kind::Delay && is_early(client, &item) {
                let early =
                    Violation::new("workload", "an item was delivered before its time", Vec::new());
                client.run().fail(early);
            }
            sleep(client.moment(Duration::from_millis(50))).await;
            if client.rng().u8(..4) == 0 {
                client.record(Queue::Returned { queue: queue(), item });
                return Err("bad luck");
            }
            client.record(Queue::Finishing { queue: queue(), item });
            Ok(())
        };
        // With dead letters, items return to their places.
        let mode = if client.rng().bool() { ErrorMode::Return } else { ErrorMode::Requeue };
        let is_counted = self.kind == Kind::Counted;
        let consumer = if is_counted { consumer } else { consumer.on_error(mode) };
        Ok(Box::pin(consumer.run(limit, body).until(stop)).await?)
    }
}

/// Returns `true` if the item is not due yet.
fn is_early(client: &Client, item: &Name) -> bool {
    let now = millis(client.time_of_day());
    item.split_once('@').is_some_and(|(_, due)| due.parse().is_ok_and(|due: i64| due > now))
}

pub(super) async fn settle(
    client: &Client,
    kind: Kind,
    delivery: LockPathDelivery,
) -> Result<(), Failure> {
    let mut rng = client.rng();
    let names: Vec<Name> = delivery.items().iter().map(name_of).collect();
    say(client, &names, |item| Queue::Taken { queue: queue(), item, attempt: 1 });
    if kind == Kind::Delay && names.iter().any(|name| is_early(client, name)) {
        return Err("an item was delivered before its time".into());
    }
    sleep(client.moment(Duration::from_millis(50))).await;
    match rng.u8(..8) {
        0 => {
            say(client, &names, |item| Queue::Returned { queue: queue(), item });
            drop(delivery);
        }
        1 => {
            say(client, &names, |item| Queue::Returned { queue: queue(), item });
            drop(client.maybe_cancel(delivery.requeue()).await);
        }
        _ => {
            say(client, &names, |item| Queue::Finishing { queue: queue(), item });
            let outcome = settled(client.maybe_cancel(delivery.ack()).await);
            for item in names {
                client.record(Queue::Done { queue: queue(), item, outcome });
            }
        }
    }
    Ok(())
}

fn say(client: &Client, names: &[Name], event: fn(Name) -> Queue) {
    for name in names {
        client.record(event(Name::clone(name)));
    }
}
