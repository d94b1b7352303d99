//! [`DistributedAtomicLong`]: processes add, set, compare and read, also concurrently, while an
//! operator deletes the node or their receipts. The counter is judged as one number.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::counter::{DistributedAtomicLong, PromotedToLock};

use super::Scenario;
use super::support::calling::{Caller, Counting};
use crate::checkers::{Doubts, Linearizable};
use crate::history::Operation;
use crate::{Client, Failure};

const COUNTER: &str = "/counters/orders";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "counter",
    "DistributedAtomicLong: applied once or not at all",
    &["responses"],
    |sim| {
        sim.workload(|client| work(client, false))
            .checker(Linearizable::from(0).deleted_with(COUNTER, COUNTER))
            .checker(Doubts)
            .operator([COUNTER, "/counters/orders/_r_*"])
            .leaves(["/counters", COUNTER, "/counters/lock"])
    },
);

pub(super) const WITHOUT_RECEIPTS: Scenario = Scenario::new(
    "counter_without_receipts",
    "DistributedAtomicLong: some processes write no receipts, and the node is not deleted",
    &["responses"],
    |sim| {
        sim.workload(|client| work(client, true))
            .checker(Linearizable::from(0))
            .checker(Doubts)
            .operator(["/counters/orders/_r_*"])
            .leaves(["/counters", COUNTER, "/counters/lock"])
    },
);

async fn work(client: Client, may_be_unproven: bool) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let mut counter = DistributedAtomicLong::builder(&zk, COUNTER);
    let is_proven = !may_be_unproven || rng.bool();
    if !is_proven {
        counter = counter.without_receipts();
    }
    if rng.bool() {
        let lock = PromotedToLock::new("/counters/lock", Duration::from_secs(1));
        counter = counter.retries(1).then_lock(lock);
    }
    let counting =
        Counting::new(Caller::new(&client, &zk, COUNTER).proven(is_proven), counter.build())
            .subtracting();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.bool() {
            counting.ask().await;
        } else {
            tokio::join!(biased; counting.ask(), counting.ask(), counting.ask());
        }
    }
    client.faults_are_over().await;
    counting.call(Operation::Get).await;
    Ok(())
}
