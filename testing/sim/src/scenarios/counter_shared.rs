//! [`DistributedAtomicLong`]: the tasks of a process share one counter, so their operations share
//! writes. Processes that contend take the lock of the counter.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::counter::{AtomicBuilder, DistributedAtomicLong, PromotedToLock};

use super::Scenario;
use super::support::calling::{Caller, Counting};
use crate::checkers::{Doubts, Linearizable};
use crate::history::Operation;
use crate::{Client, Failure};

const COUNTER: &str = "/counters/shared";
const LOCK: &str = "/counters/lock";
/// The number of tasks in a process, and of operations of each task in a round.
const TASKS: usize = 4;
const ACTS: usize = 3;

pub(super) const COMBINED: Scenario = Scenario::new(
    "counter_combined",
    "DistributedAtomicLong: the tasks of a process share writes",
    &["responses"],
    |sim| {
        sim.workload(|client| work(client, |counter| counter))
            .checker(Linearizable::from(0))
            .checker(Doubts)
            .operator(["/counters/shared/_r_*"])
            .leaves(["/counters", COUNTER])
    },
);

pub(super) const PROMOTED: Scenario = Scenario::new(
    "counter_promoted",
    "DistributedAtomicLong: contending processes take the lock of the counter",
    &["responses"],
    |sim| {
        sim.workload(|client| {
            let lock = || PromotedToLock::new(LOCK, Duration::from_secs(1));
            work(client, move |counter| counter.retries(0).then_lock(lock()))
        })
        .checker(Linearizable::from(0))
        .checker(Doubts)
        .operator(["/counters/lock/*"])
        .sequences([LOCK])
        .leaves(["/counters", COUNTER, LOCK])
    },
);

async fn work(
    client: Client,
    settings: impl FnOnce(AtomicBuilder<i64>) -> AtomicBuilder<i64>,
) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let counter = settings(DistributedAtomicLong::builder(&zk, COUNTER)).build();
    let counting = Arc::new(Counting::new(Caller::new(&client, &zk, COUNTER), counter));
    while client.next_round().is_some() {
        let pause = client.moment(Duration::from_millis(100));
        let task = |_| {
            let (client, counting) = (client.clone(), Arc::clone(&counting));
            client.clone().spawn(async move {
                sleep(pause).await;
                for _ in 0..ACTS {
                    sleep(client.moment(Duration::from_millis(2))).await;
                    counting.ask().await;
                }
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(task).collect();
        for task in tasks {
            task.await;
        }
    }
    client.faults_are_over().await;
    counting.call(Operation::Get).await;
    Ok(())
}
