//! [`LockingQueue`] with many simultaneous claims: every client claims more and more items and
//! keeps them. After the last fault, the clients return them, and each item must be delivered again
//! soon.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zk_curator_recipes::queue::{LockingConsumer, LockingDelivery, LockingQueue};

use super::Scenario;
use super::support::items::{name_of, put, queue, settled};
use crate::checkers::Redelivery;
use crate::history::{Name, Queue};
use crate::{Client, Failure};

const QUEUE: &str = "/queue";
/// The number of items that each client puts, and the maximum that it keeps during the faults. With
/// five clients, that is more than a consumer watches.
const ITEMS: usize = 20;
/// The time in which a returned item is delivered again.
const SOON: Duration = Duration::from_secs(20);
/// The number of items that each client returns one by one, with time for a consumer to miss each
/// of them.
const ALONE: usize = 2;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "many_claims",
    "LockingQueue: returned items are delivered again soon, even with many claims",
    &["items acknowledged", "items returned"],
    |sim| {
        sim.workload(work)
            .checker(Redelivery::within(SOON))
            .leaves(["/queue", "/queue/**"])
            .patience_after_faults(Duration::from_secs(600))
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    // A killed client loses all the deliveries that it kept.
    let items = LockingQueue::new(&zk, QUEUE).unlimited_deliveries();
    let mut consumer = items.consumer();
    let mut hoard = Vec::new();
    while let Some(round) = client.next_round() {
        if round == 0 {
            for _ in 0..ITEMS {
                put(&client, |item| items.put(item)).await;
            }
        }
        while hoard.len() < ITEMS
            && let Some(item) = next(&client, &mut consumer, client.session_timeout() / 4).await
        {
            hoard.push(item);
        }
        sleep(client.moment(Duration::from_millis(200))).await;
    }
    client.faults_are_over().await;
    // After this time, another client has the items that were lost with a session.
    let until = Instant::now() + client.session_timeout() * 4;
    while Instant::now() < until {
        hoard.extend(next(&client, &mut consumer, client.session_timeout() / 4).await);
    }
    let all_is_back = AtomicBool::new(false);
    let give_back = async {
        let mut rng = client.rng();
        for nth in 0.. {
            let pause =
                if nth <= ALONE { SOON + client.moment(SOON) } else { client.moment(SOON / 20) };
            sleep(pause).await;
            if hoard.is_empty() {
                break;
            }
            let item = hoard.swap_remove(rng.usize(..hoard.len()));
            if timeout(Duration::ZERO, item.lost()).await.is_err() {
                client.record(Queue::Returned { queue: queue(), item: name_of(item.data()) });
            }
            drop(item);
        }
        all_is_back.store(true, Ordering::Relaxed);
    };
    let take = async {
        loop {
            // A single call waits as long as necessary, in place of many short ones.
            if let Some(item) = next(&client, &mut consumer, SOON * 2).await {
                let name = name_of(item.data());
                client.record(Queue::Finishing { queue: queue(), item: Name::clone(&name) });
                let outcome = settled(Some(item.ack().await));
                client.record(Queue::Done { queue: queue(), item: name, outcome });
            } else if all_is_back.load(Ordering::Relaxed)
                && items.count().await.is_ok_and(|count| count == 0)
            {
                break;
            }
        }
    };
    tokio::join!(give_back, take);
    items.flush().await?;
    Ok(())
}

async fn next(
    client: &Client,
    consumer: &mut LockingConsumer,
    most: Duration,
) -> Option<LockingDelivery> {
    let item = client.maybe_cancel(timeout(most, consumer.next())).await?.ok()?.ok()?;
    let name = name_of(item.data());
    client.record(Queue::Taken { queue: queue(), item: name, attempt: item.attempt() });
    Some(item)
}
