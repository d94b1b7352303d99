//! [`LockingQueue`]: every client puts items, and takes the items of all clients, one at a time.
//! Consumers acknowledge, requeue, reject, drop deliveries and die. After the last fault, every
//! client takes the remaining items.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::queue::{Locking, LockingConsumer, LockingDelivery, LockingQueue, Message};

use super::Scenario;
use super::support::claimed::{ClaimedQueue, Taker, delivered, done, too_late, uses};
use super::support::driving::rejecting;
use super::support::holding::{Attempt, LostIfDropped, hold_on};
use super::support::items::{bucket_size, name_of, put, queue};
use crate::checkers::{self, Exclusion, PutAside};
use crate::history::Queue;
use crate::{Client, Failure};

const QUEUE: &str = "/queue";
/// The number of deliveries after which an item becomes a dead letter.
const MOST_DELIVERIES: u32 = 6;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "locking_queue",
    "LockingQueue: in order, processed once, only by a consumer with its claim",
    &["acquisitions", "dead letters", "items acknowledged", "items processed by bodies", "uses"],
    |sim| {
        sim.workload(work)
            .checker(checkers::Delivery::exactly_once().in_order().counted())
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
    let items = Items { client: &client, queue: items.bucket_size(bucket_size(&mut rng)) };
    let mut taker = Taker::new(&client, &zk, &items, &mut rng);
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            put(&client, |item| items.queue.put(item)).await;
        } else {
            taker.round(&mut rng).await?;
        }
    }
    client.faults_are_over().await;
    taker.finish().await?;
    let mut dead = items.queue.dead_letters().consumer();
    while let Some(item) = dead.try_next().await? {
        client.record(Queue::Dead { queue: queue(), item: name_of(item.data()) });
        item.ack().await?;
    }
    items.queue.flush().await?;
    Ok(())
}

struct Items<'a> {
    client: &'a Client,
    queue: LockingQueue,
}

impl ClaimedQueue for Items<'_> {
    type Kind = Locking;

    fn consumer(&self) -> LockingConsumer {
        self.queue.consumer()
    }

    async fn is_empty(&self) -> Result<bool, Failure> {
        Ok(self.queue.count().await.is_ok_and(|count| count == 0))
    }

    async fn settle(&self, attempt: Attempt<'_>, item: LockingDelivery) -> Result<(), Failure> {
        let (client, mut rng, name) = (self.client, self.client.rng(), name_of(item.data()));
        let held = delivered(client, attempt, &name, item.attempt(), item.fencing_token());
        if !hold_on(&held, item.lost(), uses(client, &held)).await {
            return too_late(item.ack()).await;
        }
        held.releasing();
        match rng.u8(..8) {
            0 => drop(item),
            1 => drop(client.maybe_cancel(item.requeue()).await),
            2 => {
                rejecting(client, &name);
                drop(client.maybe_cancel(item.reject("by chance")).await);
            }
            _ => done(client, &held, name, item.ack()).await,
        }
        Ok(())
    }

    async fn work(&self, attempt: Attempt<'_>, message: Message) -> Result<(), &'static str> {
        let (client, name) = (self.client, name_of(&message.data));
        let token = message.claim.fencing_token();
        let item = LostIfDropped(delivered(client, attempt, &name, message.attempt, token));
        uses(client, &item.0).await;
        let has_failed = client.rng().u8(..4) == 0;
        item.0.releasing();
        if has_failed {
            return Err("bad luck");
        }
        client.record(Queue::Finishing { queue: queue(), item: name });
        Ok(())
    }
}
