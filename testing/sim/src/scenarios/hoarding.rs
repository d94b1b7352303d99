//! [`LockingQueue`] with many claims that are held: every client claims more and more items and keeps them. When there are
//! no more faults the clients give them back, and each is handed out again soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zk_curator_recipes::queue::{LockingConsumer, LockingDelivery, LockingQueue};

use super::Scenario;
use super::queue::{name_of, put, queue};
use crate::checkers::Redelivery;
use crate::history::Event;
use crate::{Client, Failure};

const QUEUE: &str = "/queue";
/// Items that each client puts, and the most that it keeps while there are faults: with five clients more than a consumer
/// watches.
const ITEMS: usize = 20;
/// An item that is given back is handed out by then.
const SOON: Duration = Duration::from_secs(20);
/// Each client gives back so many items one by one, with time for a consumer to miss each.
const ALONE: usize = 2;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "hoarding",
    "LockingQueue: what is given back is handed out soon, however many claims there are",
    |client| Box::pin(work(client)),
)
.checked_by(|| vec![Arc::new(Redelivery::within(SOON))])
.leaves(&["/queue", "/queue/**"])
.patience(Duration::from_secs(600));

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    // A client that is killed has delivered all that it kept.
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
    // By then somebody else has what was lost with its session.
    let until = Instant::now() + client.session_timeout() * 4;
    while Instant::now() < until {
        hoard.extend(next(&client, &mut consumer, client.session_timeout() / 4).await);
    }
    let all_is_back = AtomicBool::new(false);
    let give_back = async {
        let mut rng = client.rng();
        for nth in 0.. {
            let pause = if nth <= ALONE { SOON + client.moment(SOON) } else { client.moment(SOON / 20) };
            sleep(pause).await;
            if hoard.is_empty() {
                break;
            }
            let item = hoard.swap_remove(rng.usize(..hoard.len()));
            if timeout(Duration::ZERO, item.lost()).await.is_err() {
                client.record(Event::Returned { queue: queue(), item: name_of(item.data()) });
            }
            drop(item);
        }
        all_is_back.store(true, Ordering::Relaxed);
    };
    let take = async {
        loop {
            // One call that waits for as long as it takes, not one that begins anew all the time.
            if let Some(item) = next(&client, &mut consumer, SOON * 2).await {
                drop(item.ack().await);
            } else if all_is_back.load(Ordering::Relaxed) && items.count().await.is_ok_and(|count| count == 0)
            {
                break;
            }
        }
    };
    tokio::join!(give_back, take);
    items.flush().await?;
    Ok(())
}

async fn next(client: &Client, consumer: &mut LockingConsumer, most: Duration) -> Option<LockingDelivery> {
    let item = timeout(most, consumer.next()).await.ok()?.ok()?;
    let name = name_of(item.data());
    client.record(Event::Taken { queue: queue(), item: name, attempt: item.attempt() });
    Some(item)
}
