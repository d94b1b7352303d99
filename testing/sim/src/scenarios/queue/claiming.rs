//! Consumers, who claim items, and acknowledge them, put back, let go and die with them in their hands.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fastrand::Rng;
use tokio::time::{sleep, timeout};
use zk_curator::{CuratorFramework, SessionId};
use zk_curator_recipes::queue::{
    Consumer, Delivery, DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue,
    DistributedQueue, Error,
};

use super::{DEAD, DEAD_LOCKS, IDS, LOCKS, QUEUE, item_of, name_of, put_all, queue, settled, withdraw};
use crate::history::{Event, Name, Outcome};
use crate::{Client, Failure};

/// What is handed out so often and comes again is put aside.
const MOST_DELIVERIES: u32 = 2;
/// Who found an item claimed tries again by then.
const TRIED_AGAIN: Duration = Duration::from_secs(1);
/// Of a bounded queue.
const MOST_ITEMS: u32 = 4;

/// The queue of Curator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Bounded,
    /// Consumers claim several at a time.
    WithIds,
    Priority,
    Delay,
    Identified,
    /// With dead letters.
    Counted,
}

pub(super) async fn consume(client: Client, kind: Kind) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let mut producer = Producer::new(&client, &zk, kind);
    let prefetch = if kind == Kind::WithIds { rng.usize(1..4) } else { 1 };
    let consumer = producer.consumer(&zk).prefetch(prefetch);
    let session = zk.session().map(|session| session.id);
    let mut consuming = Consuming { client: &client, zk: &zk, prefetch, consumer, session };
    let plain = DistributedQueue::new(&zk, QUEUE);
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            Box::pin(producer.put(&client, &mut rng)).await;
        } else if let Some(delivery) = consuming.next().await {
            settle(&client, kind, delivery).await?;
        }
        if kind == Kind::Bounded && plain.count().await.is_ok_and(|count| count > MOST_ITEMS as usize) {
            return Err("there are more items than there may be".into());
        }
    }
    client.faults_are_over().await;
    loop {
        match consuming.next().await {
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
                client.record(Event::Dead { queue: queue(), item: name_of(data) });
            }
            delivery.ack().await?;
        }
    }
    Ok(())
}

/// Puts items of a kind.
enum Producer {
    Plain(DistributedQueue, Kind),
    Bounded(DistributedQueue),
    Priority(DistributedPriorityQueue),
    Delay(DistributedDelayQueue),
    /// With the id of the last item that was surely put.
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
                Self::Delay(DistributedDelayQueue::new(zk, QUEUE).clock(move || client.time_of_day()))
            }
            Kind::Identified => Self::Identified(DistributedIdQueue::new(zk, QUEUE), None),
        }
    }

    /// Consumes what is put.
    fn consumer(&self, zk: &CuratorFramework) -> Consumer {
        match self {
            // Those without ids.
            Self::Plain(_, Kind::Counted) => {
                DistributedQueue::new(zk, QUEUE).consumer(LOCKS).dead_letters(DEAD, MOST_DELIVERIES)
            }
            Self::Plain(queue, _) | Self::Bounded(queue) => queue.consumer(LOCKS),
            Self::Priority(queue) => queue.consumer(LOCKS),
            Self::Delay(queue) => queue.consumer(LOCKS),
            Self::Identified(queue, _) => queue.consumer(LOCKS),
        }
    }

    /// Puts an item, or several together; or removes one.
    async fn put(&mut self, client: &Client, rng: &mut Rng) {
        // Nobody can tell one item from another of the same data.
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
                    let put = if as_one { queue.put_multi(items).await } else { queue.put_all(items).await };
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
                // When all wait for room, nobody makes some.
                let put = Box::pin(timeout(client.session_timeout(), queue.put(item)));
                // What comes of it then is not known.
                let put = async { put.await.unwrap_or(Err(Error::Lost)).map(|()| true) };
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
                put_all(client, &[name], rank, async { queue.put(item, due).await.map(|()| true) }).await;
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

/// Since 1970.
fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Takes items, and writes down what it may have kept from others.
struct Consuming<'a> {
    client: &'a Client,
    zk: &'a CuratorFramework,
    prefetch: usize,
    consumer: Consumer,
    /// That of the claims that are in its hands.
    session: Option<SessionId>,
}

impl Consuming<'_> {
    async fn next(&mut self) -> Option<Delivery> {
        if self.prefetch == 1 {
            self.session = self.session_now();
        }
        let ahead = u32::try_from(self.prefetch).unwrap_or(u32::MAX);
        // While there is no leader sessions do not end, and a new one gives each its time anew. Nobody looks at once.
        let linger = self.client.session_timeout() * 4 + TRIED_AGAIN;
        self.client.record(Event::Taking { queue: queue(), ahead, linger });
        let next = timeout(self.client.session_timeout(), self.consumer.next());
        let delivery = match self.client.maybe_cancel(next).await {
            Some(Ok(Ok(delivery))) => Some(delivery),
            _ => None,
        };
        let session = self.session_now();
        if delivery.is_none() || session != self.session {
            self.client.record(Event::Untaken { queue: queue() });
        }
        self.session = session;
        delivery
    }

    fn session_now(&self) -> Option<SessionId> {
        self.zk.session().map(|session| session.id)
    }
}

async fn settle(client: &Client, kind: Kind, delivery: Delivery) -> Result<(), Failure> {
    let mut rng = client.rng();
    let names: Vec<Name> = delivery.items().iter().map(name_of).collect();
    say(client, &names, |item| Event::Taken { queue: queue(), item, attempt: 1 });
    let now = millis(client.time_of_day());
    let is_early = |name: &Name| {
        name.split_once('@').is_some_and(|(_, due)| due.parse().is_ok_and(|due: i64| due > now))
    };
    if kind == Kind::Delay && names.iter().any(is_early) {
        return Err("an item was handed out before its time".into());
    }
    sleep(client.moment(Duration::from_millis(50))).await;
    match rng.u8(..8) {
        0 => {
            say(client, &names, |item| Event::Returned { queue: queue(), item });
            drop(delivery);
        }
        1 => {
            say(client, &names, |item| Event::Returned { queue: queue(), item });
            drop(client.maybe_cancel(delivery.requeue()).await);
        }
        _ => {
            say(client, &names, |item| Event::Finishing { queue: queue(), item });
            let outcome = settled(client.maybe_cancel(delivery.ack()).await);
            for item in names {
                client.record(Event::Done { queue: queue(), item, outcome });
            }
        }
    }
    Ok(())
}

fn say(client: &Client, names: &[Name], event: fn(Name) -> Event) {
    for name in names {
        client.record(event(Name::clone(name)));
    }
}
