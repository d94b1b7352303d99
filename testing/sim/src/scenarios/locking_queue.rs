//! [`LockingQueue`]: every client puts items and takes those of all, one at a time. Consumers acknowledge, put back, put
//! aside, let go and die. When there are no more faults every client takes what is left.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator_recipes::queue::{Error, LockingDelivery, LockingQueue};

use super::Scenario;
use super::holding::{Attempt, Holding};
use super::queue::{self, bucket_size, name_of, put, queue};
use crate::checkers::{Checker, Delivery, Exclusion};
use crate::history::{Event, Mode, Name, Outcome};
use crate::{Client, Failure};

const QUEUE: &str = "/queue";
/// After that it is put aside.
const MOST_DELIVERIES: u32 = 6;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "locking_queue",
    "LockingQueue: in order, worked off once, by nobody who has lost its claim",
    |client| Box::pin(work(client)),
)
.checked_by(checkers)
.leaves(&["/queue", "/queue/**"])
.operator(&["/queue/items/*/*/claim"])
// Until the later consumer has counted its delivery.
.settled(&[("/queue/items/*/*/claim", "..")])
.crowd();

fn checkers() -> Vec<Arc<dyn Checker>> {
    vec![Arc::new(Delivery::exactly_once().in_order().counted()), Arc::new(Exclusion::mutual())]
}

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let items = LockingQueue::new(&zk, QUEUE).max_deliveries(MOST_DELIVERIES);
    let items = items.bucket_size(bucket_size(&mut rng));
    let mut consumer = items.consumer();
    // A claim that was begun for a call that is over is handed out by the next one.
    let mut attempt = None;
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            put(&client, |item| items.put(item)).await;
            continue;
        }
        attempt.get_or_insert_with(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
        let next = Box::pin(timeout(client.session_timeout(), consumer.next()));
        if let Some(Ok(Ok(item))) = client.maybe_cancel(next).await
            && let Some(attempt) = attempt.take()
        {
            settle(&client, attempt, item).await?;
        }
    }
    client.faults_are_over().await;
    loop {
        let at = attempt.take().unwrap_or_else(|| Attempt::begin(&client, &queue(), Mode::Exclusive));
        match timeout(client.session_timeout(), consumer.next()).await {
            Ok(Ok(item)) => settle(&client, at, item).await?,
            Ok(Err(_)) => at.missed(),
            Err(_) if items.count().await.is_ok_and(|count| count == 0) => break,
            Err(_) => at.missed(),
        }
    }
    let mut dead = items.dead_letters().consumer();
    while let Some(item) = dead.try_next().await? {
        client.record(Event::Dead { queue: queue(), item: name_of(item.data()) });
        item.ack().await?;
    }
    items.flush().await?;
    Ok(())
}

async fn settle(client: &Client, attempt: Attempt, item: LockingDelivery) -> Result<(), Failure> {
    let (mut rng, name) = (client.rng(), name_of(item.data()));
    let holding = begin(client, attempt, &name, item.attempt(), item.fencing_token());
    if !use_it(client, &holding, item.lost()).await {
        return too_late(item.ack()).await;
    }
    holding.releasing();
    match rng.u8(..8) {
        0 => drop(item),
        1 => drop(client.maybe_cancel(item.requeue()).await),
        2 => drop(client.maybe_cancel(item.reject("by chance")).await),
        _ => done(client, &holding, name, item.ack()).await,
    }
    Ok(())
}

/// Something was handed out.
pub(super) fn begin(
    client: &Client,
    attempt: Attempt,
    name: &Name,
    delivery: u32,
    token: zk_curator::FencingToken,
) -> Holding {
    let holding = attempt.came_to(name, token);
    client.record(Event::Taken { queue: queue(), item: Name::clone(name), attempt: delivery });
    holding
}

/// Works on it, for as long as it is not known to be lost: whether it was not. What it has effects on knows tokens.
pub(super) async fn use_it(client: &Client, holding: &Holding, lost: impl Future<Output = ()>) -> bool {
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

/// Who has lost its claim, and does not know or care, is refused.
pub(super) async fn too_late(settled: impl Future<Output = Result<(), Error>>) -> Result<(), Failure> {
    if settled.await.is_ok() { Err("it was worked off by somebody who had lost it".into()) } else { Ok(()) }
}

/// Says that it is done with, and writes down what becomes of that.
pub(super) async fn done(
    client: &Client,
    holding: &Holding,
    item: Name,
    settled: impl Future<Output = Result<(), Error>>,
) {
    client.record(Event::Finishing { queue: queue(), item: Name::clone(&item) });
    let outcome = queue::settled(client.maybe_cancel(settled).await);
    client.record(Event::Done { queue: queue(), item, outcome });
    if outcome == Outcome::Sure {
        holding.released();
    }
}
